"""Documents as JSON or YAML has them, and what is read of them whatever shape they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = object
"""Any value of JSON; ``isinstance`` says which."""
JsonObject: TypeAlias = Mapping[str, Json]
JsonDict: TypeAlias = dict[str, Any]
"""An object of JSON that is written to, or that a struct holds as it was decoded."""


def field_at(value: Json, *path: str | int) -> Json:
    """The field of that path, None where there is none.

    >>> field_at({"spec": {"containers": [{"name": "web"}]}}, "spec", "containers", 0, "name")
    'web'
    >>> field_at({"spec": None}, "spec", "containers", 0)
    """
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def object_at(value: Json, *path: str | int) -> JsonObject:
    """The object of that path, an empty one where there is none."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, Mapping) else {}


def array_at(value: Json, *path: str | int) -> Sequence[Json]:
    """The array of that path, an empty one where there is none."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, list) else ()


def objects_at(value: Json, *path: str | int) -> list[JsonObject]:
    """The objects among what the array of that path holds."""
    return [inner for inner in array_at(value, *path) if isinstance(inner, Mapping)]


def text_at(value: Json, *path: str | int) -> str:
    """The text of that path, an empty one where there is none."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, str) else ""
