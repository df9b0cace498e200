"""Builds of Kustomize folders, with the file that each object comes from.

Kustomize adds annotations with the file and the kustomizations that changed the object if ``buildMetadata`` requests
them. Therefore an outer kustomization is built that requests them and contains the folder.
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
from kschedctl.sources.documents.files import make_relative_path
from kschedctl.sources.documents.positions import LocatedObject, load_objects, parse_objects

ORIGIN = "config.kubernetes.io/origin"
GIT_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "http:https:ssh", "GIT_TERMINAL_PROMPT": "0"}
"""Limits for git, with which kustomize fetches remote bases: no local repositories, and no prompts."""


class OriginFinder:
    """A finder of the objects in files from which objects were built. Each file is read once."""

    def __init__(self) -> None:
        self._objects: dict[str, list[LocatedObject]] = {}

    def find_origin(self, built: JsonObject, file: str) -> LocatedObject | None:
        """Return the object in the file from which an object was built, or None if it cannot be determined.

        It has the same kind. Because a build may add a prefix and a suffix to names, its name only has to be part of
        the built object's name. The longest such name is chosen. If no name fits, it is the file's only object of the
        kind.
        """
        built_name = _get_object_name(built)
        same_kind: list[LocatedObject] = []
        longest_name, origin = "", None
        for located in self._load_file_objects(file):
            if located.value.get("kind") != built.get("kind"):
                continue
            same_kind.append(located)
            name = _get_object_name(located.value)
            if name in built_name and len(name) > len(longest_name):
                longest_name, origin = name, located
        if origin is None and len(same_kind) == 1:
            return same_kind[0]
        return origin

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
    def files(self) -> frozenset[str]:
        """The kustomizations and resources in the folder and in all of its bases."""
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
        for unsafe_field in find_unsafe_fields(self.folder, top, with_helm=bool(self.helm)):
            raise unsafe_field.error

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

    With ``with_helm``, Kustomize may render charts. Raises UsageError if neither kustomize nor kubectl is installed, or
    if helm is needed but not installed.
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
    """Remove Kustomize's annotations from the object, and return its file and its annotation with transformations.

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
