"""What a pod demands of its node that contradicts itself: both sides are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.commands.explain.eliminations import fact_of
from kschedctl.commands.explain.reach import Obstacle
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.facts import LabelDemand


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
