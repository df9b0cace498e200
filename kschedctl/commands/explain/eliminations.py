"""Why nodes are rejected: reports by reason and by node, and the main causes that keep a pod pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.node_pools import find_pool
from kschedctl.commands.explain.reach import NEAR, OUT_OF_REACH, Distances, Obstacle, Standing, combine_obstacles
from kschedctl.commands.explain.report import Cause, Elimination, NearestMiss, NodeGroup, NodeReport, Refusal
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import LabelDemand, describe_fact
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.registry.in_tree import AnyFact
from kschedctl.snapshot.node_order import get_region_and_zone

NODES_NAMED = 2
"""The number of nodes that are named for a group."""


def report_eliminations(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Elimination, ...]:
    """Report each reason for which kube-scheduler rejects nodes, starting with those of the closest nodes."""
    standing = combine_obstacles(obstacles, len(cycle.view.nodes))
    with_levels = [
        _build_elimination(same_reason, standing, cycle)
        for same_reason in group_by_reason(o for o in obstacles if o.reported.any())
    ]
    return tuple(e for _, e in sorted(with_levels, key=lambda pair: (pair[0], -pair[1].nodes, pair[1].reason)))


def group_by_reason(obstacles: Iterable[Obstacle]) -> list[list[Obstacle]]:
    """Group obstacles by plugin and reason.

    Several obstacles may share a reason, such as one for full nodes and one for small nodes.
    """
    reasons: dict[tuple[str, str], list[Obstacle]] = {}
    for obstacle in obstacles:
        reasons.setdefault((obstacle.plugin, obstacle.reason), []).append(obstacle)
    return list(reasons.values())


def _build_elimination(same_reason: list[Obstacle], standing: Standing, cycle: Cycle) -> tuple[int, Elimination]:
    """Build the elimination for one reason, and return it with the level of its closest node."""
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
    standing = combine_obstacles(obstacles, len(cycle.view.nodes))
    score = np.array([totals.get(row, -1) for row in range(len(cycle.view.nodes))])
    order = np.lexsort((standing.distance, standing.obstacle_count, standing.level, -score, score < 0))
    return tuple(_report_node(obstacles, cycle, row, totals) for row in order.tolist())


def _report_node(obstacles: Sequence[Obstacle], cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    """Report one node with its refusals or its total score."""
    node = cycle.view.nodes.objects[row]
    return NodeReport(
        name=node.metadata.name,
        zone=get_region_and_zone(node)[1],
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


class Reason(NamedTuple):
    """A reason for rejecting nodes."""

    obstacles: list[Obstacle]
    """The obstacles with the same plugin and reason."""
    mask: Bools
    """The nodes (N,) for which the reason counts."""

    @property
    def key(self) -> tuple[str, str]:
        """The plugin and its reason."""
        return self.obstacles[0].plugin, self.obstacles[0].reason


def find_causes(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Cause, ...]:
    """Find the fewest reasons that together account for all eligible nodes, most nodes first.

    Reasons that apply to every eligible node are always included. If a PreFilter plugin rejects the pod, its reason is
    the only cause. If no node is within the pod's reach, the causes account for all nodes.
    """
    if cycle.pre_filter.status.rejected:
        return tuple(_build_cause([o], o.mask, cycle, 0, None) for o in obstacles if not o.looked_at)
    nodes = len(cycle.view.nodes)
    standing = combine_obstacles(obstacles, nodes)
    if not nodes:
        return ()
    lowest_level = int(standing.level.min())
    eligible = standing.level == lowest_level
    reasons = [
        Reason(same_reason, _build_mask(same_reason, obstacles, NEAR) & eligible)
        for same_reason in group_by_reason(obstacles)
    ]

    # The fewest reasons that account for all eligible nodes, then those that apply to every one of them
    candidates = [
        Reason(reason.obstacles, _build_mask(reason.obstacles, obstacles, lowest_level) & reason.mask)
        for reason in reasons
    ]
    chosen = _choose_covering_reasons(candidates, eligible)
    chosen_keys = {reason.key for reason in chosen}
    chosen += [reason for reason in reasons if reason.mask.sum() == eligible.sum() and reason.key not in chosen_keys]

    eligible_count = 0 if lowest_level == OUT_OF_REACH else int(eligible.sum())
    causes = [_build_cause(reason.obstacles, reason.mask, cycle, eligible_count, standing) for reason in chosen]
    if lowest_level == OUT_OF_REACH and (conflict := find_conflict(chosen, cycle)):
        causes[0] = replace(causes[0], conflict=conflict)
    return tuple(causes)


def _build_mask(same_reason: Sequence[Obstacle], obstacles: Sequence[Obstacle], lowest_level: int) -> Bools:
    """Return the mask (N,) of nodes that the reason rejects at `lowest_level` or a higher level.

    TaintToleration's mask leaves out cordoned nodes, because NodeUnschedulable already reports the cordon.
    """
    mask: Bools = np.logical_or.reduce([obstacle.mask & (obstacle.level >= lowest_level) for obstacle in same_reason])
    if same_reason[0].plugin == TaintToleration.name:
        for obstacle in obstacles:
            if obstacle.plugin == NodeUnschedulable.name:
                mask = mask & ~obstacle.mask
    return mask


def _choose_covering_reasons(reasons: Sequence[Reason], eligible: Bools) -> list[Reason]:
    """Choose reasons greedily, most uncovered nodes first, until every eligible node has one."""
    uncovered, chosen = eligible.copy(), []
    while uncovered.any() and reasons:
        best = max(reasons, key=lambda reason: int((reason.mask & uncovered).sum()))
        if not (best.mask & uncovered).any():
            break
        chosen.append(best)
        uncovered &= ~best.mask
    return chosen


def _build_cause(
    same_reason: list[Obstacle], mask: Bools, cycle: Cycle, eligible_count: int, standing: Standing | None
) -> Cause:
    """Build the cause for one reason, with the closest node among those in `mask` (N,)."""
    plugin, reason = same_reason[0].plugin, same_reason[0].reason
    rows = standing.sort_by_closeness(mask, measure_distance(same_reason)) if standing else np.flatnonzero(mask)
    if not len(rows):
        return Cause(plugin, reason, 0, eligible_count)
    row = int(rows[0])
    if standing and not eligible_count:
        row = _choose_typical_node(rows, same_reason, cycle, standing)
    fact = find_fact(same_reason, row)
    name = cycle.view.nodes.names[row] if standing else ""
    cause = Cause(
        plugin, reason, nodes=len(rows), within=eligible_count, nearest=name, fact=describe_fact(fact), fact_data=fact
    )
    scope = cause.describe_scope(len(cycle.view.nodes))
    if fact is None or not name:
        return replace(cause, plain=f"{cause.fact or reason}{scope}")
    if fact.names_best_node:
        best_row = int(rows[np.argmin(measure_distance(same_reason)[rows])])
        best_fact = find_fact(same_reason, best_row) or fact
        scope = cause.describe_scope(len(cycle.view.nodes), with_node=False)
        return replace(cause, plain=best_fact.describe_cause(cycle.view.nodes.names[best_row], scope))
    return replace(cause, plain=fact.describe_cause(name, scope))


def _choose_typical_node(rows: Rows, same_reason: list[Obstacle], cycle: Cycle, standing: Standing) -> int:
    """Choose a typical node among the closest: one with the most common value of the demanded label.

    A node without the label is chosen only if no node has it.
    """
    row = int(rows[0])
    fact = find_fact(same_reason, row)
    demands = fact.demands() if fact else ()
    if not demands:
        return row
    equally_close = rows[
        (standing.obstacle_count[rows] == standing.obstacle_count[row]) & (standing.level[rows] == standing.level[row])
    ]
    codes = cycle.view.nodes.label(demands[0].key).codes[equally_close]
    values, first, count = np.unique(codes, return_index=True, return_counts=True)
    best_value = np.lexsort((first, -count, values < 0))[0]
    return int(equally_close[first[best_value]])


def find_conflict(reasons: Sequence[Reason], cycle: Cycle) -> str:
    """Describe two demands of the pod for different values of one label. Return an empty string if there are none."""
    demands = dict.fromkeys(
        demand for reason in reasons for demand in _iter_demands(reason.obstacles, reason.mask, cycle)
    )
    ordered = sorted(demands, key=lambda demand: bool(demand.claim))
    for first, second in combinations(ordered, 2):
        if first.key == second.key and not {*first.values} & {*second.values}:
            return describe_conflict(first, second)
    return ""


def _iter_demands(same_reason: list[Obstacle], mask: Bools, cycle: Cycle) -> Iterator[LabelDemand]:
    """Yield the label demands behind a reason, taken from one node per value of the label."""
    rows = np.flatnonzero(mask)
    fact = find_fact(same_reason, int(rows[0])) if len(rows) else None
    for demand in fact.demands() if fact else ():
        _, first = np.unique(cycle.view.nodes.label(demand.key).codes[rows], return_index=True)
        for row in rows[np.sort(first)].tolist():
            fact_on_row = find_fact(same_reason, row)
            yield from fact_on_row.demands() if fact_on_row else ()


def describe_conflict(first: LabelDemand, second: LabelDemand) -> str:
    """Describe two demands that contradict each other.

    >>> volume_demand = LabelDemand("its volume", "zone", ("b", "c"), "shop/data")
    >>> describe_conflict(LabelDemand("its nodeSelector", "zone", ("a",)), volume_demand)
    "its nodeSelector zone=a excludes its volume's b or c (claim shop/data)"
    """
    first_demand = f"{first.what} {first.key}={' or '.join(first.values)}{_describe_claim(first)}"
    second_subject = second.what.replace("its", "its other") if second.what == first.what else second.what
    return f"{first_demand} excludes {second_subject}'s {' or '.join(second.values)}{_describe_claim(second)}"


def _describe_claim(demand: LabelDemand) -> str:
    """Return the demand's claim in parentheses, or an empty string if it has no claim."""
    return f" (claim {demand.claim})" if demand.claim else ""
