"""Simulated removals of nodes, whose pods are rescheduled with at most one cheaper replacement node.

Upstream: pkg/controllers/disruption/consolidation.go, helpers.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.autoscaling.karpenter.candidates import NodeCandidate, is_node_settling
from kschedctl.autoscaling.karpenter.claims import NewClaim, describe_unmet_min_values
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingColumns
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from kschedctl.autoscaling.karpenter.pods import is_active, is_drainable, is_provisionable, is_reschedulable
from kschedctl.autoscaling.karpenter.preferences import remove_soft_constraints
from kschedctl.autoscaling.karpenter.provision import (
    build_launched_claim,
    iter_nominated_nodes,
    truncate_instance_types,
)
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.scheduler import SchedulerRun
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.reports.karpenter import DisruptionCommand

MIN_SPOT_TYPES = 15
MAX_LISTED_ERRORS = 5
DELETE, REPLACE = "delete", "replace"


@dataclass(eq=False)
class RemovalOutcome:
    """The outcome of rescheduling the candidates' pods without the candidates."""

    run: SchedulerRun
    claims: list[NewClaim]
    """NodeClaims that would be launched."""
    fault: str
    """The reason why some pods cannot be rescheduled, or ""."""


@dataclass(eq=False)
class ReplacementClaim:
    """A NodeClaim that may replace nodes, with its instance types ordered by price."""

    claim: NewClaim
    order: list[int] = field(default_factory=list)
    """Rows of the instance types, as they were last sorted."""

    def __post_init__(self) -> None:
        self.sort_types_by_price()

    @property
    def columns(self) -> TypeColumns:
        """The columns of the claim's instance types."""
        return self.claim.template.columns

    def sort_types_by_price(self) -> None:
        """Sort the claim's instance types by price, as ``order``."""
        self.order = self.claim.sort_options_by_price()

    def keep_types_in_mask(self, mask: Bools) -> None:
        """Drop the instance types that are not set in a (T,) mask, also from the claim."""
        self.order = [index for index in self.order if mask[index]]
        self._set_claim_options()

    def truncate_types(self, count: int) -> None:
        """Drop all but the first ``count`` instance types, also from the claim."""
        self.order = self.order[:count]
        self._set_claim_options()

    def _set_claim_options(self) -> None:
        """Set the claim's options to the remaining instance types."""
        options = np.zeros(len(self.columns), np.bool_)
        options[self.order] = True
        self.claim.options = options

    def require_capacity_type(self, capacity_type: str) -> None:
        """Add the requirement to the claim that its node has this capacity type."""
        self.claim.requirements.add([LabelRequirement.from_operator(CAPACITY_TYPE, IN, (capacity_type,))])

    def keep_cheaper_types(self, price: float) -> str:
        """Drop the instance types that may launch at ``price`` or more.

        Return an error if the remaining types do not meet minValues, or else "".
        """
        self.keep_types_in_mask(compute_worst_launch_prices(self.columns, self.claim.requirements) < price)
        too_few = self.columns.find_unmet_min_values(self.claim.options, self.claim.requirements)
        return describe_unmet_min_values(too_few) if too_few else ""

    def get_cheapest_price(self) -> float:
        """Return the lowest price at which the first remaining instance type is offered.

        Return 0 if no type remains or the type is not offered.
        """
        if not self.order:
            return 0.0
        first_type, *_ = self.order
        prices = self.columns.compute_cheapest_prices(self.claim.requirements)
        price = float(prices[first_type])
        return price if np.isfinite(price) else 0.0

    def count_types_for_min_values(self) -> int:
        """Return how many of the cheapest types meet all minValues, or the number of all types if too few do."""
        chosen = np.zeros(len(self.columns), np.bool_)
        for count, index in enumerate(self.order, 1):
            chosen[index] = True
            if not self.columns.find_unmet_min_values(chosen, self.claim.requirements):
                return count
        return len(self.order)


