"""The Workloads that are preempted so that another gets quota.

Read ``Preemptor.find_targets`` first. The candidates and their order are in the second half; those of fair sharing
are chosen by ``fair_preemption``.

Upstream: pkg/scheduler/preemption/{preemption,preemption_oracle}.go, classical/ and common/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kschedctl.queueing.kueue.amounts import FlavorResource
from kschedctl.queueing.kueue.assignment import PreemptionMode
from kschedctl.queueing.kueue.cluster_queues import NEVER, QueueSnapshot, Snapshot
from kschedctl.queueing.kueue.conditions import ConditionType
from kschedctl.queueing.kueue.flavor_assignment import PlacementRequests, find_failure, find_placements
from kschedctl.queueing.kueue.quota_tree import CohortNode, QuotaNode, find_borrowing_height
from kschedctl.queueing.kueue.workloads import Workload, WorkloadInfo, WorkloadUsage, get_queue_time

_LOWER_PRIORITY, _LOWER_OR_NEWER, _ANY = "LowerPriority", "LowerOrNewerEqualPriority", "Any"


class PreemptionReason(StrEnum):
    """Why a Workload is preempted: the reason of its condition Preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class Target(NamedTuple):
    """A Workload to preempt."""

    info: WorkloadInfo
    reason: PreemptionReason
    queue: QueueSnapshot


class PreemptionRequest(NamedTuple):
    """What needs room."""

    info: WorkloadInfo
    queue: QueueSnapshot
    keys: frozenset[FlavorResource]
    """The resources for which there is not enough quota."""
    usage: WorkloadUsage
    placements: PlacementRequests
    """The pod sets that need a place in a topology as well."""


@dataclass(slots=True)
class Preemptor:
    """Finds Workloads to preempt in a snapshot."""

    snapshot: Snapshot
    now: int
    """In microseconds since 1970."""
    fair_strategies: Sequence[str] | None
    """The preemption strategies of fair sharing, or None without fair sharing."""

    def find_targets(self, request: PreemptionRequest) -> list[Target]:
        """Return the Workloads to preempt, or an empty list if that would not help. The snapshot stays as it was."""
        if self.fair_strategies is not None:
            from kschedctl.queueing.kueue.fair_preemption import find_fair_targets  # noqa: PLC0415

            return find_fair_targets(self, request, self.fair_strategies)
        return self._find_classical_targets(request)

    def simulate(
        self, queue: QueueSnapshot, info: WorkloadInfo, key: FlavorResource, amount: int
    ) -> tuple[PreemptionMode, int]:
        """Return what preemption would do for one resource, and the borrowing level afterwards.

        Upstream: SimulatePreemption.
        """
        usage = WorkloadUsage({key: amount}, {})
        targets = self.find_targets(PreemptionRequest(info, queue, frozenset({key}), usage, {}))
        if not targets:
            return PreemptionMode.NO_CANDIDATES, find_borrowing_height(queue.node, key, amount)[0]
        infos = [target.info for target in targets]
        self.snapshot.remove_usage(infos)
        borrowing, _ = find_borrowing_height(queue.node, key, amount)
        self.snapshot.add_usage(infos)
        is_own = any(target.info.cluster_queue == queue.name for target in targets)
        return (PreemptionMode.PREEMPT if is_own else PreemptionMode.RECLAIM), borrowing

    def _find_classical_targets(self, request: PreemptionRequest) -> list[Target]:
        """Preempt candidates until the request fits, with and without borrowing. Upstream: classicalPreemptions."""
        candidates = _CandidateList(self, request)
        is_forbidden = _forbids_borrowing(request.queue)
        if not candidates.has_other_queues or (is_forbidden and not _is_under_nominal(request)):
            attempts = [True]
        elif is_forbidden and not candidates.has_hierarchical:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for allows_borrowing in attempts:
            targets: list[Target] = []
            for candidate in candidates.candidates:
                if not candidates.is_valid(candidate, allows_borrowing=allows_borrowing):
                    continue
                self.snapshot.remove_workload(candidate.info)
                queue = self.snapshot.queues[candidate.info.cluster_queue]
                targets.append(Target(candidate.info, candidate.variant.reason, queue))
                if self.fits(request, allows_borrowing=allows_borrowing):
                    targets = self.fill_back(request, targets, allows_borrowing=allows_borrowing)
                    self.restore(targets)
                    return targets
            self.restore(targets)
        return []

    def fill_back(self, request: PreemptionRequest, targets: list[Target], *, allows_borrowing: bool) -> list[Target]:
        """Spare the targets that are not needed, from the last but one backwards. Upstream: fillBackWorkloads."""
        for index in range(len(targets) - 2, -1, -1):
            self.snapshot.add_workload(targets[index].info)
            if self.fits(request, allows_borrowing=allows_borrowing):
                targets[index] = targets[-1]
                targets.pop()
            else:
                self.snapshot.remove_workload(targets[index].info)
        return targets

    def restore(self, targets: Iterable[Target]) -> None:
        """Put targets back into the snapshot."""
        for target in targets:
            self.snapshot.add_workload(target.info)

    def fits(self, request: PreemptionRequest, *, allows_borrowing: bool) -> bool:
        """Return whether the request fits into quota and topology. Upstream: workloadFits."""
        for key, amount in request.usage.quota.items():
            if not allows_borrowing and request.queue.node.would_borrow(key, amount):
                return False
            if amount > request.queue.compute_available(key):
                return False
        if not request.placements:
            return True
        results = find_placements(request.queue, request.placements, self.snapshot.gates, assume_empty=False)
        return find_failure(results) is None

    def satisfies_policy(self, preemptor: Workload, candidate: Workload, policy: str) -> bool:
        """Return whether a preemption policy lets one Workload preempt another."""
        is_lower = preemptor.priority > candidate.priority
        if policy == _LOWER_PRIORITY:
            return is_lower
        if policy == _LOWER_OR_NEWER:
            gates = self.snapshot.gates
            is_newer = get_queue_time(preemptor, gates) < get_queue_time(candidate, gates)
            return is_lower or (preemptor.priority == candidate.priority and is_newer)
        return policy == _ANY

    def get_order(self, info: WorkloadInfo, queue: str) -> tuple[bool, bool, int, int, str]:
        """Return the key by which candidates are sorted; the first are preempted first.

        Upstream: CandidatesOrdering.
        """
        workload = info.workload
        reserved = workload.conditions.get(ConditionType.QUOTA_RESERVED)
        reserved_at = reserved.since if reserved is not None and reserved.status else self.now
        return (
            not workload.is_evicted,
            info.cluster_queue == queue,
            workload.priority,
            -reserved_at,
            workload.uid,
        )


