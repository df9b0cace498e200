"""Lists of structs as tables: for people from the columns that are declared beside the fields, and for CSV.

Cells that lean on several fields, or need words, are given by the page, for the field in whose column they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeVar

from kschedctl.api.resource_names import CPU, format_amount
from kschedctl.render.page import (
    Cell,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    first_rows,
    names,
    section,
    shown_first,
    stacked,
)
from kschedctl.reports.columns import NUMBERS, Column, Tone, columns_of
from kschedctl.reports.document import Document

ROWS_SHOWN = 25
Told = TypeVar("Told")
Struct = TypeVar("Struct", bound=Document)
Row = tuple[Cell | Stack, ...]
Cells = Mapping[str, Callable[[Struct], Cell | Stack]]
PLAIN = Style()


def numbers(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, right=True) for name in names)


def as_is(row: Row) -> Row:
    """The row, where a list has rows that are made already."""
    return row


def table_of(
    rows: Sequence[Told],
    columns: Sequence[Column],
    row: Callable[[Told], Row],
    style: Style = PLAIN,
    *,
    title: str = "",
    limit: int | None = ROWS_SHOWN,
    note: str = "",
    full: bool = True,
    each_node: bool = False,
) -> Page:
    """The first rows as a table, all with ``-o wide`` (or else ``--each-node``); nothing where there is none.

    ``title`` stands above it, ``note`` beneath it; not ``full``: columns in which no row says anything are left out.
    """
    if not rows:
        return ()
    every_node = None if style.unlimited else limit
    shown, more = shown_first(rows, every_node) if each_node else first_rows(rows, style, limit)
    table = Table(tuple(columns), tuple(map(row, shown)), "; ".join(filter(None, (more, note))))
    made = table if full else table.without_empty_columns()
    return section(title, made) if title else (made,)


def listed(
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
    """A table of structs by the columns beside their fields, those of ``cells`` as they say.

    ``numbered``: the name of a column in front that counts the rows.
    """
    if not rows:
        return ()
    declared = {name: column for name, column in columns_of(type(rows[0])).items() if not column.csv_only}
    beside = {name: column for name, column in declared.items() if not (column.narrow and style.narrow)}
    beneath = {name: column for name, column in declared.items() if name not in beside}

    def cell(struct: Struct, name: str) -> Cell | Stack:
        return cells[name](struct) if cells and name in cells else _cell(getattr(struct, name), declared[name])

    def row(ranked: tuple[int, Struct]) -> Row:
        number, struct = ranked
        first, *others = (cell(struct, name) for name in beside)
        if beneath:
            more = (_beneath(cell(struct, name), column) for name, column in beneath.items())
            first = Stack((*stacked(first), *more))
        return (*([f"{number}"] if numbered else []), first, *others)

    columns = [*([Column(numbered, right=True)] if numbered else []), *beside.values()]
    return table_of([*enumerate(rows, 1)], columns, row, style, title=title, limit=limit, note=note, full=full)


def rounded(name: str, amount: int) -> str:
    """Large amounts to two digits or more, as they are sums of many; smaller ones in the largest unit that is exact.

    Of cpu always cores, so that amounts in a column can be compared.

    >>> rounded("memory", 105 << 30), rounded("memory", 2560 << 20), rounded("memory", 1064 << 20)
    ('105Gi', '2.5Gi', '1,064Mi')
    >>> rounded("cpu", 7500), rounded("cpu", 12_000), rounded("cpu", 34_250), rounded("cpu", 1_234_567)
    ('7.5', '12', '34.25', '1,234')
    """
    if name == CPU:
        return f"{amount // 1000:,}" if amount >= 1_000_000 else f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    shifts = ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"))
    for shift, unit in shifts if format_amount(name, 1 << 40).endswith("Ti") else ():
        if amount >= 10 << shift:
            return f"{amount >> shift:,}{unit}"
        if amount >= 1 << shift and not amount * 10 % (1 << shift):
            return f"{amount / (1 << shift):g}{unit}"
    text = format_amount(name, amount)
    return f"{int(text):,}" if text.isdecimal() else text


def _cell(value: object, column: Column) -> Cell | Stack:
    if column.lines and isinstance(value, tuple):
        return Stack(value)
    text = _text(value, column)
    tone = column.tones.get(text, column.tone)
    text = column.words.get(text, text)
    return text if tone is Tone.PLAIN else Marked(text, tone)


def _text(value: object, column: Column) -> str:
    if value is None or (column.above is not None and isinstance(value, NUMBERS) and value <= column.above):
        return ""
    if column.counted and isinstance(value, Sized):
        return f"{len(value):,}"
    if isinstance(value, tuple):
        return ", ".join(value) if column.every else names(value)
    if isinstance(value, dict):
        return amounts(value)
    return value if isinstance(value, str) else format(value, column.form)


def amounts(resources: Mapping[str, int]) -> str:
    """``7.5 cpu, 12Gi memory``."""
    return ", ".join(f"{rounded(name, amount)} {name}" for name, amount in resources.items())


def _beneath(cell: Cell | Stack, column: Column) -> Marked:
    """A line with the word that tells what it is; empty where there is nothing to tell."""
    text = cell.text if isinstance(cell, Marked) else str(cell)
    return Marked(f"{column.beneath} {text}".lstrip() if text else "", Tone.FAINT)
