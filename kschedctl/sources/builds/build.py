"""Folders that a program builds into manifests, the objects built, and the patches that changed their fields."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.applied.kustomizations import list_patch_files
from kschedctl.sources.documents.documents import MAX_SIZE, Content, decode_utf8, load_content, parse_documents
from kschedctl.sources.documents.files import relative_path
from kschedctl.sources.documents.positions import LocatedObject, Path


class BuiltObject(NamedTuple):
    """An object that a program built."""

    value: JsonObject
    build: str
    """The folder that was built."""
    file: str
    """The file that the object was built from."""
    source: str = ""
    """The chart template from which Helm rendered the object, or ""."""
    origin: LocatedObject | None = None
    """The object in the file, if the file contains it as an object."""
    lines: Mapping[str, int] = {}
    """The lines of fields whose names occur once in a template."""
    overlays: Overlays | None = None
    """The kustomizations that changed the object."""

    def find_file(self, path: Path) -> str:
        """Return the patch or kustomization that set the field, or else the file of the object."""
        patched = self.overlays.find_patch(path) if self.overlays else None
        return relative_path(patched.file) if patched else self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of the field in its file.

        If the file does not have the field, they are those of the nearest ancestor, or of the beginning of the file.
        """
        if self.overlays and (change := self.overlays.find_patch(path)):
            return change.line, 1
        if self.origin is not None:
            return self.origin.locate(self.overlays.find_written_path(path) if self.overlays else path)
        return next((self.lines[step] for step in reversed(path) if isinstance(step, str) and step in self.lines), 1), 1


class Build(Protocol):
    """A folder that can be built."""

    @property
    def name(self) -> str:
        """The file that defines the build, as messages name it."""
        ...

    @property
    def files(self) -> frozenset[str]:
        """Absolute paths of the files that the build uses, which are not manifests of their own."""
        ...

    def build_objects(self) -> Iterable[BuiltObject]:
        """Build the folder and return its objects. Raises InputError with the program's message."""
        ...


BUILD_TIMEOUT_SECONDS = 120
"""The time limit for one build. Kustomize may fetch remote bases."""
MAX_MESSAGE_LENGTH = 500  # characters
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def find_program(option: str, *commands: Sequence[str]) -> tuple[str, ...]:
    """Return the first command whose program is installed, with its full path. Raises UsageError if none is."""
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


TRANSFORMATIONS = "alpha.config.kubernetes.io/transformations"
_IDENTIFYING_FIELDS = ("name", "key", "topologyKey", "containerPort")
"""Fields that identify items of a list if others were inserted before them."""


class PatchedField(NamedTuple):
    """The file that changes a field, and the line that names the field."""

    file: str
    line: int


class Overlays(NamedTuple):
    """The kustomizations that changed an object."""

    files: Sequence[str]
    """The kustomizations, the innermost first."""
    written: object
    """The object before the build."""
    built: object
    """The object after the build."""

    def find_patch(self, path: Path) -> PatchedField | None:
        """Return the file and line that changed or added a field, or None if no build changed the field."""
        if not self.files or not _is_changed(self.written, self.built, path):
            return None
        fields = [step for step in reversed(path) if isinstance(step, str)]
        for field in fields[:2]:
            for kustomization in reversed(self.files):
                for file in (*list_patch_files(os.path.dirname(kustomization)), kustomization):
                    if line := _find_line(file, field):
                        return PatchedField(file, line)
        return PatchedField(self.files[-1], 1)

    def find_written_path(self, path: Path) -> Path:
        """Return the path of the field in the object before the build, where items may have other indices."""
        written = self.written
        built = self.built
        steps = list(path)
        for position, step in enumerate(path):
            if isinstance(step, int) and isinstance(built, list) and isinstance(written, list) and step < len(built):
                item = _find_written_item(built[step], step, written)
                steps[position] = next((i for i, sibling in enumerate(written) if sibling is item), step)
                written = item
                built = built[step]
            else:
                written, built = _get_field(written, step), _get_field(built, step)
        return tuple(steps)


def list_kustomizations(annotation: str, folder: str) -> list[str]:
    """Return the kustomizations that an annotation names relative to a folder."""
    paths: dict[str, None] = {}
    for transformation in _parse_annotation(annotation):
        path = transformation.get("configuredIn") if isinstance(transformation, dict) else None
        if isinstance(path, str):
            file = os.path.normpath(os.path.join(folder, path))
            if os.path.isfile(file):
                paths[file] = None
    return list(paths)


def _parse_annotation(annotation: str) -> list[object]:
    """Return the first list in the annotation's YAML, or []."""
    try:
        documents: list[object] = [
            document.value for document in parse_documents(Content(TRANSFORMATIONS, annotation, is_json=False))
        ]
    except InputError:
        return []
    return next((value for value in documents if isinstance(value, list)), [])


def _is_changed(written: object, built: object, path: Path) -> bool:
    """Return whether a build changed the field. A mapping or list that existed before counts as unchanged."""
    for step in path:
        if isinstance(built, list) and isinstance(step, int):
            item = built[step] if step < len(built) else None
            written = _find_written_item(item, step, written)
            built = item
        else:
            written, built = _get_field(written, step), _get_field(built, step)
    if isinstance(written, Mapping | list) and isinstance(built, Mapping | list):
        return False
    return bool(path) and built is not None and written != built


def _get_field(value: object, step: str | int) -> object:
    """Return the value of a key, or None."""
    return value.get(step) if isinstance(value, Mapping) else None


def _find_written_item(item: object, index: int, written_list: object) -> object:
    """Return a list's item before the build, found by its identifying field or else by its index."""
    items = written_list if isinstance(written_list, list) else []
    for name in _IDENTIFYING_FIELDS:
        if isinstance(item, Mapping) and item.get(name) is not None:
            for candidate in items:
                if isinstance(candidate, Mapping) and candidate.get(name) == item[name]:
                    return candidate
            return None
    return items[index] if index < len(items) else None


def _find_line(file: str, field: str) -> int:
    """Return the first line of a file that names the field, or 0."""
    alternatives = "|".join(map(re.escape, (field, field.replace("/", "~1"))))  # as keys, and as RFC 6901 has them
    word = re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-])")
    return next((number for number, line in enumerate(_read_lines(file), 1) if word.search(line)), 0)


@lru_cache(maxsize=256)
def _read_lines(file: str) -> list[str]:
    """Return the lines of a file, or [] if the file cannot be read."""
    try:
        return load_content(file).text.splitlines()
    except InputError:
        return []
