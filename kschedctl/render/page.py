"""What a report says, as blocks that every way of showing it shares: headings, paragraphs, bullets, tables, plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import counted, first_few


class Marked(NamedTuple):
    """Text with a meaning."""

    text: str
    tone: Tone


Cell = str | Marked
count, names = counted, first_few
Row = TypeVar("Row")

UNFOLDED = 100_000
"""A width at which nothing is folded."""


def marked(cell: Cell) -> Marked:
    """The cell with its tone, PLAIN when it has none."""
    return cell if isinstance(cell, Marked) else Marked(cell, Tone.PLAIN)


class Heading(msgspec.Struct, frozen=True):
    """``level``: 1, or more for what stands below another heading."""

    text: str
    level: int = 1


class Paragraph(msgspec.Struct, frozen=True):
    """Parts that follow each other, a space between them."""

    parts: tuple[Cell, ...]


class Command(msgspec.Struct, frozen=True):
    """Something to type as it stands: never folded."""

    text: str


class Verbatim(msgspec.Struct, frozen=True):
    """Lines to copy as they stand, such as a patch; ``name`` says what they are."""

    name: str
    text: str


class Bullets(msgspec.Struct, frozen=True):
    items: tuple[Cell, ...]


class Stack(msgspec.Struct, frozen=True):
    """Cells one beneath the other in one place of a table."""

    cells: tuple[Cell, ...]


def stacked(cell: Cell | Stack) -> tuple[Marked, ...]:
    """The lines of a place of a table, each with its tone; empty ones are left out of a stack.

    >>> [line.text for line in stacked(Stack(("n1", "")))]
    ['n1']
    """
    if isinstance(cell, Stack):
        return tuple(line for line in map(marked, cell.cells) if line.text) or (marked(""),)
    return (marked(cell),)


class Table(msgspec.Struct, frozen=True):
    """``note`` stands beneath the table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | Stack, ...], ...]
    note: str = ""

    def without_empty_columns(self) -> Table:
        """The table less the columns in which no row says anything."""
        full = [i for i in range(len(self.columns)) if any(stacked(row[i])[0].text for row in self.rows)]
        rows = tuple(tuple(row[i] for i in full) for row in self.rows)
        return Table(tuple(self.columns[i] for i in full), rows, self.note)


Worded = Heading | Paragraph | Command | Verbatim | Bullets | Table
Block = Worded | Plot
Page = tuple[Block, ...]


Commands = Mapping[str, Sequence[str]]
"""Command lines, by what they are about."""
NO_COMMANDS: Commands = {}


class Style(msgspec.Struct, frozen=True):
    """How to show a report. ``wide``: every column in full; ``all_nodes``: every node, not only the nearest.

    ``fixes``: what to do about each finding. ``patches``: how each remedy is made, also as patch. ``answer_first``: the
    answer stands first also where a terminal shows it last, above the next command line. ``template``: of
    ``-o jsonpath=`` and ``-o custom-columns=``. ``plots``: they are drawn, too; ``ascii_only``: of nothing but ASCII.
    ``commands``: what whoever reads it can type next, about the whole under an empty name, else by the pod,
    cluster, section or finding (its fingerprint) that it is about. ``about``: the cluster, the time and the command,
    for the head of a report.
    """

    width: int = 110
    color: bool = False
    wide: bool = False
    all_nodes: bool = False
    fixes: bool = False
    patches: bool = False
    answer_first: bool = False
    template: str = ""
    plots: bool = False
    ascii_only: bool = False
    commands: Commands = msgspec.field(default_factory=dict)
    about: tuple[tuple[str, str], ...] = ()

    @property
    def unlimited(self) -> bool:
        return self.wide or self.all_nodes

    @property
    def narrow(self) -> bool:
        return self.width < 110


def paragraph(*parts: Cell) -> Paragraph:
    return Paragraph(parts)


def section(title: str, *blocks: Block) -> Page:
    """A heading and what stands under it."""
    return (Heading(title), *blocks)


def below(title: str, page: Page) -> Page:
    """A heading, and a page below it with headings of its own."""
    lower = (replace(block, level=block.level + 1) if isinstance(block, Heading) else block for block in page)
    return (Heading(title), *lower)


def parts(page: Page) -> Iterator[tuple[str, Page]]:
    """The headings of a page, "" for what stands before any, and what is under each."""
    title, under = "", list[Block]()
    for block in page:
        if isinstance(block, Heading):
            yield title, tuple(under)
            title, under = block.text, []
        else:
            under.append(block)
    yield title, tuple(under)


def without_plots(page: Page) -> tuple[Worded, ...]:
    """The page less its plots, and less the headings under which there is nothing else."""
    kept: list[Worded] = []
    for i, block in enumerate(page):
        under = tuple(takewhile(lambda below: not isinstance(below, Heading), page[i + 1 :]))
        alone = isinstance(block, Heading) and under and all(isinstance(below, Plot) for below in under)
        if not isinstance(block, Plot) and not alone:
            kept.append(block)
    return tuple(kept)


def plots_of(page: Page) -> tuple[Plot, ...]:
    return tuple(block for block in page if isinstance(block, Plot))


def shown_first(
    rows: Sequence[Row], limit: int | None, how: str = "--each-node shows all"
) -> tuple[tuple[Row, ...], str]:
    """The first rows, and a note of how many are left out; a remainder of a few rows is not worth leaving out."""
    if limit is None or len(rows) <= limit + limit // 5:
        return tuple(rows), ""
    return tuple(rows[:limit]), f"… {len(rows) - limit:,} more, {how}"


def first_rows(rows: Sequence[Row], style: Style, limit: int | None) -> tuple[tuple[Row, ...], str]:
    """The first rows of a table of which ``-o wide`` shows all, and a note of how many are left out."""
    return shown_first(rows, None if style.wide else limit, "-o wide shows all")


IN_WORDS = {"NotResponsible": "Not for this scheduler", "NotCreated": "Not created"}


def verdict_words(answer: str) -> str:
    """A verdict, and what may follow it after a colon, as people read it; data keep its name.

    >>> verdict_words("NotResponsible: the pod is being deleted"), verdict_words("Gated")
    ('Not for this scheduler: the pod is being deleted', 'Gated')
    """
    verdict, colon, rest = answer.partition(":")
    return f"{IN_WORDS.get(verdict, verdict)}{colon}{rest}"
