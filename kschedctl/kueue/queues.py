"""The waiting Workloads of all queues, and the data that scheduler and controller share: objects, settings and Events.

Upstream: pkg/cache/queue/manager.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kschedctl.api.labels import Selector
from kschedctl.api.objects import LimitRange
from kschedctl.api.queueing import KueuePodSet, LocalQueue
from kschedctl.kueue.cluster_queues import QueueCache
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.pending_queue import PendingQueue, RequeueReason
from kschedctl.kueue.pod_requests import ResourceSettings, find_limit_range_errors, find_resource_errors
from kschedctl.kueue.quota_tree import CohortNode
from kschedctl.kueue.workloads import ScanProgress, WorkloadInfo, WorkloadState, build_workload_info

NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"
_STOPPED = ("Hold", "HoldAndDrain")


class KueueEvent(NamedTuple):
    """An Event about a Workload."""

    type: str
    """``Normal`` or ``Warning``."""
    reason: str
    message: str


Events = dict[str, list[KueueEvent]]
"""Events by the namespace and name of the Workload."""


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The configuration of Kueue that a replay uses."""

    gates: FeatureGates
    resources: ResourceSettings
    fair_strategies: Sequence[str] | None
    """The preemption strategies of fair sharing, or None without fair sharing."""
    keeps_former_admission: bool
    """True if an evicted Workload keeps its former admission, as with the fake API server of upstream's tests.

    The scheduler then tries the same flavors again without looking at their quota. A real API server removes it.
    """

    @property
    def ignores_undeclared(self) -> bool:
        """True if requests of resources without quota are ignored."""
        is_configured = self.resources.quota_check_strategy == "IgnoreUndeclared"
        return is_configured and Gate.QUOTA_CHECK_STRATEGY in self.gates


@dataclass(slots=True)
class WorkloadStore:
    """The Workloads as the API server stores them."""

    workloads: dict[str, WorkloadState]
    keeps_former_admission: bool
    changed: set[str] = field(default_factory=set)
    """The Workloads that were stored since the controller last looked at them, by namespace and name."""

    def patch_status(self, workload: WorkloadState) -> WorkloadState:
        """Store the changed status of a Workload, and return the stored Workload.

        Conditions and checks are merged into the stored ones, and ``active`` is not changed. With
        ``keeps_former_admission``, a Workload without an admission keeps its former admission.
        """
        current = self.workloads[workload.key]
        admission = workload.admission
        if admission is None and self.keeps_former_admission:
            admission = current.admission
        merged = replace(
            workload,
            conditions={**current.conditions, **workload.conditions},
            checks={**current.checks, **workload.checks},
            admission=admission,
            active=current.active,
        )
        self.replace_workload(merged)
        return merged

    def replace_workload(self, workload: WorkloadState) -> None:
        """Store a Workload exactly as it is given, and record it as changed."""
        self.workloads[workload.key] = workload
        self.changed.add(workload.key)


class _PodSetError(NamedTuple):
    """The error that makes pod sets inadmissible."""

    pod_sets: Sequence[KueuePodSet]
    error: str
    """Empty if the pod sets are admissible."""


