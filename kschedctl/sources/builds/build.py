"""Builds of folders into manifests by a program, the built objects, and the patches that changed their fields."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.applied.kustomizations import list_patch_files
from kschedctl.sources.documents.documents import MAX_SIZE, Content, decode_utf8, load_content, parse_documents
from kschedctl.sources.documents.files import make_relative_path
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
        patched_field = self.overlays.find_patch(path) if self.overlays else None
        return make_relative_path(patched_field.file) if patched_field else self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Return the line and column (from 1) of the field in the file that ``find_file`` returns.

        If the file does not contain the field, return the position of its nearest ancestor or of the beginning of the
        file. In a chart's template, a field is found only if its name occurs once.
        """
        if self.overlays:
            patched_field = self.overlays.find_patch(path)
            if patched_field:
                return patched_field.line, 1
        if self.origin is not None:
            return self.origin.locate(self.overlays.find_written_path(path) if self.overlays else path)
        for step in reversed(path):
            if isinstance(step, str) and step in self.lines:
                return self.lines[step], 1
        return 1, 1


class Build(Protocol):
    """A folder that can be built."""

    @property
    def name(self) -> str:
        """The file that defines the build, as messages name it."""
        ...

    @property
    def source_files(self) -> frozenset[str]:
        """Absolute paths of the files that the build uses. These files are not manifests of their own."""
        ...

    def build_objects(self) -> Iterable[BuiltObject]:
        """Build the folder and return its objects. Raises InputError with the program's message."""
        ...


BUILD_TIMEOUT_SECONDS = 120
"""The time limit for one build. Kustomize may fetch remote bases."""
MAX_MESSAGE_LENGTH = 500  # characters
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def find_program(option: str, *commands: Sequence[str]) -> tuple[str, ...]:
    """Return the first of the commands whose program is installed, with the program's full path.

    Raises UsageError if none of the programs is installed. The message names the option that needs the program.
    """
    for name, *arguments in commands:
        if path := shutil.which(name):
            return path, *arguments
    names = " or ".join(command[0] for command in commands)
    raise UsageError(f"{option} needs {names}, which is not on the PATH", hint=f"install {names}")


def run_program(command: Sequence[str], subject: str, environment: Mapping[str, str] = NO_VARIABLES) -> Content:
    """Run the command without a shell, and return what it prints as content named ``subject``.

    ``environment`` contains additional variables. Raises InputError if the command fails, takes too long, or prints too
    much.
    """
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
        raise InputError(f"{_describe_command(command)}: {_shorten_error_output(completed.stderr)}", where=subject)
    if len(completed.stdout) > MAX_SIZE:
        raise InputError(f"{_describe_command(command)} printed more than {MAX_SIZE >> 20} MiB", where=subject)
    return Content(subject, decode_utf8(completed.stdout, subject), is_json=False)


def _describe_command(command: Sequence[str]) -> str:
    """Return the program's name and its subcommand for messages, such as ``helm template``."""
    words = (command[0].rpartition("/")[2], *command[1:2])
    return " ".join(words)


def _shorten_error_output(stderr: bytes) -> str:
    """Return a program's error output on one line, without "Error: " at its beginning.

    Of a long output, only the last MAX_MESSAGE_LENGTH characters are returned. An empty output has a substitute
    message.
    """
    message = " ".join(stderr.decode(errors="replace").split()).removeprefix("Error: ").removeprefix("error: ")
    if not message:
        return "failed without a message"
    return f"…{message[-MAX_MESSAGE_LENGTH:]}" if len(message) > MAX_MESSAGE_LENGTH else message


TRANSFORMATIONS = "alpha.config.kubernetes.io/transformations"
_IDENTIFYING_FIELDS = ("name", "key", "topologyKey", "containerPort")
"""Fields that identify items of a list if others were inserted before them."""


