"""Kueue's Workload controller, which reacts to changes between two cycles and evicts Workloads that must not run.

Upstream: pkg/controller/core/workload_controller.go. Evictions are completed by the jobs' own controllers, which are
replayed here as well: pkg/controller/jobframework/reconciler.go.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

from kschedctl.api.queueing import ClusterQueue, LocalQueue
from kschedctl.kueue.conditions import ConditionType, WorkloadCondition, truncate_event_message
from kschedctl.kueue.feature_gates import Gate
from kschedctl.kueue.queues import Events, KueueEvent, Queues, is_stopped
from kschedctl.kueue.scheduler import NORMAL, WARNING, find_required_checks
from kschedctl.kueue.workloads import (
    ADMISSION_CHECK,
    PENDING,
    REJECTED,
    RETRY,
    CheckState,
    WorkloadState,
    mark_workload_evicted,
    release_quota,
    sync_admitted_condition,
)

_SECOND = 10**6
_DEACTIVATED = "Deactivated"
_CLUSTER_QUEUE_STOPPED, _LOCAL_QUEUE_STOPPED = "ClusterQueueStopped", "LocalQueueStopped"
_PREEMPTED = "Preempted"
_PENDING_EVALUATION, _MISCONFIGURED, _SUSPENDED = "PendingEvaluation", "Misconfigured", "Suspended"
_INADMISSIBLE = "Inadmissible"
_HOLD_AND_DRAIN = "HoldAndDrain"
_SET_BY_SCHEDULER = frozenset(
    {
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        _PENDING_EVALUATION,
    }
)
_MAY_BE_BYPASSED = frozenset({"", _DEACTIVATED, _PENDING_EVALUATION, _SUSPENDED, "Pending"})
"""The reasons of QuotaReserved that give way to the failure of an equivalent Workload."""


class _Explanation(NamedTuple):
    """The reason and the message of a condition."""

    reason: str
    message: str


class WorkloadController:
    """The controller that reacts to changes of Workloads until a pass changes nothing."""

    def __init__(self, queues: Queues, cluster_queues: dict[str, ClusterQueue], now: int) -> None:
        self._queues = queues
        self._store = queues.store
        self._gates = queues.settings.gates
        self._cluster_queues = cluster_queues
        self._now = now
        self._seen: dict[str, WorkloadState] = {}
        self.events: Events = {}

    def load_workloads(self) -> None:
        """Queue the Workloads without quota, add those with quota to the cache, and react until nothing changes.

        Finished Workloads are neither queued nor cached. Upstream: the handler Create.
        """
        for key in sorted(self._store.workloads):
            workload = self._store.workloads[key]
            self._seen[key] = workload
            self._queues.record_cluster_queue(workload)
            if workload.is_finished:
                continue
            if workload.is_admissible:
                self._queues.queue_workload(workload)
            else:
                self._queues.cache.update_workload(self._queues.get_workload_info(workload))
        self._store.changed.update(self._store.workloads)
        self.settle(self._now)

    def settle(self, now: int) -> Events:
        """Process changed Workloads until nothing changes any more, and return the recorded Events.

        Each pass processes the changed Workloads by name. A Workload that changes during a pass is processed in the
        same pass if its name comes later, otherwise in the next pass.
        """
        self._now = now
        self.events = {}
        changed = True
        while changed:
            changed = self._process_pass()
            self._queues.retry_after_releases()  # Workloads may fit into the quota that evicted ones released
        return self.events

    def _process_pass(self) -> bool:
        """Process changed Workloads once, in the order of their keys, and return whether this changed any of them.

        A Workload that changes during the pass is also processed if its key comes later. Otherwise, the Workload is
        kept for the next pass.
        """
        any_changed = False
        heap = sorted(self._take_keys_to_process())  # a sorted list is a heap
        keys_in_heap = set(heap)
        keys_for_next_pass: set[str] = set()
        while heap:
            key = heappop(heap)
            keys_in_heap.discard(key)
            if self._process_workload(key):
                any_changed = True
            for changed_key in self._take_keys_to_process() - keys_in_heap:
                if changed_key > key:
                    keys_in_heap.add(changed_key)
                    heappush(heap, changed_key)
                else:
                    keys_for_next_pass.add(changed_key)
        self._store.changed |= keys_for_next_pass
        return any_changed

    def _process_workload(self, key: str) -> bool:
        """Run the controllers for a Workload, and return whether they changed it."""
        before = self._store.workloads[key]

        # Each controller's change reaches the queues before the next controller runs
        self._update_queues(key)
        self._reconcile_workload(key)
        self._update_queues(key)
        self._release_quota_of_evicted_workload(key)
        self._update_queues(key)
        return self._store.workloads[key] != before

    def _take_keys_to_process(self) -> set[str]:
        """Return the keys of the Workloads to process, and reset the record of changes.

        Besides the changed Workloads, these are the Workloads whose message about missing quota may change, because an
        equivalent Workload now fails for another reason.
        """
        changed, failures_changed = self._store.changed, self._queues.failures_changed
        keys = set(changed)
        keys |= {key for key in failures_changed - changed if self._depends_on_failures(key)}
        changed.clear()
        failures_changed.clear()
        return keys

    def _depends_on_failures(self, key: str) -> bool:
        """Return whether an equivalent Workload's failure may change the reason why a Workload lacks quota."""
        workload = self._store.workloads[key]
        return not workload.has_quota and self._may_be_replaced_by_failure(
            workload.conditions.get(ConditionType.QUOTA_RESERVED)
        )

    def _update_queues(self, key: str) -> None:
        """Update the queues and the used quota if a Workload changed since the last call. Upstream: Update.

        Inactive and finished Workloads leave the queues. Released quota is recorded so that other Workloads are tried
        again.
        """
        old, new = self._seen[key], self._store.workloads[key]
        if old == new:
            return
        self._seen[key] = new
        if new.is_finished or not new.active:
            self._queues.remove_workload(key)
            self._queues.cache.remove_workload(key)
            self._queues.record_release(key)
        elif not new.has_quota:
            if old.has_quota:
                self._queues.cache.remove_workload(key)
                self._queues.record_release(key)
            if new.is_on_hold:
                self._queues.remove_workload(key)
            else:
                self._queues.queue_workload(new)
        else:
            if not old.has_quota:
                self._queues.remove_workload(key)
            self._queues.cache.update_workload(self._queues.get_workload_info(new))

    def _release_quota_of_evicted_workload(self, key: str) -> None:
        """Release the quota of an evicted Workload, as its job's controller does once the job is suspended.

        A preempted Workload may be queued again immediately. Other evicted Workloads wait for their backoff or until
        their queue is restarted.
        """
        workload = self._store.workloads[key]
        if not workload.is_evicted or not workload.has_quota:
            return
        evicted = workload.conditions[ConditionType.EVICTED]
        is_requeued = evicted.reason == _PREEMPTED
        condition = WorkloadCondition(
            status=is_requeued, reason=evicted.reason, message=evicted.message, since=self._now
        )
        workload = workload.with_condition(ConditionType.REQUEUED, condition)
        reason = _PENDING_EVALUATION if Gate.UNADMITTED_OBSERVABILITY in self._gates else "Pending"
        self._store.patch_status(release_quota(workload, reason, evicted.message, self._gates, self._now))

    def _reconcile_workload(self, key: str) -> None:
        """Update a Workload's status from its owner, queues and admission checks. Upstream: Reconcile.

        As in upstream, most changes end the call, and the next pass makes further changes.
        """
        workload = self._finish_if_orphaned(self._store.workloads[key])
        if workload.is_finished:
            return

        # A step that returns True has changed the Workload
        if self._deactivate_or_end_backoff(workload):
            return
        local_queue = self._queues.find_local_queue(workload)
        if self._requeue_after_queue_restart(workload, local_queue):
            return
        name, exists = self._queues.find_cluster_queue_name(workload)
        cluster_queue = self._cluster_queues[name] if exists else None
        if cluster_queue is not None and self._sync_admission_checks(workload, name):
            return
        if not workload.is_admitted:
            workload = self._sync_conditions(workload, local_queue, name, cluster_queue)
        if workload.has_quota:
            self._evict_if_needed(workload, local_queue, name, cluster_queue)

    def _finish_if_orphaned(self, workload: WorkloadState) -> WorkloadState:
        """Finish a Workload whose job was deleted, and return the Workload as it is then."""
        is_orphaned = not workload.is_owned and bool(workload.job_uid)
        if not is_orphaned or Gate.FINISH_ORPHANED_WORKLOADS not in self._gates or workload.is_finished:
            return workload
        message = "The workload's owner no longer exists"
        condition = WorkloadCondition(status=True, reason="OwnerNotFound", message=message, since=self._now)
        return self._store.patch_status(workload.with_condition(ConditionType.FINISHED, condition))

    def _deactivate_or_end_backoff(self, workload: WorkloadState) -> bool:
        """Deactivate a Workload that is to be deactivated, evict an inactive one, or end an active Workload's backoff.

        Return whether one of these changes was made.
        """
        if not workload.active:
            if workload.is_evicted:
                return False
            self._evict_deactivated_workload(workload)
            return True
        if workload.has_condition(ConditionType.DEACTIVATION_TARGET):
            self._store.replace_workload(replace(workload, active=False))
            return True
        return self._end_backoff(workload)

    def _end_backoff(self, workload: WorkloadState) -> bool:
        """Set the condition Requeued of a Workload that waits for its backoff. Return whether the Workload changed.

        The replay does not wait for the duration of the backoff. A Workload that was deactivated and is active again
        may be queued again as well.
        """
        requeued = workload.conditions.get(ConditionType.REQUEUED)
        if requeued is None or requeued.status:
            return False
        if requeued.reason == _DEACTIVATED:
            condition = WorkloadCondition(
                status=True, reason="Reactivated", message="The workload was reactivated", since=self._now
            )
        elif requeued.reason in (ADMISSION_CHECK, "PodsReadyTimeout"):
            condition = WorkloadCondition(
                status=True, reason="BackoffFinished", message="The workload backoff was finished", since=self._now
            )
        else:
            return False
        self._store.patch_status(workload.with_condition(ConditionType.REQUEUED, condition))
        return True

    def _evict_deactivated_workload(self, workload: WorkloadState) -> None:
        """Evict a Workload that was deactivated. A condition DeactivationTarget gives the reason."""
        target = workload.conditions.get(ConditionType.DEACTIVATION_TARGET)
        reason, message = _DEACTIVATED, "The workload is deactivated"
        if target is not None:
            message += f" due to {target.message}"
            reason += f"DueTo{target.reason}"
        self._evict_workload(workload, reason, message)

    def _evict_workload(self, workload: WorkloadState, reason: str, message: str) -> None:
        """Mark a Workload as evicted, and record an Event if it has an admission."""
        self._store.patch_status(mark_workload_evicted(workload, reason, message, self._now))
        if workload.admission is not None:
            self._record_event(workload, NORMAL, f"EvictedDueTo{reason}", message)

    def _requeue_after_queue_restart(self, workload: WorkloadState, local_queue: LocalQueue | None) -> bool:
        """Set a Workload's condition Requeued if the queue that evicted it by stopping is running again.

        Return whether the Workload changed.
        """
        requeued = workload.conditions.get(ConditionType.REQUEUED)
        if requeued is None or requeued.status:
            return False
        name, exists = self._queues.find_cluster_queue_name(workload)
        is_local_running = local_queue is not None and not is_stopped(local_queue.spec.stop_policy)
        is_cluster_running = exists and not is_stopped(self._cluster_queues[name].spec.stop_policy)
        if requeued.reason == _LOCAL_QUEUE_STOPPED and is_local_running:
            reason, message = "LocalQueueRestarted", "The LocalQueue was restarted after being stopped"
        elif requeued.reason == _CLUSTER_QUEUE_STOPPED and is_cluster_running:
            reason, message = "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
        else:
            return False
        condition = WorkloadCondition(status=True, reason=reason, message=message, since=self._now)
        self._store.patch_status(workload.with_condition(ConditionType.REQUEUED, condition))
        return True

    def _sync_admission_checks(self, workload: WorkloadState, name: str) -> bool:
        """Add a pending state for each admission check that a Workload needs, and remove needless checks.

        ``name`` is the Workload's ClusterQueue. Without an admission, only checks that apply to all flavors are needed.
        Return whether the Workload changed. Upstream: syncAdmissionCheckConditions.
        """
        settings = self._queues.pending[name].settings
        if workload.admission is None:
            all_flavors = frozenset(settings.flavors)
            required = {check for check, flavors in settings.checks.items() if flavors >= all_flavors}
        else:
            required = find_required_checks(workload.admission, settings.checks)
        checks = {check: workload.checks.get(check, CheckState(PENDING)) for check in sorted(required)}
        if checks == workload.checks:
            return False
        self._store.replace_workload(replace(workload, checks=checks))
        return True

    def _sync_conditions(
        self, workload: WorkloadState, local_queue: LocalQueue | None, name: str, cluster_queue: ClusterQueue | None
    ) -> WorkloadState:
        """Update the conditions QuotaReserved and Admitted of a Workload that is not admitted yet.

        Return the updated Workload. If the update admits the Workload, an Event is recorded. ``name`` is the name of
        the Workload's ClusterQueue.
        """
        updated = workload
        if not workload.has_quota:
            condition = self._build_missing_quota_condition(workload, local_queue, name, cluster_queue)
            if condition is not None:
                updated = workload.with_condition(ConditionType.QUOTA_RESERVED, condition)
        updated = sync_admitted_condition(updated, self._gates, self._now)
        if updated == workload:
            return workload
        updated = self._store.patch_status(updated)
        if updated.is_admitted and updated.admission is not None:
            reserved = updated.conditions[ConditionType.QUOTA_RESERVED]
            waited = (self._now - reserved.since) / _SECOND
            message = (
                f"Admitted by ClusterQueue {updated.admission.cluster_queue}, "
                f"wait time since reservation was {waited:.0f}s"
            )
            self._record_event(updated, NORMAL, "Admitted", message)
        return updated

    def _build_missing_quota_condition(
        self, workload: WorkloadState, local_queue: LocalQueue | None, name: str, cluster_queue: ClusterQueue | None
    ) -> WorkloadCondition | None:
        """Return the new condition QuotaReserved of a Workload without quota, or None if it does not change.

        ``name`` is the name of the ClusterQueue, which may not exist. Without the gate
        UnadmittedWorkloadsObservability, only queues that admit nothing cause a condition. Upstream:
        syncQuotaReservedFalseCondition.
        """
        blocker = self._find_queue_blocker(workload, local_queue, name, cluster_queue)
        if Gate.UNADMITTED_OBSERVABILITY not in self._gates:
            if blocker is None:
                return None
            return WorkloadCondition(status=False, reason=_INADMISSIBLE, message=blocker.message, since=self._now)
        explanation = self._explain_missing_quota(
            workload, blocker, queue_name=name if cluster_queue is not None else None
        )
        if explanation is None:
            return None
        reason, message = explanation
        return WorkloadCondition(status=False, reason=reason, message=message, since=self._now)

    def _explain_missing_quota(
        self, workload: WorkloadState, blocker: _Explanation | None, queue_name: str | None
    ) -> _Explanation | None:
        """Explain why a Workload has no quota. Return None to leave the condition QuotaReserved unset.

        ``blocker`` explains why a queue admits nothing, or is None if both queues are active. ``queue_name`` is the
        name of the ClusterQueue, or None if the ClusterQueue does not exist. Upstream:
        resolveGranularUnadmittedQuotaReservedCondition.
        """
        current = workload.conditions.get(ConditionType.QUOTA_RESERVED)
        if not workload.active:
            return _Explanation(_DEACTIVATED, "The workload is deactivated")
        if workload.is_on_hold and current is not None:
            return _Explanation(current.reason, current.message)
        queue_explanation = blocker
        if queue_explanation is None and queue_name is not None:
            queue_explanation = self._explain_wait_in_queue(workload, current, queue_name)
        if queue_explanation is not None:
            return queue_explanation

        # The scheduler's explanation of its last attempt holds until the next attempt.
        if current is not None and current.reason in _SET_BY_SCHEDULER:
            return _Explanation(current.reason, current.message)
        if current is None and Gate.UNADMITTED_EXPLICIT_STATUS not in self._gates:
            return None
        return _Explanation(_PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue")

    def _explain_wait_in_queue(
        self, workload: WorkloadState, current: WorkloadCondition | None, queue_name: str
    ) -> _Explanation | None:
        """Explain why the scheduler skips a queued Workload. Return None if the Workload is not skipped.

        The scheduler skips a Workload that can never be admitted, and a Workload of the same shape as another that
        recently failed. ``current`` is the Workload's condition QuotaReserved.
        """
        queue = self._queues.pending[queue_name]
        info = self._queues.get_workload_info(workload)
        error = self._queues.find_admissibility_error(info, queue.settings.namespace_selector, is_adjusted=False)
        if error:
            return _Explanation(_MISCONFIGURED, error)
        if self._may_be_replaced_by_failure(current):
            failure = queue.find_failed_shape_reason(workload.key)
            if failure is not None:
                message = "Bypassed scheduling evaluation because an equivalent workload recently failed"
                return _Explanation(failure, message)
        return None

    def _may_be_replaced_by_failure(self, current: WorkloadCondition | None) -> bool:
        """Return whether the failure of an equivalent Workload may replace the current condition QuotaReserved.

        ``current`` is None if the condition is not set. Upstream: shouldCheckEquivalenceHash.
        """
        if Gate.SCHEDULING_EQUIVALENCE_HASHING not in self._gates:
            return False
        if current is None:
            return Gate.UNADMITTED_EXPLICIT_STATUS in self._gates
        return current.reason in _MAY_BE_BYPASSED

    def _find_queue_blocker(
        self, workload: WorkloadState, local_queue: LocalQueue | None, name: str, cluster_queue: ClusterQueue | None
    ) -> _Explanation | None:
        """Explain why a Workload's LocalQueue or ClusterQueue admits nothing. Return None if both are active.

        ``name`` is the name of the ClusterQueue, which may not exist. Upstream: getQueueBlocker.
        """
        if local_queue is None:
            return _Explanation(_MISCONFIGURED, f"LocalQueue {workload.queue_name} doesn't exist")
        if is_stopped(local_queue.spec.stop_policy):
            return _Explanation(_SUSPENDED, f"LocalQueue {workload.queue_name} is inactive")
        if cluster_queue is None:
            return _Explanation(_MISCONFIGURED, f"ClusterQueue {name} doesn't exist")
        if not self._queues.cache.is_queue_active(name):
            return _Explanation(_SUSPENDED, f"ClusterQueue {name} is inactive")
        return None

    def _evict_if_needed(
        self, workload: WorkloadState, local_queue: LocalQueue | None, name: str, cluster_queue: ClusterQueue | None
    ) -> None:
        """Evict a Workload with quota if its admission checks failed or its queue is stopped.

        ``name`` is the name of the ClusterQueue, which may not exist. An admitted Workload is evicted only if its queue
        is drained. A Workload that is not admitted loses its quota if its queue is stopped or does not exist.
        """
        if self._evict_by_admission_checks(workload):
            return

        local_policy = local_queue.spec.stop_policy if local_queue is not None else None
        cluster_policy = cluster_queue.spec.stop_policy if cluster_queue is not None else None
        if workload.is_admitted:
            if workload.is_evicted:
                return
            if local_policy == _HOLD_AND_DRAIN:
                self._evict_workload(workload, _LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
            elif cluster_policy == _HOLD_AND_DRAIN:
                self._evict_workload(workload, _CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
            return

        queue_name = workload.queue_name
        if local_queue is None:
            self._release_reservation(workload, _MISCONFIGURED, f"LocalQueue {queue_name} is terminating or missing")
        elif is_stopped(local_policy):
            self._release_reservation(workload, _SUSPENDED, f"LocalQueue {queue_name} is stopped")
        elif cluster_queue is None:
            self._release_reservation(workload, _MISCONFIGURED, f"ClusterQueue {name} is terminating or missing")
        elif is_stopped(cluster_policy):
            self._release_reservation(workload, _SUSPENDED, f"ClusterQueue {name} is stopped")

    def _release_reservation(self, workload: WorkloadState, reason: str, message: str) -> None:
        """Release the quota of a Workload that is not admitted.

        Without the gate UnadmittedWorkloadsObservability the reason is always Inadmissible.
        """
        if Gate.UNADMITTED_OBSERVABILITY not in self._gates:
            reason = _INADMISSIBLE
        self._store.patch_status(release_quota(workload, reason, message, self._gates, self._now))

    def _evict_by_admission_checks(self, workload: WorkloadState) -> bool:
        """Deactivate a Workload with a rejected admission check, or evict it if a check has to be retried.

        Return whether the Workload changed. Upstream: reconcileCheckBasedEviction.
        """
        if workload.is_evicted or not workload.has_check_in(RETRY, REJECTED):
            return False
        if workload.has_check_in(REJECTED):
            message = _describe_admission_checks(workload, REJECTED)
            condition = WorkloadCondition(status=True, reason=ADMISSION_CHECK, message=message, since=self._now)
            self._store.patch_status(workload.with_condition(ConditionType.DEACTIVATION_TARGET, condition))
            self._record_event(workload, WARNING, "AdmissionCheckRejected", f"Deactivated due to {message}")
            return True
        self._evict_workload(workload, ADMISSION_CHECK, f"Evicted due to {_describe_admission_checks(workload, RETRY)}")
        return True

    def _record_event(self, workload: WorkloadState, kind: str, reason: str, message: str) -> None:
        """Record an Event about a Workload. ``kind`` is NORMAL or WARNING. A message that is too long is cut."""
        event = KueueEvent(kind, reason, truncate_event_message(message))
        self.events.setdefault(workload.key, []).append(event)


def _describe_admission_checks(workload: WorkloadState, state: str) -> str:
    """Describe the admission checks that are in a state, with their messages. Upstream: buildAdmissionChecksMessage."""
    descriptions = []
    for name, check in sorted(workload.checks.items()):
        if check.state == state:
            descriptions.append(f'"{name}" ({check.message})' if check.message else f'"{name}"')
    noun = "AdmissionChecks" if len(descriptions) > 1 else "AdmissionCheck"
    return f"{noun} in {state} state: {'; '.join(descriptions)}"
