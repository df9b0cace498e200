"""The flavors that a Workload could get in a cycle, and what would have to happen first.

Upstream: the types of pkg/scheduler/flavorassigner/flavorassigner.go and flavor_assigner_attempts.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from kschedctl.kueue.amounts import FlavorResource, Requests, Usage, add_amounts
from kschedctl.kueue.topology.snapshot import TopologyResult
from kschedctl.kueue.workloads import PodSetAdmission, ScanProgress, TopologyPlacement, WorkloadInfo


class AssignmentMode(IntEnum):
    """The condition under which flavors can be assigned, the worst first."""

    NO_FIT = 0
    """There is not enough quota, and preemption would not help."""
    PREEMPT = 1
    """Workloads have to be preempted first."""
    DEFERRED_FIT = 2
    """It fits once preemptions that were already decided are done."""
    FIT = 3
    """It fits now."""

    @property
    def label(self) -> str:
        """The name that Kueue prints for the mode."""
        return {
            AssignmentMode.NO_FIT: "NoFit",
            AssignmentMode.PREEMPT: "Preempt",
            AssignmentMode.DEFERRED_FIT: "DeferredFit",
            AssignmentMode.FIT: "Fit",
        }[self]


class PreemptionMode(IntEnum):
    """The step that is needed to fit a resource into a flavor, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """No Workload may be preempted for it."""
    PREEMPT = 2
    """A Workload of the same ClusterQueue would be preempted."""
    RECLAIM = 3
    """Only Workloads of other ClusterQueues would be preempted."""
    FIT = 4

    @property
    def assignment_mode(self) -> AssignmentMode:
        """The mode of an assignment that needs this preemption."""
        if self == PreemptionMode.NO_FIT:
            return AssignmentMode.NO_FIT
        return AssignmentMode.FIT if self == PreemptionMode.FIT else AssignmentMode.PREEMPT

    @property
    def label(self) -> str:
        """The name that Kueue prints for the mode, or "" for NO_FIT and FIT, which involve no preemption."""
        labels = {
            PreemptionMode.NO_CANDIDATES: "NoCandidates",
            PreemptionMode.PREEMPT: "Preempt",
            PreemptionMode.RECLAIM: "Reclaim",
        }
        return labels.get(self, "")


class NoFitReason(Enum):
    """The reason why flavors could not be assigned, as severity and name in the API."""

    NONE = (0, "")
    TOPOLOGY_PLACEMENT_FAILED = (1, "TopologyPlacementFailed")
    WAITING_FOR_QUOTA = (2, "WaitingForQuota")
    EXCEEDS_MAX_QUOTA = (3, "ExceedsMaxQuota")
    NO_MATCHING_FLAVOR = (4, "NoMatchingFlavor")

    @property
    def severity(self) -> int:
        """A number that is larger for worse reasons."""
        severity, _label = self.value
        return severity

    @property
    def label(self) -> str:
        """The reason that Kueue writes into the Workload's condition."""
        _severity, label = self.value
        return label


def find_most_severe_reason(reasons: Iterable[NoFitReason]) -> NoFitReason:
    """Return the most severe of the reasons, or NONE if there are no reasons."""
    return max(reasons, key=lambda reason: reason.severity, default=NoFitReason.NONE)


@dataclass(slots=True)
class FlavorChoice:
    """The flavor of a resource."""

    flavor: str
    mode: AssignmentMode
    tried_index: int = 0
    """The index of the last flavor that was tried, or ALL_FLAVORS_TRIED."""
    borrowing: int = 0
    """The height of the cohort tree that has to be borrowed from, 0 if none."""


@dataclass(slots=True)
class FlavorAttempt:
    """The verdict on a flavor that was tried for a pod set."""

    flavor: str
    mode: AssignmentMode
    reasons: list[str] = field(default_factory=list)
    borrowing: int = 0
    preemption: PreemptionMode | None = None
    """The mode in which preemption would run, or None if the flavor fits or cannot fit."""
    no_fit_reason: NoFitReason = NoFitReason.NONE

    def __str__(self) -> str:
        parts = [self.mode.label if self.preemption is None else f"preemptionMode={self.preemption.label}"]
        if self.borrowing > 0:
            parts.append(f"borrow={self.borrowing}")
        return f"{self.flavor}({';'.join([*parts, *self.reasons])})"


@dataclass(slots=True)
class PodSetAssignment:
    """The flavors of a pod set, with the reasons against flavors that were tried."""

    name: str
    requests: Requests
    count: int
    flavors: dict[str, FlavorChoice] = field(default_factory=dict)
    """The choice for each resource; empty if none was found."""
    reasons: list[str] = field(default_factory=list)
    error: str = ""
    topology: TopologyPlacement | None = None
    delayed_topology: str = ""
    attempts: list[FlavorAttempt] = field(default_factory=list)

    @property
    def mode(self) -> AssignmentMode:
        """The worst mode of all resources.

        After an error, the mode is NO_FIT. Otherwise, it is FIT if there are no reasons against flavors, and NO_FIT if
        there are reasons but no flavor was found.
        """
        if self.error:
            return AssignmentMode.NO_FIT
        if not self.reasons:
            return AssignmentMode.FIT
        return min((choice.mode for choice in self.flavors.values()), default=AssignmentMode.NO_FIT)

    def set_mode(self, mode: AssignmentMode) -> None:
        """Set the mode of all resources to ``mode``."""
        for choice in self.flavors.values():
            choice.mode = mode


