"""Arguments and scoring strategies of NodeResourceTopologyMatch.

Upstream: apis/config/v1/types.go and defaults.go, and in pkg/noderesourcetopology score.go, least_allocated.go,
most_allocated.go and balanced_allocation.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Rows, Scores
from kschedctl.api.resource_names import CPU
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.scoring_strategy import ResourceSpec
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import NumaNodes

LEAST_NUMA_NODES = "LeastNUMANodes"
ALL, NONE, ONLY_EXCLUSIVE = "All", "None", "OnlyExclusiveResources"
DISABLED, ENABLED = "Disabled", "Enabled"
AUTODETECT, DEDICATED = "Autodetect", "Dedicated"


class NumaScoringStrategy(PluginArgs, frozen=True):
    """The strategy by which NodeResourceTopologyMatch scores nodes."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()


class NumaCacheArgs(PluginArgs, frozen=True):
    """Settings of the OverReserve cache."""

    foreign_pods_detect: str = ALL
    """Which pods of other schedulers exclude a node until its topology includes them."""
    resync_method: str = AUTODETECT
    """Which pods a fingerprint covers."""
    informer_mode: str = DEDICATED
    """Which pods of a node the cache knows."""
    resync_scope: str = ALL


class NodeResourceTopologyMatchArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourceTopologyMatch."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: Int64 = 0
    """Without a period, or with ``discard_reserved_nodes``, the OverReserve cache is off."""
    discard_reserved_nodes: bool = False
    cache: NumaCacheArgs = NumaCacheArgs()
    preemption_mode: str = DISABLED
    """Whether the cache computes what victims free, if their NUMA nodes are published."""

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for an unknown scoring strategy and for an unknown preemption mode."""
        if self.scoring_strategy.type not in (*STRATEGIES, LEAST_NUMA_NODES):
            yield invalid("scoringStrategy.type", self.scoring_strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in (DISABLED, ENABLED):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")

    @property
    def uses_cache(self) -> bool:
        """Return whether the OverReserve cache subtracts the requests of pods placed recently."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes


class NumaOffer(NamedTuple):
    """Requests and what NUMA nodes offer, in whole units.

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
        """Return the available amounts, at least 1."""
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

    `strategy` scores the NUMA nodes. `weights` has the weight of each resource, by default 1.
    """
    if not requests or not numa.available:
        return np.zeros(len(rows), np.int64)
    exact = np.stack([numa.get_available_amounts(name)[rows] for name in requests], axis=2)
    unit = np.array([1000 if name == CPU else 1 for name in requests], np.int64)
    requested = np.array(list(requests.values()), np.int64)
    offer = NumaOffer(
        requested=-(-requested // unit),  # rounded up
        available=np.maximum(-(-exact // unit), 0),
        is_insufficient=exact < requested,
        weights=np.array([weights.get(name, 1) for name in requests], np.int64),
    )
    exists = np.stack([amounts[rows] >= 0 for amounts in numa.available.values()], axis=2).any(axis=2)
    scores = strategy(offer)
    lowest: Scores = np.where(exists & (scores > 0), scores, MAX_NODE_SCORE + 1).min(axis=1)
    return np.where(lowest > MAX_NODE_SCORE, 0, lowest)
