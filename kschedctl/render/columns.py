"""Widths of table columns, and stacking of columns where there is too little space.

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
"""Texts longer than LONG are not folded to less than LONG_READABLE columns or 1/LONG_SHARE of the line, and never to
less than READABLE. In narrow terminals, their tables become cards."""
SHORT_WORD = 10
"""Words of at most this many characters are not broken in headers."""
_HUMP = r"(?<=[a-z])(?=[A-Z])"
_BREAK_POINTS = tuple(map(re.compile, (r"(?<=[/])", r"(?<=[=:,;])", r"(?<=[._-])", _HUMP)))
"""Patterns of the places at which a word may be broken, best places first."""


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
    """Return the lines of a column's header. In numeric columns, a CamelCase plugin name is split into words."""
    header = format_header(column)
    is_plugin_name = header == column.name  # all other names are put in capitals
    if column.right and is_plugin_name:
        return tuple(re.split(_HUMP, column.name))
    return (header,)


def fit_table(table: Table, width: int) -> tuple[Table, tuple[int, ...]] | None:
    """Fit a table to the width, stacking as few columns as possible. Return it with its column widths.

    If stacking is not enough, names are wrapped. Return None if a column would still become too narrow.
    """
    # Start with the table as it is, because stacking only the last text column changes nothing. Then stack one more
    # column at a time, until all columns are readable.
    text_columns = [position for position, column in enumerate(table.columns) if not column.right]
    for first in reversed(range(len(text_columns))):
        stacked = _stack_columns(table, text_columns[first:])
        available_width = width - _compute_gap_width(stacked)
        least = _compute_readable_widths(stacked, width)
        if sum(least) <= available_width:
            return stacked, _distribute_width(least, _compute_full_widths(stacked), available_width)

    # With all text columns stacked, wrap names
    stacked = _stack_columns(table, text_columns)
    available_width = width - _compute_gap_width(stacked)
    least = _compute_widths_with_wrapped_names(stacked, width)
    if sum(least) > available_width:
        return None
    return stacked, _distribute_width(least, _compute_full_widths(stacked), available_width)


def break_long_words(text: str, width: int) -> str:
    r"""Insert line breaks into words that are wider than a line, if possible after punctuation.

    >>> break_long_words("taint example.com/dedicated=payments:NoSchedule", 20).split("\n")
    ['taint example.com/', 'dedicated=payments:', 'NoSchedule']
    """
    if cell_len(text) <= width:
        return text
    return " ".join(
        word if cell_len(word) <= width else "\n".join(_split_long_word(word, width)) for word in text.split(" ")
    )


