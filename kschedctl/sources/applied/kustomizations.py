"""Kustomize's folders, as far as they say what the objects of a file are without building them.

Patches, and what generators and charts take, are no objects; to others a selector, labels and replicas are given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import Content, load_content, load_documents, parse_documents
from kschedctl.sources.documents.files import STDIN

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_LISTS = ("patches", "patchesJson6902", "replacements")
_FILES = ("patchesStrategicMerge", "transformers", "generators", "configurations", "crds")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_SELECTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
"""Kinds that the API takes only with a selector."""
_APART = ("affinity", "topologySpreadConstraints")
_BUILT_UPON = ("resources", "bases", "components")

_PATCH = re.compile(r"(^|[-_.])patch(es)?[-_.]")
"""What people call files of patches, whoever applies them."""


class Kustomizations:
    """The kustomizations in the folders of these files."""

    def __init__(self, files: Iterable[str]) -> None:
        self._aside: set[str] = set()
        self._read: dict[str, list[JsonObject]] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._given: dict[str, dict[tuple[str, str], dict[str, Json]]] = {}
        for folder in folders_of(files):
            if kustomization_file(folder):
                self._read[folder] = documents = read_kustomization(folder)
                self._folders[folder] = tuple(_referenced(folder, documents))
                self._aside |= {os.path.abspath(os.path.join(folder, file)) for file in _aside(documents)}
        self._used = {path for paths in self._folders.values() for path in paths}
        for folder, documents in self._read.items():
            labels, given = _labels_for_selectors(documents), dict(_given(folder, documents))
            for path in self._changed_by(folder) if labels or given else ():
                self._labels[path] = labels | self._labels.get(path, {})
                self._given[path] = given | self._given.get(path, {})

    def has(self, folder: str) -> bool:
        """Whether a folder is one of them."""
        return folder in self._folders

    def builds(self, wanted: Collection[str] = ()) -> Iterator[tuple[str, set[str]]]:
        """The folders that no other one builds upon, or that are wanted; with the files and folders of each build."""
        for folder in self._folders:
            if folder in wanted or (folder not in self._used and not _is_component(self._read[folder])):
                yield folder, self._built_upon(folder)

    def is_patch(self, file: str, document: JsonObject) -> bool:
        """Whether an object of a file changes another one, rather than being one."""
        path = os.path.abspath(file)
        if path in self._aside or _PATCH.search(os.path.basename(path)):
            return True
        spec = document.get("spec")
        if document.get("kind") not in _SELECTING or not isinstance(spec, dict) or "selector" in spec:
            return _has_directive(document)
        containers = _containers(spec)
        if not all(isinstance(c, dict) and "image" in c for c in containers):
            return True
        if not containers:
            return bool(self._folders)
        unnamed = bool(self._folders) and path not in self._used
        return unnamed and not _field(spec, "template", "metadata", "labels")

    def completed(self, file: str, document: JsonObject) -> JsonObject:
        """The object of a file, with what some kustomization gives it.

        Replicas and what holds them apart, a selector, labels of its pods.
        """
        path, kind = os.path.abspath(file), str(document.get("kind"))
        name = str(_mapping(document.get("metadata")).get("name"))
        known = self._given.get(path, {})
        for given in (known.get((kind, name)), known.get(("", name))):
            document = _with(document, given) if given and kind in _SELECTING else document
        return self._labelled(path, document)

    def _labelled(self, path: str, document: JsonObject) -> JsonObject:
        labels, spec = self._labels.get(path), document.get("spec")
        if not labels or document.get("kind") not in _SELECTING or _field(spec, "selector", "matchLabels"):
            return document
        template = _mapping(_field(spec, "template"))
        metadata = _mapping(template.get("metadata"))
        template |= {"metadata": metadata | {"labels": _mapping(metadata.get("labels")) | labels}}
        selector = _mapping(_field(spec, "selector")) | {"matchLabels": labels}
        return {**document, "spec": _mapping(spec) | {"selector": selector, "template": template}}

    def _changed_by(self, folder: str) -> set[str]:
        """The files and folders that a kustomization changes: a component changes what else its users build upon."""
        users = (
            [user for user, used in self._folders.items() if folder in used]
            if _is_component(self._read[folder])
            else []
        )
        return self._built_upon(folder).union(*map(self._built_upon, users))

    def _built_upon(self, folder: str) -> set[str]:
        """The files and folders that go into a folder."""
        upon: set[str] = set()
        open_ = list(self._folders[folder])
        while open_:
            path = open_.pop()
            if path not in upon:
                upon.add(path)
                open_ += self._folders.get(path, ())
        return upon


def folders_of(files: Iterable[str]) -> list[str]:
    """The absolute paths of the folders in which these files are."""
    return sorted({os.path.dirname(os.path.abspath(file)) for file in files if file != STDIN})


def kustomization_file(folder: str) -> str:
    """The path of the kustomization of a folder; empty where it has none."""
    paths = (os.path.join(folder, name) for name in NAMES)
    return next(filter(os.path.isfile, paths), "")


def read_kustomization(folder: str) -> list[JsonObject]:
    """The documents of the kustomization of a folder; none where it cannot be read."""
    if not (file := kustomization_file(folder)):
        return []
    try:
        documents: list[object] = [document.value for document in load_documents(file)]
    except InputError:
        return []
    return [value for value in documents if isinstance(value, Mapping)]


def referenced(folder: str) -> Iterator[str]:
    """The files and folders of this machine upon which the kustomization of a folder builds, as absolute paths."""
    yield from _referenced(folder, read_kustomization(folder))


def is_component(folder: str) -> bool:
    return _is_component(read_kustomization(folder))


def _referenced(folder: str, documents: Iterable[JsonObject]) -> Iterator[str]:
    for document in documents:
        for key in _BUILT_UPON:
            for entry in listed(document, key):
                if isinstance(entry, str) and "\n" not in entry and "\0" not in entry:
                    path = os.path.abspath(os.path.join(folder, entry))
                    if os.path.exists(path):
                        yield path


def _labels_for_selectors(documents: Iterable[JsonObject]) -> dict[str, str]:
    """The labels that a kustomization adds to selectors, and to the pods that these select."""
    labels: dict[str, str] = {}
    for document in documents:
        pairs = [document.get("commonLabels")]
        pairs += [
            entry.get("pairs")
            for entry in listed(document, "labels")
            if isinstance(entry, dict) and entry.get("includeSelectors") is True
        ]
        for pair in pairs:
            labels |= {key: str(value) for key, value in pair.items()} if isinstance(pair, dict) else {}
    return labels


def _is_component(documents: Iterable[JsonObject]) -> bool:
    return any(document.get("kind") == "Component" for document in documents)


def _given(folder: str, documents: Iterable[JsonObject]) -> Iterator[tuple[tuple[str, str], dict[str, object]]]:
    """((kind, name), what the kustomization of a folder gives); without a kind to whatever has the name."""
    for document in documents:
        for entry in listed(document, "replicas"):
            if isinstance(entry, dict) and type(entry.get("count")) is int:
                yield ("", str(entry.get("name"))), {"replicas": entry["count"]}
        for patch in _patches(folder, document):
            pods = _mapping(_field(patch, "spec", "template", "spec"))
            given = {key: pods[key] for key in _APART if key in pods}
            if type(replicas := _field(patch, "spec", "replicas")) is int:
                given["replicas"] = replicas
            if given:
                yield (str(_field(patch, "kind")), str(_field(patch, "metadata", "name"))), given


def _with(document: JsonObject, given: JsonObject) -> JsonObject:
    """The object with these replicas, and with what holds them apart where it has nothing of the kind."""
    spec = _mapping(document.get("spec"))
    template = _mapping(spec.get("template"))
    template["spec"] = {key: given[key] for key in _APART if key in given} | _mapping(template.get("spec"))
    replicas = {"replicas": given["replicas"]} if "replicas" in given else {}
    return {**document, "spec": spec | replicas | {"template": template}}


def patch_files(folder: str) -> list[str]:
    """The files with patches that the kustomization of a folder names."""
    return [file for document in read_kustomization(folder) for file in _patch_files(folder, document)]


def _patch_files(folder: str, kustomization: JsonObject) -> Iterator[str]:
    paths = [patch.get("path") if isinstance(patch, dict) else patch for patch in listed(kustomization, "patches")]
    paths += listed(kustomization, "patchesStrategicMerge")
    paths += [patch.get("path") for patch in listed(kustomization, "patchesJson6902") if isinstance(patch, dict)]
    for path in paths:
        if isinstance(path, str) and os.path.isfile(file := os.path.join(folder, path.replace("\0", ""))):
            yield file


def _patches(folder: str, kustomization: JsonObject) -> Iterator[object]:
    """The patches that are objects themselves; what is broken is left out."""
    written = [patch for patch in listed(kustomization, "patches") if isinstance(patch, dict)]
    texts = [text for patch in written if isinstance(text := patch.get("patch"), str)]
    for file in _patch_files(folder, kustomization):
        with suppress(InputError):
            texts.append(load_content(file).text)
    for text in texts:
        with suppress(InputError):
            yield from [document.value for document in parse_documents(Content(folder, text, is_json=False))]


def _aside(documents: Iterable[JsonObject]) -> Iterator[str]:
    """The files that a kustomization names and that are no resources, from its folder."""
    for value in documents:
        yield from (path for path in _named(value) if isinstance(path, str) and "\n" not in path and "\0" not in path)


def _named(kustomization: JsonObject) -> Iterator[object]:
    for key in _LISTS:
        yield from (entry.get("path") if isinstance(entry, dict) else entry for entry in listed(kustomization, key))
    for key in _FILES:
        yield from listed(kustomization, key)
    for key in _GENERATORS:
        for entry in listed(kustomization, key):
            files = listed(entry, "files") if isinstance(entry, dict) else []
            yield from (str(file).rpartition("=")[2] for file in files)
    for chart in listed(kustomization, "helmCharts"):
        if isinstance(chart, dict):
            yield from (chart.get("valuesFile"), *listed(chart, "additionalValuesFiles"))


def listed(value: JsonObject, key: str) -> list[object]:
    """The items of a field that should be a list; none where it is something else."""
    elements = value.get(key)
    return elements if isinstance(elements, list) else []


def _containers(spec: JsonObject) -> list[object]:
    """The containers in the pod template of a workload."""
    containers = _field(spec, "template", "spec", "containers")
    return containers if isinstance(containers, list) else []


def _mapping(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _field(value: object, *path: str) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _has_directive(value: object) -> bool:
    """Whether ``$patch`` stands in it somewhere."""
    open_ = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, dict):
            if "$patch" in one:
                return True
            open_ += one.values()
        elif isinstance(one, list):
            open_ += one
    return False
