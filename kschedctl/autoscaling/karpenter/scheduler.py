"""Karpenter's scheduler, which tries existing nodes, then claims of the run, then new claims.

Upstream: pkg/controllers/provisioning/scheduling/scheduler.go, queue.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.amounts import ZERO, convert_to_thousandths
from kschedctl.autoscaling.karpenter.claims import ClaimAcceptance, ClaimRefusal, NewClaim, RunSettings
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.existing_nodes import RunNodes
from kschedctl.autoscaling.karpenter.go_order import compute_go_sort_order
from kschedctl.autoscaling.karpenter.pod_data import PodData
from kschedctl.autoscaling.karpenter.preferences import relax_pod
from kschedctl.autoscaling.karpenter.state_nodes import NODES
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate

NO_TEMPLATES = "nodepool requirements filtered out all available instance types"


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A preference that a pod gave up."""

    pod: str
    reason: str


@dataclass(eq=False)
class SchedulerRun:
    """One scheduling run and its results."""

    templates: Sequence[ClaimTemplate]
    groups: Mapping[str, Sequence[DaemonGroup]]
    nodes: RunNodes
    remaining: dict[str, Quantities]
    """Pool -> resources that its limits leave. Pools without limits are missing."""
    settings: RunSettings
    movable: frozenset[str]
    """Keys of pods that even settling nodes accept: pending pods and pods of deleting nodes."""
    claims: list[NewClaim] = field(default_factory=list)
    refusals: dict[str, tuple[ClaimRefusal, ...]] = field(default_factory=dict)
    """Pod -> refusals, one for each template."""
    relaxations: list[Relaxation] = field(default_factory=list)
    current_pods: dict[str, Pod] = field(default_factory=dict)
    """Pod key -> the pod with expressions for its matchLabelKeys."""
    hosts: int = 0
    """Number of placeholder hostnames handed out so far."""

    @property
    def errors(self) -> dict[str, tuple[str, ...]]:
        """The error texts of each pod that was not placed, by pod key. Each template has one."""
        return {key: tuple(refusal.reason for refusal in refusals) for key, refusals in self.refusals.items()}

    def place_pods(self, pods: Iterable[PodData]) -> None:
        """Place the pods on nodes and claims, retrying pods that fail until a whole round places no pod.

        The results are stored in the fields, and the claims are finalized.
        """
        queue = deque(sorted(pods, key=_build_queue_key))
        self.current_pods = {data.pod.key: data.pod for data in queue}
        queue_lengths: dict[str, int] = {}  # pod -> length of the queue when the pod was put back
        while queue:
            if queue_lengths.get(queue[0].pod.key) == len(queue):
                break  # no pod was placed since this one was put back
            data = queue.popleft()
            key = data.pod.key
            refusals = self._place_pod_with_relaxations(data)
            if refusals is None:
                self.refusals.pop(key, None)
                continue

            # Retry the pod in its original form, with all preferences.
            self.refusals[key] = refusals
            self.current_pods[key] = self.settings.topology.assign_to_groups(data.pod)
            queue.append(
                data.with_relaxed_pod(self.current_pods[key], ignores_preferences=self.settings.ignores_preferences)
            )
            queue_lengths[key] = len(queue)
        for claim in self.claims:
            claim.finalize_scheduling()

    def _place_pod_with_relaxations(self, data: PodData) -> tuple[ClaimRefusal, ...] | None:
        """Place a pod, relaxing it step by step until it fits, and record the relaxations. Return None if it is placed.

        Return the last refusals if nothing is left to relax, or if the pod waits for reserved capacity.
        """
        while True:
            refusals = self._place_pod(data)
            if refusals is None:
                return None
            if any(refusal.final for refusal in refusals):
                return tuple(refusals)
            relaxed = relax_pod(data.pod, tolerate_prefer_no_schedule=self.settings.tolerates_prefer_no_schedule)
            if relaxed is None:
                return tuple(refusals)
            self.relaxations.append(Relaxation(data.pod.key, relaxed.change))
            relaxed_pod = self.settings.topology.assign_to_groups(relaxed.pod)
            data = data.with_relaxed_pod(relaxed_pod, ignores_preferences=self.settings.ignores_preferences)

    def _place_pod(self, data: PodData) -> list[ClaimRefusal] | None:
        """Add a pod to an existing node, to a claim of the run, or to a new claim.

        Claims with few pods are tried first. Return the refusals of the templates, or None if the pod is added.
        """
        if self.nodes.place_pod_on_accepting_node(data, self.settings.topology, movable=data.pod.key in self.movable):
            return None
        fewest_pods_first = compute_go_sort_order([len(claim.pods) for claim in self.claims])
        self.claims = [self.claims[index] for index in fewest_pods_first]
        for claim in self.claims:
            accepted = claim.check_pod_fits(data)
            if isinstance(accepted, ClaimAcceptance):
                claim.add_pod(data, accepted)
                return None
        return self._add_pod_to_new_claim(data) if self.templates else [ClaimRefusal(NO_TEMPLATES)]

    def _add_pod_to_new_claim(self, data: PodData) -> list[ClaimRefusal] | None:
        """Add a pod to a new claim of the first template that accepts the pod.

        Return each template's refusal, or None if the pod is added. A final refusal ends the search.
        """
        refusals: list[ClaimRefusal] = []
        for template in self.templates:
            options = self._filter_types_by_limits(template)
            if isinstance(options, ClaimRefusal):
                refusals.append(options)
                continue
            claim = NewClaim.from_template(
                template, self.groups[template.name], self._create_hostname(), self.settings, options
            )
            outcome = claim.check_pod_fits(data, relax_min_values=self.settings.relaxes_min_values)
            if isinstance(outcome, ClaimAcceptance):
                self._add_claim_to_run(claim, data, outcome)
                return None
            refusals.append(outcome)
            if outcome.final:
                break
        return refusals

    def _add_claim_to_run(self, claim: NewClaim, data: PodData, acceptance: ClaimAcceptance) -> None:
        """Add a new claim with its first pod to the run, and charge the limits of its pool.

        The largest capacities of the instance types that the claim may have are charged. Whether the claim's minValues
        were lowered for the pod is recorded.
        """
        claim.min_values_relaxed = any(
            _is_min_values_lowered(acceptance.requirements.get_requirement(key).min_values, requirement.min_values)
            for key, requirement in claim.requirements.items()
        )
        claim.add_pod(data, acceptance)
        self.claims.append(claim)
        remaining = self.remaining.get(claim.template.name)
        if remaining is not None:
            largest = claim.template.columns.compute_largest_capacity(claim.options)
            reduced = {name: amount.sub(largest.get(name, ZERO)) for name, amount in remaining.items()}
            self.remaining[claim.template.name] = reduced

    def _filter_types_by_limits(self, template: ClaimTemplate) -> Bools | ClaimRefusal:
        """Return a (T,) mask of the instance types that the pool's limits allow, or a refusal if they allow none."""
        remaining = self.remaining.get(template.name)
        if remaining is None:
            return template.options
        # Without a limit on nodes, one more is always possible
        if remaining.get(NODES, Quantity(1)) == ZERO:
            return ClaimRefusal(f"node limits have been exhausted for nodepool (NodePool={template.name})")
        type_mask = template.options.copy()
        for name, amount in convert_to_thousandths(remaining).items():
            type_mask &= template.columns.capacity.get_column(name) <= amount
        if not type_mask.any():
            return ClaimRefusal(f"all available instance types exceed limits for nodepool (NodePool={template.name})")
        return type_mask

    def _create_hostname(self) -> str:
        """Return the next placeholder hostname for a new claim."""
        self.hosts += 1
        return f"hostname-placeholder-{self.hosts:04d}"


def _is_min_values_lowered(updated: int | None, original: int | None) -> bool:
    """Return whether both minValues are set and the updated value is lower."""
    return updated is not None and original is not None and updated < original


def _build_queue_key(data: PodData) -> tuple[int, int, str, str]:
    """Build the sort key of the queue: descending CPU and memory requests, then creation time and UID."""
    metadata = data.pod.metadata
    amounts = data.amounts
    return -amounts.get("cpu", 0), -amounts.get("memory", 0), metadata.creation_timestamp or "", metadata.uid
