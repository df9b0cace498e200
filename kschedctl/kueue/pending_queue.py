"""The pending Workloads of a ClusterQueue: active ones, which will be tried, and inadmissible ones, which wait.

Upstream: pkg/cache/queue/{cluster_queue,pending_workloads,inadmissible_workloads}.go.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from kschedctl.kueue.cluster_queues import ClusterQueueSettings
from kschedctl.kueue.conditions import ConditionType
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.workloads import WorkloadInfo, WorkloadState, get_queue_order_time


class RequeueReason(Enum):
    """The reason why a Workload goes back into its queue."""

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
        """The number of calls of ``pop_next_workload``, one in each cycle."""
        self._moved_in_cycle = -1
        """The value of ``_pop_cycle`` when inadmissible Workloads were last moved back, or -1."""

    def is_preemptor(self, key: str) -> bool:
        """Return whether the Workload waits for its preempted Workloads to end."""
        return self.preemptor == key

    def build_sort_key(self, info: WorkloadInfo) -> tuple[bool, int, int, str]:
        """Build the sort key of a Workload. The Workload with the smallest key is tried next.

        Unless the queue is strict, a Workload that waits for its own preemptions comes first. The other Workloads are
        sorted by priority, then by waiting time.
        """
        workload = info.workload
        waits_for_own_preemptions = not self.settings.is_strict and self.is_preemptor(workload.key)
        return (
            not waits_for_own_preemptions,
            -workload.priority,
            get_queue_order_time(workload, self.gates),
            workload.uid,
        )

    def sort_active_workloads(self) -> list[WorkloadInfo]:
        """Return the active Workloads in the order in which they will be tried."""
        return sorted(self.active.values(), key=self.build_sort_key)

    def pop_next_workload(self) -> WorkloadInfo | None:
        """Remove the next Workload to try, remember it as ``popped``, and return it.

        Return None if no Workload is active. In either case, a new cycle starts for the queue.
        """
        self._pop_cycle += 1
        if not self.active:
            self.popped = ""
            return None
        info = min(self.active.values(), key=self.build_sort_key)
        self.popped = info.workload.key
        return self.active.pop(self.popped)

    def find_workload(self, key: str) -> WorkloadInfo | None:
        """Return a Workload that waits in the queue, active or inadmissible, or None."""
        return self.active.get(key) or self.inadmissible.get(key)

    def push_or_update_workload(self, info: WorkloadInfo) -> None:
        """Add a Workload, or replace its older state. Upstream: PushOrUpdate.

        A new Workload is inadmissible if it waits for its backoff or if a Workload of its shape failed. An inadmissible
        Workload stays inadmissible unless a change matters to the queue. Nothing happens if the Workload is being tried
        in this cycle.
        """
        key = info.workload.key
        if self.popped == key:
            return

        # An inadmissible Workload is tried again only after an important change
        previous = self.inadmissible.get(key)
        if previous is not None:
            self._failures_changed.add(key)
            if _is_unchanged_for_queue(previous.workload, info.workload):
                self.inadmissible[key] = info
                return
            del self.inadmissible[key]

        # A Workload that is not active yet may be inadmissible from the start
        if key not in self.active:
            has_failed_shape = not self.settings.is_strict and bool(info.shape) and info.shape in self.failed_shapes
            if has_failed_shape or _waits_for_backoff(info.workload):
                self._failures_changed.add(key)
                self.inadmissible[key] = info
                return
        self.active[key] = info

    def push_workload_if_absent(self, info: WorkloadInfo) -> bool:
        """Add a Workload as active, unless it is already waiting or being tried. Return whether it was added."""
        key = info.workload.key
        if self.popped == key or key in self.inadmissible or key in self.active:
            return False
        self.active[key] = info
        return True

    def requeue_workload(self, info: WorkloadInfo, reason: RequeueReason, quota_reason: str) -> bool:
        """Put a Workload that was tried back into the queue, as active or inadmissible. Return whether it was added.

        It becomes active if ``reason`` allows an immediate retry, if it has flavors left to try, or if quota was
        released while it was tried. While it waits for a backoff, it always becomes inadmissible. A Workload that is
        already waiting is not added, but an inadmissible one may become active.

        If the Workload did not fit, ``quota_reason`` is recorded as the reason why all Workloads of its shape are
        inadmissible, given the gate SchedulingEquivalenceHashing. Upstream: RequeueIfNotPresent.
        """
        key = info.workload.key
        if reason == RequeueReason.PENDING_PREEMPTION:
            self.preemptor = key
        if self.popped == key:
            self.popped = ""

        # The Workload is active if its reason allows an immediate retry, or if something changed for it
        has_flavors_left = info.last_assignment is not None and info.last_assignment.has_flavors_left
        moved_meanwhile = self._moved_in_cycle >= self._pop_cycle
        may_fit_now = self._is_retried_at_once(reason) or moved_meanwhile or has_flavors_left
        if may_fit_now and not _waits_for_backoff(info.workload):
            if key in self.inadmissible:
                return self._move_to_active(key)
            return self.push_workload_if_absent(info)

        # Otherwise it is inadmissible, and so are all Workloads of its shape if it did not fit
        if key in self.inadmissible or key in self.active:
            return False
        self._failures_changed.add(key)  # a failed shape explains only Workloads that are inadmissible
        self.inadmissible[key] = info
        is_failed = reason in (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)
        if Gate.SCHEDULING_EQUIVALENCE_HASHING in self.gates and is_failed and not self.settings.is_strict:
            self._mark_shape_as_failed(info.shape, quota_reason or _PENDING_EVALUATION)
        return True

    def _is_retried_at_once(self, reason: RequeueReason) -> bool:
        """Return whether a Workload that comes back for this reason is tried again without waiting for a change.

        A strict queue retries its first Workload until it is admitted, unless its namespace does not match.
        """
        if self.settings.is_strict:
            return reason != RequeueReason.NAMESPACE_MISMATCH
        return reason in _RETRIED_AT_ONCE

    def _move_to_active(self, key: str) -> bool:
        """Move an inadmissible Workload to the active Workloads. Return False if it is already active."""
        if key in self.active:
            return False
        self._failures_changed.add(key)
        self.active[key] = self.inadmissible.pop(key)
        return True

    def _mark_shape_as_failed(self, shape: bytes, reason: str) -> None:
        """Record the shape of a Workload that failed, and make all active Workloads of this shape inadmissible.

        Upstream: handleInadmissibleHash.
        """
        self.failed_shapes[shape] = reason
        for key, info in list(self.active.items()):
            if info.shape == shape:
                self.inadmissible[key] = self.active.pop(key)
        # Workloads of this shape that were inadmissible before now wait for this reason, too
        self._failures_changed.update(key for key, info in self.inadmissible.items() if info.shape == shape)

    def find_failed_shape_reason(self, key: str) -> str | None:
        """Return the reason why a Workload of the same shape failed.

        Return None if the Workload is not inadmissible or if no Workload of its shape has failed. Upstream:
        GetNoFitReason.
        """
        info = self.inadmissible.get(key)
        return None if info is None else self.failed_shapes.get(info.shape)

    def retry_inadmissible_workloads(self, namespaces: Container[str]) -> None:
        """Make the inadmissible Workloads of some namespaces active again, because quota was released.

        Workloads that wait for their backoff stay inadmissible. No shape counts as failed any longer. Upstream:
        queueInadmissibleWorkloads.
        """
        # A Workload that is being tried in this cycle becomes active as well when it is requeued
        self._moved_in_cycle = self._pop_cycle

        # No shape counts as failed any longer, which may change the reason of every inadmissible Workload
        self.failed_shapes = {}
        self._failures_changed.update(self.inadmissible)

        for key, info in list(self.inadmissible.items()):
            if info.workload.namespace in namespaces and not _waits_for_backoff(info.workload):
                self._move_to_active(key)

    def remove_workload(self, key: str) -> None:
        """Remove a Workload from the queue, whether it is active, inadmissible or being tried."""
        self.inadmissible.pop(key, None)
        self.active.pop(key, None)
        # The reason of a failed shape is only found for an inadmissible Workload, which this one no longer is.
        self._failures_changed.add(key)

        # A Workload that comes back later is neither being tried nor waiting for preemptions.
        if self.popped == key:
            self.popped = ""
        if self.preemptor == key:
            self.preemptor = ""


def _waits_for_backoff(workload: WorkloadState) -> bool:
    """Return whether an evicted Workload may not be tried again yet, which its condition Requeued says."""
    requeued = workload.conditions.get(ConditionType.REQUEUED)
    return requeued is not None and not requeued.status


def _is_unchanged_for_queue(old: WorkloadState, new: WorkloadState) -> bool:
    """Return whether two states of a Workload agree in all fields that could make the Workload admissible again."""
    if (old.queue_name, old.priority, old.active) != (new.queue_name, new.priority, new.active):
        return False
    if old.adjusted_pod_sets != new.adjusted_pod_sets or old.reclaimable != new.reclaimable:
        return False
    watched = (ConditionType.EVICTED, ConditionType.REQUEUED)
    return all(old.conditions.get(kind) == new.conditions.get(kind) for kind in watched)
