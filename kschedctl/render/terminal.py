"""Pages on a terminal or in a pipe: tables as kubectl prints them, folded to the width and never cut."""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from kschedctl.render.page import Block, Bullets, Cell, Heading, Page, Paragraph, Style, Table, Tone, marked
from kschedctl.render.printable import printable

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.WARNING: "yellow",
    Tone.FAINT: "dim",
    Tone.CODE: "cyan",
}


def show(page: Page, style: Style) -> str:
    """The page as text that ends with a newline; colours are ANSI sequences."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for position, block in enumerate(page):
        if isinstance(block, Heading) and position:
            console.print()
        console.print(_renderable(block, style))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _renderable(block: Block, style: Style) -> Text | RichTable | Padding:
    match block:
        case Heading(text):
            return Text(printable(text), "bold underline" if style.color else "")
        case Paragraph(parts):
            return Text(" ").join(map(_text, parts))
        case Bullets(items):
            return _bullets(items)
        case Table():
            return Padding(_table(block, style), (0, 0, 0, 2))


def _bullets(items: tuple[Cell, ...]) -> RichTable:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for item in items:
        grid.add_row(Text("  -"), _text(item))
    return grid


def _table(table: Table, style: Style) -> RichTable:
    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim" if style.color else "")
    for position, column in enumerate(table.columns):
        longest = max((len(marked(row[position]).text) for row in table.rows), default=0)
        shown.add_column(
            Text(column.name.upper()),
            justify="right" if column.right else "left",
            overflow="fold",
            min_width=min(longest, style.width * 2 // 5) if column.keep else None,
        )
    for row in table.rows:
        shown.add_row(*map(_text, row))
    return shown


def _text(cell: Cell) -> Text:
    text, tone = marked(cell)
    return Text(printable(text), STYLES[tone], overflow="fold")
