"""Pages on a terminal or in a pipe: tables as kubectl prints them, folded to the width and never cut.

rich folds what ``columns`` has laid out. Where the width has no limit (wide output in a pipe) there is nothing to lay
out: columns are plain text there, because rich needs 3 s for the table of 5,000 nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.style import Style as Look
from rich.table import Table as Layout
from rich.text import Text

from kschedctl.render.columns import GAP, broken, fitted, head, header
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
from kschedctl.render.plots.characters import drawn
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

LOOKS = {
    Tone.PLAIN: Look.null(),
    Tone.STRONG: Look(bold=True),
    Tone.GOOD: Look(color="green"),
    Tone.BAD: Look(bold=True, color="red"),
    Tone.WARNING: Look(color="yellow"),
    Tone.FAINT: Look(dim=True),
    Tone.VERBATIM: Look(dim=True),
    Tone.CODE: Look(color="cyan"),
}

INDENT = 2
BULLET = "  - "
_END = re.compile(r"(?: *(\x1b\[0m))?(?: |\x1b\[[\d;]+m)*$")
"""Blanks at the end of a line, with all that colours them; a group for the end of the colour of what is before them."""


_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|µs|%)(?!\w))")
"""Between a number and its unit no line ends."""
_GLUE = "\ue000"
"""What stands for such a blank while rich looks for places to fold: nothing printable has it."""


def show(page: Page, style: Style) -> str:
    """The page as text that ends with a newline; colours are ANSI sequences."""
    lines: list[str] = []
    before: Block | None = None
    for block in page if style.plots else without_plots(page):
        unfolded = style.width >= UNFOLDED and not isinstance(block, Plot)
        shown = [*(_unfolded(block, style) if unfolded else _folded(block, style))]
        lines += ["", *shown] if before and shown and _apart(before, block) else shown
        before = block
    return "".join(f"{_without_blanks(line)}\n" for line in lines)


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


# -- folded by rich ----------------------------------------------------------------------------------------------------


def _folded(block: Block, style: Style) -> list[str]:
    """The lines of a block; rich asks neither the terminal nor the environment for anything."""
    file, indent = StringIO(), INDENT if isinstance(block, Command | Verbatim | Table | Plot) else 0
    console = Console(
        file=file,
        width=style.width - indent,
        height=25,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for piece in _pieces(block, console.width, style.ascii_only):
        console.print(piece, soft_wrap=isinstance(block, Command | Verbatim))
    return [" " * indent + line.replace(_GLUE, " ") for line in file.getvalue().splitlines()]


def _pieces(block: Block, room: int, ascii_only: bool) -> Iterator[RenderableType]:
    match block:
        case Heading(text):
            yield _text(Marked(text, Tone.STRONG), room)
        case Paragraph(parts):
            yield Text(" ").join(_text(part, room) for part in parts)
        case Command(text):
            yield _text(Marked(text, Tone.CODE))
        case Verbatim(_, text):
            yield Text("\n").join(_text(Marked(line, Tone.CODE)) for line in text.splitlines())
        case Bullets(items):
            bullets = Layout.grid()
            bullets.add_column(no_wrap=True)
            bullets.add_column(overflow="fold")
            for item in items:
                bullets.add_row(BULLET, _text(item, room - len(BULLET)))
            yield bullets
        case Table():
            yield _layout(block, room)
            if block.note:
                yield _text(Marked(block.note, Tone.FAINT), room)
        case Plot():
            yield from drawn(block, room, ascii_only)


def _text(cell: Cell | Stack, room: int = UNFOLDED) -> Text:
    """A cell, one line for each that it is made of; blanks that rich puts around it have no style."""
    lines = ((_UNIT.sub(_GLUE, broken(printable(text), room)), LOOKS[tone]) for text, tone in stacked(cell))
    first, *others = (Text().append(*line) for line in lines)
    return Text("\n").join((first, *others)) if others else first


def _layout(table: Table, room: int) -> Layout:
    table, widths = fitted(table, room)
    made = Layout(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=Look.null())
    for column, width in zip(table.columns, widths, strict=True):
        justify = "right" if column.right else "default"
        lines = _text(Stack(tuple(Marked(line, Tone.FAINT) for line in head(column))), width)
        made.add_column(lines, justify=justify, overflow="fold", width=width)  # type: ignore[arg-type]
    for row in table.rows:
        made.add_row(*(_text(cell, width) for cell, width in zip(row, widths, strict=True)))
    return made


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
    return LOOKS[tone].render(printable(text), color_system=ColorSystem.STANDARD if style.color else None)
