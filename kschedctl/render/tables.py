"""Tables of structs, built from the columns declared with their fields.

A page passes functions for cells that need several fields or words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeVar

from kschedctl.api.resource_names import CPU, is_in_bytes, round_to_digits
from kschedctl.render.page import (
    Cell,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    limit_rows,
    limit_rows_by_style,
    list_lines,
    names,
    section,
)
from kschedctl.reports.columns import NUMBERS, Column, Tone, list_columns
from kschedctl.reports.document import Document

ROWS_SHOWN = 25
Item = TypeVar("Item")
Struct = TypeVar("Struct", bound=Document)
Row = tuple[Cell | Stack, ...]
Cells = Mapping[str, Callable[[Struct], Cell | Stack]]
PLAIN = Style()


def number_columns(*names: str) -> tuple[Column, ...]:
    """Return right-aligned columns with these names."""
    return tuple(Column(name, right=True) for name in names)


def keep_row(row: Row) -> Row:
    """Return the row unchanged, for lists whose rows are complete."""
    return row


def build_table(
    rows: Sequence[Item],
    columns: Sequence[Column],
    row: Callable[[Item], Row],
    style: Style = PLAIN,
    *,
    title: str = "",
    limit: int | None = ROWS_SHOWN,
    note: str = "",
    full: bool = True,
    each_node: bool = False,
) -> Page:
    """Build a table of the first rows, or return () if there are no rows.

    ``row`` builds a row's cells. `limit` rows are shown, or all with `-o wide` (with `--each-node` if `each_node`).
    `title` is placed above the table and `note` below it. Empty columns are left out unless ``full``.
    """
    if not rows:
        return ()
    if each_node:
        shown, more = limit_rows(rows, None if style.lists_all_nodes else limit)
    else:
        shown, more = limit_rows_by_style(rows, style, limit)
    table = Table(tuple(columns), tuple(map(row, shown)), "; ".join(filter(None, (more, note))))
    if not full:
        table = table.without_empty_columns()
    return section(title, table) if title else (table,)


def build_struct_table(
    rows: Sequence[Struct],
    style: Style,
    cells: Cells[Struct] | None = None,
    *,
    numbered: str = "",
    title: str = "",
    limit: int | None = ROWS_SHOWN,
    note: str = "",
    full: bool = True,
) -> Page:
    """Build a table of structs from the columns declared with their fields.

    `cells` has a function for each field whose cells are not built from its value. `numbered` is the name of an
    additional first column that counts the rows. In a narrow style, some columns are stacked below the first cell.
    Return () if there are no structs.
    """
    if not rows:
        return ()
    declared = {name: column for name, column in list_columns(type(rows[0])).items() if not column.csv_only}
    columns_below = {name: column for name, column in declared.items() if column.narrow and style.narrow}
    table_columns = {name: column for name, column in declared.items() if name not in columns_below}

    def build_cell(struct: Struct, name: str) -> Cell | Stack:
        """Build the cell of a field, by its override if there is one."""
        if cells and name in cells:
            return cells[name](struct)
        return _build_cell(getattr(struct, name), declared[name])

    def build_row(numbered_row: tuple[int, Struct]) -> Row:
        """Build a row, with the columns that a narrow style stacks below the first cell."""
        number, struct = numbered_row
        first, *others = (build_cell(struct, name) for name in table_columns)
        if columns_below:
            lines_below = (
                _build_line_below(build_cell(struct, name), column) for name, column in columns_below.items()
            )
            first = Stack((*list_lines(first), *lines_below))
        return (f"{number}", first, *others) if numbered else (first, *others)

    columns = list(table_columns.values())
    if numbered:
        columns.insert(0, Column(numbered, right=True))
    numbered_rows = list(enumerate(rows, 1))
    return build_table(numbered_rows, columns, build_row, style, title=title, limit=limit, note=note, full=full)


def format_rounded(name: str, amount: int) -> str:
    """Format an amount of a resource for a table, with at most three digits unless the whole part has more.

    CPU is always in cores, so that amounts in a column can be compared. Bytes are in the largest binary unit of which
    there is at least one, with the names that sentences use.

    >>> format_rounded("memory", 105 << 30), format_rounded("memory", 1064 << 20), format_rounded("memory", 0)
    ('105 GiB', '1.04 GiB', '0')
    >>> format_rounded("cpu", 12_000), format_rounded("cpu", 34_250), format_rounded("cpu", 1_234_567)
    ('12', '34.2', '1,235')
    """
    if name == CPU:
        return round_to_digits(amount / 1000, 3)
    if not is_in_bytes(name) or not amount:
        return f"{amount:,}"
    units = ((50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))
    reached_units = ((shift, unit) for shift, unit in units if abs(amount) >= 1 << shift)
    shift, unit = next(reached_units, (0, "bytes"))
    return f"{round_to_digits(amount / (1 << shift), 3)} {unit}"


def _build_cell(value: object, column: Column) -> Cell | Stack:
    """Build the cell of a value as its column declares."""
    if column.lines and isinstance(value, tuple):
        return Stack(value)
    text = _format_value(value, column)
    tone = column.tones.get(text, column.tone)
    text = column.words.get(text, text)
    return text if tone is Tone.PLAIN else Marked(text, tone)


def _format_value(value: object, column: Column) -> str:
    """Format a value as its column declares.

    Return "" for None, and for a number that is not above the column's threshold.
    """
    threshold = column.show_above
    is_too_low = threshold is not None and isinstance(value, NUMBERS) and value <= threshold
    if value is None or is_too_low:
        return ""
    if column.show_count and isinstance(value, Sized):
        return f"{len(value):,}"
    if isinstance(value, tuple):
        return ", ".join(value) if column.show_all else names(value)  # `names` shortens long lists
    if isinstance(value, dict):  # amounts by resource
        return format_amounts(value)
    return value if isinstance(value, str) else format(value, column.form)


def format_amounts(resources: Mapping[str, int]) -> str:
    """Format resources as text, such as `7.5 CPUs, 12Gi memory`."""
    texts = []
    for name, amount in resources.items():
        unit = name
        if name == CPU:
            unit = "CPU" if amount == 1000 else "CPUs"
        texts.append(f"{format_rounded(name, amount)} {unit}")
    return ", ".join(texts)


def _build_line_below(cell: Cell | Stack, column: Column) -> Marked:
    """Build the line for a cell that is shown below the first cell of its column. It is empty if the cell is empty."""
    text = cell.text if isinstance(cell, Marked) else str(cell)
    return Marked(f"{column.beneath} {text}".lstrip() if text else "", Tone.FAINT)
