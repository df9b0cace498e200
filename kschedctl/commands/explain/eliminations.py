"""Which node was eliminated by what: grouped by reason, and node by node with everything that would reject it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kschedctl.api.node_pools import find_pool
from kschedctl.commands.explain.reach import Distances, Obstacle, Standing, standing
from kschedctl.commands.explain.report import Elimination, NearestMiss, NodeGroup, NodeReport, Refusal
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.registry.facts import AnyFact
from kschedctl.snapshot.node_order import zone_key

NAMES_TOLD = 2
"""So many nodes of a group are named."""


def eliminations(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Elimination, ...]:
    """The reported reasons, those against eligible nodes first, each with the node that is nearest to passing."""
    stands = standing(obstacles, len(cycle.view.nodes))
    made = [_elimination(same, stands, cycle) for same in by_reason(o for o in obstacles if o.reported.any())]
    return tuple(e for _, e in sorted(made, key=lambda pair: (pair[0], -pair[1].nodes, pair[1].reason)))


def by_reason(obstacles: Iterable[Obstacle]) -> list[list[Obstacle]]:
    """Obstacles by their reason: a plugin may give it once for nodes that are full and once for small ones."""
    reasons: dict[tuple[str, str], list[Obstacle]] = {}
    for obstacle in obstacles:
        reasons.setdefault((obstacle.plugin, obstacle.reason), []).append(obstacle)
    return list(reasons.values())


def _elimination(same: list[Obstacle], stands: Standing, cycle: Cycle) -> tuple[int, Elimination]:
    """How far out of reach the nearest of the nodes is, and the elimination."""
    rows = stands.nearest(np.logical_or.reduce([obstacle.reported for obstacle in same]), own_distance(same))
    nearest = int(rows[0])
    fact = fact_of(same, nearest)
    return int(stands.level[nearest]), Elimination(
        plugin=same[0].plugin,
        reason=same[0].reason,
        nodes=len(rows),
        only=int((stands.against[rows] == 1).sum()),
        nearest=NearestMiss(cycle.view.nodes.names[nearest], describe_fact(fact), fact) if fact else None,
    )


def own_distance(same: Sequence[Obstacle]) -> Distances:
    """(N,): how far each node is from passing what one reason is about; 0 where that cannot be told."""
    distance = np.zeros(len(same[0].mask), np.float64)
    for obstacle in same:
        if obstacle.distance is not None:
            distance = np.where(obstacle.mask, obstacle.distance, distance)
    return distance


def fact_of(same: Iterable[Obstacle], row: int) -> AnyFact | None:
    """What stands behind a reason on a node."""
    return next((o.fact(row) for o in same if o.fact and o.mask[row]), None)


def node_reports(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[NodeReport, ...]:
    """Every node: the feasible ones by score, then the refused ones, those within reach that lack least first."""
    totals = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    stands = standing(obstacles, len(cycle.view.nodes))
    score = np.array([totals.get(row, -1) for row in range(len(cycle.view.nodes))])
    order = np.lexsort((stands.distance, stands.against, stands.level, -score, score < 0))
    return tuple(_node(obstacles, cycle, row, totals) for row in order.tolist())


def _node(obstacles: Sequence[Obstacle], cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    node = cycle.view.nodes.objects[row]
    return NodeReport(
        name=node.metadata.name,
        zone=zone_key(node)[1],
        pool=find_pool(node),
        feasible=row in totals,
        refusals=() if row in totals else _refusals(obstacles, row),
        total=totals.get(row),
    )


def _refusals(obstacles: Sequence[Obstacle], row: int) -> tuple[Refusal, ...]:
    """What the scheduler reports of a node, then what else would reject it."""
    against = sorted((o for o in obstacles if o.mask[row]), key=lambda obstacle: not obstacle.reported[row])
    return tuple(_refusal(obstacle, row) for obstacle in against)


def _refusal(obstacle: Obstacle, row: int) -> Refusal:
    fact = fact_of([obstacle], row)
    return Refusal(obstacle.plugin if obstacle.looked_at else "", obstacle.reason, describe_fact(fact), fact)


def node_groups(nodes: Iterable[NodeReport]) -> tuple[NodeGroup, ...]:
    """The refused nodes, those together that are refused for the same reasons, in the order of the nearest of each."""
    groups: dict[object, list[NodeReport]] = {}
    for node in nodes:
        if node.refusals:
            groups.setdefault(tuple((r.plugin, r.reason) for r in node.refusals), []).append(node)
    return tuple(
        NodeGroup(
            nodes=len(same),
            pools=tuple(dict.fromkeys(node.pool for node in same if node.pool)),
            such_as=tuple(node.name for node in same[:NAMES_TOLD]),
            refusals=same[0].refusals,
        )
        for same in groups.values()
    )
