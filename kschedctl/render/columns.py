"""Widths of table columns, and stacking of columns where there is too little room.

Numbers and names are not folded, and texts stay wide enough to read. If the columns do not fit side by side, the last
text columns are stacked in one; only a name that is longer than the line is broken. A table that does not fit even then
becomes a list of cards.
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
READABLE, SHARE, MIN_READABLE = 28, 3, 20
"""Texts are not folded to less than READABLE columns or 1/SHARE of the line, and never to less than MIN_READABLE, if
there is another way."""
LONG, LONG_READABLE, LONG_SHARE = 140, 44, 2
"""Texts longer than LONG are not folded to less than LONG_READABLE columns or 1/LONG_SHARE of the line."""
MIN_NAME_WIDTH = MIN_READABLE
"""Names that are longer than the line are broken into pieces of at least this width."""
_HUMP = r"(?<=[a-z])(?=[A-Z])"
_BREAK_POINTS = tuple(map(re.compile, (r"(?<=[/])", r"(?<=[=:,;])", r"(?<=[._-])", _HUMP)))
"""Where a word may be broken, best places first."""


def format_header(column: Column) -> str:
    """Return the column's name in capitals, as kubectl prints headers. Names of plugins stay as they are.

    >>> format_header(Column("only this")), format_header(Column("NodeResourcesFit"))
    ('ONLY THIS', 'NodeResourcesFit')
    >>> format_header(Column("mine", verbatim=True))
    'mine'
    """
    if column.verbatim:
        return column.name
    return ", ".join(part.upper() if part.islower() else part for part in column.name.split(", "))


def split_header(column: Column) -> tuple[str, ...]:
    """Return the lines of a column's header. Names of plugins above numbers are split into their words."""
    return (
        tuple(re.split(_HUMP, column.name))
        if column.right and format_header(column) == column.name
        else (format_header(column),)
    )


def fit_table(table: Table, width: int) -> tuple[Table, tuple[int, ...]] | None:
    """Fit a table to the width by stacking as few columns as possible, and return it with the widths of its columns.

    A name that is longer than its column is broken. Returns None if a column would become too narrow even so.
    """
    texts = [position for position, column in enumerate(table.columns) if not column.right]
    for first in range(len(texts) - 1, -1, -1):
        stacked = _stack_columns(table, texts[first:])
        room = width - _compute_gap_width(stacked)
        least = _compute_readable_widths(stacked, width)
        if sum(least) <= room:
            return stacked, _distribute_width(least, _compute_full_widths(stacked), room)
    stacked = _stack_columns(table, texts)
    room = width - _compute_gap_width(stacked)
    least = [
        readable if column.right else min(readable, MIN_NAME_WIDTH)
        for column, readable in zip(stacked.columns, _compute_readable_widths(stacked, width), strict=True)
    ]
    if sum(least) > room:
        return None
    return stacked, _distribute_width(least, _compute_full_widths(stacked), room)


def break_long_words(text: str, width: int) -> str:
    r"""Insert line breaks into words that are wider than a line, if possible after punctuation.

    >>> break_long_words("taint example.com/dedicated=payments:NoSchedule", 20).split("\n")
    ['taint example.com/', 'dedicated=payments:', 'NoSchedule']
    """
    if cell_len(text) <= width:
        return text
    return " ".join(
        word if cell_len(word) <= width else "\n".join(_split_word(word, width)) for word in text.split(" ")
    )


