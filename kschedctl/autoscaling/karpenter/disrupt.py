"""Karpenter's disruption methods (emptiness, drift and consolidation), each replayed on the same snapshot.

Upstream: pkg/controllers/disruption/emptiness.go, drift.go, multinodeconsolidation.go, singlenodeconsolidation.go
(sigs.k8s.io/karpenter v1.14.1). Where Go's map order decides, the first by name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from kschedctl.api.json_values import JsonObject
from kschedctl.api.unhealthy_pods import describe_unhealthy
from kschedctl.autoscaling.growth import Begin, ignore_progress
from kschedctl.autoscaling.karpenter.balance import MoveScore, PoolTotals
from kschedctl.autoscaling.karpenter.candidates import CandidateSearch, NodeCandidate
from kschedctl.autoscaling.karpenter.consolidation import (
    Consolidation,
    PlannedRemoval,
    ReplacementClaim,
)
from kschedctl.autoscaling.karpenter.disruption_budgets import build_budget_mapping
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from kschedctl.autoscaling.karpenter.options import read_karpenter_options
from kschedctl.autoscaling.karpenter.preferences import describe_soft_constraints
from kschedctl.autoscaling.karpenter.provision import iter_overlay_verdicts
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.setting import NO_POOLS, KarpenterSetting
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.cluster import Cluster
from kschedctl.reports.karpenter import (
    AloneAnswer,
    Disruption,
    DisruptionCandidate,
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
    """Replay the next disruption of nodes by Karpenter (v1.14), and report why other nodes stay. Raises InputError.

    ``instance_types``, ``options`` and ``now`` have the same form as for ``provision``. ``begin`` reports progress.
    """
    catalog = read_instance_types(instance_types)
    parsed_options = read_karpenter_options(options or {})
    return DisruptionReplay(KarpenterSetting.for_cluster(cluster, catalog, parsed_options, now)).build_report(begin)


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

    def take_within_budgets(self, candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
        """Return the candidates that the budgets of their pools allow to disrupt together, in order."""
        remaining = dict(self.budgets)
        taken = []
        for candidate in candidates:
            name = candidate.pool.metadata.name
            if remaining[name]:
                remaining[name] -= 1
                taken.append(candidate)
        return taken


class DisruptionReplay:
    """A replay of all disruption methods on one cluster."""

    def __init__(self, setting: KarpenterSetting) -> None:
        self.setting = setting
        self.simulator = Consolidation(setting)
        self.answers: dict[str, AloneAnswer] = {}
        self.soft_constraints: dict[str, SoftConstraints] = {}
        """Node -> the soft constraints without which it could be disrupted."""

    def build_report(self, begin: Begin) -> Disruption:
        """Run every disruption method, and consolidation for each candidate alone, and report the results."""
        single = self._build_round(UNDERUTILIZED, _should_consolidate)
        done = begin("Taking nodes away", len(single.candidates))
        for candidate in single.candidates:
            self.answers[candidate.name] = self._consolidate_alone(candidate, single.totals)
            if self.answers[candidate.name].command is None and len(self.soft_constraints) < MAX_SOFTENED:
                self._record_soft_constraints(candidate, single.totals)
            done(1)
        return Disruption(
            emptiness=self._run_method(self._build_round(EMPTY, _is_empty_candidate), self._compute_emptiness),
            drift=self._run_method(self._build_round(DRIFTED, _is_drifted, eventual=True), self._compute_drift),
            multi=self._run_method(
                self._build_round(UNDERUTILIZED, _should_consolidate), self._compute_multi_consolidation
            ),
            single=self._run_method(single, self._compute_single_consolidation),
            per_node=self.answers,
            overlays=tuple(iter_overlay_verdicts(self.setting.overlays)),
            fates=tuple(self._iter_node_outcomes(single)),
        )

    def _iter_node_outcomes(self, single: MethodRound) -> Iterator[NodeFate]:
        """Yield what happens to each node that Karpenter manages, and why a node stays.

        `single` is the round of single-node consolidation. Nodes that are not among its candidates stay.
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

    def _build_excluded_outcome(self, state: StateNode, reason: str, blocking_budget: str) -> NodeFate:
        """Build the outcome of a node that is not a candidate, with the unready pods that use up `blocking_budget`.

        `blocking_budget` is the PodDisruptionBudget `namespace/name` that excludes the node, or "".
        """
        pods = self.setting.limits.find_unhealthy_pods(blocking_budget)
        return NodeFate(
            state.name,
            state.pool,
            STAYS,
            why=reason,
            cause=f"{describe_unhealthy(pods)}, which uses up the budget" if pods else "",
            unhealthy=tuple(pod.key for pod in pods),
        )

    def _build_candidate_outcome(self, candidate: NodeCandidate) -> NodeFate:
        """Build the outcome of a candidate for single-node consolidation.

        A node that stays has a reason, and the soft constraints that keep it if they are known.
        """
        answer = self.answers[candidate.name]
        if answer.command:
            outcome = answer.command.decision
            reason = ""
        else:
            outcome = STAYS
            reason = "; ".join(event.partition(": ")[2] for event in answer.events)
            if not reason:
                reason = NOT_WORTH if self.setting.pools.pools else NO_POOL_LAUNCHES
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

    def _build_round(
        self, reason: str, is_candidate: Callable[[NodeCandidate, EventLog], bool], *, eventual: bool = False
    ) -> MethodRound:
        """Find the candidates of a disruption method and the number of nodes that each pool may disrupt.

        With ``eventual``, a terminationGracePeriod overrides pods and budgets that block disruption.
        """
        candidate_log, budget_log = EventLog(), EventLog()
        search = CandidateSearch(self.setting, candidate_log, eventual)
        candidates = search.find_candidates()
        totals = PoolTotals.from_candidates(candidates, self.setting.nodes)
        budgets = build_budget_mapping(self.setting, reason, budget_log)
        return MethodRound(
            [candidate for candidate in candidates if is_candidate(candidate, candidate_log)],
            totals,
            budgets,
            candidate_log,
            budget_log,
            blocking_budgets=search.blocking_budgets,
        )

    def _run_method(
        self, round: MethodRound, decide: Callable[[MethodRound], PlannedRemoval | None]
    ) -> DisruptionMethod:
        """Run a disruption method and report its candidates, budgets and command."""
        removal = decide(round)
        max_instance_types = self.setting.options.max_instance_types
        return DisruptionMethod(
            candidates=tuple(map(_build_candidate_report, _sort_by_savings_ratio(round.candidates))),
            candidate_events=round.candidate_log.events,
            budgets=round.budgets,
            budget_events=round.budget_log.events,
            commands=(removal.build_command(max_instance_types),) if removal else (),
            events=round.log.events,
            error=round.error,
        )

    def _compute_emptiness(self, round: MethodRound) -> PlannedRemoval | None:
        """Plan to delete all empty candidates that the budgets allow together."""
        deletable = round.take_within_budgets(_sort_by_savings_ratio(round.candidates))
        return PlannedRemoval(deletable, self.simulator.simulate_empty_removal(), []) if deletable else None

    def _compute_drift(self, round: MethodRound) -> PlannedRemoval | None:
        """Plan to replace the first drifted candidate whose pods can be rescheduled, at any price.

        Candidates without pods come first, then those that drifted earliest.
        """
        by_time = sorted(round.candidates, key=_get_drift_time)
        for candidate in sorted(by_time, key=lambda candidate: bool(candidate.pods)):
            if not round.budgets[candidate.pool.metadata.name]:
                continue
            outcome = self.simulator.simulate_scheduling([candidate], round.log, consolidating=False)
            if outcome is None:
                round.error = NO_SCHEDULER
                return None
            if not outcome.fault:
                return PlannedRemoval([candidate], outcome, [ReplacementClaim(claim) for claim in outcome.claims])
            round.log.log_blocked(candidate.state, outcome.fault)
        return None

    def _compute_multi_consolidation(self, round: MethodRound) -> PlannedRemoval | None:
        """Plan to consolidate as many of the first candidates as possible together, at least two of them.

        The number is found by bisection. Return None if no number works, or with an error if no pool launches nodes.
        """
        budgeted = round.take_within_budgets(_sort_by_savings_ratio(round.candidates))
        low = 1
        high = min(len(budgeted) - 1, MAX_CONSOLIDATED_NODES)
        best: PlannedRemoval | None = None
        logged_scores: dict[str, MoveScore] = {}
        if low <= high and not self.setting.pools.pools:
            round.error = NO_SCHEDULER
            return None
        while low <= high:
            middle = (low + high) // 2
            removal = self.simulator.compute_consolidation(budgeted[: middle + 1], round.log)
            scores: dict[str, MoveScore] = {}
            if removal and _filter_out_same_type(removal):
                scores = round.totals.score_pools(removal.candidates, removal.savings)
            is_valid = removal is not None and _all_have_types(removal)
            if is_valid and all(score.is_approved for score in scores.values()):
                best = removal
                low = middle + 1
                logged_scores = scores
            else:
                high = middle - 1
                if not best and scores:
                    logged_scores = scores
        for pool, score in logged_scores.items():
            if score.is_approved:
                round.log.log_pool_approved(pool, str(score))
        return best

    def _compute_single_consolidation(self, round: MethodRound) -> PlannedRemoval | None:
        """Plan to consolidate the first candidate that can be consolidated alone, alternating between pools."""
        by_pool: dict[str, list[NodeCandidate]] = {}
        for candidate in _sort_by_savings_ratio(round.candidates):
            by_pool.setdefault(candidate.pool.metadata.name, []).append(candidate)
        turns = zip_longest(*(by_pool[name] for name in sorted(by_pool)))
        for candidate in chain.from_iterable(turns):
            if candidate is None:  # its pool has fewer candidates than another
                continue
            if not round.budgets[candidate.pool.metadata.name]:
                continue
            if removal := self._consolidate_one(candidate, round.totals, round.log):
                return removal
        return None

    def _consolidate_one(
        self, candidate: NodeCandidate, totals: PoolTotals, log: EventLog, softened: Container[str] = ()
    ) -> PlannedRemoval | None:
        """Plan to consolidate one candidate, or return None if that is impossible or not approved by its policy.

        The pods with the keys in `softened` are placed without their soft constraints. The reasons are written to
        `log`.
        """
        if not totals.would_approve_deletion(candidate):
            return None
        removal = self.simulator.compute_consolidation([candidate], log, softened)
        if removal is None:
            return None
        for score in totals.score_pools([candidate], removal.savings).values():
            if not score.is_approved:
                return None
            log.log_approved(candidate.state, str(score))
        return removal

    def _record_soft_constraints(self, candidate: NodeCandidate, totals: PoolTotals) -> None:
        """Record the soft constraints without which the node could be disrupted, if there are any.

        These are the constraints of each pod that decides alone, or of all pods with soft constraints if no pod does.
        """
        soft = [pod for pod in candidate.pods if describe_soft_constraints(pod)]
        if not soft or self.setting.options.ignores_preferences:
            return
        pods = [*self.setting.pending, *candidate.pods, *self.setting.deleting_node_pods]
        removal = self._consolidate_one(candidate, totals, EventLog(), {pod.key for pod in pods})
        if removal is None:
            return
        deciding = [
            pod for pod in soft[:MAX_SOFTENED] if self._consolidate_one(candidate, totals, EventLog(), {pod.key})
        ]
        self.soft_constraints[candidate.name] = SoftConstraints(
            {pod.key: describe_soft_constraints(pod) for pod in deciding or soft}, removal.decision
        )

    def _consolidate_alone(self, candidate: NodeCandidate, totals: PoolTotals) -> AloneAnswer:
        """Consolidate this candidate alone, and return the command and the events about the node."""
        log = EventLog()
        removal = self._consolidate_one(candidate, totals, log)
        command = removal.build_command(self.setting.options.max_instance_types) if removal else None
        return AloneAnswer(command, log.describe_node_events(candidate.node.metadata.name))


