"""What rich does for pages on a terminal: it folds what ``columns`` has laid out, and colours it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.style import Style as Look
from rich.table import Table as Layout
from rich.text import Text

from kschedctl.render.columns import BULLET, GAP, INDENT, broken, fitted, head
from kschedctl.render.page import (
    UNFOLDED,
    Block,
    Bullets,
    Cell,
    Command,
    Heading,
    Marked,
    Paragraph,
    Stack,
    Style,
    Table,
    Verbatim,
    stacked,
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

_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|µs|%)(?!\w))")
"""Between a number and its unit no line ends."""
_GLUE = "\ue000"
"""What stands for such a blank while rich looks for places to fold: nothing printable has it."""


def folded(block: Block, style: Style) -> list[str]:
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


def coloured(text: str, tone: Tone) -> str:
    """Text that is printable, in ANSI sequences."""
    return LOOKS[tone].render(text, color_system=ColorSystem.STANDARD)
