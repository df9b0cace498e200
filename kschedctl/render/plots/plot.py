"""Plots as data, and the scales of their axes, which the browser, terminals and pictures draw in their own ways."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

import msgspec

from kschedctl.text.printable import printable

MAX_PLACES = 20
"""Places of a bar plot; those with the largest values come first."""
Point = tuple[float, float]


class PlotKind(Enum):
    """The kinds of plots, by how their series are drawn.

    LINES join the points, and in STEPS a value holds until the next point. BARS are horizontal, with one bar per place
    and series; STACKS has one bar per place.
    """

    LINES = auto()
    STEPS = auto()
    BARS = auto()
    STACKS = auto()


class Axis(msgspec.Struct, frozen=True):
    """An axis of a plot."""

    title: str
    """The title, with the unit."""
    decades: bool = False
    """True if the axis is logarithmic, for values above 0."""


class Series(msgspec.Struct, frozen=True):
    """Points of a plot that belong together."""

    name: str
    points: tuple[Point, ...]
    """(x, y), sorted by x; in bar plots x is the number of the place."""


class Plot(msgspec.Struct, frozen=True):
    """Series over a pair of axes. Tables or data of the report contain the same numbers."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    kind: PlotKind = PlotKind.LINES
    places: tuple[str, ...] = ()
    """The names of the places of a bar plot."""
    note: str = ""
    """The number of places that are left out."""

    @property
    def has_bars(self) -> bool:
        """True if it is a bar plot."""
        return self.kind in (PlotKind.BARS, PlotKind.STACKS)


def build_bar_plot(
    title: str,
    axes: tuple[str, str],
    amounts: Mapping[str, Mapping[str, float]],
    place_count: int,
    stacked: bool = False,
) -> tuple[Plot, ...]:
    """Build a bar plot of the first MAX_PLACES places, or return () if all their amounts are 0.

    `axes` contains the titles of the place axis and the amount axis. `amounts` maps each place to its amounts by
    series. `place_count` also counts the places that are left out, which a note mentions.
    """
    place_title, amount_title = axes
    places = tuple(amounts)[:MAX_PLACES]
    names = dict.fromkeys(name for place in places for name in amounts[place])
    if stacked:  # a series without an amount at any place would only be a name in the legend
        names = {name: None for name in names if any(amounts[place].get(name) for place in places)}
    if not any(amount for place in places for amount in amounts[place].values()):
        return ()
    series = tuple(
        Series(name, tuple((float(i), amounts[place].get(name, 0)) for i, place in enumerate(places))) for name in names
    )
    more = f"and {place_count - len(places):,} more" if place_count > len(places) else ""
    kind = PlotKind.STACKS if stacked else PlotKind.BARS
    return (Plot(title, Axis(place_title), Axis(amount_title), series=series, kind=kind, places=places, note=more),)


def differ_in_total(amounts: Mapping[str, Mapping[str, float]]) -> bool:
    """Return whether the totals of the places differ. A plot of equal bars would show nothing."""
    return len({sum(parts.values()) for parts in amounts.values()}) > 1


def filter_finite(points: Sequence[Point], x: Axis | None = None) -> tuple[Point, ...]:
    """Return the points whose coordinates are finite and fit on the axis."""
    least = 0 if x and x.decades else -math.inf
    return tuple(point for point in points if all(map(math.isfinite, point)) and point[0] > least)


def build_line_points(plot: Plot, series: Series) -> tuple[Point, ...]:
    """Return the points of the line through a series. The line of a step plot includes the corners."""
    points = filter_finite(series.points, plot.x)
    if plot.kind is not PlotKind.STEPS:
        return points
    corners = (((after[0], before[1]), after) for before, after in pairwise(points))
    return (*points[:1], *(point for corner in corners for point in corner))


def compute_totals(plot: Plot) -> list[float]:
    """Return the sum of all series per place of a bar plot."""
    return [sum(series.points[place][1] for series in plot.series) for place in range(len(plot.places))]


