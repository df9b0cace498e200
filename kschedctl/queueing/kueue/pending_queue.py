"""The Workloads that wait in a ClusterQueue: those that will be tried, and those that have to wait for a change.

Upstream: pkg/cache/queue/{cluster_queue,pending_workloads,inadmissible_workloads}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kschedctl.queueing.kueue.cluster_queues import ClusterQueueSettings
from kschedctl.queueing.kueue.conditions import ConditionType
from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.workloads import WorkloadInfo, WorkloadState, get_queue_time


class RequeueReason(Enum):
    """Why a Workload goes back into its queue."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    NO_FIT = "NoFit"
    PENDING_PREEMPTION = "PendingPreemption"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


_RETRIED_AT_ONCE = frozenset({RequeueReason.FAILED_AFTER_NOMINATION, RequeueReason.PENDING_PREEMPTION})
_PENDING_EVALUATION = "PendingEvaluation"


class PendingQueue:
    """The waiting Workloads of one ClusterQueue."""

    def __init__(self, settings: ClusterQueueSettings, gates: FeatureGates, failures_changed: set[str]) -> None:
        self.settings = settings
        self.gates = gates
        self.active: dict[str, WorkloadInfo] = {}
        """The Workloads that will be tried."""
        self.inadmissible: dict[str, WorkloadInfo] = {}
        """The Workloads that are not tried again before something changes."""
        self.popped = ""
        """The Workload that is being tried, or ""."""
        self.failed_shapes: dict[bytes, str] = {}
        """Shapes of Workloads that recently failed, and the reasons."""
        self._failures_changed = failures_changed
        """Collects the Workloads for which ``find_failed_shape_reason`` may have another result than before."""
        self.preemptor = ""
        """The Workload that waits for its own preemptions, or ""."""
        self._pop_cycle = 0
        self._moved_in_cycle = -1
        """The cycle in which inadmissible Workloads were last moved back."""

    def is_preemptor(self, key: str) -> bool:
        """Return whether the Workload waits for its own preemptions."""
        return self.preemptor == key

    def get_sort_key(self, info: WorkloadInfo) -> tuple[bool, int, int, str]:
        """Return the key by which the next Workload is chosen, the smallest first."""
        workload = info.workload
        waits_for_own_preemptions = not self.settings.is_strict and self.is_preemptor(workload.key)
        return (
            not waits_for_own_preemptions,
            -workload.priority,
            get_queue_time(workload, self.gates),
            workload.uid,
        )

    def sort_active(self) -> list[WorkloadInfo]:
        """Return the Workloads that will be tried, in order."""
        return sorted(self.active.values(), key=self.get_sort_key)

    def pop(self) -> WorkloadInfo | None:
        """Take out the next Workload, or return None if there is none to try."""
        self._pop_cycle += 1
        if not self.active:
            self.popped = ""
            return None
        info = min(self.active.values(), key=self.get_sort_key)
        self.popped = info.workload.key
        return self.active.pop(self.popped)

    def find(self, key: str) -> WorkloadInfo | None:
        """Return a waiting Workload, or None."""
        return self.active.get(key) or self.inadmissible.get(key)

    def push_or_update(self, info: WorkloadInfo) -> None:
        """Add a Workload, or replace its older state. Upstream: PushOrUpdate."""
        key = info.workload.key
        if self.popped == key:
            return
        previous = self.inadmissible.get(key)
        if previous is not None:
            self._failures_changed.add(key)
            if _is_same_for_queue(previous.workload, info.workload):
                self.inadmissible[key] = info
                return
            del self.inadmissible[key]
        if key not in self.active:
            is_failed_shape = not self.settings.is_strict and info.shape and info.shape in self.failed_shapes
            if _waits_for_backoff(info.workload) or is_failed_shape:
                self._failures_changed.add(key)
                self.inadmissible[key] = info
                return
        self.active[key] = info

    def push_if_absent(self, info: WorkloadInfo) -> bool:
        """Add a Workload unless it is already waiting or being tried. Return whether it was added."""
        key = info.workload.key
        if self.popped == key or key in self.inadmissible or key in self.active:
            return False
        self.active[key] = info
        return True

    def requeue(self, info: WorkloadInfo, reason: RequeueReason, quota_reason: str) -> bool:
        """Put back a Workload that was tried. Return whether it was added. Upstream: RequeueIfNotPresent.

        ``quota_reason`` is the reason of its condition QuotaReserved, which Workloads of the same shape get, too.
        """
        key = info.workload.key
        if self.settings.is_strict:
            is_retried_at_once = reason != RequeueReason.NAMESPACE_MISMATCH
        else:
            is_retried_at_once = reason in _RETRIED_AT_ONCE
        if reason == RequeueReason.PENDING_PREEMPTION:
            self.preemptor = key
        if self.popped == key:
            self.popped = ""
        has_flavors_left = info.last_assignment is not None and info.last_assignment.has_flavors_left
        moved_meanwhile = self._moved_in_cycle >= self._pop_cycle
        if not _waits_for_backoff(info.workload) and (is_retried_at_once or moved_meanwhile or has_flavors_left):
            if key in self.inadmissible:
                return self._move_to_active(key)
            return self.push_if_absent(info)
        if key in self.inadmissible or key in self.active:
            return False
        self._failures_changed.add(key)
        self.inadmissible[key] = info
        is_failed = reason in (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)
        if Gate.SCHEDULING_EQUIVALENCE_HASHING in self.gates and is_failed and not self.settings.is_strict:
            self._set_shape_aside(info.shape, quota_reason or _PENDING_EVALUATION)
        return True

    def _move_to_active(self, key: str) -> bool:
        """Let an inadmissible Workload be tried again. Return whether it was moved."""
        if key in self.active:
            return False
        self._failures_changed.add(key)
        self.active[key] = self.inadmissible.pop(key)
        return True

    def _set_shape_aside(self, shape: bytes, reason: str) -> None:
        """Make all Workloads of a shape that failed inadmissible. Upstream: handleInadmissibleHash."""
        self.failed_shapes[shape] = reason
        for key, info in list(self.active.items()):
            if info.shape == shape:
                self.inadmissible[key] = self.active.pop(key)
        self._failures_changed.update(key for key, info in self.inadmissible.items() if info.shape == shape)

    def find_failed_shape_reason(self, key: str) -> str | None:
        """Return why Workloads of the same shape failed, or None. Upstream: GetNoFitReason."""
        info = self.inadmissible.get(key)
        return None if info is None else self.failed_shapes.get(info.shape)

    def retry_inadmissible(self, is_namespace_selected: Callable[[str], bool]) -> None:
        """Let inadmissible Workloads be tried again after quota was released.

        Upstream: queueInadmissibleWorkloads.
        """
        self._moved_in_cycle = self._pop_cycle
        self.failed_shapes = {}
        self._failures_changed.update(self.inadmissible)
        for key, info in list(self.inadmissible.items()):
            if is_namespace_selected(info.workload.namespace) and not _waits_for_backoff(info.workload):
                self._move_to_active(key)

    def remove(self, key: str) -> None:
        """Forget a Workload."""
        self._failures_changed.add(key)
        self.inadmissible.pop(key, None)
        self.active.pop(key, None)
        if self.popped == key:
            self.popped = ""
        if self.preemptor == key:
            self.preemptor = ""


def _waits_for_backoff(workload: WorkloadState) -> bool:
    """Return whether an evicted Workload may not be queued again yet."""
    requeued = workload.conditions.get(ConditionType.REQUEUED)
    return requeued is not None and not requeued.status


def _is_same_for_queue(old: WorkloadState, new: WorkloadState) -> bool:
    """Return whether a change of a Workload does not matter to its queue."""
    if (old.queue_name, old.priority, old.active) != (new.queue_name, new.priority, new.active):
        return False
    if old.adjusted_pod_sets != new.adjusted_pod_sets or old.reclaimable != new.reclaimable:
        return False
    watched = (ConditionType.EVICTED, ConditionType.REQUEUED)
    return all(old.conditions.get(kind) == new.conditions.get(kind) for kind in watched)
