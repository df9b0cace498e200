"""What a rule is, and what it yields.

A rule is a function from the world (what is linted, and the cluster around it, if known) to problems, and the words
that explain it. ``needs_cluster`` rules run only where nodes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from kschedctl.lint.world import World

Path = tuple[str | int, ...]
"""From the root of an object to a field."""


class Severity(StrEnum):
    """``error``: the API refuses it, or pods stay Pending. ``warning``: likely not what was meant. ``note``: advice."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 is the gravest."""
        return tuple(Severity).index(self)


ERROR, WARNING, NOTE = Severity


class Place(Protocol):
    """Where an object was read."""

    @property
    def file(self) -> str: ...

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field."""
        ...


@dataclass(frozen=True, eq=False)
class Subject:
    """An object that is linted; ``document`` is empty and ``place`` None for one that was read from a cluster."""

    kind: str
    name: str
    namespace: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".rstrip()

    def problem(self, path: Path, message: str, fix: str = "") -> Problem:
        return Problem(self, path, message, fix)


class Problem(NamedTuple):
    """Something wrong at a field of an object. ``fix``: better than the rule's general one, where that is known."""

    subject: Subject
    path: Path
    message: str
    fix: str = ""


Check = Callable[["World"], Iterator[Problem]]


@dataclass(frozen=True)
class Rule:
    """``summary``: one line. ``why``: what goes wrong. ``source``: where upstream says so."""

    id: str
    severity: Severity
    check: Check
    summary: str
    why: str
    fix: str
    source: str
    needs_cluster: bool = False


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
