"""Candidates for disruption, the reasons why other nodes are not candidates, and the costs of disruption.

The consolidation policy Balanced weighs a move's savings against these costs. Upstream:
pkg/controllers/disruption/types.go and balanced.go, pkg/controllers/state/statenode.go and
pkg/utils/disruption/disruption.go (sigs.k8s.io/karpenter v1.14.1), whose words these are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.karpenter import NodeClaim, NodePool
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, NODE_POOL, ZONE
from kschedctl.autoscaling.karpenter.pods import (
    is_active,
    is_daemon_set_pod,
    is_protected_from_disruption,
    is_reschedulable,
)
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.cel.library.times import parse_go_duration

NEVER = "Never"
BASE_COST = 1.0
"""The cost of moving a node without pods."""

_BALANCED = "Balanced"
_DISRUPTION_FACTOR = 2
"""Upstream's k: how many times the saved share a move may disrupt."""
_THRESHOLD = 1.0 / _DISRUPTION_FACTOR
"""The lowest score of a move that is approved."""


@dataclass(frozen=True, eq=False)
class NodeCandidate:
    """A node that may be disrupted."""

    state: StateNode
    node: Node
    claim: NodeClaim
    pool: NodePool
    type: InstanceType | None
    pods: Sequence[Pod]
    """Pods that would have to be rescheduled."""
    price: float
    """Hourly price."""
    move_cost: float
    """Cost of rescheduling its pods, or 1 if there are none."""
    disruption_cost: float
    """Eviction cost of all its pods, scaled by the share of its lifetime that remains."""

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.state.name

    @property
    def capacity_type(self) -> str:
        """The capacity type in the node's labels, or ""."""
        return self.state.labels.get(CAPACITY_TYPE, "")

    @property
    def savings_ratio(self) -> float:
        """The price of the node divided by the cost of rescheduling its pods."""
        return self.price / self.move_cost

    @property
    def is_empty(self) -> bool:
        """True if rescheduling the node's pods costs no more than if it had no pods."""
        return self.move_cost <= BASE_COST

    def find_condition(self, type: str) -> Condition | None:
        """Return the NodeClaim's condition of this type, or None if it has none."""
        return find_claim_condition(self.claim, type)

    def has_condition(self, type: str) -> bool:
        """Return whether the NodeClaim's condition of this type is True."""
        return has_true_condition(self.claim, type)


@dataclass(eq=False)
class CandidateSearch:
    """A search for the nodes that a disruption method may disrupt."""

    setting: KarpenterSetting
    log: EventLog
    eventual: bool = False
    """True if a terminationGracePeriod overrides pods and budgets that block disruption."""
    blocking_budgets: dict[str, str] = field(default_factory=dict)
    """Node -> the PodDisruptionBudget that allows no disruption of one of its pods."""

    @cached_property
    def pools(self) -> dict[str, NodePool]:
        """The NodePools by name."""
        return {pool.metadata.name: pool for pool in self.setting.cluster.karpenter_node_pools}

    def find_candidates(self) -> list[NodeCandidate]:
        """Return all candidates, sorted by name, and log why other nodes are not candidates."""
        nodes = sorted(self.setting.nodes, key=lambda node: node.name)
        candidates = map(self._build_candidate, nodes)
        return [candidate for candidate in candidates if candidate is not None]

    def _build_candidate(self, state: StateNode) -> NodeCandidate | None:
        """Return the node as a candidate, or None if it cannot be one.

        With ``eventual``, pods do not block a node whose NodeClaim has a terminationGracePeriod. The reason why a node
        cannot be a candidate is logged, except for nodes without a NodeClaim.
        """
        if fault := _describe_node_blocker(state):
            if state.claim is not None:
                self.log.log_node_blocked(state, fault)
            return None
        assert state.node is not None
        assert state.claim is not None
        pool = self.pools.get(state.pool)
        columns = self.setting.get_type_columns(state.pool)
        if pool is None or not len(columns):
            self.log.log_node_blocked(state, f"NodePool not found (NodePool={state.pool})")
            return None
        can_pods_block = not self.eventual or state.claim.spec.termination_grace_period is None
        fault = self._describe_pod_blocker(state)
        if fault and can_pods_block:
            self.log.log_node_blocked(state, fault)
            return None

        type_index = columns.row_by_name.get(state.labels.get(INSTANCE_TYPE, ""))
        instance_type = columns.types[type_index] if type_index is not None else None
        pods = [pod for pod in state.bound if is_reschedulable(pod)]
        eviction_cost = sum(map(compute_eviction_cost, state.bound), 0.0)
        return NodeCandidate(
            state,
            state.node,
            state.claim,
            pool=pool,
            type=instance_type,
            pods=pods,
            price=get_offered_price(state.labels, instance_type),
            move_cost=BASE_COST + sum((max(0.0, compute_eviction_cost(pod)) for pod in pods), 0.0),
            disruption_cost=eviction_cost * self._compute_remaining_lifetime(state.claim),
        )

    def _describe_pod_blocker(self, state: StateNode) -> str:
        """Describe the pod or PodDisruptionBudget that blocks the node's disruption, or return "" if nothing does.

        A PodDisruptionBudget that blocks by itself is recorded in ``blocking_budgets``. The do-not-disrupt durations of
        active pods are logged until a pod blocks.
        """
        for pod in state.bound:
            if is_active(pod):
                self.log.log_end_of_protection(pod, self.setting.now)
                if is_protected_from_disruption(pod, self.setting.now):
                    return f'Pod has "{DO_NOT_DISRUPT}" annotation (Pod={pod.key})'
        for pod in state.bound:
            names = self.setting.limits.find_blocking_budgets(pod)
            if len(names) > 1:
                return f"Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{' '.join(names)}])"
            if names:
                self.blocking_budgets[state.name] = names[0]
                return f"Pdb prevents pod evictions (PodDisruptionBudget=[{names[0]}])"
        return ""

    def _compute_remaining_lifetime(self, claim: NodeClaim) -> float:
        """Return the share of expireAfter that remains, from 0.0 to 1.0. It is 1.0 if the node does not expire."""
        after = parse_duration_or_never(claim.spec.expire_after)
        if after is None or claim.metadata.creation_timestamp is None:
            return 1.0
        age_in_seconds = (self.setting.now - parse_microseconds(claim.metadata.creation_timestamp)) / 1e6
        lifetime_in_seconds = after / 1e9
        if not lifetime_in_seconds:
            return 0.0
        return min(max((lifetime_in_seconds - age_in_seconds) / lifetime_in_seconds, 0.0), 1.0)


