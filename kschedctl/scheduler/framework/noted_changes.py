"""Version changes that are known only from release notes; answers that they may affect say so.

A change that was read in upstream's source, or observed in its answers, is an ordinary rule. For the others, a plugin
declares which pods they concern and what they could do to an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion, reaches
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

RELEASE_NOTE_KIND = "ReleaseNote"
ONLY_IN_RELEASE_NOTES = "alone tell of {}"
ConcernsPod = Callable[[PodInfo, Fork], bool]


class NotedChange(NamedTuple):
    """A change that is known only from release notes."""

    change: ByVersion[object]
    """The row of the version table."""
    effect: Effect
    """What the change could do to an answer about a pod."""
    concerns: ConcernsPod
    """Returns whether the change concerns a pod."""
    gate: str = ""
    """The feature gate without which the change has no effect."""

    def applies(self, gates: FeatureGates) -> bool:
        """Return whether the version has the change and its feature gate is on."""
        return reaches(gates.release, self.change.from_notes) and (not self.gate or gates.enabled(self.gate))


def find_noted_unknowns(changes: Iterable[NotedChange], info: PodInfo, view: Fork) -> Iterator[Unknown]:
    """Yield the unknowns of an answer about a pod that come from changes known only from release notes."""
    by_effect: dict[Effect, list[str]] = {}
    for change in changes:
        if change.concerns(info, view):
            by_effect.setdefault(change.effect, []).append(change.change.upstream)
    for effect, requests in by_effect.items():
        yield Unknown(
            Dependency(RELEASE_NOTE_KIND, effect), Gap(ONLY_IN_RELEASE_NOTES.format(", ".join(dict.fromkeys(requests))))
        )
