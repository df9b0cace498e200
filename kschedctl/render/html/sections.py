"""Sections of a page for the HTML template, with printable texts and tables as rows for the script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.render.html.svg_plots import build_bar_chart, build_curve_plot
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
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted
from kschedctl.text.printable import printable

ROWS_WITHOUT_SCRIPT = 50
"""Rows of a table in the HTML itself; the script lays out more on demand."""

_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
MAX_TEXT_LENGTH = 5000
"""Longest text that is shown."""


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
    """Whether cells must not be wrapped."""


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
    """Whether the section can be folded to its title and `state`."""
    opened: bool = False
    """Whether a section that can be folded is unfolded at first."""
    tone: str = ""
    """The CSS class that colors the answer."""
    state: str = ""
    """The state of a folded section in a few words."""


def split_into_sections(page: Page) -> list[HtmlSection]:
    """Split a page at its headings. Blocks before the first heading form a section without a title."""
    top = [HtmlSection("")]
    for block in page:
        if isinstance(block, Heading):
            under = top if block.level == 1 else top[-1].parts
            under.append(HtmlSection(truncate(printable(block.text)), [], block.level))
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
            return ("bars", build_bar_chart(block)) if block.has_bars else ("curves", build_curve_plot(block))


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
