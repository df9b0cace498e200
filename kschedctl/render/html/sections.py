"""Sections of a page for the HTML template, with printable texts, tables as rows for the script, and plots as numbers.

Plots are not drawn by the library of `-o svg` because colors follow the reader's theme, the content security policy
forbids the style attributes that such a library writes, and HTML must not need an extra. Names stand above their bars,
and widths of bars are percentages, so that a phone can show the plot as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.render.page import (
    Bullets,
    Cell,
    Command,
    Heading,
    Page,
    Paragraph,
    Stack,
    Table,
    Verbatim,
    list_lines,
    with_tone,
)
from kschedctl.render.plots.plot import (
    AxisScale,
    Plot,
    PlotKind,
    Point,
    build_line_points,
    build_scale,
    compute_totals,
    describe_plot,
    format_number,
    shorten_middle,
)
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted
from kschedctl.text.printable import printable

ROWS_WITHOUT_SCRIPT = 50
"""Rows of a table in the HTML itself; the script lays out more on demand."""

_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
MAX_TEXT_LENGTH = 5000
"""Longest text that is shown."""

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 12, 44
_LINE_LOOKS = 6
"""Number of distinct colors and dashes; then they repeat."""


@dataclass(frozen=True)
class Words:
    """A text and the CSS class of its tone."""

    text: str
    tone: str

    def to_script_data(self) -> str | list[str]:
        """Return the text for the script: a string, or [text, tone]."""
        return self.text if self.tone == "plain" else [self.text, self.tone]


class GridColumn(NamedTuple):
    """A column of a grid."""

    heading: str
    has_numbers: bool = False
    keep: bool = False
    """True if cells must not be wrapped."""


@dataclass(frozen=True)
class Grid:
    """A table for the template and the script."""

    columns: tuple[GridColumn, ...]
    rows: tuple[tuple[tuple[Words, ...], ...], ...]
    """Cells of one or more lines."""
    note: str = ""
    grouped: int = -1
    """The column by whose values rows are folded, or -1."""
    bars: tuple[int, ...] = ()
    """The columns that are also drawn as bars."""

    @property
    def first_rows(self) -> Sequence[tuple[tuple[Words, ...], ...]]:
        """The rows in the HTML itself."""
        return self.rows[:ROWS_WITHOUT_SCRIPT]

    def to_script_data(self) -> JsonObject:
        """Return the table for the script: a cell is a text, or lines of [text, tone]."""
        rows = [[_cell_to_script_data(cell) for cell in row] for row in self.rows]
        return {
            "columns": self.columns,
            "rows": rows,
            "grouped": self.grouped,
            "bars": self.bars,
            "shown": ROWS_WITHOUT_SCRIPT,
        }


def _cell_to_script_data(cell: tuple[Words, ...]) -> str | list[list[str]]:
    """Convert a cell for the script. A single line without tone becomes a plain text."""
    if len(cell) == 1 and cell[0].tone == "plain":
        return cell[0].text
    return [[words.text, words.tone] for words in cell]


@dataclass
class HtmlSection:
    """A section of the HTML page."""

    title: str
    blocks: list[tuple[str, object]] = field(default_factory=list)
    """(kind, content) as the template knows them."""
    level: int = 1
    parts: list[HtmlSection] = field(default_factory=list)
    """Subsections."""
    folded: bool = False
    """True if the section can be folded to its title and `state`."""
    opened: bool = False
    """True if a section that can be folded is unfolded at first."""
    tone: str = ""
    """The CSS class that colors the answer."""
    state: str = ""
    """The state of a folded section in a few words."""


def split_into_sections(page: Page) -> list[HtmlSection]:
    """Split a page at its headings. Blocks before the first heading form a section without a title.

    A section of a lower level becomes a part of the section above it. Sections without blocks and parts are left out.
    """
    top = [HtmlSection("")]
    for block in page:
        if isinstance(block, Heading):
            siblings = top if block.level == 1 else top[-1].parts
            siblings.append(HtmlSection(truncate(printable(block.text)), [], block.level))
        else:
            _find_innermost_section(top[-1]).blocks.append(_convert_block(block))
    return [html for html in top if html.blocks or html.parts]


def _find_innermost_section(section: HtmlSection) -> HtmlSection:
    """Return the section's last subsection at any depth, or the section itself if it has none."""
    return section.parts[-1] if section.parts else section