@dataclass(eq=False)
class PlannedRemoval:
    """A planned disruption: the candidates to remove and their replacements."""

    candidates: Sequence[NodeCandidate]
    outcome: RemovalOutcome
    replacements: list[ReplacementClaim]

    @property
    def decision(self) -> str:
        """The decision about the candidates: "delete" or, if there is a replacement, "replace"."""
        return REPLACE if self.replacements else DELETE

    @property
    def price(self) -> float:
        """The hourly price of the candidates."""
        return sum(candidate.price for candidate in self.candidates)

    @property
    def savings(self) -> float:
        """The hourly price of the candidates minus the hourly price of the replacements."""
        return self.price - sum(offer.get_cheapest_price() for offer in self.replacements)

    def describe_node_removal(self, candidate: NodeCandidate) -> str:
        """Describe the removal in Karpenter's words, for the event about one of its nodes."""
        if len(self.candidates) > 1:
            return f"{self.decision}: [{candidate.name}] (part of {len(self.candidates)}-node consolidation)"
        count = len(self.replacements)
        if not count:
            return f"{self.decision}: [{candidate.name}]"
        noun = "replacement" if count == 1 else "replacements"
        return f"{self.decision}: [{candidate.name}] -> [{count} {noun}]"

    def build_command(self, max_instance_types: int) -> DisruptionCommand:
        """Build the report on the removal. Its claims name at most ``max_instance_types`` instance types."""
        return DisruptionCommand(
            decision=self.decision,
            candidates=tuple(sorted(candidate.name for candidate in self.candidates)),
            savings=self.savings,
            existing_nodes=tuple(iter_nominated_nodes(self.outcome.run)),
            replacements=tuple(build_launched_claim(offer.claim, max_instance_types) for offer in self.replacements),
        )


