"""Line plots as numbers for an SVG drawing in HTML, in the units of its view box.

They are not drawn by the library of `-o svg` because colors follow the reader's theme, the content security policy
forbids the style attributes that such a library writes, and HTML must not need an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kschedctl.render.plots.axes import AxisScale, build_scale
from kschedctl.render.plots.plot import Plot, Point, build_line, describe
from kschedctl.text.printable import printable

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 12, 44
LOOKS = 6
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
    """Build the line plot without points that are not finite."""
    lines = [build_line(plot, series) for series in plot.series]
    points = [point for line in lines for point in line]
    x, y = (build_scale(axis, [point[i] for point in points]) for i, axis in enumerate((plot.x, plot.y)))
    across, up = _make_scaler(x, LEFT, WIDTH - RIGHT), _make_scaler(y, HEIGHT - BOTTOM, TOP)
    drawn = tuple(
        Curve(printable(plot.series[i].name), _build_path([(across(a), up(b)) for a, b in line]), i % LOOKS)
        for i, line in enumerate(lines)
    )
    return CurvePlot(
        printable(plot.title),
        describe(plot),
        printable(plot.x.title),
        printable(plot.y.title),
        drawn,
        tuple(Tick(_interpolate(x, at, LEFT, WIDTH - RIGHT), text) for at, text in x.ticks.items()),
        tuple(Tick(_interpolate(y, at, HEIGHT - BOTTOM, TOP), text) for at, text in y.ticks.items()),
    )


def _make_scaler(axis: AxisScale, start: int, end: int) -> Callable[[float], float]:
    """Return a function that maps values to positions between `start` and `end`."""
    return lambda value: _interpolate(axis, axis.position_of(value), start, end)


def _interpolate(axis: AxisScale, at: float, start: int, end: int) -> float:
    """Map a position on the axis to one between `start` and `end`, rounded to tenths."""
    return round(start + (end - start) * (at - axis.start) / (axis.end - axis.start), 1)


def _build_path(points: Sequence[Point]) -> str:
    """Build the `d` attribute of an SVG path through the points."""
    return "".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
