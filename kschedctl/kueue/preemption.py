"""The Workloads that are preempted so that another gets quota: with fair sharing, or by cohort, priority and age.

The classical search, which is used without fair sharing, is below `Preemptor`. Upstream: classicalPreemptions and
SimulatePreemption of pkg/scheduler/preemption/{preemption,preemption_oracle}.go, and classical/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, dropwhile, takewhile
from operator import itemgetter
from typing import NamedTuple

from kschedctl.kueue.amounts import FlavorResource
from kschedctl.kueue.assignment import PreemptionMode
from kschedctl.kueue.cluster_queues import NEVER, QueueSnapshot
from kschedctl.kueue.fair_preemption import find_fair_sharing_targets
from kschedctl.kueue.preemption_search import (
    ANY,
    PreemptionReason,
    PreemptionRequest,
    PreemptionSearch,
    RankedCandidate,
    Target,
)
from kschedctl.kueue.quota_tree import CohortNode, QuotaNode, find_covering_subtree
from kschedctl.kueue.workloads import WorkloadInfo, WorkloadUsage


@dataclass(slots=True)
class Preemptor(PreemptionSearch):
    """A search for Workloads to preempt in a snapshot."""

    fair_strategies: Sequence[str] | None
    """The preemption strategies of fair sharing, or None without fair sharing."""

    def find_preemption_targets(self, request: PreemptionRequest) -> list[Target]:
        """Return the Workloads to preempt for a request, or an empty list if preemption would not help.

        The Workloads are found by fair sharing if it is on, and otherwise by classical preemption. The snapshot stays
        unchanged.
        """
        if self.fair_strategies is not None:
            return find_fair_sharing_targets(self, request, self.fair_strategies)
        return _find_classical_targets(self, request)

    def simulate_preemption(
        self, queue: QueueSnapshot, info: WorkloadInfo, key: FlavorResource, amount: int
    ) -> tuple[PreemptionMode, int]:
        """Simulate preemption for an amount of one resource, without changing the snapshot.

        Return the preemption mode and the height of the cohort from which the queue would then borrow. The mode says
        whether Workloads of this queue, only Workloads of other queues, or no Workloads would be preempted. Upstream:
        SimulatePreemption.
        """
        usage = WorkloadUsage({key: amount}, topology={})
        targets = self.find_preemption_targets(
            PreemptionRequest(info, queue, frozenset({key}), usage=usage, placements={})
        )
        if not targets:
            return PreemptionMode.NO_CANDIDATES, find_covering_subtree(queue.node, key, amount).height

        # Take the targets' quota out only to find from where the queue borrows then
        infos = [target.info for target in targets]
        self.snapshot.remove_usage(infos, with_topology=False)
        borrowing = find_covering_subtree(queue.node, key, amount).height
        self.snapshot.add_usage(infos, with_topology=False)

        if any(target.info.cluster_queue == queue.name for target in targets):
            return PreemptionMode.PREEMPT, borrowing
        return PreemptionMode.RECLAIM, borrowing


def _find_classical_targets(search: PreemptionSearch, request: PreemptionRequest) -> list[Target]:
    """Return the Workloads to preempt for a request, or an empty list if the request would still not fit.

    The search is tried with and without borrowing. The policies determine the order. The snapshot is changed during the
    search and restored afterwards. Upstream: classicalPreemptions.
    """
    candidates = _CandidateList(search, request)
    for allows_borrowing in _list_borrowing_attempts(candidates, request):
        targets = _preempt_until_fit(search, request, candidates, allows_borrowing=allows_borrowing)
        if targets:
            return targets
    return []


def _list_borrowing_attempts(candidates: _CandidateList, request: PreemptionRequest) -> list[bool]:
    """Return, for each of the one or two attempts to preempt, whether the request may borrow in it.

    The attempt without borrowing is left out if it would gain nothing: if only the request's own queue has candidates,
    or if the request cannot fit without borrowing. It comes first if the queue must not borrow while it preempts
    Workloads of other queues, unless there are candidates for hierarchical reclaim. Otherwise, the attempt with
    borrowing comes first.
    """
    is_forbidden = _forbids_borrowing(request.queue)
    if not candidates.has_other_queues or (is_forbidden and not _is_under_nominal_quota(request)):
        return [True]
    if is_forbidden and not candidates.has_hierarchical:
        return [False, True]
    return [True, False]


def _preempt_until_fit(
    search: PreemptionSearch, request: PreemptionRequest, candidates: _CandidateList, *, allows_borrowing: bool
) -> list[Target]:
    """Preempt candidates in order until the request fits, and return the candidates that are actually needed.

    Return an empty list if the request does not fit even after all candidates are preempted. The snapshot is restored
    afterwards.
    """
    targets: list[Target] = []
    for candidate in candidates.candidates:
        if not candidates.is_still_preemptible(candidate, allows_borrowing=allows_borrowing):
            continue
        search.remove_workload(request, candidate)
        queue = search.snapshot.queues[candidate.cluster_queue]
        targets.append(Target(candidate, candidates.get_preemption_variant(candidate).reason, queue))
        if search.does_request_fit(request, allows_borrowing=allows_borrowing):
            targets = search.fill_back_targets(request, targets, allows_borrowing=allows_borrowing)
            search.restore_targets(request, targets)
            return targets
    search.restore_targets(request, targets)
    return []


def _forbids_borrowing(queue: QueueSnapshot) -> bool:
    """Return whether the queue must not borrow if it preempts Workloads of other queues."""
    within_cohort = queue.settings.preemption.borrow_within_cohort
    return within_cohort is None or within_cohort.policy == NEVER


def _is_under_nominal_quota(request: PreemptionRequest) -> bool:
    """Return whether the queue uses less than its nominal quota of each resource that needs preemption."""
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
        """The reason in the condition Preempted of a Workload that is preempted by this rule."""
        if self == _Variant.WITHIN_QUEUE:
            return PreemptionReason.IN_CLUSTER_QUEUE
        if self == _Variant.RECLAIM_WHILE_BORROWING:
            return PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING
        return PreemptionReason.IN_COHORT_RECLAMATION


class _Origin(NamedTuple):
    """The position of a ClusterQueue relative to the preemptor's."""

    ancestor: CohortNode
    """The lowest cohort that the two share."""
    has_advantage: bool
    """True if the quota of the preemptor's branch below the cohort covers the request."""


