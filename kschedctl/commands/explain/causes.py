"""Find the main causes that keep a pod pending, and demands of the pod that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.commands.explain.eliminations import find_fact, group_by_reason, measure_distance
from kschedctl.commands.explain.reach import NEAR, OUT_OF_REACH, Obstacle, Standing, combine_obstacles
from kschedctl.commands.explain.report import Cause
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import LabelDemand, describe_fact
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration


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
    masks = [(same, _build_mask(same, obstacles, NEAR) & eligible) for same in group_by_reason(obstacles)]
    chosen = _choose_covering_reasons(
        [(same, _build_mask(same, obstacles, lowest_level) & mask) for same, mask in masks], eligible
    )
    chosen_reasons = {(same[0].plugin, same[0].reason) for same, _ in chosen}
    everywhere = [pair for pair in masks if pair[1].sum() == eligible.sum()]
    chosen += [pair for pair in everywhere if (pair[0][0].plugin, pair[0][0].reason) not in chosen_reasons]
    eligible_count = 0 if lowest_level == OUT_OF_REACH else int(eligible.sum())
    found_causes = [_build_cause(same, mask, cycle, eligible_count, standing) for same, mask in chosen]
    contradiction = find_conflict(chosen, cycle) if lowest_level == OUT_OF_REACH else ""
    return (
        (replace(found_causes[0], conflict=contradiction), *found_causes[1:]) if contradiction else tuple(found_causes)
    )


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


def _choose_covering_reasons(
    masks: list[tuple[list[Obstacle], Bools]], eligible: Bools
) -> list[tuple[list[Obstacle], Bools]]:
    """Choose reasons greedily, most uncovered nodes first, until every eligible node has one."""
    uncovered, chosen = eligible.copy(), []
    while uncovered.any() and masks:
        best = max(masks, key=lambda pair: int((pair[1] & uncovered).sum()))
        if not (best[1] & uncovered).any():
            break
        chosen.append(best)
        uncovered &= ~best[1]
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
    return Cause(plugin, reason, len(rows), eligible_count, name, describe_fact(fact), fact)


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
    return int(equally_close[first[np.lexsort((first, -count, values < 0))[0]]])


def find_conflict(reasons: Sequence[tuple[list[Obstacle], Bools]], cycle: Cycle) -> str:
    """Describe two demands of the pod for different values of one label. Return an empty string if there are none."""
    demands = dict.fromkeys(demand for same, mask in reasons for demand in _iter_demands(same, mask, cycle))
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
