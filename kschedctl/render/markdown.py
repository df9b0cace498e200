"""Pages as Markdown for tickets, in which names from a cluster cannot format, link or mention anybody."""

from __future__ import annotations

import re

from kschedctl.render.page import (
    Bullets,
    Cell,
    Command,
    Heading,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    Verbatim,
    Worded,
    list_lines,
    with_tone,
    without_plots,
)
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

_PLAIN = re.compile(r"(?!.*(?://|www\.))[A-Za-z0-9(…★–→][A-Za-z0-9 ,.;:()/'\"%=+→×–—…-]*")
"""Text without meaning for Markdown or GitHub; all other text becomes a code span."""


def render_markdown(page: Page, style: Style) -> str:
    """Render the page as Markdown. Tables have their full text, whatever the width."""
    return "\n\n".join(_render_block(block) for block in without_plots(page)) + "\n"


def _render_block(block: Worded) -> str:
    """Render a block as Markdown."""
    match block:
        case Heading(text, level):
            return f"##{'#' * level} {_render_inline(text)}"
        case Paragraph(parts):
            return " ".join(map(_render_inline, parts))
        case Command(text):
            return _render_code(printable(text))
        case Verbatim(_, text):
            return "\n".join(f"    {printable(line)}" for line in text.splitlines())
        case Bullets(items):
            return "\n".join(f"- {_render_inline(item)}" for item in items)
        case Table():
            return _render_table(block)


def _render_table(table: Table) -> str:
    """Render a table as Markdown, followed by its note."""
    headings = [_capitalize_heading(column.name) for column in table.columns]
    lines = [
        _render_row(tuple(map(_render_inline, headings))),
        _render_row(tuple("---:" if column.right else "---" for column in table.columns)),
    ]
    lines += [_render_row(tuple(map(_render_cell, row))) for row in table.rows]
    if table.note:
        lines += ["", _render_inline(table.note)]
    return "\n".join(lines)


def _capitalize_heading(name: str) -> str:
    """Capitalize the heading of a column, unless it has capital letters already.

    >>> _capitalize_heading("cpu requested"), _capitalize_heading("ClusterQueue")
    ('CPU requested', 'ClusterQueue')
    """
    heading = name.capitalize() if name.islower() else name
    return f"CPU{heading[3:]}" if heading.startswith("Cpu ") else heading


def _render_row(cells: tuple[str, ...]) -> str:
    """Render a row of cells."""
    separated = " | ".join(cell.replace("|", r"\|") for cell in cells)
    return f"| {separated} |"


def _render_cell(cell: Cell | Stack) -> str:
    """Render a cell of one or more lines."""
    return "<br>".join(map(_render_inline, list_lines(cell)))


def _render_inline(cell: Cell) -> str:
    """Render a cell as inline Markdown.

    >>> _render_inline("Insufficient cpu"), _render_inline("@ops"), _render_inline("a`b")
    ('Insufficient cpu', '`@ops`', '`` a`b ``')
    """
    text, tone = with_tone(cell)
    text = printable(text).strip()
    if tone is Tone.CODE or (text and not _PLAIN.fullmatch(text)):
        return _render_code(text)
    return f"**{text}**" if text and tone in (Tone.STRONG, Tone.BAD, Tone.GOOD) else text


def _render_code(text: str) -> str:
    """Render a code span, delimited by more backticks than occur in a row in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"