class _CandidateList:
    """The candidates for a request, in the order in which they are preempted. Upstream: NewCandidateIterator."""

    def __init__(self, search: PreemptionSearch, request: PreemptionRequest) -> None:
        self._search = search
        self._request = request
        self._origins: dict[str, _Origin] = {}
        """The origin of the candidates of each other ClusterQueue."""
        policies = request.queue.settings.preemption
        own_candidates = self._collect_queue_candidates(request.queue, policies.within_cluster_queue)
        hierarchical, by_priority = self._collect_cohort_candidates()

        # Candidates of a group are sorted by rank, so that its evicted Workloads come first. The evicted Workloads of
        # all groups come before the other candidates
        groups = [sorted(group, key=itemgetter(0)) for group in (hierarchical, by_priority, own_candidates)]
        evicted = chain.from_iterable(takewhile(_is_evicted, group) for group in groups)
        not_evicted = chain.from_iterable(dropwhile(_is_evicted, group) for group in groups)
        self.candidates: list[WorkloadInfo] = [candidate.info for candidate in (*evicted, *not_evicted)]
        self.has_other_queues = bool(hierarchical or by_priority)
        self.has_hierarchical = bool(hierarchical)

    def is_still_preemptible(self, candidate: WorkloadInfo, *, allows_borrowing: bool) -> bool:
        """Return whether a candidate may still be preempted, given the candidates preempted before it.

        The candidate's queue, and each cohort between the queue and the cohort shared with the preemptor, must still
        use more than their quota. Some candidates may only be preempted if the preemptor does not borrow. Candidates in
        the preemptor's queue may always be preempted.
        """
        keys = self._request.keys
        origin = self._origins.get(candidate.cluster_queue)
        if origin is None:  # the candidate is in the preemptor's queue
            return True
        if allows_borrowing and self.get_preemption_variant(candidate) == _Variant.RECLAIM_WITHOUT_BORROWING:
            return False
        node: QuotaNode | None = self._search.snapshot.queues[candidate.cluster_queue].node
        while node is not None and node is not origin.ancestor:
            if node.is_within_quota(keys):
                return False
            node = node.parent
        return True

    def get_preemption_variant(self, candidate: WorkloadInfo) -> _Variant:
        """Return the rule that allows a candidate to be preempted. Upstream: classifyPreemptionVariant.

        A candidate in another queue is preempted while borrowing only if borrowWithinCohort allows it: the candidate's
        priority must be below the preemptor's and not above the threshold.
        """
        origin = self._origins.get(candidate.cluster_queue)
        if origin is None:  # the candidate is in the preemptor's queue
            return _Variant.WITHIN_QUEUE
        if origin.has_advantage:
            return _Variant.HIERARCHICAL_RECLAIM
        within_cohort = self._request.queue.settings.preemption.borrow_within_cohort
        if within_cohort is None or within_cohort.policy == NEVER:
            return _Variant.RECLAIM_WITHOUT_BORROWING
        threshold = within_cohort.max_priority_threshold
        priority = candidate.workload.priority
        is_above_threshold = threshold is not None and priority > threshold
        if priority >= self._request.info.workload.priority or is_above_threshold:
            return _Variant.RECLAIM_WITHOUT_BORROWING
        return _Variant.RECLAIM_WHILE_BORROWING

    def _collect_queue_candidates(self, queue: QueueSnapshot, policy: str) -> list[RankedCandidate]:
        """Return the Workloads in a ClusterQueue that the policy allows to be preempted, sorted by rank.

        Only Workloads that use one of the resources to free are included. If the policy is Never, there are none.
        """
        if policy == NEVER:
            return []
        candidates = self._search.list_ranked_candidates(queue, self._request.keys)
        if policy == ANY:
            return candidates
        preemptor = self._request.info.workload
        return [
            candidate
            for candidate in candidates
            if self._search.satisfies_policy(preemptor, candidate.info.workload, policy)
        ]

    def _collect_cohort_candidates(self) -> tuple[list[RankedCandidate], list[RankedCandidate]]:
        """Return the candidates of other queues in two lists: for hierarchical reclaim, and for reclaim by priority.

        Hierarchical reclaim takes the candidates outside of a subtree whose quota covers the request. Both lists are
        empty if the queue must not reclaim quota from its cohort. The origin of each searched queue is recorded.
        Upstream: collectCandidatesForHierarchicalReclaim.
        """
        queue = self._request.queue
        hierarchical: list[RankedCandidate] = []
        by_priority: list[RankedCandidate] = []
        if queue.node.parent is None or queue.settings.preemption.reclaim_within_cohort == NEVER:
            return hierarchical, by_priority

        # From the lowest cohort up, leaving out the subtree that was searched before. Once the quota of a subtree
        # covers the request, the queue has an advantage over all queues outside of the subtree
        has_advantage, remaining = queue.node.compute_fit_and_excess(self._request.usage.quota)
        previous: CohortNode | None = None
        for cohort in queue.node.iter_ancestors():
            group = hierarchical if has_advantage else by_priority
            group += self._collect_subtree_candidates(cohort, _Origin(cohort, has_advantage), previous)

            # Cohorts further up see what this cohort's quota does not cover
            fits, remaining = cohort.compute_fit_and_excess(remaining)
            has_advantage = has_advantage or fits
            previous = cohort
        return hierarchical, by_priority

    def _collect_subtree_candidates(
        self, cohort: CohortNode, origin: _Origin, skipped: CohortNode | None
    ) -> list[RankedCandidate]:
        """Return the candidates of all queues below a cohort that exceed their quota, and record the queues' origin.

        The preemptor's own queue and child cohorts that are within their quota are left out. Queues below ``skipped``
        are left out, because candidates were already collected from this child cohort.
        """
        keys = self._request.keys
        policy = self._request.queue.settings.preemption.reclaim_within_cohort
        candidates: list[RankedCandidate] = []
        for child in cohort.cohorts:
            if child is not skipped and not child.is_within_quota(keys):
                candidates += self._collect_subtree_candidates(child, origin, skipped)
        for node in cohort.list_queues_over_quota(keys):
            if node is not self._request.queue.node:
                self._origins[node.name] = origin
                candidates += self._collect_queue_candidates(self._search.snapshot.queues[node.name], policy)
        return candidates


def _is_evicted(candidate: RankedCandidate) -> bool:
    """Return whether a candidate was already evicted and will release its quota anyway."""
    return candidate.info.workload.is_evicted
