"""Kustomize's folders, as far as they say which files are no objects: patches, and what generators and charts take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import parse, read_content
from kschedctl.sources.files import STDIN, open_file

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_LISTS = ("patches", "patchesJson6902", "replacements")
_FILES = ("patchesStrategicMerge", "transformers", "generators", "configurations", "crds")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_SELECTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
"""Kinds that the API takes only with a selector."""


class Kustomizations:
    """Those of the folders of these files."""

    def __init__(self, files: Iterable[str]) -> None:
        self._aside: set[str] = set()
        self._folders: set[str] = set()
        for folder in folders_of(files):
            if kustomization_file(folder):
                self._folders.add(folder)
                self._aside |= {os.path.abspath(os.path.join(folder, file)) for file in _aside(folder)}

    def is_patch(self, file: str, document: Mapping[str, Any]) -> bool:
        """Whether an object of a file changes another one, rather than being one."""
        path = os.path.abspath(file)
        if path in self._aside:
            return True
        spec = document.get("spec")
        if document.get("kind") not in _SELECTING or not isinstance(spec, dict) or "selector" in spec:
            return _has_directive(document)
        containers = _containers(spec)
        lacks_images = not any(isinstance(c, dict) and "image" in c for c in containers)
        return lacks_images and (bool(containers) or os.path.dirname(path) in self._folders)


def folders_of(files: Iterable[str]) -> list[str]:
    """The absolute paths of the folders in which these files are."""
    return sorted({os.path.dirname(os.path.abspath(file)) for file in files if file != STDIN})


def kustomization_file(folder: str) -> str:
    """The path of the kustomization of a folder; empty where it has none."""
    paths = (os.path.join(folder, name) for name in NAMES)
    return next(filter(os.path.isfile, paths), "")


def read_kustomization(folder: str) -> list[Mapping[str, Any]]:
    """The documents of the kustomization of a folder; none where it cannot be read."""
    if not (file := kustomization_file(folder)):
        return []
    try:
        with open_file(file) as reader:
            found: list[Any] = [document.value for document in parse(read_content(reader))]
    except InputError:
        return []
    return [value for value in found if isinstance(value, Mapping)]


def _aside(folder: str) -> Iterator[str]:
    """The files that the kustomization of a folder names and that are no resources, from there."""
    for value in read_kustomization(folder):
        yield from (path for path in _named(value) if isinstance(path, str) and "\n" not in path and "\0" not in path)


def _named(kustomization: Mapping[str, Any]) -> Iterator[Any]:
    for key in _LISTS:
        yield from (each.get("path") for each in listed(kustomization, key) if isinstance(each, dict))
    for key in _FILES:
        yield from listed(kustomization, key)
    for key in _GENERATORS:
        for each in listed(kustomization, key):
            files = listed(each, "files") if isinstance(each, dict) else []
            yield from (str(file).rpartition("=")[2] for file in files)
    for chart in listed(kustomization, "helmCharts"):
        if isinstance(chart, dict):
            yield from (chart.get("valuesFile"), *listed(chart, "additionalValuesFiles"))


def listed(value: Mapping[str, Any], key: str) -> list[Any]:
    """The items of a field that should be a list; none where it is something else."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def _containers(spec: Mapping[str, Any]) -> list[Any]:
    """Of the pod template of a workload."""
    found: Any = spec
    for step in ("template", "spec", "containers"):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def _has_directive(value: Any) -> bool:
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
