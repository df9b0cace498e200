"""Line and bar plots as numbers for SVG drawings in HTML.

They are not drawn by the library of `-o svg` because colors follow the reader's theme, the content security policy
forbids the style attributes that such a library writes, and HTML must not need an extra. Names stand above their bars,
and widths of bars are percentages, so that a phone can show the plot as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kschedctl.render.plots.plot import (
    AxisScale,
    Plot,
    PlotKind,
    Point,
    build_line,
    build_scale,
    compute_totals,
    describe_plot,
    format_number,
    shorten_middle,
)
from kschedctl.text.printable import printable

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 12, 44
LINE_LOOKS = 6
"""Number of distinct colors and dashes; then they repeat."""


@dataclass(frozen=True)
class Curve:
    """A line of a plot."""

    name: str
    path: str
    """The `d` attribute of the SVG path."""
    look: int
    """Number of the line's color and dashes."""


@dataclass(frozen=True)
class Tick:
    """A tick of an axis."""

    position: float
    text: str


@dataclass(frozen=True)
class CurvePlot:
    """A line plot for the template."""

    title: str
    description: str
    """The plot in words, for screen readers."""
    x: str
    y: str
    lines: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def build_curve_plot(plot: Plot) -> CurvePlot:
    """Build a line plot for the template, leaving out points that are not finite."""
    lines = [build_line(plot, series) for series in plot.series]
    points = [point for line in lines for point in line]
    x, y = (build_scale(axis, [point[i] for point in points]) for i, axis in enumerate((plot.x, plot.y)))
    across = _make_scaler(x, LEFT, WIDTH - RIGHT)
    up = _make_scaler(y, HEIGHT - BOTTOM, TOP)
    curves = tuple(
        Curve(printable(plot.series[i].name), _build_path([(across(a), up(b)) for a, b in line]), i % LINE_LOOKS)
        for i, line in enumerate(lines)
    )
    return CurvePlot(
        printable(plot.title),
        describe_plot(plot),
        printable(plot.x.title),
        y=printable(plot.y.title),
        lines=curves,
        x_ticks=tuple(Tick(_interpolate(x, at, LEFT, WIDTH - RIGHT), text) for at, text in x.ticks.items()),
        y_ticks=tuple(Tick(_interpolate(y, at, HEIGHT - BOTTOM, TOP), text) for at, text in y.ticks.items()),
    )


def _make_scaler(axis: AxisScale, start: int, end: int) -> Callable[[float], float]:
    """Return a function that maps values to positions between `start` and `end`."""
    return lambda value: _interpolate(axis, axis.position_of(value), start, end)


def _interpolate(axis: AxisScale, at: float, start: int, end: int) -> float:
    """Map a position on the axis to a coordinate between `start` and `end`, rounded to tenths."""
    return round(start + (end - start) * (at - axis.start) / (axis.end - axis.start), 1)


def _build_path(points: Sequence[Point]) -> str:
    """Build the `d` attribute of an SVG path: a move (M) to the first point and lines (L) to the other points."""
    commands = ("L" if i else "M" for i in range(len(points)))
    return "".join(f"{command}{x:g} {y:g}" for command, (x, y) in zip(commands, points, strict=True))


MAX_BAR_WIDTH = 84
"""Width of the longest bar in percent; its number is written next to it."""
THICK, GAP, NAME = 16, 8, 17
"""Pixels: of a bar, between places, of a name."""
BAR_LOOKS = 8
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
    """Build a bar plot for the template.

    A place has one bar if its series are stacked, otherwise one bar per series.
    """
    stacked = plot.kind is PlotKind.STACKS
    all_series = list(range(len(plot.series)))
    rows: list[tuple[int, list[int]]] = []  # the place of each bar, and the series of its pieces
    for place, _ in enumerate(plot.places):
        if stacked:
            rows.append((place, all_series))
        else:
            rows += [(place, [i]) for i in all_series]
    widest = max(sum(max(_get_amount(plot, i, place), 0) for i in pieces) for place, pieces in rows)
    unit = MAX_BAR_WIDTH / (widest or 1)

    totals = compute_totals(plot)
    bars = list[Bar]()
    y = 0
    for place, pieces in rows:
        is_first_of_place = stacked or pieces[0] == 0
        if not is_first_of_place:
            y += 1
        elif bars:
            y += NAME + GAP
        else:
            y += NAME
        total = format_number(totals[place] if stacked else _get_amount(plot, pieces[0], place))
        bars.append(_build_bar(plot, place, pieces, unit=unit, y=y, is_named=is_first_of_place, total=total))
        y += THICK
    keys = tuple((printable(series.name), min(i, BAR_LOOKS - 1)) for i, series in enumerate(plot.series))
    return BarChart(
        printable(plot.title),
        describe_plot(plot),
        printable(plot.y.title),
        bars=tuple(bars),
        keys=keys,
        note=printable(plot.note),
        height=y,
    )


def _get_amount(plot: Plot, series: int, place: int) -> float:
    """Return the amount of a series at a place."""
    _, amount = plot.series[series].points[place]
    return amount


def _build_bar(plot: Plot, place: int, series: list[int], *, unit: float, y: int, is_named: bool, total: str) -> Bar:
    """Build one bar of a place from its pieces for the given series.

    `unit` is the width that represents an amount of 1. `total` is the text after the bar.
    """
    pieces = list[BarPiece]()
    x = 0.0
    name = printable(plot.places[place])
    for i in series:
        amount = _get_amount(plot, i, place)
        if amount > 0:
            title = f"{name}: {printable(plot.series[i].name)} {format_number(amount)}"
            pieces.append(BarPiece(round(x, 2), round(amount * unit, 2), min(i, BAR_LOOKS - 1), title))
            x += amount * unit
    return Bar(
        shorten_middle(name, LABEL) if is_named else "", name, y, pieces=tuple(pieces), end=round(x, 2), total=total
    )
