"""The base of the two searches for Workloads to preempt, classical preemption and fair sharing.

Upstream: pkg/scheduler/preemption/preemption.go and common/.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from kschedctl.kueue.amounts import FlavorResource
from kschedctl.kueue.cluster_queues import CycleSnapshot, QueueSnapshot
from kschedctl.kueue.conditions import ConditionType
from kschedctl.kueue.flavor_assignment import PlacementRequests, find_failed_pod_set, find_placements
from kschedctl.kueue.quota_tree import CohortNode, QuotaNode
from kschedctl.kueue.workloads import WorkloadInfo, WorkloadState, WorkloadUsage, get_queue_order_time

ANY = "Any"
"""The preemption policy that allows all Workloads to be preempted."""
_LOWER_PRIORITY, _LOWER_OR_NEWER = "LowerPriority", "LowerOrNewerEqualPriority"


class PreemptionReason(StrEnum):
    """The reason why a Workload is preempted, which is the reason of its condition Preempted."""

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
    """A Workload for which others may be preempted, and what it needs."""

    info: WorkloadInfo
    queue: QueueSnapshot
    keys: frozenset[FlavorResource]
    """The resources for which there is not enough quota."""
    usage: WorkloadUsage
    placements: PlacementRequests
    """The pod sets that need a place in a topology as well."""

    @property
    def needs_topology(self) -> bool:
        """True if the request needs a place in a topology, and not only quota."""
        return bool(self.placements)


class RankedCandidate(NamedTuple):
    """A Workload with its place in the order in which candidates are preempted."""

    rank: int
    info: WorkloadInfo


@dataclass(slots=True)
class PreemptionSearch:
    """A search that removes Workloads from a snapshot and adds them again, to find out which have to be preempted."""

    snapshot: CycleSnapshot
    now: int
    """In microseconds since 1970."""
    _ranks: dict[str, int] = field(init=False, default_factory=dict)
    """The rank of each Workload with quota, by namespace and name. Workloads with equal sort keys share a rank."""
    _candidates: dict[tuple[str, frozenset[FlavorResource]], list[RankedCandidate]] = field(
        init=False, default_factory=dict
    )
    """The candidates in each ClusterQueue at the start of the cycle, by ClusterQueue and resources."""

    def list_ranked_candidates(self, queue: QueueSnapshot, keys: frozenset[FlavorResource]) -> list[RankedCandidate]:
        """Return the Workloads in a queue that use any of these resources, sorted by rank.

        Workloads that were removed from the snapshot are left out.
        """
        if not self._ranks:
            self._rank_workloads()
        candidates = self._candidates.get((queue.name, keys))
        if candidates is None:
            candidates = [
                RankedCandidate(self._ranks[info.workload.key], info)
                for info in queue.initial_workloads
                if uses_resources(info, keys)
            ]
            candidates.sort(key=attrgetter("rank"))
            self._candidates[queue.name, keys] = candidates

        # Most queues still have all Workloads, and then the cached list can be returned as it is
        if len(queue.workloads) == len(queue.initial_workloads):
            return candidates
        return [candidate for candidate in candidates if candidate.info.workload.key in queue.workloads]

    def _rank_workloads(self) -> None:
        """Record the ranks of all Workloads that hold quota at the start of the cycle.

        Workloads with equal candidate keys share a rank. The Workloads with rank 0 are preempted first.
        """
        sorted_workloads = sorted(
            (self.build_candidate_key(info, queue=""), info.workload.key)
            for queue in self.snapshot.queues.values()
            for info in queue.initial_workloads
        )
        rank = -1
        previous_key = None
        for candidate_key, workload_key in sorted_workloads:
            if candidate_key != previous_key:
                rank += 1
                previous_key = candidate_key
            self._ranks[workload_key] = rank

    def fill_back_targets(
        self, request: PreemptionRequest, targets: list[Target], *, allows_borrowing: bool
    ) -> list[Target]:
        """Put targets that are not needed back into the snapshot, and return the remaining targets.

        A target is not needed if the request fits without preempting it. The targets are tried from the last but one to
        the first. ``targets`` is changed in place: the last target replaces each target that is put back. Upstream:
        fillBackWorkloads.
        """
        for index in range(len(targets) - 2, -1, -1):
            self.snapshot.add_workload(targets[index].info, with_topology=request.needs_topology)
            if self.does_request_fit(request, allows_borrowing=allows_borrowing):
                targets[index] = targets[-1]
                targets.pop()
            else:
                self.snapshot.remove_workload(targets[index].info, with_topology=request.needs_topology)
        return targets

    def remove_workload(self, request: PreemptionRequest, info: WorkloadInfo) -> None:
        """Take a Workload out of the snapshot, to find out whether the request fits without it."""
        self.snapshot.remove_workload(info, with_topology=request.needs_topology)

    def restore_targets(self, request: PreemptionRequest, targets: Iterable[Target]) -> None:
        """Put targets that were removed for a request back into the snapshot."""
        for target in targets:
            self.snapshot.add_workload(target.info, with_topology=request.needs_topology)

    def does_request_fit(self, request: PreemptionRequest, *, allows_borrowing: bool) -> bool:
        """Return whether the request fits into the snapshot's quota and, if it has placements, into the topology.

        The request may borrow quota only if ``allows_borrowing`` is set. Upstream: workloadFits.
        """
        for key, amount in request.usage.quota.items():
            if not allows_borrowing and request.queue.node.would_borrow(key, amount):
                return False
            if amount > request.queue.compute_available_quota(key):
                return False
        if not request.placements:
            return True
        results = find_placements(request.queue, request.placements, self.snapshot.gates, assume_empty=False)
        return find_failed_pod_set(results) is None

    def satisfies_policy(self, preemptor: WorkloadState, candidate: WorkloadState, policy: str) -> bool:
        """Return whether a preemption policy allows the preemptor to preempt the candidate.

        LowerPriority requires a candidate of lower priority. LowerOrNewerEqualPriority also accepts a candidate of
        equal priority that was queued later. Any accepts every candidate.
        """
        is_lower = preemptor.priority > candidate.priority
        if policy == _LOWER_PRIORITY:
            return is_lower
        if policy == _LOWER_OR_NEWER:
            gates = self.snapshot.gates
            is_newer = get_queue_order_time(preemptor, gates) < get_queue_order_time(candidate, gates)
            return is_lower or (preemptor.priority == candidate.priority and is_newer)
        return policy == ANY

    def build_candidate_key(self, info: WorkloadInfo, queue: str) -> tuple[bool, bool, int, int, str]:
        """Build the key by which candidates are sorted. Candidates with the smallest keys are preempted first.

        Evicted Workloads come first, then Workloads of queues other than ``queue``, then Workloads of lower priority,
        then Workloads that got quota later. Upstream: CandidatesOrdering.
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
    """Return whether a Workload was assigned any of these combinations of resource and flavor."""
    return any(
        FlavorResource(flavor, resource) in keys
        for pod_set in info.pod_sets
        for resource, flavor in pod_set.flavors.items()
    )


def can_always_reclaim(queue: QueueSnapshot) -> bool:
    """Return whether the queue may preempt any Workload of its cohort to get its nominal quota back."""
    return queue.settings.preemption.reclaim_within_cohort == ANY


def list_borrowing_queues(
    snapshot: CycleSnapshot, node: QuotaNode, keys: frozenset[FlavorResource]
) -> list[QueueSnapshot]:
    """Return the other queues in a queue's cohort tree that borrow any of the resources.

    ``node`` is the quota node of the queue. If the queue has no cohort, the list is empty.
    """
    root = node.root
    if not isinstance(root, CohortNode):
        return []
    return [
        snapshot.queues[other.name]
        for other in root.iter_queues()
        if other is not node and any(other.would_borrow(key) for key in keys)
    ]
