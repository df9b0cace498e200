"""Plots are drawn in characters where a terminal can show them, and nowhere else."""

from __future__ import annotations

import re
import sys

import pytest

from kschedctl.cli import options
from kschedctl.render import markdown
from kschedctl.render.page import UNFOLDED, Column, Plot, Series, Style, Table
from kschedctl.render.plots import ticks
from kschedctl.render.terminal import show

PLOT = Plot("nodes", "lost", (Series("mean", ((0, 0), (100, 10))), Series("max", ((0, 10), (100, 10)))))
TABLE = Table((Column("nodes", right=True),), (("100",),))


def drawn(plot: Plot, width: int = 80, color: bool = False) -> list[str]:
    return show((plot,), Style(width=width, color=color, plots=True)).splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_go_from_the_first_point_to_the_last(width: int) -> None:
    legend, _, *field, frame, labels, title = drawn(PLOT, width)

    assert legend == "  lost:  • mean   × max"
    assert title.strip() == "nodes"
    assert re.fullmatch(r" *10┤×+│", field[0]), "max stays at the top"
    assert re.match(r" *0┤•", field[-1]), "mean begins at the bottom left"
    assert [line.count("•") > 0 for line in field[1:]] == [True] * (len(field) - 1), "and crosses every line"
    assert labels.split() == ["0", "20", "40", "60", "80", "100"]
    assert max(map(len, (legend, *field, frame, labels, title))) <= width


def test_colours_change_no_character() -> None:
    coloured = "\n".join(drawn(PLOT, color=True))

    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines() == drawn(PLOT)
    assert "\x1b[36m•" in coloured
    assert "\x1b[33m×" in coloured


def test_names_from_a_cluster_cannot_steer_the_terminal() -> None:
    plot = Plot("x\x1b[2J", "y\n", (Series("\x1b]0;owned\x07[bold]", ((0, 1), (1, 2))),))

    shown = drawn(plot)

    assert shown[0] == "  y\\n:  • \\x1b]0;owned\\x07[bold]"
    assert shown[-1].strip() == "x\\x1b[2J"
    assert all(line.isprintable() for line in shown)


@pytest.mark.parametrize("points", [(), ((1, 1),), ((1, 1), (1, 2)), ((float("nan"), 0), (1, float("inf")), (2, 2))])
def test_nothing_is_drawn_of_less_than_two_places(points: tuple[tuple[float, float], ...]) -> None:
    assert drawn(Plot("x", "y", (Series("s", points),))) == []


def test_values_that_are_all_the_same_make_a_level_line() -> None:
    field = drawn(Plot("x", "y", (Series("s", ((1, 0), (5, 0))),)))

    assert sum("•" in line for line in field[1:]) == 1


def test_pipes_and_markdown_have_the_table_alone() -> None:
    page = (TABLE, PLOT)

    assert show(page, Style(width=120)) == show((TABLE,), Style(width=120))
    assert show(page, Style(width=UNFOLDED)) == show((TABLE,), Style(width=UNFOLDED))
    assert markdown.show(page, Style()) == markdown.show((TABLE,), Style())


def test_without_the_library_there_is_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)

    assert show((TABLE, PLOT), Style(plots=True)) == show((TABLE,), Style())


class Terminal:
    def __init__(self, encoding: str = "utf-8", terminal: bool = True) -> None:
        self.encoding, self.terminal = encoding, terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("stdout", "width", "draws"),
    [
        (Terminal(), 80, True),
        (Terminal("UTF-8"), 200, True),
        (Terminal(), 79, False),
        (Terminal("ascii"), 80, False),
        (Terminal(terminal=False), 120, False),
    ],
)
def test_a_plot_wants_a_terminal_with_room(
    monkeypatch: pytest.MonkeyPatch, stdout: Terminal, width: int, draws: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("COLUMNS", str(width))

    assert options.Output().answer(None).style.plots is draws


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
    assert ticks(values) == expected
