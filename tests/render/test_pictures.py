"""Check that plots are valid, reproducible SVG and PNG with hostile names."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from reports import GATED, HOSTILE, HOSTILE_PENDING, HOSTILE_REPORT, PENDING, SCHEDULABLE, UNSCHEDULABLE

from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.errors import UsageError
from kschedctl.render.page import Style
from kschedctl.render.plots.plot import Axis, Plot, PlotKind, Series, build_bar_plot
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.document import Document
from kschedctl.reports.report import Answers, ClusterAnswer

pytest.importorskip("matplotlib", reason="matplotlib is not installed, so no picture was drawn: pip install '.[test]'")
from kschedctl.render.plots import pictures

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Plot("Lost", Axis("nodes"), Axis("%"), (Series("a", ((1, 2), (3, 4))), Series("b", ((1, 0), (3, 1)))))
STEPS = Plot("Room", Axis("pods"), Axis("nodes"), (Series("n", ((0, 7), (9, 0))),), PlotKind.STEPS)
BARS = build_bar_plot("Pods", ("zone", "pods"), {"a": {"before": 1, "after": 2}, "b": {"before": 3, "after": 0}}, 2)
STACKS = build_bar_plot(
    "Scores", ("node", "points"), {f"n{i}": {"Fit": i + 1, "Spread": 9} for i in range(20)}, 5000, True
)
ALL = (CURVE, STEPS, *BARS, *STACKS)


def draw_picture(document: Document, form: str = "svg") -> str | bytes:
    return RENDERERS[form](document, Style())


def list_texts(drawn: str | bytes) -> list[str]:
    """Return the texts in an SVG."""
    assert isinstance(drawn, str)
    return ["".join(each.itertext()).strip() for each in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


def test_svg_has_its_texts_as_text() -> None:
    written = list_texts(pictures.render_svg(ALL))

    assert [title for title in ("Lost", "Room", "Pods", "Scores") if title in written] == [plot.title for plot in ALL]
    assert {"nodes", "%", "a", "b", "before", "after", "Fit", "Spread", "n0", "n19", "and 4,980 more"} <= set(written)
    assert "n20" not in written


def test_picture_has_a_text_alternative() -> None:
    root = ElementTree.fromstring(pictures.render_svg((CURVE,)))
    title, told = root.find(f"{SVG}title"), root.find(f"{SVG}desc")

    assert (title is not None and title.text) == "Lost"
    assert (told is not None and told.text) == "% over nodes: a from 2 at 1 to 4 at 3; b from 0 at 1 to 1 at 3"
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title desc")
    assert [each.get("id") for each in (title, told) if each is not None] == ["title", "desc"]


def test_svg_loads_nothing_and_has_no_timestamp() -> None:
    drawn = pictures.render_svg(ALL)

    assert not any(word in drawn for word in ("<script", "<image", "<!DOCTYPE", "<metadata", "dc:date"))
    links = [value for each in ElementTree.fromstring(drawn).iter() for key, value in each.items() if "href" in key]
    assert all(link.startswith("#") for link in links)


@pytest.mark.parametrize("plots", [(CURVE,), BARS, ALL], ids=["curve", "bars", "all"])
def test_height_of_a_png_follows_its_content(plots: tuple[Plot, ...]) -> None:
    drawn = pictures.render_png(plots)

    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", drawn[16:24])
    assert width == 9 * 144
    assert height == pytest.approx(144 * sum(map(pictures.compute_height, plots)), abs=1)


AGAIN = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/render")
from test_pictures import ALL, pictures
Path(sys.argv[1]).write_bytes(pictures.render_svg(ALL).encode() + pictures.render_png(ALL))
"""


def test_equal_plots_are_equal_bytes(tmp_path: Path) -> None:
    """This also holds in another process whose folder has other settings of matplotlib."""
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.facecolor: red\nsvg.hashsalt: other\n")
    environment = {"MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7", "HOME": str(tmp_path), "PATH": "/usr/bin"}
    command = [sys.executable, "-c", AGAIN, str(tmp_path / "again")]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    here = pictures.render_svg(ALL).encode() + pictures.render_png(ALL)
    assert (tmp_path / "again").read_bytes() == here


NAMES = [
    HOSTILE,
    "$\\frac{1}{$",
    "$x^2$",
    "</text><script>alert(1)</script>",
    "<![CDATA[ ]]> & &amp; \"'",
    "_hidden",
    "\x00\x08\ud800\ufffe",
    "節点\U0001f680",
    "x" * 50_000,
    "",
    " ",
    "a\nb",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_text_and_nothing_else(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    lines = Plot(name, Axis(name), Axis(name), (Series(name, ((1, 2), (3, 4))), Series("b", ((1, 2), (2, 2)))))
    plots = (lines, *build_bar_plot(name, (name, name), {name: {name: 1, "b": 2}}, 3))

    written = list_texts(pictures.render_svg(plots))

    assert pictures.render_png(plots).startswith(b"\x89PNG")
    if name.isprintable() and 0 < len(name.strip()) < 40:
        assert written.count(name) >= 7, "titles, axes, keys and the place"
    assert all(text.isprintable() for text in written)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("form", ["svg", "png"])
def test_reports_with_plots_are_pictures(form: str) -> None:
    for document in (SCHEDULABLE, UNSCHEDULABLE, PENDING, HOSTILE_REPORT, HOSTILE_PENDING):
        assert draw_picture(document, form)


def test_plots_of_scores_name_the_pod() -> None:
    written = list_texts(draw_picture(SCHEDULABLE))
    assert "Scores by plugin of 3 of 3 feasible nodes for shop/web" in written
    assert {"n1", "n2", "n3", "350", "310", "NodeResourcesFit", "TaintToleration"} <= set(written)


def test_pending_pods_are_counted_by_cause_and_refused_nodes_by_reason() -> None:
    written = list_texts(draw_picture(PENDING))
    assert written.index("Insufficient cpu") < written.index("Schedulable: a node fits now")
    assert {"3", "1", "Pending pods by cause"} <= set(written)
    refused = list_texts(draw_picture(UNSCHEDULABLE))
    assert {"node(s) had untolerated taint(s)", "for this alone", "for other reasons as well"} <= set(refused)


def test_plots_of_several_clusters_are_stacked() -> None:
    answers = tuple(ClusterAnswer(name, True, replace(SCHEDULABLE, pod="a/b")) for name in ("east.ksnap", "west.ksnap"))
    titles = [text for text in list_texts(draw_picture(Answers(answers, 2))) if "Scores" in text]
    assert [title.split(":")[0] for title in titles] == ["east.ksnap", "west.ksnap"]


def test_number_of_plots_is_limited() -> None:
    written = list_texts(pictures.render_svg((STEPS,) * 500))
    assert written.count("Room") == 12
    assert "… 488 more plots are not drawn" in written


@pytest.mark.parametrize("form", ["svg", "png"])
@pytest.mark.parametrize("document", [GATED, PendingPods("across all namespaces")], ids=["gated", "nothing pending"])
def test_answer_without_plots_is_an_error(document: Document, form: str) -> None:
    with pytest.raises(UsageError, match=f"-o {form} draws plots, and this answer has none"):
        draw_picture(document, form)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_missing_library_error_says_how_to_install_it(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=rf"-o {form} needs matplotlib.*pip install 'kschedctl\[plots\]'"):
        draw_picture(SCHEDULABLE, form)
