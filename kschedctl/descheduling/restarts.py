"""Pods whose containers have restarted too often. Upstream: pkg/framework/plugins/removepodshavingtoomanyrestarts."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Rows
from kschedctl.api.container_states import NotableContainers
from kschedctl.descheduling.arguments import RemovePodsHavingTooManyRestartsArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.states import in_states


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin[RemovePodsHavingTooManyRestartsArgs]):
    """Of a node those that have restarted most go first."""

    name = "RemovePodsHavingTooManyRestarts"

    def run(self) -> None:
        candidates = [(*place, side, position) for side in self.all_sides() for place, position in side._candidates()]
        candidates.sort(key=lambda candidate: candidate[:2])
        self.evict_of_all_sides((side, position) for _, _, side, position in candidates)

    def _candidates(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Pods, each with its row and the negative number of its restarts."""
        arguments, restarts = self.arguments, self._restarts
        positions = self.evictable(self.seen.chosen(arguments.namespaces, arguments.label_selector))
        positions = positions[restarts[positions] >= arguments.pod_restart_threshold]
        if arguments.states:
            waiting = in_states(self.seen, arguments.states, self._is_waiting)
            positions = positions[waiting[positions]]
        rows, numbers = self.view.node[positions].tolist(), (-restarts[positions]).tolist()
        yield from zip(zip(rows, numbers, strict=True), positions.tolist(), strict=True)

    @property
    def _restarts(self) -> Rows:
        """(P,): how often the containers of each pod have restarted."""
        init = self.arguments.including_init_containers
        return self.seen.by_containers(lambda told: sum(status.restart_count for status in told.select(init)))

    def _is_waiting(self, told: NotableContainers) -> bool:
        """Whether a container waits for one of the states."""
        chosen = told.select(self.arguments.including_init_containers)
        return any(s.state.waiting is not None and s.state.waiting.reason in self.arguments.states for s in chosen)
