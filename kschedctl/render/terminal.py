"""Pages as text for a terminal or a pipe: tables as kubectl prints them, folded to the width, never cut.

rich folds and colors (`folded`). Without a width limit (wide output in a pipe) columns are plain text, because rich
needs 3 s for a table of 5,000 nodes. Lines that fit are printed without rich as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

from kschedctl.render.columns import BULLET, GAP, INDENT, format_header
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
    list_lines,
    without_plots,
)
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

_END = re.compile(r"(?: *(\x1b\[0m))?(?: |\x1b\[[\d;]+m)*$")
"""Blanks at the end of a line with their color codes; the group is the end of the color before them."""


def render_text(page: Page, style: Style) -> str:
    """Render the page as text that ends with a newline, with ANSI colors if the style has them.

    Plots are left out unless the style asks for them.
    """
    lines: list[str] = []
    previous: Block | None = None
    for block in page if style.plots else without_plots(page):
        block_lines = _render_block(block, style)
        if previous and block_lines and _needs_blank_line(previous, block):
            lines.append("")
        lines += block_lines
        previous = block
    return "".join(f"{_strip_blanks_at_line_end(line)}\n" for line in lines)


def _render_block(block: Block, style: Style) -> list[str]:
    """Render a block as lines of text.

    Without a width limit, lines are never folded. With one, rich folds the lines. Headings, paragraphs and commands
    that fit on a line do without rich, which is slow to import, unless they are colored. Plots always need it.
    """
    if isinstance(block, Plot):
        return _render_with_rich(block, style)
    if style.width >= UNFOLDED:
        return [*_render_without_folding(block, style)]
    if isinstance(block, Heading | Paragraph | Command) and not style.color:
        [line] = _render_without_folding(block, style)
        if cell_len(line) <= style.width:
            return [line]
    return _render_with_rich(block, style)


def _render_with_rich(block: Block, style: Style) -> list[str]:
    """Render a block as lines folded to the width."""
    from kschedctl.render.folded import render_folded  # noqa: PLC0415 - rich takes a while to import

    return render_folded(block, style)


def _needs_blank_line(previous: Block, block: Block) -> bool:
    """Return whether a blank line must separate two blocks."""
    if isinstance(block, Plot):
        return not isinstance(previous, Heading)
    return (
        isinstance(block, Heading)
        or isinstance(previous, Plot)
        or (isinstance(block, Table) and isinstance(previous, Table))
    )


def _strip_blanks_at_line_end(line: str) -> str:
    """Remove blanks at the end of a line, including blanks before a final color code."""
    line = line.rstrip()
    if not line.endswith("m"):  # every color code ends with "m", so blanks can only precede one on such a line
        return line

    # Keep the code that ends the color of the text before the blanks, if there is one
    return _END.sub(lambda end: end[1] or "", line)


# -- without a limit ---------------------------------------------------------------------------------------------------


def _render_without_folding(block: Block, style: Style) -> Iterator[str]:
    """Yield the lines of a block, however long they are. A table gets one line per row, and its note a line below."""
    match block:
        case Heading(text):
            yield _colorize_cell(Marked(text, Tone.STRONG), style)
        case Paragraph(parts):
            yield " ".join(_colorize_cell(part, style) for part in parts)
        case Command(text):
            yield " " * INDENT + _colorize_cell(Marked(text, Tone.CODE), style)
        case Verbatim(_, text):
            yield from (" " * INDENT + _colorize_cell(Marked(line, Tone.CODE), style) for line in text.splitlines())
        case Bullets(items):
            yield from (BULLET + _colorize_cell(item, style) for item in items)
        case Table():
            yield from _render_table(block, style)
            if block.note:
                yield " " * INDENT + _colorize_cell(Marked(block.note, Tone.FAINT), style)


def _render_table(table: Table, style: Style) -> Iterator[str]:
    """Yield one line per row, with columns as wide as their longest cell."""
    heads = tuple(Marked(format_header(column), Tone.FAINT) for column in table.columns)
    rows = [[_join_cell_lines(cell) for cell in row] for row in (heads, *table.rows)]
    widths = [max(cell_len(cell.text) for cell in cells) for cells in zip(*rows, strict=True)]
    for row in rows:
        line = " " * INDENT
        for cell, room, column in zip(row, widths, table.columns, strict=True):
            blank = " " * (room - cell_len(cell.text))
            painted = _colorize_cell(cell, style)
            line += (blank + painted if column.right else painted + blank) + " " * GAP
        yield line


def _join_cell_lines(cell: Cell | Stack) -> Marked:
    """Join the lines of a cell to one line."""
    lines = list_lines(cell)
    return Marked(" ".join(printable(text) for text, _ in lines), lines[0].tone)


def _colorize_cell(cell: Cell, style: Style) -> str:
    """Return the cell's text, with ANSI colors if the style has colors."""
    [(text, tone)] = list_lines(cell)
    if not style.color:
        return printable(text)
    from kschedctl.render.folded import add_color  # noqa: PLC0415 - rich takes a while to import

    return add_color(printable(text), tone)
