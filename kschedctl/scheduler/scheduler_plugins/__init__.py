"""Plugins of kubernetes-sigs/scheduler-plugins, which some scheduler builds include besides the built-in plugins.

`coscheduling`, `capacity_scheduling` (with `elastic_quotas`), `node_resources_allocatable` and
`node_resource_topology_match` (with `topology_match_args`, `numa_nodes` and `numa_cache`) have a plugin
each. The class here is a mixin for several of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import Changes, Reservation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class PlacedIsReserved:
    """Mixin of a Reserve plugin that changes no object.

    Its answers still change after a pod is placed, because they depend on the pods on the node.
    """

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: object) -> Changes:
        """Return no changes."""
        return {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """Return no changes."""
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: object) -> Reservation:
        """Return an empty reservation."""
        return Reservation()
