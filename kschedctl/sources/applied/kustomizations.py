"""Kustomizations, read only to determine the objects in files without running a build."""

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
_ANY_KIND = ""
"""Takes the place of the kind of an object if fields are set for all objects of a name."""
_SPREADING_FIELDS = ("affinity", "topologySpreadConstraints")
"""The fields of a pod spec that spread pods over nodes."""
_BASE_FIELDS = ("resources", "bases", "components")

_PATCH_NAME = re.compile(r"(^|[-_.])patch(es)?[-_.]")
"""The usual names of patch files, whichever program applies them."""


class Kustomizations:
    """The kustomizations in the folders of files."""

    def __init__(self, files: Iterable[str]) -> None:
        self._documents: dict[str, list[JsonObject]] = {}
        """The documents of each folder's kustomization."""
        self._bases: dict[str, tuple[str, ...]] = {}
        """The files and folders that each folder's kustomization uses directly."""
        self._non_resource_files: set[str] = set()
        """The files that kustomizations use for other purposes than resources, such as patches and chart values."""
        self._labels: dict[str, dict[str, str]] = {}
        """The labels that kustomizations add to the selectors and pods of a file or folder."""
        self._overrides: dict[str, dict[tuple[str, str], dict[str, Json]]] = {}
        """The fields that kustomizations set in a file or folder, by kind and name of the object."""
        for folder in list_folders(files):
            if find_kustomization(folder):
                self._read_kustomization_folder(folder)
        self._used = {path for paths in self._bases.values() for path in paths}
        for folder in self._documents:
            self._record_changes_to_bases(folder)

    def _read_kustomization_folder(self, folder: str) -> None:
        """Store the documents and bases of a folder's kustomization, and its other files, such as patches."""
        documents = read_kustomization(folder)
        self._documents[folder] = documents
        self._bases[folder] = tuple(_iter_bases(folder, documents))
        self._non_resource_files |= {
            os.path.abspath(os.path.join(folder, file)) for file in _iter_non_resource_files(documents)
        }

    def _record_changes_to_bases(self, folder: str) -> None:
        """Record the labels and fields that a folder's kustomization sets in its bases.

        If a label or field was recorded before, the earlier record is kept.
        """
        documents = self._documents[folder]
        labels = _get_selector_labels(documents)
        overrides = _collect_overrides(folder, documents)
        if not labels and not overrides:
            return
        for path in self._find_changed_paths(folder):
            self._labels[path] = labels | self._labels.get(path, {})
            recorded = self._overrides.setdefault(path, {})
            for key, fields in overrides.items():
                recorded[key] = fields | recorded.get(key, {})

    def has_kustomization(self, folder: str) -> bool:
        """Return whether the folder has a kustomization."""
        return folder in self._bases

    def iter_roots(self, extra_roots: Collection[str] = ()) -> Iterator[tuple[str, set[str]]]:
        """Yield each root folder with the files and folders of all its bases.

        Roots are the folders in ``extra_roots``, and all folders that are neither components nor bases of others.
        """
        for folder in self._bases:
            if folder in extra_roots or (folder not in self._used and not _is_component(self._documents[folder])):
                yield folder, self._find_all_bases(folder)

    def is_patch_object(self, file: str, document: JsonObject) -> bool:
        """Return whether an object in a file is only a patch. Patches are not applied as objects.

        An object is a patch if a kustomization uses its file as a patch, or if its file is named like one. Otherwise, a
        workload without the selector that its kind requires is a patch if it lacks other required fields as well. Any
        other object is a patch if it contains ``$patch``.
        """
        path = os.path.abspath(file)
        if path in self._non_resource_files or _PATCH_NAME.search(os.path.basename(path)):
            return True
        spec = document.get("spec")
        if document.get("kind") in _KINDS_WITH_SELECTOR and isinstance(spec, dict) and "selector" not in spec:
            return self._is_partial_workload(path, spec)
        return _has_patch_directive(document)

    def _is_partial_workload(self, path: str, spec: JsonObject) -> bool:
        """Return whether a workload spec without selector also lacks images, containers or labels.

        Missing containers count only if there are kustomizations, which might add them. Missing labels count only if,
        in addition, no kustomization uses the file as a resource.
        """
        containers = _get_containers(spec)
        if not all(isinstance(container, dict) and "image" in container for container in containers):
            return True
        if not containers:
            return bool(self._bases)
        may_be_patch = bool(self._bases) and path not in self._used
        return may_be_patch and not _get_field(spec, "template", "metadata", "labels")

    def apply_to_object(self, file: str, document: JsonObject) -> JsonObject:
        """Return the object with the replicas, spreading, selector and labels that kustomizations set.

        Only workloads that require a selector are changed. Spreading that is set for the object's kind takes precedence
        over spreading for any kind. Replicas for any kind take precedence, because Kustomize sets them after the
        patches.
        """
        path = os.path.abspath(file)
        kind = str(document.get("kind"))
        name = str(_as_mapping(document.get("metadata")).get("name"))
        overrides_by_object = self._overrides.get(path, {})
        if kind in _KINDS_WITH_SELECTOR:
            for key in ((kind, name), (_ANY_KIND, name)):
                if overrides := overrides_by_object.get(key):
                    document = _apply_overrides(document, overrides)
        return self._add_selector_labels(path, document)

    def _add_selector_labels(self, path: str, document: JsonObject) -> JsonObject:
        """Return the object with the labels that kustomizations add to its selector and pods.

        The object is returned unchanged if its selector already has labels, or if its kind has no selector.
        """
        labels = self._labels.get(path)
        spec = _as_mapping(document.get("spec"))
        selector = _as_mapping(spec.get("selector"))
        if not labels or document.get("kind") not in _KINDS_WITH_SELECTOR or selector.get("matchLabels"):
            return document
        template = _as_mapping(spec.get("template"))
        metadata = _as_mapping(template.get("metadata"))
        metadata["labels"] = _as_mapping(metadata.get("labels")) | labels
        template["metadata"] = metadata
        selector["matchLabels"] = labels
        return {**document, "spec": spec | {"selector": selector, "template": template}}

    def _find_changed_paths(self, folder: str) -> set[str]:
        """Return the files and folders that a kustomization changes: all its bases.

        A component also changes all bases of the kustomizations that use it.
        """
        changed_paths = self._find_all_bases(folder)
        if _is_component(self._documents[folder]):
            for user, bases in self._bases.items():
                if folder in bases:
                    changed_paths |= self._find_all_bases(user)
        return changed_paths

    def _find_all_bases(self, folder: str) -> set[str]:
        """Return a new set of the files and folders that are direct or indirect bases of a folder."""
        bases: set[str] = set()
        unvisited = list(self._bases[folder])
        while unvisited:
            path = unvisited.pop()
            if path not in bases:
                bases.add(path)
                unvisited += self._bases.get(path, ())
        return bases


