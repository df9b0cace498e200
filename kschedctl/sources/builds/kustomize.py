"""Builds of Kustomize folders, with the file that each object comes from.

Kustomize adds annotations with the file and the kustomizations that changed the object if ``buildMetadata`` requests
them. Therefore an outer kustomization is built that requests them and contains the folder. Kustomizations with fields
that would pass options to helm or git are not built.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import parse_qs

from kschedctl.api.json_values import JsonDict, JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import (
    FILE_NAMES,
    find_kustomization,
    is_component,
    iter_bases,
    list_folders,
)
from kschedctl.sources.applied.standalone_files import iter_parents
from kschedctl.sources.builds import helm_guard
from kschedctl.sources.builds.build import (
    TRANSFORMATIONS,
    BuiltObject,
    Overlays,
    find_program,
    list_kustomizations,
    run_program,
)
from kschedctl.sources.builds.helm_guard import HOME_REFUSAL, explain_unsafe_value
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.files import make_relative_path
from kschedctl.sources.documents.positions import LocatedObject, load_objects, parse_objects

ORIGIN = "config.kubernetes.io/origin"
GIT_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "http:https:ssh", "GIT_TERMINAL_PROMPT": "0"}
"""Limits for git, with which kustomize fetches remote bases: no local repositories, and no prompts."""

# Kustomize ignores the case of field names, so all names are compared in lower case.
_BASE_FIELDS = ("resources", "bases", "components", "generators", "transformers", "validators")
_PLUGIN_FIELDS = ("generators", "transformers", "validators")
_CHART_FIELDS = ("helmCharts", "helmChartInflationGenerator")
_GENERATOR = "HelmChartInflationGenerator"
_FORBIDDEN_FIELDS = frozenset({"confighome", "helmhome", "helmbin", "extraargs"})
_OPTIONS = {"repo": "--repo", "chartrepourl": "--repo", "nametemplate": "--name-template"}
_PATH_FIELDS = frozenset({"name", "chartname", "version", "chartversion"})
"""Fields that kustomize uses in file names."""
_FREE_TEXT_FIELDS = frozenset({"valuesinline", "valueslocal"})


class OriginFinder:
    """A finder of the objects in files from which objects were built. Each file is read once."""

    def __init__(self) -> None:
        self._objects: dict[str, list[LocatedObject]] = {}

    def find_origin(self, built: JsonObject, file: str) -> LocatedObject | None:
        """Return the object in `file` from which `built` was made, or None if it cannot be determined.

        Candidates are the file's objects of the same kind. A build may add a prefix and a suffix to a name, so the
        candidate with the longest name contained in the built object's name is chosen. If no candidate's name is
        contained, a single candidate is chosen regardless of its name.
        """
        candidates = [
            located for located in self._load_file_objects(file) if located.value.get("kind") == built.get("kind")
        ]
        built_name = _get_object_name(built)
        named: dict[str, LocatedObject] = {}
        for candidate in candidates:
            name = _get_object_name(candidate.value)
            if name and name in built_name:
                named.setdefault(name, candidate)
        if named:
            return named[max(named, key=len)]
        return candidates[0] if len(candidates) == 1 else None

    def _load_file_objects(self, file: str) -> list[LocatedObject]:
        """Return the objects of a file, or [] if the file cannot be read."""
        if file not in self._objects:
            try:
                self._objects[file] = list(load_objects(file))
            except InputError:  # kustomize could read the file, so only positions are missing
                self._objects[file] = []
        return self._objects[file]


@dataclass(frozen=True)
class KustomizeBuild:
    """The build of one folder by a command."""

    folder: str
    command: Sequence[str]
    origins: OriginFinder
    helm: str = ""
    """The path of helm if charts are built as well, or ""."""

    @property
    def name(self) -> str:
        """The kustomization, as messages name it."""
        return make_relative_path(find_kustomization(self.folder) or self.folder)

    @cached_property
    def source_files(self) -> frozenset[str]:
        """The absolute paths of the folder, of all its bases, and of the kustomizations in these folders."""
        paths: set[str] = set()
        unvisited = [os.path.abspath(self.folder)]
        while unvisited:
            path = unvisited.pop()
            if path in paths:
                continue
            paths.add(path)
            if file := find_kustomization(path):
                paths.add(file)
                unvisited += iter_bases(path)
        return frozenset(paths)

    def build_objects(self) -> Iterator[BuiltObject]:
        """Build the folder and yield its objects.

        Raises InputError if a field is unsafe, or with Kustomize's message if the build fails.
        """
        top = _find_repository_top(os.path.abspath(self.folder))
        first_unsafe_field = next(_find_unsafe_fields(self.folder, top, with_helm=bool(self.helm)), None)
        if first_unsafe_field is not None:
            raise first_unsafe_field.error

        # An outer kustomization makes Kustomize annotate the objects with their files
        with tempfile.TemporaryDirectory(prefix="kschedctl-") as temporary:
            outer_folder = os.path.realpath(temporary)
            relative_folder = os.path.relpath(os.path.realpath(self.folder), outer_folder)
            kustomization = {
                "resources": [relative_folder],
                "buildMetadata": ["originAnnotations", "transformerAnnotations"],
            }
            with open(os.path.join(outer_folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
                json.dump(kustomization, file)
            command = [*self.command, *_write_helm_guard(self.helm, outer_folder, top)]
            content = run_program([*command, outer_folder], self.name, GIT_ENVIRONMENT)
            for built in parse_objects(self.name, content):
                yield self._trace_object(dict(built.value), outer_folder)

    def _trace_object(self, value: dict[str, object], outer_folder: str) -> BuiltObject:
        """Find a built object's origin and the kustomizations that changed it, using Kustomize's annotations.

        The annotations are removed from ``value``. The origin is unknown if the object was generated or read from
        another repository.
        """
        path, transformations = _pop_kustomize_annotations(value)
        folder = make_relative_path(self.folder)
        file = os.path.normpath(os.path.join(outer_folder, path)) if path else ""
        if not os.path.isfile(file):
            return BuiltObject(value, folder, self.name)  # generated, or read from another repository
        origin = self.origins.find_origin(value, make_relative_path(file))
        overlays = None
        if origin:
            kustomizations = list_kustomizations(transformations, outer_folder)
            overlays = Overlays(kustomizations, written=origin.value, built=value)
        return BuiltObject(value, folder, make_relative_path(file), origin=origin, overlays=overlays)


def find_kustomize_builds(files: Collection[str], with_helm: bool = False) -> list[KustomizeBuild]:
    """Return the builds of the kustomizations among the files that are neither components nor bases.

    If ``with_helm`` is true, Kustomize may render charts. Raises UsageError if neither kustomize nor kubectl is
    installed, or if helm is needed but not installed.
    """
    command = find_program("--kustomize", ("kustomize", "build"), ("kubectl", "kustomize"))
    folders = [folder for folder in list_folders(files) if find_kustomization(folder)]
    bases = {path for folder in folders for path in iter_bases(folder)}
    roots = [folder for folder in folders if folder not in bases and not is_component(folder)]
    helm = find_program("--helm", ("helm",))[0] if with_helm else ""
    origins = OriginFinder()
    return [KustomizeBuild(folder, command, origins, helm) for folder in roots]


def _write_helm_guard(helm: str, folder: str, top: str) -> list[str]:
    """Write a script into the folder that runs helm only with safe options (see helm_guard).

    Return the options that make kustomize call this script instead of helm. If ``helm`` is empty, write nothing and
    return [].
    """
    if not helm:
        return []
    script = os.path.join(folder, "helm")
    words = shlex.join([sys.executable, "-I", helm_guard.__file__, helm, top])
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {words} "$@"\n')
    os.chmod(script, stat.S_IRWXU)
    return ["--enable-helm", "--helm-command", script]


def _find_repository_top(folder: str) -> str:
    """Return the top folder of the repository that contains the folder, or the folder if there is no repository."""
    for candidate in (folder, *iter_parents(folder)):
        if os.path.exists(os.path.join(candidate, ".git")):
            return candidate
    return folder


def _pop_kustomize_annotations(value: JsonDict) -> tuple[str, str]:
    """Remove Kustomize's annotations from the object, and return its file and its transformations annotation.

    The file is "" if the annotation names no file or a file in another repository.
    """
    # Copies are changed, since the caller's value is only a shallow copy
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    origin = str(annotations.pop(ORIGIN, ""))
    transformations = str(annotations.pop(TRANSFORMATIONS, ""))
    if annotations:
        metadata["annotations"] = annotations
    value["metadata"] = metadata

    lines = origin.splitlines()
    if any(line.startswith("repo:") for line in lines):
        return "", transformations
    paths = (line.partition(":")[2].strip() for line in lines if line.startswith(("path:", "configuredIn:")))
    return next(paths, ""), transformations


def _get_object_name(value: JsonObject) -> str:
    """Return the name of the object, or ""."""
    metadata = value.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


class _UnsafeField(NamedTuple):
    """A field of a file that must not be built."""

    file: str
    field: str
    message: str

    @property
    def error(self) -> InputError:
        """An error that names the field and its file."""
        return InputError(f"{self.field}: {self.message}; not built", where=make_relative_path(self.file))


def _find_unsafe_fields(folder: str, top: str, *, with_helm: bool) -> Iterator[_UnsafeField]:
    """Yield the unsafe fields of a folder's kustomization and of all its local bases.

    ``top`` is the folder that charts must not leave. If ``with_helm`` is false, the fields of charts are not checked.
    """
    seen: set[str] = set()
    unvisited = [os.path.abspath(folder)]
    while unvisited:
        path = unvisited.pop()
        file = find_kustomization(path) if os.path.isdir(path) else path
        if not file or file in seen:
            continue
        seen.add(file)
        for document in _load_documents(file):
            yield from _iter_unsafe_fields(file, document, top if with_helm else "")
            for _, entry in _iter_bases(document):
                base = os.path.abspath(os.path.join(os.path.dirname(file), entry))
                if os.path.exists(base):
                    unvisited.append(base)


def _iter_unsafe_fields(file: str, document: JsonObject, top: str) -> Iterator[_UnsafeField]:
    """Yield the unsafe fields of a kustomization's document. If ``top`` is "", fields of charts are not checked."""
    for field, reference in _iter_bases(document):
        if message := _explain_unsafe_reference(reference):
            yield _UnsafeField(file, field, message)
    if top:
        for prefix, settings in _iter_chart_settings(document):
            for name, message in _iter_unsafe_chart_fields(settings, file, top):
                yield _UnsafeField(file, prefix + name, message)


