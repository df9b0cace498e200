"""The descheduler plugins PodLifeTime, RemovePodsHavingTooManyRestarts and RemoveFailedPods.

Upstream: podlifetime, removepodshavingtoomanyrestarts and removefailedpods in pkg/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import Condition, ContainerState, Pod
from kschedctl.descheduling.arguments import PodLifeTimeArgs, RemoveFailedPodsArgs, RemovePodsHavingTooManyRestartsArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.seen_pods import find_pods_in_states

READY = Condition("Ready", "True")
MICROSECONDS_PER_SECOND = 10**6


class PodLifeTime(DeschedulerPlugin[PodLifeTimeArgs]):
    """A plugin that evicts pods that are too old or in certain states.

    The oldest pods are evicted first, so that limits and budgets protect younger ones.
    """

    name = "PodLifeTime"

    def run(self) -> None:
        """Evict the matching pods, oldest first."""
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
        """Return the positions of the evictable pods that match the arguments."""
        chosen = self.seen.match_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable_pods(chosen & self.seen.select_infos(self._has_selected_owner))
        matches = self._is_old & self._is_in_states & self._has_exit_code & self._has_condition
        return positions[matches[positions]]

    @property
    def _is_old(self) -> Bools:
        """The pods that exceed the maximum age in whole seconds, as a (P,) mask.

        Without a maximum age, these are all pods.
        """
        most = self.arguments.max_pod_life_time_seconds
        age = self.seen.now - self.seen.created
        if most is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // MICROSECONDS_PER_SECOND > most)

    @property
    def _is_in_states(self) -> Bools:
        """The pods in one of the configured states, themselves or in a container, as a (P,) mask.

        Without configured states, these are all pods.
        """
        states = self.arguments.states
        if not states:
            return np.ones(len(self.seen.moved), np.bool_)
        return find_pods_in_states(self.seen, states, self._has_container_state, reasons=True)

    def _has_container_state(self, containers: NotableContainers) -> bool:
        """Return whether a container is in one of the configured states."""
        arguments = self.arguments
        chosen = containers.select(arguments.including_init_containers, arguments.including_ephemeral_containers)
        parts = (part for status in chosen for part in (status.state.waiting, status.state.terminated))
        return any(part is not None and part.reason in arguments.states for part in parts)

    @property
    def _has_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, these are all pods.
        """
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
        """The pods with a condition that matches a filter, as a (P,) mask.

        Pods that were moved are ready. Without filters, these are all pods.
        """
        filters = self.arguments.conditions
        if not filters:
            return np.ones(len(self.seen.moved), np.bool_)
        holds = self.seen.select_infos(lambda pod: any(f.matches(c) for f in filters for c in pod.status.conditions))
        return np.where(self.seen.moved, any(f.matches(READY) for f in filters), holds[self.seen.info])

    def _has_selected_owner(self, pod: Pod) -> bool:
        """Return whether the kinds of the pod's owners are selected by the arguments."""
        owners = self.arguments.owner_kinds
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if owners is None:
            return True
        return not kinds.isdisjoint(owners.include) if owners.include else kinds.isdisjoint(owners.exclude)


class RestartedPod(NamedTuple):
    """A pod with too many restarts."""

    row: int
    """The row of its node."""
    restarts: int
    position: int


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin[RemovePodsHavingTooManyRestartsArgs]):
    """A plugin that evicts pods whose containers have restarted too often."""

    name = "RemovePodsHavingTooManyRestarts"

    def run(self) -> None:
        """Evict the pods with too many restarts node by node, those with the most restarts first."""
        candidates = [(side, candidate) for side in self.with_ended_pods() for candidate in side._iter_candidates()]
        candidates.sort(key=lambda pair: (pair[1].row, -pair[1].restarts))
        self.evict_with_plugins((side, candidate.position) for side, candidate in candidates)

    def _iter_candidates(self) -> Iterator[RestartedPod]:
        """Yield the evictable pods with too many restarts."""
        arguments, restarts = self.arguments, self._restart_counts
        positions = self.find_evictable_pods(self.seen.match_infos(arguments.namespaces, arguments.label_selector))
        positions = positions[restarts[positions] >= arguments.pod_restart_threshold]
        if arguments.states:
            waiting = find_pods_in_states(self.seen, arguments.states, self._is_waiting)
            positions = positions[waiting[positions]]
        rows = self.view.node[positions].tolist()
        yield from map(RestartedPod, rows, restarts[positions].tolist(), positions.tolist())

    @property
    def _restart_counts(self) -> Rows:
        """The number of restarts of each pod's containers, (P,)."""
        init = self.arguments.including_init_containers
        return self.seen.measure_containers(
            lambda containers: sum(status.restart_count for status in containers.select(init))
        )

    def _is_waiting(self, containers: NotableContainers) -> bool:
        """Return whether a container waits for one of the configured reasons."""
        statuses = containers.select(self.arguments.including_init_containers)
        return any(s.state.waiting is not None and s.state.waiting.reason in self.arguments.states for s in statuses)


class RemoveFailedPods(DeschedulerPlugin[RemoveFailedPodsArgs]):
    """A plugin that evicts failed pods node by node."""

    name = "RemoveFailedPods"

    def run(self) -> None:
        """Evict the failed pods."""
        self.evict_with_plugins(
            (side, position) for side in self.with_ended_pods() for position in side._find_candidates().tolist()
        )

    def _find_candidates(self) -> Rows:
        """Return the positions of the evictable failed pods that match the arguments."""
        chosen = self.seen.match_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable_pods(chosen & self.seen.select_infos(self._is_failed))
        return positions[(self._is_old & self._has_reason & self._has_exit_code)[positions]]

    def _is_failed(self, pod: Pod) -> bool:
        """Return whether the pod has failed and none of its owners has an excluded kind."""
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return pod.status.phase == "Failed" and kinds.isdisjoint(self.arguments.exclude_owner_kinds)

    @property
    def _is_old(self) -> Bools:
        """The pods that have the minimum age in whole seconds, as a (P,) mask.

        Without a minimum age, these are all pods.
        """
        least = self.arguments.min_pod_lifetime_seconds
        age = self.seen.now - self.seen.created
        return np.ones(len(age), np.bool_) if least is None else age // MICROSECONDS_PER_SECOND >= least

    @property
    def _has_reason(self) -> Bools:
        """The pods with one of the configured reasons, themselves or in a container, as a (P,) mask.

        Without configured reasons, these are all pods.
        """
        reasons = self.arguments.reasons
        if not reasons:
            return np.ones(len(self.seen.moved), np.bool_)
        has_pod_reason = self.seen.select_infos(lambda pod: bool(pod.status.reason) and pod.status.reason in reasons)
        of_containers = self.seen.measure_containers(
            lambda containers: any(
                part is not None and part.reason and part.reason in reasons
                for state in self._iter_states(containers)
                for part in (state.waiting, state.terminated)
            )
        )
        return has_pod_reason[self.seen.info] | of_containers.astype(np.bool_)

    @property
    def _has_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, these are all pods.
        """
        codes = self.arguments.exit_codes
        if not codes:
            return np.ones(len(self.seen.moved), np.bool_)
        ends = self.seen.measure_containers(
            lambda containers: any(
                state.terminated and state.terminated.exit_code in codes for state in self._iter_states(containers)
            )
        )
        return ends.astype(np.bool_)

    def _iter_states(self, containers: NotableContainers) -> Iterator[ContainerState]:
        """Yield the states of the containers that the arguments include."""
        return (status.state for status in containers.select(self.arguments.including_init_containers))
