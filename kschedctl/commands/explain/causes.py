"""What keeps a pod pending: of all that stands against nodes, that which matters on those within its reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.commands.explain.eliminations import by_reason, fact_of, own_distance
from kschedctl.commands.explain.reach import NEAR, OUT_OF_REACH, Obstacle, Standing, standing
from kschedctl.commands.explain.report import Cause
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import LabelDemand, describe_fact
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration


def causes(obstacles: Sequence[Obstacle], cycle: Cycle) -> tuple[Cause, ...]:
    """The fewest reasons that account for all eligible nodes, those that stand against most of them first.

    What stands against every one of them is always told. A pod that was refused before any node was looked at has
    that as its only cause; one for which no node is within reach is told why for all nodes.
    """
    if cycle.pre_filter.status.rejected:
        return tuple(_cause([o], o.mask, cycle, 0, None) for o in obstacles if not o.looked_at)
    nodes = len(cycle.view.nodes)
    stands = standing(obstacles, nodes)
    if not nodes:
        return ()
    least = int(stands.level.min())
    within = stands.level == least
    masks = [(same, _mask(same, obstacles, NEAR) & within) for same in by_reason(obstacles)]
    chosen = _cover([(same, _mask(same, obstacles, least) & mask) for same, mask in masks], within)
    known = {(same[0].plugin, same[0].reason) for same, _ in chosen}
    everywhere = [pair for pair in masks if pair[1].sum() == within.sum()]
    chosen += [pair for pair in everywhere if (pair[0][0].plugin, pair[0][0].reason) not in known]
    reach = 0 if least == OUT_OF_REACH else int(within.sum())
    ordered = [_cause(same, mask, cycle, reach, stands) for same, mask in chosen]
    contradiction = conflict(chosen, cycle) if least == OUT_OF_REACH else ""
    return (replace(ordered[0], conflict=contradiction), *ordered[1:]) if contradiction else tuple(ordered)


def _mask(same: Sequence[Obstacle], obstacles: Sequence[Obstacle], least: int) -> Bools:
    """(N,): the nodes that a reason stands against at such a level; a cordon is told once, not as a taint again."""
    mask: Bools = np.logical_or.reduce([obstacle.mask & (obstacle.level >= least) for obstacle in same])
    if same[0].plugin == TaintToleration.name:
        for obstacle in obstacles:
            if obstacle.plugin == NodeUnschedulable.name:
                mask = mask & ~obstacle.mask
    return mask


def _cover(masks: list[tuple[list[Obstacle], Bools]], within: Bools) -> list[tuple[list[Obstacle], Bools]]:
    """Reasons that together stand against all nodes, the next always the one against most of those that are left."""
    left, chosen = within.copy(), []
    while left.any() and masks:
        best = max(masks, key=lambda pair: int((pair[1] & left).sum()))
        if not (best[1] & left).any():
            break
        chosen.append(best)
        left &= ~best[1]
    return chosen


def _cause(same: list[Obstacle], mask: Bools, cycle: Cycle, within: int, stands: Standing | None) -> Cause:
    rows = stands.nearest(mask, own_distance(same)) if stands else np.flatnonzero(mask)
    row = (_usual(rows, same, cycle, stands) if stands and not within else int(rows[0])) if len(rows) else None
    fact = None if row is None else fact_of(same, row)
    name = "" if stands is None or row is None else cycle.view.nodes.names[row]
    return Cause(same[0].plugin, same[0].reason, len(rows), within, name, describe_fact(fact), fact)


def _usual(rows: Rows, same: list[Obstacle], cycle: Cycle, stands: Standing) -> int:
    """One of the rows that are as near as the first, with the value that most have of the label that is demanded;
    one without it where none has it."""
    row = int(rows[0])
    fact = fact_of(same, row)
    demands = fact.demands() if fact else ()
    if not demands:
        return row
    alike = rows[(stands.against[rows] == stands.against[row]) & (stands.level[rows] == stands.level[row])]
    codes = cycle.view.nodes.label(demands[0].key).codes[alike]
    values, first, count = np.unique(codes, return_index=True, return_counts=True)
    return int(alike[first[np.lexsort((first, -count, values < 0))[0]]])


def conflict(refusals: Sequence[tuple[list[Obstacle], Bools]], cycle: Cycle) -> str:
    """The first two demands that no node can meet together, as each wants other values of one label."""
    demands = dict.fromkeys(demand for same, mask in refusals for demand in _demands(same, mask, cycle))
    own_first = sorted(demands, key=lambda demand: bool(demand.claim))
    for one, other in combinations(own_first, 2):
        if one.key == other.key and not {*one.values} & {*other.values}:
            return excludes(one, other)
    return ""


def _demands(same: list[Obstacle], mask: Bools, cycle: Cycle) -> Iterator[LabelDemand]:
    """What stands behind a reason, on a node for each value of a label that is demanded."""
    rows = np.flatnonzero(mask)
    fact = fact_of(same, int(rows[0])) if len(rows) else None
    for demand in fact.demands() if fact else ():
        _, first = np.unique(cycle.view.nodes.label(demand.key).codes[rows], return_index=True)
        for row in rows[np.sort(first)].tolist():
            there = fact_of(same, row)
            yield from there.demands() if there else ()


def excludes(one: LabelDemand, other: LabelDemand) -> str:
    """
    >>> volume_demand = LabelDemand("its volume", "zone", ("b", "c"), "shop/data")
    >>> excludes(LabelDemand("its nodeSelector", "zone", ("a",)), volume_demand)
    "its nodeSelector zone=a excludes its volume's b or c (claim shop/data)"
    """
    what = f"{one.what} {one.key}={' or '.join(one.values)}{_of_claim(one)}"
    its = other.what.replace("its", "its other") if other.what == one.what else other.what
    return f"{what} excludes {its}'s {' or '.join(other.values)}{_of_claim(other)}"


def _of_claim(demand: LabelDemand) -> str:
    return f" (claim {demand.claim})" if demand.claim else ""
