"""The layout of structs as rows of a table: each field that the table shows declares a Column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from enum import Enum, auto
from functools import cache
from types import UnionType
from typing import Annotated, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from kschedctl.api.copying import replace
from kschedctl.reports.document import Document

NUMBERS = (int, float)


class Tone(Enum):
    """The meaning of a piece of text. Each output format chooses a color or a mark for it."""

    PLAIN = auto()
    STRONG = auto()
    GOOD = auto()
    BAD = auto()
    WARNING = auto()
    FAINT = auto()
    CODE = auto()
    VERBATIM = auto()


class Column(msgspec.Struct, frozen=True):
    """A column of a table, declared with a field as `Annotated[int, Column("pods")]`."""

    name: str = ""
    """The heading; the field's name if empty, no heading if blank."""
    right: bool = False
    """True if the column is aligned to the right; numbers are anyway."""
    keep: bool = False
    """True if cells should not be wrapped, such as names."""
    beneath: str = ""
    """The word before the cell where a narrow table shows it beneath the cell at its left."""
    verbatim: bool = False
    """True if the heading is somebody's own name, whose case stays as it is."""
    form: str = ","
    """The format of numbers."""
    show_all: bool = False
    """True if all entries of a tuple are shown instead of the first few."""
    lines: bool = False
    """True if the entries of a tuple stand one beneath the other."""
    show_count: bool = False
    """True if a tuple is shown as the number of its entries."""
    show_above: float | None = None
    """Only numbers above this one are shown."""
    words: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Value -> the text that is shown for it."""
    tone: Tone = Tone.PLAIN
    """The tone of values that `tones` does not name."""
    tones: Mapping[str, Tone] = msgspec.field(default_factory=dict)
    """Value -> its tone."""
    place: int = 0
    """Columns with a smaller place stand more to the left; otherwise the order of the fields decides."""
    narrow: bool = False
    """True if narrow terminals show the cell beneath the first one."""
    csv: str = ""
    """The heading in CSV, if it differs."""
    csv_only: bool = False
    """True if the column is only in CSV."""


class CsvTable(NamedTuple):
    """The main table of a report, with values as they are."""

    header: Sequence[str]
    rows: Iterable[Sequence[object]]


def to_csv_table(struct: type[Document], rows: Sequence[Document]) -> CsvTable:
    """Build the CSV table from the columns declared with the fields of ``struct``."""
    columns = list_columns(struct)
    header = tuple(column.csv or column.name for column in columns.values())
    return CsvTable(
        header, ([_to_csv_cell(getattr(row, name), column) for name, column in columns.items()] for row in rows)
    )


@cache
def list_columns(struct: type[Document]) -> dict[str, Column]:
    """Return the column of each field that declares one, from left to right."""
    hints = get_type_hints(struct, include_extras=True)
    columns = {}
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            field_type, column = get_args(hint)
            columns[name] = _complete_column(name, field_type, column)
    names = sorted(columns, key=lambda name: columns[name].place)
    return {name: columns[name] for name in names}


def _complete_column(field: str, field_type: object, column: Column) -> Column:
    """Return the column with its name and alignment.

    A column without a name gets the field's name, with blanks for underscores. A column whose field holds numbers, or
    that shows a count, is aligned to the right. Other columns keep their alignment.
    """
    alternatives = get_args(field_type) if isinstance(field_type, UnionType) else ()
    holds_numbers = any(member in NUMBERS for member in (field_type, *alternatives))
    name = column.name.strip() if column.name else field.replace("_", " ")
    return replace(column, name=name, right=column.right or holds_numbers or column.show_count)


def _to_csv_cell(value: object, column: Column) -> object:
    """Convert a value to a CSV cell. None becomes an empty string, and a counted column has the number of entries."""
    if value is None:
        return ""
    return len(value) if column.show_count and isinstance(value, Sized) else value
