"""Objects that are linted, and the problems that rules find in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject

Path = tuple[str | int, ...]
"""Steps from the root of an object to a field."""


class Location(Protocol):
    """The place of an object in a file."""

    @property
    def file(self) -> str:
        """The path of the file."""

    @property
    def source(self) -> str:
        """The template from which Helm rendered the object, or "" if it is unknown."""
        ...

    @property
    def build(self) -> str:
        """The folder of the kustomization or chart that produced the object, or "" if the file was read as it is."""
        ...

    def find_file(self, path: Path) -> str:
        """Return the path of the file that sets a field, which may be a patch."""
        ...

    def locate(self, path: Path) -> tuple[int, int]:
        """Return the line and column of a field, counted from 1."""
        ...


@dataclass(frozen=True, eq=False)
class Subject:
    """An object that is linted."""

    kind: str
    name: str
    namespace: str = ""
    document: JsonObject = field(default_factory=dict)
    """The manifest; empty for an object read from a cluster."""
    location: Location | None = None
    """The place at which the manifest was read; None for an object read from a cluster."""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".rstrip()

    @property
    def api_version(self) -> str:
        """The apiVersion of the manifest, or "" for an object read from a cluster."""
        return str(self.document.get("apiVersion") or "")

    @property
    def group(self) -> str:
        """The API group of the manifest, or "" for the core group and for an object read from a cluster."""
        return self.api_version.rpartition("/")[0]

    def build_problem(self, path: Path, message: str, fix: str = "", replacement: str = "") -> Problem:
        """Build a problem at a field of the object."""
        return Problem(self, path, message, fix, replacement)


class Problem(NamedTuple):
    """Something wrong at a field of an object."""

    subject: Subject
    path: Path
    """Path of the field from the root of the object; () for the whole object."""
    message: str
    fix: str = ""
    """Advice for this problem; empty if the rule's general advice applies."""
    replacement: str = ""
    """The value or key to write at the path; empty if there is more than one choice."""


def join_names(names: Sequence[str], max_names: int = 3) -> str:
    """Join the first ``max_names`` names with commas, and add how many more there are.

    >>> join_names(["a", "b", "c", "d", "e"]), join_names(["a"], 1)
    ('a, b, c and 2 more', 'a')
    """
    text = ", ".join(names[:max_names])
    if len(names) > max_names:
        text += f" and {len(names) - max_names:,} more"
    return text


def format_path(path: Path) -> str:
    """Format a path the way the API server's error messages do.

    >>> format_path(("spec", "tolerations", 0, "nodeSelector", "kubernetes.io/os"))
    'spec.tolerations[0].nodeSelector[kubernetes.io/os]'
    """
    text = ""
    for step in path:
        if isinstance(step, int) or not step.replace("-", "").isalnum():
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