def _convert_block(block: Paragraph | Command | Verbatim | Bullets | Table | Plot) -> tuple[str, object]:
    """Convert a block to its kind and its content for the template."""
    match block:
        case Paragraph(parts):
            return "paragraph", tuple(map(build_words, parts))
        case Command(text):
            return "command", printable(text)
        case Verbatim(name, text):
            return "listing", Verbatim(printable(name), "\n".join(map(printable, text.splitlines())))
        case Bullets(items):
            return "bullets", tuple(map(build_words, items))
        case Table():
            return "grid", build_grid(block)
        case Plot():
            return ("bars", _build_bar_chart(block)) if block.has_bars else ("curves", _build_line_plot(block))


def build_grid(table: Table) -> Grid:
    """Build the grid of a table."""
    columns = tuple(GridColumn(printable(column.name), column.right, column.keep) for column in table.columns)
    rows = tuple(tuple(build_lines(cell) for cell in row) for row in table.rows)
    return Grid(columns, rows, printable(table.note))


def build_lines(cell: Cell | Stack) -> tuple[Words, ...]:
    """Build the lines of a cell."""
    return tuple(build_words(line) for line in list_lines(cell))


def build_words(cell: Cell) -> Words:
    """Build the printable text of a cell with the CSS class of its tone."""
    text, tone = with_tone(cell)
    return Words(truncate(printable(text)), (tone if text else Tone.PLAIN).name.lower())


def truncate(text: str) -> str:
    """Cut a text of more than MAX_TEXT_LENGTH characters and append a note.

    >>> truncate("a" * 5003)[4998:]
    'aa… (3 characters more)'
    """
    excess = len(text) - MAX_TEXT_LENGTH
    return text if excess <= 0 else f"{text[:MAX_TEXT_LENGTH]}… ({counted(excess, 'character')} more)"


def split_camel_case(name: str) -> list[str]:
    """Split a CamelCase name into words.

    >>> split_camel_case("ImageLocality")
    ['Image', 'Locality']
    """
    return _HUMP.split(name)


@dataclass(frozen=True)
class _PlottedLine:
    """A line of a plot."""

    name: str
    path: str
    """The `d` attribute of the SVG path."""
    look: int
    """Number of the line's color and dashes."""


@dataclass(frozen=True)
class _Tick:
    """A tick of an axis."""

    position: float
    text: str


@dataclass(frozen=True)
class _LinePlot:
    """A line plot for the template."""

    title: str
    description: str
    """The plot in words, for screen readers."""
    x: str
    y: str
    lines: tuple[_PlottedLine, ...]
    x_ticks: tuple[_Tick, ...]
    y_ticks: tuple[_Tick, ...]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = _HEIGHT - _BOTTOM


def _build_line_plot(plot: Plot) -> _LinePlot:
    """Build a line plot for the template, leaving out points that are not finite."""
    points_by_line = [build_line_points(plot, series) for series in plot.series]
    x_scale = build_scale(plot.x, [x for points in points_by_line for x, _ in points])
    y_scale = build_scale(plot.y, [y for points in points_by_line for _, y in points])
    get_x = _make_scaler(x_scale, start=_LEFT, end=_WIDTH - _RIGHT)
    get_y = _make_scaler(y_scale, start=_HEIGHT - _BOTTOM, end=_TOP)  # SVG counts y from the top

    plotted_lines = []
    for number, (series, points) in enumerate(zip(plot.series, points_by_line, strict=True)):
        path = _build_path([(get_x(x), get_y(y)) for x, y in points])
        plotted_lines.append(_PlottedLine(printable(series.name), path, look=number % _LINE_LOOKS))
    return _LinePlot(
        title=printable(plot.title),
        description=describe_plot(plot),
        x=printable(plot.x.title),
        y=printable(plot.y.title),
        lines=tuple(plotted_lines),
        x_ticks=_build_ticks(x_scale, start=_LEFT, end=_WIDTH - _RIGHT),
        y_ticks=_build_ticks(y_scale, start=_HEIGHT - _BOTTOM, end=_TOP),
    )


def _build_ticks(scale: AxisScale, start: int, end: int) -> tuple[_Tick, ...]:
    """Build the ticks of an axis that extends from `start` to `end`."""
    return tuple(_Tick(_interpolate(scale, value, start, end), text) for value, text in scale.ticks.items())