def _describe_node_blocker(state: StateNode) -> str:
    """Describe why the node cannot be a candidate, regardless of its pods, or return "" if it can."""
    checks = (
        (state.claim is None, "Node isn't managed by karpenter"),
        (state.node is None, "Nodeclaim does not have an associated node"),
        (not state.initialized, "Node isn't initialized"),
        (state.deleting, "Node is deleting or marked for deletion"),
        (
            state.annotations.get(DO_NOT_DISRUPT) == "true",
            f'Disruption is blocked through the "{DO_NOT_DISRUPT}" annotation',
        ),
        (NODE_POOL not in state.labels, f"Node doesn't have required label (label={NODE_POOL})"),
    )
    return next((fault for is_blocked, fault in checks if is_blocked), "")


def compute_eviction_cost(pod: Pod) -> float:
    """Return the cost of evicting a pod, from -10 to 10. It grows with the pod's deletion cost and priority."""
    cost = 1.0  # the cost and both divisors are those of upstream's EvictionCost
    if (deletion_cost := pod.metadata.annotations.deletion_cost) is not None:
        cost += _parse_float_or_zero(deletion_cost) / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return min(max(cost, -10.0), 10.0)


def _compute_node_disruption_cost(state: StateNode) -> float:
    """Return the cost of disrupting a node: 1, plus the costs of evicting its pods other than DaemonSets' pods."""
    return BASE_COST + sum(max(0.0, compute_eviction_cost(pod)) for pod in state.pods if not is_daemon_set_pod(pod))


def find_claim_condition(claim: NodeClaim, type: str) -> Condition | None:
    """Return a NodeClaim's condition of this type, or None if it has no such condition."""
    return next((condition for condition in claim.status.conditions if condition.type == type), None)


def has_true_condition(claim: NodeClaim, type: str) -> bool:
    """Return whether a NodeClaim's condition of this type is True."""
    condition = find_claim_condition(claim, type)
    return condition is not None and condition.status == "True"


def parse_duration_or_never(text: str | None) -> int | None:
    """Parse a duration to nanoseconds, or return None if it is "Never" or missing.

    Raises InputError if the duration is malformed.
    """
    return None if text is None or text == NEVER else parse_go_duration(text, "duration")


