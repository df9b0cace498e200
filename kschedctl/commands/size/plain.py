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
        undominated = np.flatnonzero(program.find_undominated(program.takes)).tolist()
        proposed_sets = [self.pack(program, (program.names[shape],)) for shape in undominated]
        sets = {format_counts(counts): counts for counts in proposed_sets}
        cheapest = sorted(sets.values(), key=program.compute_cost)[:MAX_MAIN_SHAPES]
        return StartingSets(cheapest, self._compute_bound(program), program.build_request_cuts())

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return nodes for the program's pods, of the preferred shapes if these take the pod."""
        takes = program.prefer_shapes(preferred)
        has_pods = takes.any(axis=1) & (program.pods > 0)

        # Each group goes to the shape that would be cheapest if it took all of its pods alone.
        cost_if_alone = np.where(takes, program.count_nodes_if_alone(program.pods) * program.costs, np.inf)
        best = cost_if_alone.argmin(axis=1)
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
    requested = requested[is_requested]
    offered = np.maximum(offered[:, is_requested], 0)
    best_bound = 0.0
    for weights in _iter_weights(len(requested)):
        weight_per_unit = weights / requested  # all requests for a resource together have its weight
        bought_per_cost = (offered @ weight_per_unit) / costs
        if bought_per_cost.max(initial=0) > 0:
            best_bound = max(best_bound, float(weights.sum() / bought_per_cost.max()))
    return best_bound


def _iter_weights(resources: int) -> Iterable[Table]:
    """Yield weights (R,) of the resources: each alone, and combinations of the first WEIGHTED_RESOURCES of them."""
    yield from np.eye(resources)
    combined = min(resources, WEIGHTED_RESOURCES)
    for levels in product(range(STEPS), repeat=combined):
        if any(levels):
            weights = np.zeros(resources)
            weights[:combined] = levels
            yield weights