def list_folders(files: Iterable[str]) -> list[str]:
    """Return the absolute paths of the folders that contain the files, sorted and without standard input."""
    return sorted({os.path.dirname(os.path.abspath(file)) for file in files if file != STDIN})


def find_kustomization(folder: str) -> str:
    """Return the path of a folder's kustomization file, or "" if it has none."""
    paths = (os.path.join(folder, name) for name in FILE_NAMES)
    return next(filter(os.path.isfile, paths), "")


def read_kustomization(folder: str) -> list[JsonObject]:
    """Return the mappings among the documents of a folder's kustomization.

    Return [] if the folder has no kustomization, or if the kustomization cannot be read.
    """
    file = find_kustomization(folder)
    if not file:
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
    """Yield the absolute path of each existing base that the documents of a kustomization name."""
    for document in documents:
        for key in _BASE_FIELDS:
            for entry in get_list(document, key):
                if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                    path = os.path.abspath(os.path.join(folder, entry))
                    if os.path.exists(path):
                        yield path


def _get_selector_labels(documents: Iterable[JsonObject]) -> dict[str, str]:
    """Return the labels that kustomization documents add to selectors and to the selected pods.

    If two documents set the same label, the later one wins.
    """
    labels: dict[str, str] = {}
    for document in documents:
        label_sets = [document.get("commonLabels")]
        label_sets += [
            entry.get("pairs")
            for entry in get_list(document, "labels")
            if isinstance(entry, dict) and entry.get("includeSelectors") is True
        ]
        for label_set in label_sets:
            if isinstance(label_set, dict):
                labels |= {key: str(value) for key, value in label_set.items()}
    return labels


def _is_component(documents: Iterable[JsonObject]) -> bool:
    """Return whether one of the documents is a Component."""
    return any(document.get("kind") == "Component" for document in documents)


def _collect_overrides(folder: str, documents: Iterable[JsonObject]) -> dict[tuple[str, str], dict[str, object]]:
    """Return the fields that a kustomization sets, by kind and name of the object. Later patches take precedence."""
    overrides: dict[tuple[str, str], dict[str, object]] = {}
    for key, fields in _iter_overrides(folder, documents):
        overrides[key] = overrides.get(key, {}) | fields
    return overrides


