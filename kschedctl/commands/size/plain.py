"""Node sets without a solver: most nodes of one shape, others for the pods that do not fit on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from kschedctl.commands.size.program import Counts, PackingProgram, Starts, Table, format_counts

MAX_MAIN_SHAPES = 8
"""The number of shapes tried as the main one."""
STEPS = 5
"""The number of steps of each resource's weight."""
WEIGHTED_RESOURCES = 3
"""The number of resources that are weighted against each other."""


@dataclass(frozen=True)
class PlainPacking:
    """Packing with numpy only."""

    def propose_starts(self, program: PackingProgram) -> Starts:
        """Propose a set for each of the best main shapes, cheapest first."""
        mains = (program.names[at] for at in np.flatnonzero(program.find_undominated(program.takes)).tolist())
        sets = {format_counts(some): some for some in (self.pack(program, (name,)) for name in mains)}
        cheapest = sorted(sets.values(), key=program.cost)[:MAX_MAIN_SHAPES]
        return Starts(cheapest, self._compute_bound(program), program.request_cuts())

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return nodes for the program's pods, of the preferred shapes if these take the pod."""
        takes = program.prefer_shapes(preferred)
        price = np.where(takes, program.count_nodes_if_alone(program.pods) * program.costs, np.inf)
        some = takes.any(axis=1) & (program.pods > 0)
        best = price.argmin(axis=1)
        chosen = np.zeros(len(program.names), np.int64)
        for at in np.unique(best[some]).tolist():
            mine = np.where(some & (best == at), program.pods, 0.0)
            chosen[at] = max(int(program.count_nodes_if_alone(mine)[at]), 1)
        return {name: number for name, number in zip(program.names, chosen.tolist(), strict=True) if number}

    def _compute_bound(self, program: PackingProgram) -> float:
        """Return a lower bound on the cost of any set, from requests and from pods with only one possible shape."""
        pods = np.where(program.takes.any(axis=1), program.pods, 0.0)
        some = program.takes[pods > 0].any(axis=0)
        if not some.any():
            return 0.0
        every = lower_bound(program.sum_requests(pods), program.offered[some].astype(np.float64), program.costs[some])
        return max(every, self._cost_of_exclusive_pods(program, pods))

    def _cost_of_exclusive_pods(self, program: PackingProgram, pods: Table) -> float:
        """Return what the nodes cost for the pods that fit on only one shape."""
        only = program.takes.sum(axis=1) == 1
        return float(program.count_nodes_if_alone(np.where(only, pods, 0.0)) @ program.costs)


def lower_bound(requested: Table, offered: Table, costs: Table) -> float:
    """Return a lower bound on the cost of nodes that offer the requests.

    ``requested`` has shape (R,), ``offered`` (S, R), ``costs`` (S,). Nodes may be bought in fractions. By weak duality
    of linear programs every weighting of the resources proves a bound: the weighted requests over the most that a unit
    of money buys.
    """
    asked = requested > 0
    requested, offered = requested[asked], np.maximum(offered[:, asked], 0)
    best = 0.0
    for weights in _iter_weights(len(requested)):
        shares = weights / requested  # so that each weight is of all that is requested of its resource
        bought = (offered @ shares) / costs
        if bought.max(initial=0) > 0:
            best = max(best, float(weights.sum() / bought.max()))
    return best


def _iter_weights(resources: int) -> Iterable[Table]:
    """Yield each resource alone, and combinations of the first resources."""
    yield from np.eye(resources)
    together = min(resources, WEIGHTED_RESOURCES)
    for steps in product(range(STEPS), repeat=together):
        if sum(steps):
            yield np.array([*steps, *[0] * (resources - together)], np.float64)
