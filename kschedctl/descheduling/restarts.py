"""The descheduler plugin RemovePodsHavingTooManyRestarts.

Upstream: pkg/framework/plugins/removepodshavingtoomanyrestarts.
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.descheduling.arguments import RemovePodsHavingTooManyRestartsArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.states import find_pods_in_states


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin[RemovePodsHavingTooManyRestartsArgs]):
    """Evicts pods with too many restarts; on each node those with most restarts go first."""

    name = "RemovePodsHavingTooManyRestarts"

    def run(self) -> None:
        """Evict the pods with too many restarts."""
        candidates = [
            (*sort_key, side, position)
            for side in self.with_ended_pods()
            for sort_key, position in side._find_candidates()
        ]
        candidates.sort(key=lambda candidate: candidate[:2])
        self.evict_with_plugins((side, position) for _, _, side, position in candidates)

    def _find_candidates(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield row and negative number of restarts of each candidate, with its position."""
        arguments, restarts = self.arguments, self._restart_counts
        positions = self.find_evictable(self.seen.match_infos(arguments.namespaces, arguments.label_selector))
        positions = positions[restarts[positions] >= arguments.pod_restart_threshold]
        if arguments.states:
            waiting = find_pods_in_states(self.seen, arguments.states, self._is_waiting)
            positions = positions[waiting[positions]]
        rows, negative_restarts = self.view.node[positions].tolist(), (-restarts[positions]).tolist()
        yield from zip(zip(rows, negative_restarts, strict=True), positions.tolist(), strict=True)

    @property
    def _restart_counts(self) -> Rows:
        """Return how often the containers of each pod have restarted, (P,)."""
        init = self.arguments.including_init_containers
        return self.seen.measure_containers(
            lambda containers: sum(status.restart_count for status in containers.select(init))
        )

    def _is_waiting(self, containers: NotableContainers) -> bool:
        """Return whether a container waits for a reason that is one of the states."""
        statuses = containers.select(self.arguments.including_init_containers)
        return any(s.state.waiting is not None and s.state.waiting.reason in self.arguments.states for s in statuses)
