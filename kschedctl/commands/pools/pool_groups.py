"""Cluster Autoscaler's node groups among the pools: their limits, and pending pods that their nodes would take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, read_groups, read_options
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun
from kschedctl.autoscaling.node_groups.discovery import NodeGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.pools.report import PoolReport
from kschedctl.replay.pools import Pools
from kschedctl.snapshot.fork import Fork


class PoolGroups:
    """Node groups of a cluster. Raises InputError."""

    def __init__(self, cluster: Cluster, told: NodeGroups, now: str) -> None:
        self.told = told
        self._read = read_groups(told.groups)
        flags, faults = read_options(told.options)
        self.faults = (*told.faults, *self._read.errors, *faults)
        self._loop = AutoscalerLoop.begin(cluster, self._read, flags, now, told.active_scale_ups)

    def assign_pools(self, by_label: Pools, view: Fork) -> Pools:
        """Return the pools with nodes of groups reassigned to pools named after the group."""
        names = {name: at for at, name in enumerate(by_label.names)}
        code = by_label.code.copy()
        for node, group in self._read.of_node.items():
            if (row := view.nodes.index.get(node)) is not None:
                code[row] = names.setdefault(group.id, len(names))
        kept, inner = np.unique(code, return_inverse=True)
        listed = list(names)
        return Pools(tuple(listed[at] for at in kept.tolist()), inner.astype(np.int32), by_label.workers)

    def add_groups(self, pools: Mapping[str, PoolReport]) -> dict[str, PoolReport]:
        """Add limits and pending pods to pools that are groups, and add groups without nodes."""
        loop = self._loop
        waiting = {} if loop.ends_immediately else ScaleUpRun(loop).count_acceptable_pods(loop.place_waiting_pods())
        grouped = {
            group.id: self._add_limits(
                replace(pools.get(group.id, PoolReport(group.id)), waiting=waiting.get(group.id)), group
            )
            for group in self._read.all
        }
        return {**pools, **grouped}

    def _add_limits(self, pool: PoolReport, group: AutoscaledGroup) -> PoolReport:
        """Return the pool with the group's size limits, if they are known."""
        if not self.told.limits_known:
            return pool
        return replace(pool, min=group.min, target=group.target, max=group.max)