def uses_resources(info: WorkloadInfo, keys: frozenset[FlavorResource]) -> bool:
    """Return whether a Workload has flavors of any of these resources."""
    return any(
        FlavorResource(flavor, resource) in keys
        for pod_set in info.pod_sets
        for resource, flavor in pod_set.flavors.items()
    )


def can_always_reclaim(queue: QueueSnapshot) -> bool:
    """Return whether the queue can get its nominal quota back at any time."""
    return queue.settings.preemption.reclaim_within_cohort == _ANY


def _forbids_borrowing(queue: QueueSnapshot) -> bool:
    """Return whether the queue must not borrow for what it preempts in the cohort."""
    within_cohort = queue.settings.preemption.borrow_within_cohort
    return within_cohort is None or within_cohort.policy == NEVER


def _is_under_nominal(request: PreemptionRequest) -> bool:
    """Return whether the queue uses less than its own quota of all resources that need preemption."""
    node = request.queue.node
    return all(node.get_quota(key).nominal > node.get_usage(key) for key in request.keys)


class _Variant(StrEnum):
    """The rule by which a candidate may be preempted."""

    WITHIN_QUEUE = "within queue"
    HIERARCHICAL_RECLAIM = "hierarchical reclaim"
    RECLAIM_WITHOUT_BORROWING = "reclaim without borrowing"
    RECLAIM_WHILE_BORROWING = "reclaim while borrowing"

    @property
    def reason(self) -> PreemptionReason:
        """Return the reason of the condition Preempted."""
        if self == _Variant.WITHIN_QUEUE:
            return PreemptionReason.IN_CLUSTER_QUEUE
        if self == _Variant.RECLAIM_WHILE_BORROWING:
            return PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING
        return PreemptionReason.IN_COHORT_RECLAMATION


class _Candidate(NamedTuple):
    """A Workload that may be preempted."""

    info: WorkloadInfo
    ancestor: CohortNode | None
    """The lowest cohort that it shares with the preemptor, or None in the preemptor's own queue."""
    variant: _Variant


