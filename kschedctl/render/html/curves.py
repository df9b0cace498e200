"""A plot of lines as the numbers of an SVG drawing: in the units of its view box, its looks left to the stylesheet.

Drawn here, not by the library of ``-o svg``: colours follow the reader's theme, the strict policy of the file forbids
the style attributes that such a library writes, and a report wants no extra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kschedctl.render.plots.axes import AxisScale, scale
from kschedctl.render.plots.plot import Plot, Point, described, joined
from kschedctl.text.printable import printable

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 12, 44
LOOKS = 6
"""Lines look different, by colour and by dashes; after the last the first again."""


@dataclass(frozen=True)
class Curve:
    """``path``: the ``d`` of an SVG path; ``look``: which of LOOKS."""

    name: str
    path: str
    look: int


@dataclass(frozen=True)
class Tick:
    """``at``: where on its axis, ``text``: what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class CurvePlot:
    """``told`` says all of it in words, for those who cannot see it."""

    title: str
    told: str
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


def curves(plot: Plot) -> CurvePlot:
    """Points that are no numbers are left out."""
    lines = [joined(plot, series) for series in plot.series]
    points = [point for line in lines for point in line]
    x, y = (scale(axis, [point[i] for point in points]) for i, axis in enumerate((plot.x, plot.y)))
    across, up = _placing(x, LEFT, WIDTH - RIGHT), _placing(y, HEIGHT - BOTTOM, TOP)
    drawn = tuple(
        Curve(printable(plot.series[i].name), _path([(across(a), up(b)) for a, b in line]), i % LOOKS)
        for i, line in enumerate(lines)
    )
    return CurvePlot(
        printable(plot.title),
        described(plot),
        printable(plot.x.title),
        printable(plot.y.title),
        drawn,
        tuple(Tick(_between(x, at, LEFT, WIDTH - RIGHT), text) for at, text in x.ticks.items()),
        tuple(Tick(_between(y, at, HEIGHT - BOTTOM, TOP), text) for at, text in y.ticks.items()),
    )


def _placing(axis: AxisScale, start: int, end: int) -> Callable[[float], float]:
    return lambda value: _between(axis, axis.at(value), start, end)


def _between(axis: AxisScale, at: float, start: int, end: int) -> float:
    """From a place on the axis to one between two others, in tenths of a unit."""
    return round(start + (end - start) * (at - axis.least) / (axis.greatest - axis.least), 1)


def _path(points: Sequence[Point]) -> str:
    return "".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