def describe_plot(plot: Plot) -> str:
    """Describe the plot in words, for people who cannot see it."""
    if plot.has_bars:
        values = ", ".join(f"{place}: {_describe_amounts(plot, i)}" for i, place in enumerate(plot.places))
        note = f", {plot.note}" if plot.note else ""
        return printable(f"{plot.y.title} by {plot.x.title}: {values}{note}")
    lines = ((series.name, filter_finite(series.points, plot.x)) for series in plot.series)
    values = "; ".join(f"{name} {_describe_ends(points)}" for name, points in lines if points)
    return printable(f"{plot.y.title} over {plot.x.title}: {values}")


def format_number(value: float) -> str:
    """Format a number with separators and at most ten digits.

    >>> format_number(5000.0), format_number(0.1 + 0.2)
    ('5,000', '0.3')
    """
    return f"{value:,.10g}"


def shorten_middle(name: str, max_length: int, dots: str = "…") -> str:
    """Shorten a name by cutting its middle, since node names of a pool may differ at either end.

    >>> shorten_middle("ip-10-0-1-23.eu-west-1.compute.internal", 20)
    'ip-10-0-1-….internal'
    """
    if len(name) <= max_length:
        return name
    kept = max(max_length - len(dots), 0)
    end_length = kept // 2
    start_length = kept - end_length
    return f"{name[:start_length]}{dots}{name[len(name) - end_length :]}"


def _describe_amounts(plot: Plot, place: int) -> str:
    """Describe the amounts of a place."""
    if plot.kind is PlotKind.STACKS:
        return format_number(compute_totals(plot)[place])
    return ", ".join(f"{format_number(series.points[place][1])} {series.name}" for series in plot.series)


def _describe_ends(points: Sequence[Point]) -> str:
    """Describe the first and the last point of a line."""
    first, last = (f"{format_number(y)} at {format_number(x)}" for x, y in (points[0], points[-1]))
    return f"from {first} to {last}"


# -- scales of axes ----------------------------------------------------------------------------------------------------


STEPS = (1, 2, 5, 10)
MOST_STEPS = 6


@dataclass(frozen=True)
class AxisScale:
    """The scale of an axis."""

    decades: bool
    ticks: dict[float, str]
    """Position -> text, in ascending order."""

    @property
    def start(self) -> float:
        """The position of the first tick."""
        return next(iter(self.ticks))

    @property
    def end(self) -> float:
        """The position of the last tick."""
        return next(reversed(self.ticks))

    def position_of(self, value: float) -> float:
        """Return the position of a value on the axis."""
        return math.log10(value) if self.decades else value


def build_scale(axis: Axis, values: Sequence[float]) -> AxisScale:
    """Build an axis scale that includes all values, or one around 0 or 1 if there are none.

    An axis with decades gets a logarithmic scale with a tick for each power of ten. On other axes, the ticks are
    integers if all values are.
    """
    if not axis.decades:
        chosen = choose_ticks(values or (0.0,))
        if all(float(value).is_integer() for value in values):
            chosen = [tick for tick in chosen if tick.is_integer()]
        return AxisScale(decades=False, ticks={tick: format_number(tick) for tick in chosen})
    powers = [math.log10(value) for value in values] or [0.0]
    first = math.floor(min(powers))
    last = max(math.ceil(max(powers)), first + 1)
    return AxisScale(decades=True, ticks={float(power): format_number(10.0**power) for power in range(first, last + 1)})


def choose_ticks(values: Sequence[float]) -> list[float]:
    """Return evenly spaced round numbers, of which the first and last enclose all values.

    >>> choose_ticks([5, 100]), choose_ticks([0, 0.37])
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    least = min(values)
    greatest = max(values)
    if least == greatest:
        greatest = least + 1
    power = math.floor(math.log10((greatest - least) / MOST_STEPS))

    def find_ends(step: float) -> tuple[int, int]:
        """Return the multiples of the step that enclose all values, as factors."""
        return math.floor(least / step), math.ceil(greatest / step)

    # Choose the smallest step of which few are enough, or the largest step if all are too small.
    steps = [factor * 10.0**power for factor in STEPS]
    ends_by_step = {step: find_ends(step) for step in steps}
    step = next((step for step, (first, last) in ends_by_step.items() if last - first <= MOST_STEPS), steps[-1])
    first, last = ends_by_step[step]
    return [round(i * step, max(-power, 0)) for i in range(first, last + 1)]
