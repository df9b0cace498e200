"""The sets of files that are applied together, as far as a repository declares them.

A file may be in several sets: a base is in those of all its overlays. Files about which nothing is declared are one
set, except those in folders of tests and examples: each such folder is a set, or each file if the files are the steps
of a test.
"""

from __future__ import annotations

import os
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile

from kschedctl.lint.objects.subject import Location
from kschedctl.lint.objects.variants import AppliedSet
from kschedctl.sources.applied.appliers import AppliedFolders, Applier, find_helmfile_charts
from kschedctl.sources.applied.kustomizations import Kustomizations
from kschedctl.sources.applied.standalone_folders import RepositoryFolders, is_below, is_within

CHART, BUNDLE = "Chart.yaml", "fleet.yaml"
_UNDECLARED = AppliedSet("rest", loose=True)


class AppliedSets:
    """The sets in which files are applied together."""

    def __init__(
        self,
        folders: RepositoryFolders,
        kustomizations: Kustomizations,
        appliers: Iterable[Applier] = (),
        tests: Collection[str] = (),
    ) -> None:
        """Find the sets. ``tests`` are folders in which each file is a step of a test."""
        self._folders = folders
        self._paths = sorted(set(folders.files))
        self._tests = tests
        self._kustomizations = kustomizations
        self._sets: dict[str, set[AppliedSet]] = defaultdict(set)
        self._declared: dict[str, set[AppliedSet]] = {}
        self._clusters: set[AppliedSet] = set()
        named = [applied for applier in appliers for applied in applier.iter_applied(folders)]
        named += filter(None, map(find_helmfile_charts, self._paths))
        self._add_kustomizations(named)
        for number, applied in enumerate(named):
            self._add_set(f"applied {number}", self._iter_applied_files(applied))
        self._add_charts()
        self._add_fleet_bundles()

    def declare_clusters(self, lists: Iterable[Collection[str]]) -> None:
        """Add the sets that the user declares: lists of paths, one for each cluster.

        Files that are in no set belong to all of these clusters.
        """
        for number, paths in enumerate(lists):
            tops = [os.path.abspath(path) for path in paths]
            self._clusters.add(cluster := AppliedSet(f"declared {number}", closed=True))
            for path in self._paths:
                if any(is_within(path, top) for top in tops):
                    self._declared.setdefault(path, set()).add(cluster)

    def get_sets(self, place: Location) -> frozenset[AppliedSet]:
        """Return the sets that contain an object, by its place."""
        if place.build:
            return frozenset({AppliedSet(f"build {place.build}")})
        path = os.path.abspath(place.file)
        if known := self._declared.get(path) or self._sets.get(path):
            return frozenset(known)
        if (folder := os.path.dirname(path)) in self._tests:
            return frozenset({AppliedSet(f"alone {path}")})
        if self._folders.is_standalone(path):
            return frozenset({AppliedSet(f"alone {folder}")})
        return frozenset({_UNDECLARED, *self._clusters})

    def _add_kustomizations(self, applied_sets: Iterable[AppliedFolders]) -> None:
        """Add a set for each kustomization that no other one builds upon, or that an applier names."""
        wanted = {folder for applied in applied_sets for folder in applied.folders}
        for folder, built_upon in self._kustomizations.iter_roots(wanted):
            self._add_set(f"kustomization {folder}", built_upon, closed=True)

    def _add_charts(self) -> None:
        """Add a set for the templates of each chart."""
        for chart in self._find_folders_with(CHART):
            self._add_set(
                f"chart {chart}",
                self._iter_applied_files(AppliedFolders((f"{chart}{os.sep}templates", f"{chart}{os.sep}crds"))),
            )

    def _add_fleet_bundles(self) -> None:
        """Add a set for each Fleet bundle and each of its overlays. Files below another bundle belong to that one."""
        bundles = set(self._find_folders_with(BUNDLE))
        for bundle in sorted(bundles):
            inner = tuple(other for other in bundles if is_below(other, bundle))
            files = [
                path for path in self._iter_applied_files(AppliedFolders((bundle,))) if not _is_below_any(path, inner)
            ]
            overlays = f"{bundle}{os.sep}overlays"
            base = [path for path in files if not is_below(path, overlays)]
            variants = {path[len(overlays) + 1 :].split(os.sep)[0] for path in files if is_below(path, overlays)}
            for variant in variants or {""}:
                own = [path for path in files if is_below(path, f"{overlays}{os.sep}{variant}")] if variant else []
                self._add_set(f"bundle {bundle} {variant}", [*base, *own])

    def _find_folders_with(self, name: str) -> Iterator[str]:
        """Yield the folders that contain a file of this name."""
        return (os.path.dirname(path) for path in self._paths if os.path.basename(path) == name)

    def _iter_applied_files(self, applied: AppliedFolders) -> Iterator[str]:
        """Yield the files in applied folders, except those in folders of tests and examples."""
        for folder in applied.folders:
            if os.path.isdir(folder) and not self._kustomizations.contains(folder):
                first = bisect(self._paths, folder + os.sep)
                for path in takewhile(lambda path: is_below(path, folder), self._paths[first:]):  # noqa: B023 - used up here
                    shallow = os.path.dirname(path) == folder
                    if (applied.deep or shallow) and not self._folders.is_standalone(path, below=folder):
                        yield path

    def _add_set(self, name: str, paths: Iterable[str], *, closed: bool = False) -> None:
        """Add a set of files."""
        for path in paths:
            self._sets[path].add(AppliedSet(name, closed))


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether the path is below one of the folders."""
    return any(is_below(path, folder) for folder in folders)
