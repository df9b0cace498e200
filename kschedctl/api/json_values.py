"""Access to fields of decoded JSON or YAML documents of any shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = object
"""Any JSON value, to be checked with ``isinstance``."""
JsonObject: TypeAlias = Mapping[str, Json]
JsonDict: TypeAlias = dict[str, Any]
"""A JSON object that is modified, or that a struct keeps as it was decoded."""
_SCALARS = (str, int, float)
_OBJECTS = (dict, Mapping)  # a dict is told by its type, while asking Mapping takes ten times as long


def field_at(value: Json, *path: str | int) -> Json:
    """Return the value at the path, or None if there is none.

    >>> field_at({"spec": {"containers": [{"name": "web"}]}}, "spec", "containers", 0, "name")
    'web'
    >>> field_at({"spec": None}, "spec", "containers", 0)
    """
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, _OBJECTS) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def object_at(value: Json, *path: str | int) -> JsonObject:
    """Return the object at the path, or an empty one."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, _OBJECTS) else {}


def array_at(value: Json, *path: str | int) -> Sequence[Json]:
    """Return the array at the path, or an empty one."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, list) else ()


def objects_at(value: Json, *path: str | int) -> list[JsonObject]:
    """Return the elements of the array at the path that are objects."""
    return [inner for inner in array_at(value, *path) if isinstance(inner, _OBJECTS)]


def text_at(value: Json, *path: str | int) -> str:
    """Return the string at the path, or ""."""
    inner = field_at(value, *path)
    return inner if isinstance(inner, str) else ""


def drop_nulls(value: object) -> Any:
    """Return a copy of the value without null fields at any depth, which the API treats as absent."""
    if isinstance(value, _OBJECTS):
        return {
            key: inner if isinstance(inner, _SCALARS) else drop_nulls(inner)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list | tuple):
        return [inner if isinstance(inner, _SCALARS) else drop_nulls(inner) for inner in value]
    return value
