"""One folder that a program turns into manifests, and the objects that come of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.builds.overlays import Overlays
from kschedctl.sources.documents.documents import MAX_SIZE, Content, decode_utf8
from kschedctl.sources.documents.files import relative_path
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
        return relative_path(change.file) if change else self.file

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


PATIENCE_SECONDS = 120
"""For one build; kustomize may fetch what it refers to."""
MOST_TOLD = 500  # characters
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


def program(option: str, *commands: Sequence[str]) -> tuple[str, ...]:
    """The first of these commands that is installed, with its whole path. Raises UsageError where none is."""
    for name, *arguments in commands:
        if path := shutil.which(name):
            return path, *arguments
    names = " or ".join(command[0] for command in commands)
    raise UsageError(f"{option} needs {names}, which is not on the PATH", hint=f"install {names}")


def output_of(command: Sequence[str], name: str, environment: Mapping[str, str] = NOTHING_MORE) -> Content:
    """What the command prints; ``name`` is what it is about, ``environment`` what it gets more. Raises InputError."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{_called(command)} took more than {PATIENCE_SECONDS} s", where=name) from None
    except OSError as error:
        raise InputError(f"{_called(command)}: {error.strerror or error}", where=name) from None
    if done.returncode:
        raise InputError(f"{_called(command)}: {_said(done.stderr)}", where=name)
    if len(done.stdout) > MAX_SIZE:
        raise InputError(f"{_called(command)} printed more than {MAX_SIZE >> 20} MiB", where=name)
    return Content(name, decode_utf8(done.stdout, name), is_json=False)


def _called(command: Sequence[str]) -> str:
    words = (command[0].rpartition("/")[2], *command[1:2])
    return " ".join(words)


def _said(stderr: bytes) -> str:
    """What the program says on one line; the end of it, where the cause stands."""
    words = " ".join(stderr.decode(errors="replace").split()).removeprefix("Error: ").removeprefix("error: ")
    return (f"…{words[-MOST_TOLD:]}" if len(words) > MOST_TOLD else words) or "failed without a word"
