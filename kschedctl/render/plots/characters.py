"""Plots as text for terminals. plotext draws lines, frame and ticks; all words are added here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from kschedctl.render.plots import CHARACTERS, check_installed
from kschedctl.render.plots.plot import (
    AxisScale,
    Plot,
    PlotKind,
    Point,
    build_line_points,
    build_scale,
    format_number,
    shorten_middle,
)
from kschedctl.text.printable import printable

HEIGHT, WIDEST = 16, 100
COLORS = ("cyan", "yellow", "red", "green", "magenta", "blue")
MARKS, ASCII_MARKS = "•×+o#*", "*x+o#@"
FILLS, ASCII_FILLS = "█▒▓░=+:.", "#=+:ox*."
"""The characters of the series, for lines (MARKS) and for bars (FILLS). They repeat after the last one, like COLORS."""
FRAME = str.maketrans("│┤├─┬┴┼┌┐└┘", "|||-+++++++")
"""Translates the characters of the frame to ASCII."""
LABEL = 44
"""Columns for the name of a place, at most about half of the width."""
Bar = Sequence[tuple[int, float]]
"""The pieces of a bar: pairs of a series' number and an amount."""


def draw_plot(plot: Plot, max_width: int, ascii_only: bool = False) -> Iterator[Text]:
    """Yield the lines of a plot, at most `max_width` columns wide, or nothing if there is nothing to draw.

    Only numbers are passed to plotext, because names from a cluster may contain control characters. Raises UsageError
    if plotext is not installed.
    """
    width = min(max_width, WIDEST)
    draw = _draw_bar_plot if plot.has_bars else _draw_line_plot
    lines = draw(plot, width, ascii_only)
    if lines:
        yield Text(printable(plot.title), "bold")
        yield from lines


# -- lines -------------------------------------------------------------------------------------------------------------


def _draw_line_plot(plot: Plot, width: int, ascii_only: bool) -> list[Text]:
    """Draw a line plot, or return [] if it has fewer than two x values."""
    lines = [build_line_points(plot, series) for series in plot.series]
    if len({x for points in lines for x, _ in points}) < 2:
        return []
    marks = ASCII_MARKS if ascii_only else MARKS
    drawing = _draw_axes(plot, lines, width, marks)
    if ascii_only:
        drawing = [line.translate(FRAME) for line in drawing]
    colored_drawing = [_color_marks(line, marks) for line in drawing]
    x_title = Text(printable(plot.x.title).center(width).rstrip())
    return [_build_legend(plot, marks), *colored_drawing, x_title]


def _build_legend(plot: Plot, marks: str) -> Text:
    """Return the line that names the amount axis and, if there are several, the series with their marks."""
    names = [
        Text.assemble((marks[i % len(marks)], COLORS[i % len(COLORS)]), f" {printable(series.name)}")
        for i, series in enumerate(plot.series)
    ]
    amount_title = printable(plot.y.title)
    if len(names) < 2:
        return Text(amount_title)
    return Text(f"{amount_title}:  ").append(Text("   ").join(names))


def _color_marks(line: str, marks: str) -> Text:
    """Color the marks of the series in a line. The frame is left out, because it may contain the same characters."""
    text = Text(line)
    left_frame = re.search("[│┤|]", line)
    if left_frame is None or not line.endswith(("│", "|")):  # no line of the plotting area
        return text
    for run in re.finditer("|".join(f"{re.escape(mark)}+" for mark in marks), line):
        if run.start() > left_frame.start():
            mark = run.group()[0]
            text.stylize(COLORS[marks.index(mark)], *run.span())
    return text


