"""Report why nodes are rejected, by reason and by node, and find the main causes that keep a pod pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.commands.explain.reach import (
    NEAR,
    OUT_OF_REACH,
    Distances,
    NodeCloseness,
    Obstacle,
    measure_node_closeness,
)
from kschedctl.commands.explain.report import Cause, Elimination, NearestMiss, NodeGroup, NodeReport, Refusal
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import LabelDemand, TopologyLabelMissing, Wanted, describe_fact
from kschedctl.scheduler.in_tree_plugins import AnyFact
from kschedctl.scheduler.plugins.node_affinity import NodeAffinityUnmet
from kschedctl.scheduler.plugins.node_resources.fit import TOO_MANY_PODS, Insufficient, NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.snapshot.nodes import get_region_and_zone

NODES_NAMED = 2
"""The number of nodes that are named for a group."""


def report_eliminations(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Elimination, ...]:
    """Report each reason why kube-scheduler rejects nodes, starting with the reasons of the closest nodes.

    Reasons whose closest nodes are equally far out of reach are ordered by their number of nodes, then by their text.
    """
    closeness = measure_node_closeness(obstacles, len(cycle.view.nodes))
    leveled = [
        _build_elimination(obstacles_of_reason, closeness, cycle)
        for obstacles_of_reason in group_obstacles_by_reason(
            obstacle for obstacle in obstacles if obstacle.reported.any()
        )
    ]
    leveled.sort(key=lambda entry: (entry.level, -entry.elimination.nodes, entry.elimination.reason))
    return tuple(entry.elimination for entry in leveled)


def group_obstacles_by_reason(obstacles: Iterable[Obstacle]) -> list[list[Obstacle]]:
    """Group obstacles by plugin and reason.

    Several obstacles may share a reason, such as one for full nodes and one for small nodes.
    """
    reasons: dict[tuple[str, str], list[Obstacle]] = {}
    for obstacle in obstacles:
        reasons.setdefault((obstacle.plugin, obstacle.reason), []).append(obstacle)
    return list(reasons.values())


class _LeveledElimination(NamedTuple):
    """An elimination, and how far its closest node is out of reach."""

    level: int
    elimination: Elimination


def _build_elimination(
    obstacles_of_reason: list[Obstacle], closeness: NodeCloseness, cycle: Cycle
) -> _LeveledElimination:
    """Build the elimination for one reason, with a level that says how far the closest of its nodes is out of reach."""
    reported = np.logical_or.reduce([obstacle.reported for obstacle in obstacles_of_reason])
    rows = closeness.sort_by_closeness(reported, measure_distances_to_passing(obstacles_of_reason))
    nearest = int(rows[0])
    fact = find_fact(obstacles_of_reason, nearest)
    elimination = Elimination(
        plugin=obstacles_of_reason[0].plugin,
        reason=obstacles_of_reason[0].reason,
        nodes=len(rows),
        only=int((closeness.obstacle_count[rows] == 1).sum()),
        nearest=NearestMiss(cycle.view.nodes.names[nearest], describe_fact(fact), fact) if fact else None,
    )
    return _LeveledElimination(int(closeness.level[nearest]), elimination)


def measure_distances_to_passing(obstacles_of_reason: Sequence[Obstacle]) -> Distances:
    """Return how far each node (N,) is from passing the check that the reason names, or 0 if that is unknown.

    The unit depends on the plugin.
    """
    distance = np.zeros(len(obstacles_of_reason[0].mask), np.float64)
    for obstacle in obstacles_of_reason:
        if obstacle.distance is not None:
            distance = np.where(obstacle.mask, obstacle.distance, distance)
    return distance


def find_fact(obstacles_of_reason: Iterable[Obstacle], row: int) -> AnyFact | None:
    """Return the fact behind a reason for the node at `row`, or None if there is no fact."""
    for obstacle in obstacles_of_reason:
        if obstacle.fact and obstacle.mask[row]:
            return obstacle.fact(row)
    return None


def report_nodes(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[NodeReport, ...]:
    """Report all nodes: feasible nodes by score, then rejected nodes, the closest to fitting first."""
    totals = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    closeness = measure_node_closeness(obstacles, len(cycle.view.nodes))
    is_rejected = np.array([row not in totals for row in range(len(cycle.view.nodes))])
    score = np.array([totals.get(row, 0) for row in range(len(cycle.view.nodes))])
    # lexsort sorts by its last key first: feasible nodes before rejected ones, then by score, level, …
    order = np.lexsort((closeness.distance, closeness.obstacle_count, closeness.level, -score, is_rejected))
    return tuple(_report_node(obstacles, cycle, row, totals) for row in order.tolist())


def _report_node(obstacles: Sequence[Obstacle], cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    """Report one node with its total score if it is feasible (in `totals`), otherwise with its refusals."""
    node = cycle.view.nodes.objects[row]
    return NodeReport(
        name=node.metadata.name,
        zone=get_region_and_zone(node)[1],
        pool=find_node_pool_name(node),
        feasible=row in totals,
        refusals=() if row in totals else _report_refusals(obstacles, row),
        total=totals.get(row),
    )


def _report_refusals(obstacles: Sequence[Obstacle], row: int) -> tuple[Refusal, ...]:
    """Report everything that rejects the node. What kube-scheduler reports comes first."""
    rejecting = [obstacle for obstacle in obstacles if obstacle.mask[row]]
    rejecting.sort(key=lambda obstacle: not obstacle.reported[row])
    return tuple(_report_refusal(obstacle, row) for obstacle in rejecting)


def _report_refusal(obstacle: Obstacle, row: int) -> Refusal:
    """Report one refusal. Its plugin is empty if kube-scheduler did not examine the node."""
    fact = find_fact([obstacle], row)
    return Refusal(obstacle.plugin if obstacle.was_examined else "", obstacle.reason, describe_fact(fact), fact)


def group_rejected_nodes(nodes: Iterable[NodeReport]) -> tuple[NodeGroup, ...]:
    """Group rejected nodes that have the same reasons. Groups are ordered by their closest node.

    Nodes that have none of a requested resource are not grouped with nodes that have too little of the resource.
    """
    groups: dict[object, list[NodeReport]] = {}
    for node in nodes:
        if node.refusals:
            reasons = tuple((refusal.plugin, refusal.reason, _has_none(refusal)) for refusal in node.refusals)
            groups.setdefault(reasons, []).append(node)
    return tuple(map(_build_node_group, groups.values()))


def _has_none(refusal: Refusal) -> bool:
    """Return whether the refusal says that the node offers none of a requested resource."""
    return isinstance(refusal.fact_data, Insufficient) and not refusal.fact_data.offered


def _build_node_group(members: Sequence[NodeReport]) -> NodeGroup:
    """Build the group of rejected nodes that have the same reasons.

    `members` starts with the closest node, whose refusals represent the group. Only the first NODES_NAMED nodes are
    named.
    """
    return NodeGroup(
        nodes=len(members),
        pools=tuple(dict.fromkeys(node.pool for node in members if node.pool)),
        such_as=tuple(node.name for node in members[:NODES_NAMED]),
        refusals=members[0].refusals,
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
    """Choose a small set of reasons that together explain why every eligible node is rejected.

    If a PreFilter plugin rejects the pod, only its reasons are causes. Otherwise, the nodes at the lowest level of
    `measure_node_closeness` are eligible, and the reason that rejects most of them comes first. Reasons that reject all
    of them are always included. If even these nodes are OUT_OF_REACH and two demands of the pod conflict, the first
    cause names the conflict. Return () for a cluster without nodes.
    """
    if cycle.pre_filter.status.rejected:
        return _build_pre_filter_causes(obstacles, cycle)
    nodes = len(cycle.view.nodes)
    if not nodes:
        return ()

    closeness = measure_node_closeness(obstacles, nodes)
    lowest_level = int(closeness.level.min())
    is_eligible = closeness.level == lowest_level
    chosen = _choose_reasons(obstacles, is_eligible, lowest_level)
    all_are_out_of_reach = lowest_level == OUT_OF_REACH
    # Nodes out of reach are no candidates, so the causes then give no number of candidate nodes
    candidate_count = 0 if all_are_out_of_reach else int(is_eligible.sum())
    full_nodes = _find_full_nodes(obstacles, nodes)
    causes = [_build_cause(reason, cycle, candidate_count, closeness, full_nodes) for reason in chosen]
    if all_are_out_of_reach and (conflict := describe_label_conflict(chosen, cycle)):
        causes[0] = replace(causes[0], conflict=conflict)
    return tuple(causes)


def _build_pre_filter_causes(obstacles: Iterable[Obstacle], cycle: Cycle) -> tuple[Cause, ...]:
    """Build a cause for each reason of the PreFilter plugin that rejected the pod. These causes name no node."""
    causes = []
    no_full_nodes = np.zeros(len(cycle.view.nodes), np.bool_)
    for obstacle in obstacles:
        if obstacle.was_examined:  # by Filter or an extender, so the reason is not PreFilter's
            continue
        rows = np.flatnonzero(obstacle.mask)
        fact = _mark_requirements_for_absent_nodes(find_fact([obstacle], int(rows[0])), cycle)
        cause_without_description = Cause(
            obstacle.plugin,
            obstacle.reason,
            nodes=len(rows),
            within=0,
            fact=describe_fact(fact),
            fact_data=fact,
        )
        description = _describe_rejection_cause(cause_without_description, rows, [obstacle], cycle, no_full_nodes)
        causes.append(replace(cause_without_description, plain=description))
    return tuple(causes)


def _choose_reasons(obstacles: Sequence[Obstacle], eligible: Bools, lowest_level: int) -> list[Reason]:
    """Choose a small set of reasons that covers all eligible nodes, then the reasons that apply to each of these nodes.

    `eligible` is a mask (N,). `lowest_level` is the level of the eligible nodes: NEAR, KEPT_AWAY or OUT_OF_REACH.
    """
    reasons = []
    candidates = []
    for obstacles_of_reason in group_obstacles_by_reason(obstacles):
        # NEAR is the lowest level of all, so this includes rejections at any level
        rejected_nodes = _find_rejected_nodes(obstacles_of_reason, obstacles, lowest_level=NEAR) & eligible
        reasons.append(Reason(obstacles_of_reason, rejected_nodes))

        # A reason covers a node only if it is as severe as the node's level
        severely_rejected_nodes = _find_rejected_nodes(obstacles_of_reason, obstacles, lowest_level)
        candidates.append(Reason(obstacles_of_reason, severely_rejected_nodes & rejected_nodes))
    chosen = _choose_covering_reasons(candidates, eligible)

    chosen_keys = {reason.key for reason in chosen}
    for reason in reasons:
        applies_to_all = reason.mask.sum() == eligible.sum()
        if applies_to_all and reason.key not in chosen_keys:
            chosen.append(reason)
    return chosen


def _find_rejected_nodes(
    obstacles_of_reason: Sequence[Obstacle], obstacles: Sequence[Obstacle], lowest_level: int
) -> Bools:
    """Return the mask (N,) of nodes that the reason rejects at `lowest_level` or a higher level.

    TaintToleration's mask leaves out cordoned nodes, because NodeUnschedulable already reports the cordon.
    """
    mask: Bools = np.logical_or.reduce(
        [obstacle.mask & (obstacle.level >= lowest_level) for obstacle in obstacles_of_reason]
    )
    if obstacles_of_reason[0].plugin == TaintToleration.name:
        for obstacle in obstacles:
            if obstacle.plugin == NodeUnschedulable.name:
                mask = mask & ~obstacle.mask
    return mask


def _find_full_nodes(obstacles: Sequence[Obstacle], nodes: int) -> Bools:
    """Return the mask (N,) of nodes that already run as many pods as they can. `nodes` is the number N."""
    full_nodes = np.zeros(nodes, np.bool_)
    for obstacle in obstacles:
        if (obstacle.plugin, obstacle.reason) == (NodeResourcesFit.name, TOO_MANY_PODS):
            full_nodes |= obstacle.mask
    return full_nodes


def _choose_covering_reasons(reasons: Sequence[Reason], eligible: Bools) -> list[Reason]:
    """Choose reasons greedily, most uncovered nodes first, until every eligible node is covered or no reason helps."""
    uncovered, chosen = eligible.copy(), []
    while uncovered.any() and reasons:
        best = max(reasons, key=lambda reason: int((reason.mask & uncovered).sum()))
        covers_more = (best.mask & uncovered).any()
        if not covers_more:
            break
        chosen.append(best)
        uncovered &= ~best.mask
    return chosen


def _build_cause(
    reason: Reason, cycle: Cycle, candidate_count: int, closeness: NodeCloseness, full_nodes: Bools
) -> Cause:
    """Build the cause for one reason, with the closest of the nodes that it rejects.

    If all nodes are out of reach (`candidate_count` is 0), a typical one of the closest nodes is named. `full_nodes`
    (N,) marks the nodes that can run no more pods.
    """
    rows = closeness.sort_by_closeness(reason.mask, measure_distances_to_passing(reason.obstacles))
    row = int(rows[0]) if candidate_count else _choose_typical_node(rows, reason.obstacles, cycle, closeness)
    fact = _mark_requirements_for_absent_nodes(find_fact(reason.obstacles, row), cycle)
    cause_without_description = Cause(
        reason.obstacles[0].plugin,
        reason.obstacles[0].reason,
        nodes=len(rows),
        within=candidate_count,
        nearest=cycle.view.nodes.names[row],
        fact=describe_fact(fact),
        fact_data=fact,
    )
    description = _describe_rejection_cause(cause_without_description, rows, reason.obstacles, cycle, full_nodes)
    return replace(cause_without_description, plain=description)


def _describe_rejection_cause(
    cause: Cause, rows: Rows, obstacles_of_reason: list[Obstacle], cycle: Cycle, full_nodes: Bools
) -> str:
    """Return the sentence that states the cause and to how many nodes it applies.

    The sentence is about the cause's fact, or about its reason if no plugin has stated a fact. `rows` are the rows of
    the nodes that are rejected for the reason. `full_nodes` (N,) marks the nodes that can run no more pods.
    """
    node_count = len(cycle.view.nodes)
    fact = cause.fact_data
    is_about_pod_alone = not cause.nearest
    if is_about_pod_alone and cause.fact:
        return f"{cause.fact} ({cause.reason})"
    applies_to_all_nodes = node_count > 1 and cause.nodes == node_count
    if isinstance(fact, TopologyLabelMissing) and applies_to_all_nodes:
        return f"no node has the label {fact.key}"

    # In a cluster of one node, the scope names this node, unless the sentence about the fact does so
    scope = cause.build_scope(node_count)
    if fact is None or (node_count == 1 and not fact.names_node):
        return f"{cause.fact or cause.reason}{scope.text}"
    if node_count == 1 or not fact.names_best_node:
        return fact.describe_cause(scope)

    return _describe_cause_by_best_node(cause, rows, obstacles_of_reason, cycle, full_nodes)


def _describe_cause_by_best_node(
    cause: Cause, rows: Rows, obstacles_of_reason: list[Obstacle], cycle: Cycle, full_nodes: Bools
) -> str:
    """Describe the cause by the node that comes closest to passing the check of this reason.

    This node need not be the closest node overall, because other checks may reject it as well. A lack of a resource is
    described by other nodes if all candidate nodes are too small, or if the best node is full. `full_nodes` (N,) marks
    the nodes that can run no more pods.
    """
    names = cycle.view.nodes.names
    distances = measure_distances_to_passing(obstacles_of_reason)

    def find_closest_row(candidates: Rows) -> int:
        """Return the candidate with the smallest distance."""
        return int(candidates[np.argmin(distances[candidates])])

    best_row = find_closest_row(rows)
    best_fact = find_fact(obstacles_of_reason, best_row)
    assert best_fact is not None
    scope = cause.build_scope(len(names))
    scope_of_best_node = scope._replace(node=names[best_row])
    if not isinstance(best_fact, Insufficient):
        return best_fact.describe_cause(scope_of_best_node)

    rejects_all_candidates = len(rows) == cause.within
    if rejects_all_candidates and len(rows) > 1:
        largest_fact = _find_largest_shortage(best_fact.resource, rows, obstacles_of_reason, cycle)
        # Even the largest candidate is too small when empty, while a node that is no candidate offers more
        if largest_fact is not None and largest_fact.offered < min(largest_fact.requested, largest_fact.largest):
            return largest_fact.describe_cause_with_small_candidates(scope)

    usable_rows = rows[~full_nodes[rows]]
    is_best_node_usable = best_row in usable_rows
    if is_best_node_usable or not len(usable_rows):
        return best_fact.describe_cause(scope_of_best_node)

    # The best node is full: describe the best of the other nodes, and mention the full node if its free amount differs
    usable_row = find_closest_row(usable_rows)
    usable_fact = find_fact(obstacles_of_reason, usable_row)
    if not isinstance(usable_fact, Insufficient) or usable_fact.free == best_fact.free:
        return (usable_fact or best_fact).describe_cause(scope._replace(node=names[usable_row]))
    usable_scope = scope._replace(node=names[usable_row])
    return usable_fact.describe_cause_with_full_node(usable_scope, names[best_row], best_fact)


def _find_largest_shortage(
    resource: str, rows: Rows, obstacles_of_reason: list[Obstacle], cycle: Cycle
) -> Insufficient | None:
    """Return the shortage of the resource on the node that has the largest allocatable amount of it among `rows`.

    Return None if no node of the cluster reports the resource.
    """
    column = cycle.view.resources.get(resource)
    if column is None:
        return None
    largest_row = int(rows[np.argmax(cycle.view.allocatable[rows, column])])
    fact = find_fact(obstacles_of_reason, largest_row)
    return fact if isinstance(fact, Insufficient) else None


def _mark_requirements_for_absent_nodes(fact: AnyFact | None, cycle: Cycle) -> AnyFact | None:
    """Mark the requirements of an unmet node affinity that name only nodes the cluster does not have.

    Other facts, and None, are returned unchanged.
    """
    if not isinstance(fact, NodeAffinityUnmet):
        return fact
    existing_names = cycle.view.nodes.index

    def mark(wanted: Wanted) -> Wanted:
        """Mark a requirement if it is on the node's name and no node has one of its names."""
        is_on_name = wanted.field and wanted.operator == "In"
        if not is_on_name or any(name in existing_names for name in wanted.values):
            return wanted
        return replace(wanted, absent=True)

    terms = tuple(tuple(mark(wanted) for wanted in term) for term in fact.terms)
    return replace(fact, terms=terms)


