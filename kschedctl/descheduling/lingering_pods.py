"""The descheduler plugins PodLifeTime, RemovePodsHavingTooManyRestarts and RemoveFailedPods.

Upstream: podlifetime, removepodshavingtoomanyrestarts and removefailedpods in pkg/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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
        """Evict the pods that match the arguments, the oldest first, until the total limit is reached."""
        candidates: list[tuple[PodLifeTime, int]] = []
        for plugin in self.list_plugins_with_ended_pods():
            candidates += [(plugin, position) for position in plugin._find_eviction_candidates().tolist()]

        def get_creation_time(candidate: tuple[PodLifeTime, int]) -> int:
            """Return the time when a candidate was created."""
            plugin, position = candidate
            return int(plugin.seen.created[position])

        report_progress = self.begin_evictions(len(candidates))
        for plugin, position in sorted(candidates, key=get_creation_time):
            report_progress(1)
            if plugin.request_eviction(position) is EvictionResult.TOTAL_LIMIT:
                return

    def _find_eviction_candidates(self) -> Rows:
        """Return the positions of the evictable pods that match the arguments."""
        matching_infos = self.seen.select_matching_infos(self.arguments.namespaces, self.arguments.label_selector)
        info_mask = matching_infos & self.seen.select_infos(self._has_selected_owner)
        positions = self.find_evictable_pods(info_mask)
        pod_mask = (
            self._pods_above_maximum_age
            & self._pods_in_configured_state
            & self._pods_with_configured_exit_code
            & self._pods_with_matching_condition
        )
        return positions[pod_mask[positions]]

    @property
    def _pods_above_maximum_age(self) -> Bools:
        """The pods whose age in whole seconds exceeds the maximum, as a (P,) mask.

        Without a maximum age, all pods are in the mask.
        """
        max_seconds = self.arguments.max_pod_life_time_seconds
        age = self.seen.now - self.seen.created
        if max_seconds is None:
            return np.ones(len(age), np.bool_)
        return (age >= 0) & (age // MICROSECONDS_PER_SECOND > max_seconds)

    @property
    def _pods_in_configured_state(self) -> Bools:
        """The pods in a configured state, or with a container in a configured state, as a (P,) mask.

        Without configured states, all pods are in the mask.
        """
        states = self.arguments.states
        if not states:
            return np.ones_like(self.seen.moved)
        return find_pods_in_states(self.seen, states, self._has_container_in_configured_state, include_reasons=True)

    def _has_container_in_configured_state(self, containers: NotableContainers) -> bool:
        """Return whether a container is waiting or has terminated for one of the configured reasons."""
        arguments = self.arguments
        statuses = containers.iter_statuses(
            arguments.including_init_containers, arguments.including_ephemeral_containers
        )
        states = (state for status in statuses for state in (status.state.waiting, status.state.terminated))
        return any(state is not None and state.reason in arguments.states for state in states)

    @property
    def _pods_with_configured_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, all pods are in the mask.
        """
        return _find_pods_with_exit_code(
            self.seen, self.arguments.exit_codes, init_containers=self.arguments.including_init_containers
        )

    @property
    def _pods_with_matching_condition(self) -> Bools:
        """The pods with a condition that matches a configured filter, as a (P,) mask.

        Pods that were moved count as having only the condition Ready. Without filters, all pods are in the mask.
        """
        filters = self.arguments.conditions
        if not filters:
            return np.ones(len(self.seen.moved), np.bool_)

        def matches_any_filter(conditions: Iterable[Condition]) -> bool:
            """Return whether any of the conditions matches any of the filters."""
            return any(condition_filter.matches(condition) for condition_filter in filters for condition in conditions)

        has_match = self.seen.select_infos(lambda pod: matches_any_filter(pod.status.conditions))
        return np.where(self.seen.moved, matches_any_filter([READY]), has_match[self.seen.info])

    def _has_selected_owner(self, pod: Pod) -> bool:
        """Return whether the arguments select the pod by the kinds of its owners.

        If kinds are included, an owner must have one of them. Otherwise, no owner may have an excluded kind.
        """
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
        """Evict the pods with too many restarts, node by node, until the total limit is reached.

        On each node, the pods with the most restarts come first.
        """
        candidates = [
            candidate for plugin in self.list_plugins_with_ended_pods() for candidate in plugin._iter_restarted_pods()
        ]
        candidates.sort(key=lambda candidate: (candidate.row, -candidate.restarts))
        self.evict_candidates_node_by_node(
            ((candidate.plugin, candidate.position) for candidate in candidates), len(candidates)
        )

    def _iter_restarted_pods(self) -> Iterator[RestartedPod]:
        """Yield the evictable pods with too many restarts.

        If states are configured, only pods in one of these states are yielded.
        """
        arguments, restarts = self.arguments, self._restart_counts
        evictable = self.find_evictable_pods(
            self.seen.select_matching_infos(arguments.namespaces, arguments.label_selector)
        )
        candidates = evictable[restarts[evictable] >= arguments.pod_restart_threshold]
        if arguments.states:
            is_in_states = find_pods_in_states(self.seen, arguments.states, self._waits_for_configured_reason)
            candidates = candidates[is_in_states[candidates]]
        for position in candidates.tolist():
            yield RestartedPod(self, position, row=int(self.view.node[position]), restarts=int(restarts[position]))

    @property
    def _restart_counts(self) -> Rows:
        """The total number of restarts of each pod's containers, (P,)."""
        with_init_containers = self.arguments.including_init_containers
        return self.seen.measure_containers(
            lambda containers: sum(status.restart_count for status in containers.iter_statuses(with_init_containers))
        )

    def _waits_for_configured_reason(self, containers: NotableContainers) -> bool:
        """Return whether a container waits for one of the configured reasons."""
        statuses = containers.iter_statuses(self.arguments.including_init_containers)
        waiting_states = [status.state.waiting for status in statuses if status.state.waiting is not None]
        return any(waiting.reason in self.arguments.states for waiting in waiting_states)


