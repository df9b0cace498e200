"""Pages on a terminal or in a pipe: tables as kubectl prints them, folded to the width and never cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple
from unicodedata import east_asian_width

from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Column,
    Command,
    Heading,
    Marked,
    Page,
    Paragraph,
    Style,
    Table,
    Tone,
    marked,
)
from kschedctl.render.printable import printable

SGR = {
    Tone.STRONG: "1",
    Tone.GOOD: "32",
    Tone.BAD: "1;31",
    Tone.WARNING: "33",
    Tone.FAINT: "2",
    Tone.CODE: "36",
}
"""The ANSI attributes of a tone."""

INDENT, GAP = 2, 2
LEAST = 12
"""Columns of text narrower than this are no use: names have to give way too."""
_BREAKABLE = re.compile(r".*[-/=:,._]")


def show(page: Page, style: Style) -> str:
    """The page as text that ends with a newline; colours are ANSI sequences."""
    lines: list[str] = []
    for position, block in enumerate(page):
        if isinstance(block, Heading) and position:
            lines.append("")
        lines += _lines(block, style)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _lines(block: Block, style: Style) -> Iterator[str]:
    match block:
        case Heading(text):
            yield from _indented(Marked(printable(text), Tone.STRONG), 0, style)
        case Paragraph(parts):
            yield from _paragraph(parts, style)
        case Command(text):
            yield " " * INDENT + _paint(printable(text), Tone.CODE, style)
        case Bullets(items):
            for text, tone in map(marked, items):
                for position, line in enumerate(fold(printable(text), style.width - 4)):
                    yield ("    " if position else "  - ") + _paint(line, tone, style)
        case Table():
            yield from _table(block, style)


def _paragraph(parts: tuple[Cell, ...], style: Style) -> Iterator[str]:
    words = (Marked(word, tone) for text, tone in map(marked, parts) for word in _words(printable(text), style.width))
    line: list[Marked] = []
    used = 0
    for word in words:
        if line and used + width(word.text) > style.width:
            yield _joined(line, style)
            line, used = [], 0
        line.append(word)
        used += width(word.text) + 1
    yield _joined(line, style)


def _joined(words: Iterable[Marked], style: Style) -> str:
    return " ".join(_paint(text, tone, style) for text, tone in words)


def _table(table: Table, style: Style) -> Iterator[str]:
    rows = [[Marked(printable(text), tone) for text, tone in map(marked, row)] for row in table.rows]
    full = [row for row in rows if len(row) == len(table.columns)]
    longest = [max((width(row[i].text) for row in full), default=0) for i in range(len(table.columns))]
    headers = [header(column, room) for column, room in zip(table.columns, longest, strict=True)]
    natural = [max(room, *map(width, lines)) for room, lines in zip(longest, headers, strict=True)]
    layout = Layout(table.columns, column_widths(natural, table.columns, style.width - INDENT), style)
    yield from layout.headers(headers)
    for row in rows:
        yield from layout.row(row) if len(row) == len(table.columns) else _indented(row[0], 2 * INDENT, style)
    if table.note:
        yield from _indented(Marked(table.note, Tone.FAINT), INDENT, style)


def _indented(cell: Marked, indent: int, style: Style) -> Iterator[str]:
    for line in fold(cell.text, style.width - indent):
        yield " " * indent + _paint(line, cell.tone, style)


class Layout(NamedTuple):
    """The columns of a table and how wide they are shown."""

    columns: tuple[Column, ...]
    widths: list[int]
    style: Style

    def headers(self, names: list[list[str]]) -> Iterator[str]:
        """The names of the columns, each of some lines, standing on one line."""
        heads = [[part for n in lines for part in fold(n, w)] for lines, w in zip(names, self.widths, strict=True)]
        depth = max(map(len, heads))
        return self._lines([[""] * (depth - len(lines)) + lines for lines in heads], [Tone.FAINT] * len(heads))

    def row(self, cells: list[Marked]) -> Iterator[str]:
        folded = [fold(text, room) for (text, _), room in zip(cells, self.widths, strict=True)]
        return self._lines(folded, [tone for _, tone in cells])

    def _lines(self, cells: list[list[str]], tones: list[Tone]) -> Iterator[str]:
        """Cells of several lines side by side; blanks stay outside the colours."""
        for parts in zip_longest(*cells, fillvalue=""):
            line = " " * INDENT
            for text, tone, room, column in zip(parts, tones, self.widths, self.columns, strict=True):
                blank, painted = " " * (room - width(text)), _paint(text, tone, self.style)
                line += (blank + painted if column.right else painted + blank) + " " * GAP
            yield line


def column_widths(natural: list[int], columns: tuple[Column, ...], room: int) -> list[int]:
    """As wide as needed when there is room; else names keep up to half of it, and the widest of the others give way.

    >>> column_widths([5, 30, 90], (Column("a"), Column("b", keep=True), Column("c")), 80)
    [5, 30, 41]
    """
    room -= GAP * (len(columns) - 1)
    if sum(natural) <= room:
        return natural
    widths = [min(w, room // 2) if column.keep else w for w, column in zip(natural, columns, strict=True)]
    giving = [i for i, column in enumerate(columns) if not column.keep]
    kept = sum(w for w, column in zip(widths, columns, strict=True) if column.keep)
    if kept > room or room - kept < LEAST * len(giving):
        giving, kept = list(range(len(columns))), 0
    left = room - kept
    for done, i in enumerate(sorted(giving, key=lambda i: widths[i])):
        widths[i] = max(min(widths[i], left // (len(giving) - done)), 1)
        left -= widths[i]
    return widths


def header(column: Column, room: int) -> list[str]:
    """Ordinary words in capitals as kubectl has them; names of plugins over numbers in lines no longer than needed.

    >>> header(Column("nodes"), 3), header(Column("NodeResourcesFit", right=True), 7)
    (['NODES'], ['Node', 'Resources', 'Fit'])
    """
    name = printable(column.name)
    if name.islower():
        return [name.upper()]
    if not column.right:
        return [name]
    lines = [""]
    for part in re.findall("[A-Z]?[^A-Z]+|[A-Z]", name):
        if lines[-1] and len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return lines


def fold(text: str, room: int) -> list[str]:
    """The text in lines of at most ``room`` columns; words that are longer are broken, after punctuation if they can.

    >>> fold("taint example.com/spot=true:NoSchedule is not tolerated", 20)
    ['taint', 'example.com/spot=', 'true:NoSchedule is', 'not tolerated']
    """
    if text.isascii() and len(text) <= room:
        return [text]
    lines: list[str] = []
    for word in _words(text, room):
        if lines and width(lines[-1]) + 1 + width(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _words(text: str, room: int) -> Iterator[str]:
    """The words of a text, in pieces where they are wider than ``room``."""
    for whole in text.split(" "):
        word = whole
        while width(word) > room:
            end = _fitting(word, room)
            yield word[:end]
            word = word[end:]
        yield word


def _fitting(word: str, room: int) -> int:
    """How many characters of a word to put into a line of their own."""
    end = room
    while end > 1 and width(word[:end]) > room:
        end -= 1
    found = _BREAKABLE.match(word[:end])
    return found.end() if found and found.end() > end // 3 else end


def width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _paint(text: str, tone: Tone, style: Style) -> str:
    if not style.color or not text or tone not in SGR:
        return text
    return f"\x1b[{SGR[tone]}m{text}\x1b[0m"
