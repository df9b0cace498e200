"""What a kustomization would give to helm or git as an option: refused before anything is built.

Keys are compared as Go's JSON does, in any case. What a remote base holds cannot be looked at here: there
``helm_guard`` stands before helm, and git may use no other protocols than HTTP and SSH.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import NAMES, kustomization_file
from kschedctl.sources.builds.helm_guard import CONFIGURED, refused_value
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.files import relative_path

_BUILT_UPON = ("resources", "bases", "components", "generators", "transformers", "validators")
_PLUGINS = ("generators", "transformers", "validators")
_CHARTS = ("helmcharts", "helmchartinflationgenerator")
_GENERATOR = "HelmChartInflationGenerator"
_CONFIGURING = frozenset({"confighome", "helmhome", "helmbin", "extraargs"})
_OPTIONS = {"repo": "--repo", "chartrepourl": "--repo", "nametemplate": "--name-template"}
_PATHS = frozenset({"name", "chartname", "version", "chartversion"})
"""Fields of which kustomize makes names of files."""
_FREE = frozenset({"valuesinline", "valueslocal"})


class UnsafeField(NamedTuple):
    """A field of a file, and what is wrong with it."""

    file: str
    field: str
    what: str

    @property
    def error(self) -> InputError:
        return InputError(f"{self.field}: {self.what}; it is not built", where=relative_path(self.file))


def unsafe_fields(folder: str, top: str, *, with_helm: bool) -> Iterator[UnsafeField]:
    """What is wrong in the kustomization of a folder of the repository ``top``, and in all that it builds upon here."""
    seen: set[str] = set()
    open_ = [os.path.abspath(folder)]
    while open_:
        path = open_.pop()
        file = kustomization_file(path) if os.path.isdir(path) else path
        if not file or file in seen:
            continue
        seen.add(file)
        for document in _documents(file):
            yield from _of_document(file, document, top if with_helm else "")
            for _, entry in _entries(document):
                inner = os.path.abspath(os.path.join(os.path.dirname(file), entry))
                open_ += [inner] * os.path.exists(inner)


def _of_document(file: str, document: JsonObject, top: str) -> Iterator[UnsafeField]:
    yield from (UnsafeField(file, field, what) for field, entry in _entries(document) if (what := _remote(entry)))
    if top:
        for field, chart in _charts(document):
            yield from (UnsafeField(file, field + name, what) for name, what in _of_chart(chart, file, top))


def _remote(reference: str) -> str:
    """What is wrong with a reference to another repository, empty for others."""
    query = parse_qs(reference.partition("?")[2])
    for value in (*query.get("ref", ()), *query.get("version", ())):
        if value.startswith("-"):
            return f'"{value}" would be an option of git'
    if reference.startswith("-"):
        return f'"{reference}" would be an option of git'
    if reference.lower().removeprefix("git::").startswith("file:"):
        return f'"{reference}" is a repository of this machine'
    return ""


def _entries(document: JsonObject) -> Iterator[tuple[str, str]]:
    """(field, path or URL) of what a kustomization builds upon."""
    folded = _folded(document)
    for key in _BUILT_UPON:
        for number, entry in enumerate(_list(folded.get(key))):
            if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                yield f"{key}[{number}]", entry


def _charts(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """(field, chart or settings for all): of a kustomization, and of generators, also such as stand within one."""
    folded = _folded(document)
    if document.get("kind") == _GENERATOR:
        yield "", document
    yield "helmGlobals.", _mapping(folded.get("helmglobals"))
    for key, name in zip(_CHARTS, ("helmCharts", "helmChartInflationGenerator"), strict=True):
        yield from ((f"{name}[{i}].", _mapping(chart)) for i, chart in enumerate(_list(folded.get(key))))
    for key in _PLUGINS:
        for number, entry in enumerate(_list(folded.get(key))):
            if isinstance(entry, str) and "\n" in entry:
                for inner in _parsed(Content(key, entry, is_json=False)):
                    yield from ((f"{key}[{number}].{field}", chart) for field, chart in _charts(inner))


def _of_chart(chart: JsonObject, file: str, top: str) -> Iterator[tuple[str, str]]:
    """(field, what is wrong with it)."""
    for name, value in chart.items():
        key = name.casefold()
        if key in _CONFIGURING and value:
            yield name, f'"{value}": {CONFIGURED}'
        for text in map(str, value if isinstance(value, list) else [value] if key not in _FREE else []):
            if said := _of_field(key, text, file, top):
                yield name, said


def _of_field(key: str, text: str, file: str, top: str) -> str:
    if not text:
        return ""
    if key == "charthome":
        return refused_value("--untardir", os.path.join(os.path.dirname(file), text), top)
    if key in _PATHS and (".." in text.split("/") or text.startswith("/")):
        return f'"{text}" leads to another folder'
    return refused_value(_OPTIONS.get(key, ""), text, top)


def _folded(value: JsonObject) -> dict[str, object]:
    return {key.casefold(): inner for key, inner in value.items()}


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _documents(file: str) -> list[JsonObject]:
    """The documents of a kustomization, or of a file with generators; none where unreadable: kustomize says so."""
    try:
        content = load_content(file)
    except InputError:
        return []
    asked = os.path.basename(file) in NAMES or _GENERATOR in content.text
    return list(_parsed(content)) if asked else []


def _parsed(content: Content) -> Iterator[JsonObject]:
    try:
        documents: list[object] = [document.value for document in parse_documents(content)]
    except InputError:
        return
    yield from (value for value in documents if isinstance(value, Mapping))
