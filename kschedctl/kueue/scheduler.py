"""One cycle of Kueue's scheduler: which of the Workloads at the heads of the queues get quota.

Read ``AdmissionScheduler.run_cycle`` first.

Upstream: pkg/scheduler/scheduler.go, fair_sharing_iterator.go and flavorassigner/podset_reducer.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from kschedctl.kueue.amounts import Usage, add_amounts, subtract_amounts
from kschedctl.kueue.assignment import Assignment, AssignmentMode
from kschedctl.kueue.cluster_queues import CycleSnapshot, QueueSnapshot
from kschedctl.kueue.conditions import ConditionType, WorkloadCondition, truncate_event_message
from kschedctl.kueue.feature_gates import Gate
from kschedctl.kueue.flavor_assignment import FlavorAssigner, find_placements, requests_topology
from kschedctl.kueue.pending_queue import RequeueReason
from kschedctl.kueue.preemption import Preemptor
from kschedctl.kueue.preemption_search import (
    PreemptionReason,
    PreemptionRequest,
    Target,
    can_always_reclaim,
)
from kschedctl.kueue.queues import NAMESPACE_MISMATCH, Events, KueueEvent, Queues, was_tried_for_shape
from kschedctl.kueue.quota_tree import CohortNode, DominantShare, QuotaNode, compute_dominant_share
from kschedctl.kueue.topology.snapshot import TopologySnapshot
from kschedctl.kueue.workloads import (
    REJECTED,
    RETRY,
    QuotaAdmission,
    WorkloadInfo,
    WorkloadState,
    WorkloadUsage,
    get_queue_order_time,
    get_wait_start,
    mark_workload_evicted,
    release_quota,
    reserve_quota,
    sync_admitted_condition,
)

NORMAL, WARNING = "Normal", "Warning"
_SECOND = 10**6
_PREEMPTED = "Preempted"
_REASONS_IN_WORDS = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}
_OVERLAP = "Workload has overlapping preemption targets with another workload"


class EntryStatus(Enum):
    """The outcome of a cycle for a Workload."""

    NOT_NOMINATED = ""
    SKIPPED = "skipped"
    ASSUMED = "assumed"


class QuotaReason(Enum):
    """The reason why a Workload has no quota, which is the reason of its condition QuotaReserved."""

    NONE = ""
    PENDING_EVALUATION = "PendingEvaluation"
    SUSPENDED = "Suspended"
    MISCONFIGURED = "Misconfigured"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"


class Requeued(NamedTuple):
    """The way in which a Workload went back into its queue."""

    reason: RequeueReason
    added: bool
    status: EntryStatus


class KueuePreemption(NamedTuple):
    """A Workload that was preempted for another, by namespace and name."""

    preemptor: str
    victim: str


@dataclass(slots=True)
class CycleResult:
    """The decisions and Events of one cycle."""

    order: list[str] = field(default_factory=list)
    """The Workloads in the order in which they were processed."""
    requeued: dict[str, Requeued] = field(default_factory=dict)
    events: Events = field(default_factory=dict)
    preemptions: list[KueuePreemption] = field(default_factory=list)


class _Head(NamedTuple):
    """The Workload that a ClusterQueue tries next."""

    info: WorkloadInfo
    is_preemptor: bool
    """True if the Workload waits for preemptions that it requested."""


class _Rejection(NamedTuple):
    """The reason why a Workload may not be admitted at all."""

    message: str
    quota_reason: QuotaReason


class _AssignmentOutcome(NamedTuple):
    """The flavors found for a Workload, and the Workloads to preempt for it."""

    assignment: Assignment
    targets: list[Target]


class _FitCheck(NamedTuple):
    """The result of checking a usage against quota and topology, assuming that the victims are gone."""

    fits_quota: bool
    fits_topology: bool
    """True as well if the topology was not checked, because the quota does not suffice."""


@dataclass(slots=True)
class _Entry:
    """A Workload at the head of its queue, and what the cycle decides about it."""

    info: WorkloadInfo
    queue: QueueSnapshot | None
    is_preemptor: bool
    assignment: Assignment | None = None
    targets: list[Target] = field(default_factory=list)
    status: EntryStatus = EntryStatus.NOT_NOMINATED
    message: str = ""
    requeue_reason: RequeueReason = RequeueReason.GENERIC
    quota_reason: str = ""

    @property
    def workload(self) -> WorkloadState:
        """The state of the entry's Workload."""
        return self.info.workload

    def record_assignment(self, outcome: _AssignmentOutcome) -> None:
        """Record an assignment and its targets, its message, and the progress in the search for flavors."""
        self.assignment, self.targets = outcome
        self.message = outcome.assignment.message
        self.info.last_assignment = outcome.assignment.progress

    def record_rejection(self, rejection: _Rejection) -> None:
        """Record the message and the reasons why the Workload may not be admitted at all."""
        self.message = rejection.message
        self.quota_reason = rejection.quota_reason.value
        if rejection.message == NAMESPACE_MISMATCH:
            self.requeue_reason = RequeueReason.NAMESPACE_MISMATCH


