"""A plot of bars as the numbers of an SVG drawing; why it is drawn here, ``curves`` says.

Names stand above their bars, and widths are parts of what the screen has: a phone reads as well as a desk.
"""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.render.plots.plot import Plot, PlotKind, described, number, shortened, totals
from kschedctl.text.printable import printable

LONGEST = 84
"""Per cent of the width that the longest bar takes; its number is beside it."""
THICK, GAP, NAME = 16, 8, 17
"""Pixels: of a bar, between places, of a name."""
LOOKS = 8
"""Pieces of the first seven series look different, all others alike."""
LABEL = 44
"""Characters of a name that find room above its bars, on a phone too."""


@dataclass(frozen=True)
class Piece:
    """``x`` and ``width`` in per cent."""

    x: float
    width: float
    look: int
    title: str


@dataclass(frozen=True)
class Bar:
    """``label``: of the first bar of a place, which ``name`` says in full; ``end``: of the bar, in per cent."""

    label: str
    name: str
    y: int
    pieces: tuple[Piece, ...]
    end: float
    total: str


@dataclass(frozen=True)
class BarChart:
    """``keys``: names of series and their looks, of several; ``told``: all of it in words."""

    title: str
    told: str
    unit: str
    bars: tuple[Bar, ...]
    keys: tuple[tuple[str, int], ...]
    note: str
    height: int
    thick: int = THICK


def bars(plot: Plot) -> BarChart:
    """A row for each place, or of bars beneath each other one for each series of it."""
    stacked = plot.kind is PlotKind.STACKS
    rows = [(place, [i for i, _ in enumerate(plot.series)]) for place, _ in enumerate(plot.places)]
    if not stacked:
        rows = [(place, [i]) for place, series in rows for i in series]
    widest = max(sum(max(plot.series[i].points[place][1], 0) for i in pieces) for place, pieces in rows)
    unit = LONGEST / (widest or 1)
    sums, drawn, y = totals(plot), list[Bar](), 0
    for place, pieces in rows:
        first = not drawn or stacked or pieces[0] == 0
        y += NAME + (GAP if drawn else 0) if first else 1
        total = sums[place] if stacked else plot.series[pieces[0]].points[place][1]
        drawn.append(_bar(plot, place, pieces, (unit, y), (first, number(total))))
        y += THICK
    keys = tuple((printable(series.name), min(i, LOOKS - 1)) for i, series in enumerate(plot.series))
    return BarChart(
        printable(plot.title),
        described(plot),
        printable(plot.y.title),
        tuple(drawn),
        keys,
        printable(plot.note),
        y,
    )


def _bar(plot: Plot, place: int, series: list[int], at: tuple[float, int], totals: tuple[bool, str]) -> Bar:
    """``at``: how wide one is, how far down the bar; ``totals``: whether its place is named, the number behind it."""
    made, (unit, y), (named, total) = list[Piece](), at, totals
    x = 0.0
    name = printable(plot.places[place])
    for i in series:
        amount = plot.series[i].points[place][1]
        if amount > 0:
            title = f"{name}: {printable(plot.series[i].name)} {number(amount)}"
            made.append(Piece(round(x, 2), round(amount * unit, 2), min(i, LOOKS - 1), title))
            x += amount * unit
    return Bar(shortened(name, LABEL) if named else "", name, y, tuple(made), round(x, 2), total)
