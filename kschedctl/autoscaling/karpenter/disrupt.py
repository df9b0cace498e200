"""Karpenter's disruption methods (emptiness, drift and consolidation), each replayed on the same snapshot.

Upstream: pkg/controllers/disruption/emptiness.go, drift.go, multinodeconsolidation.go, singlenodeconsolidation.go
(sigs.k8s.io/karpenter v1.14.1). Where Go's map order decides, the first by name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from kschedctl.api.json_values import JsonObject
from kschedctl.api.ownership import find_owner
from kschedctl.api.unhealthy_pods import describe_unhealthy_pods
from kschedctl.autoscaling.growth import Begin, ignore_progress
from kschedctl.autoscaling.karpenter.candidates import CandidateSearch, MoveScore, NodeCandidate, PoolTotals
from kschedctl.autoscaling.karpenter.consolidation import (
    Consolidation,
    PlannedRemoval,
    ReplacementClaim,
)
from kschedctl.autoscaling.karpenter.disruption_budgets import count_allowed_disruptions_by_pool
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE
from kschedctl.autoscaling.karpenter.preferences import describe_soft_constraints
from kschedctl.autoscaling.karpenter.provision import iter_overlay_verdicts
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.setting import NO_POOLS, KarpenterSetting, read_karpenter_options
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.cluster import Cluster
from kschedctl.reports.karpenter import (
    AloneAnswer,
    Disruption,
    DisruptionCandidate,
    DisruptionCommand,
    DisruptionMethod,
    NodeFate,
    SoftConstraints,
)

EMPTY, DRIFTED, UNDERUTILIZED = "Empty", "Drifted", "Underutilized"
CONSOLIDATABLE, WHEN_EMPTY = "Consolidatable", "WhenEmpty"
MAX_CONSOLIDATED_NODES = 100
MAX_SOFTENED = 20
"""Maximum number of nodes, and of pods per node, simulated without soft constraints. Each costs a simulation."""
STAYS = "stays"
NOT_CONSOLIDATABLE = "not consolidatable yet, or empty"
NO_SCHEDULER = f"creating scheduler, {NO_POOLS}"
NO_POOL_LAUNCHES = f"no NodePool is ready to launch nodes, so Karpenter moves no pods ({NO_SCHEDULER})"
NOT_WORTH = "under the policy Balanced, the savings do not justify the disruption"


def disrupt(
    cluster: Cluster,
    instance_types: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    begin: Begin = ignore_progress,
) -> Disruption:
    """Replay the next disruption of nodes by Karpenter (v1.14), and report why other nodes stay.

    ``instance_types``, ``options`` and ``now`` have the same form as for ``provision``. ``begin`` reports progress.
    Raises InputError if one of these is invalid.
    """
    catalog = read_instance_types(instance_types)
    parsed_options = read_karpenter_options(options or {})
    return DisruptionReplay(KarpenterSetting.for_cluster(cluster, catalog, parsed_options, now)).run(begin)


@dataclass(eq=False)
class MethodRound:
    """The candidates, budgets and events of one disruption method."""

    candidates: list[NodeCandidate]
    totals: PoolTotals
    budgets: dict[str, int]
    """Pool -> number of nodes that may be disrupted."""
    candidate_log: EventLog
    """Events written while candidates are selected."""
    budget_log: EventLog
    """Events about budgets that allow no disruption."""
    log: EventLog = field(default_factory=EventLog)
    """Events written while the method decides."""
    blocking_budgets: Mapping[str, str] = field(default_factory=dict)
    """Node -> the PodDisruptionBudget that prevents it from being a candidate."""
    error: str = ""
    """The error that ends the method, and with it Karpenter's whole round."""

    def take_candidates_within_budgets(self, candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
        """Return the first candidates of each pool, at most as many as the pool's budget allows."""
        remaining = dict(self.budgets)
        budgeted = []
        for candidate in candidates:
            name = candidate.pool.metadata.name
            if remaining[name]:
                remaining[name] -= 1
                budgeted.append(candidate)
        return budgeted


class DisruptionReplay:
    """A replay of all disruption methods on one cluster."""

    def __init__(self, setting: KarpenterSetting) -> None:
        self.setting = setting
        self.simulator = Consolidation(setting)
        self.answers: dict[str, AloneAnswer] = {}
        self.event_messages: dict[str, str] = {}
        """Node -> the messages of the events about it when only this node is tried."""
        self.soft_constraints: dict[str, SoftConstraints] = {}
        """Node -> the soft constraints without which it could be disrupted."""
        self.moved_pods: dict[str, tuple[str, ...]] = {}
        """Node that some command removes -> its pods that controllers recreate."""
        self.lost_pods: dict[str, tuple[str, ...]] = {}
        """Node that some command removes -> its pods that no controller recreates."""

    def run(self, begin: Begin) -> Disruption:
        """Run every disruption method, try to consolidate each candidate separately, and report the results.

        Soft constraints that keep nodes are searched for at most MAX_SOFTENED candidates. ``begin`` reports the
        progress over the candidates.
        """
        single_round = self._build_method_round(UNDERUTILIZED, _is_consolidation_candidate)
        done = begin("Taking nodes away", len(single_round.candidates))
        for candidate in single_round.candidates:
            self.answers[candidate.name] = self._try_candidate_alone(candidate, single_round.totals)
            if self.answers[candidate.name].command is None and len(self.soft_constraints) < MAX_SOFTENED:
                self._record_soft_constraints(candidate, single_round.totals)
            done(1)

        empty_round = self._build_method_round(EMPTY, _is_empty_candidate)
        emptiness = self._run_disruption_method(empty_round, self._plan_empty_node_deletion)
        drift_round = self._build_method_round(DRIFTED, _is_drifted_candidate, eventual=True)
        drift = self._run_disruption_method(drift_round, self._plan_drifted_node_replacement)
        multi_round = self._build_method_round(UNDERUTILIZED, _is_consolidation_candidate)
        multi = self._run_disruption_method(multi_round, self._plan_multi_node_consolidation)
        return Disruption(
            emptiness=emptiness,
            drift=drift,
            multi=multi,
            single=self._run_disruption_method(single_round, self._plan_single_node_consolidation),
            per_node=self.answers,
            overlays=tuple(iter_overlay_verdicts(self.setting.overlays)),
            fates=tuple(self._iter_node_outcomes(single_round)),
            without_claim=self._find_nodes_without_claim(),
            moved_pods=self.moved_pods,
            lost_pods=self.lost_pods,
        )

    def _build_command(self, removal: PlannedRemoval) -> DisruptionCommand:
        """Build the report on the removal, and record which pods of its nodes move or are lost."""
        for candidate in removal.candidates:
            lost = tuple(pod.key for pod in candidate.pods if find_owner(pod).kind == "Pod")
            moved = tuple(pod.key for pod in candidate.pods if pod.key not in lost)
            if lost:
                self.lost_pods[candidate.name] = lost
            if moved:
                self.moved_pods[candidate.name] = moved
        return removal.build_command(self.setting.options.max_instance_types)

    def _iter_node_outcomes(self, single: MethodRound) -> Iterator[NodeFate]:
        """Yield the outcome of each node that Karpenter manages, sorted by name.

        `single` is the round of single-node consolidation. Nodes that are not among its candidates stay, for the reason
        in its log.
        """
        candidates = {candidate.name: candidate for candidate in single.candidates}
        exclusion_reasons = {event.name: event.message for event in single.candidate_log.events if event.kind == "Node"}
        for state in sorted(self.setting.nodes, key=lambda node: node.name):
            if not state.managed:
                continue
            candidate = candidates.get(state.name)
            if candidate is None:
                reason = exclusion_reasons.get(state.name, NOT_CONSOLIDATABLE)
                yield self._build_excluded_outcome(state, reason, single.blocking_budgets.get(state.name, ""))
            else:
                yield self._build_candidate_outcome(candidate)

    def _find_nodes_without_claim(self) -> dict[str, str]:
        """Return, by node, the NodePool in the node's label, if no NodeClaim belongs to the node or names it."""
        cluster = self.setting.cluster
        nodes_with_claim = {state.node.metadata.name for state in self.setting.nodes if state.node and state.managed}
        nodes_with_claim |= {claim.status.node_name for claim in cluster.node_claims}
        pool_by_node = {node.metadata.name: node.metadata.labels.get(NODE_POOL, "") for node in cluster.nodes}
        return {name: pool for name, pool in pool_by_node.items() if pool and name not in nodes_with_claim}

    def _build_excluded_outcome(self, state: StateNode, reason: str, blocking_budget: str) -> NodeFate:
        """Build the outcome of a node that is not a candidate and stays for this reason.

        `blocking_budget` is the PodDisruptionBudget `namespace/name` that excludes the node, or "". The unready pods
        that use up the budget are named as the cause.
        """
        pods = self.setting.limits.find_unhealthy_pods(blocking_budget)
        return NodeFate(
            state.name,
            state.pool,
            STAYS,
            why=reason,
            cause=f"{describe_unhealthy_pods(pods)}, which uses up the budget" if pods else "",
            unhealthy=tuple(pod.key for pod in pods),
        )

    def _build_candidate_outcome(self, candidate: NodeCandidate) -> NodeFate:
        """Build the outcome of a candidate for single-node consolidation.

        If the node stays, the outcome gives the reason and, if they are known, the soft constraints that keep the node.
        """
        answer = self.answers[candidate.name]
        if answer.command:
            outcome = answer.command.decision
            reason = ""
        else:
            outcome = STAYS
            reason = self.event_messages[candidate.name]
            if not reason:
                reason = NOT_WORTH if self.setting.pools.node_pools else NO_POOL_LAUNCHES
        soft = self.soft_constraints.get(candidate.name)
        return NodeFate(
            candidate.name,
            candidate.state.pool,
            outcome,
            price=candidate.price,
            pods=len(candidate.pods),
            why=reason,
            cause=soft.sentence if soft else "",
            soft_constraints=soft,
        )

    def _build_method_round(
        self, reason: str, is_candidate: Callable[[NodeCandidate, EventLog], bool], *, eventual: bool = False
    ) -> MethodRound:
        """Find a disruption method's candidates and the number of nodes that each pool may disrupt.

        `reason` is the method's reason in disruption budgets, and `is_candidate` is the method's filter for candidates.
        With `eventual`, a terminationGracePeriod overrides pods and budgets that block disruption.
        """
        candidate_log, budget_log = EventLog(), EventLog()
        search = CandidateSearch(self.setting, candidate_log, eventual)
        candidates = search.find_candidates()
        totals = PoolTotals.from_candidates(candidates, self.setting.nodes)
        budgets = count_allowed_disruptions_by_pool(self.setting, reason, budget_log)
        return MethodRound(
            [candidate for candidate in candidates if is_candidate(candidate, candidate_log)],
            totals,
            budgets,
            candidate_log=candidate_log,
            budget_log=budget_log,
            blocking_budgets=search.blocking_budgets,
        )

    def _run_disruption_method(
        self, method_round: MethodRound, decide: Callable[[MethodRound], PlannedRemoval | None]
    ) -> DisruptionMethod:
        """Let a disruption method decide on a removal, and report its candidates, budgets, events and command."""
        removal = decide(method_round)
        return DisruptionMethod(
            candidates=tuple(map(_build_candidate_report, _sort_by_savings_ratio(method_round.candidates))),
            candidate_events=method_round.candidate_log.events,
            budgets=method_round.budgets,
            budget_events=method_round.budget_log.events,
            commands=(self._build_command(removal),) if removal else (),
            events=method_round.log.events,
            error=method_round.error,
        )

    def _plan_empty_node_deletion(self, method_round: MethodRound) -> PlannedRemoval | None:
        """Plan to delete as many empty candidates as the budgets allow, or return None if there is none."""
        deletable = method_round.take_candidates_within_budgets(_sort_by_savings_ratio(method_round.candidates))
        return (
            PlannedRemoval(deletable, self.simulator.simulate_empty_removal(), replacements=[]) if deletable else None
        )

    def _plan_drifted_node_replacement(self, method_round: MethodRound) -> PlannedRemoval | None:
        """Plan to replace the first drifted candidate whose pods can be rescheduled, at any price.

        Candidates without pods come first, then the candidates that drifted earliest. Candidates of a pool with an
        exhausted disruption budget are skipped. Return None if no candidate can be replaced. If no pool launches nodes,
        the round gets an error.
        """
        by_time = sorted(method_round.candidates, key=_get_drift_time)
        for candidate in sorted(by_time, key=lambda candidate: bool(candidate.pods)):
            if not method_round.budgets[candidate.pool.metadata.name]:
                continue
            outcome = self.simulator.simulate_scheduling([candidate], method_round.log, consolidating=False)
            if outcome is None:
                method_round.error = NO_SCHEDULER
                return None
            if not outcome.fault:
                return PlannedRemoval([candidate], outcome, [ReplacementClaim(claim) for claim in outcome.claims])
            method_round.log.log_node_blocked(candidate.state, outcome.fault)
        return None

    def _plan_multi_node_consolidation(self, method_round: MethodRound) -> PlannedRemoval | None:
        """Plan to consolidate the first candidates together, as many as possible and at least two.

        Candidates are sorted by savings ratio, and their number is found by bisection. Pools with the policy Balanced
        have to approve the move, and are logged if they do. Return None if no number works. If no pool launches nodes,
        return None as well, and the round gets an error.
        """
        budgeted = method_round.take_candidates_within_budgets(_sort_by_savings_ratio(method_round.candidates))
        # Both bounds are indexes of the last candidate, so at least two candidates are consolidated.
        low = 1
        high = min(len(budgeted) - 1, MAX_CONSOLIDATED_NODES)
        if low <= high and not self.setting.pools.node_pools:
            method_round.error = NO_SCHEDULER
            return None

        best: PlannedRemoval | None = None
        best_scores: dict[str, MoveScore] = {}
        rejected_scores: dict[str, MoveScore] = {}
        while low <= high:
            middle = (low + high) // 2
            removal = self.simulator.plan_consolidation(budgeted[: middle + 1], method_round.log)
            if removal is None or not _drop_expensive_shared_types(removal):
                high = middle - 1
                continue
            scores = method_round.totals.score_move_by_pool(removal.candidates, removal.savings)
            if all(score.is_approved for score in scores.values()):
                best, best_scores = removal, scores
                low = middle + 1
            else:
                rejected_scores = scores
                high = middle - 1

        # Some pools may approve a removal that another pool rejects. They are logged if no removal is approved by all.
        scores_to_log = rejected_scores if best is None else best_scores
        for pool, score in scores_to_log.items():
            if score.is_approved:
                method_round.log.log_pool_approved(pool, str(score))
        return best

    def _plan_single_node_consolidation(self, method_round: MethodRound) -> PlannedRemoval | None:
        """Plan to consolidate the first node that can be consolidated without other nodes, or return None.

        The pools take turns, each with its candidates by descending savings ratio. Candidates of a pool with an
        exhausted disruption budget are skipped.
        """
        by_pool: dict[str, list[NodeCandidate]] = {}
        for candidate in _sort_by_savings_ratio(method_round.candidates):
            by_pool.setdefault(candidate.pool.metadata.name, []).append(candidate)
        turns = zip_longest(*(by_pool[name] for name in sorted(by_pool)))
        for candidate in chain.from_iterable(turns):
            if candidate is None:  # the filler for a pool that has no more candidates
                continue
            if not method_round.budgets[candidate.pool.metadata.name]:
                continue
            if removal := self._plan_candidate_consolidation(candidate, method_round.totals, method_round.log):
                return removal
        return None

    def _plan_candidate_consolidation(
        self, candidate: NodeCandidate, totals: PoolTotals, log: EventLog, softened: Container[str] = ()
    ) -> PlannedRemoval | None:
        """Plan to consolidate one candidate, or return None if this is impossible or its pool's policy rejects it.

        The pods whose keys are in `softened` are placed without their soft constraints. Events, for example the
        reason why consolidation is impossible, are written to `log`.
        """
        if not totals.would_approve_deletion(candidate):
            return None
        removal = self.simulator.plan_consolidation([candidate], log, softened)
        if removal is None:
            return None
        for score in totals.score_move_by_pool([candidate], removal.savings).values():
            if not score.is_approved:
                return None
            log.log_node_approved(candidate.state, str(score))
        return removal

    def _record_soft_constraints(self, candidate: NodeCandidate, totals: PoolTotals) -> None:
        """Record in `soft_constraints` which pods' soft constraints prevent the node's disruption.

        A pod is recorded if the node could be disrupted without this pod's constraints. If there is no such pod, all
        pods with soft constraints are recorded. Nothing is recorded if Karpenter ignores preferences, or if the node
        would stay even without any soft constraints.
        """
        soft = [pod for pod in candidate.pods if describe_soft_constraints(pod)]
        if not soft or self.setting.options.ignores_preferences:
            return
        pods = [*self.setting.pending, *candidate.pods, *self.setting.reschedulable_deleting_pods]
        removal = self._plan_candidate_consolidation(candidate, totals, EventLog(), {pod.key for pod in pods})
        if removal is None:
            return
        deciding = [
            pod
            for pod in soft[:MAX_SOFTENED]
            if self._plan_candidate_consolidation(candidate, totals, EventLog(), {pod.key})
        ]
        self.soft_constraints[candidate.name] = SoftConstraints(
            {pod.key: describe_soft_constraints(pod) for pod in deciding or soft}, removal.decision
        )

    def _try_candidate_alone(self, candidate: NodeCandidate, totals: PoolTotals) -> AloneAnswer:
        """Try to consolidate only this candidate, and return the command and the events about the node.

        The command is None if the candidate cannot be consolidated. The messages of the events are also recorded in
        `self.event_messages`.
        """
        log = EventLog()
        removal = self._plan_candidate_consolidation(candidate, totals, log)
        command = self._build_command(removal) if removal else None
        events = log.list_node_events(candidate.node.metadata.name)
        self.event_messages[candidate.name] = "; ".join(event.message for event in events)
        return AloneAnswer(command, tuple(f"{event.reason}: {event.message}" for event in events))


def _is_empty_candidate(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether the candidate may be deleted because it is empty.

    Nodes of static pools may not be deleted. If the candidate's pool never consolidates, log this and return False.
    """
    if candidate.pool.spec.replicas is not None:
        return False
    if _is_consolidation_disabled(candidate):
        log.log_node_unconsolidatable(
            candidate.state, f'NodePool "{candidate.pool.metadata.name}" has consolidation disabled'
        )
        return False
    return candidate.is_empty and candidate.has_condition(CONSOLIDATABLE)


def _is_drifted_candidate(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether the candidate is drifted and its pool is not static."""
    return candidate.pool.spec.replicas is None and candidate.has_condition(DRIFTED)


def _get_drift_time(candidate: NodeCandidate) -> str:
    """Return the time at which the candidate drifted, or "" if it is unknown."""
    drifted = candidate.find_condition(DRIFTED)
    return (drifted and drifted.last_transition_time) or ""


def _is_consolidation_candidate(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether consolidation may disrupt the candidate, which must not be empty.

    Log the reason if the candidate's pool, labels or instance type forbid it.
    """
    if candidate.pool.spec.replicas is not None:
        return False
    if fault := _describe_consolidation_blocker(candidate):
        log.log_node_unconsolidatable(candidate.state, fault)
        return False
    if candidate.is_empty:
        return False
    if candidate.pool.spec.disruption.consolidation_policy == WHEN_EMPTY:
        name = candidate.pool.metadata.name
        log.log_node_unconsolidatable(
            candidate.state, f'NodePool "{name}" has consolidation policy WhenEmpty, but node is not empty'
        )
        return False
    return candidate.has_condition(CONSOLIDATABLE)


def _describe_consolidation_blocker(candidate: NodeCandidate) -> str:
    """Describe why the candidate cannot be consolidated in any case, or return "" if nothing prevents it.

    Its instance type may be unknown, a label may be missing, or its pool may never consolidate.
    """
    labels = candidate.state.labels
    if candidate.type is None:
        return f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found'
    for label in (CAPACITY_TYPE, ZONE):
        if label not in labels:
            return f'Node does not have label "{label}"'
    if _is_consolidation_disabled(candidate):
        return f'NodePool "{candidate.pool.metadata.name}" has consolidation disabled'
    return ""


def _is_consolidation_disabled(candidate: NodeCandidate) -> bool:
    """Return whether the consolidateAfter of the candidate's pool is Never."""
    return candidate.pool.spec.disruption.consolidate_after == "Never"


def _sort_by_savings_ratio(candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
    """Sort candidates by descending savings ratio, then by name."""
    return sorted(candidates, key=lambda candidate: (-candidate.savings_ratio, candidate.name))


def _build_candidate_report(candidate: NodeCandidate) -> DisruptionCandidate:
    """Build the report entry of a candidate, with its price and its disruption costs."""
    return DisruptionCandidate(
        candidate.name,
        candidate.pool.metadata.name,
        candidate.price,
        reschedule_disruption_cost=candidate.move_cost,
        disruption_cost=candidate.disruption_cost,
        savings_ratio=candidate.savings_ratio,
    )


def _drop_expensive_shared_types(removal: PlannedRemoval) -> bool:
    """Drop the replacements' types that cost at least as much as the cheapest removed node whose type they may have.

    Otherwise, nodes might be replaced by a node of the same type. A replacement that no longer meets minValues loses
    all its types. Return whether every replacement still has an instance type.
    """
    for offer in removal.replacements:
        max_price = _compute_cheapest_same_type_price(offer, removal.candidates)
        min_values_error = offer.keep_cheaper_types(max_price)
        if min_values_error:
            offer.truncate_types(0)
    return _has_type_for_each_replacement(removal)


def _has_type_for_each_replacement(removal: PlannedRemoval) -> bool:
    """Return whether every replacement has an instance type left."""
    return all(offer.order for offer in removal.replacements)


def _compute_cheapest_same_type_price(offer: ReplacementClaim, candidates: Sequence[NodeCandidate]) -> float:
    """Return the lowest price among the removed nodes whose instance type the replacement may also have.

    The price is infinite if there is no such node, and 0 if the price of such a type is unknown.
    """
    prices: dict[str, float] = {}
    for candidate in candidates:
        assert candidate.type is not None
        labels = Requirements.from_labels(candidate.state.labels)
        offering_prices = [
            offering.price for offering in candidate.type.offerings if labels.is_compatible_with(offering.requirements)
        ]
        if offering_prices:
            known_price = prices.get(candidate.type.name) or float("inf")  # 0.0 stands for an unknown price
            prices[candidate.type.name] = min(known_price, *offering_prices)
        else:
            prices.setdefault(candidate.type.name, 0.0)
    names = {offer.columns.types[index].name for index in offer.order}
    return min((price for name, price in prices.items() if name in names), default=float("inf"))