def _make_scaler(axis: AxisScale, start: int, end: int) -> Callable[[float], float]:
    """Return a function that maps values to positions between `start` and `end`."""
    return lambda value: _interpolate(axis, axis.position_of(value), start, end)


def _interpolate(axis: AxisScale, position: float, start: int, end: int) -> float:
    """Map a position on the axis to a coordinate between `start` and `end`, rounded to tenths."""
    return round(start + (end - start) * (position - axis.start) / (axis.end - axis.start), 1)


def _build_path(points: Sequence[Point]) -> str:
    """Build the `d` attribute of an SVG path: a move (M) to the first point and lines (L) to the other points."""
    commands = ("L" if i else "M" for i in range(len(points)))
    return "".join(f"{command}{x:g} {y:g}" for command, (x, y) in zip(commands, points, strict=True))


_MAX_BAR_WIDTH = 84


"""Width of the longest bar in percent; its number is written next to it."""


_THICK, _GAP, NAME = 16, 8, 17


"""Heights in pixels: of a bar, of the gap between places, and of a name."""


_BAR_LOOKS = 8


"""Number of distinct looks; from the eighth series on all pieces look alike."""


_LABEL = 44


"""Longest name above a bar in characters."""


@dataclass(frozen=True)
class _BarPiece:
    """A piece of a bar; `x` and `width` are percentages."""

    x: float
    width: float
    look: int
    title: str


@dataclass(frozen=True)
class _Bar:
    """A bar with its position and texts."""

    label: str
    """The shortened name above the first bar of a place, else ""."""
    name: str
    """The full name of the place."""
    y: int
    pieces: tuple[_BarPiece, ...]
    end: float
    """The end of the bar, in percent."""
    total: str


@dataclass(frozen=True)
class _BarChart:
    """A bar plot for the template."""

    title: str
    description: str
    """The plot in words, for screen readers."""
    unit: str
    bars: tuple[_Bar, ...]
    keys: tuple[tuple[str, int], ...]
    """Names of series and their looks."""
    note: str
    height: int
    thick: int = _THICK


def _build_bar_chart(plot: Plot) -> _BarChart:
    """Build a bar plot for the template.

    A place has one bar if its series are stacked, otherwise one bar per series.
    """
    stacked = plot.kind is PlotKind.STACKS
    all_series = list(range(len(plot.series)))
    series_of_bars = [all_series] if stacked else [[number] for number in all_series]  # at each place
    drawn_totals = [
        sum(max(_get_amount(plot, number, place), 0) for number in pieces)
        for place in range(len(plot.places))
        for pieces in series_of_bars
    ]
    unit = _MAX_BAR_WIDTH / (max(drawn_totals) or 1)

    totals = compute_totals(plot)
    bars = list[_Bar]()
    y = 0
    for place in range(len(plot.places)):
        gap_above = _GAP if bars else 0
        y += gap_above + NAME
        for number, pieces in enumerate(series_of_bars):
            is_first_of_place = number == 0
            if not is_first_of_place:
                y += 1  # one pixel between the bars of a place
            total = format_number(totals[place] if stacked else _get_amount(plot, number, place))
            bars.append(_build_bar(plot, place, pieces, unit=unit, y=y, is_named=is_first_of_place, total=total))
            y += _THICK
    keys = tuple((printable(series.name), min(number, _BAR_LOOKS - 1)) for number, series in enumerate(plot.series))
    return _BarChart(
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
    _place, amount = plot.series[series].points[place]
    return amount


def _build_bar(plot: Plot, place: int, series: list[int], *, unit: float, y: int, is_named: bool, total: str) -> _Bar:
    """Build one bar of a place from its pieces for the given series.

    `unit` is the width that represents an amount of 1. `total` is the text after the bar.
    """
    pieces = list[_BarPiece]()
    x = 0.0
    name = printable(plot.places[place])
    for i in series:
        amount = _get_amount(plot, i, place)
        if amount > 0:
            title = f"{name}: {printable(plot.series[i].name)} {format_number(amount)}"
            pieces.append(
                _BarPiece(x=round(x, 2), width=round(amount * unit, 2), look=min(i, _BAR_LOOKS - 1), title=title)
            )
            x += amount * unit
    return _Bar(
        shorten_middle(name, _LABEL) if is_named else "", name, y, pieces=tuple(pieces), end=round(x, 2), total=total
    )
