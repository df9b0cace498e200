"""The sets in which the files of a repository are applied, as far as it says so itself.

A file may be in several: a base in those of all overlays. What nothing is known of is one set, less the folders of
tests and examples, of which each is one by itself, or each file where they are the steps of a test.
"""

from __future__ import annotations

import os
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile

from kschedctl.lint.objects.subject import Location
from kschedctl.lint.objects.variants import AppliedSet
from kschedctl.sources.applied.appliers import Applied, Applier, charts_of_helmfile
from kschedctl.sources.applied.kustomizations import Kustomizations
from kschedctl.sources.applied.standing_alone import Folders, is_below, is_within

CHART, BUNDLE = "Chart.yaml", "fleet.yaml"
_REST = AppliedSet("rest", loose=True)


class AppliedSets:
    """The sets in which files are applied together."""

    def __init__(
        self,
        folders: Folders,
        kustomizations: Kustomizations,
        appliers: Iterable[Applier] = (),
        tests: Collection[str] = (),
    ) -> None:
        """``tests``: folders in which each file is a step of a test."""
        self._folders = folders
        self._paths = sorted(set(folders.files))
        self._tests = tests
        self._kustomizations = kustomizations
        self._sets: dict[str, set[AppliedSet]] = defaultdict(set)
        self._declared: dict[str, set[AppliedSet]] = {}
        self._clusters: set[AppliedSet] = set()
        named = [applied for applier in appliers for applied in applier.applied(folders)]
        named += filter(None, map(charts_of_helmfile, self._paths))
        self._of_kustomizations(named)
        for number, applied in enumerate(named):
            self._add(f"applied {number}", self._below(applied))
        self._of_charts()
        self._of_bundles()

    def declare(self, lists: Iterable[Collection[str]]) -> None:
        """Lists of paths that belong together, each a cluster; what is in none and in no other set is in all."""
        for number, paths in enumerate(lists):
            tops = [os.path.abspath(path) for path in paths]
            self._clusters.add(cluster := AppliedSet(f"declared {number}", closed=True))
            for path in self._paths:
                if any(is_within(path, top) for top in tops):
                    self._declared.setdefault(path, set()).add(cluster)

    def of(self, place: Location) -> frozenset[AppliedSet]:
        if place.build:
            return frozenset({AppliedSet(f"build {place.build}")})
        path = os.path.abspath(place.file)
        if known := self._declared.get(path) or self._sets.get(path):
            return frozenset(known)
        if (folder := os.path.dirname(path)) in self._tests:
            return frozenset({AppliedSet(f"alone {path}")})
        if self._folders.stands_alone(path):
            return frozenset({AppliedSet(f"alone {folder}")})
        return frozenset({_REST, *self._clusters})

    def _of_kustomizations(self, named: Iterable[Applied]) -> None:
        """Join what kustomizations apply: those that no other one builds upon, and those that something names."""
        wanted = {folder for applied in named for folder in applied.folders}
        for folder, built_upon in self._kustomizations.builds(wanted):
            self._add(f"kustomization {folder}", built_upon, closed=True)

    def _of_charts(self) -> None:
        """What stands in the templates of a chart as it is."""
        for chart in self._holders(CHART):
            self._add(f"chart {chart}", self._below(Applied((f"{chart}{os.sep}templates", f"{chart}{os.sep}crds"))))

    def _of_bundles(self) -> None:
        """Join what bundles of Fleet apply, each with one overlay; what lies below another bundle is of that one."""
        bundles = set(self._holders(BUNDLE))
        for bundle in sorted(bundles):
            inner = tuple(other for other in bundles if is_below(other, bundle))
            files = [path for path in self._below(Applied((bundle,))) if not _is_below_any(path, inner)]
            overlays = f"{bundle}{os.sep}overlays"
            base = [path for path in files if not is_below(path, overlays)]
            variants = {path[len(overlays) + 1 :].split(os.sep)[0] for path in files if is_below(path, overlays)}
            for variant in variants or {""}:
                own = [path for path in files if is_below(path, f"{overlays}{os.sep}{variant}")] if variant else []
                self._add(f"bundle {bundle} {variant}", [*base, *own])

    def _holders(self, name: str) -> Iterator[str]:
        """The folders with a file of this name."""
        return (os.path.dirname(path) for path in self._paths if os.path.basename(path) == name)

    def _below(self, applied: Applied) -> Iterator[str]:
        """The files of folders that are applied, less those of tests and examples in them."""
        for folder in applied.folders:
            if os.path.isdir(folder) and not self._kustomizations.has(folder):
                first = bisect(self._paths, folder + os.sep)
                for path in takewhile(lambda path: is_below(path, folder), self._paths[first:]):  # noqa: B023 - used up here
                    shallow = os.path.dirname(path) == folder
                    if (applied.deep or shallow) and not self._folders.stands_alone(path, below=folder):
                        yield path

    def _add(self, name: str, paths: Iterable[str], *, closed: bool = False) -> None:
        for path in paths:
            self._sets[path].add(AppliedSet(name, closed))


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)
