"""The sets of files that are applied together, as Argo CD, Flux, Fleet, helmfiles and kustomizations declare them.

A file may be in several sets: a base is in those of all its overlays. Files about which nothing is declared are one
set, except those in folders of tests and examples: each such folder is a set, or each file if the files are the steps
of a test.
"""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.lint.objects.subject import Location
from kschedctl.lint.objects.variants import AppliedSet
from kschedctl.sources.applied.kustomizations import Kustomizations, get_list
from kschedctl.sources.applied.standalone_files import RepositoryFolders, is_below, is_within
from kschedctl.sources.documents.documents import load_content

CHART, BUNDLE = "Chart.yaml", "fleet.yaml"
_UNDECLARED = AppliedSet("rest", loose=True)


class AppliedSets:
    """The sets in which files are applied together."""

    def __init__(
        self,
        repository: RepositoryFolders,
        kustomizations: Kustomizations,
        appliers: Iterable[Applier] = (),
        tests: Collection[str] = (),
    ) -> None:
        """Find the sets of a repository. ``tests`` are folders in which each file is a step of a test."""
        self._repository = repository
        self._paths = sorted(set(repository.files))
        self._tests = tests
        self._kustomizations = kustomizations
        self._sets: dict[str, set[AppliedSet]] = defaultdict(set)
        self._declared: dict[str, set[AppliedSet]] = {}
        """File -> the clusters that the user declared for it. They take precedence over `_sets`."""
        self._clusters: set[AppliedSet] = set()
        """All clusters that the user declared."""
        applied_folders = [applied for applier in appliers for applied in applier.iter_applied_folders(repository)]
        applied_folders += filter(None, map(find_helmfile_charts, self._paths))
        self._add_kustomizations(applied_folders)
        for number, applied in enumerate(applied_folders):
            self._add_set(f"applied {number}", self._iter_applied_files(applied))
        self._add_charts()
        self._add_fleet_bundles()

    def add_declared_clusters(self, clusters: Iterable[Collection[str]]) -> None:
        """Add a set for each cluster that the user declares as a list of files and folders.

        Files that are in no set belong to all these clusters.
        """
        for number, paths in enumerate(clusters):
            declared_paths = [os.path.abspath(path) for path in paths]
            # Clusters have no names, hence the number. The set is closed because the user listed all files of the
            # cluster: they are applied together, and are not alternatives.
            cluster = AppliedSet(f"declared {number}", closed=True)
            self._clusters.add(cluster)
            for path in self._paths:
                if any(is_within(path, declared_path) for declared_path in declared_paths):
                    self._declared.setdefault(path, set()).add(cluster)

    def get_applied_sets(self, place: Location) -> frozenset[AppliedSet]:
        """Return the sets in which the object at a place is applied.

        A built object is in the set of its build. Sets that the user declares for a file take precedence over sets
        found for it. Other files of declarative tests are sets of their own, and so are folders of other tests or of
        examples. All remaining objects are in the set of undeclared files and in all clusters declared by the user.
        """
        if place.build:
            return frozenset({AppliedSet(f"build {place.build}")})

        path = os.path.abspath(place.file)
        sets = self._declared.get(path) or self._sets.get(path)
        if sets:
            return frozenset(sets)

        folder = os.path.dirname(path)
        if folder in self._tests:  # each file is one step of the test
            return frozenset({AppliedSet(f"alone {path}")})
        if self._repository.is_standalone(path):
            return frozenset({AppliedSet(f"alone {folder}")})
        return frozenset({_UNDECLARED, *self._clusters})

    def _add_kustomizations(self, applied_sets: Iterable[AppliedFolders]) -> None:
        """Add a set for each kustomization that is in an applied folder or is not a base of another kustomization."""
        extra_roots = {folder for applied in applied_sets for folder in applied.folders}
        for folder, bases in self._kustomizations.iter_roots(extra_roots):
            self._add_set(f"kustomization {folder}", bases, closed=True)

    def _add_charts(self) -> None:
        """Add a set for the templates and CRDs of each chart."""
        for chart in self._find_folders_with(CHART):
            applied = AppliedFolders((f"{chart}{os.sep}templates", f"{chart}{os.sep}crds"))
            self._add_set(f"chart {chart}", self._iter_applied_files(applied))

    def _add_fleet_bundles(self) -> None:
        """Add a set for each overlay of each Fleet bundle, or for the bundle if it has no overlays.

        Files below a nested bundle belong only to the nested bundle.
        """
        bundles = set(self._find_folders_with(BUNDLE))
        for bundle in sorted(bundles):
            inner_bundles = tuple(other for other in bundles if is_below(other, bundle))
            bundle_files = self._iter_applied_files(AppliedFolders((bundle,)))
            files = [path for path in bundle_files if not _is_below_any(path, inner_bundles)]

            overlays_folder = f"{bundle}{os.sep}overlays"
            base_files = [path for path in files if not is_below(path, overlays_folder)]
            overlays = {
                path.removeprefix(overlays_folder).split(os.sep)[1] for path in files if is_below(path, overlays_folder)
            }
            if not overlays:
                self._add_set(f"bundle {bundle}", base_files)
            for overlay in overlays:
                overlay_files = [path for path in files if is_below(path, f"{overlays_folder}{os.sep}{overlay}")]
                self._add_set(f"bundle {bundle} {overlay}", [*base_files, *overlay_files])

    def _find_folders_with(self, name: str) -> Iterator[str]:
        """Yield the folders that contain a file of this name."""
        return (os.path.dirname(path) for path in self._paths if os.path.basename(path) == name)

    def _iter_applied_files(self, applied: AppliedFolders) -> Iterator[str]:
        """Yield the files in applied folders. Folders of tests and examples below them are skipped.

        Folders with a kustomization are also skipped, because the kustomization decides which files are applied.
        """
        for folder in applied.folders:
            if not os.path.isdir(folder) or self._kustomizations.has_kustomization(folder):
                continue
            for path in self._iter_files_below(folder):
                is_direct = os.path.dirname(path) == folder
                if (applied.deep or is_direct) and not self._repository.is_standalone(path, below=folder):
                    yield path

    def _iter_files_below(self, folder: str) -> Iterator[str]:
        """Yield the known files below a folder."""
        # They follow each other in the sorted paths
        first = bisect(self._paths, folder + os.sep)
        return takewhile(lambda path: is_below(path, folder), self._paths[first:])

    def _add_set(self, name: str, paths: Iterable[str], *, closed: bool = False) -> None:
        """Add a set to the sets of each file. In a closed set, no object is an alternative of another one."""
        for path in paths:
            self._sets[path].add(AppliedSet(name, closed))


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether the path is below one of the folders."""
    return any(is_below(path, folder) for folder in folders)


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
    """The absolute paths of the folders."""
    deep: bool = True
    """True if subfolders are applied as well."""


class Applier(NamedTuple):
    """An object that declares which folders are applied, and its file."""

    file: str
    value: JsonObject

    def iter_applied_folders(self, repository: RepositoryFolders) -> Iterator[AppliedFolders]:
        """Yield the sets of folders that the object applies. Paths that are not in the repository are left out.

        The object is Flux's Kustomization, Fleet's GitRepo, or Argo CD's Application or ApplicationSet.
        """
        spec = _as_mapping(self.value.get("spec"))
        kind = self.value.get("kind")
        if kind == "Kustomization":
            yield AppliedFolders(self._find_folders([spec.get("path")], repository))
        elif kind == "GitRepo":
            for path in get_list(spec, "paths"):
                yield AppliedFolders(self._find_folders([path], repository))
        elif kind == "Application":
            yield self._find_application_folders(spec, repository)
        else:
            yield from self._iter_application_set_folders(spec, repository)

    def _find_application_folders(self, spec: JsonObject, repository: RepositoryFolders) -> AppliedFolders:
        """Return the folders that an Argo CD Application applies, with subfolders if a source is recursive."""
        sources = _list_application_sources(spec)
        deep = any(_as_mapping(source.get("directory")).get("recurse") is True for source in sources)
        return AppliedFolders(self._find_folders([source.get("path") for source in sources], repository), deep)

    def _iter_application_set_folders(
        self, spec: JsonObject, repository: RepositoryFolders
    ) -> Iterator[AppliedFolders]:
        """Yield each folder that an ApplicationSet applies, as a separate set.

        A folder is applied if it matches a generator's pattern, or the template's path with its placeholders replaced
        by stars.
        """
        template = _as_mapping(_as_mapping(spec.get("template")).get("spec"))
        paths = [source.get("path") for source in _list_application_sources(template)]
        path_patterns = [_PLACEHOLDER.sub("*", path) for path in paths if isinstance(path, str)]
        specific_patterns = [pattern for pattern in path_patterns if pattern.strip("*/.")]
        for pattern in (*specific_patterns, *_iter_directory_patterns(get_list(spec, "generators"))):
            for folder in self._find_matching_folders(pattern, repository):
                yield AppliedFolders((folder,))

    def _find_folders(self, paths: Iterable[object], repository: RepositoryFolders) -> tuple[str, ...]:
        """Return the existing folders at the paths, which are relative to any folder above the file.

        Paths that do not exist or are not strings are left out.
        """
        folders = (self._find_folder(path.strip("/"), repository) for path in paths if isinstance(path, str))
        return tuple(folder for folder in folders if folder)

    def _find_folder(self, path: str, repository: RepositoryFolders) -> str:
        """Return the folder at a path that is relative to the top of the repository or to a folder above the file.

        The topmost matching folder is returned. Return "" if there is none, or if the path has only dots and slashes.
        """
        if not path.strip("./"):
            return ""
        for ancestor in repository.list_ancestors(self.file):  # from the top down
            folder = os.path.normpath(os.path.join(ancestor, path))
            if folder in repository.subfolders:
                return folder
        return ""

    def _find_matching_folders(self, pattern: str, repository: RepositoryFolders) -> list[str]:
        """Return the sorted folders that match a pattern, or [] if there are none.

        The pattern is relative to the topmost folder above the file under which any folder matches. A star does not
        match a slash, as in Go.
        """
        pattern_steps = pattern.strip("/").split("/")
        for ancestor in repository.list_ancestors(self.file):  # from the top down
            prefix = ancestor.rstrip(os.sep) + os.sep
            folders = []
            for folder in repository.subfolders:
                if folder.startswith(prefix) and _matches_steps(folder[len(prefix) :].split(os.sep), pattern_steps):
                    folders.append(folder)
            if folders:
                return sorted(folders)
        return []


def is_applier(value: JsonObject) -> bool:
    """Return whether the object is of a kind that declares which folders are applied."""
    group = str(value.get("apiVersion") or "").partition("/")[0]
    return (group, value.get("kind")) in _APPLIER_KINDS


def find_helmfile_charts(file: str) -> AppliedFolders | None:
    """Return the local chart folders of a helmfile's releases.

    Return None if the file is not a helmfile or cannot be read.
    """
    if not _HELMFILE.fullmatch(file) and not _HELMFILE.fullmatch(os.path.basename(file)):
        return None
    try:
        text = load_content(file).text
    except InputError:
        return None
    folder = os.path.dirname(file)
    return AppliedFolders(tuple(os.path.normpath(os.path.join(folder, path)) for path in _LOCAL_CHART.findall(text)))


def _list_application_sources(spec: JsonObject) -> list[JsonObject]:
    """Return the sources in the spec of an Argo CD Application: ``source`` and ``sources``.

    A source that is missing or not a mapping is returned as an empty mapping.
    """
    return [_as_mapping(source) for source in (spec.get("source"), *get_list(spec, "sources"))]


def _matches_steps(path: list[str], patterns: list[str]) -> bool:
    """Return whether each step of a path matches the corresponding step of a pattern."""
    return len(path) == len(patterns) and all(map(fnmatchcase, path, patterns))


def _iter_directory_patterns(generators: object) -> Iterator[str]:
    """Yield the folder patterns of all git generators, including nested generators."""
    unvisited = [generators]
    while unvisited:
        value = unvisited.pop()
        if isinstance(value, dict):
            yield from _iter_included_patterns(get_list(value, "directories"))
            unvisited += value.values()
        elif isinstance(value, list):
            unvisited += value


def _iter_included_patterns(directories: Iterable[object]) -> Iterator[str]:
    """Yield the path patterns of the folders that a git generator includes.

    Entries that exclude folders are skipped.
    """
    for directory in map(_as_mapping, directories):
        path = directory.get("path")
        if isinstance(path, str) and not directory.get("exclude"):
            yield path


def _as_mapping(value: object) -> JsonObject:
    """Return the value if it is a mapping, or an empty mapping."""
    return value if isinstance(value, dict) else {}