class Consolidation:
    """Simulations of removing nodes from one cluster."""

    def __init__(self, setting: KarpenterSetting) -> None:
        self.setting = setting

    @cached_property
    def settled_columns(self) -> ExistingColumns:
        """The columns of the existing nodes, in which settling nodes take no pods from other nodes."""
        setting = self.setting
        pools = {pool.metadata.name: pool for pool in setting.pools.node_pools}
        return setting.build_existing_node_columns(
            setting.pools, lambda node: is_node_settling(node, pools.get(node.pool), setting.now)
        )

    @cached_property
    def all_columns(self) -> ExistingColumns:
        """The columns of the existing nodes, in which settling nodes take pods like any other node."""
        return self.setting.build_existing_node_columns(self.setting.pools, lambda node: False)

    def simulate_scheduling(
        self,
        candidates: Sequence[NodeCandidate],
        log: EventLog,
        *,
        consolidating: bool = True,
        softened: Container[str] = (),
    ) -> RemovalOutcome | None:
        """Reschedule the candidates' pods as if the candidates were removed, and return the outcome.

        Pods that already wait for a node are scheduled along with them, but their errors do not count. Return None if
        no NodePool launches nodes. Without ``consolidating``, even settling nodes take the pods. The pods whose keys
        are in ``softened`` are placed without their soft constraints. Events are written to ``log``.
        """
        setting = self.setting
        if not setting.pools.node_pools:
            return None
        log.add_events(setting.pools.events)
        candidate_pods = [pod for candidate in candidates for pod in candidate.pods]
        for pod in (*candidate_pods, *setting.pods_of_deleting_nodes):
            if is_active(pod) and (is_reschedulable(pod) or is_drainable(pod)):
                log.log_end_of_protection(pod, setting.now)

        # Schedule the candidates' pods together with all pods that wait for a node anyway.
        reschedulable = [pod for pod in candidate_pods if setting.limits.is_currently_reschedulable(pod)]
        deleting_keys = {pod.key for pod in setting.reschedulable_deleting_pods}
        pods = [
            remove_soft_constraints(pod) if pod.key in softened else pod
            for pod in (*setting.pending, *reschedulable, *setting.reschedulable_deleting_pods)
        ]
        run = setting.run_scheduler(
            pods,
            self.settled_columns if consolidating else self.all_columns,
            without={candidate.name for candidate in candidates},
            strict_reservations=False,
            movable=deleting_keys | {pod.key for pod in pods if pod.status.phase == "Pending"},
        )

        # Collect the errors. Pods that were pending before do not count.
        errors = {key: "; ".join(pod_errors) for key, pod_errors in run.errors.items()}
        claims, launch_errors = self._truncate_claims(run)
        errors |= launch_errors | _find_uninitialized_node_errors(run, deleting_keys)
        pending_keys = {pod.key for pod in pods if is_provisionable(pod)}
        candidate_errors = {key: error for key, error in errors.items() if key not in pending_keys}
        return RemovalOutcome(run, claims, _describe_scheduling_errors(candidate_errors))

    def _truncate_claims(self, run: SchedulerRun) -> tuple[list[NewClaim], dict[str, str]]:
        """Truncate the instance types of a run's claims, and return the claims for which this is possible.

        For the pods of the other claims, return the error by the pod's key.
        """
        options = self.setting.options
        claims = []
        errors: dict[str, str] = {}
        for claim in run.claims:
            fault = truncate_instance_types(claim, options.max_instance_types, strict=not options.relaxes_min_values)
            if fault:
                errors |= {pod.key: fault for pod in claim.pods}
            else:
                claims.append(claim)
        return claims, errors

    def simulate_empty_removal(self) -> RemovalOutcome:
        """Return the outcome of removing nodes without pods, for which no pod has to be rescheduled."""
        return RemovalOutcome(self.setting.run_scheduler(pods=[], existing=self.all_columns), claims=[], fault="")

    def plan_consolidation(
        self, candidates: Sequence[NodeCandidate], log: EventLog, softened: Container[str] = ()
    ) -> PlannedRemoval | None:
        """Plan to delete the nodes, or to replace them with one cheaper node.

        Return None if neither is possible. The reason is logged only if there is a single candidate. The pods whose
        keys are in ``softened`` are placed without their soft constraints.
        """
        outcome = self.simulate_scheduling(candidates, log, softened=softened)
        if outcome is None:
            return None
        offers = [ReplacementClaim(claim) for claim in outcome.claims]
        fault = outcome.fault or self._restrict_to_one_cheaper_replacement(offers, candidates)
        if fault:
            if len(candidates) == 1:
                log.log_node_unconsolidatable(candidates[0].state, fault)
            return None

        removal = PlannedRemoval(candidates, outcome, offers)
        if offers:
            for candidate in candidates:
                log.log_consolidation_candidate(
                    candidate.state, removal.describe_node_removal(candidate), removal.savings
                )
        return removal

    def _restrict_to_one_cheaper_replacement(
        self, offers: Sequence[ReplacementClaim], candidates: Sequence[NodeCandidate]
    ) -> str:
        """Restrict the only replacement to cheaper types. Return an error if there are several, or if no type is left.

        Return "" if this succeeds or if no replacement is needed.
        """
        if not offers:
            return ""
        if len(offers) > 1:
            return f"Can't remove without creating {len(offers)} candidates"
        return self._restrict_to_cheaper_types(offers[0], candidates)

    def _restrict_to_cheaper_types(self, offer: ReplacementClaim, candidates: Sequence[NodeCandidate]) -> str:
        """Restrict the replacement to instance types that are cheaper than the nodes together.

        Return an error if no type is left or minValues needs more types, otherwise "". A replacement that may be spot
        or on-demand is then restricted to spot. If all nodes are spot and the replacement may be spot, the rules of
        `_restrict_spot_replacement` apply instead.
        """
        price = sum(candidate.price for candidate in candidates)
        are_all_spot = all(candidate.capacity_type == SPOT for candidate in candidates)
        capacity_type = offer.claim.requirements.get_requirement(CAPACITY_TYPE)
        if are_all_spot and capacity_type.allows_value(SPOT):
            return self._restrict_spot_replacement(offer, price, len(candidates))
        if fault := _drop_types_by_price(offer, price):
            return fault
        if capacity_type.allows_value(SPOT) and capacity_type.allows_value(ON_DEMAND):
            offer.require_capacity_type(SPOT)
        return ""

    def _restrict_spot_replacement(self, offer: ReplacementClaim, price: float, node_count: int) -> str:
        """Restrict the replacement of spot nodes to cheaper spot types. Return an error if this is impossible, or "".

        It is impossible if the feature is off or too few types are left. A single node needs at least MIN_SPOT_TYPES
        cheaper types. Its replacement keeps only the cheapest types, so that a slightly cheaper node does not soon
        replace it again.
        """
        if not self.setting.options.feature_gates.spot_to_spot_consolidation:
            return "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
        offer.require_capacity_type(SPOT)
        offer.keep_types_in_mask(offer.columns.find_offered_types(offer.claim.requirements))
        if fault := _drop_types_by_price(offer, price):
            return fault
        if node_count > 1:
            return ""
        if len(offer.order) < MIN_SPOT_TYPES:
            return (
                f"SpotToSpotConsolidation requires {MIN_SPOT_TYPES} cheaper instance type options than the current "
                f"candidate to consolidate, got {len(offer.order)}"
            )
        # minValues may need more types than this rule keeps
        min_values_types = offer.count_types_for_min_values() if offer.claim.requirements.have_min_values else 0
        offer.truncate_types(max(MIN_SPOT_TYPES, min_values_types))
        return ""


