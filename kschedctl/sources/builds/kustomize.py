"""Builds of Kustomize folders, with the file that each object comes from.

Kustomize reports files and changing kustomizations in annotations if ``buildMetadata`` asks for them. Therefore a
kustomization around the folder is built, which asks for them.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kschedctl.api.json_values import JsonDict, JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import (
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
from kschedctl.sources.builds.unsafe_fields import find_unsafe_fields
from kschedctl.sources.documents.files import relative_path
from kschedctl.sources.documents.positions import LocatedObject, load_objects, parse_objects

ORIGIN = "config.kubernetes.io/origin"
GIT_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "http:https:ssh", "GIT_TERMINAL_PROMPT": "0"}
"""Limits for git, by which kustomize fetches remote bases: read nothing of this machine, and never prompt."""


class OriginFinder:
    """Finds the objects of files from which objects were built. Each file is read once."""

    def __init__(self) -> None:
        self._objects: dict[str, list[LocatedObject]] = {}

    def find_origin(self, built: JsonObject, file: str) -> LocatedObject | None:
        """Return the object of the file from which an object was built, or None.

        It has the same kind, and the longest name that is part of the built object's name.
        """
        name = _get_name(built)
        alike = [located for located in self._load_file(file) if located.value.get("kind") == built.get("kind")]
        named = [located for located in alike if _get_name(located.value) and _get_name(located.value) in name]
        if named:
            return max(named, key=lambda located: len(_get_name(located.value)))
        return alike[0] if len(alike) == 1 else None

    def _load_file(self, file: str) -> list[LocatedObject]:
        """Return the objects of a file, or none if it cannot be read."""
        if file not in self._objects:
            try:
                self._objects[file] = list(load_objects(file))
            except InputError:  # which kustomize could read: positions are all that is missed
                self._objects[file] = []
        return self._objects[file]


@dataclass(frozen=True)
class KustomizeBuild:
    """The build of one folder by a command."""

    folder: str
    command: Sequence[str]
    origins: OriginFinder
    helm: str = ""
    """Path of helm, if charts are built, too."""

    @property
    def name(self) -> str:
        """The kustomization, as messages name it."""
        return relative_path(find_kustomization(self.folder) or self.folder)

    @cached_property
    def files(self) -> frozenset[str]:
        """The kustomizations and resources in the folder and in everything that it builds upon."""
        read: set[str] = set()
        unvisited = [os.path.abspath(self.folder)]
        while unvisited:
            path = unvisited.pop()
            if path in read:
                continue
            read.add(path)
            if file := find_kustomization(path):
                read.add(file)
                unvisited += iter_bases(path)
        return frozenset(read)

    def build_objects(self) -> Iterator[BuiltObject]:
        """Build the folder and yield its objects. Raises InputError for unsafe fields, and with Kustomize's message."""
        top = _find_top(os.path.abspath(self.folder))
        for refused in find_unsafe_fields(self.folder, top, with_helm=bool(self.helm)):
            raise refused.error
        with tempfile.TemporaryDirectory(prefix="kschedctl-") as temporary:
            around = os.path.realpath(temporary)
            inner = os.path.relpath(os.path.realpath(self.folder), around)
            kustomization = {"resources": [inner], "buildMetadata": ["originAnnotations", "transformerAnnotations"]}
            with open(os.path.join(around, "kustomization.yaml"), "w", encoding="utf-8") as file:
                json.dump(kustomization, file)
            command = [*self.command, *_write_helm_guard(self.helm, around, top)]
            content = run_program([*command, around], self.name, GIT_ENVIRONMENT)
            for built in parse_objects(self.name, content):
                yield self._trace_object(dict(built.value), around)

    def _trace_object(self, value: dict[str, object], around: str) -> BuiltObject:
        """Return a built object with its origin and the kustomizations that changed it."""
        path, transformations = _take_annotations(value)
        folder = relative_path(self.folder)
        if not path or not os.path.isfile(file := os.path.normpath(os.path.join(around, path))):
            return BuiltObject(value, folder, self.name)  # generated, or read from another repository
        origin = self.origins.find_origin(value, relative_path(file))
        overlays = Overlays(list_kustomizations(transformations, around), origin.value, value) if origin else None
        return BuiltObject(value, folder, relative_path(file), origin=origin, overlays=overlays)


def find_kustomize_builds(files: Collection[str], with_helm: bool = False) -> list[KustomizeBuild]:
    """Return the builds of kustomizations upon which no other one builds.

    Raises UsageError if neither kustomize nor kubectl is installed.
    """
    command = find_program("--kustomize", ("kustomize", "build"), ("kubectl", "kustomize"))
    folders = [folder for folder in list_folders(files) if find_kustomization(folder)]
    used = {path for folder in folders for path in iter_bases(folder)}
    roots = [folder for folder in folders if folder not in used and not is_component(folder)]
    helm, origins = find_program("--helm", ("helm",))[0] if with_helm else "", OriginFinder()
    return [KustomizeBuild(folder, command, origins, helm) for folder in roots]


def _write_helm_guard(helm: str, folder: str, top: str) -> Iterator[str]:
    """Write a script that guards helm into the folder, and yield the options by which kustomize calls it."""
    if helm:
        script = os.path.join(folder, "helm")
        words = shlex.join([sys.executable, "-I", helm_guard.__file__, helm, top])
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {words} "$@"\n')
        os.chmod(script, stat.S_IRWXU)
        yield from ("--enable-helm", "--helm-command", script)


def _find_top(folder: str) -> str:
    """Return the top folder of the repository that contains the folder, or the folder itself."""
    for candidate in (folder, *iter_parents(folder)):
        if os.path.exists(os.path.join(candidate, ".git")):
            return candidate
    return folder


def _take_annotations(value: JsonDict) -> tuple[str, str]:
    """Remove Kustomize's annotations, and return the path of the object's file and the changing kustomizations."""
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    origin, transformations = (str(annotations.pop(annotation, "")) for annotation in (ORIGIN, TRANSFORMATIONS))
    value["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
    lines = origin.splitlines()
    if any(line.startswith("repo:") for line in lines):
        return "", transformations
    paths = (line.partition(":")[2].strip() for line in lines if line.startswith(("path:", "configuredIn:")))
    return next(paths, ""), transformations


def _get_name(value: JsonObject) -> str:
    """Return the name of the object, or ""."""
    metadata = value.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""
