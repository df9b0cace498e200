"""Reading of the manifests of many files for lint.

An unreadable file does not stop the others, and skipped documents are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject, text_at
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import Kustomizations
from kschedctl.sources.applied.sets import CHART, AppliedSets, Applier, is_applier
from kschedctl.sources.applied.standalone_files import (
    RepositoryFolders,
    TestScripts,
    has_expectation_name,
    is_partial_workload,
    iter_parents,
)
from kschedctl.sources.builds.build import Build, BuiltObject
from kschedctl.sources.documents.documents import Content, load_content, parse_without_schemas
from kschedctl.sources.documents.files import STDIN, format_file_path
from kschedctl.sources.documents.positions import LocatedObject, Text, iter_objects


class SkipReason(StrEnum):
    """The reason why a document or file is not linted, in the words of reports."""

    TEMPLATE = "templates"
    CHART = "templates of charts"
    FOREIGN = "documents other than Kubernetes objects"
    PATCH = "patches of Kustomize"
    TEST = "expected results and partial objects in tests"


HINTS = {SkipReason.CHART: "--helm renders them"}
"""The way to lint skipped documents, by the reason why they were skipped."""


_API_VERSION_FIELD = re.compile(r"^[ \t]*+(?:apiVersion|\"apiVersion\")\s*+:", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{|\$\{[A-Za-z_]|<%")
_VARIABLE = re.compile(r"\$\([A-Za-z_]|\(\$[A-Za-z_]")
_UPPER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_BLANK = re.compile(r"<[a-z][\w -]*>")
_UPPER_QUANTITY = re.compile(r"\b(cpu|memory|storage)[\"']?:\s*+[\"']?" + _UPPER_NAME.pattern + r"\b")
_QUANTITY_FIELDS = frozenset({"cpu", "memory", "storage", "ephemeral-storage"})
"""Names of fields with quantities, in which scripts replace names in capitals such as ``PV_NAME``."""
_ANY_PLACEHOLDER = re.compile(r"\{\{|\{%|\$\{[A-Za-z_]|<%|@[A-Z][A-Z0-9_]*@|\{[A-Z][A-Z0-9_]*\}")
"""Placeholders, including those that make a file unreadable."""
_FREE_TEXT_FIELDS = frozenset(
    {"args", "command", "env", "data", "stringData", "annotations", "description", "subPathExpr"}
)
"""Fields of an object in which placeholders may be intended for another program."""


class BrokenFile(NamedTuple):
    """A file that should hold objects but cannot be read."""

    file: str
    line: int
    """The line of the error."""
    message: str

    @property
    def source(self) -> str:
        """Always "", since no template is known."""
        return ""

    @property
    def build(self) -> str:
        """Always "", since the file was not built."""
        return ""

    def find_file(self, path: object) -> str:
        """Return the file, whatever the path."""
        return self.file

    def locate(self, path: object) -> tuple[int, int]:
        """Return line and column of the error."""
        return self.line, 1


class Repository(NamedTuple):
    """The objects of the files that are linted."""

    objects: tuple[LocatedObject | BuiltObject, ...]
    broken: tuple[BrokenFile, ...]
    passed_over: Mapping[SkipReason, tuple[str, ...]]
    """The documents that are not manifests, by reason, as ``file`` or ``file, document 3``."""
    sets: AppliedSets
    """The files that are applied together."""

    @property
    def is_complete(self) -> bool:
        """True if no object of the files is missing: no file is broken, and no template was skipped."""
        return not self.broken and self.passed_over.keys().isdisjoint((SkipReason.TEMPLATE, SkipReason.CHART))


class _RepositoryReader:
    """A reader that collects files and builds one after the other."""

    def __init__(self, kustomizations: Kustomizations, folders: RepositoryFolders) -> None:
        self.objects: list[LocatedObject | BuiltObject] = []
        self.broken: list[BrokenFile] = []
        self.passed_over: dict[SkipReason, list[str]] = {}
        self.errors: list[InputError] = []
        self.readable = 0
        """The number of files and builds that could be read."""
        self.built: set[str] = set()
        """The absolute paths of the files that builds use."""
        self.appliers: list[Applier] = []
        self.tests = TestScripts()
        self._folders = folders
        self._kustomizations = kustomizations

    def read_build(self, build: Build) -> None:
        """Read the objects of a build. If the build fails, record the error, so that its files are read as they are."""
        try:
            self.objects += [built for built in build.build_objects() if _looks_like_object(built.value)]
            self.built |= build.source_files
            self.readable += 1
        except InputError as error:
            self.errors.append(error)
            self.broken.append(BrokenFile(build.name, line=1, message=error.what))

    def read_file(self, file: str) -> None:
        """Collect the objects of a file, or record why it cannot be read."""
        name = "<stdin>" if file == STDIN else format_file_path(file)
        content = None
        try:
            content = load_content(file)
            self._collect_objects(file, name, content)
            self.readable += 1
        except InputError as error:
            self.errors.append(error)
            self._record_failure(name, content.text if content else None, error)

    def _record_failure(self, name: str, text: str | None, error: InputError) -> None:
        """Record why a file cannot be read: it is a template, it is foreign, or it is broken.

        A file with placeholders is a template, and a file without an apiVersion is foreign. Any other file is broken,
        including a file whose text could not be read (``text`` is None). ``name`` is the file's display name in
        messages.
        """
        if text is not None and _ANY_PLACEHOLDER.search(text):
            self._record_skip(_classify_template(name), name)
        elif text is not None and not _API_VERSION_FIELD.search(text):
            self._record_skip(SkipReason.FOREIGN, name)
        else:
            self.broken.append(BrokenFile(name, line=error.line or 1, message=error.what))

    def _collect_objects(self, file: str, name: str, content: Content) -> None:
        """Collect the objects of a file, and record why its other documents and objects are skipped.

        ``name`` is the file's display name in messages. The collected objects have the settings of the kustomizations
        that include the file. References of tests and appliers to other files are recorded as well. Raises InputError
        before anything is collected if a document cannot be parsed.
        """
        text = Text(name, content)
        placeholder_patterns = (_PLACEHOLDER, _VARIABLE, _UPPER_QUANTITY)
        may_have_placeholders = any(pattern.search(content.text) for pattern in placeholder_patterns)
        for document in parse_without_schemas(content):
            located_objects = [
                candidate for candidate in iter_objects(document, text) if _looks_like_object(candidate.value)
            ]
            where = name if document.number == 1 else f"{name}, document {document.number}"
            if not located_objects and not _is_empty_list(document.value):
                self._record_skip(SkipReason.FOREIGN, where)

            for located in located_objects:
                self._record_references(os.path.abspath(file), located.value)
                reason = self._find_skip_reason(file, located.value, may_have_placeholders)
                if reason is not None:
                    self._record_skip(reason, where)
                else:
                    customized = self._kustomizations.apply_to_object(file, located.value)
                    self.objects.append(located._replace(value=customized))

    def _find_skip_reason(self, file: str, value: JsonObject, may_have_placeholders: bool) -> SkipReason | None:
        """Return why an object in a file is not linted, or None if it is."""
        if (may_have_placeholders and _has_placeholder(value)) or _has_name_placeholder(value):
            return _classify_template(file)
        if is_partial_workload(value) and self._folders.is_standalone(os.path.abspath(file)):
            return SkipReason.TEST
        if self._kustomizations.is_patch_object(file, value):
            return SkipReason.PATCH
        return None

    def _record_references(self, path: str, value: JsonObject) -> None:
        """Record the object of a file if it refers to other files, because it is a test or an applier."""
        self.tests.add_object(path, value)
        if is_applier(value):
            self.appliers.append(Applier(path, value))

    def skip_expected_results(self) -> None:
        """Drop the objects in files that contain expected results of tests, and record these files as skipped."""
        files = {located.file for located in self.objects if not located.build}
        expected_results = set(filter(self._is_expected_result, files))
        for file in sorted(expected_results):
            self._record_skip(SkipReason.TEST, file)
        self.objects = [located for located in self.objects if located.build or located.file not in expected_results]

    def _is_expected_result(self, file: str) -> bool:
        """Return whether the file holds the expected results of a test."""
        path = os.path.abspath(file)
        return self.tests.is_expected_result(path) or (has_expectation_name(path) and self._folders.is_standalone(path))

    def _record_skip(self, reason: SkipReason, where: str) -> None:
        """Record that a file or document is skipped for a reason."""
        self.passed_over.setdefault(reason, []).append(where)


StartProgress = Callable[[str, int], Callable[[int], None]]
"""A function that starts a progress display with a title and the number of parts.

