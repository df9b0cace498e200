"""The descheduler plugin RemoveFailedPods. Upstream: pkg/framework/plugins/removefailedpods."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.objects import ContainerState, Pod
from kschedctl.descheduling.arguments import RemoveFailedPodsArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin

MICROSECONDS_PER_SECOND = 10**6


class RemoveFailedPods(DeschedulerPlugin[RemoveFailedPodsArgs]):
    """Evicts failed pods, node by node."""

    name = "RemoveFailedPods"

    def run(self) -> None:
        """Evict the failed pods."""
        self.evict_with_plugins(
            (side, position) for side in self.with_ended_pods() for position in side._find_candidates().tolist()
        )

    def _find_candidates(self) -> Rows:
        """Return the positions of the failed pods that match the arguments."""
        chosen = self.seen.match_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable(chosen & self.seen.select_infos(self._is_failed))
        return positions[(self._is_old & self._has_reason & self._has_exit_code)[positions]]

    def _is_failed(self, pod: Pod) -> bool:
        """Return whether the pod has failed and no owner is of an excluded kind."""
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return pod.status.phase == "Failed" and kinds.isdisjoint(self.arguments.exclude_owner_kinds)

    @property
    def _is_old(self) -> Bools:
        """Return a mask (P,) of the pods that have the minimum age, in whole seconds."""
        least, age = self.arguments.min_pod_lifetime_seconds, self.seen.now - self.seen.created
        return np.ones(len(age), np.bool_) if least is None else age // MICROSECONDS_PER_SECOND >= least

    @property
    def _has_reason(self) -> Bools:
        """Return a mask (P,) of the pods that have one of the given reasons, themselves or in a container."""
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
        """Return a mask (P,) of the pods with a container that ended with one of the exit codes, if these are given."""
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
        """Yield the container states that the arguments include."""
        return (status.state for status in containers.select(self.arguments.including_init_containers))
