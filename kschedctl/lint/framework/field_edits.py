"""Edits of a single field, given by its path in an object, for parsed documents and for the text of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kschedctl.lint.objects.subject import Path, Problem


@dataclass(frozen=True)
class SetField:
    """Replace the value of a scalar field that exists."""

    path: Path
    value: str | int


@dataclass(frozen=True)
class RenameField:
    """Replace the key of a field and keep its value."""

    path: Path
    key: str


@dataclass(frozen=True)
class RemoveField:
    """Remove a field from a mapping that has other fields, too."""

    path: Path


FieldEdit = SetField | RenameField | RemoveField


def apply_edit(document: Any, change: FieldEdit, root: Path = ()) -> None:
    """Apply an edit in place to the object at `root` of a parsed document.

    Raises LookupError if there is no such field.
    """
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


def replace_value(problem: Problem) -> FieldEdit | None:
    """Return the edit that writes the problem's replacement as the field's value, or None without a replacement."""
    return SetField(problem.path, problem.replacement) if problem.replacement else None


def replace_label(problem: Problem) -> FieldEdit | None:
    """Return the edit that writes another node label, or None without a replacement.

    The label is the value of ``key`` and ``topologyKey``. In any other field, such as nodeSelector, it is the key.
    """
    if not problem.replacement:
        return None
    if problem.path[-1] in ("key", "topologyKey"):
        return SetField(problem.path, problem.replacement)
    return RenameField(problem.path, problem.replacement)


def is_pod_count(text: str) -> bool:
    """Return whether the text is a plain decimal integer of at most nine digits, as of a number of pods."""
    return re.fullmatch("0|[1-9][0-9]{0,8}", text) is not None