The display is a function that takes the number of parts that were completed since its last call.
"""


def _show_nothing(title: str, total: int) -> Callable[[int], None]:
    """Start a progress display that shows nothing."""
    return lambda done: None


def read_repository(
    files: Collection[str],
    builds: Collection[Build] = (),
    *,
    strict: bool = False,
    progress: StartProgress = _show_nothing,
) -> Repository:
    """Read the objects of the builds, and of the files that no build uses.

    Manifests that are not linted, such as templates, patches and expected results of tests, are recorded with the
    reason. Raises InputError if no file can be read or, if ``strict`` is true, if any file cannot be read.
    """
    kustomizations = Kustomizations(files)
    folders = RepositoryFolders(os.path.abspath(file) for file in files if file != STDIN)
    reader = _RepositoryReader(kustomizations, folders)
    done = progress("Building", len(builds))
    for build in builds:
        reader.read_build(build)
        done(1)
    done = progress("Reading", len(files))
    for file in files:
        done(1)
        if file == STDIN or os.path.abspath(file) not in reader.built:
            reader.read_file(file)
        if strict and reader.errors:
            break
    if reader.errors and (strict or not reader.readable):
        raise reader.errors[0]
    reader.skip_expected_results()
    passed_over = {reason: tuple(dict.fromkeys(where)) for reason, where in reader.passed_over.items()}
    sets = AppliedSets(folders, kustomizations, reader.appliers, reader.tests.folders)
    return Repository(tuple(reader.objects), tuple(reader.broken), passed_over, sets)


def _classify_template(file: str) -> SkipReason:
    """Return why a file with placeholders is skipped: CHART if it is in a chart's `templates` folder, otherwise
    TEMPLATE.
    """
    for folder in iter_parents(os.path.abspath(file)):
        if os.path.basename(folder) == "templates" and os.path.isfile(os.path.join(os.path.dirname(folder), CHART)):
            return SkipReason.CHART
    return SkipReason.TEMPLATE


def _looks_like_object(value: JsonObject) -> bool:
    """Return whether the value looks like a Kubernetes object: it has a kind, and an apiVersion, metadata or spec.

    A ``kind`` alone may also be a value for a chart.
    """
    kind = value.get("kind")
    version = value.get("apiVersion", "")
    if not isinstance(kind, str) or not kind or not isinstance(version, str | None):
        return False
    return bool(version) or isinstance(value.get("metadata"), dict) or isinstance(value.get("spec"), dict)


def _is_empty_list(value: object) -> bool:
    """Return whether the value is a List without items."""
    return isinstance(value, dict) and value.get("items") == [] and str(value.get("kind", "")).endswith("List")


def _has_placeholder(value: JsonObject) -> bool:
    """Return whether a field of the object, other than free text, contains a template placeholder.

    In quantities, capitalized names count as placeholders. Variables such as ``$(NAME)`` do not count in custom
    resources, because their controllers may replace them.
    """
    group = str(value.get("apiVersion")).rpartition("/")[0]
    is_custom = "." in group and not group.endswith(".k8s.io")
    for text in _iter_strings(value):
        if _PLACEHOLDER.search(text):
            return True
        if not is_custom and _VARIABLE.search(text):
            return True
    return any(_UPPER_NAME.fullmatch(text) for text in _iter_quantity_strings(value))


def _iter_quantity_strings(value: object) -> Iterator[str]:
    """Yield each string in a field that holds a quantity, such as ``cpu`` or ``memory``, at any depth of the value."""
    unvisited: list[object] = [value]
    while unvisited:
        inner_value = unvisited.pop()
        if isinstance(inner_value, dict):
            yield from (
                inner for key, inner in inner_value.items() if key in _QUANTITY_FIELDS and isinstance(inner, str)
            )
            unvisited += inner_value.values()
        elif isinstance(inner_value, list):
            unvisited += inner_value


def _has_name_placeholder(value: JsonObject) -> bool:
    """Return whether the object's name is a placeholder such as ``PV_NAME`` or ``<name>``.

    Placeholders are not valid names.
    """
    name = text_at(value, "metadata", "name")
    return bool(_UPPER_NAME.fullmatch(name) or _BLANK.search(name))


def _iter_strings(value: object) -> Iterator[str]:
    """Yield all keys and strings in the value, except the strings in fields with free text."""
    unvisited: list[object] = [value]
    while unvisited:
        inner_value = unvisited.pop()
        if isinstance(inner_value, str):
            yield inner_value
        elif isinstance(inner_value, dict):
            unvisited += inner_value
            unvisited += (inner for key, inner in inner_value.items() if key not in _FREE_TEXT_FIELDS)
        elif isinstance(inner_value, list):
            unvisited += inner_value
