"""One folder that a program turns into manifests, and the objects that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from kschedctl.sources.documents.positions import LocatedObject, Path


class BuiltObject(NamedTuple):
    """An object as it was built in the folder ``build``, and the ``file`` that it was made of.

    ``origin``: the object there, where that is one; ``lines``: else the lines of fields' names that the file has once.
    """

    value: Mapping[str, Any]
    build: str
    file: str
    source: str = ""
    origin: LocatedObject | None = None
    lines: Mapping[str, int] = {}

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1: of the field in the file, of what is next above it there, else of its begin."""
        if self.origin is not None:
            return self.origin.locate(path)
        return next((self.lines[step] for step in reversed(path) if isinstance(step, str) and step in self.lines), 1), 1


class Build(Protocol):
    """A folder to be built."""

    @property
    def name(self) -> str:
        """The file that says how, as messages call it."""
        ...

    @property
    def files(self) -> frozenset[str]:
        """Absolute paths of what goes into the build, and is no manifest of its own."""
        ...

    def objects(self) -> Iterable[BuiltObject]:
        """What is built. Raises InputError with what the program says."""
        ...
