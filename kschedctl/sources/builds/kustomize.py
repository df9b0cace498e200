"""Builds of Kustomize: the folders that no other one builds upon, and the file that each object of theirs comes from.

Kustomize itself tells the latter, and which kustomizations changed it on the way, in the annotations that one asks for
with ``buildMetadata``; so what is built is a kustomization around the folder that asks for them.
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
    folders_of,
    is_component,
    kustomization_file,
    referenced,
)
from kschedctl.sources.applied.standing_alone import above
from kschedctl.sources.builds import helm_guard
from kschedctl.sources.builds.build import BuiltObject, output_of, program
from kschedctl.sources.builds.overlays import TRANSFORMATIONS, Overlays, transforming
from kschedctl.sources.builds.unsafe_fields import unsafe_fields
from kschedctl.sources.documents.files import relative_path
from kschedctl.sources.documents.positions import LocatedObject, load_objects, parse_objects

ORIGIN = "config.kubernetes.io/origin"
GIT = {"GIT_ALLOW_PROTOCOL": "http:https:ssh", "GIT_TERMINAL_PROMPT": "0"}
"""What git, by which kustomize fetches remote bases, may do: read nothing of this machine, and ask nobody."""


class BuildOrigins:
    """The objects of the files that builds are made of, each file read once."""

    def __init__(self) -> None:
        self._objects: dict[str, list[LocatedObject]] = {}

    def of(self, built: JsonObject, file: str) -> LocatedObject | None:
        """The object of the file of which this one was built: of its kind, with the longest name that its has in it."""
        name = _name(built)
        alike = [located for located in self._read(file) if located.value.get("kind") == built.get("kind")]
        named = [located for located in alike if _name(located.value) and _name(located.value) in name]
        return max(named, key=lambda located: len(_name(located.value)), default=alike[0] if len(alike) == 1 else None)

    def _read(self, file: str) -> list[LocatedObject]:
        if file not in self._objects:
            try:
                self._objects[file] = list(load_objects(file))
            except InputError:  # which kustomize could read: positions are all that is missed
                self._objects[file] = []
        return self._objects[file]


@dataclass(frozen=True)
class KustomizeBuild:
    """A build of one folder, by this command; with ``helm``, the program, also of the charts in it."""

    folder: str
    command: Sequence[str]
    origins: BuildOrigins
    helm: str = ""

    @property
    def name(self) -> str:
        return relative_path(kustomization_file(self.folder) or self.folder)

    @cached_property
    def files(self) -> frozenset[str]:
        """Kustomizations and resources, here and in all that is built upon."""
        read: set[str] = set()
        open_ = [os.path.abspath(self.folder)]
        while open_:
            path = open_.pop()
            if path in read:
                continue
            read.add(path)
            if file := kustomization_file(path):
                read.add(file)
                open_ += referenced(path)
        return frozenset(read)

    def objects(self) -> Iterator[BuiltObject]:
        top = _top(os.path.abspath(self.folder))
        for refused in unsafe_fields(self.folder, top, with_helm=bool(self.helm)):
            raise refused.error
        with tempfile.TemporaryDirectory(prefix="kschedctl-") as made:
            around = os.path.realpath(made)
            inner = os.path.relpath(os.path.realpath(self.folder), around)
            wanted = {"resources": [inner], "buildMetadata": ["originAnnotations", "transformerAnnotations"]}
            with open(os.path.join(around, "kustomization.yaml"), "w", encoding="utf-8") as file:
                json.dump(wanted, file)
            command = [*self.command, *_guarded_helm(self.helm, around, top)]
            content = output_of([*command, around], self.name, GIT)
            for built in parse_objects(self.name, content):
                yield self._built(dict(built.value), around)

    def _built(self, value: dict[str, object], around: str) -> BuiltObject:
        path, transformations = _take_annotations(value)
        folder = relative_path(self.folder)
        if not path or not os.path.isfile(file := os.path.normpath(os.path.join(around, path))):
            return BuiltObject(value, folder, self.name)  # generated, or read from another repository
        origin = self.origins.of(value, relative_path(file))
        overlays = Overlays(transforming(transformations, around), origin.value, value) if origin else None
        return BuiltObject(value, folder, relative_path(file), origin=origin, overlays=overlays)


def kustomize_builds(files: Collection[str], with_helm: bool = False) -> list[KustomizeBuild]:
    """Builds of the folders of these files that are kustomizations, and upon which no other one builds.

    Raises UsageError where no program is there that builds them.
    """
    command = program("--kustomize", ("kustomize", "build"), ("kubectl", "kustomize"))
    folders = [folder for folder in folders_of(files) if kustomization_file(folder)]
    used = {path for folder in folders for path in referenced(folder)}
    roots = [folder for folder in folders if folder not in used and not is_component(folder)]
    helm, origins = program("--helm", ("helm",))[0] if with_helm else "", BuildOrigins()
    return [KustomizeBuild(folder, command, origins, helm) for folder in roots]


def _guarded_helm(helm: str, folder: str, top: str) -> Iterator[str]:
    """The options by which kustomize calls helm, through a script in this folder that looks at how it is called."""
    if helm:
        script = os.path.join(folder, "helm")
        words = shlex.join([sys.executable, "-I", helm_guard.__file__, helm, top])
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {words} "$@"\n')
        os.chmod(script, stat.S_IRWXU)
        yield from ("--enable-helm", "--helm-command", script)


def _top(folder: str) -> str:
    """The top folder of the repository of a folder; the folder itself where it is in none."""
    return next(
        (candidate for candidate in (folder, *above(folder)) if os.path.exists(os.path.join(candidate, ".git"))), folder
    )


def _take_annotations(value: JsonDict) -> tuple[str, str]:
    """The path of the file of an object, and what changed it, which annotations tell that were not there before."""
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.pop("annotations", None) or {})
    origin, transformations = (str(annotations.pop(annotation, "")) for annotation in (ORIGIN, TRANSFORMATIONS))
    value["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
    lines = origin.splitlines()
    if any(line.startswith("repo:") for line in lines):
        return "", transformations
    paths = (line.partition(":")[2].strip() for line in lines if line.startswith(("path:", "configuredIn:")))
    return next(paths, ""), transformations


def _name(value: JsonObject) -> str:
    metadata = value.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""
