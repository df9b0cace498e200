"""A page cut into sections for the template, its texts made printable; tables as rows for the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.render.html.bars import bars
from kschedctl.render.html.curves import curves
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
    marked,
    stacked,
)
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted
from kschedctl.text.printable import printable

LAID_OUT = 50
"""Rows of a table that are there without the script; it lays out more when they are asked for."""

LONGEST = 5000
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class Words:
    """A text and the class of its meaning, ``plain`` for none."""

    text: str
    tone: str

    def data(self) -> str | list[str]:
        """For the script: a text, or [text, tone]."""
        return self.text if self.tone == "plain" else [self.text, self.tone]


GridColumn = tuple[str, bool, bool]
"""Name of a column, whether it has numbers, whether it is better left in one piece."""


@dataclass(frozen=True)
class Grid:
    """``rows``: cells of one line or more.

    ``grouped``: the column by whose values rows are folded away, or -1. ``bars``: columns that are drawn, too.
    """

    columns: tuple[GridColumn, ...]
    rows: tuple[tuple[tuple[Words, ...], ...], ...]
    note: str = ""
    grouped: int = -1
    bars: tuple[int, ...] = ()

    @property
    def first(self) -> Sequence[tuple[tuple[Words, ...], ...]]:
        return self.rows[:LAID_OUT]

    def data(self) -> JsonObject:
        """For the script: a cell is a text, or lines of [text, tone]."""
        rows = [[_short(cell) for cell in row] for row in self.rows]
        return {"columns": self.columns, "rows": rows, "grouped": self.grouped, "bars": self.bars, "shown": LAID_OUT}


def _short(cell: tuple[Words, ...]) -> str | list[list[str]]:
    if len(cell) == 1 and cell[0].tone == "plain":
        return cell[0].text
    return [[words.text, words.tone] for words in cell]


@dataclass
class HtmlSection:
    """``blocks``: (kind, content) as the template knows them; then ``parts`` with headings of a lower ``level``.

    ``folded``: its heading, and the ``answer`` in a line, open it. ``tone``: of the answer, the class of its colour.
    """

    title: str
    blocks: list[tuple[str, object]] = field(default_factory=list)
    level: int = 1
    parts: list[HtmlSection] = field(default_factory=list)
    folded: bool = False
    tone: str = ""
    answer: str = ""


def sections(page: Page) -> list[HtmlSection]:
    """The first without a title is what stands before any heading. None are empty."""
    top = [HtmlSection("")]
    for block in page:
        if isinstance(block, Heading):
            under = top if block.level == 1 else top[-1].parts
            under.append(HtmlSection(cut(printable(block.text)), [], block.level))
        else:
            _last(top[-1]).blocks.append(_block(block))
    return [html for html in top if html.blocks or html.parts]


def _last(section: HtmlSection) -> HtmlSection:
    return section.parts[-1] if section.parts else section


def _block(block: Paragraph | Command | Verbatim | Bullets | Table | Plot) -> tuple[str, object]:
    match block:
        case Paragraph(parts):
            return "paragraph", tuple(map(words, parts))
        case Command(text):
            return "command", printable(text)
        case Verbatim(name, text):
            return "listing", Verbatim(printable(name), "\n".join(map(printable, text.splitlines())))
        case Bullets(items):
            return "bullets", tuple(map(words, items))
        case Table():
            return "grid", grid(block)
        case Plot():
            return ("bars", bars(block)) if block.of_bars else ("curves", curves(block))


def grid(table: Table) -> Grid:
    columns = tuple((printable(column.name), column.right, column.keep) for column in table.columns)
    rows = tuple(tuple(lines(cell) for cell in row) for row in table.rows)
    return Grid(columns, rows, printable(table.note))


def lines(cell: Cell | Stack) -> tuple[Words, ...]:
    return tuple(words(line) for line in stacked(cell))


def words(cell: Cell) -> Words:
    text, tone = marked(cell)
    return Words(cut(printable(text)), (tone if text else Tone.PLAIN).name.lower())


def cut(text: str) -> str:
    """What nobody reads to its end is cut, and says so.

    >>> cut("a" * 5003)[4998:]
    'aa… (3 characters more)'
    """
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({counted(len(text) - LONGEST, 'character')} more)"
