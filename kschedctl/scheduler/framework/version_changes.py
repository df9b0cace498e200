"""Rules that differ between versions of kube-scheduler, including rules known only from release notes.

A change that was read in upstream's source, or observed in its answers, is an ordinary rule. For the others, a plugin
declares which pods they concern and what they could do to an answer, so that affected answers can say so.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion, includes_change
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def find_version_changes(*names: str) -> tuple[ByVersion[object], ...]:
    """Return the distinct ByVersion objects of these modules and packages, in order of the submodules' names.

    The modules are imported if necessary.
    """
    changes_by_id: dict[int, ByVersion[object]] = {}  # several modules can import the same object
    for name in names:
        for module in _import_with_submodules(name):
            for value in vars(module).values():
                if isinstance(value, ByVersion):
                    changes_by_id[id(value)] = value
    return tuple(changes_by_id.values())


def _import_with_submodules(name: str) -> list[ModuleType]:
    """Import a module and return it with all its submodules, sorted by name."""
    module = import_module(name)
    submodules = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}.")
    submodule_names = sorted(submodule.name for submodule in submodules)
    return [module, *map(import_module, submodule_names)]


RELEASE_NOTE_KIND = "ReleaseNote"
ONLY_IN_RELEASE_NOTES = "are the only source for {}"
ConcernsPod = Callable[[PodInfo, Fork], bool]


class NotedChange(NamedTuple):
    """A change that is known only from release notes."""

    change: ByVersion[object]
    """The row of the version table."""
    effect: Effect
    """The possible effect of the change on an answer about a pod."""
    concerns: ConcernsPod
    """Returns whether the change concerns a pod."""
    gate: str = ""
    """The feature gate without which the change has no effect."""

    def applies(self, gates: FeatureGates) -> bool:
        """Return whether the version has the change and its feature gate is on."""
        return includes_change(gates.release, self.change.from_notes) and (not self.gate or gates.enabled(self.gate))


def iter_release_note_unknowns(changes: Iterable[NotedChange], info: PodInfo, view: Fork) -> Iterator[Unknown]:
    """Yield one Unknown for each effect that changes between versions may have on the pod.

    The changes are known only from release notes. Each Unknown names the pull requests of all changes with its effect.
    Changes that do not concern the pod are left out.
    """
    pull_requests_by_effect: dict[Effect, list[str]] = {}
    for change in changes:
        if change.concerns(info, view):
            pull_requests_by_effect.setdefault(change.effect, []).append(change.change.upstream)
    for effect, pull_requests in pull_requests_by_effect.items():
        distinct = ", ".join(dict.fromkeys(pull_requests))
        yield Unknown(Dependency(RELEASE_NOTE_KIND, effect), Gap(ONLY_IN_RELEASE_NOTES.format(distinct)))
