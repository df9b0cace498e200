"""Checks for unsafe fields of kustomizations, which would pass options to helm or git and prevent a build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import FILE_NAMES, find_kustomization
from kschedctl.sources.builds.helm_guard import HOME_REFUSAL, explain_unsafe_value
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.files import make_relative_path

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


class UnsafeField(NamedTuple):
    """A field of a file that must not be built."""

    file: str
    field: str
    message: str

    @property
    def error(self) -> InputError:
        """An error that names the field and its file."""
        return InputError(f"{self.field}: {self.message}; it is not built", where=make_relative_path(self.file))


def find_unsafe_fields(folder: str, top: str, *, with_helm: bool) -> Iterator[UnsafeField]:
    """Yield the unsafe fields of a folder's kustomization and of all its local bases.

    ``top`` is the folder that charts must not leave. Without ``with_helm`` the fields of charts are not checked.
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


def _iter_unsafe_fields(file: str, document: JsonObject, top: str) -> Iterator[UnsafeField]:
    """Yield the unsafe fields of a kustomization's document. If ``top`` is "", fields of charts are not checked."""
    for field, reference in _iter_bases(document):
        if message := _explain_unsafe_reference(reference):
            yield UnsafeField(file, field, message)
    if top:
        for prefix, settings in _iter_chart_settings(document):
            for name, message in _iter_unsafe_chart_fields(settings, file, top):
                yield UnsafeField(file, prefix + name, message)


def _explain_unsafe_reference(reference: str) -> str:
    """Return why a reference to a base is unsafe, or "" if it is safe.

    Bases in repositories of other machines are safe. Options of git and repositories of this machine are not.
    """
    query = parse_qs(reference.partition("?")[2])
    for value in (*query.get("ref", ()), *query.get("version", ())):
        if value.startswith("-"):
            return f'"{value}" would be an option of git'
    if reference.startswith("-"):
        return f'"{reference}" would be an option of git'
    if reference.lower().removeprefix("git::").startswith("file:"):
        return f'"{reference}" is a repository of this machine'
    return ""


def _iter_bases(document: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the field and the path or URL of each base and plugin of a kustomization. Inline plugins are skipped."""
    fields = _lower_keys(document)
    for key in _BASE_FIELDS:
        for number, entry in enumerate(_as_list(fields.get(key))):
            if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                yield f"{key}[{number}]", entry


def _iter_chart_settings(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the prefix of field names in messages, and the settings, for each mapping with Helm settings.

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
    for key in _PLUGIN_FIELDS:
        for index, entry in enumerate(_as_list(fields.get(key))):
            if isinstance(entry, str) and "\n" in entry:  # an inline document, not a path
                for inner_document in _parse_mappings(Content(key, entry, is_json=False)):
                    for prefix, settings in _iter_chart_settings(inner_document):
                        yield f"{key}[{index}].{prefix}", settings


def _iter_unsafe_chart_fields(settings: JsonObject, file: str, top: str) -> Iterator[tuple[str, str]]:
    """Yield the name and a message for each unsafe field in the settings of a chart or of Helm."""
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
    """Return why a chart field's value is unsafe, or "" if it is safe. ``key`` is the field's name in lower case."""
    if not text:
        return ""
    if key == "charthome":
        return explain_unsafe_value("--untardir", os.path.join(os.path.dirname(file), text), top)
    if key in _PATH_FIELDS and (".." in text.split("/") or text.startswith("/")):
        return f'"{text}" points outside the folder'
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