class Assignment:
    """The flavors of all pod sets that were looked at."""

    def __init__(self, progress: ScanProgress) -> None:
        self.pod_sets: list[PodSetAssignment] = []
        self.borrowing = 0
        """The height of the cohort tree that has to be borrowed from, 0 if none."""
        self.progress = progress
        self.quota: Usage = {}
        """The quota that is needed."""
        self.no_fit_reason = NoFitReason.NONE
        self._mode: AssignmentMode | None = None

    @property
    def mode(self) -> AssignmentMode:
        """The worst mode of all pod sets, or NO_FIT if there are none.

        The mode is cached, and may be overwritten by ``set_mode``.
        """
        if not self.pod_sets:
            return AssignmentMode.NO_FIT
        if self._mode is None:
            self._mode = min(pod_set.mode for pod_set in self.pod_sets)
        return self._mode

    def set_mode(self, mode: AssignmentMode, pod_sets: Iterable[PodSetAssignment] | None = None) -> None:
        """Set the mode of the assignment and of ``pod_sets``, by default of all pod sets.

        If ``pod_sets`` is empty, nothing is changed.
        """
        changed = self.pod_sets if pod_sets is None else list(pod_sets)
        for pod_set in changed:
            pod_set.set_mode(mode)
        if pod_sets is None or changed:
            self._mode = mode

    def set_error(self, pod_set: PodSetAssignment, error: str) -> None:
        """Record an error for a pod set, which makes the assignment's mode NO_FIT."""
        pod_set.error = error
        self._mode = None

    def get_pod_set(self, name: str) -> PodSetAssignment:
        """Return the assignment of the pod set with this name, which must exist."""
        return next(pod_set for pod_set in self.pod_sets if pod_set.name == name)

    def add_pod_set(self, pod_set: PodSetAssignment, requests: Requests) -> None:
        """Add a pod set's assignment, and update the quota, the borrowing and the tried flavors of the whole.

        The quota of the chosen flavors grows by ``requests``. The borrowing becomes that of the flavor that borrows
        most.
        """
        self.pod_sets.append(pod_set)
        tried_indexes = {}
        for resource, choice in pod_set.flavors.items():
            self.borrowing = max(self.borrowing, choice.borrowing)
            key = FlavorResource(choice.flavor, resource)
            self.quota[key] = add_amounts(self.quota.get(key, 0), requests.get(resource, 0))
            tried_indexes[resource] = choice.tried_index
        self.progress.tried_flavors.append(tried_indexes)

    def set_placements(self, results: Mapping[str, TopologyResult]) -> None:
        """Record the placement of each pod set in ``results``, or None if it was not placed.

        A pod set whose placement was delayed becomes ready if it has a placement now.
        """
        for name, result in results.items():
            pod_set = self.get_pod_set(name)
            pod_set.topology = result.placement
            if result.placement is not None and pod_set.delayed_topology:
                pod_set.delayed_topology = "Ready"

    @property
    def message(self) -> str:
        """The reasons why flavors could not be assigned, by pod set, or "" if there are none.

        If pod sets have errors, the message contains only the first of these errors.
        """
        messages = []
        for pod_set in self.pod_sets:
            if pod_set.error:
                return f"failed to assign flavors to pod set {pod_set.name}: {pod_set.error}"
            if pod_set.reasons:
                reasons = ", ".join(sorted(pod_set.reasons))
                messages.append(f"couldn't assign flavors to pod set {pod_set.name}: {reasons}")
        return "; ".join(messages)

    def describe_flavor_attempts(self) -> str:
        """List, by pod set, the flavors that did not fit or had to borrow.

        The format is that of Kueue's QuotaReserved event. Pod sets without such flavors are left out.
        """
        pod_sets = []
        for pod_set in self.pod_sets:
            attempts = [
                str(attempt)
                for attempt in pod_set.attempts
                if attempt.mode != AssignmentMode.FIT or attempt.borrowing != 0
            ]
            if attempts:
                pod_sets.append(f"{pod_set.name}: {', '.join(attempts)}")
        return " | ".join(pod_sets)

    def find_resources_needing_preemption(self) -> frozenset[FlavorResource]:
        """Return the combinations of flavor and resource for which other Workloads would have to be preempted."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.flavors.items()
            if choice.mode == AssignmentMode.PREEMPT
        )

    def compute_quota_usage(self, info: WorkloadInfo) -> Usage:
        """Return how much quota the Workload uses in the assigned flavors, for the assigned numbers of pods.

        Resources without a flavor are left out. Upstream: TotalRequestsFor.
        """
        usage: Usage = {}
        # After a pod set without a flavor, the Workload's other pod sets have no assignment
        for pod_set, requested in zip(self.pod_sets, info.pod_sets, strict=False):
            for resource, amount in requested.scale_to_count(pod_set.count).requests.items():
                choice = pod_set.flavors.get(resource)
                if amount == 0 or choice is None:
                    continue
                key = FlavorResource(choice.flavor, resource)
                usage[key] = add_amounts(usage.get(key, 0), amount)
        return usage

    def build_pod_set_admissions(self) -> tuple[PodSetAdmission, ...]:
        """Build the admissions of the pod sets, with their flavors, quota, numbers of pods and placements."""
        return tuple(
            PodSetAdmission(
                name=pod_set.name,
                flavors={resource: choice.flavor for resource, choice in pod_set.flavors.items()},
                usage={resource: pod_set.requests.get(resource, 0) for resource in pod_set.flavors},
                count=pod_set.count,
                topology=pod_set.topology,
                delayed_topology=pod_set.delayed_topology,
            )
            for pod_set in self.pod_sets
        )
