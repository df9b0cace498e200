"""Edits of one field each, by its path in an object: what a fix does, to a parsed document as to the text of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kschedctl.lint.objects.subject import Path


@dataclass(frozen=True)
class SetField:
    """Another value of a scalar that is there."""

    path: Path
    value: str | int


@dataclass(frozen=True)
class RenameField:
    """Another key for the same value."""

    path: Path
    key: str


@dataclass(frozen=True)
class RemoveField:
    """A field less of a mapping, which keeps others."""

    path: Path


FieldEdit = SetField | RenameField | RemoveField


def edit(document: Any, change: FieldEdit, root: Path = ()) -> None:
    """Make the change in a parsed document, in the object at ``root``. Raises LookupError where the field is not."""
    *steps, last = (*root, *change.path)
    parent = document
    for step in steps:
        parent = parent[step]
    value = parent[last]
    if isinstance(change, SetField):
        parent[last] = change.value
    else:
        del parent[last]
        if isinstance(change, RenameField):
            parent[change.key] = value
