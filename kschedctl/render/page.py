"""The contents of a report's page as blocks that all formats share: headings, paragraphs, tables, plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing, counted, first_few


class Marked(NamedTuple):
    """Text with a tone."""

    text: str
    tone: Tone


Cell = str | Marked
count, names = counted, first_few
Row = TypeVar("Row")

UNFOLDED = 100_000
"""A width at which nothing is folded."""


def with_tone(cell: Cell) -> Marked:
    """Return the cell with its tone, which is PLAIN for a plain text."""
    return cell if isinstance(cell, Marked) else Marked(cell, Tone.PLAIN)


class Heading(msgspec.Struct, frozen=True):
    """A heading; `level` is 1, or more for a subsection."""

    text: str
    level: int = 1


class Paragraph(msgspec.Struct, frozen=True):
    """Texts that follow each other, separated by spaces."""

    parts: tuple[Cell, ...]


class Command(msgspec.Struct, frozen=True):
    """A command line to copy, which is never folded."""

    text: str


class Verbatim(msgspec.Struct, frozen=True):
    """Lines to copy literally, such as a patch."""

    name: str
    """The name of the lines."""
    text: str


class Bullets(msgspec.Struct, frozen=True):
    """A bulleted list."""

    items: tuple[Cell, ...]


class Stack(msgspec.Struct, frozen=True):
    """Cells below each other in one place of a table."""

    cells: tuple[Cell, ...]


def list_lines(cell: Cell | Stack) -> tuple[Marked, ...]:
    """Return the lines of a cell with their tones, without the empty lines of a stack.

    >>> [line.text for line in list_lines(Stack(("n1", "")))]
    ['n1']
    """
    if isinstance(cell, Stack):
        return tuple(line for line in map(with_tone, cell.cells) if line.text) or (with_tone(""),)
    return (with_tone(cell),)


def is_empty(cell: Cell | Stack) -> bool:
    """Return whether no line of the cell has text."""
    return not any(line.text for line in list_lines(cell))


class Table(msgspec.Struct, frozen=True):
    """A table; `note` stands below it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | Stack, ...], ...]
    note: str = ""

    def without_empty_columns(self) -> Table:
        """Return the table without columns whose cells are all empty."""
        filled = [i for i in range(len(self.columns)) if any(not is_empty(row[i]) for row in self.rows)]
        rows = tuple(tuple(row[i] for i in filled) for row in self.rows)
        return Table(tuple(self.columns[i] for i in filled), rows, self.note)


Worded = Heading | Paragraph | Command | Verbatim | Bullets | Table
Block = Worded | Plot
Page = tuple[Block, ...]


Commands = Mapping[str, Sequence[str]]
"""Command lines by the subject that they concern."""
NO_COMMANDS: Commands = {}


class Style(msgspec.Struct, frozen=True):
    """The choices for rendering a report."""

    width: int = 110
    color: bool = False
    wide: bool = False
    """True if all columns and rows are shown in full."""
    all_nodes: bool = False
    """True if every node is listed, not only the nearest ones."""
    fixes: bool = False
    """True if the fix of each finding is shown."""
    patches: bool = False
    """True if remedies are shown with their patches."""
    answer_first: bool = False
    """True if the answer comes first even where a terminal would show it last, just above the prompt."""
    template: str = ""
    """The template of `-o jsonpath=` or `-o custom-columns=`."""
    plots: bool = False
    """True if plots are drawn."""
    ascii_only: bool = False
    """True if the output may contain only ASCII."""
    commands: Commands = msgspec.field(default_factory=dict)
    """Commands to try next, by pod, cluster, section or fingerprint of a finding; "" for the whole report."""
    full_command: str = ""
    """The command line that prints the whole answer instead of its brief form, or "" if it cannot be repeated."""
    about: tuple[tuple[str, str], ...] = ()
    """Facts for the head of a report, such as cluster, time and command."""

    @property
    def lists_all_nodes(self) -> bool:
        """True if tables of nodes have all rows."""
        return self.wide or self.all_nodes

    @property
    def narrow(self) -> bool:
        """True if there is too little room for all columns."""
        return self.width < 110


def paragraph(*parts: Cell) -> Paragraph:
    """Return a paragraph of these texts."""
    return Paragraph(parts)


def section(title: str, *blocks: Block) -> Page:
    """Return a heading and the blocks below it."""
    return (Heading(title), *blocks)


def build_subsection(title: str, page: Page) -> Page:
    """Return a heading and a page below it, whose own headings become subheadings."""
    lower = (replace(block, level=block.level + 1) if isinstance(block, Heading) else block for block in page)
    return (Heading(title), *lower)


def iter_sections(page: Page) -> Iterator[tuple[str, Page]]:
    """Yield each heading of a page with the blocks below it. Blocks before the first heading come with a "" heading."""
    title = ""
    blocks_below = list[Block]()
    for block in page:
        if isinstance(block, Heading):
            yield title, tuple(blocks_below)
            title = block.text
            blocks_below = []
        else:
            blocks_below.append(block)
    yield title, tuple(blocks_below)


def without_plots(page: Page) -> tuple[Worded, ...]:
    """Return the page without plots, and without headings that have only plots below them."""
    blocks: list[Worded] = []
    for i, block in enumerate(page):
        if isinstance(block, Plot):
            continue
        if isinstance(block, Heading):
            below = list(takewhile(lambda other: not isinstance(other, Heading), page[i + 1 :]))
            if below and all(isinstance(other, Plot) for other in below):
                continue
        blocks.append(block)
    return tuple(blocks)


def find_plots(page: Page) -> tuple[Plot, ...]:
    """Return the plots of a page."""
    return tuple(block for block in page if isinstance(block, Plot))


def limit_rows(
    rows: Sequence[Row], limit: int | None, how: str = "--each-node shows all", noun: str = ""
) -> tuple[tuple[Row, ...], str]:
    """Return the first rows, and a note on how many more there are.

    All rows are returned if only a few would be left out. `how` says how to see all rows. `noun` is the note's word for
    a row. It is needed if the note could seem to count something else, such as in a cell of a table.
    """
    if limit is None or len(rows) <= limit + limit // 5:
        return tuple(rows), ""
    number = len(rows) - limit
    more = f"more {agreeing(number, noun, f'{noun}s')}" if noun else "more"
    return tuple(rows[:limit]), f"… {number:,} {more}, {how}"


def limit_rows_by_style(
    rows: Sequence[Row], style: Style, limit: int | None, noun: str = ""
) -> tuple[tuple[Row, ...], str]:
    """Return the first rows, and a note on how many more there are. `-o wide` returns all rows."""
    return limit_rows(rows, None if style.wide else limit, "-o wide shows all", noun)


VERDICT_NAMES = {
    "Gated": "Held back",  # by scheduling gates, or by a PreEnqueue plugin that misses something
    "NotResponsible": "Handled by another scheduler",
    "NotCreated": "Not created",
}


def describe_verdict(answer: str) -> str:
    """Replace the verdict at the start of an answer by the words that people read. Data keep the name of the verdict.

    >>> describe_verdict("NotResponsible: the pod is being deleted"), describe_verdict("Gated")
    ('Handled by another scheduler: the pod is being deleted', 'Held back')
    """
    verdict, colon, reason = answer.partition(":")
    return f"{VERDICT_NAMES.get(verdict, verdict)}{colon}{reason}"