def _drop_types_by_price(offer: ReplacementClaim, price: float) -> str:
    """Drop the instance types that are not cheaper than ``price``, and return an error or "".

    It is an error if no type is left or the remaining types do not meet minValues.
    """
    if fault := offer.keep_cheaper_types(price):
        return f"Filtering by price: {fault}"
    return "" if offer.order else "Can't replace with a cheaper node"


def compute_worst_launch_prices(columns: TypeColumns, requirements: Requirements) -> np.ndarray:
    """Return the highest price at which each instance type may launch, as an array (T,).

    Karpenter tries reserved capacity first, then spot, then on-demand, so only a type's offerings of its first capacity
    type count. The price is infinite for types without an offering that meets the requirements.
    """
    worst_prices = np.full(len(columns), np.inf)
    has_price = np.zeros(len(columns), np.bool_)
    allowed = columns.find_matching_offerings(requirements)
    for capacity_type in (RESERVED, SPOT, ON_DEMAND):
        requirement = LabelRequirement.from_operator(CAPACITY_TYPE, IN, (capacity_type,))
        offerings = allowed & columns.find_matching_offerings({CAPACITY_TYPE: requirement})
        prices = np.full(len(columns), -np.inf)
        np.maximum.at(prices, columns.type_of[offerings], columns.prices[offerings])
        is_first_choice = np.isfinite(prices) & ~has_price
        worst_prices[is_first_choice] = prices[is_first_choice]
        has_price |= is_first_choice
    return worst_prices


def _find_uninitialized_node_errors(run: SchedulerRun, deleting_keys: set[str]) -> dict[str, str]:
    """Return an error for each pod that was placed on an uninitialized node, by the pod's key.

    ``deleting_keys`` are the keys of pods of deleting nodes, which are left out.
    """
    reasons: dict[str, str] = {}
    for node in run.nodes.used:
        state = node.existing.state
        if state.initialized:
            continue
        names = (("nodeclaim", state.claim), ("node", state.node))
        objects = ", ".join(f"{kind}/{obj.metadata.name}" for kind, obj in names if obj is not None)
        error = f"would schedule against uninitialized {objects}"
        reasons |= {pod.key: error for pod in node.pods if pod.key not in deleting_keys}
    return reasons


def _describe_scheduling_errors(errors: dict[str, str]) -> str:
    """Describe the errors of the first few pods, sorted by key, in Karpenter's words. Return "" without errors."""
    if not errors:
        return ""
    shown = "".join(f"{key} => {errors[key]} " for key in sorted(errors)[:MAX_LISTED_ERRORS])
    # As in upstream, exactly MAX_LISTED_ERRORS errors end with "and 0 other(s)"
    suffix = f" and {len(errors) - MAX_LISTED_ERRORS} other(s)" if len(errors) >= MAX_LISTED_ERRORS else ""
    return f"Not all pods would schedule, {shown}{suffix}"
