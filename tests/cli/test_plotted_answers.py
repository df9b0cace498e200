"""Check that exactly the commands with plots offer `-o svg`, `-o png` and `--plot`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import Run
from metrics_texts import write_attempts
from printed_commands import answer_command_line as answer_to

from kschedctl.api.copying import replace
from kschedctl.cli.main import COMMANDS, main
from kschedctl.cli.output_options import Answer

WEB = "tests/lint/charts/web-app.yaml"
PLOTTED = {
    "explain": ["explain", "shop/web-6d4cf56db6-h8s2k", "--demo"],
    "simulate": ["simulate", "-f", WEB, "--demo"],
    "capacity": ["capacity", "-f", WEB, "--demo"],
    "drain": ["drain", "general-a1", "--demo"],
    "consolidate": ["consolidate", "--demo"],
    "make-room": ["make-room", "shop/checkout-7d9f6c5b8-x2x4q", "--demo"],
    "rebalance": ["rebalance", "--demo"],
    "size": ["size", "--demo"],
    "failures": ["failures", "--demo"],
    "whatif": ["whatif", '{"steps": [{"drain": {"nodes": ["general-a1"]}}]}', "--demo"],
    "pending": ["explain", "-A", "--demo"],
    "audit": ["audit", "--demo"],
    "packing": ["packing", "--demo"],
    "latency": ["latency", "--metrics", "METRICS"],
    "races": ["races", "--nodes", "100", "--nodes", "1000", "--rate", "10", "--duration", "60s"],
}
EACH = pytest.mark.parametrize("name", PLOTTED)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Return a function that builds the command line of a command with plots."""
    metrics = tmp_path_factory.mktemp("plotted") / "metrics.txt"
    metrics.write_text(
        write_attempts({0.003: 900, 0.02: 90, 0.7: 10}) + write_attempts({0.05: 5, 3.0: 5}, "unschedulable")
    )
    return lambda name: [str(metrics) if word == "METRICS" else word for word in PLOTTED[name]]


@pytest.fixture(scope="module")
def pictured(asked: Callable[[str], list[str]]) -> Callable[[str], Answer]:
    """Return a function that returns the answer of a command with `-o svg`, computed once."""
    pytest.importorskip("matplotlib")

    @cache
    def pictured(name: str) -> Answer:
        answer = answer_to([*asked(name), "-o", "svg"])
        assert answer is not None
        return answer

    return pictured


@EACH
def test_plots_are_written_as_a_picture(pictured: Callable[[str], Answer], name: str) -> None:
    out = str(pictured(name).render())
    root = ElementTree.fromstring(out)
    assert root.tag == f"{SVG}svg"
    assert (root.findtext(f"{SVG}title") or "").strip()
    assert pictured(name).render() == out


@pytest.mark.parametrize("name", ["explain", "simulate", "capacity", "drain", "failures", "whatif"])
def test_picture_says_that_the_answer_is_uncertain(
    run: Run, pictured: Callable[[str], Answer], tmp_path: Path, name: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://localhost:9', filterVerb: filter, weight: 1}]\n"
    )
    code, out, _ = run(*PLOTTED[name], "--config", str(config), "-o", "svg")
    root = ElementTree.fromstring(out)
    told = "Not certain: Extenders were not called; pass --call-extenders"
    assert code == 5
    assert [each.text for each in root.iter(f"{SVG}text")].count(told) == 1
    assert (root.findtext(f"{SVG}desc") or "").splitlines()[-1] == told
    assert "Not certain" not in str(pictured(name).render())


def test_png_is_written_to_a_pipe_unchanged() -> None:
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-m", "kschedctl", *PLOTTED["drain"], "-o", "png"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.stdout[:8], done.stdout[-8:-4], done.stderr) == (b"\x89PNG\r\n\x1a\n", b"IEND", b"")


@EACH
def test_plots_are_shown_below_the_tables_in_80_columns(
    asked: Callable[[str], list[str]],
    pictured: Callable[[str], Answer],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    answer = answer_to([*asked(name), "--plot"])
    assert answer is not None
    assert answer.exit_code == pictured(name).exit_code
    plotted = str(answer.render()).splitlines()
    tables = str(replace(answer, style=replace(answer.style, plots=False)).render()).splitlines()
    assert len(plotted) > len(tables)
    assert [line for line in tables if line not in plotted] == []
    assert max(len(line) for line in plotted if not line.startswith(("  kschedctl ", "  printf "))) <= 80
    assert "\x1b" not in "".join(plotted)


def test_colours_depend_on_the_color_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = run(*PLOTTED["failures"], "--plot", "--color", "always").out
    assert re.search("\x1b\\[36m█+\x1b\\[0m", coloured)
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == run(*PLOTTED["failures"], "--plot").out


def test_plots_are_ascii_if_the_encoding_is() -> None:
    command = [sys.executable, "-m", "kschedctl", *PLOTTED["races"], "--plot"]
    done = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, text=True, check=False)
    plot = done.stdout.partition("% of pods:")[2].partition("Simulation settings")[0]
    assert re.search(r"\d\|.*o{2}", plot)
    assert "\\u" not in plot


@pytest.mark.parametrize("form", ["svg", "png"])
@pytest.mark.parametrize("name", sorted({*COMMANDS} - {*PLOTTED, "sampling"}))
def test_commands_without_plots_do_not_offer_them(run: Run, name: str, form: str) -> None:
    code, out, err = run(
        *{"snapshot": ("snapshot", "show", "x"), "config": ("config", "view")}.get(name, (name,)), "-o", form
    )
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--plot" not in run(name, "--help-all").out


def test_an_answer_without_plots_says_so(run: Run) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run("sampling", "--demo", "-o", "svg")
    assert (code, out) == (2, "")
    assert err == "error: -o svg draws plots, and this answer has none (-o html has everything)\n"
    plain = run("sampling", "--demo")
    said = "note: this answer has no plots, so --plot has no effect\n"
    assert run("sampling", "--demo", "--plot") == (plain.code, plain.out, f"{said}{plain.err}")
    assert run("sampling", "--demo", "--plot", "-q") == (plain.code, plain.out, "")


def test_usage_errors_are_reported_before_reading(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*options: str) -> str:
        code, out, err = run("drain", "n1", "--snapshot", "/nowhere.ksnap", *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err

    assert "--plot works only with -o table or wide" in refused("--plot", "-o", "json")
    assert "--plot works only with -o table or wide" in refused("--plot", "-o", "svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "-o png needs matplotlib, which is not installed (pip install 'kschedctl[plots]')" in refused("-o", "png")
    monkeypatch.setitem(sys.modules, "plotext", None)
    assert "--plot needs plotext, which is not installed (pip install 'kschedctl[plots]')" in refused("--plot")


def test_png_is_not_written_to_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main([*PLOTTED["drain"], "-o", "png"]) == 2
    assert capsys.readouterr() == ("", "error: -o png cannot be shown in a terminal (write it to a file: > plot.png)\n")


def test_pictures_cannot_be_watched(run: Run) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run("explain", "web", "--watch", "-o", "svg")
    assert (code, out, err) == (2, "", "error: --watch: -o svg shows a single moment and cannot be updated\n")