def _split_word(word: str, width: int) -> list[str]:
    """Split a word into pieces that fit. Only the last piece may be shorter than half a line."""
    pieces = list[str]()
    start = 0
    while (fits := _find_line_end(word, start, width)) < len(word):
        half = max(start + (fits - start) // 2, start + 1)
        ends = (
            [m.start() for m in joint.finditer(word, half, fits + 1) if m.start() <= fits] for joint in _BREAK_POINTS
        )
        end = max(next((places for places in ends if places), [fits]))
        pieces.append(word[start:end])
        start = end
    return [*pieces, word[start:]]


def _find_line_end(word: str, start: int, width: int) -> int:
    """Return the end of the line that starts at `start`. A line has at least one character."""
    end = start
    while end < len(word) and width >= 0:
        width -= get_character_cell_size(word[end])
        end += 1
    return end if width >= 0 else max(end - 1, start + 1)


# -- widths ------------------------------------------------------------------------------------------------------------


def _compute_gap_width(table: Table) -> int:
    """Return the width of all gaps between columns."""
    return GAP * (len(table.columns) - 1)


def _compute_cell_width(table: Table, position: int) -> int:
    """Return the width of the widest cell in a column."""
    return max((_compute_width(row[position]) for row in table.rows), default=0)


def _compute_width(cell: Cell | Stack) -> int:
    """Return the width of a cell's longest line."""
    return max(cell_len(printable(text)) for text, _ in list_lines(cell))


def _compute_full_widths(table: Table) -> list[int]:
    """Return the widths at which no cell is folded."""
    return [
        max(_compute_cell_width(table, i), *map(cell_len, split_header(column)))
        for i, column in enumerate(table.columns)
    ]


def _compute_readable_widths(table: Table, room: int) -> list[int]:
    """Return the smallest widths at which the columns are easy to read."""
    return [
        _compute_readable_width(column, _compute_cell_width(table, i), room) for i, column in enumerate(table.columns)
    ]


def _compute_readable_width(column: Column, cells: int, room: int) -> int:
    """Return the smallest width at which a column is easy to read."""
    if column.right:
        return max(
            cells, 1, *(cell_len(part) for line in split_header(column) for part in _split_at_break_points(line))
        )
    whole = max(cells, cell_len(format_header(column)))
    if column.keep:
        return whole
    readable = min(LONG_READABLE, room // LONG_SHARE) if whole > LONG else min(READABLE, room // SHARE)
    return min(whole, max(readable, MIN_READABLE))


def _split_at_break_points(line: str) -> list[str]:
    """Split a line into words and their parts."""
    for joint in reversed(_BREAK_POINTS):
        line = joint.sub(" ", line)
    return line.split()


def _distribute_width(least: Sequence[int], most: Sequence[int], room: int) -> tuple[int, ...]:
    """Return widths that fill the line, shrinking the widest columns first.

    >>> _distribute_width([5, 10, 10], [5, 80, 20], 60)
    (5, 35, 20)
    """
    low = 0
    high = max(most)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_clamp_widths(level, least, most)) <= room:
            low = level
        else:
            high = level - 1
    return tuple(_clamp_widths(low, least, most))


def _clamp_widths(level: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Limit each width to `level`, within its minimum and maximum."""
    return [max(low, min(level, high), 1) for low, high in zip(least, most, strict=True)]


# -- one beneath the other ---------------------------------------------------------------------------------------------


def _stack_columns(table: Table, positions: Sequence[int]) -> Table:
    """Return the table with these columns stacked in the first of them."""
    if len(positions) < 2:
        return table
    columns = [table.columns[i] for i in positions]
    name = ", ".join(column.name for column in columns if column.name)
    one = replace(columns[0], name=name, keep=all(column.keep for column in columns))
    others = set(positions[1:])

    def row_of(row: tuple[Cell | Stack, ...]) -> tuple[Cell | Stack, ...]:
        cell = _stack_cells([row[i] for i in positions], columns)
        return tuple(cell if i == positions[0] else row[i] for i in range(len(row)) if i not in others)

    stacked_columns = tuple(
        one if i == positions[0] else column for i, column in enumerate(table.columns) if i not in others
    )
    return replace(table, columns=stacked_columns, rows=tuple(map(row_of, table.rows)))


def _stack_cells(cells: Sequence[Cell | Stack], columns: Sequence[Column]) -> Stack:
    """Stack the cells of a row. Cells below the first one start with the word for their column."""
    lines = list(list_lines(cells[0]))
    for cell, column in zip(cells[1:], columns[1:], strict=True):
        first, *others = list_lines(cell)
        lines += [Marked(f"{column.beneath} {first.text}".lstrip(), first.tone), *others] if first.text else []
    return Stack(tuple(lines))