def _is_empty_candidate(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether emptiness may delete the candidate. Log the reason if its pool rules that out."""
    if candidate.pool.spec.replicas is not None:
        return False
    if _never_consolidates(candidate):
        log.log_unconsolidatable(
            candidate.state, f'NodePool "{candidate.pool.metadata.name}" has consolidation disabled'
        )
        return False
    return candidate.is_empty and candidate.has_condition(CONSOLIDATABLE)


def _is_drifted(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether the candidate is drifted and its pool is not static."""
    return candidate.pool.spec.replicas is None and candidate.has_condition(DRIFTED)


def _get_drift_time(candidate: NodeCandidate) -> str:
    """Return when the candidate drifted, or "" if that is unknown."""
    drifted = candidate.find_condition(DRIFTED)
    return (drifted and drifted.last_transition_time) or ""


def _should_consolidate(candidate: NodeCandidate, log: EventLog) -> bool:
    """Return whether consolidation may disrupt the candidate. Log the reason if its pool or type rules that out."""
    if candidate.pool.spec.replicas is not None:
        return False
    if fault := _describe_consolidation_blocker(candidate):
        log.log_unconsolidatable(candidate.state, fault)
        return False
    if candidate.is_empty:
        return False
    if candidate.pool.spec.disruption.consolidation_policy == WHEN_EMPTY:
        name = candidate.pool.metadata.name
        log.log_unconsolidatable(
            candidate.state, f'NodePool "{name}" has consolidation policy WhenEmpty, but node is not empty'
        )
        return False
    return candidate.has_condition(CONSOLIDATABLE)


def _describe_consolidation_blocker(candidate: NodeCandidate) -> str:
    """Describe why the candidate cannot be consolidated, or return ""."""
    labels = candidate.state.labels
    if candidate.type is None:
        return f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found'
    for label in (CAPACITY_TYPE, ZONE):
        if label not in labels:
            return f'Node does not have label "{label}"'
    if _never_consolidates(candidate):
        return f'NodePool "{candidate.pool.metadata.name}" has consolidation disabled'
    return ""


def _never_consolidates(candidate: NodeCandidate) -> bool:
    """Return whether the pool's consolidateAfter is Never."""
    return candidate.pool.spec.disruption.consolidate_after == "Never"


def _sort_by_savings_ratio(candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
    """Sort candidates by descending savings ratio, then by name."""
    return sorted(candidates, key=lambda candidate: (-candidate.savings_ratio, candidate.name))


def _build_candidate_report(candidate: NodeCandidate) -> DisruptionCandidate:
    """Build the report entry of a candidate."""
    return DisruptionCandidate(
        candidate.name,
        candidate.pool.metadata.name,
        candidate.price,
        reschedule_disruption_cost=candidate.move_cost,
        disruption_cost=candidate.disruption_cost,
        savings_ratio=candidate.savings_ratio,
    )


def _filter_out_same_type(removal: PlannedRemoval) -> bool:
    """Remove replacement types that are not cheaper than removed nodes of the same type.

    Return whether every replacement still has an instance type.
    """
    for offer in removal.replacements:
        if offer.keep_cheaper_types(_find_cheapest_same_type_price(offer, removal.candidates)):
            offer.truncate(0)
    return _all_have_types(removal)


def _all_have_types(removal: PlannedRemoval) -> bool:
    """Return whether every replacement has an instance type left."""
    return all(offer.order for offer in removal.replacements)


def _find_cheapest_same_type_price(offer: ReplacementClaim, candidates: Sequence[NodeCandidate]) -> float:
    """Return the lowest price of the removed nodes' types among those that the replacement may have.

    The price is infinite if no type is shared, and 0 if the price of a shared type is unknown.
    """
    prices: dict[str, float] = {}
    for candidate in candidates:
        assert candidate.type is not None
        labels = Requirements.from_labels(candidate.state.labels)
        offering_prices = [o.price for o in candidate.type.offerings if labels.compatible(o.requirements)]
        if offering_prices:
            known_price = prices.get(candidate.type.name) or float("inf")  # 0.0 stands for an unknown price
            prices[candidate.type.name] = min(known_price, *offering_prices)
        else:
            prices.setdefault(candidate.type.name, 0.0)
    names = {offer.columns.types[index].name for index in offer.order}
    return min((price for name, price in prices.items() if name in names), default=float("inf"))