class RemoveFailedPods(DeschedulerPlugin[RemoveFailedPodsArgs]):
    """A plugin that evicts failed pods node by node."""

    name = "RemoveFailedPods"

    def run(self) -> None:
        """Evict the failed pods that match the arguments, node by node, until the total limit is reached."""
        self.evict_candidates_node_by_node(
            (plugin, position)
            for plugin in self.list_plugins_with_ended_pods()
            for position in plugin._find_eviction_candidates().tolist()
        )

    def _find_eviction_candidates(self) -> Rows:
        """Return the positions of the evictable failed pods that match the arguments."""
        matching_infos = self.seen.select_matching_infos(self.arguments.namespaces, self.arguments.label_selector)
        info_mask = matching_infos & self.seen.select_infos(self._is_selected_failed_pod)
        positions = self.find_evictable_pods(info_mask)
        pod_mask = self._old_enough_pods & self._pods_with_configured_reason & self._pods_with_configured_exit_code
        return positions[pod_mask[positions]]

    def _is_selected_failed_pod(self, pod: Pod) -> bool:
        """Return whether the pod has failed and none of its owners has an excluded kind."""
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return pod.status.phase == "Failed" and kinds.isdisjoint(self.arguments.exclude_owner_kinds)

    @property
    def _old_enough_pods(self) -> Bools:
        """The pods whose age in whole seconds is at least the minimum, as a (P,) mask.

        Without a minimum age, all pods are in the mask.
        """
        min_seconds = self.arguments.min_pod_lifetime_seconds
        age = self.seen.now - self.seen.created
        if min_seconds is None:
            return np.ones(len(age), np.bool_)
        return age // MICROSECONDS_PER_SECOND >= min_seconds

    @property
    def _pods_with_configured_reason(self) -> Bools:
        """The pods whose own status, or that of a container, has a configured reason, as a (P,) mask.

        If no reasons are configured, all pods are in the mask.
        """
        reasons = self.arguments.reasons
        if not reasons:
            pod_count = len(self.seen.info)
            return np.ones(pod_count, np.bool_)
        infos_with_reason = self.seen.select_infos(lambda pod: bool(pod.status.reason) and pod.status.reason in reasons)
        pods_with_container_reason = self.seen.measure_containers(self._has_container_reason) > 0
        return infos_with_reason[self.seen.info] | pods_with_container_reason

    def _has_container_reason(self, containers: NotableContainers) -> bool:
        """Return whether a container waits or has terminated for one of the configured reasons."""
        statuses = containers.iter_statuses(self.arguments.including_init_containers)
        states = (state for status in statuses for state in (status.state.waiting, status.state.terminated))
        return any(state is not None and state.reason and state.reason in self.arguments.reasons for state in states)

    @property
    def _pods_with_configured_exit_code(self) -> Bools:
        """The pods with a container that ended with a configured exit code, as a (P,) mask.

        Without configured exit codes, all pods are in the mask.
        """
        return _find_pods_with_exit_code(
            self.seen, self.arguments.exit_codes, init_containers=self.arguments.including_init_containers
        )


def _find_pods_with_exit_code(seen: SeenPods, exit_codes: Collection[int], *, init_containers: bool) -> Bools:
    """Return a (P,) mask of the pods with a container that ended with one of the exit codes.

    Without exit codes, all pods are in the mask. With ``init_containers``, init containers also count.
    """
    if not exit_codes:
        return np.ones(len(seen.moved), np.bool_)

    def has_exit_code(containers: NotableContainers) -> bool:
        """Return whether one of the containers ended with one of the exit codes."""
        terminations = (status.state.terminated for status in containers.iter_statuses(init_containers))
        return any(terminated is not None and terminated.exit_code in exit_codes for terminated in terminations)

    return seen.measure_containers(has_exit_code).astype(np.bool_)
