"""How wide the columns of a table are, and what goes beneath its neighbour where there is no room beside it.

Numbers and names stay in one piece, texts stay wide enough to read. Where that does not fit side by side, the last
texts go beneath the ones at their left; only a name that is longer than all the room is broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, get_character_cell_size

from kschedctl.api.copying import replace
from kschedctl.render.page import Cell, Marked, Stack, Table, list_lines
from kschedctl.reports.columns import Column
from kschedctl.text.printable import printable

INDENT = 2
BULLET = "  - "
GAP = 2
READABLE, SHARE = 28, 3
"""Texts are folded to no less than this, or than this part of the line, as long as there is another way."""
LONG, LONG_READABLE, LONG_SHARE = 140, 44, 2
"""Texts longer than LONG are folded to no less than LONG_READABLE, or than this part of the line."""
LEAST = 12
"""Names that are longer than all the room are broken into pieces of no less than this."""
_HUMP = r"(?<=[a-z])(?=[A-Z])"
_JOINTS = tuple(map(re.compile, (r"(?<=[/])", r"(?<=[=:,;])", r"(?<=[._-])", _HUMP)))
"""Where a word may be broken, the best places first."""


def header(column: Column) -> str:
    """Ordinary words in capitals, as kubectl has them; names of plugins as they are.

    >>> header(Column("only this")), header(Column("NodeResourcesFit")), header(Column("mine", verbatim=True))
    ('ONLY THIS', 'NodeResourcesFit', 'mine')
    """
    if column.verbatim:
        return column.name
    return ", ".join(part.upper() if part.islower() else part for part in column.name.split(", "))


def head(column: Column) -> tuple[str, ...]:
    """The lines of a header: names of plugins stand over numbers in lines that are hardly longer than those."""
    return tuple(re.split(_HUMP, column.name)) if column.right and header(column) == column.name else (header(column),)


def fitted(table: Table, room: int) -> tuple[Table, tuple[int, ...]]:
    """The table, with as few texts beneath others as there have to be, and the widths of its columns."""
    texts = [position for position, column in enumerate(table.columns) if not column.right]
    for first in range(len(texts) - 1, -1, -1):
        closer = _stacked(table, texts[first:])
        most, least = _most(closer), _least(closer, room)
        if sum(least) + _gaps(closer) <= room:
            return closer, _between(least, most, room - _gaps(closer))
    closer = _stacked(table, texts)
    most, least = _most(closer), _least(closer, room)
    return closer, _between(_bare(closer, least, room), most, room - _gaps(closer))


def _bare(table: Table, least: Sequence[int], room: int) -> list[int]:
    """The least widths where there is no good way: names are broken, and numbers too where that is not enough."""
    bare = [width if column.right else min(width, LEAST) for column, width in zip(table.columns, least, strict=True)]
    return bare if sum(bare) + _gaps(table) <= room else [1] * len(bare)


def broken(text: str, width: int) -> str:
    """The text with breaks in words that are wider than a line, where they have joints if there is one.

    >>> broken("taint example.com/dedicated=payments:NoSchedule", 20).split("\\n")
    ['taint example.com/', 'dedicated=payments:', 'NoSchedule']
    """
    if cell_len(text) <= width:
        return text
    return " ".join(word if cell_len(word) <= width else "\n".join(_pieces(word, width)) for word in text.split(" "))


def _pieces(word: str, width: int) -> list[str]:
    """The word in pieces that fit, none of them but the last shorter than half a line."""
    pieces, start = list[str](), 0
    while (fits := _fitting(word, start, width)) < len(word):
        half = max(start + (fits - start) // 2, start + 1)
        ends = ([m.start() for m in joint.finditer(word, half, fits + 1) if m.start() <= fits] for joint in _JOINTS)
        end = max(next((places for places in ends if places), [fits]))
        pieces.append(word[start:end])
        start = end
    return [*pieces, word[start:]]


def _fitting(word: str, start: int, width: int) -> int:
    """Where a line that starts here is full; it has one character at least."""
    end = start
    while end < len(word) and width >= 0:
        width -= get_character_cell_size(word[end])
        end += 1
    return end if width >= 0 else max(end - 1, start + 1)


# -- widths ------------------------------------------------------------------------------------------------------------


def _gaps(table: Table) -> int:
    return GAP * (len(table.columns) - 1)


def _cells(table: Table, position: int) -> int:
    return max((_width(row[position]) for row in table.rows), default=0)


def _width(cell: Cell | Stack) -> int:
    return max(cell_len(printable(text)) for text, _ in list_lines(cell))


def _most(table: Table) -> list[int]:
    """The widths at which nothing is folded."""
    return [max(_cells(table, i), *map(cell_len, head(column))) for i, column in enumerate(table.columns)]


def _least(table: Table, room: int) -> list[int]:
    """The widths from which on the columns are good to read; heads over numbers may be folded."""
    return [_good(column, _cells(table, i), room) for i, column in enumerate(table.columns)]


def _good(column: Column, cells: int, room: int) -> int:
    if column.right:
        return max(cells, 1, *(cell_len(part) for line in head(column) for part in _parts(line)))
    whole = max(cells, cell_len(header(column)))
    readable = min(LONG_READABLE, room // LONG_SHARE) if whole > LONG else min(READABLE, room // SHARE)
    return whole if column.keep else min(whole, readable)


def _parts(line: str) -> list[str]:
    """The words of a line, and the parts between their joints."""
    for joint in reversed(_JOINTS):
        line = joint.sub(" ", line)
    return line.split()


def _between(least: Sequence[int], most: Sequence[int], room: int) -> tuple[int, ...]:
    """Widths that fill the room, the widest giving way first.

    >>> _between([5, 10, 10], [5, 80, 20], 60)
    (5, 35, 20)
    """
    low, high = 0, max(most)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_clamped(level, least, most)) <= room:
            low = level
        else:
            high = level - 1
    return tuple(_clamped(low, least, most))


def _clamped(level: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    return [max(low, min(level, high), 1) for low, high in zip(least, most, strict=True)]


# -- one beneath the other ---------------------------------------------------------------------------------------------


def _stacked(table: Table, positions: Sequence[int]) -> Table:
    """The table with these columns as one, at the place of the first of them."""
    if len(positions) < 2:
        return table
    columns = [table.columns[i] for i in positions]
    name = ", ".join(column.name for column in columns if column.name)
    one = replace(columns[0], name=name, keep=all(column.keep for column in columns))
    others = set(positions[1:])

    def row_of(row: tuple[Cell | Stack, ...]) -> tuple[Cell | Stack, ...]:
        cell = _beneath([row[i] for i in positions], columns)
        return tuple(cell if i == positions[0] else row[i] for i in range(len(row)) if i not in others)

    made = tuple(one if i == positions[0] else column for i, column in enumerate(table.columns) if i not in others)
    return replace(table, columns=made, rows=tuple(map(row_of, table.rows)))


def _beneath(cells: Sequence[Cell | Stack], columns: Sequence[Column]) -> Stack:
    """The lines of all; of those beneath the first names are told by what they are."""
    lines = list(list_lines(cells[0]))
    for cell, column in zip(cells[1:], columns[1:], strict=True):
        first, *others = list_lines(cell)
        lines += [Marked(f"{column.beneath} {first.text}".lstrip(), first.tone), *others] if first.text else []
    return Stack(tuple(lines))
