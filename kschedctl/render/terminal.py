"""Pages on a terminal or in a pipe: tables as kubectl prints them, folded to the width and never cut.

rich folds and colours (``folded``). Where the width has no limit (wide output in a pipe) there is nothing to lay out:
columns are plain text there, because rich needs 3 s for the table of 5,000 nodes. Nor is there in a line that fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

from kschedctl.render.columns import BULLET, GAP, INDENT, header
from kschedctl.render.page import (
    UNFOLDED,
    Block,
    Bullets,
    Cell,
    Command,
    Heading,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    Verbatim,
    stacked,
    without_plots,
)
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

_END = re.compile(r"(?: *(\x1b\[0m))?(?: |\x1b\[[\d;]+m)*$")
"""Blanks at the end of a line, with all that colours them; a group for the end of the colour of what is before them."""


def show(page: Page, style: Style) -> str:
    """The page as text that ends with a newline; colours are ANSI sequences."""
    lines: list[str] = []
    before: Block | None = None
    for block in page if style.plots else without_plots(page):
        shown = _lines(block, style)
        lines += ["", *shown] if before and shown and _apart(before, block) else shown
        before = block
    return "".join(f"{_without_blanks(line)}\n" for line in lines)


def _lines(block: Block, style: Style) -> list[str]:
    if isinstance(block, Plot):
        return _folded(block, style)
    if style.width >= UNFOLDED:
        return [*_unfolded(block, style)]
    if isinstance(block, Heading | Paragraph | Command) and not style.color:
        [line] = _unfolded(block, style)
        if cell_len(line) <= style.width:
            return [line]
    return _folded(block, style)


def _folded(block: Block, style: Style) -> list[str]:
    from kschedctl.render.folded import folded  # noqa: PLC0415 - rich takes a while to import

    return folded(block, style)


def _apart(before: Block, block: Block) -> bool:
    """Whether a line is empty between them: around a plot, before a heading, a table after a table."""
    if isinstance(block, Plot):
        return not isinstance(before, Heading)
    return (
        isinstance(block, Heading)
        or isinstance(before, Plot)
        or (isinstance(block, Table) and isinstance(before, Table))
    )


def _without_blanks(line: str) -> str:
    """The line less the blanks at its end, coloured ones too."""
    line = line.rstrip()
    return _END.sub(lambda end: end[1] or "", line) if line.endswith("m") else line


# -- without a limit ---------------------------------------------------------------------------------------------------


def _unfolded(block: Block, style: Style) -> Iterator[str]:
    match block:
        case Heading(text):
            yield _painted(Marked(text, Tone.STRONG), style)
        case Paragraph(parts):
            yield " ".join(_painted(part, style) for part in parts)
        case Command(text):
            yield " " * INDENT + _painted(Marked(text, Tone.CODE), style)
        case Verbatim(_, text):
            yield from (" " * INDENT + _painted(Marked(line, Tone.CODE), style) for line in text.splitlines())
        case Bullets(items):
            yield from (BULLET + _painted(item, style) for item in items)
        case Table():
            yield from _columns(block, style)
            if block.note:
                yield " " * INDENT + _painted(Marked(block.note, Tone.FAINT), style)


def _columns(table: Table, style: Style) -> Iterator[str]:
    """One line a row, each column as wide as its longest cell."""
    heads = tuple(Marked(header(column), Tone.FAINT) for column in table.columns)
    rows = [[_one_line(cell) for cell in row] for row in (heads, *table.rows)]
    widths = [max(cell_len(cell.text) for cell in cells) for cells in zip(*rows, strict=True)]
    for row in rows:
        line = " " * INDENT
        for cell, room, column in zip(row, widths, table.columns, strict=True):
            blank, painted = " " * (room - cell_len(cell.text)), _painted(cell, style)
            line += (blank + painted if column.right else painted + blank) + " " * GAP
        yield line


def _one_line(cell: Cell | Stack) -> Marked:
    lines = stacked(cell)
    return Marked(" ".join(printable(text) for text, _ in lines), lines[0].tone)


def _painted(cell: Cell, style: Style) -> str:
    [(text, tone)] = stacked(cell)
    if not style.color:
        return printable(text)
    from kschedctl.render.folded import coloured  # noqa: PLC0415 - rich takes a while to import

    return coloured(printable(text), tone)
