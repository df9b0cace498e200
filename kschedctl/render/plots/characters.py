"""Plots in characters, for terminals: plotext draws lines between frame and ticks, every word beside them is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from kschedctl.render.plots.axes import AxisScale, scale
from kschedctl.render.plots.extra import CHARACTERS, need
from kschedctl.render.plots.plot import Plot, PlotKind, Point, joined, number, shortened, totals
from kschedctl.text.printable import printable

HEIGHT, WIDEST = 16, 100
COLORS = ("cyan", "yellow", "red", "green", "magenta", "blue")
MARKS, ASCII_MARKS = "•×+o#*", "*x+o#@"
FILLS, ASCII_FILLS = "█▒▓░=+:.", "#=+:ox*."
"""The character of each series, of lines and of bars; after the last the first again, as with colours."""
FRAME = str.maketrans("│┤├─┬┴┼┌┐└┘", "|||-+++++++")
"""The frame where there is nothing but ASCII."""
LABEL = 44
"""Columns for the name of a place, at most about half of all."""


def drawn(plot: Plot, room: int, ascii_only: bool = False) -> Iterator[Text]:
    """The lines of a plot, at most ``room`` columns wide; none with nothing to join. Raises UsageError.

    Plotext is told numbers only: names may come from a cluster.
    """
    width = min(room, WIDEST)
    shown = _bars(plot, width, ascii_only) if plot.of_bars else _curves(plot, width, ascii_only)
    if shown:
        yield Text(printable(plot.title), "bold")
        yield from shown


# -- lines -------------------------------------------------------------------------------------------------------------


def _curves(plot: Plot, width: int, ascii_only: bool) -> list[Text]:
    lines = [joined(plot, series) for series in plot.series]
    if len({x for points in lines for x, _ in points}) < 2:
        return []
    marks = ASCII_MARKS if ascii_only else MARKS
    field = _field(plot, lines, width, marks)
    painted = [_painted(line.translate(FRAME) if ascii_only else line, marks) for line in field]
    return [_legend(plot, marks), *painted, Text(printable(plot.x.title).center(width).rstrip())]


def _legend(plot: Plot, marks: str) -> Text:
    names = [
        Text.assemble((marks[i % len(marks)], COLORS[i % len(COLORS)]), f" {printable(series.name)}")
        for i, series in enumerate(plot.series)
    ]
    what = printable(plot.y.title)
    return Text(f"{what}:  ").append(Text("   ").join(names)) if len(names) > 1 else Text(what)


def _painted(line: str, marks: str) -> Text:
    """The frame has characters that are marks in ASCII, too: what is coloured lies within it."""
    text, start = Text(line), re.search("[│┤|]", line)
    for run in re.finditer("|".join(f"{re.escape(mark)}+" for mark in marks), line):
        if start and run.start() > start.start() and line.endswith(("│", "|")):
            text.stylize(COLORS[marks.index(run[0][0])], *run.span())
    return text


def _field(plot: Plot, lines: Sequence[Sequence[Point]], width: int, marks: str) -> list[str]:
    """The frame with lines and ticks in it; plotext has one figure, which is cleared for each plot."""
    need(CHARACTERS, "--plot")
    import plotext  # type: ignore[import-untyped]  # noqa: PLC0415 - extra "plots", takes 0.1 s

    figure = plotext.figure
    plotext.terminal.limit(False, False)
    figure.clear()
    figure.legend(False)
    figure.plot_size(width, HEIGHT)
    axes = [scale(axis, [point[i] for points in lines for point in points]) for i, axis in enumerate((plot.x, plot.y))]
    for position, points in enumerate(lines):
        if points:
            figure.draw(figure.signal(*_placed(points, axes), marker=marks[position % len(marks)]).lines())
    for i, axis in enumerate(axes):
        figure.ruler(i, 0).lim(axis.least, axis.greatest).ticks(list(axis.ticks), list(axis.ticks.values()))
    drawing: str = figure.build().string(colorless=True)
    return [line.rstrip() for line in drawing.splitlines()]


def _placed(points: Sequence[Point], axes: Sequence[AxisScale]) -> list[list[float]]:
    return [[axis.at(point[i]) for point in points] for i, axis in enumerate(axes)]


# -- bars --------------------------------------------------------------------------------------------------------------


def _bars(plot: Plot, width: int, ascii_only: bool) -> list[Text]:
    fills = ASCII_FILLS if ascii_only else FILLS
    dots = "..." if ascii_only else "…"
    names = [shortened(printable(place), min(LABEL, width // 2 + 5), dots) for place in plot.places]
    label = max(map(cell_len, names))
    stacked = plot.kind is PlotKind.STACKS
    amounts = totals(plot) if stacked else [y for series in plot.series for _, y in series.points]
    longest = max(_heights(plot) if stacked else amounts)
    unit = max(width - label - max(len(number(amount)) for amount in amounts) - 2, 1) / (longest if longest > 0 else 1)
    lines = [_legend(plot, fills)]
    for place, name in enumerate(names):
        pieces = [(i, series.points[place][1]) for i, series in enumerate(plot.series)]
        rows = [pieces] if stacked else [[piece] for piece in pieces]
        for row, series in enumerate(rows):
            head = "" if row else name
            bar = _bar(series, unit, fills)
            total = number(sum(amount for _, amount in series))
            lines.append(Text(f"{' ' * (label - cell_len(head))}{head} ").append(bar).append(f" {total}"))
    return lines + [Text(printable(plot.note), "dim")] * bool(plot.note)


def _heights(plot: Plot) -> list[float]:
    """How long the bar of each place is: of what is above 0."""
    places = range(len(plot.places))
    return [sum(max(series.points[place][1], 0) for series in plot.series) for place in places]


def _bar(pieces: Sequence[tuple[int, float]], unit: float, fills: str) -> Text:
    bar, reached = Text(), 0.0
    for series, amount in pieces:
        cells = round((reached + max(amount, 0)) * unit) - round(reached * unit)
        bar.append(fills[series % len(fills)] * cells, COLORS[series % len(COLORS)])
        reached += max(amount, 0)
    return bar
