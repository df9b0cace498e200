"""Pods that are older than they may become. Upstream: pkg/framework/plugins/podlifetime."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import Condition, Pod
from kschedctl.descheduling.arguments import PodLifeTimeArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.states import in_states

READY = Condition("Ready", "True")
SECOND = 10**6
"""In microseconds."""


class PodLifeTime(DeschedulerPlugin[PodLifeTimeArgs]):
    """The oldest go first, so that limits and budgets keep the younger ones."""

    name = "PodLifeTime"

    def run(self) -> None:
        sides = self.all_sides()
        candidates = [
            (int(side.seen.created[position]), number, position)
            for number, side in enumerate(sides)
            for position in side._candidates().tolist()
        ]
        for _, number, position in sorted(candidates, key=itemgetter(0)):
            if sides[number].evict(position) is EvictionResult.TOTAL_LIMIT:
                return

    def _candidates(self) -> Rows:
        """By node."""
        chosen = self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(chosen & self.seen.where(self._is_meant))
        meant = self._is_old & self._is_in_states & self._has_exit_code & self._has_condition
        return positions[meant[positions]]

    @property
    def _is_old(self) -> Bools:
        """(P,): whether a pod has lived longer than it may, in whole seconds."""
        most, age = self.arguments.max_pod_life_time_seconds, self.seen.now - self.seen.created
        if most is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // SECOND > most)

    @property
    def _is_in_states(self) -> Bools:
        """(P,): whether a pod, or one of its containers, is in one of the states, if any are named."""
        states = self.arguments.states
        if not states:
            return np.ones(len(self.seen.came), np.bool_)
        return in_states(self.seen, states, self._tells_state, reasons=True)

    def _tells_state(self, told: NotableContainers) -> bool:
        arguments = self.arguments
        chosen = told.select(arguments.including_init_containers, arguments.including_ephemeral_containers)
        parts = (part for status in chosen for part in (status.state.waiting, status.state.terminated))
        return any(part is not None and part.reason in arguments.states for part in parts)

    @property
    def _has_exit_code(self) -> Bools:
        """(P,): whether a container has ended with one of the exit codes, if any are named."""
        codes, init = self.arguments.exit_codes, self.arguments.including_init_containers
        if not codes:
            return np.ones(len(self.seen.came), np.bool_)
        ends = self.seen.by_containers(
            lambda told: any(s.state.terminated and s.state.terminated.exit_code in codes for s in told.select(init))
        )
        return ends.astype(np.bool_)

    @property
    def _has_condition(self) -> Bools:
        """(P,): whether a condition is as one of the filters says, if there are any; who has moved is ready."""
        filters = self.arguments.conditions
        if not filters:
            return np.ones(len(self.seen.came), np.bool_)
        holds = self.seen.where(lambda pod: any(f.selects(c) for f in filters for c in pod.status.conditions))
        return np.where(self.seen.came, any(f.selects(READY) for f in filters), holds[self.seen.info])

    def _is_meant(self, pod: Pod) -> bool:
        """Whether it is of one of the owners."""
        owners = self.arguments.owner_kinds
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if owners is None:
            return True
        return not kinds.isdisjoint(owners.include) if owners.include else kinds.isdisjoint(owners.exclude)
