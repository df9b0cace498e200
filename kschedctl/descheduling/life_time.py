"""Pods that are older than they may become. Upstream: pkg/framework/plugins/podlifetime."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod
from kschedctl.descheduling.arguments import PodLifeTimeArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin

SECOND = 10**6
"""In microseconds."""


class PodLifeTime(DeschedulerPlugin[PodLifeTimeArgs]):
    """The oldest go first, so that limits and budgets keep the younger ones."""

    name = "PodLifeTime"

    def run(self) -> None:
        chosen = self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(chosen & self.seen.where(self._is_meant))
        positions = positions[self._is_old[positions]]
        oldest_first = positions[np.argsort(self.seen.created[positions], kind="stable")]
        for position in oldest_first.tolist():
            if self.evict(position) is EvictionResult.TOTAL_LIMIT:
                return

    @property
    def _is_old(self) -> Bools:
        """(P,): whether a pod has lived longer than it may, in whole seconds."""
        most, age = self.arguments.max_pod_life_time_seconds, self.seen.now - self.seen.created
        if most is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // SECOND > most)

    def _is_meant(self, pod: Pod) -> bool:
        """Whether it is in one of the states, and of one of the owners."""
        states, owners = self.arguments.states, self.arguments.owner_kinds
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if states and pod.status.phase not in states and pod.status.reason not in states:
            return False
        if owners is None:
            return True
        return not kinds.isdisjoint(owners.include) if owners.include else kinds.isdisjoint(owners.exclude)