def _iter_overrides(
    folder: str, documents: Iterable[JsonObject]
) -> Iterator[tuple[tuple[str, str], dict[str, object]]]:
    """Yield the kind and name of each object whose replicas or spreading a kustomization sets, with the new fields.

    The kind is _ANY_KIND if the fields apply to objects of any kind with this name.
    """
    for document in documents:
        for entry in get_list(document, "replicas"):
            if isinstance(entry, dict) and type(entry.get("count")) is int:  # not a bool
                yield (_ANY_KIND, str(entry.get("name"))), {"replicas": entry["count"]}
        for patch in _iter_patches(folder, document):
            pod_spec = _as_mapping(_get_field(patch, "spec", "template", "spec"))
            overrides = {key: pod_spec[key] for key in _SPREADING_FIELDS if key in pod_spec}
            replicas = _get_field(patch, "spec", "replicas")
            if type(replicas) is int:  # not a bool
                overrides["replicas"] = replicas
            if overrides:
                kind = str(_get_field(patch, "kind"))
                name = str(_get_field(patch, "metadata", "name"))
                yield (kind, name), overrides


def _apply_overrides(document: JsonObject, overrides: JsonObject) -> JsonObject:
    """Return the object with the overrides applied. Replicas are replaced, and missing spreading fields are added."""
    spec = _as_mapping(document.get("spec"))
    template = _as_mapping(spec.get("template"))
    spreading = {key: overrides[key] for key in _SPREADING_FIELDS if key in overrides}
    template["spec"] = spreading | _as_mapping(template.get("spec"))
    spec["template"] = template
    if "replicas" in overrides:
        spec["replicas"] = overrides["replicas"]
    return {**document, "spec": spec}


def list_patch_files(folder: str) -> list[str]:
    """Return the existing patch files that a folder's kustomization names."""
    return [file for document in read_kustomization(folder) for file in _iter_patch_files(folder, document)]


def _iter_patch_files(folder: str, kustomization: JsonObject) -> Iterator[str]:
    """Yield the existing patch files that a kustomization names."""
    paths = [_get_entry_path(entry) for entry in get_list(kustomization, "patches")]
    paths += get_list(kustomization, "patchesStrategicMerge")
    paths += [entry.get("path") for entry in get_list(kustomization, "patchesJson6902") if isinstance(entry, dict)]
    for path in paths:
        if isinstance(path, str):
            file = os.path.join(folder, path.replace("\0", ""))
            if os.path.isfile(file):
                yield file


def _iter_patches(folder: str, kustomization: JsonObject) -> Iterator[object]:
    """Yield the patches of a kustomization, inline patches first. Patches that cannot be read or parsed are skipped."""
    inline_patches = [entry.get("patch") for entry in get_list(kustomization, "patches") if isinstance(entry, dict)]
    texts = [patch for patch in inline_patches if isinstance(patch, str)]
    for file in _iter_patch_files(folder, kustomization):
        with suppress(InputError):
            texts.append(load_content(file).text)
    for text in texts:
        with suppress(InputError):
            yield from [document.value for document in parse_documents(Content(folder, text, is_json=False))]


def _iter_non_resource_files(documents: Iterable[JsonObject]) -> Iterator[str]:
    """Yield the files that a kustomization uses as something other than a resource, relative to its folder."""
    for document in documents:
        for entry in _iter_non_resource_paths(document):
            if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:  # not an inline document
                yield entry


def _iter_non_resource_paths(kustomization: JsonObject) -> Iterator[object]:
    """Yield the paths in all fields that may name files other than resources.

    Malformed values, which are not strings, are yielded as well.
    """
    for key in _FILE_ENTRY_FIELDS:
        yield from map(_get_entry_path, get_list(kustomization, key))
    for key in _FILE_FIELDS:
        yield from get_list(kustomization, key)
    for key in _GENERATORS:
        for entry in get_list(kustomization, key):
            files = get_list(entry, "files") if isinstance(entry, dict) else []
            yield from (str(file).rpartition("=")[2] for file in files)  # "file" or "key=file"
    for chart in get_list(kustomization, "helmCharts"):
        if isinstance(chart, dict):
            yield from (chart.get("valuesFile"), *get_list(chart, "additionalValuesFiles"))


def _get_entry_path(entry: object) -> object:
    """Return the field ``path`` of an entry if it is a mapping, or else the entry itself."""
    return entry.get("path") if isinstance(entry, dict) else entry


def get_list(value: JsonObject, key: str) -> list[object]:
    """Return the items of a field, or [] if the field is not a list."""
    elements = value.get(key)
    return elements if isinstance(elements, list) else []


def _get_containers(spec: JsonObject) -> list[object]:
    """Return the containers in the pod template of a workload's spec, or [] if it has none."""
    containers = _get_field(spec, "template", "spec", "containers")
    return containers if isinstance(containers, list) else []


def _as_mapping(value: object) -> dict[str, object]:
    """Return a copy of the value if it is a mapping, or an empty mapping."""
    return dict(value) if isinstance(value, dict) else {}


def _get_field(value: object, *path: str) -> object:
    """Return the value at the path in nested mappings, or None if there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _has_patch_directive(value: object) -> bool:
    """Return whether the value contains, at any depth, a mapping with the key ``$patch``."""
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