class PatchedField(NamedTuple):
    """The place where a field is changed: the file, and the line that names the field."""

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
        """Return the file and line that changed or added a field, or None if no kustomization changed it.

        The first line that contains the field's name is returned or, failing that, its parent's name. Outer
        kustomizations and their patches are searched first. Without such a line, return the first line of the outermost
        kustomization.
        """
        if not self.files or not _is_field_changed(self.written, self.built, path):
            return None
        names = [step for step in reversed(path) if isinstance(step, str)]
        for name in names[:2]:  # the field and its parent
            for file in self._iter_files_from_outside():
                if line := _find_field_line(file, name):
                    return PatchedField(file, line)
        return PatchedField(self.files[-1], 1)

    def _iter_files_from_outside(self) -> Iterator[str]:
        """Yield each kustomization after its patch files, the outermost kustomization first."""
        for kustomization in reversed(self.files):
            yield from list_patch_files(os.path.dirname(kustomization))
            yield kustomization

    def find_written_path(self, path: Path) -> Path:
        """Return the path that a field had in the object before the build. Items of lists may have had other indices.

        An item that the build added keeps its index.
        """
        written = self.written
        built = self.built
        steps = list(path)
        for position, step in enumerate(path):
            if isinstance(step, int) and isinstance(built, list) and isinstance(written, list) and step < len(built):
                written_item = _find_source_item(built[step], step, written)
                # Equal items may occur several times, so the item is found by identity
                indices = (index for index, sibling in enumerate(written) if sibling is written_item)
                steps[position] = next(indices, step)
                written = written_item
                built = built[step]
            else:
                written = _get_field(written, step)
                built = _get_field(built, step)
        return tuple(steps)


def list_kustomizations(annotation: str, folder: str) -> list[str]:
    """Return the existing kustomizations named in Kustomize's annotation, without duplicates.

    The paths in the annotation are relative to ``folder``, the built folder.
    """
    files: dict[str, None] = {}
    for transformation in _parse_transformations(annotation):
        path = transformation.get("configuredIn") if isinstance(transformation, dict) else None
        if isinstance(path, str):
            file = os.path.normpath(os.path.join(folder, path))
            if os.path.isfile(file):
                files[file] = None
    return list(files)


def _parse_transformations(annotation: str) -> list[object]:
    """Return the first list in the YAML of a transformations annotation.

    Return [] if there is no list, or if the YAML is malformed.
    """
    try:
        documents: list[object] = [
            document.value for document in parse_documents(Content(TRANSFORMATIONS, annotation, is_json=False))
        ]
    except InputError:
        return []
    return next((value for value in documents if isinstance(value, list)), [])


def _is_field_changed(written: object, built: object, path: Path) -> bool:
    """Return whether the build changed or added the field.

    A mapping or list that existed before counts as unchanged, even if fields inside it were changed.
    """
    for step in path:
        if isinstance(built, list) and isinstance(step, int):
            built = built[step] if step < len(built) else None
            written = _find_source_item(built, step, written)
        else:
            written = _get_field(written, step)
            built = _get_field(built, step)
    if isinstance(written, Mapping | list) and isinstance(built, Mapping | list):
        return False
    return bool(path) and built is not None and written != built


def _get_field(value: object, step: str | int) -> object:
    """Return the value of a key if the value is a mapping with this key, or None."""
    return value.get(step) if isinstance(value, Mapping) else None


def _find_source_item(item: object, index: int, written_list: object) -> object:
    """Return the item of the source list from which the given item was built, or None if there is none.

    An item with an identifying field is found by this field's value, any other item by its index.
    """
    items = written_list if isinstance(written_list, list) else []
    for name in _IDENTIFYING_FIELDS:
        if isinstance(item, Mapping) and item.get(name) is not None:
            for candidate in items:
                if isinstance(candidate, Mapping) and candidate.get(name) == item[name]:
                    return candidate
            return None
    return items[index] if index < len(items) else None


def _find_field_line(file: str, field: str) -> int:
    """Return the number, from 1, of the first line in a file that contains the field's name.

    Return 0 if there is no such line, or if the file cannot be read.
    """
    spellings = (field, field.replace("/", "~1"))  # as a key, and in a JSON pointer (RFC 6901)
    alternatives = "|".join(map(re.escape, spellings))
    name = re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-])")
    return next((number for number, line in enumerate(_read_file_lines(file), 1) if name.search(line)), 0)


@lru_cache(maxsize=256)
def _read_file_lines(file: str) -> list[str]:
    """Return the lines of a file, or [] if the file cannot be read."""
    try:
        return load_content(file).text.splitlines()
    except InputError:
        return []
