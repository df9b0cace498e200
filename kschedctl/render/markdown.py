"""Pages as Markdown to paste into a ticket: names of a cluster can neither format, nor link, nor mention anybody."""

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
    marked,
    stacked,
    without_plots,
)
from kschedctl.reports.columns import Tone
from kschedctl.text.printable import printable

_PLAIN = re.compile(r"(?!.*(?://|www\.))[A-Za-z0-9(…★][A-Za-z0-9 ,.;:()/'\"%=+→×–—…-]*")
"""Text that means nothing to Markdown or GitHub; anything else becomes a code span."""


def show(page: Page, style: Style) -> str:
    """The page as Markdown. Tables keep the full text, whatever the width."""
    return "\n\n".join(_block(block) for block in without_plots(page)) + "\n"


def _block(block: Worded) -> str:
    match block:
        case Heading(text, level):
            return f"##{'#' * level} {_inline(text)}"
        case Paragraph(parts):
            return " ".join(map(_inline, parts))
        case Command(text):
            return _code(printable(text))
        case Verbatim(_, text):
            return "\n".join(f"    {printable(line)}" for line in text.splitlines())
        case Bullets(items):
            return "\n".join(f"- {_inline(item)}" for item in items)
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    names = (_row(tuple(_inline(c.name.capitalize() if c.name.islower() else c.name) for c in table.columns)),)
    rule = (_row(tuple("---:" if c.right else "---" for c in table.columns)),)
    rows = (_row(tuple(map(_stacked, row))) for row in table.rows)
    note = ("", _inline(table.note)) if table.note else ()
    return "\n".join((*names, *rule, *rows, *note))


def _row(cells: tuple[str, ...]) -> str:
    separated = " | ".join(cell.replace("|", r"\|") for cell in cells)
    return f"| {separated} |"


def _stacked(cell: Cell | Stack) -> str:
    return "<br>".join(map(_inline, stacked(cell)))


def _inline(cell: Cell) -> str:
    """A cell as Markdown.

    >>> _inline("Insufficient cpu"), _inline("@ops"), _inline("a`b")
    ('Insufficient cpu', '`@ops`', '`` a`b ``')
    """
    text, tone = marked(cell)
    text = printable(text).strip()
    if tone is Tone.CODE or (text and not _PLAIN.fullmatch(text)):
        return _code(text)
    return f"**{text}**" if text and tone in (Tone.STRONG, Tone.BAD, Tone.GOOD) else text


def _code(text: str) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"
