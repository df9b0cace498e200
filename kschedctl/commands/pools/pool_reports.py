"""Reports of node pools by node labels and of Karpenter's NodePools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from kschedctl.api.arrays import Rows
from kschedctl.api.copying import replace
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Node
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import Quantity
from kschedctl.api.resource_names import CPU, MEMORY, format_amount
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.amounts import sum_quantities
from kschedctl.autoscaling.karpenter.disruption_budgets import UNLIMITED, get_allowed_disruptions
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses
from kschedctl.autoscaling.karpenter.state_nodes import StateNode, build_state_nodes
from kschedctl.cluster import Cluster
from kschedctl.commands.pools.pool_groups import PoolGroups
from kschedctl.commands.pools.report import NodePools, PoolReport
from kschedctl.replay.pools import Pools, free_resources
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import ZONE

NO_POOL = "(none)"
UNDERUTILIZED = "Underutilized"


def report_pools(scheduler: Scheduler, now: str, groups: PoolGroups | None = None) -> NodePools:
    """Report all pools by name; nodes without a pool come last. Raises InputError."""
    cluster, view = scheduler.cluster, scheduler.view
    division = groups.assign_pools(Pools.of(view), view) if groups else Pools.of(view)
    rows = (np.flatnonzero(division.code == at) for at in range(len(division.names)))
    reports = {name: _report_pool(name, own, view) for name, own in zip(division.names, rows, strict=True)}
    reports = groups.add_groups(reports) if groups else reports
    states = build_state_nodes(cluster) if cluster.karpenter_node_pools else []
    classes = NodeClasses(cluster)
    for pool in cluster.karpenter_node_pools:
        name = pool.metadata.name
        known = reports.get(name, PoolReport(name))
        own = [state for state in states if state.pool == name]
        reports[name] = _add_node_pool(known, pool, own, classes, now)
    ordered = sorted(reports.values(), key=lambda report: (report.pool == NO_POOL, report.pool))
    doubts = (*groups.told.doubts, *groups.faults) if groups else ()
    sources = groups.told.sources if groups else ()
    return NodePools(tuple(ordered), _count_pending(cluster), sources, doubts, undecided=bool(doubts))


def _report_pool(name: str, rows: Rows, view: Fork) -> PoolReport:
    """Report the nodes of one pool."""
    nodes: Sequence[Node] = [view.nodes.objects[row] for row in rows.tolist()]
    free, allocatable = free_resources(view)[rows], view.allocatable[rows]
    cpu, memory = view.resources[CPU], view.resources[MEMORY]
    shapes = Counter(f"{int(a[cpu]) / 1000:g} cpu, {format_amount(MEMORY, int(a[memory]))}" for a in allocatable)
    taints = set.intersection(*({str(taint) for taint in node.spec.taints} for node in nodes))
    return PoolReport(
        name or NO_POOL,
        len(nodes),
        sum(map(_is_ready, nodes)),
        tuple(shape for shape, _ in shapes.most_common()),
        tuple(sorted({node.metadata.labels.get(ZONE, "") for node in nodes} - {""})),
        tuple(sorted(taints)),
        int(free[:, cpu].sum()),
        int(free[:, cpu].max()),
        int(free[:, memory].sum()),
    )


def _is_ready(node: Node) -> bool:
    """Return whether the node is ready and not cordoned."""
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    return ready and not node.spec.unschedulable


def _add_node_pool(
    known: PoolReport, pool: NodePool, states: Sequence[StateNode], classes: NodeClasses, now: str
) -> PoolReport:
    """Add limits, node class and disruption of a Karpenter NodePool to its report."""
    limits = parse_quantities(pool.spec.limits or {})
    used = sum_quantities(*(state.capacity for state in states if not state.deleting))
    own = pool.spec.disruption
    most = get_allowed_disruptions(pool, len(states), UNDERUTILIZED, parse_microseconds(now))
    allowed = "any number" if most == UNLIMITED else f"{most:,}"
    return replace(
        known,
        limits={name: f"{used.get(name, Quantity(0))} of {limit}" for name, limit in limits.items()},
        weight=pool.spec.weight,
        node_class=classes.describe_class(pool),
        disruption=f"{own.consolidation_policy} after {own.consolidate_after}, {allowed} may go now",
    )


def _count_pending(cluster: Cluster) -> int:
    """Count the unbound pods that are not terminated."""
    unbound: Iterable[bool] = (not pod.terminated for pod in cluster.pods.iter_unbound())
    return sum(unbound)