def _choose_typical_node(
    rows: Rows, obstacles_of_reason: list[Obstacle], cycle: Cycle, closeness: NodeCloseness
) -> int:
    """Choose a typical node among the closest: one with the most common value of the demanded label.

    A node without the label is chosen only if no node has it. If the reason is not about a label, the closest node is
    chosen.
    """
    row = int(rows[0])
    fact = find_fact(obstacles_of_reason, row)
    demands = fact.list_label_demands() if fact else ()
    if not demands:
        return row

    # The nodes that are as close as the first one, and their values of the label
    has_same_count = closeness.obstacle_count[rows] == closeness.obstacle_count[row]
    has_same_level = closeness.level[rows] == closeness.level[row]
    equally_close_rows = rows[has_same_count & has_same_level]
    value_codes = cycle.view.nodes.label(demands[0].key).codes[equally_close_rows]

    # Order the values: the absent label last (code -1), then the most frequent value first, then the closest node first
    distinct_codes, first_index, node_count = np.unique(value_codes, return_index=True, return_counts=True)
    order = np.lexsort((first_index, -node_count, distinct_codes < 0))
    first_index_of_best_value = first_index[order[0]]
    return int(equally_close_rows[first_index_of_best_value])


def describe_label_conflict(reasons: Sequence[Reason], cycle: Cycle) -> str:
    """Describe two demands of the pod that require different values of the same label.

    Return an empty string if no demands conflict.
    """
    demands = chain.from_iterable(_iter_label_demands(reason.obstacles, reason.mask, cycle) for reason in reasons)
    distinct_demands = dict.fromkeys(demands)  # in the order of the reasons
    # Demands of the pod's spec come before demands of its claims, because the text names the first demand first
    claims_last = sorted(distinct_demands, key=lambda demand: bool(demand.claim))
    for first, second in combinations(claims_last, 2):
        if first.key == second.key and set(first.values).isdisjoint(second.values):
            return describe_conflict(first, second)
    return ""