def is_node_settling(state: StateNode, pool: NodePool | None, now: int) -> bool:
    """Return whether less than the pool's consolidateAfter has passed since the node's last pod event.

    A settling node is not consolidated and takes no pods from other nodes. Nodes without a pool or consolidateAfter,
    and nodes that are not initialized, are not settling.
    """
    consolidate_after = parse_duration_or_never(pool.spec.disruption.consolidate_after) if pool else None
    if not consolidate_after or state.claim is None or not has_true_condition(state.claim, "Initialized"):
        return False

    # Without a pod event, the time counts from the node's initialization.
    since = state.claim.status.last_pod_event_time
    initialized = find_claim_condition(state.claim, "Initialized")
    if not since and initialized is not None:
        since = initialized.last_transition_time
    if since is None:
        return False
    passed_nanoseconds = (now - parse_microseconds(since)) * 1000
    return passed_nanoseconds < consolidate_after


def get_offered_price(labels: Mapping[str, str], type: InstanceType | None) -> float:
    """Return the hourly price at which the type is offered in the node's zone and capacity type.

    Unavailable offerings also count. The price is 0 if there is no such offering, if its price is unknown, or if
    ``type`` is None.
    """
    zone, capacity_type = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
    offerings = type.offerings if type else ()
    for offering in offerings:
        if (offering.zone, offering.capacity_type) == (zone, capacity_type):
            return 0.0 if math.isnan(offering.price) else offering.price
    return 0.0


def _parse_float_or_zero(text: str) -> float:
    """Parse a number, or return 0 if the text is not a number."""
    try:
        return float(text)
    except ValueError:
        return 0.0


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
        """True if the score reaches the threshold."""
        return self.score >= _THRESHOLD

    def __str__(self) -> str:
        shares = f"savings {self.saved * 100:.1f}%, disruption {self.disrupted * 100:.1f}%"
        return f"score {self.score:.2f} >= threshold {_THRESHOLD:.2f} (k: {_DISRUPTION_FACTOR}, {shares})"


@dataclass(frozen=True, eq=False)
class PoolTotals:
    """The hourly price and disruption cost of each pool, by which moves are scored."""

    prices: Mapping[str, float]
    """Pool -> hourly price of its candidates."""
    costs: Mapping[str, float]
    """Pool -> cost of disrupting all its nodes."""

    @classmethod
    def from_candidates(cls, candidates: Iterable[NodeCandidate], nodes: Iterable[StateNode]) -> PoolTotals:
        """Add up, by pool, the prices of the candidates and the costs of disrupting all nodes.

        Nodes without a pool are left out.
        """
        prices: dict[str, float] = {}
        costs: dict[str, float] = {}
        by_name = {candidate.name: candidate for candidate in candidates}
        for candidate in by_name.values():
            pool = candidate.pool.metadata.name
            prices[pool] = prices.get(pool, 0.0) + candidate.price
        nodes_of_pools = [node for node in nodes if node.pool]
        # In a fixed order, because the rounding of a sum depends on the order
        for node in sorted(nodes_of_pools, key=lambda node: node.name):
            node_candidate = by_name.get(node.name)
            cost = node_candidate.move_cost if node_candidate else _compute_node_disruption_cost(node)
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
        """Return whether the policy of the candidate's pool approves deleting the node without a replacement.

        Pools without the policy Balanced or without a price approve every deletion.
        """
        pool = candidate.pool.metadata.name
        if not _has_balanced_policy(candidate) or self.prices.get(pool, 0.0) <= 0:
            return True
        return self.score_move(pool, candidate.price, candidate.move_cost).is_approved

    def score_move_by_pool(self, candidates: Sequence[NodeCandidate], savings: float) -> dict[str, MoveScore]:
        """Score a move of the candidates for each pool with the policy Balanced, and return the scores by pool.

        If the candidates belong to several pools, the savings are divided in proportion to their prices.
        """
        by_pool: dict[str, list[NodeCandidate]] = {}
        for candidate in candidates:
            by_pool.setdefault(candidate.pool.metadata.name, []).append(candidate)
        total_price = sum(candidate.price for candidate in candidates)
        scores = {}
        for name, pool_candidates in by_pool.items():
            if not _has_balanced_policy(pool_candidates[0]):
                continue
            pool_savings = savings
            if len(by_pool) > 1 and total_price > 0:
                pool_savings = savings * (sum(candidate.price for candidate in pool_candidates) / total_price)
            move_cost = sum(candidate.move_cost for candidate in pool_candidates)
            scores[name] = self.score_move(name, pool_savings, move_cost)
        return scores


def _has_balanced_policy(candidate: NodeCandidate) -> bool:
    """Return whether the candidate's pool has the consolidation policy Balanced."""
    return candidate.pool.spec.disruption.consolidation_policy == _BALANCED
