"""Reports on rejected nodes, grouped by reason and one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kschedctl.api.node_pools import find_pool
from kschedctl.commands.explain.reach import Distances, Obstacle, Standing, combine_obstacles
from kschedctl.commands.explain.report import Elimination, NearestMiss, NodeGroup, NodeReport, Refusal
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.registry.in_tree import AnyFact
from kschedctl.snapshot.node_order import zone_key

NODES_NAMED = 2
"""The number of nodes that are named for a group."""


def report_eliminations(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Elimination, ...]:
    """Report the reasons for which kube-scheduler rejects nodes, those against eligible nodes first."""
    stands = combine_obstacles(obstacles, len(cycle.view.nodes))
    with_levels = [
        _build_elimination(same, stands, cycle) for same in group_by_reason(o for o in obstacles if o.reported.any())
    ]
    return tuple(e for _, e in sorted(with_levels, key=lambda pair: (pair[0], -pair[1].nodes, pair[1].reason)))


def group_by_reason(obstacles: Iterable[Obstacle]) -> list[list[Obstacle]]:
    """Group obstacles by plugin and reason. Several obstacles may share a reason, such as for full and for small
    nodes.
    """
    reasons: dict[tuple[str, str], list[Obstacle]] = {}
    for obstacle in obstacles:
        reasons.setdefault((obstacle.plugin, obstacle.reason), []).append(obstacle)
    return list(reasons.values())


def _build_elimination(same_reason: list[Obstacle], standing: Standing, cycle: Cycle) -> tuple[int, Elimination]:
    """Build the elimination for one reason. Return it with the level of its closest node, which is the sort key."""
    rows = standing.sort_by_closeness(
        np.logical_or.reduce([obstacle.reported for obstacle in same_reason]), measure_distance(same_reason)
    )
    nearest = int(rows[0])
    fact = find_fact(same_reason, nearest)
    return int(standing.level[nearest]), Elimination(
        plugin=same_reason[0].plugin,
        reason=same_reason[0].reason,
        nodes=len(rows),
        only=int((standing.obstacle_count[rows] == 1).sum()),
        nearest=NearestMiss(cycle.view.nodes.names[nearest], describe_fact(fact), fact) if fact else None,
    )


def measure_distance(same_reason: Sequence[Obstacle]) -> Distances:
    """Return how far each node (N,) is from satisfying the reason, or 0 where that is unknown."""
    distance = np.zeros(len(same_reason[0].mask), np.float64)
    for obstacle in same_reason:
        if obstacle.distance is not None:
            distance = np.where(obstacle.mask, obstacle.distance, distance)
    return distance


def find_fact(same_reason: Iterable[Obstacle], row: int) -> AnyFact | None:
    """Return the fact behind a reason on the node at `row`, or None."""
    return next((o.fact(row) for o in same_reason if o.fact and o.mask[row]), None)


def report_nodes(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[NodeReport, ...]:
    """Report all nodes: feasible ones by score, then rejected ones, closest to fitting first."""
    totals = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    stands = combine_obstacles(obstacles, len(cycle.view.nodes))
    score = np.array([totals.get(row, -1) for row in range(len(cycle.view.nodes))])
    order = np.lexsort((stands.distance, stands.obstacle_count, stands.level, -score, score < 0))
    return tuple(_report_node(obstacles, cycle, row, totals) for row in order.tolist())


def _report_node(obstacles: Sequence[Obstacle], cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    """Report one node with its refusals or its total score."""
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
    """Report everything that rejects the node. What kube-scheduler reports comes first."""
    against = sorted((o for o in obstacles if o.mask[row]), key=lambda obstacle: not obstacle.reported[row])
    return tuple(_report_refusal(obstacle, row) for obstacle in against)


def _report_refusal(obstacle: Obstacle, row: int) -> Refusal:
    """Report one refusal. Its plugin is empty if kube-scheduler did not examine the node."""
    fact = find_fact([obstacle], row)
    return Refusal(obstacle.plugin if obstacle.looked_at else "", obstacle.reason, describe_fact(fact), fact)


def group_nodes(nodes: Iterable[NodeReport]) -> tuple[NodeGroup, ...]:
    """Group rejected nodes that have the same reasons. Groups are ordered by their closest node."""
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
