"""Bar plots as numbers for an SVG drawing in HTML (`curves` explains why no library draws them).

Names stand above their bars, and widths are percentages, so that a phone can show the plot as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.render.plots.plot import Plot, PlotKind, compute_totals, describe, format_number, shorten_middle
from kschedctl.text.printable import printable

MAX_BAR_WIDTH = 84
"""Width of the longest bar in percent; its number stands beside it."""
THICK, GAP, NAME = 16, 8, 17
"""Pixels: of a bar, between places, of a name."""
LOOKS = 8
"""Number of distinct looks; from the eighth series on all pieces look alike."""
LABEL = 44
"""Longest name above a bar in characters."""


@dataclass(frozen=True)
class BarPiece:
    """A piece of a bar; `x` and `width` are percentages."""

    x: float
    width: float
    look: int
    title: str


@dataclass(frozen=True)
class Bar:
    """A bar with its position and texts."""

    label: str
    """The shortened name above the first bar of a place, else ""."""
    name: str
    """The full name of the place."""
    y: int
    pieces: tuple[BarPiece, ...]
    end: float
    """Where the bar ends, in percent."""
    total: str


@dataclass(frozen=True)
class BarChart:
    """A bar plot for the template."""

    title: str
    description: str
    """The plot in words, for screen readers."""
    unit: str
    bars: tuple[Bar, ...]
    keys: tuple[tuple[str, int], ...]
    """Names of series and their looks."""
    note: str
    height: int
    thick: int = THICK


def build_bar_chart(plot: Plot) -> BarChart:
    """Build a bar per place, or for unstacked bars one per place and series."""
    stacked = plot.kind is PlotKind.STACKS
    rows = [(place, [i for i, _ in enumerate(plot.series)]) for place, _ in enumerate(plot.places)]
    if not stacked:
        rows = [(place, [i]) for place, series in rows for i in series]
    widest = max(sum(max(plot.series[i].points[place][1], 0) for i in pieces) for place, pieces in rows)
    unit = MAX_BAR_WIDTH / (widest or 1)
    sums, drawn, y = compute_totals(plot), list[Bar](), 0
    for place, pieces in rows:
        first = not drawn or stacked or pieces[0] == 0
        y += NAME + (GAP if drawn else 0) if first else 1
        total = sums[place] if stacked else plot.series[pieces[0]].points[place][1]
        drawn.append(_build_bar(plot, place, pieces, unit=unit, y=y, is_named=first, total=format_number(total)))
        y += THICK
    keys = tuple((printable(series.name), min(i, LOOKS - 1)) for i, series in enumerate(plot.series))
    return BarChart(
        printable(plot.title),
        describe(plot),
        printable(plot.y.title),
        tuple(drawn),
        keys,
        printable(plot.note),
        y,
    )


def _build_bar(plot: Plot, place: int, series: list[int], *, unit: float, y: int, is_named: bool, total: str) -> Bar:
    """Build one bar of a place: `unit` is the width of an amount of 1, `total` the text behind the bar."""
    made = list[BarPiece]()
    x = 0.0
    name = printable(plot.places[place])
    for i in series:
        amount = plot.series[i].points[place][1]
        if amount > 0:
            title = f"{name}: {printable(plot.series[i].name)} {format_number(amount)}"
            made.append(BarPiece(round(x, 2), round(amount * unit, 2), min(i, LOOKS - 1), title))
            x += amount * unit
    return Bar(shorten_middle(name, LABEL) if is_named else "", name, y, tuple(made), round(x, 2), total)
