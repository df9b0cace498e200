"""A plot as data: all that the browser, a terminal and a picture are told of it, each of which draws it its own way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise

import msgspec

from kschedctl.text.printable import printable

MOST_PLACES = 20
"""Places of a plot of bars; those with most to tell come first."""
Point = tuple[float, float]


class PlotKind(Enum):
    """LINES join the points, in STEPS a value holds until the next point. Bars lie: a place has one BAR of each series,
    beneath each other, or one STACK of all of them.
    """

    LINES = auto()
    STEPS = auto()
    BARS = auto()
    STACKS = auto()


class Axis(msgspec.Struct, frozen=True):
    """``title``: with its unit. ``decades``: each is as long as the next; for numbers above 0."""

    title: str
    decades: bool = False


class Series(msgspec.Struct, frozen=True):
    """Points (x, y) that belong together, in the order of x; of bars x counts the places from 0."""

    name: str
    points: tuple[Point, ...]


class Plot(msgspec.Struct, frozen=True):
    """Series over one pair of axes. Of bars ``x`` is what the ``places`` are, and ``note`` tells that there are more.

    What it says stands in a table beside it, or in the data forms of the report.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    kind: PlotKind = PlotKind.LINES
    places: tuple[str, ...] = ()
    note: str = ""

    @property
    def of_bars(self) -> bool:
        return self.kind in (PlotKind.BARS, PlotKind.STACKS)


def bars(
    title: str, axes: tuple[str, str], amounts: Mapping[str, Mapping[str, float]], known: int, stacked: bool = False
) -> tuple[Plot, ...]:
    """A plot of bars; none where all amounts are 0.

    ``axes``: what the places are, and what is counted; ``amounts``: place -> name of a series -> how much, of which no
    more than MOST_PLACES are drawn; ``known``: how many places there are in all.
    """
    places = tuple(amounts)[:MOST_PLACES]
    names = dict.fromkeys(name for place in places for name in amounts[place])
    if stacked:  # plugins that give nothing to any of these nodes would be names in the legend alone
        names = {name: None for name in names if any(amounts[place].get(name) for place in places)}
    if not any(amount for place in places for amount in amounts[place].values()):
        return ()
    series = tuple(
        Series(name, tuple((float(i), amounts[place].get(name, 0)) for i, place in enumerate(places))) for name in names
    )
    more = f"and {known - len(places):,} more" if known > len(places) else ""
    kind = PlotKind.STACKS if stacked else PlotKind.BARS
    return (Plot(title, Axis(axes[0]), Axis(axes[1]), series, kind, places, more),)


def uneven(amounts: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether some places have more than others: bars of one length tell nothing that the table does not."""
    return len({sum(parts.values()) for parts in amounts.values()}) > 1


def finite(points: Sequence[Point], x: Axis | None = None) -> tuple[Point, ...]:
    """The points that are numbers, and that the axis has a place for."""
    least = 0 if x and x.decades else -math.inf
    return tuple(point for point in points if all(map(math.isfinite, point)) and point[0] > least)


def joined(plot: Plot, series: Series) -> tuple[Point, ...]:
    """The points that a line goes through: of steps also the corners."""
    points = finite(series.points, plot.x)
    if plot.kind is not PlotKind.STEPS:
        return points
    corners = (((after[0], before[1]), after) for before, after in pairwise(points))
    return (*points[:1], *(point for corner in corners for point in corner))


def totals(plot: Plot) -> list[float]:
    """What all series of a plot of bars come to at each place."""
    return [sum(series.points[place][1] for series in plot.series) for place in range(len(plot.places))]


def described(plot: Plot) -> str:
    """All of it in words, for those who cannot see it."""
    if plot.of_bars:
        values = ", ".join(f"{place}: {_amounts(plot, i)}" for i, place in enumerate(plot.places))
        return printable(f"{plot.y.title} by {plot.x.title}: {values}{f', {plot.note}' if plot.note else ''}")
    lines = ((series.name, finite(series.points, plot.x)) for series in plot.series)
    values = "; ".join(f"{name} {_course(points)}" for name, points in lines if points)
    return printable(f"{plot.y.title} over {plot.x.title}: {values}")


def number(value: float) -> str:
    """With separators, and no more digits than are told apart.

    >>> number(5000.0), number(0.1 + 0.2)
    ('5,000', '0.3')
    """
    return f"{value:,.10g}"


def shortened(name: str, most: int, dots: str = "…") -> str:
    """A name in so many characters: its middle goes, since nodes of a pool may differ at either end.

    >>> shortened("ip-10-0-1-23.eu-west-1.compute.internal", 20)
    'ip-10-0-1-….internal'
    """
    if len(name) <= most:
        return name
    kept = most - len(dots)
    return f"{name[: kept - kept // 2]}{dots}{name[-(kept // 2) :]}"


def _amounts(plot: Plot, place: int) -> str:
    if plot.kind is PlotKind.STACKS:
        return number(totals(plot)[place])
    return ", ".join(f"{number(series.points[place][1])} {series.name}" for series in plot.series)


def _course(points: Sequence[Point]) -> str:
    (first, *_, last) = (points[0], *points)
    return f"from {number(first[1])} at {number(first[0])} to {number(last[1])} at {number(last[0])}"