class AdmissionScheduler:
    """Kueue's scheduler, which runs admission cycles."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._store = queues.store
        self._settings = queues.settings
        self._gates = queues.settings.gates
        self._cycle = 0
        self._now = 0
        self._result = CycleResult()
        self._snapshot = CycleSnapshot({}, frozenset(), {}, self._gates)
        self._preemptor = Preemptor(self._snapshot, 0, None)

    def run_cycle(self, topologies: Mapping[str, TopologySnapshot], now: int) -> CycleResult | None:
        """Run a cycle, which tries the first Workload of each active queue. Return None if all active queues are empty.

        Workloads that did not get quota are put back into their queues. ``topologies`` maps each flavor to a snapshot
        of its topology with the Workloads' usage.
        """
        heads = self._pop_queue_heads()
        if not heads:
            return None
        self._cycle += 1
        self._now = now
        self._result = CycleResult()
        self._snapshot = self._queues.cache.build_snapshot(topologies)
        self._preemptor = Preemptor(self._snapshot, now, self._settings.fair_strategies)

        entries, rejected = self._nominate_heads(heads)
        preempted: dict[str, WorkloadInfo] = {}
        for entry in self._iter_entries_in_admission_order(entries):
            self._result.order.append(entry.workload.key)
            self._process_entry(entry, preempted)
        for entry in (*entries, *rejected):
            if entry.status != EntryStatus.ASSUMED:
                self._requeue_entry(entry)
        return self._result

    def _pop_queue_heads(self) -> list[_Head]:
        """Remove the next Workload from each active queue, and return these Workloads, sorted by queue name."""
        heads = []
        for name in sorted(self._queues.pending):
            if not self._queues.cache.is_queue_active(name):
                continue
            queue = self._queues.pending[name]
            info = queue.pop_next_workload()
            if info is not None:
                heads.append(_Head(replace(info, cluster_queue=name), queue.is_preemptor(info.workload.key)))
        return heads

    def _nominate_heads(self, heads: Sequence[_Head]) -> tuple[list[_Entry], list[_Entry]]:
        """Find an assignment for each head, as if there were no other head. Upstream: nominate.

        Return the entries with an assignment, and the entries that may not be admitted at all. A head that already
        holds quota is dropped.
        """
        nominated, rejected = [], []
        for info, is_preemptor in heads:
            if info.workload.key in self._queues.cache.queues[info.cluster_queue].workloads:
                continue
            queue = self._snapshot.queues.get(info.cluster_queue)
            entry = _Entry(info, queue, is_preemptor)
            rejection = self._find_rejection(info, queue)
            if rejection is not None:
                entry.record_rejection(rejection)
                rejected.append(entry)
                continue
            assert queue is not None  # a Workload of an inactive queue is rejected
            entry.record_assignment(self._compute_assignment(info, queue))
            nominated.append(entry)
        return nominated, rejected

    def _find_rejection(self, info: WorkloadInfo, queue: QueueSnapshot | None) -> _Rejection | None:
        """Return the reason why a Workload may not be admitted at all, or None if it may.

        ``queue`` is the Workload's ClusterQueue, or None if the ClusterQueue is inactive.
        """
        if info.workload.has_check_in(RETRY, REJECTED):
            return _Rejection("The workload has failed admission checks", QuotaReason.PENDING_EVALUATION)
        if queue is None:
            return _Rejection(f"ClusterQueue {info.cluster_queue} is inactive", QuotaReason.SUSPENDED)
        selector = queue.settings.namespace_selector
        error = self._queues.find_admissibility_error(info, selector, is_adjusted=True)
        return _Rejection(error, QuotaReason.MISCONFIGURED) if error else None

    def _compute_assignment(self, info: WorkloadInfo, queue: QueueSnapshot) -> _AssignmentOutcome:
        """Find flavors for a Workload, a place in the topology and, if necessary, Workloads to preempt.

        Outdated progress of an earlier search for flavors is cleared. Upstream: getAssignments.
        """
        if self._must_restart_flavor_search(info, queue):
            info.last_assignment = None
        assigner = self._build_assigner(info, queue)
        outcome = self._compute_initial_assignment(assigner)
        self._reserve_topology(assigner, outcome)
        return outcome

    def _build_assigner(self, info: WorkloadInfo, queue: QueueSnapshot) -> FlavorAssigner:
        """Build the object that assigns flavors of the queue to a Workload in this cycle."""
        return FlavorAssigner(
            info=info,
            queue=queue,
            snapshot=self._snapshot,
            simulate_preemption=self._preemptor.simulate_preemption,
            gates=self._gates,
            cycle=self._cycle,
            ignores_undeclared=self._settings.ignores_undeclared,
            uses_fair_sharing=self._settings.fair_strategies is not None,
        )

    def _must_restart_flavor_search(self, info: WorkloadInfo, queue: QueueSnapshot) -> bool:
        """Return whether the search for flavors must start over. Return False if there was no earlier search.

        It must start over if quota was released since the earlier search. With the gate
        FlavorFungibilityPreserveScanProgress, it must also start over if the Workload changed. With this gate, the
        search of the previous cycle continues for an unchanged Workload even if quota was released. Upstream:
        lastAssignmentOutdated.
        """
        progress = info.last_assignment
        if progress is None:
            return False
        if Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS in self._gates:
            if not was_tried_for_shape(progress, info.shape):
                return True
            # A search of the previous cycle continues even if quota was released meanwhile
            if self._cycle - progress.cycle <= 1:
                return False
        return queue.generation > progress.generation

    def _compute_initial_assignment(self, assigner: FlavorAssigner) -> _AssignmentOutcome:
        """Find flavors for all pods or, if they do not fit and partial admission is allowed, for as many as possible.

        If no number of pods fits, return the assignment for all pods, with no preemption targets. Upstream:
        getInitialAssignments.
        """
        full_assignment = assigner.assign_flavors()
        outcome = self._find_fitting_outcome(assigner, full_assignment)
        if outcome is not None:
            return outcome
        if Gate.PARTIAL_ADMISSION in self._gates and assigner.info.can_be_admitted_partially:
            partial = self._find_partial_assignment(assigner)
            if partial is not None:
                return partial
        return _AssignmentOutcome(full_assignment, targets=[])

    def _find_fitting_outcome(self, assigner: FlavorAssigner, assignment: Assignment) -> _AssignmentOutcome | None:
        """Return the assignment with its targets if it fits now or after preemptions, otherwise None."""
        if assignment.mode == AssignmentMode.FIT:
            return _AssignmentOutcome(assignment, [])
        if assignment.mode == AssignmentMode.PREEMPT:
            targets = self._find_preemption_targets(assigner, assignment)
            if targets:
                return _AssignmentOutcome(assignment, targets)
        return None

    def _find_preemption_targets(self, assigner: FlavorAssigner, assignment: Assignment) -> list[Target]:
        """Return the Workloads to preempt for an assignment, or an empty list if preemption would not help."""
        placements = {}
        if Gate.TOPOLOGY_AWARE_SCHEDULING in self._gates:
            placements = assigner.collect_placement_requests(assignment)
        info = assigner.info
        usage = WorkloadUsage(assignment.compute_quota_usage(info), info.compute_topology_usage(self._gates))
        request = PreemptionRequest(
            info, assigner.queue, assignment.find_resources_needing_preemption(), usage=usage, placements=placements
        )
        return self._preemptor.find_preemption_targets(request)

    def _find_partial_assignment(self, assigner: FlavorAssigner) -> _AssignmentOutcome | None:
        """Find the assignment with the most pods that fit, from count down to minCount for each pod set.

        Return None if not even minCount fits. Upstream: PodSetReducer.Search, a binary search. It assumes that smaller
        numbers fit whenever larger numbers do.
        """
        pod_sets = assigner.info.workload.pod_sets
        counts = [pod_set.count for pod_set in pod_sets]
        min_counts = [pod_set.count if pod_set.min_count is None else pod_set.min_count for pod_set in pod_sets]
        spans = [count - min_count for count, min_count in zip(counts, min_counts, strict=True)]
        total = sum(spans)

        # Search the smallest reduction that fits, from 0 to ``total`` pods, shared among the pod sets by their spans
        best: _AssignmentOutcome | None = None
        low, high = 0, total + 1  # the exclusive bound stands for no fit at all
        while low < high:
            reduction = (low + high) // 2
            reduced = [count - span * reduction // total for count, span in zip(counts, spans, strict=True)]
            outcome = self._find_fitting_outcome(assigner, assigner.assign_flavors(reduced))
            if outcome is None:
                low = reduction + 1
            else:
                best = outcome
                high = reduction
        return best

    def _reserve_topology(self, assigner: FlavorAssigner, outcome: _AssignmentOutcome) -> None:
        """Assign topology domains to a Workload that needs them and waits for preemptions.

        If the preemptions have targets, the domains are large enough once the targets are gone. Without targets, the
        domains are chosen in an empty topology, so that other Workloads do not occupy them in the meantime. Other
        Workloads are not changed. Upstream: updateAssignmentForTAS.
        """
        assignment, targets = outcome
        queue, workload = assigner.queue, assigner.info.workload
        wants_topology = queue.cached.is_topology_only or any(map(requests_topology, workload.pod_sets))
        is_waiting = assignment.mode == AssignmentMode.PREEMPT
        if Gate.TOPOLOGY_AWARE_SCHEDULING not in self._gates or not is_waiting or not wants_topology:
            return

        requests = assigner.collect_placement_requests(assignment)
        infos = [target.info for target in targets]
        self._snapshot.remove_usage(infos)
        results = find_placements(queue, requests, self._gates, assume_empty=not targets)
        self._snapshot.add_usage(infos)
        assignment.set_placements(results)

    def _iter_entries_in_admission_order(self, entries: Sequence[_Entry]) -> Iterator[_Entry]:
        """Yield the entries in the order of their admission, which depends on whether fair sharing is on."""
        if self._settings.fair_strategies is not None:
            yield from _iter_entries_by_fair_share(self, entries)
        else:
            yield from sorted(entries, key=self._build_classical_key)

    def _build_classical_key(self, entry: _Entry) -> tuple[bool, bool, int, int, int]:
        """Build the sort key for entries without fair sharing.

        Workloads that already have quota come first. With the gate PrioritizePreemptorWorkloads, Workloads that wait
        for their own preemptions come next. The other Workloads are sorted by less borrowing, then longer wait. With
        the gate PrioritySortingWithinCohort, a higher priority counts before a longer wait.
        """
        assert entry.assignment is not None
        prefers_preemptors = Gate.PRIORITIZE_PREEMPTOR_WORKLOADS in self._gates
        sorts_by_priority = Gate.PRIORITY_SORTING_WITHIN_COHORT in self._gates
        return (
            not entry.workload.has_quota,
            prefers_preemptors and not entry.is_preemptor,
            entry.assignment.borrowing,
            -entry.workload.priority if sorts_by_priority else 0,
            get_queue_order_time(entry.workload, self._gates),
        )

    def is_entry_before(self, a: _Entry, b: _Entry) -> bool:
        """Return whether entry ``a`` has a higher priority than ``b`` or, with equal priority, has waited longer.

        Priority only counts if the gate PrioritySortingWithinCohort is on.
        """
        if Gate.PRIORITY_SORTING_WITHIN_COHORT in self._gates and a.workload.priority != b.workload.priority:
            return a.workload.priority > b.workload.priority
        return get_queue_order_time(a.workload, self._gates) < get_queue_order_time(b.workload, self._gates)

    def compute_usage(self, entry: _Entry) -> WorkloadUsage:
        """Return the quota and the topology capacity that an entry would use if it was admitted."""
        assert entry.assignment is not None
        return self._build_net_usage(entry, entry.assignment.quota)

    def _build_net_usage(self, entry: _Entry, quota: Usage) -> WorkloadUsage:
        """Build the usage that the entry's assignment adds: ``quota``, and room in the topology.

        If the Workload already has quota, ``quota`` is left out. Upstream: netUsage.
        """
        assert entry.assignment is not None
        assert entry.queue is not None
        topology = {}
        if Gate.TOPOLOGY_AWARE_SCHEDULING in self._gates:
            topology = self._build_assigner(entry.info, entry.queue).compute_topology_usage(entry.assignment)
        return WorkloadUsage({} if entry.workload.has_quota else quota, topology)

    def _process_entry(self, entry: _Entry, preempted: dict[str, WorkloadInfo]) -> None:
        """Admit an entry, preempt Workloads for it, or leave it waiting. Upstream: processEntry.

        ``preempted`` has the victims of the entries before this one, by key. The victims of this entry are added.
        """
        queue = entry.queue
        assert queue is not None  # only nominated entries are processed
        usage, fits = self._update_assignment_if_needed(entry, queue, preempted)
        assignment = entry.assignment
        assert assignment is not None
        mode = assignment.mode

        # The entry waits
        if mode == AssignmentMode.NO_FIT:
            entry.requeue_reason = RequeueReason.NO_FIT
            entry.quota_reason = assignment.no_fit_reason.label
            return
        if mode == AssignmentMode.PREEMPT and not entry.targets:
            self._leave_entry_without_targets(entry, queue, assignment)
            return
        if mode == AssignmentMode.DEFERRED_FIT:
            self._defer_entry(entry, queue, usage)
            return

        # An entry before this one took its targets or its room
        if any(target.info.workload.key in preempted for target in entry.targets):
            self._skip_entry(entry, _OVERLAP)
            return
        if not fits:
            self._skip_entry(entry, "Workload no longer fits after processing another workload")
            return

        # The entry takes its quota, now or once its targets are gone
        preempted |= {target.info.workload.key: target.info for target in entry.targets}
        queue.add_usage(usage)
        if mode == AssignmentMode.PREEMPT:
            entry.quota_reason = QuotaReason.WAITING_FOR_PREEMPTED.value
            self._preempt_targets(entry, queue)
            return
        self._admit_entry(entry, queue, assignment)

    def _skip_entry(self, entry: _Entry, message: str) -> None:
        """Leave an entry for the next cycle, with a message that says why it was skipped in this cycle.

        Without the gate FlavorFungibilityPreserveScanProgress, the next search for flavors starts over.
        """
        entry.status = EntryStatus.SKIPPED
        entry.message = message
        entry.quota_reason = QuotaReason.WAITING_FOR_QUOTA.value
        if Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS not in self._gates:
            entry.info.last_assignment = None

    def _leave_entry_without_targets(self, entry: _Entry, queue: QueueSnapshot, assignment: Assignment) -> None:
        """Leave an entry waiting that needs preemption but has no targets.

        The quota that the entry needs is kept from later entries, unless the queue can get it back by preemption. With
        the gate PrioritizePreemptorWorkloads, it is always kept for an entry that waits for its own preemptions.
        """
        entry.requeue_reason = RequeueReason.PREEMPTION_NO_CANDIDATES
        entry.quota_reason = QuotaReason.WAITING_FOR_QUOTA.value
        keeps_quota = Gate.PRIORITIZE_PREEMPTOR_WORKLOADS in self._gates and entry.is_preemptor
        if keeps_quota or not can_always_reclaim(queue):
            queue.add_usage(self._build_net_usage(entry, _compute_quota_reservation(assignment, queue)))

    def _defer_entry(self, entry: _Entry, queue: QueueSnapshot, usage: WorkloadUsage) -> None:
        """Leave an entry waiting that fits once the victims of earlier entries are gone, and keep its usage for it."""
        entry.message = f"{_OVERLAP}, but will fit after these preemptions complete"
        entry.quota_reason = QuotaReason.WAITING_FOR_PREEMPTED.value
        entry.requeue_reason = RequeueReason.PENDING_PREEMPTION
        entry.info.last_assignment = None
        queue.add_usage(usage)

    def _update_assignment_if_needed(
        self, entry: _Entry, queue: QueueSnapshot, preempted: Mapping[str, WorkloadInfo]
    ) -> tuple[WorkloadUsage, bool]:
        """Assign flavors again if previous entries took the entry's targets or its domains of the topology.

        Return the assignment's usage, and whether it fits once all preempted Workloads and the entry's targets are
        gone. An assignment that needs preemption, but has neither targets nor a topology assignment, does not fit and
        stays unchanged. Each of the two reasons has its own feature gate. Upstream: updateAssignmentIfNeeded.
        """
        usage = self.compute_usage(entry)
        assert entry.assignment is not None
        fits_without_preemption = entry.assignment.mode > AssignmentMode.PREEMPT
        if not (fits_without_preemption or entry.targets or usage.topology):
            return usage, False

        fit = self._check_usage_fit(queue, usage, preempted, entry.targets)
        has_preempted_targets = any(target.info.workload.key in preempted for target in entry.targets)
        lacks_topology_only = fit.fits_quota and not fit.fits_topology
        needs_other_targets = Gate.RECOMPUTE_UPON_TARGETS_OVERLAP in self._gates and has_preempted_targets
        needs_other_domains = Gate.TAS_RECOMPUTE_ASSIGNMENT in self._gates and lacks_topology_only
        if not needs_other_targets and not needs_other_domains:
            return usage, fit.fits_quota and fit.fits_topology

        if needs_other_targets:
            self._assign_flavors_again(entry, queue, victims=list(preempted.values()))
            if entry.assignment.mode == AssignmentMode.FIT:
                # The new assignment fits only once the victims of the previous entries are gone
                entry.assignment.set_mode(AssignmentMode.DEFERRED_FIT)
        else:
            self._assign_flavors_again(entry, queue, victims=())

        usage = self.compute_usage(entry)
        new_fit = self._check_usage_fit(queue, usage, preempted, entry.targets)
        return usage, new_fit.fits_quota and new_fit.fits_topology

    def _assign_flavors_again(self, entry: _Entry, queue: QueueSnapshot, victims: Sequence[WorkloadInfo]) -> None:
        """Replace an entry's assignment by a new one, as if the victims of other entries were gone.

        The new assignment is limited to the flavors that were assigned before, and the search begins with the first of
        these flavors again. The snapshot is restored afterwards.
        """
        assert entry.assignment is not None
        for victim in victims:
            self._snapshot.remove_workload(victim)
        entry.info.last_assignment = None
        entry.info.nominated_flavors = {
            pod_set.name: {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
            for pod_set in entry.assignment.pod_sets
        }

        entry.record_assignment(self._compute_assignment(entry.info, queue))

        entry.info.nominated_flavors = None
        for victim in victims:
            self._snapshot.add_workload(victim)

    def _check_usage_fit(
        self,
        queue: QueueSnapshot,
        usage: WorkloadUsage,
        preempted: Mapping[str, WorkloadInfo],
        targets: Sequence[Target],
    ) -> _FitCheck:
        """Return whether a usage fits into quota and topology once the preempted Workloads and the targets are gone.

        The topology is checked only if the quota suffices, and otherwise counts as sufficient. The snapshot is restored
        afterwards.
        """
        # A usage that fits beside victims also fits without them, so the many victims of other entries come last
        own_victims = {target.info.workload.key: target.info for target in targets}
        other_victims = [info for key, info in preempted.items() if key not in own_victims]
        removed: list[WorkloadInfo] = []
        fit = _FitCheck(fits_quota=False, fits_topology=False)
        for victims in ((), own_victims.values(), other_victims):
            self._snapshot.remove_usage(victims)
            removed += victims
            fits_quota = queue.fits_quota(usage)
            fit = _FitCheck(fits_quota, not fits_quota or queue.fits_topology(usage))
            if all(fit):
                break
        self._snapshot.add_usage(removed)
        return fit

    def _preempt_targets(self, entry: _Entry, queue: QueueSnapshot) -> None:
        """Evict an entry's targets that are not evicted yet, and record the preemptions and their Events.

        The entry then waits until its targets are gone. Upstream: IssuePreemptions.
        """
        entry.info.last_assignment = None
        for target in entry.targets:
            if not target.info.workload.is_evicted:
                self._evict_target(target, entry.workload, queue)
        if entry.targets:
            entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
            entry.requeue_reason = RequeueReason.PENDING_PREEMPTION

    def _evict_target(self, target: Target, preemptor: WorkloadState, queue: QueueSnapshot) -> None:
        """Evict one target of a preemptor in ``queue``, and record the preemption and the Events of both Workloads."""
        victim = target.info.workload
        message = (
            f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
            f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {_REASONS_IN_WORDS[target.reason]}; "
            f"preemptor path: {queue.path}; preemptee path: {target.queue.path}"
        )
        condition = WorkloadCondition(status=True, reason=target.reason, message=message, since=self._now)
        evicted = mark_workload_evicted(
            victim.with_condition(ConditionType.PREEMPTED, condition), _PREEMPTED, message, self._now
        )
        self._store.patch_status(evicted)
        self._result.preemptions.append(KueuePreemption(preemptor.key, victim.key))

        # The Events
        priorities = (
            f"preemptor effective priority: {preemptor.priority} (base: {preemptor.priority}, boost: 0); "
            f"preemptee effective priority: {victim.priority} (base: {victim.priority}, boost: 0)"
        )
        self._record_event(victim, NORMAL, "EvictedDueToPreempted", message)
        self._record_event(victim, NORMAL, _PREEMPTED, f"{message}; {priorities}")
        self._record_event(
            preemptor,
            NORMAL,
            "PreemptedWorkload",
            f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {target.info.cluster_queue}; "
            f"{priorities}",
        )

    def _admit_entry(self, entry: _Entry, queue: QueueSnapshot, assignment: Assignment) -> None:
        """Reserve quota for an entry, and admit it if no admission checks are left to wait for. Upstream: admit.

        The usage, the Events and the Workload's new status are recorded.
        """
        admission = QuotaAdmission(queue.name, assignment.build_pod_set_admissions())
        workload = reserve_quota(entry.workload, admission, self._now)
        if _has_all_required_checks(workload, queue):
            workload = sync_admitted_condition(workload, self._gates, self._now)
        entry.status = EntryStatus.ASSUMED
        self._queues.cache.update_workload(self._queues.get_workload_info(workload))

        waited = (self._now - get_wait_start(workload)) / _SECOND
        message = f"Quota reserved in ClusterQueue {queue.name}, wait time since queued was {waited:.0f}s"
        if attempts := assignment.describe_flavor_attempts():
            message += f"; Flavors considered: {attempts}"
        self._record_event(workload, NORMAL, "QuotaReserved", message)
        if workload.is_admitted:
            message = f"Admitted by ClusterQueue {queue.name}, wait time since reservation was 0s"
            self._record_event(workload, NORMAL, "Admitted", message)
        self._store.patch_status(workload)

    def _requeue_entry(self, entry: _Entry) -> None:
        """Put an entry back into its queue, and record why it waits in the Workload's status and in an Event.

        The Workload holds no quota afterwards. Upstream: requeueAndUpdate.
        """
        was_nominated = entry.status != EntryStatus.NOT_NOMINATED
        has_no_specific_reason = entry.requeue_reason == RequeueReason.GENERIC
        if was_nominated and has_no_specific_reason:
            entry.requeue_reason = RequeueReason.FAILED_AFTER_NOMINATION
        key = entry.workload.key
        added = self._queues.requeue_workload(entry.info, entry.requeue_reason, entry.quota_reason)
        self._result.requeued[key] = Requeued(entry.requeue_reason, added, entry.status)

        # Store the reason in the Workload's status
        workload = self._store.workloads[key]
        reason = entry.quota_reason if Gate.UNADMITTED_OBSERVABILITY in self._gates else "Pending"
        info = self._queues.get_workload_info(workload)
        workload = release_quota(workload, reason, entry.message, self._gates, self._now)
        requests = {pod_set.name: pod_set.requests for pod_set in info.pod_sets}
        self._store.patch_status(replace(workload, resource_requests=requests))
        self._record_event(workload, WARNING, reason, entry.message)

    def _record_event(self, workload: WorkloadState, kind: str, reason: str, message: str) -> None:
        """Record an Event about a Workload. ``kind`` is NORMAL or WARNING. A message that is too long is cut."""
        event = KueueEvent(kind, reason, truncate_event_message(message))
        self._result.events.setdefault(workload.key, []).append(event)


def _has_all_required_checks(workload: WorkloadState, queue: QueueSnapshot) -> bool:
    """Return whether the Workload has a state for each admission check that it needs.

    The state may be pending. Upstream: HasAllRequiredChecks.
    """
    return find_required_checks(workload.admission, queue.settings.checks) <= workload.checks.keys()


def find_required_checks(admission: QuotaAdmission | None, checks: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the admission checks that an admission needs for its flavors, or an empty set if ``admission`` is None.

    ``checks`` maps each check to the flavors for which it is required.
    """
    if admission is None:
        return set()
    flavors = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
    return {name for name, checked_flavors in checks.items() if checked_flavors & flavors}


