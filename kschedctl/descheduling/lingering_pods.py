"""The descheduler plugins PodLifeTime, RemovePodsHavingTooManyRestarts and RemoveFailedPods.

Upstream: podlifetime, removepodshavingtoomanyrestarts and removefailedpods in pkg/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import Condition, Pod
from kschedctl.descheduling.arguments import PodLifeTimeArgs, RemoveFailedPodsArgs, RemovePodsHavingTooManyRestartsArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.seen_pods import SeenPods, find_pods_in_states

READY = Condition("Ready", "True")
MICROSECONDS_PER_SECOND = 10**6


class PodLifeTime(DeschedulerPlugin[PodLifeTimeArgs]):
    """A plugin that evicts pods that are too old or in certain states.

    The oldest pods are evicted first, so that limits and budgets protect younger ones.
    """

    name = "PodLifeTime"

    def run(self) -> None:
        """Evict the matching pods, the oldest first, until the total limit is reached."""
        candidates = [
            (plugin, position) for plugin in self.with_ended_pods() for position in plugin._find_candidates().tolist()
        ]

        def get_creation_time(candidate: tuple[PodLifeTime, int]) -> int:
            """Return the time when a candidate was created."""
            plugin, position = candidate
            return int(plugin.seen.created[position])

        for plugin, position in sorted(candidates, key=get_creation_time):
            if plugin.evict(position) is EvictionResult.TOTAL_LIMIT:
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
        max_seconds = self.arguments.max_pod_life_time_seconds
        age = self.seen.now - self.seen.created
        if max_seconds is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // MICROSECONDS_PER_SECOND > max_seconds)

    @property
    def _is_in_states(self) -> Bools:
        """The pods in one of the configured states, themselves or in a container, as a (P,) mask.

        Without configured states, these are all pods.
        """
        states = self.arguments.states
        if not states:
            return np.ones(len(self.seen.moved), np.bool_)
        return find_pods_in_states(self.seen, states, self._is_in_configured_state, reasons=True)

    def _is_in_configured_state(self, containers: NotableContainers) -> bool:
        """Return whether a container is waiting or has terminated for one of the configured reasons."""
        arguments = self.arguments
        statuses = containers.select(arguments.including_init_containers, arguments.including_ephemeral_containers)
        states = (state for status in statuses for state in (status.state.waiting, status.state.terminated))
        return any(state is not None and state.reason in arguments.states for state in states)

    @property
    def _has_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, these are all pods.
        """
        return _find_pods_with_exit_code(
            self.seen, self.arguments.exit_codes, init_containers=self.arguments.including_init_containers
        )

    @property
    def _has_condition(self) -> Bools:
        """The pods with a condition that matches a filter, as a (P,) mask.

        Pods that were moved are ready. Without filters, these are all pods.
        """
        filters = self.arguments.conditions
        if not filters:
            return np.ones(len(self.seen.moved), np.bool_)
        has_match = self.seen.select_infos(
            lambda pod: any(f.matches(condition) for f in filters for condition in pod.status.conditions)
        )
        is_ready_enough = any(f.matches(READY) for f in filters)
        return np.where(self.seen.moved, is_ready_enough, has_match[self.seen.info])

    def _has_selected_owner(self, pod: Pod) -> bool:
        """Return whether the arguments include one of the kinds of the pod's owners, or exclude none of them."""
        selection = self.arguments.owner_kinds
        if selection is None:
            return True
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if selection.include:
            return not kinds.isdisjoint(selection.include)
        return kinds.isdisjoint(selection.exclude)


