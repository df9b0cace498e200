"""How structs are laid out as rows of a table: a Column beside each field that is told."""

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
    """What a piece of text means; each way of showing it chooses a colour or a mark for that."""

    PLAIN = auto()
    STRONG = auto()
    GOOD = auto()
    BAD = auto()
    WARNING = auto()
    FAINT = auto()
    CODE = auto()
    VERBATIM = auto()


class Column(msgspec.Struct, frozen=True):
    """``name``: lower case, or a name as it is; beside a field that of the field if empty, a blank for none.

    ``right``: numbers. ``keep``: a name, better left in one piece. ``beneath``: the word before a cell that has to
    stand beneath the one at its left, where it needs one. ``verbatim``: ``name`` is somebody's own, in whatever case.

    Beside a field, as ``Annotated[int, Column("pods")]``, it also says how values become text: numbers by the format
    ``form``, of a tuple the first few, ``every`` one, one beneath the other (``lines``) or how many there are
    (``counted``); numbers only ``above`` something; ``words`` and ``tones`` are of some texts, ``tone`` is that of all
    others. ``place``: those with less stand more to the left, else in the order of the fields. ``narrow`` terminals
    have it beneath the first cell. ``csv``: its name there; ``csv_only``: it is in no table for people.
    """

    name: str = ""
    right: bool = False
    keep: bool = False
    beneath: str = ""
    verbatim: bool = False
    form: str = ","
    every: bool = False
    lines: bool = False
    counted: bool = False
    above: float | None = None
    words: Mapping[str, str] = msgspec.field(default_factory=dict)
    tone: Tone = Tone.PLAIN
    tones: Mapping[str, Tone] = msgspec.field(default_factory=dict)
    place: int = 0
    narrow: bool = False
    csv: str = ""
    csv_only: bool = False


class CsvTable(NamedTuple):
    """The main table of a report, with values as they are."""

    header: Sequence[str]
    rows: Iterable[Sequence[object]]


def to_csv_table(struct: type[Document], rows: Sequence[Document]) -> CsvTable:
    """Return the columns that are declared beside the fields of ``struct``, with a row for each of ``rows``."""
    columns = columns_of(struct)
    header = tuple(column.csv or column.name for column in columns.values())
    return CsvTable(
        header, ([_csv_cell(getattr(row, name), column) for name, column in columns.items()] for row in rows)
    )


@cache
def columns_of(struct: type[Document]) -> dict[str, Column]:
    """Return the column of each field that declares one, from left to right."""
    hints = get_type_hints(struct, include_extras=True)
    columns = {name: _complete(name, *get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Annotated}
    return dict(sorted(columns.items(), key=lambda item: item[1].place))


def _complete(field: str, field_type: object, column: Column) -> Column:
    """Return the column with its name, aligned to the right if the field holds numbers."""
    alternatives = get_args(field_type) if isinstance(field_type, UnionType) else ()
    is_number = column.counted or any(member in NUMBERS for member in (field_type, *alternatives))
    name = column.name.strip() if column.name else field.replace("_", " ")
    return replace(column, name=name, right=column.right or is_number)


def _csv_cell(value: object, column: Column) -> object:
    if value is None:
        return ""
    return len(value) if column.counted and isinstance(value, Sized) else value
