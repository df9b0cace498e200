"""Preemption without fair sharing: candidates by cohort, priority and age.

Upstream: classicalPreemptions of pkg/scheduler/preemption/preemption.go, and classical/.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kschedctl.queueing.kueue.cluster_queues import NEVER, QueueSnapshot
from kschedctl.queueing.kueue.preemption_search import (
    PreemptionReason,
    PreemptionRequest,
    PreemptionSearch,
    Target,
    uses_resources,
)
from kschedctl.queueing.kueue.quota_tree import CohortNode
from kschedctl.queueing.kueue.workloads import WorkloadInfo


def find_classical_targets(search: PreemptionSearch, request: PreemptionRequest) -> list[Target]:
    """Preempt candidates until the request fits, with and without borrowing. Upstream: classicalPreemptions."""
    candidates = _CandidateList(search, request)
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
            search.snapshot.remove_workload(candidate.info)
            queue = search.snapshot.queues[candidate.info.cluster_queue]
            targets.append(Target(candidate.info, candidate.variant.reason, queue))
            if search.fits(request, allows_borrowing=allows_borrowing):
                targets = search.fill_back(request, targets, allows_borrowing=allows_borrowing)
                search.restore(targets)
                return targets
        search.restore(targets)
    return []


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

    def __init__(self, search: PreemptionSearch, request: PreemptionRequest) -> None:
        self._search = search
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
        return self._search.get_order(candidate.info, self._request.queue.name)

    def is_valid(self, candidate: _Candidate, *, allows_borrowing: bool) -> bool:
        """Return whether a candidate may still be preempted: its queue and the cohorts above it borrow."""
        request = self._request
        if candidate.info.cluster_queue == request.queue.name:
            return True
        if allows_borrowing and candidate.variant == _Variant.RECLAIM_WITHOUT_BORROWING:
            return False
        node = self._search.snapshot.queues[candidate.info.cluster_queue].node
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
        if not self._search.satisfies_policy(preemptor, candidate, policy):
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
                queue = self._search.snapshot.queues[node.name]
                candidates += self._collect_from_queue(queue, root, has_advantage=has_advantage)
        return candidates
