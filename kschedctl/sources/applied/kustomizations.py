"""Kustomizations, read only as far as they determine the objects of a file without a build."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import Content, load_content, load_documents, parse_documents
from kschedctl.sources.documents.files import STDIN

FILE_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_FILE_ENTRY_FIELDS = ("patches", "patchesJson6902", "replacements")
_FILE_FIELDS = ("patchesStrategicMerge", "transformers", "generators", "configurations", "crds")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_KINDS_WITH_SELECTOR = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
"""Kinds for which the API requires a selector."""
_SPREADING_FIELDS = ("affinity", "topologySpreadConstraints")
_BASE_FIELDS = ("resources", "bases", "components")

_PATCH_NAME = re.compile(r"(^|[-_.])patch(es)?[-_.]")
"""The usual names of patch files, whichever program applies them."""


class Kustomizations:
    """The kustomizations in the folders of files."""

    def __init__(self, files: Iterable[str]) -> None:
        self._other_files: set[str] = set()
        self._documents: dict[str, list[JsonObject]] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._overrides: dict[str, dict[tuple[str, str], dict[str, Json]]] = {}
        for folder in list_folders(files):
            if find_kustomization(folder):
                self._documents[folder] = documents = read_kustomization(folder)
                self._folders[folder] = tuple(_iter_bases(folder, documents))
                self._other_files |= {
                    os.path.abspath(os.path.join(folder, file)) for file in _iter_other_files(documents)
                }
        self._used = {path for paths in self._folders.values() for path in paths}
        for folder, documents in self._documents.items():
            labels = _get_selector_labels(documents)
            given = dict(_iter_overrides(folder, documents))
            for path in self._find_changed_paths(folder) if labels or given else ():
                self._labels[path] = labels | self._labels.get(path, {})
                self._overrides[path] = given | self._overrides.get(path, {})

    def contains(self, folder: str) -> bool:
        """Return whether the folder has a kustomization."""
        return folder in self._folders

    def iter_roots(self, extra_roots: Collection[str] = ()) -> Iterator[tuple[str, set[str]]]:
        """Yield each root folder with the files and folders of all its bases.

        Roots are the kustomizations that are no base of another one, except components, and those in ``extra_roots``.
        """
        for folder in self._folders:
            if folder in extra_roots or (folder not in self._used and not _is_component(self._documents[folder])):
                yield folder, self._find_bases(folder)

    def is_patch(self, file: str, document: JsonObject) -> bool:
        """Return whether an object of a file is a patch for another object."""
        path = os.path.abspath(file)
        if path in self._other_files or _PATCH_NAME.search(os.path.basename(path)):
            return True
        spec = document.get("spec")
        if document.get("kind") not in _KINDS_WITH_SELECTOR or not isinstance(spec, dict) or "selector" in spec:
            return _has_directive(document)
        containers = _get_containers(spec)
        if not all(isinstance(c, dict) and "image" in c for c in containers):
            return True
        if not containers:
            return bool(self._folders)
        may_be_patch = bool(self._folders) and path not in self._used
        return may_be_patch and not _get_field(spec, "template", "metadata", "labels")

    def complete_object(self, file: str, document: JsonObject) -> JsonObject:
        """Return the object with the replicas, spreading, selector and labels that kustomizations give it."""
        path = os.path.abspath(file)
        kind = str(document.get("kind"))
        name = str(_as_mapping(document.get("metadata")).get("name"))
        overrides_by_object = self._overrides.get(path, {})
        for overrides in (overrides_by_object.get((kind, name)), overrides_by_object.get(("", name))):
            document = _apply_overrides(document, overrides) if overrides and kind in _KINDS_WITH_SELECTOR else document
        return self._add_labels(path, document)

    def _add_labels(self, path: str, document: JsonObject) -> JsonObject:
        """Return the object with the labels that kustomizations add to selectors and pods."""
        labels = self._labels.get(path)
        spec = document.get("spec")
        if (
            not labels
            or document.get("kind") not in _KINDS_WITH_SELECTOR
            or _get_field(spec, "selector", "matchLabels")
        ):
            return document
        template = _as_mapping(_get_field(spec, "template"))
        metadata = _as_mapping(template.get("metadata"))
        template |= {"metadata": metadata | {"labels": _as_mapping(metadata.get("labels")) | labels}}
        selector = _as_mapping(_get_field(spec, "selector")) | {"matchLabels": labels}
        return {**document, "spec": _as_mapping(spec) | {"selector": selector, "template": template}}

    def _find_changed_paths(self, folder: str) -> set[str]:
        """Return the files and folders that a kustomization changes.

        A component changes all bases of its users.
        """
        users = (
            [user for user, used in self._folders.items() if folder in used]
            if _is_component(self._documents[folder])
            else []
        )
        return self._find_bases(folder).union(*map(self._find_bases, users))

    def _find_bases(self, folder: str) -> set[str]:
        """Return the files and folders of all direct and indirect bases."""
        bases: set[str] = set()
        unvisited = list(self._folders[folder])
        while unvisited:
            path = unvisited.pop()
            if path not in bases:
                bases.add(path)
                unvisited += self._folders.get(path, ())
        return bases


def list_folders(files: Iterable[str]) -> list[str]:
    """Return the absolute paths of the folders that contain the files."""
    return sorted({os.path.dirname(os.path.abspath(file)) for file in files if file != STDIN})


def find_kustomization(folder: str) -> str:
    """Return the path of a folder's kustomization, or ""."""
    paths = (os.path.join(folder, name) for name in FILE_NAMES)
    return next(filter(os.path.isfile, paths), "")


