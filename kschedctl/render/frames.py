"""The main table of a document as a DataFrame, by polars or pandas, whichever there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kschedctl.errors import UsageError
from kschedctl.render.csv_table import table_of
from kschedctl.reports.admission import Admission
from kschedctl.reports.disruption import Disruption
from kschedctl.reports.document import Document
from kschedctl.reports.provisioning import Provisioning
from kschedctl.reports.report import Report
from kschedctl.reports.scale_down import ScaleDown
from kschedctl.reports.scale_up import ScaleUp
from kschedctl.reports.unknown import UnknownKind

LIBRARIES = ("polars", "pandas")
MAIN: Mapping[type[Document], str] = {
    Admission: "",
    Disruption: "fates",
    Provisioning: "new_node_claims",
    ScaleDown: "nodes",
    ScaleUp: "increases",
}
"""The field of which the rows are where that is not the first with a list of objects; empty: the document is a row."""


def to_frame(document: Document) -> Any:
    """A column for each of the CSV's; where there is none, for each plain field of the objects that the document lists.

    Raises UsageError where neither library is installed.
    """
    columns = _columns(document)
    for library in LIBRARIES:
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    raise UsageError("neither polars nor pandas is installed", hint="pip install polars")


def _columns(document: Document) -> dict[str, list[object]]:
    try:
        header, rows = table_of(document)
    except UsageError:  # no CSV form
        return _fields(document.as_list() if isinstance(document, Report) else document)
    columns = {name: _of_one_type(column) for name, column in zip(header, zip(*rows, strict=True), strict=False)}
    return columns or {name: [] for name in header}


def _of_one_type(column: Sequence[object]) -> list[object]:
    """Numbers among which nothing stands for none that is known, as a CSV has it, with None there.

    >>> _of_one_type([1, ""]), _of_one_type([1, 2.5]), _of_one_type(["a", ""])
    ([1, None], [1.0, 2.5], ['a', ''])
    """
    kinds = {type(value) for value in column if value != "" and value is not None}
    if not kinds or not kinds <= {int, float}:
        return list(column)
    number = float if float in kinds else int
    return [number(value) if isinstance(value, int | float) else None for value in column]


def _fields(document: Document) -> dict[str, list[object]]:
    """By their names in JSON; those of an object in a field as ``remedy.summary``, what maps name as ``name``."""
    struct, field = _main(document)
    rows = getattr(document, field) if field else [document]
    names: dict[str, list[object]] = {"name": list(rows)} if isinstance(rows, dict) else {}
    objects = list(rows.values()) if isinstance(rows, dict) else rows
    columns = {
        name: _of_one_type([_value(attrgetter(path)(row)) for row in objects]) for name, path in _plain_fields(struct)
    }
    return names | columns


def _plain_fields(struct: type[Document], prefix: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """Names of columns, and how to get at the values."""
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        hint, name, at = hints[field.name], f"{prefix}{field.encode_name}", f"{path}{field.name}"
        if isinstance(hint, type) and issubclass(hint, Document):
            yield from _plain_fields(hint, f"{name}.", f"{at}.")
        elif _is_plain(hint):
            yield name, at


def _main(document: Document) -> tuple[type[Document], str]:
    """The objects that are rows, and the field where they are."""
    kind = type(document)
    named = MAIN.get(kind)
    for name, hint in get_type_hints(kind).items():
        item = _listed(hint) if named is None else _listed(hint, dict)
        if item is not None and named in (None, name):
            return item, name
    return kind, ""


def _listed(hint: object, *others: type) -> type[Document] | None:
    """Of which objects it is a list, or a map."""
    if get_origin(hint) not in (tuple, *others):
        return None
    item = next((part for part in reversed(get_args(hint)) if part is not Ellipsis), None)
    is_row = isinstance(item, type) and issubclass(item, Document) and not issubclass(item, UnknownKind)
    return item if is_row else None


def _is_plain(hint: object) -> bool:
    """Whether it is a text or a number, maybe none, or a list or map of such."""
    if get_origin(hint) in (tuple, dict):
        return all(_is_scalar(part) for part in get_args(hint) if part is not Ellipsis)
    return _is_scalar(hint)


def _is_scalar(hint: object) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, str | int | float | NoneType)
    return get_origin(hint) in (Union, UnionType, Literal) and all(
        isinstance(part, str) or _is_scalar(part) for part in get_args(hint)
    )


def _value(value: object) -> object:
    """As JSON has it; a map as a list of ``key=value``."""
    plain = msgspec.to_builtins(value)
    return [f"{key}={part}" for key, part in plain.items()] if isinstance(plain, dict) else plain
