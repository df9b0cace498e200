"""Sets of nodes without a solver: most of one shape, others for the pods that it does not take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from kschedctl.commands.size.program import Counts, PackingProgram, Starts, Table, named

MOST_SHAPES = 8
"""So many shapes are tried as the main one."""
STEPS = 5
"""Of a weight, for up to so many resources at once as are weighted against each other."""
TOGETHER = 3


@dataclass(frozen=True)
class PlainPacking:
    """What numpy alone can do."""

    def starts(self, program: PackingProgram) -> Starts:
        """A set for each of the best main shapes, the cheapest first."""
        mains = (program.names[at] for at in np.flatnonzero(program.undominated(program.takes)).tolist())
        sets = {named(some): some for some in (self.more(program, (name,)) for name in mains)}
        cheapest = sorted(sets.values(), key=program.cost)[:MOST_SHAPES]
        return Starts(cheapest, self._bound(program), program.cuts())

    def more(self, program: PackingProgram, among: Iterable[str]) -> Counts:
        """Nodes for the pods of the program, of shapes ``among`` all where those take them."""
        takes = program.taking(among)
        price = np.where(takes, program.alone(program.pods) * program.costs, np.inf)
        some = takes.any(axis=1) & (program.pods > 0)
        best = price.argmin(axis=1)
        chosen = np.zeros(len(program.names), np.int64)
        for at in np.unique(best[some]).tolist():
            mine = np.where(some & (best == at), program.pods, 0.0)
            chosen[at] = max(int(program.alone(mine)[at]), 1)
        return {name: number for name, number in zip(program.names, chosen.tolist(), strict=True) if number}

    def _bound(self, program: PackingProgram) -> float:
        """What any set costs at least, by what is requested, and by who has one shape alone."""
        pods = np.where(program.takes.any(axis=1), program.pods, 0.0)
        some = program.takes[pods > 0].any(axis=0)
        if not some.any():
            return 0.0
        every = least(program.asked(pods), program.offered[some].astype(np.float64), program.costs[some])
        return max(every, self._of_one_shape(program, pods))

    def _of_one_shape(self, program: PackingProgram, pods: Table) -> float:
        """What the nodes of shapes cost for the pods that no other shape takes."""
        only = program.takes.sum(axis=1) == 1
        return float(program.alone(np.where(only, pods, 0.0)) @ program.costs)


def least(requested: Table, offered: Table, costs: Table) -> float:
    """(R,) requests, (S, R) what a node of each shape offers, and its cost (S,): what all nodes cost at least.

    Nodes of any mix of shapes may be bought in parts. By weak duality of linear programs every weighting of the
    resources proves a bound: what is requested, weighted, over what a unit of money buys of it at best.
    """
    asked = requested > 0
    requested, offered = requested[asked], np.maximum(offered[:, asked], 0)
    best = 0.0
    for weights in _weights(len(requested)):
        shares = weights / requested  # so that each weight is of all that is requested of its resource
        bought = (offered @ shares) / costs
        if bought.max(initial=0) > 0:
            best = max(best, float(weights.sum() / bought.max()))
    return best


def _weights(resources: int) -> Iterable[Table]:
    """Each resource alone, and the first of them against each other."""
    yield from np.eye(resources)
    together = min(resources, TOGETHER)
    for steps in product(range(STEPS), repeat=together):
        if sum(steps):
            yield np.array([*steps, *[0] * (resources - together)], np.float64)
