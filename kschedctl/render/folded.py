"""Rendering by rich: folding of blocks to the width, and colors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import StringIO

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style as Look
from rich.table import Table as Layout
from rich.text import Text

from kschedctl.render.columns import BULLET, GAP, INDENT, break_long_words, fit_table, split_header
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
    list_lines,
)
from kschedctl.render.plots.plot import Plot
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

STYLES = {
    Tone.PLAIN: Look.null(),
    Tone.STRONG: Look(bold=True),
    Tone.GOOD: Look(color="green"),
    Tone.BAD: Look(bold=True, color="red"),
    Tone.WARNING: Look(color="yellow"),
    Tone.FAINT: Look(dim=True),
    Tone.VERBATIM: Look(dim=True),
    Tone.CODE: Look(color="cyan"),
}
"""Tone -> its color."""

_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|µs|%)(?!\w))")
"""Matches the blank between a number and its unit, where a line must not be folded."""
_GLUE = "\ue000"
"""Stands for such a blank while rich folds lines."""


def render_folded(block: Block, style: Style) -> list[str]:
    """Render a block with rich as lines that are wrapped to the style's width.

    The result does not depend on the terminal or on environment variables.
    """
    file = StringIO()
    indent = INDENT if isinstance(block, Command | Verbatim | Table | Plot) else 0
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
    for piece in _iter_rich_renderables(block, console.width, style.ascii_only):
        console.print(piece, soft_wrap=isinstance(block, Command | Verbatim))
    return [" " * indent + line.replace(_GLUE, " ") for line in file.getvalue().splitlines()]


def _iter_rich_renderables(block: Block, max_width: int, ascii_only: bool) -> Iterator[RenderableType]:
    """Convert a block to rich's objects and yield them."""
    match block:
        case Heading(text):
            yield _build_rich_text(Marked(text, Tone.STRONG), max_width)
        case Paragraph(parts):
            yield Text(" ").join(_build_rich_text(part, max_width) for part in parts)
        case Command(text):
            yield _build_rich_text(Marked(text, Tone.CODE))
        case Verbatim(_, text):
            yield Text("\n").join(_build_rich_text(Marked(line, Tone.CODE)) for line in text.splitlines())
        case Bullets(items):
            bullets = Layout.grid()
            bullets.add_column(no_wrap=True)
            bullets.add_column(overflow="fold")
            for item in items:
                bullets.add_row(BULLET, _build_rich_text(item, max_width - len(BULLET)))
            yield bullets
        case Table():
            fitted = fit_table(block, max_width)
            yield _build_rich_table(*fitted) if fitted else _build_cards(block, max_width)
            if block.note:
                yield _build_rich_text(Marked(block.note, Tone.FAINT), max_width)
        case Plot():
            from kschedctl.render.plots.characters import draw_plot  # noqa: PLC0415 - few pages have plots

            yield from draw_plot(block, max_width, ascii_only)


def _build_rich_text(cell: Cell | Stack, max_width: int = UNFOLDED) -> Text:
    """Build rich's text for a cell, with each line in the style of its tone.

    Words that are wider than `max_width` are broken. A number and its unit are glued together, so that no line is
    folded between them.
    """
    lines = []
    for text, tone in list_lines(cell):
        with_broken_words = break_long_words(printable(text), max_width)
        with_glued_units = _UNIT.sub(_GLUE, with_broken_words)
        lines.append(Text().append(with_glued_units, STYLES[tone]))
    return lines[0] if len(lines) == 1 else Text("\n").join(lines)


def _build_rich_table(table: Table, widths: Sequence[int]) -> Layout:
    """Build rich's table from a table and the widths of its columns."""
    layout = Layout(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=Look.null())
    for column, width in zip(table.columns, widths, strict=True):
        justify = "right" if column.right else "default"
        lines = _build_rich_text(Stack(tuple(Marked(line, Tone.FAINT) for line in split_header(column))), width)
        layout.add_column(lines, justify=justify, overflow="fold", width=width)  # type: ignore[arg-type]
    for row in table.rows:
        layout.add_row(*(_build_rich_text(cell, width) for cell, width in zip(row, widths, strict=True)))
    return layout


def _build_cards(table: Table, max_width: int) -> Layout:
    """Build one card per row: its first line, and indented below it the other texts and a line with the numbers.

    Numbers are the cells of right-aligned columns. Each number, and each text but the first, follows the name of its
    column. Cells without text are left out.
    """
    cards = Layout.grid()
    cards.add_column(overflow="fold")
    for row in table.rows:
        texts: list[Stack] = []
        numbers: list[str] = []
        for column, cell in zip(table.columns, row, strict=True):
            first, *others = list_lines(cell)
            if not first.text:
                continue
            label = f"{column.name}: " if column.name else ""
            if column.right:
                numbers.append(label + " ".join(line.text for line in (first, *others)))
            elif texts:
                texts.append(Stack((Marked(f"{label}{first.text}", first.tone), *others)))
            else:  # the first line of a card needs no column name
                texts.append(Stack((first,)))
                if others:
                    texts.append(Stack(tuple(others)))

        number_line = [Stack((", ".join(numbers),))] if numbers else []
        for position, stack in enumerate([*texts, *number_line]):
            indent = INDENT if position else 0
            cards.add_row(Padding(_build_rich_text(stack, max_width - indent), (0, 0, 0, indent)))
    return cards


def add_color(text: str, tone: Tone) -> str:
    """Add ANSI color sequences to printable text."""
    return STYLES[tone].render(text, color_system=ColorSystem.STANDARD)
