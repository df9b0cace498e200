"""Node sets without a solver: mostly nodes of one shape, and others for the pods that do not fit on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from kschedctl.commands.size.program import Counts, PackingProgram, StartingSets, Table, format_counts

MAX_MAIN_SHAPES = 8
"""The number of shapes tried as the main one."""
STEPS = 5
"""The number of steps of each resource's weight."""
WEIGHTED_RESOURCES = 3
"""The number of resources that are weighted against each other."""


@dataclass(frozen=True)
class PlainPacking:
    """The greedy packing of pods on nodes with numpy only."""

    def propose_starts(self, program: PackingProgram) -> StartingSets:
        """Propose a set for each of the best main shapes, cheapest first."""
        main_shapes = (
            program.names[shape] for shape in np.flatnonzero(program.find_undominated(program.takes)).tolist()
        )
        sets = {format_counts(counts): counts for counts in (self.pack(program, (name,)) for name in main_shapes)}
        cheapest = sorted(sets.values(), key=program.compute_cost)[:MAX_MAIN_SHAPES]
        return StartingSets(cheapest, self._compute_bound(program), program.build_request_cuts())

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return nodes for the program's pods, of the preferred shapes if these take the pod."""
        takes = program.prefer_shapes(preferred)
        price = np.where(takes, program.count_nodes_if_alone(program.pods) * program.costs, np.inf)
        has_pods = takes.any(axis=1) & (program.pods > 0)
        best = price.argmin(axis=1)
        node_counts = np.zeros(len(program.names), np.int64)
        for shape in np.unique(best[has_pods]).tolist():
            shape_pods = np.where(has_pods & (best == shape), program.pods, 0.0)
            node_counts[shape] = max(int(program.count_nodes_if_alone(shape_pods)[shape]), 1)
        return {name: number for name, number in zip(program.names, node_counts.tolist(), strict=True) if number}

    def _compute_bound(self, program: PackingProgram) -> float:
        """Return a lower bound on the cost of any set, from requests and from pods with only one possible shape."""
        pods = np.where(program.takes.any(axis=1), program.pods, 0.0)
        usable_shapes = program.takes[pods > 0].any(axis=0)
        if not usable_shapes.any():
            return 0.0
        request_bound = compute_lower_bound(
            program.sum_requests(pods), program.offered[usable_shapes].astype(np.float64), program.costs[usable_shapes]
        )
        return max(request_bound, self._compute_exclusive_cost(program, pods))

    def _compute_exclusive_cost(self, program: PackingProgram, pods: Table) -> float:
        """Return the cost of the nodes for the pods that fit on only one shape."""
        is_exclusive = program.takes.sum(axis=1) == 1
        return float(program.count_nodes_if_alone(np.where(is_exclusive, pods, 0.0)) @ program.costs)


def compute_lower_bound(requested: Table, offered: Table, costs: Table) -> float:
    """Return a lower bound on the cost of nodes that offer the requests, even if fractions of nodes could be bought.

    `requested` has shape (R,), `offered` (S, R), `costs` (S,). By weak duality of linear programs every weighting of
    the resources proves a bound: the weighted requests divided by the most that a unit of money buys.
    """
    is_requested = requested > 0
    requested, offered = requested[is_requested], np.maximum(offered[:, is_requested], 0)
    best = 0.0
    for weights in _iter_weights(len(requested)):
        shares = weights / requested  # so that each weight is of all that is requested of its resource
        bought = (offered @ shares) / costs
        if bought.max(initial=0) > 0:
            best = max(best, float(weights.sum() / bought.max()))
    return best


def _iter_weights(resources: int) -> Iterable[Table]:
    """Yield weightings of the resources: each resource alone, and combinations of the first ones."""
    yield from np.eye(resources)
    together = min(resources, WEIGHTED_RESOURCES)
    for steps in product(range(STEPS), repeat=together):
        if sum(steps):
            yield np.array([*steps, *[0] * (resources - together)], np.float64)
