"""Folders that are applied, as declared by objects of Argo CD, Flux and Fleet, and by helmfiles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import get_list
from kschedctl.sources.applied.standalone_folders import RepositoryFolders
from kschedctl.sources.documents.documents import load_content

_ARGO, _FLUX, _FLEET = "argoproj.io", "kustomize.toolkit.fluxcd.io", "fleet.cattle.io"
_APPLIER_KINDS = frozenset(
    {(_ARGO, "Application"), (_ARGO, "ApplicationSet"), (_FLUX, "Kustomization"), (_FLEET, "GitRepo")}
)
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_HELMFILE = re.compile(r"helmfile.*\.ya?ml|.*/helmfile\.d/.*\.ya?ml")
_LOCAL_CHART = re.compile(r"^[ \t]*+(?:-[ \t]++)?chart:[ \t]*+[\"']?(\.{1,2}/[^\s\"'{]+)", re.MULTILINE)


class AppliedFolders(NamedTuple):
    """Folders that are applied as one set."""

    folders: tuple[str, ...]
    deep: bool = True
    """Whether the folders inside are applied, too."""


class Applier(NamedTuple):
    """An object that declares which folders are applied, and the file that contains it."""

    file: str
    value: JsonObject

    def iter_applied(self, all_folders: RepositoryFolders) -> Iterator[AppliedFolders]:
        """Yield the sets of folders that the object applies. Paths in other repositories are ignored."""
        spec = _as_mapping(self.value.get("spec"))
        kind = self.value.get("kind")
        if kind == "Kustomization":
            yield AppliedFolders(self._find_folders([spec.get("path")], all_folders))
        elif kind == "GitRepo":
            for path in get_list(spec, "paths"):
                yield AppliedFolders(self._find_folders([path], all_folders))
        elif kind == "Application":
            yield self._find_application_folders(spec, all_folders)
        else:
            yield from self._iter_application_set(spec, all_folders)

    def _find_application_folders(self, spec: JsonObject, all_folders: RepositoryFolders) -> AppliedFolders:
        """Return the folders that an Argo CD Application applies."""
        sources = [_as_mapping(source) for source in (spec.get("source"), *get_list(spec, "sources"))]
        deep = any(_as_mapping(source.get("directory")).get("recurse") is True for source in sources)
        return AppliedFolders(self._find_folders([source.get("path") for source in sources], all_folders), deep)

    def _iter_application_set(self, spec: JsonObject, all_folders: RepositoryFolders) -> Iterator[AppliedFolders]:
        """Yield each folder that matches a generator's pattern, or a path with placeholders, of an ApplicationSet."""
        template = _as_mapping(_as_mapping(spec.get("template")).get("spec"))
        sources = [_as_mapping(source) for source in (template.get("source"), *get_list(template, "sources"))]
        patterns = [_PLACEHOLDER.sub("*", path) for source in sources if isinstance(path := source.get("path"), str)]
        patterns = [pattern for pattern in patterns if pattern.strip("*/.")]
        for pattern in (*patterns, *_iter_directory_patterns(get_list(spec, "generators"))):
            yield from (AppliedFolders((folder,)) for folder in self._find_matching(pattern, all_folders))

    def _find_folders(self, paths: Iterable[object], all_folders: RepositoryFolders) -> tuple[str, ...]:
        """Return the existing folders among the paths, which are relative to some folder above the file."""
        folders = (self._find_folder(path.strip("/"), all_folders) for path in paths if isinstance(path, str))
        return tuple(folder for folder in folders if folder)

    def _find_folder(self, path: str, all_folders: RepositoryFolders) -> str:
        """Return the folder at a path below the top of the repository or below another folder above the file, or ""."""
        folders = (
            os.path.normpath(os.path.join(top, path))
            for top in all_folders.list_ancestors(self.file)
            if path.strip("./")
        )
        return next(filter(all_folders.all.__contains__, folders), "")

    def _find_matching(self, pattern: str, all_folders: RepositoryFolders) -> list[str]:
        """Return the folders that match the pattern below the first folder that has any.

        A star stands for one step, as in Go.
        """
        steps = pattern.strip("/").split("/")
        for top in all_folders.list_ancestors(self.file):
            start = top.rstrip(os.sep) + os.sep
            paths = {
                folder: folder[len(start) :].split(os.sep) for folder in all_folders.all if folder.startswith(start)
            }
            if folders := [folder for folder, path in paths.items() if _match_steps(path, steps)]:
                return sorted(folders)
        return []


def is_applier(value: JsonObject) -> bool:
    """Return whether the object is of a kind that declares which folders are applied."""
    group = str(value.get("apiVersion") or "").partition("/")[0]
    return (group, value.get("kind")) in _APPLIER_KINDS


def find_helmfile_charts(file: str) -> AppliedFolders | None:
    """Return the local chart folders of a helmfile's releases, or None if the file is not a helmfile."""
    if not _HELMFILE.fullmatch(file) and not _HELMFILE.fullmatch(os.path.basename(file)):
        return None
    try:
        text = load_content(file).text
    except InputError:
        return None
    folder = os.path.dirname(file)
    return AppliedFolders(tuple(os.path.normpath(os.path.join(folder, path)) for path in _LOCAL_CHART.findall(text)))


def _match_steps(path: list[str], patterns: list[str]) -> bool:
    """Return whether each step of a path matches the step of a pattern."""
    return len(path) == len(patterns) and all(map(fnmatchcase, path, patterns))


def _iter_directory_patterns(generators: object) -> Iterator[str]:
    """Yield the patterns of git generators, including those nested in other generators."""
    unvisited = [generators]
    while unvisited:
        value = unvisited.pop()
        if isinstance(value, dict):
            yield from _iter_included_patterns(get_list(value, "directories"))
            unvisited += value.values()
        elif isinstance(value, list):
            unvisited += value


def _iter_included_patterns(directories: Iterable[object]) -> Iterator[str]:
    """Yield the patterns of a git generator that do not exclude folders."""
    for directory in map(_as_mapping, directories):
        if isinstance(path := directory.get("path"), str) and not directory.get("exclude"):
            yield path


def _as_mapping(value: object) -> JsonObject:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