def _iter_label_demands(obstacles_of_reason: list[Obstacle], mask: Bools, cycle: Cycle) -> Iterator[LabelDemand]:
    """Yield the label demands behind a reason, taken from the facts about the nodes in `mask` (N,).

    The fact about the first of these nodes tells which labels matter. For each value of such a label, only the fact
    about the first node with the value is read. A demand may be yielded several times.
    """
    rows = np.flatnonzero(mask)
    fact = find_fact(obstacles_of_reason, int(rows[0])) if len(rows) else None
    if fact is None:
        return
    for demand in fact.list_label_demands():
        label_codes = cycle.view.nodes.label(demand.key).codes[rows]
        _, first_of_each_value = np.unique(label_codes, return_index=True)
        for row in rows[np.sort(first_of_each_value)].tolist():
            fact_on_row = find_fact(obstacles_of_reason, row)
            if fact_on_row:
                yield from fact_on_row.list_label_demands()


def describe_conflict(first: LabelDemand, second: LabelDemand) -> str:
    """Describe two demands that contradict each other.

    >>> volume_demand = LabelDemand("its volume", "zone", ("b", "c"), "shop/data")
    >>> describe_conflict(LabelDemand("its nodeSelector", "zone", ("a",)), volume_demand)
    'its nodeSelector requires zone=a, but its volume requires zone=b or c (claim shop/data)'
    """
    first_demand = f"{first.what} requires {first.key}={' or '.join(first.values)}{_format_claim_suffix(first)}"
    second_subject = second.what.replace("its", "its other") if second.what == first.what else second.what
    second_demand = f"{second.key}={' or '.join(second.values)}{_format_claim_suffix(second)}"
    return f"{first_demand}, but {second_subject} requires {second_demand}"


def _format_claim_suffix(demand: LabelDemand) -> str:
    """Return the demand's claim in parentheses, or an empty string if it has no claim."""
    return f" (claim {demand.claim})" if demand.claim else ""
