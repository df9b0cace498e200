"""Preemption by fair sharing: whoever borrows the largest share of the cohort gives way first.

Upstream: fairPreemptions of pkg/scheduler/preemption/preemption.go, and fairsharing/.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kschedctl.kueue.cluster_queues import NEVER, QueueSnapshot
from kschedctl.kueue.feature_gates import Gate
from kschedctl.kueue.preemption_search import (
    PreemptionReason,
    PreemptionRequest,
    PreemptionSearch,
    Target,
    list_borrowing_queues,
    uses_resources,
)
from kschedctl.kueue.quota_tree import (
    LOWEST_SHARE,
    CohortNode,
    DominantShare,
    QuotaNode,
    compute_dominant_share,
)
from kschedctl.kueue.workloads import WorkloadInfo

FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
DEFAULT_STRATEGIES = (FINAL_SHARE, INITIAL_SHARE)


def find_fair_sharing_targets(
    preemptor: PreemptionSearch, request: PreemptionRequest, strategies: Sequence[str]
) -> list[Target]:
    """Return the Workloads to preempt for a request, or an empty list if the request would still not fit.

    ``strategies`` contains one or two names. The second strategy is applied only to candidates that the first one
    spared. The snapshot is changed during the search and restored afterwards.
    """
    candidates = _find_preemption_candidates(preemptor, request)
    if not candidates:
        return []
    candidates.sort(key=lambda info: preemptor.build_candidate_key(info, request.queue.name))

    # Shares are compared as if the request were admitted
    request.queue.add_usage(request.usage)
    search = _FairSearch(preemptor, request)
    request_fits, spared = search.preempt_by_strategy(candidates, strategies[0])
    if not request_fits and len(strategies) > 1:
        request_fits = search.preempt_from_queues_with_larger_share(spared)
    request.queue.remove_usage(request.usage)

    if not request_fits:
        preemptor.restore_targets(request, search.targets)
        return []
    targets = preemptor.fill_back_targets(request, search.targets, allows_borrowing=True)
    preemptor.restore_targets(request, targets)
    return targets


def _find_preemption_candidates(preemptor: PreemptionSearch, request: PreemptionRequest) -> list[WorkloadInfo]:
    """Return the Workloads that use a requested resource and may be preempted under the queue's policies.

    The queue's own Workloads and those of borrowing queues in its cohort have separate policies. Upstream:
    findCandidates.
    """
    policies = request.queue.settings.preemption
    queues: list[tuple[QueueSnapshot, str]] = []
    if policies.within_cluster_queue != NEVER:
        queues.append((request.queue, policies.within_cluster_queue))
    if request.queue.node.parent is not None and policies.reclaim_within_cohort != NEVER:
        borrowing = list_borrowing_queues(preemptor.snapshot, request.queue.node, request.keys)
        queues += [(queue, policies.reclaim_within_cohort) for queue in borrowing]
    candidates = []
    for queue, policy in queues:
        for info in queue.workloads.values():
            is_allowed = preemptor.satisfies_policy(request.info.workload, info.workload, policy)
            if is_allowed and uses_resources(info, request.keys):
                candidates.append(info)
    return candidates


class _FairSearch:
    """A search that preempts candidates one by one in a snapshot in which the request is already counted."""

    def __init__(self, preemptor: PreemptionSearch, request: PreemptionRequest) -> None:
        self._preemptor = preemptor
        self._request = request
        self.targets: list[Target] = []
        """The Workloads that were taken out of the snapshot so far."""

    def _preempt_candidate(self, info: WorkloadInfo, reason: PreemptionReason) -> bool:
        """Remove a Workload from the snapshot and add it to the targets. Return whether the request fits now."""
        snapshot = self._preemptor.snapshot
        self._preemptor.remove_workload(self._request, info)
        self.targets.append(Target(info, reason, snapshot.queues[info.cluster_queue]))

        # The request is already counted, and must not be counted twice when its fit is checked
        self._request.queue.remove_usage(self._request.usage)
        request_fits = self._preemptor.does_request_fit(self._request, allows_borrowing=True)
        self._request.queue.add_usage(self._request.usage)
        return request_fits

    def preempt_by_strategy(self, candidates: Sequence[WorkloadInfo], strategy: str) -> tuple[bool, list[WorkloadInfo]]:
        """Preempt candidates until the request fits. Return whether it fits, and the candidates that were spared.

        Candidates in the preemptor's queue are always preempted. Candidates in other queues are always preempted if the
        gate FairSharingPreemptWithinNominal is on and the preemptor stays within its nominal quota. Otherwise, the
        strategy compares the queues' shares.

        Upstream: runFirstFsStrategy.
        """
        order = _QueueOrder(self._preemptor, self._request.queue, candidates)
        is_within_nominal = (
            Gate.FAIR_SHARING_PREEMPT_WITHIN_NOMINAL in self._preemptor.snapshot.gates
            and self._request.queue.node.is_within_quota(self._request.keys)
        )

        spared: list[WorkloadInfo] = []
        for queue in order.iter_queues():
            is_own_queue = queue is self._request.queue
            if is_own_queue or is_within_nominal:  # regardless of the shares
                reason = PreemptionReason.IN_CLUSTER_QUEUE if is_own_queue else PreemptionReason.IN_COHORT_RECLAMATION
                if self._preempt_candidate(order.pop_candidate(queue), reason):
                    return True, []
                continue

            # Preempt only one candidate, because the next may then have to come from another queue
            candidate = self._pop_passing_candidate(order, queue, strategy, spared)
            if candidate is not None and self._preempt_candidate(candidate, PreemptionReason.IN_COHORT_FAIR_SHARING):
                return True, []
        return False, spared

    def _pop_passing_candidate(
        self, order: _QueueOrder, queue: QueueSnapshot, strategy: str, spared: list[WorkloadInfo]
    ) -> WorkloadInfo | None:
        """Remove the first candidate of another queue that the strategy allows to be preempted, and return it.

        The candidates before it are removed as well and appended to ``spared``. Return None if no candidate passes.
        """
        shares = order.compute_shares(queue)
        while order.has_candidates(queue):
            candidate = order.pop_candidate(queue)
            if self._passes_strategy(order, candidate, shares, strategy):
                return candidate
            spared.append(candidate)
        return None

    def _passes_strategy(self, order: _QueueOrder, info: WorkloadInfo, shares: _SharePair, strategy: str) -> bool:
        """Return whether a strategy allows the preemption of a Workload in another queue, given both queues' shares.

        The preemptor's share is compared with the other queue's share now or, for LessThanOrEqualToFinalShare, with its
        share after the preemption. A preemptor with an infinite share never preempts a Workload in a queue with a
        finite share.
        """
        if shares.preemptor.weighted == math.inf and shares.target.weighted != math.inf:
            return False
        if strategy == FINAL_SHARE:
            share_afterwards = order.compute_share_without(info)
            return shares.preemptor.sort_key <= share_afterwards.sort_key
        return shares.preemptor.sort_key < shares.target.sort_key

    def preempt_from_queues_with_larger_share(self, candidates: Sequence[WorkloadInfo]) -> bool:
        """Preempt the first candidate of each queue with a larger share than the preemptor, until the request fits.

        Return whether it fits.

        Upstream: runSecondFsStrategy.
        """
        order = _QueueOrder(self._preemptor, self._request.queue, candidates)
        for queue in order.iter_queues():
            shares = order.compute_shares(queue)
            info = order.pop_candidate(queue)
            has_smaller_share = shares.preemptor.sort_key < shares.target.sort_key
            if has_smaller_share and self._preempt_candidate(info, PreemptionReason.IN_COHORT_FAIR_SHARING):
                return True
            order.drop_queue(queue)
        return False


class _SharePair(NamedTuple):
    """The dominant shares of the two branches below the lowest common cohort of a preemptor and a target."""

    preemptor: DominantShare
    target: DominantShare


class _QueueOrder:
    """The order in which queues give up Workloads: the highest share first, down the tree of cohorts.

    Upstream: pkg/scheduler/preemption/fairsharing/{ordering,target,least_common_ancestor}.go.
    """

    def __init__(self, preemptor: PreemptionSearch, queue: QueueSnapshot, candidates: Sequence[WorkloadInfo]) -> None:
        self._preemptor = preemptor
        self._queue = queue
        self._ancestors = list(queue.node.iter_ancestors())
        """The cohorts above the preemptor's queue."""
        self._candidates: dict[str, list[WorkloadInfo]] = {}
        """The remaining candidates of each queue, the first to preempt first."""
        for info in candidates:
            self._candidates.setdefault(info.cluster_queue, []).append(info)
        self._dropped: set[str] = set()
        """The queues that are no longer considered: they borrow nothing or have no candidates left."""
        self._dropped_cohorts: set[str] = set()
        """The cohorts that are no longer considered: they borrow nothing or have no queue left."""

    def iter_queues(self) -> Iterator[QueueSnapshot]:
        """Yield the queue that should give up a Workload next, until no queue is left.

        The order depends on what the caller preempts in between. A queue may be yielded several times. Without a
        cohort, only the preemptor's queue is yielded.
        """
        if not self._ancestors:
            while self._queue.name not in self._dropped and self.has_candidates(self._queue):
                yield self._queue
            return
        root = self._ancestors[-1]
        while root.name not in self._dropped_cohorts:
            queue = self._find_next_queue(root)
            if queue is not None:
                yield queue

    def pop_candidate(self, queue: QueueSnapshot) -> WorkloadInfo:
        """Remove the first candidate of a queue, and return it."""
        return self._candidates[queue.name].pop(0)

    def has_candidates(self, queue: QueueSnapshot) -> bool:
        """Return whether a queue has candidates left."""
        return bool(self._candidates.get(queue.name))

    def drop_queue(self, queue: QueueSnapshot) -> None:
        """Stop considering Workloads of this queue as victims."""
        self._dropped.add(queue.name)

    def compute_shares(self, queue: QueueSnapshot) -> _SharePair:
        """Return the dominant shares of the preemptor's queue and of another queue, for comparison.

        The shares are taken directly below the queues' lowest common cohort, at the child that contains each queue.
        """
        ancestor = self._find_common_ancestor(queue)
        return _SharePair(
            compute_dominant_share(_get_branch_below(self._queue.node, ancestor)),
            compute_dominant_share(_get_branch_below(queue.node, ancestor)),
        )

    def compute_share_without(self, info: WorkloadInfo) -> DominantShare:
        """Return the dominant share that a Workload's queue would have after the Workload's preemption.

        As in ``compute_shares``, it is the share of the child of the lowest common cohort that contains the queue. The
        snapshot stays unchanged.
        """
        queue = self._preemptor.snapshot.queues[info.cluster_queue]
        branch = _get_branch_below(queue.node, self._find_common_ancestor(queue))
        usage = info.compute_usage(self._preemptor.snapshot.gates)

        # Take the usage out only for the computation
        queue.remove_usage(usage)
        share = compute_dominant_share(branch)
        queue.add_usage(usage)
        return share

    def _find_common_ancestor(self, queue: QueueSnapshot) -> CohortNode:
        """Return the lowest cohort that contains both the preemptor's queue and this queue."""
        return next(cohort for cohort in queue.node.iter_ancestors() if cohort in self._ancestors)

    def _find_next_queue(self, cohort: CohortNode) -> QueueSnapshot | None:
        """Return the queue with the highest share below a cohort, or None if the cohort was dropped.

        A child cohort whose share is at least as high is searched instead. Idle children are dropped first. A cohort
        without queues or children left is dropped as well, and the caller then has to search again from the root.
        """
        self._drop_idle_children(cohort)
        queue, queue_share = self._find_queue_with_highest_share(cohort)
        child, child_share = self._find_cohort_with_highest_share(cohort)
        if queue is None and child is None:
            self._dropped_cohorts.add(cohort.name)
            return None
        if child is not None and child_share.sort_key >= queue_share.sort_key:
            return self._find_next_queue(child)
        return queue

    def _drop_idle_children(self, cohort: CohortNode) -> None:
        """Drop the child cohorts and queues that borrow nothing, and the queues that have no more candidates.

        The preemptor's queue and the cohorts above it are kept even if they borrow nothing.
        """
        for node in cohort.queues:
            if node.name in self._dropped:
                continue
            queue = self._preemptor.snapshot.queues[node.name]
            is_idle = queue is not self._queue and node.is_within_quota(node.subtree_quota)
            if is_idle or not self.has_candidates(queue):
                self._dropped.add(node.name)
        for child in cohort.cohorts:
            if child not in self._ancestors and child.is_within_quota(child.subtree_quota):
                self._dropped_cohorts.add(child.name)

    def _find_queue_with_highest_share(self, cohort: CohortNode) -> tuple[QueueSnapshot | None, DominantShare]:
        """Return the queue with the highest share directly below a cohort, and its share.

        Among equal shares, the queue whose first candidate is preempted earlier wins. Return None and LOWEST_SHARE if
        all queues were dropped.
        """
        highest: QueueSnapshot | None = None
        highest_share = LOWEST_SHARE
        for node in cohort.queues:
            if node.name in self._dropped:
                continue
            queue = self._preemptor.snapshot.queues[node.name]
            share = compute_dominant_share(node)
            if share.sort_key > highest_share.sort_key:
                highest, highest_share = queue, share
            elif highest is not None and share.sort_key == highest_share.sort_key:
                highest = min(highest, queue, key=self._get_first_candidate_order)
        return highest, highest_share

    def _get_first_candidate_order(self, queue: QueueSnapshot) -> tuple[bool, bool, int, int, str]:
        """Return the key by which the first candidate of a queue is sorted among candidates for preemption."""
        return self._preemptor.build_candidate_key(self._candidates[queue.name][0], self._queue.name)

    def _find_cohort_with_highest_share(self, cohort: CohortNode) -> tuple[CohortNode | None, DominantShare]:
        """Return the child cohort with the highest share, and its share. Among equal shares the last child wins.

        Return None and LOWEST_SHARE if all child cohorts were dropped.
        """
        highest: CohortNode | None = None
        highest_share = LOWEST_SHARE
        for child in cohort.cohorts:
            if child.name in self._dropped_cohorts:
                continue
            share = compute_dominant_share(child)
            if share.sort_key >= highest_share.sort_key:
                highest, highest_share = child, share
        return highest, highest_share


def _get_branch_below(node: QuotaNode, ancestor: CohortNode) -> QuotaNode:
    """Return the child of ``ancestor`` that contains the node or is the node."""
    branch = node
    for cohort in node.iter_ancestors():
        if cohort is ancestor:
            break
        branch = cohort
    return branch
