"""The command `pools`: which node pools are there, and how much is free on their nodes?

The library function `pools` comes first, then the reports on pools, then Cluster Autoscaler's node groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kschedctl.api.arrays import Amounts, Rows
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Node
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import Quantity
from kschedctl.api.resource_names import CPU, MEMORY, describe_amount
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import (
    AutoscaledGroup,
    read_autoscaled_groups,
    read_autoscaler_options,
)
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun
from kschedctl.autoscaling.karpenter.amounts import sum_quantities
from kschedctl.autoscaling.karpenter.disruption_budgets import UNLIMITED, compute_allowed_disruptions
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses
from kschedctl.autoscaling.karpenter.state_nodes import StateNode, build_state_nodes
from kschedctl.autoscaling.node_groups.discovery import NodeGroups, UserGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.pools.report import NodePools, PoolReport
from kschedctl.fixes.new_node import get_node_groups, has_any_node_groups
from kschedctl.replay.pools import Pools, compute_free_resources, find_nodes_with_free_slots, find_unready_nodes
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import ZONE
from kschedctl.sources.cluster import get_read_time
from kschedctl.text.counts import counted

NO_POOL = "(none)"
UNDERUTILIZED = "Underutilized"


def pools(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
) -> NodePools:
    """Report the node pools by name: their nodes and free resources. Also count the pending pods of the cluster.

    `groups`, `pool_label` and `where` are as for `scale_up`. `now` is the RFC 3339 time for the disruption budgets of
    Karpenter's NodePools. The default is the time when the cluster was read. Raises InputError if an argument or object
    is malformed.

    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(pools(cluster, now="2026-01-01T00:00:00Z"))
    '1 pool, 1 node, 0 pending pods'
    """
    user_groups = UserGroups(groups, {}, pool_label, where)
    now = now or get_read_time(cluster)
    pool_groups = None
    if has_any_node_groups(cluster, user_groups):
        pool_groups = PoolGroups(cluster, get_node_groups(cluster, user_groups), now)
    return report_pools(Scheduler(cluster), now, pool_groups)


def report_pools(scheduler: Scheduler, now: str, groups: PoolGroups | None = None) -> NodePools:
    """Build the report on all pools, sorted by name. Nodes without a pool come last.

    ``groups`` are the node groups of Cluster Autoscaler, which become pools as well. Raises InputError if a Karpenter
    object is malformed.
    """
    cluster, view = scheduler.cluster, scheduler.view
    division = groups.assign_pools(Pools.from_view(view), view) if groups else Pools.from_view(view)
    reports = {
        name: _build_pool_report(name, np.flatnonzero(division.code == code), view)
        for code, name in enumerate(division.names)
    }
    if groups:
        reports = groups.complete_pool_reports(reports)

    # Karpenter's NodePools, with or without nodes
    states = build_state_nodes(cluster) if cluster.karpenter_node_pools else []
    classes = NodeClasses(cluster)
    for pool in cluster.karpenter_node_pools:
        name = pool.metadata.name
        report = reports.get(name, PoolReport(name))
        states_of_pool = [state for state in states if state.pool == name]
        reports[name] = _add_node_pool_settings(report, pool, states_of_pool, classes, now)

    ordered = sorted(reports.values(), key=lambda pool: (pool.pool == NO_POOL, pool.pool))
    doubts = (*groups.node_groups.doubts, *groups.faults) if groups else ()
    sources = groups.node_groups.sources if groups else ()
    return NodePools(tuple(ordered), _count_pending_pods(cluster), sources, doubts, undecided=bool(doubts))


def _list_shapes(allocatable: Amounts) -> tuple[str, ...]:
    """Return the distinct amounts of cpu and memory of nodes as texts, the most frequent first.

    `allocatable` has a row (cpu, memory) for each node.
    """
    shapes = Counter(
        f"{describe_amount(CPU, cpu)}, {describe_amount(MEMORY, memory)}" for cpu, memory in allocatable.tolist()
    )
    return tuple(shape for shape, _ in shapes.most_common())


def _build_pool_report(name: str, rows: Rows, view: Fork) -> PoolReport:
    """Build the report on the pool whose nodes are in ``rows`` of the view.

    Free resources are those of nodes that are neither cordoned nor tainted as not ready. The largest free CPU is taken
    over the nodes that also have room for one more pod.
    """
    nodes: Sequence[Node] = [view.nodes.objects[row] for row in rows.tolist()]
    cordoned = view.nodes.unschedulable[rows]
    unready = find_unready_nodes(view)[rows] & ~cordoned
    usable_rows = rows[~cordoned & ~unready]
    free = compute_free_resources(view)[usable_rows]
    has_free_slot = find_nodes_with_free_slots(view)[usable_rows]
    cpu, memory = view.resources[CPU], view.resources[MEMORY]
    shared_taints = set.intersection(*({str(taint) for taint in node.spec.taints} for node in nodes))
    return PoolReport(
        pool=name or NO_POOL,
        nodes=len(nodes),
        ready=sum(map(_is_ready, nodes)),
        cordoned=int(cordoned.sum()),
        unready=int(unready.sum()),
        shapes=_list_shapes(view.allocatable[rows][:, [cpu, memory]]),
        zones=tuple(sorted({node.metadata.labels.get(ZONE, "") for node in nodes} - {""})),
        taints=tuple(sorted(shared_taints)),
        free_cpu=int(free[:, cpu].sum()),
        most_free_cpu=int(free[has_free_slot, cpu].max(initial=0)),
        free_memory=int(free[:, memory].sum()),
    )


def _is_ready(node: Node) -> bool:
    """Return whether the node is ready and not cordoned."""
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    return is_ready and not node.spec.unschedulable


def _add_node_pool_settings(
    report: PoolReport, pool: NodePool, states: Sequence[StateNode], classes: NodeClasses, now: str
) -> PoolReport:
    """Add the limits, the node class and the disruption policy of a Karpenter NodePool to its report."""
    limits = parse_quantities(pool.spec.limits or {})
    used = sum_quantities(*(state.capacity for state in states if not state.deleting))
    disruption = pool.spec.disruption
    allowed_count = compute_allowed_disruptions(pool, len(states), UNDERUTILIZED, parse_microseconds(now))
    allowed = "any number of nodes" if allowed_count == UNLIMITED else counted(allowed_count, "node")
    policy = f"{disruption.consolidation_policy} after {disruption.consolidate_after}"
    return replace(
        report,
        limits={name: f"{used.get(name, Quantity(0))} of {limit}" for name, limit in limits.items()},
        weight=pool.spec.weight,
        node_class=classes.describe_node_class(pool),
        disruption=f"{policy}, {allowed} may be disrupted now",
    )


def _count_pending_pods(cluster: Cluster) -> int:
    """Count the pods that have no node and are not terminated."""
    unbound: Iterable[bool] = (not pod.terminated for pod in cluster.pods.iter_unbound_pods())
    return sum(unbound)


class PoolGroups:
    """The node groups of a cluster that Cluster Autoscaler scales, as pools.

    Raises InputError if a group is malformed.
    """

    def __init__(self, cluster: Cluster, node_groups: NodeGroups, now: str) -> None:
        self.node_groups = node_groups
        self._groups = read_autoscaled_groups(node_groups.groups)
        flags, faults = read_autoscaler_options(node_groups.options)
        self.faults = (*node_groups.faults, *self._groups.errors, *faults)
        self._loop = AutoscalerLoop.from_cluster(cluster, self._groups, flags, now, node_groups.active_scale_ups)

    def assign_pools(self, by_label: Pools, view: Fork) -> Pools:
        """Move the nodes of each group to a pool with the group's name, and return the pools that have nodes.

        `by_label` are the pools according to the labels of nodes.
        """
        index_by_name = {name: index for index, name in enumerate(by_label.names)}
        pool_of_row = by_label.code.copy()
        for node, group in self._groups.of_node.items():
            row = view.nodes.index.get(node)
            if row is not None:
                pool_of_row[row] = index_by_name.setdefault(group.id, len(index_by_name))

        # Drop the pools whose nodes all moved to other pools, and number the remaining pools anew
        used_indexes, new_pool_of_row = np.unique(pool_of_row, return_inverse=True)
        names = tuple(index_by_name)
        used_names = tuple(names[index] for index in used_indexes.tolist())
        return Pools(used_names, code=new_pool_of_row.astype(np.int32), workers=by_label.workers)

    def complete_pool_reports(self, pools: Mapping[str, PoolReport]) -> dict[str, PoolReport]:
        """Return the reports with each group's size limits and the number of waiting pods that a new node would accept.

        Groups without nodes also get a report.
        """
        loop = self._loop
        waiting_by_group: Mapping[str, int] = {}
        if not loop.ends_immediately:
            waiting_by_group = ScaleUpRun(loop).count_acceptable_pods(loop.place_waiting_pods())

        completed = dict(pools)
        for group in self._groups.all:
            report = pools.get(group.id, PoolReport(group.id))
            report = replace(report, waiting=waiting_by_group.get(group.id))
            completed[group.id] = self._add_limits(report, group)
        return completed

    def _add_limits(self, pool: PoolReport, group: AutoscaledGroup) -> PoolReport:
        """Add the group's size limits to the report on the pool, if they are known."""
        if not self.node_groups.limits_known:
            return pool
        return replace(pool, min=group.min, target=group.target, max=group.max)
