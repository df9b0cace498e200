"""A plot as the numbers of an SVG drawing: lines, ticks and names, in the units of its view box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kschedctl.render.page import Plot, Series
from kschedctl.render.plots import finite, ticks
from kschedctl.render.printable import printable

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 44
COLORS = 6
"""Lines look different, by colour and by dashes; after the last the first again."""


@dataclass(frozen=True)
class Curve:
    """``path``: the ``d`` of an SVG path; ``look``: which of COLORS."""

    name: str
    path: str
    look: int
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Tick:
    """``at``: where on its axis, ``text``: what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class CurvePlot:
    """``title`` says all of it in a line, for those who cannot see it."""

    title: str
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
    series = [Series(printable(each.name), finite(each.points)) for each in plot.series]
    points = [point for each in series for point in each.points] or [(0.0, 0.0)]
    x, y = (ticks([point[axis] for point in points]) for axis in (0, 1))
    across, up = _scale(x, LEFT, WIDTH - RIGHT), _scale(y, HEIGHT - BOTTOM, TOP)
    drawn = tuple(
        Curve(each.name, _path([(across(a), up(b)) for a, b in each.points]), i % COLORS, each.points)
        for i, each in enumerate(series)
    )
    names = ", ".join(each.name for each in series)
    title = f"{printable(plot.y)} over {printable(plot.x)}: {names}"
    return CurvePlot(
        title,
        printable(plot.x),
        printable(plot.y),
        drawn,
        tuple(Tick(across(each), f"{each:,.10g}") for each in x),
        tuple(Tick(up(each), f"{each:,.10g}") for each in y),
    )


def _scale(ticks: Sequence[float], start: int, end: int) -> Callable[[float], float]:
    """From a value to its place between two others, in tenths of a unit."""
    least, span = ticks[0], ticks[-1] - ticks[0]
    return lambda value: round(start + (end - start) * (value - least) / span, 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if i else 'M'}{x:g} {y:g}" for i, (x, y) in enumerate(points))
