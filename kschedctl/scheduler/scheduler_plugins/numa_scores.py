"""The scoring strategies of NodeResourceTopologyMatch.

Upstream: pkg/noderesourcetopology/score.go, least_allocated.go, most_allocated.go and balanced_allocation.go of
kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Rows, Scores
from kschedctl.api.resource_names import CPU
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import NumaNodes


class NumaOffer(NamedTuple):
    """``wanted`` (X,) of each resource; ``available`` (F, Z, X) in NUMA nodes, 0 for none, and whether that ``lacks``.

    Both are whole, as upstream compares their values: cores, rounded up, where others count millicores.
    """

    wanted: Amounts
    available: Amounts
    lacks: Bools
    weights: Amounts

    @property
    def divisor(self) -> Amounts:
        return np.maximum(self.available, 1)

    def mean(self, scores: Amounts) -> Scores:
        """(F, Z): by weight, of the resources of which there is enough."""
        counted = np.where(self.lacks | (self.available == 0), 0, scores)
        mean: Scores = (counted * self.weights).sum(axis=2) // self.weights.sum()
        return mean


def least_allocated(offer: NumaOffer) -> Scores:
    return offer.mean((offer.available - offer.wanted) * MAX_NODE_SCORE // offer.divisor)


def most_allocated(offer: NumaOffer) -> Scores:
    return offer.mean(offer.wanted * MAX_NODE_SCORE // offer.divisor)


def balanced_allocation(offer: NumaOffer) -> Scores:
    """By the variance of the shares that would be taken."""
    share = np.where(offer.available == 0, 1.0, offer.wanted / offer.divisor)
    variance = share.var(axis=2, ddof=1) if share.shape[2] > 1 else np.zeros(share.shape[:2])
    return np.where((share > 1).any(axis=2), 0, ((1 - variance) * float(MAX_NODE_SCORE)).astype(np.int64))


STRATEGIES: Mapping[str, Callable[[NumaOffer], Scores]] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}
"""Offer -> (F, Z) scores, 0 where it does not fit."""


def score_of(
    requests: Requests,
    strategy: Callable[[NumaOffer], Scores],
    numa: NumaNodes,
    rows: Rows,
    weights: Mapping[str, int],
) -> Scores:
    """(F,): the lowest score of a NUMA node that is not 0."""
    if not requests or not numa.available:
        return np.zeros(len(rows), np.int64)
    exact = np.stack([numa.of(name)[rows] for name in requests], axis=2)
    unit = np.array([1000 if name == CPU else 1 for name in requests], np.int64)
    wanted = np.array(list(requests.values()), np.int64)
    offer = NumaOffer(
        -(-wanted // unit),
        np.maximum(-(-exact // unit), 0),
        exact < wanted,
        np.array([weights.get(name, 1) for name in requests], np.int64),
    )
    there = np.stack([amounts[rows] >= 0 for amounts in numa.available.values()], axis=2).any(axis=2)
    scores = strategy(offer)
    lowest: Scores = np.where(there & (scores > 0), scores, MAX_NODE_SCORE + 1).min(axis=1)
    return np.where(lowest > MAX_NODE_SCORE, 0, lowest)