def read_kustomization(folder: str) -> list[JsonObject]:
    """Return the documents of a folder's kustomization, or [] if it cannot be read."""
    if not (file := find_kustomization(folder)):
        return []
    try:
        documents: list[object] = [document.value for document in load_documents(file)]
    except InputError:
        return []
    return [value for value in documents if isinstance(value, Mapping)]


def iter_bases(folder: str) -> Iterator[str]:
    """Yield the absolute paths of the local bases of a folder's kustomization."""
    yield from _iter_bases(folder, read_kustomization(folder))


def is_component(folder: str) -> bool:
    """Return whether the folder is a Kustomize component."""
    return _is_component(read_kustomization(folder))


def _iter_bases(folder: str, documents: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the existing bases that the documents of a kustomization name."""
    for document in documents:
        for key in _BASE_FIELDS:
            for entry in get_list(document, key):
                if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                    path = os.path.abspath(os.path.join(folder, entry))
                    if os.path.exists(path):
                        yield path


def _get_selector_labels(documents: Iterable[JsonObject]) -> dict[str, str]:
    """Return the labels that a kustomization adds to selectors and to the selected pods."""
    labels: dict[str, str] = {}
    for document in documents:
        pairs = [document.get("commonLabels")]
        pairs += [
            entry.get("pairs")
            for entry in get_list(document, "labels")
            if isinstance(entry, dict) and entry.get("includeSelectors") is True
        ]
        for pair in pairs:
            labels |= {key: str(value) for key, value in pair.items()} if isinstance(pair, dict) else {}
    return labels


def _is_component(documents: Iterable[JsonObject]) -> bool:
    """Return whether one of the documents is a Component."""
    return any(document.get("kind") == "Component" for document in documents)


def _iter_overrides(
    folder: str, documents: Iterable[JsonObject]
) -> Iterator[tuple[tuple[str, str], dict[str, object]]]:
    """Yield kind and name of objects with the replicas and spreading that a kustomization sets.

    The kind is "" if the setting is for objects of any kind with that name.
    """
    for document in documents:
        for entry in get_list(document, "replicas"):
            if isinstance(entry, dict) and type(entry.get("count")) is int:
                yield ("", str(entry.get("name"))), {"replicas": entry["count"]}
        for patch in _iter_patches(folder, document):
            pod_spec = _as_mapping(_get_field(patch, "spec", "template", "spec"))
            overrides = {key: pod_spec[key] for key in _SPREADING_FIELDS if key in pod_spec}
            if type(replicas := _get_field(patch, "spec", "replicas")) is int:
                overrides["replicas"] = replicas
            if overrides:
                yield (str(_get_field(patch, "kind")), str(_get_field(patch, "metadata", "name"))), overrides


def _apply_overrides(document: JsonObject, overrides: JsonObject) -> JsonObject:
    """Return the object with other replicas, and with other spreading unless it has its own."""
    spec = _as_mapping(document.get("spec"))
    template = _as_mapping(spec.get("template"))
    template["spec"] = {key: overrides[key] for key in _SPREADING_FIELDS if key in overrides} | _as_mapping(
        template.get("spec")
    )
    replicas = {"replicas": overrides["replicas"]} if "replicas" in overrides else {}
    return {**document, "spec": spec | replicas | {"template": template}}


def list_patch_files(folder: str) -> list[str]:
    """Return the patch files that a folder's kustomization names."""
    return [file for document in read_kustomization(folder) for file in _iter_patch_files(folder, document)]


def _iter_patch_files(folder: str, kustomization: JsonObject) -> Iterator[str]:
    """Yield the existing patch files that a kustomization names."""
    paths = [patch.get("path") if isinstance(patch, dict) else patch for patch in get_list(kustomization, "patches")]
    paths += get_list(kustomization, "patchesStrategicMerge")
    paths += [patch.get("path") for patch in get_list(kustomization, "patchesJson6902") if isinstance(patch, dict)]
    for path in paths:
        if isinstance(path, str):
            file = os.path.join(folder, path.replace("\0", ""))
            if os.path.isfile(file):
                yield file


def _iter_patches(folder: str, kustomization: JsonObject) -> Iterator[object]:
    """Yield the patches of a kustomization that can be parsed."""
    inline_patches = [patch for patch in get_list(kustomization, "patches") if isinstance(patch, dict)]
    texts = [text for patch in inline_patches if isinstance(text := patch.get("patch"), str)]
    for file in _iter_patch_files(folder, kustomization):
        with suppress(InputError):
            texts.append(load_content(file).text)
    for text in texts:
        with suppress(InputError):
            yield from [document.value for document in parse_documents(Content(folder, text, is_json=False))]


def _iter_other_files(documents: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the files, relative to the folder, that a kustomization names for other purposes than resources."""
    for value in documents:
        yield from (
            path
            for path in _iter_other_entries(value)
            if isinstance(path, str) and "\n" not in path and "\0" not in path
        )


def _iter_other_entries(kustomization: JsonObject) -> Iterator[object]:
    """Yield the entries of the fields with files that are not resources."""
    for key in _FILE_ENTRY_FIELDS:
        yield from (entry.get("path") if isinstance(entry, dict) else entry for entry in get_list(kustomization, key))
    for key in _FILE_FIELDS:
        yield from get_list(kustomization, key)
    for key in _GENERATORS:
        for entry in get_list(kustomization, key):
            files = get_list(entry, "files") if isinstance(entry, dict) else []
            yield from (str(file).rpartition("=")[2] for file in files)
    for chart in get_list(kustomization, "helmCharts"):
        if isinstance(chart, dict):
            yield from (chart.get("valuesFile"), *get_list(chart, "additionalValuesFiles"))


def get_list(value: JsonObject, key: str) -> list[object]:
    """Return the items of a field, or [] if the field is not a list."""
    elements = value.get(key)
    return elements if isinstance(elements, list) else []


def _get_containers(spec: JsonObject) -> list[object]:
    """Return the containers in the pod template of a workload."""
    containers = _get_field(spec, "template", "spec", "containers")
    return containers if isinstance(containers, list) else []


def _as_mapping(value: object) -> dict[str, object]:
    """Return a copy of the value if it is a mapping, or an empty mapping."""
    return dict(value) if isinstance(value, dict) else {}


def _get_field(value: object, *path: str) -> object:
    """Return the value at the path in nested mappings, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _has_directive(value: object) -> bool:
    """Return whether the value contains ``$patch`` anywhere."""
    unvisited = [value]
    while unvisited:
        inner_value = unvisited.pop()
        if isinstance(inner_value, dict):
            if "$patch" in inner_value:
                return True
            unvisited += inner_value.values()
        elif isinstance(inner_value, list):
            unvisited += inner_value
    return False
