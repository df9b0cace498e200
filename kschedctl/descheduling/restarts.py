"""Pods whose containers have restarted too often. Upstream: pkg/framework/plugins/removepodshavingtoomanyrestarts."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Rows
from kschedctl.api.container_states import ContainersTold
from kschedctl.descheduling.arguments import RemovePodsHavingTooManyRestartsArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.descheduling.states import in_states


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin[RemovePodsHavingTooManyRestartsArgs]):
    """Of a node those that have restarted most go first."""

    name = "RemovePodsHavingTooManyRestarts"

    def run(self) -> None:
        arguments, restarts = self.arguments, self._restarts
        positions = self.evictable(self.seen.chosen(arguments.namespaces, arguments.label_selector))
        positions = positions[restarts[positions] >= arguments.pod_restart_threshold]
        if arguments.states:
            waiting = in_states(self.seen, arguments.states, self._is_waiting)
            positions = positions[waiting[positions]]
        order = np.lexsort((-restarts[positions], self.view.node[positions]))
        self.evict_node_by_node(positions[order].tolist())

    @property
    def _restarts(self) -> Rows:
        """(P,): how often the containers of each pod have restarted."""
        init = self.arguments.including_init_containers
        return self.seen.by_containers(lambda told: sum(status.restart_count for status in told.chosen(init)))

    def _is_waiting(self, told: ContainersTold) -> bool:
        """Whether a container waits for one of the states."""
        chosen = told.chosen(self.arguments.including_init_containers)
        return any(s.state.waiting is not None and s.state.waiting.reason in self.arguments.states for s in chosen)