class _CandidateList:
    """The candidates for a request, in the order in which they are preempted. Upstream: NewCandidateIterator."""

    def __init__(self, preemptor: Preemptor, request: PreemptionRequest) -> None:
        self._preemptor = preemptor
        self._request = request
        own = self._collect_from_queue(request.queue, None, has_advantage=False)
        hierarchical, by_priority = self._collect_from_cohorts()
        groups = [sorted(group, key=self._get_order) for group in (hierarchical, by_priority, own)]
        evicted = [c for group in groups for c in group if c.info.workload.is_evicted]
        others = [c for group in groups for c in group if not c.info.workload.is_evicted]
        self.candidates: list[_Candidate] = [*evicted, *others]
        self.has_other_queues = bool(hierarchical or by_priority)
        self.has_hierarchical = bool(hierarchical)

    def _get_order(self, candidate: _Candidate) -> tuple[bool, bool, int, int, str]:
        """Return the key by which the candidates of a group are sorted."""
        return self._preemptor.get_order(candidate.info, self._request.queue.name)

    def is_valid(self, candidate: _Candidate, *, allows_borrowing: bool) -> bool:
        """Return whether a candidate may still be preempted: its queue and the cohorts above it borrow."""
        request = self._request
        if candidate.info.cluster_queue == request.queue.name:
            return True
        if allows_borrowing and candidate.variant == _Variant.RECLAIM_WITHOUT_BORROWING:
            return False
        node = self._preemptor.snapshot.queues[candidate.info.cluster_queue].node
        if node.is_within_quota(request.keys):
            return False
        for cohort in node.iter_ancestors():
            if cohort is candidate.ancestor:
                break
            if cohort.is_within_quota(request.keys):
                return False
        return True

    def _collect_from_queue(
        self, queue: QueueSnapshot, ancestor: CohortNode | None, *, has_advantage: bool
    ) -> list[_Candidate]:
        """Return the candidates of one ClusterQueue."""
        candidates = []
        for info in queue.workloads.values():
            variant = self._classify(info, has_advantage=has_advantage)
            if variant is not None:
                candidates.append(_Candidate(info, ancestor, variant))
        return candidates

    def _classify(  # noqa: PLR0911 - one for each rule
        self, info: WorkloadInfo, *, has_advantage: bool
    ) -> _Variant | None:
        """Return the rule by which a Workload may be preempted, or None. Upstream: classifyPreemptionVariant."""
        request = self._request
        policies = request.queue.settings.preemption
        is_own = info.cluster_queue == request.queue.name
        policy = policies.within_cluster_queue if is_own else policies.reclaim_within_cohort
        preemptor, candidate = request.info.workload, info.workload
        if policy == NEVER or not uses_resources(info, request.keys):
            return None
        if not self._preemptor.satisfies_policy(preemptor, candidate, policy):
            return None
        if is_own:
            return _Variant.WITHIN_QUEUE
        if has_advantage:
            return _Variant.HIERARCHICAL_RECLAIM
        within_cohort = policies.borrow_within_cohort
        if within_cohort is None or within_cohort.policy == NEVER:
            return _Variant.RECLAIM_WITHOUT_BORROWING
        threshold = within_cohort.max_priority_threshold
        is_above_threshold = threshold is not None and candidate.priority > threshold
        if candidate.priority >= preemptor.priority or is_above_threshold:
            return _Variant.RECLAIM_WITHOUT_BORROWING
        return _Variant.RECLAIM_WHILE_BORROWING

    def _collect_from_cohorts(self) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return the candidates of other queues: those outside a subtree that has the quota itself, and the rest.

        Upstream: collectCandidatesForHierarchicalReclaim.
        """
        queue = self._request.queue
        hierarchical: list[_Candidate] = []
        by_priority: list[_Candidate] = []
        if queue.node.parent is None or queue.settings.preemption.reclaim_within_cohort == NEVER:
            return hierarchical, by_priority
        has_advantage, remaining = queue.node.fit_requests(self._request.usage.quota)
        previous: CohortNode | None = None
        for cohort in queue.node.iter_ancestors():
            group = hierarchical if has_advantage else by_priority
            group += self._collect_from_subtree(cohort, cohort, previous, has_advantage=has_advantage)
            fits, remaining = cohort.fit_requests(remaining)
            has_advantage = has_advantage or fits
            previous = cohort
        return hierarchical, by_priority

    def _collect_from_subtree(
        self, cohort: CohortNode, root: CohortNode, skipped: CohortNode | None, *, has_advantage: bool
    ) -> list[_Candidate]:
        """Return the candidates of the queues below a cohort that use more than their quota."""
        keys = self._request.keys
        candidates: list[_Candidate] = []
        for child in cohort.cohorts:
            if child is not skipped and not child.is_within_quota(keys):
                candidates += self._collect_from_subtree(child, root, skipped, has_advantage=has_advantage)
        for node in cohort.queues:
            if node is not self._request.queue.node and not node.is_within_quota(keys):
                queue = self._preemptor.snapshot.queues[node.name]
                candidates += self._collect_from_queue(queue, root, has_advantage=has_advantage)
        return candidates


def list_borrowing_queues(snapshot: Snapshot, node: QuotaNode, keys: frozenset[FlavorResource]) -> list[QueueSnapshot]:
    """Return the other queues of a queue's cohort tree that borrow any of the resources."""
    root = node.root
    if not isinstance(root, CohortNode):
        return []
    return [
        snapshot.queues[other.name]
        for other in root.iter_queues()
        if other is not node and any(other.would_borrow(key) for key in keys)
    ]