class RestartedPod(NamedTuple):
    """A pod with too many restarts, and the plugin that evicts it."""

    plugin: RemovePodsHavingTooManyRestarts
    position: int
    row: int
    """The row of its node."""
    restarts: int


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin[RemovePodsHavingTooManyRestartsArgs]):
    """A plugin that evicts pods with containers that have restarted too often."""

    name = "RemovePodsHavingTooManyRestarts"

    def run(self) -> None:
        """Evict the pods with too many restarts node by node, those with the most restarts first."""
        candidates = [candidate for plugin in self.with_ended_pods() for candidate in plugin._iter_candidates()]
        candidates.sort(key=lambda candidate: (candidate.row, -candidate.restarts))
        self.evict_with_plugins((candidate.plugin, candidate.position) for candidate in candidates)

    def _iter_candidates(self) -> Iterator[RestartedPod]:
        """Yield the evictable pods with too many restarts, and in one of the configured states if there are any."""
        arguments, restarts = self.arguments, self._restart_counts
        positions = self.find_evictable_pods(self.seen.match_infos(arguments.namespaces, arguments.label_selector))
        positions = positions[restarts[positions] >= arguments.pod_restart_threshold]
        if arguments.states:
            is_in_states = find_pods_in_states(self.seen, arguments.states, self._is_waiting)
            positions = positions[is_in_states[positions]]
        for position in positions.tolist():
            yield RestartedPod(self, position, row=int(self.view.node[position]), restarts=int(restarts[position]))

    @property
    def _restart_counts(self) -> Rows:
        """The number of restarts of each pod's containers, (P,)."""
        with_init_containers = self.arguments.including_init_containers
        return self.seen.measure_containers(
            lambda containers: sum(status.restart_count for status in containers.select(with_init_containers))
        )

    def _is_waiting(self, containers: NotableContainers) -> bool:
        """Return whether a container waits for one of the configured reasons."""
        statuses = containers.select(self.arguments.including_init_containers)
        return any(s.state.waiting is not None and s.state.waiting.reason in self.arguments.states for s in statuses)


class RemoveFailedPods(DeschedulerPlugin[RemoveFailedPodsArgs]):
    """A plugin that evicts failed pods node by node."""

    name = "RemoveFailedPods"

    def run(self) -> None:
        """Evict the failed pods that match the arguments, node by node."""
        self.evict_with_plugins(
            (plugin, position) for plugin in self.with_ended_pods() for position in plugin._find_candidates().tolist()
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
        min_seconds = self.arguments.min_pod_lifetime_seconds
        age = self.seen.now - self.seen.created
        if min_seconds is None:
            return np.ones(len(age), np.bool_)
        return age // MICROSECONDS_PER_SECOND >= min_seconds

    @property
    def _has_reason(self) -> Bools:
        """The pods with one of the configured reasons, themselves or in a container, as a (P,) mask.

        Without configured reasons, these are all pods.
        """
        reasons = self.arguments.reasons
        if not reasons:
            return np.ones(len(self.seen.moved), np.bool_)
        has_pod_reason = self.seen.select_infos(lambda pod: bool(pod.status.reason) and pod.status.reason in reasons)
        has_container_reason = self.seen.measure_containers(self._has_container_reason).astype(np.bool_)
        return has_pod_reason[self.seen.info] | has_container_reason

    def _has_container_reason(self, containers: NotableContainers) -> bool:
        """Return whether a container waits or has terminated for one of the configured reasons."""
        statuses = containers.select(self.arguments.including_init_containers)
        states = (state for status in statuses for state in (status.state.waiting, status.state.terminated))
        return any(state is not None and state.reason and state.reason in self.arguments.reasons for state in states)

    @property
    def _has_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, these are all pods.
        """
        return _find_pods_with_exit_code(
            self.seen, self.arguments.exit_codes, init_containers=self.arguments.including_init_containers
        )


def _find_pods_with_exit_code(seen: SeenPods, exit_codes: Collection[int], *, init_containers: bool) -> Bools:
    """Return a (P,) mask of the pods with a container that ended with one of the exit codes, or of all without codes.

    ``init_containers`` includes init containers.
    """
    if not exit_codes:
        return np.ones(len(seen.moved), np.bool_)

    def has_exit_code(containers: NotableContainers) -> bool:
        """Return whether one of the containers ended with one of the exit codes."""
        ends = (status.state.terminated for status in containers.select(init_containers))
        return any(end is not None and end.exit_code in exit_codes for end in ends)

    return seen.measure_containers(has_exit_code).astype(np.bool_)
