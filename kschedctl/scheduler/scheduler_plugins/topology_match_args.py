"""Arguments and scoring strategies of NodeResourceTopologyMatch.

The strategy LeastNUMANodes prefers few NUMA nodes that are close together. Upstream panics if it subtracts from a NUMA
node whose number is not an index of the list, and this module subtracts nothing in that case.

Upstream: apis/config/v1/types.go and defaults.go, and in pkg/noderesourcetopology score.go, least_allocated.go,
most_allocated.go, balanced_allocation.go and least_numa.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Counts, Rows, Scores
from kschedctl.api.resource_names import CPU
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.resource_allocation import ResourceSpec
from kschedctl.scheduler.scheduler_plugins.effective_requests import MILLICORES, Requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import FAR, NumaList, NumaNodes

LEAST_NUMA_NODES = "LeastNUMANodes"
ALL, NONE, ONLY_EXCLUSIVE = "All", "None", "OnlyExclusiveResources"
DISABLED, ENABLED = "Disabled", "Enabled"
AUTODETECT, DEDICATED = "Autodetect", "Dedicated"

_MAX_COMBINATIONS = 20_000
"""Limit on combinations of one size. Upstream has none; 16 NUMA nodes have at most 12,870."""
_TOO_MANY = "a node has too many NUMA nodes to try all combinations of {}"


class NumaScoringStrategy(PluginArgs, frozen=True):
    """The strategy by which NodeResourceTopologyMatch scores nodes."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()


class NumaCacheArgs(PluginArgs, frozen=True):
    """Settings of the OverReserve cache."""

    foreign_pods_detect: str = ALL
    """The pods of other schedulers that exclude a node until its topology includes them."""
    resync_method: str = AUTODETECT
    """The pods that a fingerprint covers."""
    informer_mode: str = DEDICATED
    """The pods of a node that the cache knows."""
    resync_scope: str = ALL


class NodeResourceTopologyMatchArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourceTopologyMatch."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: Int64 = 0
    """Without a period, or with ``discard_reserved_nodes``, the OverReserve cache is off."""
    discard_reserved_nodes: bool = False
    cache: NumaCacheArgs = NumaCacheArgs()
    preemption_mode: str = DISABLED
    """The mode in which the cache adds the amounts that victims free, if their NUMA nodes are published."""

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for an unknown scoring strategy and for an unknown preemption mode."""
        if self.scoring_strategy.type not in (*STRATEGIES, LEAST_NUMA_NODES):
            yield invalid("scoringStrategy.type", self.scoring_strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in (DISABLED, ENABLED):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")

    @property
    def uses_cache(self) -> bool:
        """True if the OverReserve cache subtracts the requests of pods placed recently."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes


class NumaOffer(NamedTuple):
    """Requested amounts and the amounts that NUMA nodes offer, in whole units.

    Upstream compares whole values, so that millicores are rounded up to cores.
    """

    requested: Amounts
    """(X,): the requested amount of each resource."""
    available: Amounts
    """(F, Z, X): the available amounts, 0 for none."""
    is_insufficient: Bools
    """(F, Z, X): whether less than requested is available."""
    weights: Amounts
    """(X,): the weight of each resource."""

    @property
    def divisor(self) -> Amounts:
        """The available amounts, at least 1."""
        return np.maximum(self.available, 1)

    def compute_mean_score(self, scores: Amounts) -> Scores:
        """Return each NUMA node's weighted mean of the scores of all resources.

        Resources that are missing or insufficient count as 0.
        """
        counted = np.where(self.is_insufficient | (self.available == 0), 0, scores)
        mean: Scores = (counted * self.weights).sum(axis=2) // self.weights.sum()
        return mean


