"""One folder that a program turns into manifests, and the objects that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.builds.overlays import Overlays
from kschedctl.sources.documents.files import from_here
from kschedctl.sources.documents.positions import LocatedObject, Path


class BuiltObject(NamedTuple):
    """An object as it was built in the folder ``build``, and the ``file`` that it was made of.

    ``origin``: the object there, where that is one; ``lines``: else the lines of fields' names that the file has once.
    ``overlays``: what changed it on the way.
    """

    value: JsonObject
    build: str
    file: str
    source: str = ""
    origin: LocatedObject | None = None
    lines: Mapping[str, int] = {}
    overlays: Overlays | None = None

    def file_of(self, path: Path) -> str:
        """The file of the patch, or of the kustomization, which made the field what it is; else that of the object."""
        change = self.overlays.change(path) if self.overlays else None
        return from_here(change.file) if change else self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1: of the field in its file, of what is next above it there, else of its begin."""
        if self.overlays and (change := self.overlays.change(path)):
            return change.line, 1
        if self.origin is not None:
            return self.origin.locate(self.overlays.written_path(path) if self.overlays else path)
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