@dataclass(slots=True)
class Queues:
    """The waiting Workloads of all ClusterQueues."""

    store: WorkloadStore
    cache: QueueCache
    settings: ReplaySettings
    local_queues: Mapping[str, LocalQueue]
    """By namespace and name."""
    namespaces: Mapping[str, Mapping[str, str]]
    """The labels of each namespace."""
    limit_ranges: Mapping[str, Sequence[LimitRange]]
    """By namespace."""
    pending: dict[str, PendingQueue] = field(default_factory=dict)
    """By ClusterQueue."""
    failures_changed: set[str] = field(default_factory=set)
    """The Workloads for which ``PendingQueue.find_failed_shape_reason`` may have another result than before."""
    _queue_of_workload: dict[str, str] = field(default_factory=dict)
    """The ClusterQueue in which each Workload was queued."""
    _infos: dict[str, WorkloadInfo] = field(default_factory=dict)
    """The last WorkloadInfo that was built for each Workload, with its requests and usage."""
    _pod_set_errors: dict[tuple[str, bool], _PodSetError] = field(default_factory=dict)
    """The errors that make Workloads' pod sets inadmissible, by key and by whether the pod sets are adjusted."""
    _released: dict[str, None] = field(default_factory=dict)
    """ClusterQueues in whose cohorts quota was released."""

    def __post_init__(self) -> None:
        for name, queue in self.cache.queues.items():
            self.pending[name] = PendingQueue(queue.settings, self.settings.gates, self.failures_changed)

    def get_workload_info(self, workload: WorkloadState) -> WorkloadInfo:
        """Return a new WorkloadInfo for a Workload. Its requests are recomputed only if they may have changed.

        The caller may set attributes of the result. Raises QuantityError if a request is malformed.
        """
        cached = self._infos.get(workload.key)
        if cached is None or not _have_same_requests(cached.workload, workload):
            cached = build_workload_info(workload, self.settings.resources, self.settings.gates)
            # Fills in ``usage``, which all copies then share
            cached.compute_usage(self.settings.gates)
            self._infos[workload.key] = cached
        # A copy, because callers set ``last_assignment`` and ``nominated_flavors`` on what they get
        return replace(cached, workload=workload)

    def find_local_queue(self, workload: WorkloadState) -> LocalQueue | None:
        """Return the LocalQueue that a Workload names, or None if it does not exist."""
        return self.local_queues.get(f"{workload.namespace}/{workload.queue_name}")

    def find_cluster_queue_name(self, workload: WorkloadState) -> tuple[str, bool]:
        """Return the name of the ClusterQueue of a Workload's LocalQueue, and whether the ClusterQueue exists.

        The name is "" if the LocalQueue does not exist or is stopped.
        """
        local_queue = self.find_local_queue(workload)
        if local_queue is None or is_stopped(local_queue.spec.stop_policy):
            return "", False
        name = local_queue.spec.cluster_queue
        return name, name in self.pending

    def queue_workload(self, workload: WorkloadState) -> None:
        """Add a Workload to its queue, or replace its state there. Upstream: AddOrUpdateWorkload.

        Nothing happens if the queue does not exist or if the Workload may not enter a queue, for example because it has
        quota.
        """
        name, exists = self.find_cluster_queue_name(workload)
        if not workload.is_admissible or not exists:
            return
        info = self.get_workload_info(workload)
        queue = self.pending[name]

        # A Workload of unchanged shape continues with the flavors that were not tried yet
        previous = queue.find_workload(workload.key)
        if Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS in self.settings.gates and previous is not None:
            progress = previous.last_assignment
            if progress is not None and was_tried_for_shape(progress, info.shape):
                info.last_assignment = progress

        self._queue_of_workload[workload.key] = name
        queue.push_or_update_workload(info)

    def remove_workload(self, key: str) -> None:
        """Remove a Workload from the queue in which it waits, if there is one."""
        name = self._queue_of_workload.get(key)
        if name is not None:
            self.pending[name].remove_workload(key)

    def requeue_workload(self, info: WorkloadInfo, reason: RequeueReason, quota_reason: str) -> bool:
        """Put a Workload that was tried back into its queue, and return whether it was added.

        It is not added if it may no longer enter a queue, or if its queue no longer exists. Upstream: RequeueWorkload.
        """
        workload = self.store.workloads[info.workload.key]
        name, exists = self.find_cluster_queue_name(workload)
        if not workload.is_admissible or not exists:
            return False
        current = self.get_workload_info(workload)
        current.last_assignment = info.last_assignment
        self._queue_of_workload[workload.key] = name
        return self.pending[name].requeue_workload(current, reason, quota_reason)

    def record_release(self, key: str) -> None:
        """Record that a Workload released quota of its ClusterQueue, for ``retry_after_releases``."""
        name = self._queue_of_workload.get(key)
        if name is not None:
            self._released[name] = None

    def record_cluster_queue(self, workload: WorkloadState) -> None:
        """Record the ClusterQueue of a Workload without adding the Workload to it, if the ClusterQueue exists."""
        name, exists = self.find_cluster_queue_name(workload)
        if exists:
            self._queue_of_workload[workload.key] = name

    def retry_after_releases(self) -> None:
        """Make inadmissible Workloads active again in all cohort trees in which quota was released.

        The recorded releases are cleared.
        """
        names = dict.fromkeys(name for released in self._released for name in self._list_queues_in_tree(released))
        self._released = {}
        for name in names:
            queue = self.pending[name]
            selector = queue.settings.namespace_selector
            namespaces = {namespace for namespace, labels in self.namespaces.items() if selector.matches(labels)}
            queue.retry_inadmissible_workloads(namespaces)

    def _list_queues_in_tree(self, name: str) -> Sequence[str]:
        """Return the names of all ClusterQueues in the cohort tree of a ClusterQueue, including its own.

        The result is empty if the parents of its cohort form a cycle.
        """
        node = self.cache.queues[name].node
        if node.parent is None:
            return (name,)
        if node.parent.name in self.cache.cohorts_with_cyclic_parents:
            return ()
        root = node.root
        assert isinstance(root, CohortNode)  # only cohorts are parents
        return [queue.name for queue in root.iter_queues()]

    def find_admissibility_error(self, info: WorkloadInfo, selector: Selector, *, is_adjusted: bool) -> str:
        """Return why a ClusterQueue may never admit a Workload, or "" if it may.

        The Workload's namespace must match ``selector``, the ClusterQueue's namespace selector, and its requests must
        be valid. ``is_adjusted`` says whether default requests are filled in before the check. The result of checking
        the requests is cached. Upstream: ValidateAdmissibility.
        """
        workload = info.workload
        namespace = workload.namespace
        if namespace not in self.namespaces:
            return f'workload namespace "{namespace}" does not exist: namespaces "{namespace}" not found'
        if not selector.matches(self.namespaces[namespace]):
            return NAMESPACE_MISMATCH
        pod_sets = workload.adjusted_pod_sets if is_adjusted else workload.pod_sets

        # The result is cached for as long as the pod sets are the same objects
        cached = self._pod_set_errors.get((workload.key, is_adjusted))
        if cached is None or cached.pod_sets is not pod_sets:
            cached = _PodSetError(pod_sets, self._find_pod_set_error(pod_sets, namespace))
            self._pod_set_errors[workload.key, is_adjusted] = cached
        return cached.error

    def _find_pod_set_error(self, pod_sets: Sequence[KueuePodSet], namespace: str) -> str:
        """Return why the pod sets' resources are invalid or violate the namespace's LimitRanges, or ""."""
        if errors := find_resource_errors(pod_sets):
            return f"resources validation failed: {_join_errors(errors)}"
        if errors := find_limit_range_errors(pod_sets, self.limit_ranges.get(namespace, ())):
            return f"resources didn't satisfy LimitRange constraints: {_join_errors(errors)}"
        return ""


def _have_same_requests(a: WorkloadState, b: WorkloadState) -> bool:
    """Return whether two states of a Workload share the objects from which its requests and shape are computed.

    The result is also False for equal but distinct objects, at the cost of another computation.
    """
    # Objects are compared by identity, which is fast. The priority is a number.
    return (
        a.adjusted_pod_sets is b.adjusted_pod_sets
        and a.pod_sets is b.pod_sets
        and a.admission is b.admission
        and a.reclaimable is b.reclaimable
        and a.priority == b.priority
    )


def _join_errors(errors: Sequence[str]) -> str:
    """Join errors as apimachinery's Aggregate prints them: without duplicates, and in brackets if there are several."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def is_stopped(stop_policy: str | None) -> bool:
    """Return whether a queue with this stop policy admits no Workloads."""
    return stop_policy in _STOPPED


def was_tried_for_shape(progress: ScanProgress, shape: bytes) -> bool:
    """Return whether the scan of flavors was for a Workload of this shape. An unknown shape, b"", equals any shape."""
    return not progress.shape or not shape or progress.shape == shape