def _split_long_word(word: str, width: int) -> list[str]:
    """Split a word into pieces that fit. Only the last piece may be shorter than half a line."""
    pieces = []
    start = 0
    line_end = _find_line_end(word, start, width)
    while line_end < len(word):
        middle = max(start + (line_end - start) // 2, start + 1)
        end = _find_break_point(word, middle, line_end)
        pieces.append(word[start:end])
        start = end
        line_end = _find_line_end(word, start, width)
    return [*pieces, word[start:]]


def _find_break_point(word: str, first: int, last: int) -> int:
    """Return the position from `first` to `last` at which to break a word, or `last` if there is no good position.

    It is the last break point of the first kind in `_BREAK_POINTS` that occurs in this range.
    """
    for pattern in _BREAK_POINTS:
        positions = [match.start() for match in pattern.finditer(word, first, last + 1) if match.start() <= last]
        if positions:
            return positions[-1]
    return last


def _find_line_end(word: str, start: int, width: int) -> int:
    """Return the end of the line that starts at `start`. A line contains at least one character."""
    end = start
    # The width becomes negative with the first character that does not fit
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
    """Return the column widths at which no cell needs to be folded."""
    return [
        max(_compute_cell_width(table, i), *map(cell_len, split_header(column)))
        for i, column in enumerate(table.columns)
    ]


def _compute_readable_widths(table: Table, available_width: int) -> list[int]:
    """Return the smallest widths at which the columns are easy to read."""
    return [
        _compute_readable_width(column, _compute_cell_width(table, i), available_width)
        for i, column in enumerate(table.columns)
    ]


def _compute_widths_with_wrapped_names(table: Table, available_width: int) -> list[int]:
    """Return the smallest widths at which numbers and long texts are easy to read. Other texts are wrapped."""
    widths = _compute_readable_widths(table, available_width)
    for i, column in enumerate(table.columns):
        is_long_text = not column.keep and _compute_cell_width(table, i) > LONG
        if not column.right and not is_long_text:
            widths[i] = min(widths[i], MIN_READABLE)
    return widths


def _compute_readable_width(column: Column, cells: int, available_width: int) -> int:
    """Return the smallest width at which a column is easy to read. `cells` is the width of its widest cell.

    Numbers and names are not folded, but headers of numbers are. Long texts need more width.
    """
    if column.right:
        header_parts = [part for line in split_header(column) for part in _split_at_break_points(line)]
        return max(cells, 1, *map(cell_len, header_parts))
    full_width = max(cells, cell_len(format_header(column)))
    if column.keep:
        return full_width
    if full_width > LONG:
        return max(min(LONG_READABLE, available_width // LONG_SHARE), READABLE)
    return min(full_width, max(min(READABLE, available_width // SHARE), MIN_READABLE))


def _split_at_break_points(line: str) -> list[str]:
    """Split a line into words, and long words into their parts.

    >>> _split_at_break_points("PODS/S"), _split_at_break_points("example.com/accelerators")
    (['PODS/S'], ['example.', 'com/', 'accelerators'])
    """
    parts = []
    for word in line.split():
        spaced = word
        if len(word) > SHORT_WORD:
            for joint in reversed(_BREAK_POINTS):
                spaced = joint.sub(" ", spaced)
        parts += spaced.split()
    return parts


def _distribute_width(least: Sequence[int], most: Sequence[int], available_width: int) -> tuple[int, ...]:
    """Return widths that fill the line, shrinking the widest columns first.

    >>> _distribute_width([5, 10, 10], [5, 80, 20], 60)
    (5, 35, 20)
    """
    # Search for the largest limit on all column widths with which the columns fit
    low = 0
    high = max(most)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_clamp_widths(level, least, most)) <= available_width:
            low = level
        else:
            high = level - 1
    return tuple(_clamp_widths(low, least, most))


def _clamp_widths(level: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Limit each width to `level`, within its minimum and maximum."""
    return [max(low, min(level, high), 1) for low, high in zip(least, most, strict=True)]


# -- one beneath the other ---------------------------------------------------------------------------------------------


def _stack_columns(table: Table, positions: Sequence[int]) -> Table:
    """Return the table with the columns at these positions stacked in the first of them."""
    if len(positions) < 2:
        return table
    first = positions[0]
    columns = [table.columns[position] for position in positions]
    name = ", ".join(column.name for column in columns if column.name)
    merged_column = replace(columns[0], name=name, keep=all(column.keep for column in columns))
    remaining = [i for i in range(len(table.columns)) if i not in positions[1:]]

    def stack_row(row: tuple[Cell | Stack, ...]) -> tuple[Cell | Stack, ...]:
        """Return the row with the cells at the positions stacked in the first of them."""
        merged_cell = _stack_cells([row[position] for position in positions], columns)
        return tuple(merged_cell if i == first else row[i] for i in remaining)

    stacked_columns = tuple(merged_column if i == first else table.columns[i] for i in remaining)
    return replace(table, columns=stacked_columns, rows=tuple(map(stack_row, table.rows)))


def _stack_cells(cells: Sequence[Cell | Stack], columns: Sequence[Column]) -> Stack:
    """Stack the non-empty cells of a row. Each cell after the first starts with the name of its column."""
    lines = list(list_lines(cells[0]))
    for cell, column in zip(cells[1:], columns[1:], strict=True):
        first, *others = list_lines(cell)
        if first.text:
            lines += [Marked(f"{column.beneath} {first.text}".lstrip(), first.tone), *others]
    return Stack(tuple(lines))
