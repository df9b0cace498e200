"""Changes of a version that its release notes alone tell: where they matter, answers say so.

A change that was read in upstream's source, or seen in its answers, is a rule like any other. Of the others a plugin
says which pods they concern, and what they could do to an answer.
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

NOTES = "ReleaseNote"
ALONE_TELL = "alone tell of {}"
Concerns = Callable[[PodInfo, Fork], bool]


class NotedChange(NamedTuple):
    """``change``: the row of the version table; ``effect``: what it could do to an answer about a pod.

    ``concerns``: about which pods; ``gate``: that without which it changes nothing.
    """

    change: ByVersion[object]
    effect: Effect
    concerns: Concerns
    gate: str = ""

    def holds(self, gates: FeatureGates) -> bool:
        """Whether the version has it."""
        return reaches(gates.release, self.change.from_notes) and (not self.gate or gates.enabled(self.gate))


def noted(changes: Iterable[NotedChange], info: PodInfo, view: Fork) -> Iterator[Unknown]:
    """What an answer about a pod leans on of changes that only release notes tell."""
    by_effect: dict[Effect, list[str]] = {}
    for change in changes:
        if change.concerns(info, view):
            by_effect.setdefault(change.effect, []).append(change.change.upstream)
    for effect, requests in by_effect.items():
        yield Unknown(Dependency(NOTES, effect), Gap(ALONE_TELL.format(", ".join(dict.fromkeys(requests)))))
