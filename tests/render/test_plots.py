"""Check that plots are drawn in characters on request, whatever characters the terminal can show."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import pytest

from kschedctl.cli.output_options import Drawn
from kschedctl.commands.failures.page import build_page
from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.errors import UsageError
from kschedctl.render import markdown
from kschedctl.render.page import UNFOLDED, Heading, Page, Style, Table, find_plots
from kschedctl.render.plots.plot import (
    Axis,
    Plot,
    PlotKind,
    Point,
    Series,
    build_bar_plot,
    build_line_points,
    build_scale,
    choose_ticks,
    describe_plot,
    shorten_middle,
)
from kschedctl.render.terminal import render_text
from kschedctl.reports.columns import Column

TWO = (Series("mean", ((0, 0), (100, 10))), Series("max", ((0, 10), (100, 10))))
PLOT = Plot("Losses", Axis("nodes"), Axis("lost"), TWO)
TABLE = Table((Column("nodes", right=True),), (("100",),))


def build_plot(*points: Point) -> Plot:
    """Build a plot of a series with these points."""
    return Plot("t", Axis("x"), Axis("y"), (Series("s", points),))


def draw_plot(plot: Plot, width: int = 80, **style: bool) -> list[str]:
    return render_text((plot,), Style(width=width, plots=True, **style)).splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_go_from_the_first_point_to_the_last(width: int) -> None:
    title, legend, _, *field, frame, labels, axis = draw_plot(PLOT, width)

    assert (title, legend) == ("  Losses", "  lost:  • mean   × max")
    assert axis.strip() == "nodes"
    assert re.fullmatch(r" *10┤×+│", field[0]), "max stays at the top"
    assert re.match(r" *0┤•", field[-1]), "mean begins at the bottom left"
    assert [line.count("•") > 0 for line in field[1:]] == [True] * (len(field) - 1), "and crosses every line"
    assert labels.split() == ["0", "20", "40", "60", "80", "100"]
    assert max(map(len, (legend, *field, frame, labels, axis))) <= width


def test_colours_change_no_character() -> None:
    coloured = "\n".join(draw_plot(PLOT, color=True))

    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines() == draw_plot(PLOT)
    assert "\x1b[36m•" in coloured
    assert "\x1b[33m×" in coloured


def test_names_from_a_cluster_cannot_control_the_terminal() -> None:
    lines = (Series("\x1b]0;owned\x07[bold]", ((0, 1), (1, 2))), Series("s", ((0, 1),)))

    shown = draw_plot(Plot("t\x9b", Axis("x\x1b[2J"), Axis("y\n"), lines))

    assert shown[:2] == ["  t\\x9b", "  y\\n:  • \\x1b]0;owned\\x07[bold]   × s"]
    assert shown[-1].strip() == "x\\x1b[2J"
    assert all(line.isprintable() for line in shown)


@pytest.mark.parametrize("points", [(), ((1, 1),), ((1, 1), (1, 2)), ((float("nan"), 0), (1, float("inf")), (2, 2))])
def test_nothing_is_drawn_for_fewer_than_two_points(points: tuple[Point, ...]) -> None:
    assert draw_plot(build_plot(*points)) == []


def test_equal_values_make_a_level_line() -> None:
    assert sum("•" in line for line in draw_plot(build_plot((1, 0), (5, 0)))) == 1


@pytest.mark.parametrize("width", [120, UNFOLDED])
def test_table_has_no_plots_by_default(width: int) -> None:
    page: Page = (TABLE, PLOT, Heading("Pods"), PLOT, Heading("Nodes"), TABLE)
    tables: Page = (TABLE, Heading("Nodes"), TABLE)

    assert render_text(page, Style(width=width)) == render_text(tables, Style(width=width))
    assert markdown.render_markdown(page, Style(plots=True)) == markdown.render_markdown(tables, Style())


def test_plots_in_wide_pipes_have_a_readable_width() -> None:
    assert max(map(len, draw_plot(PLOT, UNFOLDED))) == 102


def test_missing_library_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)

    with pytest.raises(UsageError, match=r"needs plotext.*pip install 'kschedctl\[plots\]'"):
        draw_plot(PLOT)
    with pytest.raises(UsageError, match="plotext"):
        Drawn(plot=True)


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", False), ("UTF8", False), ("ascii", True), (None, True)])
def test_ascii_output_has_only_ascii(monkeypatch: pytest.MonkeyPatch, encoding: str | None, expected: bool) -> None:
    class Pipe:
        def __init__(self) -> None:
            self.encoding = encoding

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdout", Pipe())

    style = Drawn(plot=True).build_answer(None).style

    assert (style.plots, style.ascii_only, style.color) == (True, expected, False)


@pytest.mark.parametrize("plot", [PLOT, *build_bar_plot("t", ("node", "pods"), {"n" * 20: {"mean": 1, "max": 2}}, 9)])
def test_ascii_plot_has_the_same_content(plot: Plot) -> None:
    plain, ascii_only = draw_plot(plot), draw_plot(plot, ascii_only=True)

    assert all(line.isascii() for line in ascii_only)
    words = re.compile(r"\b(?:lost|mean|max|nodes|pods|n+|and|\d+)\b")
    assert words.findall("\n".join(ascii_only)) == words.findall("\n".join(plain))
    assert list(map(len, ascii_only)) == list(map(len, plain))
    coloured = "\n".join(draw_plot(plot, ascii_only=True, color=True))
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines() == ascii_only


PODS = {"a": {"before": 30, "after": 15}, "b": {"before": 0, "after": 60}}


def test_length_of_bars_is_proportional() -> None:
    _, legend, *rows = draw_plot(*build_bar_plot("t", ("zone", "pods"), PODS, 5))

    assert legend == "  pods:  █ before   ▒ after"
    assert rows.pop() == "  and 3 more"
    lengths = [max(row.count("█"), row.count("▒")) for row in rows]
    longest = 80 - len("  a ") - len(" 60")
    assert lengths == [round(longest / 2), round(longest / 4), 0, longest]
    assert [row.split()[-1] for row in rows] == ["30", "15", "0", "60"]
    assert [row.split()[0] for row in rows[::2]] == ["a", "b"]
    assert len(rows[3]) == 80


def test_stacked_bars_have_their_pieces_in_order() -> None:
    title, _, *rows = draw_plot(*build_bar_plot("Sums", ("zone", "pods"), PODS, 2, stacked=True))

    assert title == "  Sums"
    assert re.fullmatch("  a █+▒+ 45", rows[0])
    assert re.fullmatch("  b ▒+ 60", rows[1])
    longest = 80 - len("  a ") - len(" 60")
    assert rows[0].count("█") == round(longest / 2)
    assert rows[0].count("█▒") == 1
    assert len(rows[0]) == len("  a  45") + round(longest * 3 / 4)


def test_no_bars_for_zero() -> None:
    assert build_bar_plot("t", ("zone", "pods"), {"a": {"before": 0, "after": 0}}, 1) == ()
    assert build_bar_plot("t", ("zone", "pods"), {}, 0) == ()


def test_bars_beyond_the_limit_are_counted() -> None:
    (plot,) = build_bar_plot("t", ("node", "pods"), {f"n{i}": {"pods": 5000 - i} for i in range(5000)}, 5000)

    assert plot.places == tuple(f"n{i}" for i in range(20))
    assert plot.note == "and 4,980 more"


def test_steps_hold_until_the_next_point() -> None:
    steps = Plot("t", Axis("x"), Axis("y"), (Series("s", ((0, 7), (5, 3), (9, 0))),), PlotKind.STEPS)

    assert build_line_points(steps, steps.series[0]) == ((0, 7), (5, 7), (5, 3), (9, 3), (9, 0))
    assert build_line_points(steps, Series("none", ())) == ()


@pytest.mark.parametrize(
    ("values", "expected"), [((0, 2), "0 1 2"), ((0, 1), "0 1"), ((3, 3), "3 4"), ((0, 1.5), "0 0.5 1 1.5")]
)
def test_counts_have_whole_ticks(values: Sequence[float], expected: str) -> None:
    assert " ".join(build_scale(Axis("pods"), values).ticks.values()) == expected


def test_logarithmic_axis_has_equal_decades() -> None:
    found = build_scale(Axis("seconds", decades=True), [0.002, 3.0])

    assert list(found.ticks.values()) == ["0.001", "0.01", "0.1", "1", "10"]
    assert [round(found.position_of(value), 9) for value in (0.001, 0.01, 10)] == [-3, -2, 1]
    plot = Plot("t", Axis("seconds", True), Axis("y"), (Series("s", ((0, 1), (0.1, 2), (1, 3))),))
    assert build_line_points(plot, plot.series[0]) == ((0.1, 2), (1, 3))


def test_plot_has_a_text_alternative() -> None:
    (pods,) = build_bar_plot("t", ("zone", "pods"), PODS, 4)
    (stacks,) = build_bar_plot("t", ("zone", "pods"), PODS, 2, stacked=True)

    assert describe_plot(PLOT) == "lost over nodes: mean from 0 at 0 to 10 at 100; max from 10 at 0 to 10 at 100"
    assert describe_plot(pods) == "pods by zone: a: 30 before, 15 after, b: 0 before, 60 after, and 2 more"
    assert describe_plot(stacks) == "pods by zone: a: 45, b: 60"


@pytest.mark.parametrize(("name", "expected"), [("n" * 28, "n" * 28), ("a" * 20 + "z" * 20, "a" * 14 + "…" + "z" * 13)])
def test_long_names_lose_their_middle(name: str, expected: str) -> None:
    assert shorten_middle(name, 28) == expected


@pytest.mark.parametrize(("max_length", "expected"), [(0, "…"), (1, "…"), (2, "a…"), (3, "a…z"), (4, "ab…z")])
def test_names_lose_their_middle_even_if_there_is_hardly_room(max_length: int, expected: str) -> None:
    assert shorten_middle("abcxyz", max_length) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5, 100], [0, 20, 40, 60, 80, 100]),
        ([0, 0.37], [0, 0.1, 0.2, 0.3, 0.4]),
        ([-4, 1_000_000], [-200_000, 0, 200_000, 400_000, 600_000, 800_000, 1_000_000]),
        ([3, 3], [3, 3.2, 3.4, 3.6, 3.8, 4]),
    ],
)
def test_ticks_are_round_numbers_around_the_values(values: list[float], expected: list[float]) -> None:
    assert choose_ticks(values) == expected


@pytest.mark.parametrize(("unplaced", "drawn_unasked"), [((3, 3), False), ((3, 1), True)])
def test_equal_losses_are_drawn_only_on_request(unplaced: Sequence[int], drawn_unasked: bool) -> None:
    losses = tuple(Failure(f"zone-{i}", (f"n{i}",), 4, number, 0, 0) for i, number in enumerate(unplaced))
    report = Failures("zone", 2, False, 0, losses)
    assert bool(find_plots(build_page(report, Style()))) is drawn_unasked
    assert find_plots(build_page(report, Style(plots=True)))
