"""Plots in characters, for terminals: plotext draws lines between frame and ticks, every word beside them is ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from kschedctl.render.page import Plot, Series
from kschedctl.render.printable import printable

HEIGHT, WIDEST = 16, 100
MARKS = (("•", "cyan"), ("×", "yellow"), ("+", "red"), ("o", "green"), ("#", "magenta"), ("*", "blue"))
"""The character of each series, and its colour where there are colours; after the last the first again."""
STEPS = (1, 2, 5, 10)
MOST_STEPS = 6


def drawn(plot: Plot, room: int) -> Iterator[Text]:
    """The lines of a plot, at most ``room`` columns wide; none without plotext, or with nothing to join.

    Plotext is told numbers only: names may come from a cluster.
    """
    series = [Series(each.name, finite(each.points)) for each in plot.series]
    if len({x for each in series for x, _ in each.points}) < 2:
        return
    width = min(room, WIDEST)
    field = _field(series, width)
    if field:
        yield _legend(plot)
        yield from map(_painted, field)
        yield Text(printable(plot.x).center(width).rstrip())


def finite(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points that are numbers."""
    return tuple(point for point in points if all(map(math.isfinite, point)))


def _mark(position: int) -> tuple[str, str]:
    return MARKS[position % len(MARKS)]


def _legend(plot: Plot) -> Text:
    names = (Text.assemble(_mark(i), f" {printable(each.name)}") for i, each in enumerate(plot.series))
    return Text(f"{printable(plot.y)}:  ").append(Text("   ").join(names))


def _painted(line: str) -> Text:
    text = Text(line)
    for mark, color in MARKS:
        text.highlight_regex(f"{re.escape(mark)}+", color)
    return text


def _field(series: Sequence[Series], width: int) -> list[str]:
    """The frame with lines and ticks in it; plotext has one figure, which is cleared for each plot."""
    try:
        import plotext  # type: ignore[import-untyped]  # noqa: PLC0415 - extra "plots", takes 0.1 s
    except ImportError:
        return []
    figure = plotext.figure
    plotext.terminal.limit(False, False)
    figure.clear()
    figure.legend(False)
    figure.plot_size(width, HEIGHT)
    for position, each in enumerate(series):
        if each.points:
            figure.draw(figure.signal(*map(list, zip(*each.points, strict=True)), marker=_mark(position)[0]).lines())
    for axis in (0, 1):
        at = ticks([point[axis] for each in series for point in each.points])
        figure.ruler(axis, 0).lim(at[0], at[-1]).ticks(at, [f"{tick:,.10g}" for tick in at])
    drawing: str = figure.build().string(colorless=True)
    return [line.rstrip() for line in drawing.splitlines()]


def ticks(values: Sequence[float]) -> list[float]:
    """Round numbers, evenly apart, from at or below the least value to at or above the greatest.

    >>> ticks([5, 100]), ticks([0, 0.37])
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    least, greatest = min(values), max(values)
    least, greatest = (least, greatest) if least < greatest else (least, least + 1)
    power = math.floor(math.log10((greatest - least) / MOST_STEPS))
    for step in (factor * 10.0**power for factor in STEPS):
        first, last = math.floor(least / step), math.ceil(greatest / step)
        if last - first <= MOST_STEPS:
            break
    return [round(i * step, max(-power, 0)) for i in range(first, last + 1)]
