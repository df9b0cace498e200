"""A page cut into sections for the template, its texts made printable; tables as rows for the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kschedctl.render.html.curves import curves
from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Command,
    Heading,
    Marked,
    Page,
    Paragraph,
    Plot,
    Stack,
    Table,
    Tone,
    parts,
    stacked,
)
from kschedctl.render.printable import printable

LAID_OUT = 50
"""Rows of a table that are there without the script; it lays out more when they are asked for."""


@dataclass(frozen=True)
class Words:
    """A text and the class of its meaning, ``plain`` for none."""

    text: str
    tone: str


@dataclass(frozen=True)
class Grid:
    """``rows``: cells of one line or more; ``grouped``: the column by whose values rows are folded away, or -1.

    ``bars``: the columns that are drawn as bars, too.
    """

    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[tuple[Words, ...], ...], ...]
    note: str = ""
    grouped: int = -1
    bars: tuple[int, ...] = ()

    @property
    def first(self) -> Sequence[tuple[tuple[Words, ...], ...]]:
        return self.rows[:LAID_OUT]

    def data(self) -> dict[str, Any]:
        """For the script: a cell is a text, or lines of [text, tone]."""
        rows = [[_short(cell) for cell in row] for row in self.rows]
        return {"columns": self.columns, "rows": rows, "grouped": self.grouped, "bars": self.bars, "shown": LAID_OUT}


def _short(cell: tuple[Words, ...]) -> str | list[list[str]]:
    if len(cell) == 1 and cell[0].tone == "plain":
        return cell[0].text
    return [[each.text, each.tone] for each in cell]


@dataclass
class HtmlSection:
    """``blocks``: (kind, content) as the template knows them."""

    title: str
    blocks: list[tuple[str, Any]] = field(default_factory=list)


def sections(page: Page) -> list[HtmlSection]:
    """The first is what stands before any heading: the answer."""
    return [HtmlSection(printable(title), [_block(block) for block in under]) for title, under in parts(page)]


def _block(block: Block) -> tuple[str, Any]:
    match block:
        case Paragraph(parts):
            return "paragraph", tuple(map(words, parts))
        case Command(text):
            return "command", printable(text)
        case Bullets(items):
            return "bullets", tuple(map(words, items))
        case Table():
            return "grid", grid(block)
        case Plot():
            return "curves", curves(block)
        case Heading(text):
            return "paragraph", (Words(printable(text), "strong"),)


def grid(table: Table) -> Grid:
    columns = tuple((printable(column.name), column.right) for column in table.columns)
    rows = tuple(tuple(lines(cell) for cell in row) for row in table.rows)
    return Grid(columns, rows, printable(table.note))


def lines(cell: Cell | Stack) -> tuple[Words, ...]:
    return tuple(words(line) for line in stacked(cell))


def words(cell: Cell) -> Words:
    text, tone = cell if isinstance(cell, Marked) else (cell, Tone.PLAIN)
    return Words(printable(text), tone.name.lower())
