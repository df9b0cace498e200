"""What is linted, and what a rule finds at a field of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject

Path = tuple[str | int, ...]
"""The way from the root of an object to a field."""


class Located(Protocol):
    """Where an object was read."""

    @property
    def file(self) -> str: ...

    @property
    def source(self) -> str:
        """The template from which Helm rendered it; empty where none is noted."""
        ...

    @property
    def build(self) -> str:
        """The folder of the kustomization or chart that it was built of; empty for what stands in a file as it is."""
        ...

    def file_of(self, path: Path) -> str:
        """The file in which a field got its value: that of a patch where one gave it."""
        ...

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field there."""
        ...


@dataclass(frozen=True, eq=False)
class Subject:
    """An object that is linted; ``document`` is empty and ``place`` None for one that was read from a cluster."""

    kind: str
    name: str
    namespace: str = ""
    document: JsonObject = field(default_factory=dict)
    place: Located | None = None

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".rstrip()

    @property
    def api_version(self) -> str:
        return str(self.document.get("apiVersion") or "")

    @property
    def group(self) -> str:
        """The group of the API that it is of, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def problem(self, path: Path, message: str, fix: str = "", replacement: str = "") -> Problem:
        """Return a problem at a field of the object."""
        return Problem(self, path, message, fix, replacement)


class Problem(NamedTuple):
    """Something wrong at a field of an object."""

    subject: Subject
    path: Path
    message: str
    fix: str = ""
    """Advice for this problem, or "" if the rule's general advice applies."""
    replacement: str = ""
    """The value, or the key, to write at the path, or "" if more than one thing could be meant."""


def listed(names: Sequence[str], most: int = 3) -> str:
    """The names, or the first of them.

    >>> listed(["a", "b", "c", "d", "e"]), listed(["a"], 1)
    ('a, b, c and 2 more', 'a')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def path_text(path: Path) -> str:
    """A path as error messages of the API have it.

    >>> path_text(("spec", "tolerations", 0, "nodeSelector", "kubernetes.io/os"))
    'spec.tolerations[0].nodeSelector[kubernetes.io/os]'
    """
    text = ""
    for step in path:
        if isinstance(step, int) or not step.replace("-", "").isalnum():
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
