"""Folders that a program builds into manifests, the objects built, and how the programs are run."""

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
    """An object that a program built."""

    value: JsonObject
    build: str
    """The folder that was built."""
    file: str
    """The file that the object was made of."""
    source: str = ""
    """The chart template from which Helm rendered the object, or ""."""
    origin: LocatedObject | None = None
    """The object in the file, if it is one there."""
    lines: Mapping[str, int] = {}
    """Lines of fields whose names occur once in a template."""
    overlays: Overlays | None = None
    """The kustomizations that changed the object."""

    def file_of(self, path: Path) -> str:
        """Return the patch or kustomization that set the field, else the file of the object."""
        patched = self.overlays.find_patch(path) if self.overlays else None
        return relative_path(patched.file) if patched else self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of the field in its file.

        If the file does not have the field, that is the nearest ancestor there, or the beginning.
        """
        if self.overlays and (change := self.overlays.find_patch(path)):
            return change.line, 1
        if self.origin is not None:
            return self.origin.locate(self.overlays.written_path(path) if self.overlays else path)
        return next((self.lines[step] for step in reversed(path) if isinstance(step, str) and step in self.lines), 1), 1


class Build(Protocol):
    """A folder to be built."""

    @property
    def name(self) -> str:
        """The file that defines the build, as messages name it."""
        ...

    @property
    def files(self) -> frozenset[str]:
        """Absolute paths of the files that the build uses, which are no manifests of their own."""
        ...

    def build_objects(self) -> Iterable[BuiltObject]:
        """Build the folder and return its objects. Raises InputError with the program's message."""
        ...


BUILD_TIMEOUT_SECONDS = 120
"""For one build. Kustomize may fetch remote bases."""
MAX_MESSAGE_LENGTH = 500  # characters
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def find_program(option: str, *commands: Sequence[str]) -> tuple[str, ...]:
    """Return the first of the commands that is installed, with its full path. Raises UsageError if none is."""
    for name, *arguments in commands:
        if path := shutil.which(name):
            return path, *arguments
    names = " or ".join(command[0] for command in commands)
    raise UsageError(f"{option} needs {names}, which is not on the PATH", hint=f"install {names}")


def run_program(command: Sequence[str], subject: str, environment: Mapping[str, str] = NO_VARIABLES) -> Content:
    """Run the command without a shell and return its output. Raises InputError with the program's message."""
    try:
        completed = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BUILD_TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{_describe_command(command)} took more than {BUILD_TIMEOUT_SECONDS} s", where=subject
        ) from None
    except OSError as error:
        raise InputError(f"{_describe_command(command)}: {error.strerror or error}", where=subject) from None
    if completed.returncode:
        raise InputError(f"{_describe_command(command)}: {_get_last_words(completed.stderr)}", where=subject)
    if len(completed.stdout) > MAX_SIZE:
        raise InputError(f"{_describe_command(command)} printed more than {MAX_SIZE >> 20} MiB", where=subject)
    return Content(subject, decode_utf8(completed.stdout, subject), is_json=False)


def _describe_command(command: Sequence[str]) -> str:
    """Return program and subcommand, such as ``helm template``."""
    words = (command[0].rpartition("/")[2], *command[1:2])
    return " ".join(words)


def _get_last_words(stderr: bytes) -> str:
    """Return the end of the program's error output on one line."""
    words = " ".join(stderr.decode(errors="replace").split()).removeprefix("Error: ").removeprefix("error: ")
    return (f"…{words[-MAX_MESSAGE_LENGTH:]}" if len(words) > MAX_MESSAGE_LENGTH else words) or "failed without a word"
