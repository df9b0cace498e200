"""Pods that have failed. Upstream: pkg/framework/plugins/removefailedpods."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import ContainerState, Pod
from kschedctl.descheduling.arguments import RemoveFailedPodsArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin

SECOND = 10**6
"""In microseconds."""


class RemoveFailedPods(DeschedulerPlugin[RemoveFailedPodsArgs]):
    """By node, whatever the order."""

    name = "RemoveFailedPods"

    def run(self) -> None:
        self.evict_of_all_sides(
            (side, position) for side in self.all_sides() for position in side._candidates().tolist()
        )

    def _candidates(self) -> Rows:
        chosen = self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(chosen & self.seen.where(self._is_meant))
        return positions[(self._is_old & self._has_reason & self._has_exit_code)[positions]]

    def _is_meant(self, pod: Pod) -> bool:
        """Whether it has failed, and no owner is of an excluded kind."""
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return pod.status.phase == "Failed" and kinds.isdisjoint(self.arguments.exclude_owner_kinds)

    @property
    def _is_old(self) -> Bools:
        """(P,): whether a pod has lived as long as it has to, in whole seconds."""
        least, age = self.arguments.min_pod_lifetime_seconds, self.seen.now - self.seen.created
        return np.ones(len(age), np.bool_) if least is None else age // SECOND >= least

    @property
    def _has_reason(self) -> Bools:
        """(P,): whether the pod or one of its containers tells one of the reasons, if any are named."""
        reasons = self.arguments.reasons
        if not reasons:
            return np.ones(len(self.seen.came), np.bool_)
        own = self.seen.where(lambda pod: bool(pod.status.reason) and pod.status.reason in reasons)
        of_containers = self.seen.by_containers(
            lambda told: any(
                part is not None and part.reason and part.reason in reasons
                for state in self._states(told)
                for part in (state.waiting, state.terminated)
            )
        )
        return own[self.seen.info] | of_containers.astype(np.bool_)

    @property
    def _has_exit_code(self) -> Bools:
        """(P,): whether a container has ended with one of the exit codes, if any are named."""
        codes = self.arguments.exit_codes
        if not codes:
            return np.ones(len(self.seen.came), np.bool_)
        ends = self.seen.by_containers(
            lambda told: any(state.terminated and state.terminated.exit_code in codes for state in self._states(told))
        )
        return ends.astype(np.bool_)

    def _states(self, told: NotableContainers) -> Iterator[ContainerState]:
        return (status.state for status in told.select(self.arguments.including_init_containers))
