"""The consolidation policy Balanced, which weighs a move's savings against the disruption that it causes.

Upstream: pkg/controllers/disruption/balanced.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.autoscaling.karpenter.candidates import NodeCandidate, compute_node_disruption_cost
from kschedctl.autoscaling.karpenter.state_nodes import StateNode

BALANCED = "Balanced"
K = 2
THRESHOLD = 1.0 / K


class MoveScore(NamedTuple):
    """The savings and the disruption of a move, as shares of its pool's totals."""

    saved: float
    """Share of the pool's hourly price that the move saves."""
    disrupted: float
    """Share of the pool's total disruption cost that the move causes."""

    @property
    def score(self) -> float:
        """The ratio of savings to disruption, or 0 if nothing is saved."""
        if self.saved <= 0:
            return 0.0
        return self.saved / self.disrupted if self.disrupted else math.inf

    @property
    def is_approved(self) -> bool:
        """Whether the score reaches the threshold."""
        return self.score >= THRESHOLD

    def __str__(self) -> str:
        shares = f"savings {self.saved * 100:.1f}%, disruption {self.disrupted * 100:.1f}%"
        return f"score {self.score:.2f} >= threshold {THRESHOLD:.2f} (k: {K}, {shares})"


@dataclass(frozen=True, eq=False)
class PoolTotals:
    """The hourly price and disruption cost of each pool, by which moves are scored."""

    prices: Mapping[str, float]
    """Pool -> hourly price of its candidates."""
    costs: Mapping[str, float]
    """Pool -> cost of disrupting all its nodes."""

    @classmethod
    def from_candidates(cls, candidates: Iterable[NodeCandidate], nodes: Iterable[StateNode]) -> PoolTotals:
        """Add up, by pool, the prices of the candidates and the costs of disrupting all nodes."""
        prices: dict[str, float] = {}
        costs: dict[str, float] = {}
        by_name = {candidate.name: candidate for candidate in candidates}
        for candidate in by_name.values():
            pool = candidate.pool.metadata.name
            prices[pool] = prices.get(pool, 0.0) + candidate.price
        nodes_of_pools = [node for node in nodes if node.pool]
        for node in sorted(nodes_of_pools, key=lambda node: node.name):
            node_candidate = by_name.get(node.name)
            cost = node_candidate.move_cost if node_candidate else compute_node_disruption_cost(node)
            costs[node.pool] = costs.get(node.pool, 0.0) + cost
        return cls(prices, costs)

    def score_move(self, pool: str, savings: float, cost: float) -> MoveScore:
        """Score a move of nodes of one pool by its savings and its disruption cost.

        Both shares of the score are 0 if the pool has no price or no disruption cost.
        """
        pool_price = self.prices.get(pool, 0.0)
        pool_cost = self.costs.get(pool, 0.0)
        if pool_price <= 0 or pool_cost <= 0:
            return MoveScore(0.0, 0.0)
        return MoveScore(savings / pool_price, cost / pool_cost)

    def would_approve_deletion(self, candidate: NodeCandidate) -> bool:
        """Return whether the policy approves deleting the node without a replacement.

        Pools with another policy or without a price approve every deletion.
        """
        pool = candidate.pool.metadata.name
        if not has_balanced_policy(candidate) or self.prices.get(pool, 0.0) <= 0:
            return True
        return self.score_move(pool, candidate.price, candidate.move_cost).is_approved

    def score_pools(self, candidates: Sequence[NodeCandidate], savings: float) -> dict[str, MoveScore]:
        """Score a move of the candidates for each pool with the policy Balanced, and return the scores by pool.

        If the candidates belong to several pools, the savings are divided in proportion to their prices.
        """
        by_pool: dict[str, list[NodeCandidate]] = {}
        for candidate in candidates:
            by_pool.setdefault(candidate.pool.metadata.name, []).append(candidate)
        total_price = sum(candidate.price for candidate in candidates)
        scores = {}
        for name, pool_candidates in by_pool.items():
            if not has_balanced_policy(pool_candidates[0]):
                continue
            pool_savings = savings
            if len(by_pool) > 1 and total_price > 0:
                pool_savings = savings * (sum(candidate.price for candidate in pool_candidates) / total_price)
            move_cost = sum(candidate.move_cost for candidate in pool_candidates)
            scores[name] = self.score_move(name, pool_savings, move_cost)
        return scores


def has_balanced_policy(candidate: NodeCandidate) -> bool:
    """Return whether the candidate's pool has the consolidation policy Balanced."""
    return candidate.pool.spec.disruption.consolidation_policy == BALANCED
