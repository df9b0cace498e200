"""Group the rejected nodes by reason, and report each node with everything that rejects it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kschedctl.api.node_pools import find_pool
from kschedctl.commands.explain.reach import Distances, Obstacle, Standing, combine_obstacles
from kschedctl.commands.explain.report import Elimination, NearestMiss, NodeGroup, NodeReport, Refusal
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.registry.facts import AnyFact
from kschedctl.snapshot.node_order import zone_key

NODES_NAMED = 2
"""The number of nodes that are named for a group."""


def report_eliminations(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Elimination, ...]:
    """Report the reasons that kube-scheduler gives, those against eligible nodes first, with the closest node of
    each.
    """
    stands = combine_obstacles(obstacles, len(cycle.view.nodes))
    with_levels = [
        _build_elimination(same, stands, cycle) for same in group_by_reason(o for o in obstacles if o.reported.any())
    ]
    return tuple(e for _, e in sorted(with_levels, key=lambda pair: (pair[0], -pair[1].nodes, pair[1].reason)))


def group_by_reason(obstacles: Iterable[Obstacle]) -> list[list[Obstacle]]:
    """Group obstacles by plugin and reason. A plugin may give one reason for full nodes and for small nodes, say."""
    reasons: dict[tuple[str, str], list[Obstacle]] = {}
    for obstacle in obstacles:
        reasons.setdefault((obstacle.plugin, obstacle.reason), []).append(obstacle)
    return list(reasons.values())


def _build_elimination(same_reason: list[Obstacle], standing: Standing, cycle: Cycle) -> tuple[int, Elimination]:
    """Build an elimination, and return it with the level of its closest node, by which eliminations are ordered."""
    rows = standing.sort_by_closeness(
        np.logical_or.reduce([obstacle.reported for obstacle in same_reason]), measure_distance(same_reason)
    )
    nearest = int(rows[0])
    fact = find_fact(same_reason, nearest)
    return int(standing.level[nearest]), Elimination(
        plugin=same_reason[0].plugin,
        reason=same_reason[0].reason,
        nodes=len(rows),
        only=int((standing.against[rows] == 1).sum()),
        nearest=NearestMiss(cycle.view.nodes.names[nearest], describe_fact(fact), fact) if fact else None,
    )


def measure_distance(same_reason: Sequence[Obstacle]) -> Distances:
    """Return how far each node (N,) is from passing one reason; 0 if the plugin cannot tell."""
    distance = np.zeros(len(same_reason[0].mask), np.float64)
    for obstacle in same_reason:
        if obstacle.distance is not None:
            distance = np.where(obstacle.mask, obstacle.distance, distance)
    return distance


def find_fact(same_reason: Iterable[Obstacle], row: int) -> AnyFact | None:
    """Find the fact behind a reason on the node in the row."""
    return next((o.fact(row) for o in same_reason if o.fact and o.mask[row]), None)


def report_nodes(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[NodeReport, ...]:
    """Report every node: feasible ones by score, then the others, closest to fitting first."""
    totals = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    stands = combine_obstacles(obstacles, len(cycle.view.nodes))
    score = np.array([totals.get(row, -1) for row in range(len(cycle.view.nodes))])
    order = np.lexsort((stands.distance, stands.against, stands.level, -score, score < 0))
    return tuple(_report_node(obstacles, cycle, row, totals) for row in order.tolist())


def _report_node(obstacles: Sequence[Obstacle], cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    """Report one node with what rejects it, or with its total score."""
    node = cycle.view.nodes.objects[row]
    return NodeReport(
        name=node.metadata.name,
        zone=zone_key(node)[1],
        pool=find_pool(node),
        feasible=row in totals,
        refusals=() if row in totals else _report_refusals(obstacles, row),
        total=totals.get(row),
    )


def _report_refusals(obstacles: Sequence[Obstacle], row: int) -> tuple[Refusal, ...]:
    """Report what rejects a node: first what kube-scheduler reports, then everything else."""
    against = sorted((o for o in obstacles if o.mask[row]), key=lambda obstacle: not obstacle.reported[row])
    return tuple(_report_refusal(obstacle, row) for obstacle in against)


def _report_refusal(obstacle: Obstacle, row: int) -> Refusal:
    """Report one reason against a node. The plugin is empty if kube-scheduler did not look at the node."""
    fact = find_fact([obstacle], row)
    return Refusal(obstacle.plugin if obstacle.looked_at else "", obstacle.reason, describe_fact(fact), fact)


def group_nodes(nodes: Iterable[NodeReport]) -> tuple[NodeGroup, ...]:
    """Group the rejected nodes by all their reasons, in the order of the closest node of each group."""
    groups: dict[object, list[NodeReport]] = {}
    for node in nodes:
        if node.refusals:
            groups.setdefault(tuple((r.plugin, r.reason) for r in node.refusals), []).append(node)
    return tuple(
        NodeGroup(
            nodes=len(members),
            pools=tuple(dict.fromkeys(node.pool for node in members if node.pool)),
            such_as=tuple(node.name for node in members[:NODES_NAMED]),
            refusals=members[0].refusals,
        )
        for members in groups.values()
    )
