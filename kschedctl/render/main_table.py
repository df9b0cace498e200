"""The main table of a document for programs: as CSV (RFC 4180), as names of pods, or as a DataFrame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kschedctl.errors import UsageError
from kschedctl.reports.cluster_autoscaler import ScaleDown, ScaleUp
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.karpenter import Disruption, Provisioning
from kschedctl.reports.not_created import Admission
from kschedctl.reports.report import PlainReport, get_answer_kind
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.printable import printable

_FORMULA = ("=", "+", "-", "@")


def to_csv(document: Document) -> str:
    """Render the main table of a document as CSV. Raises UsageError if it has none."""
    header, rows = get_csv_table(document)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_escape_cell(value) for value in row] for row in rows)
    return text.getvalue()


def get_csv_table(document: Document) -> CsvTable:
    """Return the main table of a document. Raises UsageError if it has none."""
    table = document.build_csv_table() if isinstance(document, PlainReport) else None
    if table is None:
        raise UsageError(f"{get_answer_kind(document)} has no CSV form", hint="-o json has everything")
    return table


def _escape_cell(value: object) -> object:
    """Escape a text that a spreadsheet would run as a formula.

    Source: OWASP, CSV Injection. Tabs and carriage returns, which OWASP names too, become escapes.
    """
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip().startswith(_FORMULA) else printable(value)


def render_pod_names(document: Document) -> str:
    """Render the names of a report's pods, one `namespace/name` per line.

    Raises UsageError if the report is not about pods.
    """
    pods = document.list_pod_names() if isinstance(document, PlainReport) else None
    if pods is None:
        raise UsageError(f"{get_answer_kind(document)} has no list of pods", hint="-o json has everything")
    return "".join(f"{printable(pod)}\n" for pod in dict.fromkeys(pods))


LIBRARIES = ("polars", "pandas")
ROW_FIELDS: Mapping[type[Document], str] = {
    Admission: "",
    Disruption: "fates",
    Provisioning: "new_node_claims",
    ScaleDown: "nodes",
    ScaleUp: "increases",
}
"""Document -> the field with its rows, if it is not the first list of objects; "" makes the document a row."""


def to_frame(document: Document) -> Any:
    """Build a DataFrame from the columns of the CSV form or, if there is none, from the plain fields.

    Raises UsageError if neither polars nor pandas is installed.
    """
    columns = _build_columns(document)
    for library in LIBRARIES:
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    raise UsageError("neither polars nor pandas is installed", hint="pip install polars")


def _build_columns(document: Document) -> dict[str, list[object]]:
    """Build the columns of the DataFrame from the CSV form or, if there is none, from plain fields."""
    try:
        header, rows = get_csv_table(document)
    except UsageError:  # no CSV form
        return _build_field_columns(document.as_list() if isinstance(document, PlainReport) else document)
    columns = list(zip(*rows, strict=True))
    if not columns:
        return {name: [] for name in header}
    return {name: _convert_numbers(column) for name, column in zip(header, columns, strict=True)}


def _convert_numbers(column: Sequence[object]) -> list[object]:
    """Convert a column of numbers to one type, with None for empty cells.

    >>> _convert_numbers([1, ""]), _convert_numbers([1, 2.5]), _convert_numbers(["a", ""])
    ([1, None], [1.0, 2.5], ['a', ''])
    """
    kinds = {type(value) for value in column if value != "" and value is not None}
    if not kinds or not kinds <= {int, float}:
        return list(column)
    number = float if float in kinds else int
    return [number(value) if isinstance(value, int | float) else None for value in column]


def _build_field_columns(document: Document) -> dict[str, list[object]]:
    """Build columns from the plain fields of the document's main table.

    The columns are named as in JSON, and nested fields like `remedy.summary`. If the table is a dict, its keys become
    the column `name`. A document without a main table is a table of one row.
    """
    struct, field = _find_row_type_and_field(document)
    rows = getattr(document, field) if field else [document]
    columns: dict[str, list[object]] = {}
    if isinstance(rows, dict):
        columns["name"] = list(rows)
        rows = list(rows.values())
    for name, path in _iter_plain_fields(struct):
        get_value = attrgetter(path)
        columns[name] = _convert_numbers([_to_plain_value(get_value(row)) for row in rows])
    return columns


def _iter_plain_fields(struct: type[Document], prefix: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the column name and attribute path of each plain field, including fields of nested structs."""
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        name = f"{prefix}{field.encode_name}"
        attribute_path = f"{path}{field.name}"
        if isinstance(hint, type) and issubclass(hint, Document):
            yield from _iter_plain_fields(hint, f"{name}.", f"{attribute_path}.")
        elif _is_plain_type(hint):
            yield name, attribute_path


def _find_row_type_and_field(document: Document) -> tuple[type[Document], str]:
    """Return the type of the rows, and the field of the document that contains them.

    The field is the one in ROW_FIELDS, or else the first list of documents. If there is none, the document itself is
    the only row, and the field is "".
    """
    kind = type(document)
    field_types = get_type_hints(kind)
    if kind in ROW_FIELDS:
        row_field = ROW_FIELDS[kind]
        row_type = _get_row_type(field_types[row_field], containers=(tuple, dict)) if row_field else None
        return (kind, "") if row_type is None else (row_type, row_field)

    for name, hint in field_types.items():
        # A dict is skipped: it has notes on the rows, unless ROW_FIELDS says that it has the rows
        row_type = _get_row_type(hint, containers=(tuple,))
        if row_type is not None:
            return row_type, name
    return kind, ""


def _get_row_type(hint: object, containers: tuple[type, ...]) -> type[Document] | None:
    """Return the Document type of a container's items, or None if they are not Documents.

    `hint` is the container's type hint. Return None for types other than `containers` as well. UnknownKind is treated
    like a type that is not a Document.
    """
    if get_origin(hint) not in containers:
        return None
    # The items of tuple[X, ...] and the values of Mapping[K, X] are both the last argument besides the ellipsis
    item = next((part for part in reversed(get_args(hint)) if part is not Ellipsis), None)
    is_row = isinstance(item, type) and issubclass(item, Document) and not issubclass(item, UnknownKind)
    return item if is_row else None


def _is_plain_type(hint: object) -> bool:
    """Return whether the type is a text, a number, or a list or map of these."""
    if get_origin(hint) in (tuple, dict):
        return all(_is_scalar_type(part) for part in get_args(hint) if part is not Ellipsis)
    return _is_scalar_type(hint)


def _is_scalar_type(hint: object) -> bool:
    """Return whether the type hint allows only strings, numbers and None, or only literal strings."""
    if isinstance(hint, type):
        return issubclass(hint, str | int | float | NoneType)
    if get_origin(hint) is Literal:
        return all(isinstance(value, str) for value in get_args(hint))
    return get_origin(hint) in (Union, UnionType) and all(map(_is_scalar_type, get_args(hint)))


def _to_plain_value(value: object) -> object:
    """Convert a value to its JSON form. A map becomes a list of `key=value`."""
    plain = msgspec.to_builtins(value)
    return [f"{key}={part}" for key, part in plain.items()] if isinstance(plain, dict) else plain
