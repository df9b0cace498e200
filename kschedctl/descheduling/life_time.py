"""The descheduler plugin PodLifeTime. Upstream: pkg/framework/plugins/podlifetime."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import Condition, Pod
from kschedctl.descheduling.arguments import PodLifeTimeArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.states import find_pods_in_states

READY = Condition("Ready", "True")
MICROSECONDS_PER_SECOND = 10**6


class PodLifeTime(DeschedulerPlugin[PodLifeTimeArgs]):
    """Evicts pods that are too old, oldest first, so that limits and budgets protect the younger ones."""

    name = "PodLifeTime"

    def run(self) -> None:
        """Evict the pods that are too old."""
        sides = self.with_ended_pods()
        candidates = [
            (int(side.seen.created[position]), side_index, position)
            for side_index, side in enumerate(sides)
            for position in side._find_candidates().tolist()
        ]
        for _, side_index, position in sorted(candidates, key=itemgetter(0)):
            if sides[side_index].evict(position) is EvictionResult.TOTAL_LIMIT:
                return

    def _find_candidates(self) -> Rows:
        """Return the positions of the pods that match the arguments, by node."""
        chosen = self.seen.match_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable(chosen & self.seen.select_infos(self._has_selected_owner))
        matches = self._is_old & self._is_in_states & self._has_exit_code & self._has_condition
        return positions[matches[positions]]

    @property
    def _is_old(self) -> Bools:
        """Return a mask (P,) of the pods that exceed the maximum age, in whole seconds."""
        most, age = self.arguments.max_pod_life_time_seconds, self.seen.now - self.seen.created
        if most is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // MICROSECONDS_PER_SECOND > most)

    @property
    def _is_in_states(self) -> Bools:
        """Return a mask (P,) of the pods that are in one of the given states, themselves or in a container."""
        states = self.arguments.states
        if not states:
            return np.ones(len(self.seen.moved), np.bool_)
        return find_pods_in_states(self.seen, states, self._has_container_state, reasons=True)

    def _has_container_state(self, containers: NotableContainers) -> bool:
        """Return whether a container is in one of the states."""
        arguments = self.arguments
        chosen = containers.select(arguments.including_init_containers, arguments.including_ephemeral_containers)
        parts = (part for status in chosen for part in (status.state.waiting, status.state.terminated))
        return any(part is not None and part.reason in arguments.states for part in parts)

    @property
    def _has_exit_code(self) -> Bools:
        """Return a mask (P,) of the pods with a container that ended with one of the exit codes, if these are given."""
        codes, init = self.arguments.exit_codes, self.arguments.including_init_containers
        if not codes:
            return np.ones(len(self.seen.moved), np.bool_)
        ends = self.seen.measure_containers(
            lambda containers: any(
                s.state.terminated and s.state.terminated.exit_code in codes for s in containers.select(init)
            )
        )
        return ends.astype(np.bool_)

    @property
    def _has_condition(self) -> Bools:
        """Return a mask (P,) of the pods with a condition that matches a filter. Pods that were moved are ready."""
        filters = self.arguments.conditions
        if not filters:
            return np.ones(len(self.seen.moved), np.bool_)
        holds = self.seen.select_infos(lambda pod: any(f.matches(c) for f in filters for c in pod.status.conditions))
        return np.where(self.seen.moved, any(f.matches(READY) for f in filters), holds[self.seen.info])

    def _has_selected_owner(self, pod: Pod) -> bool:
        """Return whether the pod's owners are included, or not excluded."""
        owners = self.arguments.owner_kinds
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if owners is None:
            return True
        return not kinds.isdisjoint(owners.include) if owners.include else kinds.isdisjoint(owners.exclude)