def _explain_unsafe_reference(reference: str) -> str:
    """Return why a reference to a base is unsafe, or "" if it is safe.

    A reference is unsafe if git would take a part of it for an option, or if it is a repository on this machine.
    """
    query = parse_qs(reference.partition("?")[2])
    for value in (*query.get("ref", ()), *query.get("version", ())):
        if value.startswith("-"):
            return f'"{value}" would be an option of git'
    if reference.startswith("-"):
        return f'"{reference}" would be an option of git'
    if reference.lower().removeprefix("git::").startswith("file:"):
        return f'"{reference}" is a repository on this machine'
    return ""


def _iter_bases(document: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the field and the path or URL of each base and plugin of a kustomization. Inline plugins are skipped."""
    fields = _lower_keys(document)
    for key in _BASE_FIELDS:
        for number, entry in enumerate(_as_list(fields.get(key))):
            if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                yield f"{key}[{number}]", entry


def _iter_chart_settings(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the mappings with Helm settings, each with the prefix of its field names in messages.

    The mappings are the document if it is a chart generator, the Helm globals, each chart, and the settings of inline
    plugins.
    """
    fields = _lower_keys(document)
    if document.get("kind") == _GENERATOR:
        yield "", document
    yield "helmGlobals.", _as_mapping(fields.get("helmglobals"))
    for name in _CHART_FIELDS:
        for index, chart in enumerate(_as_list(fields.get(name.casefold()))):
            yield f"{name}[{index}].", _as_mapping(chart)
    for prefix, plugin in _iter_inline_plugins(fields):
        for inner_prefix, settings in _iter_chart_settings(plugin):
            yield f"{prefix}{inner_prefix}", settings


def _iter_inline_plugins(fields: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the plugins that a kustomization contains as text, each with the prefix of its field names in messages.

    ``fields`` are the kustomization's fields with names in lower case. Plugins that are given by their path are
    skipped.
    """
    for key in _PLUGIN_FIELDS:
        for index, entry in enumerate(_as_list(fields.get(key))):
            is_document = isinstance(entry, str) and "\n" in entry  # otherwise, it is a path
            if is_document:
                for plugin in _parse_mappings(Content(key, str(entry), is_json=False)):
                    yield f"{key}[{index}].", plugin


def _iter_unsafe_chart_fields(settings: JsonObject, file: str, top: str) -> Iterator[tuple[str, str]]:
    """Yield the name and a message for each unsafe field in the settings of a chart or of Helm.

    Each item of a list is checked separately. Fields with free text are not checked.
    """
    for name, value in settings.items():
        key = name.casefold()
        if key in _FORBIDDEN_FIELDS and value:
            yield name, f'"{value}": {HOME_REFUSAL}'
        if isinstance(value, list):
            values = value
        elif key in _FREE_TEXT_FIELDS:
            values = []
        else:
            values = [value]
        for text in map(str, values):
            if message := _explain_unsafe_chart_field(key, text, file, top):
                yield name, message


def _explain_unsafe_chart_field(key: str, text: str, file: str, top: str) -> str:
    """Return why a chart field's value is unsafe, or "" if it is safe.

    ``key`` is the field's name in lower case. ``file`` is the kustomization file, to which paths are relative. ``top``
    is the repository's top folder, which no path may leave.
    """
    if not text:
        return ""
    if key == "charthome":
        return explain_unsafe_value("--untardir", os.path.join(os.path.dirname(file), text), top)
    if key in _PATH_FIELDS and (".." in text.split("/") or text.startswith("/")):
        return f'"{text}" points outside the folder of the chart'
    return explain_unsafe_value(_OPTIONS.get(key, ""), text, top)


def _lower_keys(value: JsonObject) -> dict[str, object]:
    """Return the mapping with keys in lower case."""
    return {key.casefold(): inner for key, inner in value.items()}


def _as_mapping(value: object) -> JsonObject:
    """Return the value if it is a mapping, or an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> Iterable[object]:
    """Return the value if it is a list, or ()."""
    return value if isinstance(value, list) else ()


def _load_documents(file: str) -> list[JsonObject]:
    """Return the documents in a kustomization or generator file, or [] for other files.

    An unreadable file has no documents, because kustomize reports the error.
    """
    try:
        content = load_content(file)
    except InputError:
        return []
    is_relevant = os.path.basename(file) in FILE_NAMES or _GENERATOR in content.text
    return list(_parse_mappings(content)) if is_relevant else []


def _parse_mappings(content: Content) -> Iterator[JsonObject]:
    """Yield the documents that are mappings. Nothing is yielded if the text cannot be parsed."""
    try:
        documents: list[object] = [document.value for document in parse_documents(content)]
    except InputError:
        return
    yield from (value for value in documents if isinstance(value, Mapping))