def _draw_axes(plot: Plot, lines: Sequence[Sequence[Point]], width: int, marks: str) -> list[str]:
    """Draw the frame with lines and ticks, and return it as lines of text.

    plotext has one global figure, which is cleared first. Raises UsageError if plotext is not installed.
    """
    check_installed(CHARACTERS, "--plot")
    import plotext  # type: ignore[import-untyped]  # noqa: PLC0415 - extra "plots", takes 0.1 s

    figure = plotext.figure
    plotext.terminal.limit(False, False)
    figure.clear()
    figure.legend(False)
    figure.plot_size(width, HEIGHT)
    all_points = [point for points in lines for point in points]
    axes = [build_scale(plot.x, [x for x, _ in all_points]), build_scale(plot.y, [y for _, y in all_points])]
    for position, points in enumerate(lines):
        if points:
            figure.draw(figure.signal(*_scale_points(points, axes), marker=marks[position % len(marks)]).lines())
    for i, axis in enumerate(axes):
        figure.ruler(i, 0).lim(axis.start, axis.end).ticks(list(axis.ticks), list(axis.ticks.values()))
    drawing: str = figure.build().string(colorless=True)
    return [line.rstrip() for line in drawing.splitlines()]


def _scale_points(points: Sequence[Point], axes: Sequence[AxisScale]) -> list[list[float]]:
    """Return x and y positions of the points on the axes."""
    return [[axis.position_of(point[i]) for point in points] for i, axis in enumerate(axes)]


# -- bars --------------------------------------------------------------------------------------------------------------


def _draw_bar_plot(plot: Plot, width: int, ascii_only: bool) -> list[Text]:
    """Draw a bar plot: the legend, a line per bar with its name and total, and the plot's note."""
    fills = ASCII_FILLS if ascii_only else FILLS
    dots = "..." if ascii_only else "…"
    names = [shorten_middle(printable(place), min(LABEL, width // 2 + 5), dots) for place in plot.places]
    label_width = max(map(cell_len, names))

    bars_by_place = [_list_bars(plot, place) for place in range(len(plot.places))]
    columns_per_unit = _compute_columns_per_unit(bars_by_place, width - label_width)

    lines = [_build_legend(plot, fills)]
    for name, bars in zip(names, bars_by_place, strict=True):
        for number, pieces in enumerate(bars):
            label = name if number == 0 else ""  # only a place's first bar is labelled
            padding = " " * (label_width - cell_len(label))
            bar = _draw_bar(pieces, columns_per_unit, fills)
            lines.append(Text(f"{padding}{label} ").append(bar).append(f" {_format_total(pieces)}"))
    if plot.note:
        lines.append(Text(printable(plot.note), "dim"))
    return lines


def _list_bars(plot: Plot, place: int) -> list[Bar]:
    """Return the bars of a place: one with a piece for each series if the plot is stacked, otherwise one per series."""
    pieces = [(i, series.points[place][1]) for i, series in enumerate(plot.series)]
    return [pieces] if plot.kind is PlotKind.STACKS else [[piece] for piece in pieces]


def _compute_columns_per_unit(bars_by_place: Sequence[Sequence[Bar]], width: int) -> float:
    """Return how many columns an amount of 1 takes if all bars and their totals have to fit into the width.

    The longest bar then fills the width, except for its total and the two spaces around the bar.
    """
    bars = [bar for bars in bars_by_place for bar in bars]
    total_width = max(len(_format_total(bar)) for bar in bars)
    bar_width = max(width - total_width - 2, 1)
    longest = max(sum(max(amount, 0) for _, amount in bar) for bar in bars)  # negative amounts are not drawn
    return bar_width / longest if longest > 0 else bar_width


def _format_total(bar: Bar) -> str:
    """Format the sum of a bar's amounts."""
    return format_number(sum(amount for _, amount in bar))


def _draw_bar(pieces: Bar, columns_per_unit: float, fills: str) -> Text:
    """Draw one bar, made of a piece for each of its series.

    ``columns_per_unit`` is the number of columns that an amount of 1 takes, and ``fills`` has the series' characters.
    """
    bar = Text()
    start = 0.0
    for series, amount in pieces:
        end = start + max(amount, 0)  # negative amounts are not drawn
        # The ends are rounded rather than the lengths, so that rounding errors do not add up
        cells = round(end * columns_per_unit) - round(start * columns_per_unit)
        bar.append(fills[series % len(fills)] * cells, COLORS[series % len(COLORS)])
        start = end
    return bar