def score_least_allocated(offer: NumaOffer) -> Scores:
    """Score NUMA nodes, favoring those with large remaining amounts."""
    return offer.compute_mean_score((offer.available - offer.requested) * MAX_NODE_SCORE // offer.divisor)


def score_most_allocated(offer: NumaOffer) -> Scores:
    """Score NUMA nodes, favoring those with small remaining amounts."""
    return offer.compute_mean_score(offer.requested * MAX_NODE_SCORE // offer.divisor)


def score_balanced_allocation(offer: NumaOffer) -> Scores:
    """Score NUMA nodes, lower the more the requested shares vary, and 0 if a share exceeds 1."""
    share = np.where(offer.available == 0, 1.0, offer.requested / offer.divisor)
    variance = share.var(axis=2, ddof=1) if share.shape[2] > 1 else np.zeros(share.shape[:2])
    return np.where((share > 1).any(axis=2), 0, ((1 - variance) * float(MAX_NODE_SCORE)).astype(np.int64))


STRATEGIES: Mapping[str, Callable[[NumaOffer], Scores]] = {
    "LeastAllocated": score_least_allocated,
    "MostAllocated": score_most_allocated,
    "BalancedAllocation": score_balanced_allocation,
}


"""Strategies by name. Each maps an offer to scores (F, Z), 0 if the request does not fit."""


def score_numa_nodes(
    requests: Requests,
    strategy: Callable[[NumaOffer], Scores],
    numa: NumaNodes,
    rows: Rows,
    weights: Mapping[str, int],
) -> Scores:
    """Return the lowest positive score of the NUMA nodes of each node in `rows`, or 0 if no score is positive.

    `strategy` scores the NUMA nodes. `weights` has the weight of each resource, by default 1. All scores are 0 without
    requests or NUMA nodes.
    """
    if not requests or not numa.available:
        return np.zeros(len(rows), np.int64)
    # The available amounts, as an array (rows, NUMA nodes, resources).
    available = np.stack([numa.get_available_amounts(name)[rows] for name in requests], axis=2)
    unit = np.array([MILLICORES if name == CPU else 1 for name in requests], np.int64)  # score whole cpus
    requested = np.array(list(requests.values()), np.int64)
    offer = NumaOffer(
        requested=-(-requested // unit),  # rounded up
        available=np.maximum(-(-available // unit), 0),
        is_insufficient=available < requested,
        weights=np.array([weights.get(name, 1) for name in requests], np.int64),
    )
    exists = np.stack([amounts[rows] >= 0 for amounts in numa.available.values()], axis=2).any(axis=2)
    scores = strategy(offer)
    no_score = MAX_NODE_SCORE + 1
    lowest: Scores = np.where(exists & (scores > 0), scores, no_score).min(axis=1)
    return np.where(lowest == no_score, 0, lowest)


class _NumaChoice(NamedTuple):
    """The NUMA nodes chosen on each of F nodes."""

    places: Bools
    """(F, Z): whether the NUMA node is chosen. All False if the NUMA nodes do not suffice."""
    is_nearest: Bools
    """(F,): whether no combination of the same size is closer together."""

    @property
    def counts(self) -> Counts:
        """The number of chosen NUMA nodes on each node."""
        count: Counts = np.count_nonzero(self.places, axis=1)
        return count


def score_containers(containers: Iterable[Requests], numa: NumaList) -> Scores:
    """Score each node by how many NUMA nodes the most demanding container needs.

    Each container gets only what the containers before it leave. A node scores 0 if some container does not fit, and
    the maximum if no container needs a NUMA node.
    """
    remaining = dict(numa.available)
    max_count = np.zeros(len(numa), np.int64)
    are_all_nearest = np.ones(len(numa), np.bool_)
    is_impossible = np.zeros(len(numa), np.bool_)
    for requests in containers:
        is_relevant = _find_relevant_nodes(requests, numa) & ~is_impossible
        if not is_relevant.any():
            continue
        chosen = choose_numa_nodes(requests, remaining, numa, is_relevant)
        is_impossible |= is_relevant & (chosen.counts == 0)
        are_all_nearest &= chosen.is_nearest | ~is_relevant
        max_count = np.maximum(max_count, chosen.counts)
        _subtract_requests(requests, chosen.places, remaining, numa)

    scores = _compute_scores(max_count, are_all_nearest, numa.max_numa_nodes)
    scores = np.where(max_count == 0, MAX_NODE_SCORE, scores)  # no container needs a NUMA node
    return np.where(is_impossible, 0, scores)


def score_nodes_for_whole_pod(requests: Requests, numa: NumaList) -> Scores:
    """Score each node by how many NUMA nodes the pod needs. Fewer NUMA nodes score higher.

    The requests of all containers are placed together, on one set of NUMA nodes. A node scores 0 if the pod does not
    fit. A node whose NUMA nodes have none of the requested resources gets the maximum score.
    """
    is_relevant = _find_relevant_nodes(requests, numa)
    chosen = choose_numa_nodes(requests, numa.available, numa, is_relevant)
    scores = _compute_scores(chosen.counts, chosen.is_nearest, numa.max_numa_nodes)
    scores = np.where(chosen.counts == 0, 0, scores)
    return np.where(is_relevant, scores, MAX_NODE_SCORE)


def _find_relevant_nodes(requests: Requests, numa: NumaList) -> Bools:
    """Return a mask (N,) of the nodes that have at least one of the requested resources on a NUMA node."""
    mask = np.zeros(len(numa), np.bool_)
    for name in requests:
        mask |= (numa.get_available_amounts(name) >= 0).any(axis=1)
    return mask


def _compute_scores(count: Counts, nearest: Bools, max_numa_nodes: Counts) -> Scores:
    """Score the nodes, one step lower for each NUMA node used. The nearest combinations get half a step more."""
    step = MAX_NODE_SCORE // max_numa_nodes
    return MAX_NODE_SCORE - count * step + np.where(nearest, step // 2, 0)


def choose_numa_nodes(
    requests: Requests, remaining: Mapping[str, Amounts], numa: NumaList, relevant: Bools
) -> _NumaChoice:
    """Choose the smallest combination of NUMA nodes that satisfies the requests, on each relevant node.

    Among combinations of the same size, the closest is chosen, and among equally close ones, the first. Raises
    PluginError if there are too many combinations.
    """
    # Only NUMA nodes that have all requested resources can be chosen.
    has_all = numa.exists.copy()
    for name in requests:
        has_all &= numa.get_available_amounts(name) >= 0

    # Try larger and larger combinations on the nodes without a choice.
    is_chosen = np.zeros(numa.exists.shape, np.bool_)
    is_nearest = np.zeros(len(numa), np.bool_)
    numa_node_counts = numa.exists.sum(axis=1)
    max_numa_nodes = numa.exists.shape[1]
    for size in range(1, max_numa_nodes + 1):
        rows = np.flatnonzero(relevant & ~is_chosen.any(axis=1) & (numa_node_counts >= size))
        if not len(rows):
            break
        if comb(max_numa_nodes, size) > _MAX_COMBINATIONS:
            raise PluginError(_TOO_MANY.format(size))
        remaining_there = {name: amounts[rows] for name, amounts in remaining.items()}
        search = _Search(numa.select_rows(rows), has_all[rows], remaining_there)
        is_chosen[rows], is_nearest[rows] = search.find_nearest_combinations(size, requests)
    return _NumaChoice(is_chosen, is_nearest)


class _Search(NamedTuple):
    """Search for combinations of NUMA nodes on F nodes."""

    numa: NumaList
    has_all: Bools
    """(F, Z): whether the NUMA node has some of every requested resource."""
    remaining: Mapping[str, Amounts]
    """Amounts (F, Z) by resource that are still free."""

    def find_nearest_combinations(self, size: int, requests: Requests) -> tuple[Bools, Bools]:
        """Find the closest sufficient combination of `size` NUMA nodes on each node.

        The first result is a mask (nodes, NUMA nodes) of the chosen combinations. The second is a mask of the nodes on
        which no other combination of this size is closer, whether or not it is sufficient.
        """
        rows = len(self.numa)
        min_distance = np.full(rows, FAR, np.float32)
        best_distance = np.full(rows, FAR + 1, np.float32)  # so that even a combination at distance FAR is better
        is_chosen: Bools = np.zeros(self.numa.exists.shape, np.bool_)
        numa_node_count = is_chosen.shape[1]
        for combination in combinations(range(numa_node_count), size):
            places = list(combination)
            distance = self._compute_mean_distance(places)

            # Any combination that exists counts for the smallest distance.
            exists = self.numa.exists[:, places].all(axis=1)
            min_distance = np.where(exists, np.minimum(min_distance, distance), min_distance)

            # Only a sufficient combination can be chosen.
            is_better = self._find_sufficient_nodes(places, requests) & (distance < best_distance)
            best_distance[is_better] = distance[is_better]
            is_chosen[is_better] = np.isin(np.arange(numa_node_count), places)
        return is_chosen, is_chosen.any(axis=1) & (best_distance == min_distance)

    def _compute_mean_distance(self, places: list[int]) -> Amounts:
        """Return each node's mean distance between the NUMA nodes at `places`, as float32 like in upstream.

        The distance of each NUMA node to itself is included.
        """
        total = self.numa.costs[:, places][:, :, places].sum(axis=(1, 2))
        mean: Amounts = total.astype(np.float32) / np.float32(len(places) ** 2)
        return mean

    def _find_sufficient_nodes(self, places: list[int], requests: Requests) -> Bools:
        """Return a mask of the nodes on which the NUMA nodes at `places` together satisfy the requests."""
        fits: Bools = np.all(self.has_all[:, places], axis=1)
        for name, amount in requests.items():
            if amount and name in self.remaining:
                total: Amounts = self.remaining[name][:, places].sum(axis=1)
                fits[total < amount] = False
        return fits


def _subtract_requests(requests: Requests, places: Bools, remaining: dict[str, Amounts], numa: NumaList) -> None:
    """Subtract the requests from the chosen NUMA nodes in order, up to the amounts in `remaining`.

    `places` is a mask (nodes, NUMA nodes) of the chosen NUMA nodes. The arrays in `remaining` are replaced. Like
    upstream, this uses the number of a NUMA node as its index in the list.
    """
    rows, chosen = np.nonzero(places)

    # Find the NUMA nodes whose amounts shrink.
    numbers = numa.numbers[rows, chosen]
    is_valid_index = numbers < numa.exists.sum(axis=1)[rows]
    taken = np.zeros(places.shape, np.bool_)
    taken[rows[is_valid_index], numbers[is_valid_index]] = True

    # Take from each of them as much as it has, until the request is satisfied.
    for name, amount in requests.items():
        if name not in remaining:
            continue
        amounts = remaining[name].copy()
        outstanding = np.full(len(numa), amount, np.int64)
        for place in range(amounts.shape[1]):
            amount_taken = np.where(taken[:, place], np.minimum(np.maximum(amounts[:, place], 0), outstanding), 0)
            amounts[:, place] -= amount_taken
            outstanding -= amount_taken
        remaining[name] = amounts
