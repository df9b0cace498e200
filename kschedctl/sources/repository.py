"""The manifests of many files, each by itself: what one file costs is that file, and what is passed over is told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.appliers import Applier, is_applier
from kschedctl.sources.applied.kustomizations import Kustomizations
from kschedctl.sources.applied.sets import CHART, AppliedSets
from kschedctl.sources.applied.standing_alone import Folders, above
from kschedctl.sources.applied.tests import TestScripts, is_expectation, is_part
from kschedctl.sources.builds.build import Build, BuiltObject
from kschedctl.sources.documents.documents import Content, load_content, parse_without_schemas
from kschedctl.sources.documents.files import STDIN, display_path
from kschedctl.sources.documents.positions import LocatedObject, Text, iter_objects

TEMPLATES = "templates"
CHARTS = "templates of charts"
HINTS = {CHARTS: "--helm renders them"}
"""What is passed over -> how it is linted nevertheless."""
FOREIGN = "documents that are no Kubernetes objects"
PATCHES = "patches of Kustomize"
TESTS = "expectations and parts of objects in tests"

_LINE = re.compile(r"line (\d+)")
_KUBERNETES = re.compile(r"^[ \t]*+(?:apiVersion|\"apiVersion\")\s*+:", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{|\$\{[A-Za-z_]|<%")
_VARIABLE = re.compile(r"\$\([A-Za-z_]|\(\$[A-Za-z_]")
_UPPER_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_BLANK = re.compile(r"<[a-z][\w -]*>")
_UPPER_AMOUNT = re.compile(r"\b(cpu|memory|storage)[\"']?:\s*+[\"']?" + _UPPER_NAME.pattern + r"\b")
_AMOUNTS = frozenset({"cpu", "memory", "storage", "ephemeral-storage"})
"""What scripts and readers put something else for: ``$(replicas)``, ``($namespace)``, ``PV_NAME``, ``web-<node>``."""
_TEMPLATE = re.compile(r"\{\{|\{%|\$\{[A-Za-z_]|<%|@[A-Z][A-Z0-9_]*@|\{[A-Z][A-Z0-9_]*\}")
"""What also stands for something else where it makes a file unreadable."""
_FREE_TEXT = frozenset({"args", "command", "env", "data", "stringData", "annotations", "description", "subPathExpr"})
"""Fields of an object in which placeholders may be meant for somebody else."""


class Broken(NamedTuple):
    """A file that should hold objects and cannot be read, and where that is seen."""

    file: str
    line: int
    what: str

    @property
    def source(self) -> str:
        return ""

    @property
    def build(self) -> str:
        return ""

    def file_of(self, path: object) -> str:
        return self.file

    def locate(self, path: object) -> tuple[int, int]:
        return self.line, 1


class Repository(NamedTuple):
    """``passed_over``: reason -> what of the files is no manifest, as ``file`` or ``file, document 3``.

    ``sets``: which of the files are applied together.
    """

    objects: tuple[LocatedObject | BuiltObject, ...]
    broken: tuple[Broken, ...]
    passed_over: Mapping[str, tuple[str, ...]]
    sets: AppliedSets

    @property
    def whole(self) -> bool:
        """Whether no object of the files is missing."""
        return not self.broken and self.passed_over.keys().isdisjoint((TEMPLATES, CHARTS))


class _Reading:
    """What was found so far."""

    def __init__(self, kustomizations: Kustomizations, folders: Folders) -> None:
        self.objects: list[LocatedObject | BuiltObject] = []
        self.broken: list[Broken] = []
        self.passed_over: dict[str, list[str]] = {}
        self.errors: list[InputError] = []
        self.readable = 0
        self.built: set[str] = set()
        self.appliers: list[Applier] = []
        self.tests = TestScripts()
        self._folders = folders
        self._kustomizations = kustomizations

    def build(self, build: Build) -> None:
        """Raises nothing: the files of what cannot be built are read as they are."""
        try:
            self.objects += [built for built in build.objects() if _is_object(built.value)]
            self.built |= build.files
            self.readable += 1
        except InputError as error:
            self.errors.append(error)
            self.broken.append(Broken(build.name, 1, error.what))

    def file(self, file: str) -> None:
        """Raises nothing: what is wrong with the file is kept."""
        name = "<stdin>" if file == STDIN else display_path(file)
        content = None
        try:
            content = load_content(file)
            self._documents(file, name, content)
            self.readable += 1
        except InputError as error:
            self.errors.append(error)
            self._fault(name, content.text if content else None, error)

    def _fault(self, name: str, text: str | None, error: InputError) -> None:
        if text is not None and _TEMPLATE.search(text):
            self._pass_over(_of_templates(name), name)
        elif text is not None and not _KUBERNETES.search(text):
            self._pass_over(FOREIGN, name)
        else:
            line = _LINE.search(error.where.rpartition(": ")[2])
            self.broken.append(Broken(name, int(line[1]) if line else 1, error.what))

    def _documents(self, file: str, name: str, content: Content) -> None:
        """Nothing of a file is kept where one of its documents cannot be read."""
        text = Text(name, content)
        templated = any(pattern.search(content.text) for pattern in (_PLACEHOLDER, _VARIABLE, _UPPER_AMOUNT))
        for document in parse_without_schemas(content):
            located_objects = [
                located_object for located_object in iter_objects(document, text) if _is_object(located_object.value)
            ]
            where = name if document.number == 1 else f"{name}, document {document.number}"
            if not located_objects and not _is_empty_list(document.value):
                self._pass_over(FOREIGN, where)
            for located in located_objects:
                self._see(os.path.abspath(file), located.value)
                if (templated and _has_placeholder(located.value)) or _is_named_later(located.value):
                    self._pass_over(_of_templates(name), where)
                elif is_part(located.value) and self._folders.stands_alone(os.path.abspath(file)):
                    self._pass_over(TESTS, where)
                elif self._kustomizations.is_patch(file, located.value):
                    self._pass_over(PATCHES, where)
                else:
                    self.objects.append(located._replace(value=self._kustomizations.completed(file, located.value)))

    def _see(self, path: str, value: JsonObject) -> None:
        """What objects say of others."""
        self.tests.see(path, value)
        if is_applier(value):
            self.appliers.append(Applier(path, value))

    def leave_out_expectations(self) -> None:
        """Leave out the files that say what a test expects before or after its steps."""
        files = {written.file for written in self.objects if not written.build}
        expectations = set(filter(self._is_expectation, files))
        for file in sorted(expectations):
            self._pass_over(TESTS, file)
        self.objects = [written for written in self.objects if written.build or written.file not in expectations]

    def _is_expectation(self, file: str) -> bool:
        path = os.path.abspath(file)
        return self.tests.expect(path) or (is_expectation(path) and self._folders.stands_alone(path))

    def _pass_over(self, why: str, where: str) -> None:
        self.passed_over.setdefault(why, []).append(where)


Begin = Callable[[str, int], Callable[[int], None]]
"""Something with so many parts begins; what is given back is told how many more of them are done."""


def _unseen(what: str, total: int) -> Callable[[int], None]:
    return lambda done: None


def read_repository(
    files: Collection[str], builds: Collection[Build] = (), *, strict: bool = False, progress: Begin = _unseen
) -> Repository:
    """The objects of these builds, and of the files that go into none.

    Raises InputError where none can be read, with ``strict`` where one cannot.
    """
    kustomizations, folders = Kustomizations(files), Folders(os.path.abspath(file) for file in files if file != STDIN)
    reading = _Reading(kustomizations, folders)
    done = progress("Building", len(builds))
    for build in builds:
        reading.build(build)
        done(1)
    done = progress("Reading", len(files))
    for file in files:
        done(1)
        if file == STDIN or os.path.abspath(file) not in reading.built:
            reading.file(file)
        if strict and reading.errors:
            break
    if reading.errors and (strict or not reading.readable):
        raise reading.errors[0]
    reading.leave_out_expectations()
    passed_over = {why: tuple(dict.fromkeys(where)) for why, where in reading.passed_over.items()}
    sets = AppliedSets(folders, kustomizations, reading.appliers, reading.tests.folders)
    return Repository(tuple(reading.objects), tuple(reading.broken), passed_over, sets)


def _of_templates(file: str) -> str:
    """What a file is that has something to be put in."""
    folders = above(os.path.abspath(file))
    charts = (os.path.dirname(folder) for folder in folders if os.path.basename(folder) == "templates")
    return CHARTS if any(os.path.isfile(os.path.join(chart, CHART)) for chart in charts) else TEMPLATES


def _is_object(value: JsonObject) -> bool:
    """Whether somebody means it as one: values of a chart may have a ``kind``, too."""
    kind, version = value.get("kind"), value.get("apiVersion", "")
    meant = bool(version) or isinstance(value.get("metadata"), dict) or isinstance(value.get("spec"), dict)
    return isinstance(kind, str) and bool(kind) and isinstance(version, str | None) and meant


def _is_empty_list(value: object) -> bool:
    return isinstance(value, dict) and value.get("items") == [] and str(value.get("kind", "")).endswith("List")


def _has_placeholder(value: JsonObject) -> bool:
    """Whether something is still to be put in where the API would read it."""
    group = str(value.get("apiVersion")).rpartition("/")[0]
    variable = None if "." in group and not group.endswith(".k8s.io") else _VARIABLE  # which others have a use for
    later = any(_PLACEHOLDER.search(text) or (variable and variable.search(text)) for text in _texts(value))
    return later or any(_UPPER_NAME.fullmatch(text) for text in _amounts(value))


def _amounts(value: object) -> Iterator[str]:
    """What stands where an amount should."""
    open_: list[object] = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, dict):
            yield from (inner for key, inner in one.items() if key in _AMOUNTS and isinstance(inner, str))
        open_ += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


def _is_named_later(value: JsonObject) -> bool:
    """Whether the name is one that no object can have, and is put in by something else."""
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and bool(_UPPER_NAME.fullmatch(name) or _BLANK.search(name))


def _texts(value: object) -> Iterator[str]:
    open_: list[object] = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            open_ += one
            open_ += (inner for key, inner in one.items() if key not in _FREE_TEXT)
        elif isinstance(one, list):
            open_ += one