def _compute_quota_reservation(assignment: Assignment, queue: QueueSnapshot) -> Usage:
    """Return how much quota to keep free for an assignment that waits although nothing can be preempted for it.

    Without borrowing, the amounts are limited to the unused nominal quota. With borrowing, they are limited to the
    unused nominal quota plus the borrowing limit. If there is no such limit, they are not limited. Upstream:
    quotaResourcesToReserve.
    """
    reserved: Usage = {}
    for key, amount in assignment.quota.items():
        quota = queue.node.get_quota(key)
        usage = queue.node.get_usage(key)
        if assignment.borrowing == 0:
            unused = subtract_amounts(quota.nominal, usage)
            reserved[key] = max(0, min(amount, unused))
        elif quota.borrowing_limit is None:
            reserved[key] = amount
        else:
            unused_with_borrowing = subtract_amounts(add_amounts(quota.nominal, quota.borrowing_limit), usage)
            reserved[key] = min(amount, unused_with_borrowing)
    return reserved


def _iter_entries_by_fair_share(scheduler: AdmissionScheduler, entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """Yield all entries in the order of fair sharing.

    The next entry is the winner of a tournament in a cohort tree, starting with the tree of the first remaining queue
    by name. An entry whose queue has no cohort has no competitors. Upstream's fairSharingIterator takes the trees in
    arbitrary order.
    """
    remaining = {entry.queue.name: entry for entry in entries if entry.queue is not None}
    while remaining:
        first = remaining[min(remaining)]
        assert first.queue is not None
        root = first.queue.node.root
        winner = _Tournament(scheduler, root, remaining).find_winner() if isinstance(root, CohortNode) else first
        assert winner.queue is not None
        del remaining[winner.queue.name]
        yield winner


class _Tournament:
    """A comparison of the entries of a cohort tree: the winner of each cohort competes in the cohort above."""

    def __init__(self, scheduler: AdmissionScheduler, root: CohortNode, entries: Mapping[str, _Entry]) -> None:
        self._scheduler = scheduler
        self._root = root
        self._entries = entries
        self._shares: dict[tuple[str, str], DominantShare] = {}
        """The share of the node below each cohort, with the entry's usage added, by cohort and Workload."""
        self._requests: dict[str, Usage] = {}
        """The requests of each Workload."""
        for node in root.iter_queues():
            if node.name in entries:
                self._record_requests_and_shares(entries[node.name])

    def _record_requests_and_shares(self, entry: _Entry) -> None:
        """Record the entry's requests, and the shares that result if the entry is admitted.

        The shares are those of its queue and of each cohort above the queue except the root. Each share is recorded
        under the parent cohort, in which it is compared. The snapshot stays unchanged.
        """
        queue, key = entry.queue, entry.workload.key
        assert queue is not None
        usage = self._scheduler.compute_usage(entry)
        self._requests[key] = usage.quota
        queue.add_usage(usage)
        child: QuotaNode = queue.node
        for cohort in queue.node.iter_ancestors():
            self._shares[cohort.name, key] = compute_dominant_share(child)
            child = cohort
        queue.remove_usage(usage)

    def find_winner(self) -> _Entry:
        """Return the winner of the whole tree, the entry that is processed next."""
        winner = self._find_cohort_winner(self._root)
        assert winner is not None
        return winner

    def _find_cohort_winner(self, cohort: CohortNode) -> _Entry | None:
        """Return the best entry of a cohort: among the entries of its queues and the winners of its child cohorts.

        Return None if no queue in the subtree has an entry.
        """
        winners = [self._find_cohort_winner(child) for child in cohort.cohorts]
        candidates = [winner for winner in winners if winner is not None]
        candidates += [self._entries[node.name] for node in cohort.queues if node.name in self._entries]
        best: _Entry | None = None
        for candidate in candidates:
            if best is None or self._is_better_entry(candidate, best, cohort.name):
                best = candidate
        return best

    def _is_better_entry(self, a: _Entry, b: _Entry, cohort: str) -> bool:
        """Return whether entry ``a`` wins over ``b`` in the cohort named ``cohort``.

        With the gate PrioritizePreemptorWorkloads, entries that wait for preemptions win. With the gate
        FairSharingPrioritizeNonBorrowing, entries that do not borrow win next. Otherwise, the smaller share wins, then
        the higher priority, then the longer wait.
        """
        gates = self._scheduler._gates
        if Gate.PRIORITIZE_PREEMPTOR_WORKLOADS in gates and a.is_preemptor != b.is_preemptor:
            return a.is_preemptor
        share_a, share_b = self._shares[cohort, a.workload.key], self._shares[cohort, b.workload.key]
        if Gate.FAIR_SHARING_PRIORITIZE_NON_BORROWING in gates:
            borrows_a = share_a.is_borrowing_any(self._requests[a.workload.key])
            borrows_b = share_b.is_borrowing_any(self._requests[b.workload.key])
            if borrows_a != borrows_b:
                return not borrows_a
        if share_a.sort_key != share_b.sort_key:
            return share_a.sort_key < share_b.sort_key
        return self._scheduler.is_entry_before(a, b)
