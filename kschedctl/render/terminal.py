"""Pages on a terminal or in a pipe: tables as kubectl prints them, folded to the width and never cut.

rich lays out whatever has to be folded. It takes 3 s for 5,000 nodes even when nothing does, so that tables without a
limit of width, which tools read line by line, are plain columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import StringIO

from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style as RichStyle
from rich.text import Text

from kschedctl.render.page import (
    UNFOLDED,
    Block,
    Bullets,
    Cell,
    Column,
    Command,
    Heading,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    Tone,
    lines_of,
    marked,
)
from kschedctl.render.printable import printable

STYLES = {
    Tone.PLAIN: RichStyle.null(),
    Tone.STRONG: RichStyle(bold=True),
    Tone.GOOD: RichStyle(color="green"),
    Tone.BAD: RichStyle(bold=True, color="red"),
    Tone.WARNING: RichStyle(color="yellow"),
    Tone.FAINT: RichStyle(dim=True),
    Tone.CODE: RichStyle(color="cyan"),
}

INDENT, GAP = 2, 2
LEAST = 12
"""Columns of text narrower than this are no use: names have to give way too."""
_TRAILING = re.compile(r" *(\x1b\[0m)? *$")
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


def show(page: Page, style: Style) -> str:
    """The page as text that ends with a newline; colours are ANSI sequences."""
    console = _console(style)
    for position, block in enumerate(page):
        if isinstance(block, Heading) and position:
            console.print()
        for piece in _pieces(block, style):
            console.print(piece, soft_wrap=isinstance(block, Command) or style.width >= UNFOLDED)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "".join(f"{_TRAILING.sub(_reset, line)}\n" for line in lines)


def _reset(end: re.Match[str]) -> str:
    return end[1] or ""


def _console(style: Style) -> Console:
    """Writes into a string, and asks neither the terminal nor the environment for anything."""
    return Console(
        file=StringIO(),
        width=style.width,
        height=100,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _pieces(block: Block, style: Style) -> Iterator[RenderableType]:
    match block:
        case Heading(text):
            yield _text(Marked(text, Tone.STRONG))
        case Paragraph(parts):
            yield Text(" ").join(map(_text, parts))
        case Command(text):
            yield Text(" " * INDENT).append(_text(Marked(text, Tone.CODE)))
        case Bullets(items):
            yield from _bullets(items, style)
        case Table() if style.width >= UNFOLDED:
            yield from _unfolded(block)
        case Table():
            yield from _folded(block, style)


def _bullets(items: tuple[Cell, ...], style: Style) -> Iterator[RenderableType]:
    if style.width >= UNFOLDED:
        yield from (Text("  - ").append(_text(item)) for item in items)
        return
    grid = rich_table.Table.grid()
    grid.add_column()
    grid.add_column(overflow="fold", justify="default")
    for item in items:
        grid.add_row("  - ", _text(item))
    yield grid


def _text(cell: Cell | Stack) -> Text:
    """The cell in the style of its tone; blanks around it have none."""
    parts = (Text().append(printable(text), STYLES[tone]) for text, tone in lines_of(cell))
    return Text("\n").join(parts)


def _folded(table: Table, style: Style) -> Iterator[RenderableType]:
    """The table as rich lays it out: the widest columns give way first, names only where there is no other way."""
    heads = [Text("\n").join(_faint(_HUMP.split(header(c)) if c.right else [header(c)])) for c in table.columns]
    rows = [[_text(cell) for cell in row] for row in table.rows]
    whole = _names_fit(table.columns, [_width(cells) for cells in zip(heads, *rows, strict=True)], style.width - INDENT)
    made = rich_table.Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=RichStyle.null())
    for column, head in zip(table.columns, heads, strict=True):
        justify = "right" if column.right else "default"
        made.add_column(head, justify=justify, overflow="fold", no_wrap=whole and _is_name(column))  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*row)
    yield Padding(made, (0, 0, 0, INDENT))
    if table.note:
        yield Padding(_text(Marked(table.note, Tone.FAINT)), (0, 0, 0, INDENT))


def _is_name(column: Column) -> bool:
    return column.keep or column.right


def _names_fit(columns: tuple[Column, ...], widths: list[int], room: int) -> bool:
    """Whether names and numbers can stay in one piece and leave enough for the texts beside them."""
    needed = (w if _is_name(column) else min(w, LEAST) for column, w in zip(columns, widths, strict=True))
    return sum(needed) + GAP * (len(columns) - 1) <= room


def _unfolded(table: Table) -> Iterator[Text]:
    """One line a row, in columns as wide as they need."""
    heads = [Marked(header(column), Tone.FAINT) for column in table.columns]
    rows = [[_text(cell) for cell in row] for row in (heads, *table.rows)]
    for row in rows:
        for text in row:
            text.plain = text.plain.replace("\n", " ")
    widths = [_width(cells) for cells in zip(*rows, strict=True)]
    for row in rows:
        line = Text(" " * INDENT)
        for text, room, column in zip(row, widths, table.columns, strict=True):
            blank = " " * (room - cell_len(text.plain))
            line.append(blank if column.right else "").append(text).append("" if column.right else blank)
            line.append(" " * GAP)
        yield line
    if table.note:
        yield Text(" " * INDENT).append(_text(Marked(table.note, Tone.FAINT)))


def _width(texts: Iterable[Text]) -> int:
    """Columns of a terminal that the longest line takes."""
    return max(cell_len(line) for text in texts for line in text.plain.split("\n"))


def _faint(lines: list[str]) -> Iterator[Text]:
    return (_text(Marked(line, Tone.FAINT)) for line in lines)


def header(column: Column) -> str:
    """Ordinary words in capitals, as kubectl has them; names of plugins as they are.

    >>> header(Column("only this")), header(Column("NodeResourcesFit"))
    ('ONLY THIS', 'NodeResourcesFit')
    """
    return column.name.upper() if column.name.islower() else column.name
