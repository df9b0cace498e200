"""All waiting Workloads by queue, and what the rest of a replay has in common: objects, settings and recorded events.

Upstream: pkg/cache/queue/manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kschedctl.api.labels import Selector
from kschedctl.api.objects import LimitRange
from kschedctl.api.queueing import KueuePodSet, LocalQueue
from kschedctl.queueing.kueue.cluster_queues import QueueCache
from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.pending_queue import PendingQueue, RequeueReason
from kschedctl.queueing.kueue.pod_requests import ResourceSettings, find_limit_range_errors, find_resource_errors
from kschedctl.queueing.kueue.quota_tree import CohortNode
from kschedctl.queueing.kueue.workloads import ScanProgress, WorkloadInfo, WorkloadState, build_info

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
    """How Kueue is configured."""

    gates: FeatureGates
    resources: ResourceSettings
    fair_strategies: Sequence[str] | None
    """The preemption strategies of fair sharing, or None without fair sharing."""
    keeps_former_admission: bool
    """Whether an evicted Workload keeps its former admission, as with the fake API server of upstream's tests.

    The scheduler then tries the same flavors again without looking at their quota. A real API server removes it.
    """

    @property
    def ignores_undeclared(self) -> bool:
        """Return whether requests of resources without quota are ignored."""
        is_asked_for = self.resources.quota_check_strategy == "IgnoreUndeclared"
        return is_asked_for and Gate.QUOTA_CHECK_STRATEGY in self.gates


@dataclass(slots=True)
class WorkloadStore:
    """The Workloads as the API server stores them."""

    workloads: dict[str, WorkloadState]
    keeps_former_admission: bool
    changed: set[str] = field(default_factory=set)
    """The Workloads that were stored since the controller last looked at them, by namespace and name."""

    def patch(self, workload: WorkloadState) -> WorkloadState:
        """Apply a changed status: conditions and checks are merged into those that are stored. Return the result."""
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
        self.replace(merged)
        return merged

    def replace(self, workload: WorkloadState) -> None:
        """Store a Workload as it is."""
        self.workloads[workload.key] = workload
        self.changed.add(workload.key)


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
    """The last result of ``build_info`` for each Workload."""
    _admissibility_errors: dict[tuple[str, bool], tuple[Sequence[KueuePodSet], str]] = field(default_factory=dict)
    """The pod sets of each Workload, as they are stored or adjusted, with what makes them inadmissible."""
    _released: dict[str, None] = field(default_factory=dict)
    """ClusterQueues in whose cohorts quota was released."""

    def __post_init__(self) -> None:
        for name, queue in self.cache.queues.items():
            self.pending[name] = PendingQueue(queue.settings, self.settings.gates, self.failures_changed)

    def build_info(self, workload: WorkloadState) -> WorkloadInfo:
        """Compute the requests of a Workload. Raises QuantityError."""
        previous = self._infos.get(workload.key)
        if previous is not None and _has_same_requests(previous.workload, workload):
            return replace(previous, workload=workload)
        info = build_info(workload, self.settings.resources, self.settings.gates)
        info.compute_usage(self.settings.gates)
        self._infos[workload.key] = info
        return replace(info)

    def find_local_queue(self, workload: WorkloadState) -> LocalQueue | None:
        """Return the LocalQueue that a Workload names, or None."""
        return self.local_queues.get(f"{workload.namespace}/{workload.queue_name}")

    def find_queue_name(self, workload: WorkloadState) -> tuple[str, bool]:
        """Return the ClusterQueue of a Workload's LocalQueue, and whether it exists. A stopped LocalQueue has none."""
        local_queue = self.find_local_queue(workload)
        if local_queue is None or is_stopped(local_queue.spec.stop_policy):
            return "", False
        name = local_queue.spec.cluster_queue
        return name, name in self.pending

    def add_or_update(self, workload: WorkloadState) -> None:
        """Queue a Workload that has no quota. Upstream: AddOrUpdateWorkload."""
        name, exists = self.find_queue_name(workload)
        if not workload.is_admissible or not exists:
            return
        info = self.build_info(workload)
        queue = self.pending[name]
        previous = queue.find(workload.key)
        if Gate.FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS in self.settings.gates and previous is not None:
            progress = previous.last_assignment
            if progress is not None and matches_shape(progress, info.shape):
                info.last_assignment = progress
        self._queue_of_workload[workload.key] = name
        queue.push_or_update(info)

    def remove(self, key: str) -> None:
        """Take a Workload out of its queue."""
        name = self._queue_of_workload.get(key)
        if name is not None:
            self.pending[name].remove(key)

    def requeue(self, info: WorkloadInfo, reason: RequeueReason, quota_reason: str) -> bool:
        """Put a Workload back that was tried. Return whether it was added. Upstream: RequeueWorkload."""
        workload = self.store.workloads[info.workload.key]
        name, exists = self.find_queue_name(workload)
        if not workload.is_admissible or not exists:
            return False
        current = self.build_info(workload)
        current.last_assignment = info.last_assignment
        self._queue_of_workload[workload.key] = name
        return self.pending[name].requeue(current, reason, quota_reason)

    def note_release(self, key: str) -> None:
        """Remember that a Workload released quota. ``retry_after_releases`` acts on it."""
        name = self._queue_of_workload.get(key)
        if name is not None:
            self._released[name] = None

    def assign_queue(self, workload: WorkloadState) -> None:
        """Remember the queue of a Workload that already has quota."""
        name, exists = self.find_queue_name(workload)
        if exists:
            self._queue_of_workload[workload.key] = name

    def retry_after_releases(self) -> None:
        """Let Workloads be tried again in all cohorts in which quota was released."""
        released, self._released = self._released, {}
        done: set[str] = set()
        for name in released:
            for queue in self._iter_tree(name):
                if queue not in done:
                    done.add(queue)
                    selector = self.pending[queue].settings.namespace_selector
                    self.pending[queue].retry_inadmissible(
                        lambda namespace, selector=selector: self._is_selected(namespace, selector)  # type: ignore[misc]
                    )

    def _iter_tree(self, name: str) -> Iterable[str]:
        """Return the ClusterQueues in the same tree of cohorts; none if the cohorts form a circle."""
        node = self.cache.queues[name].node
        if node.parent is None:
            return (name,)
        if node.parent.name in self.cache.cohorts_in_circle:
            return ()
        root = node.root
        return [queue.name for queue in root.iter_queues()] if isinstance(root, CohortNode) else (name,)

    def _is_selected(self, namespace: str, selector: Selector) -> bool:
        """Return whether a namespace exists and is selected."""
        return namespace in self.namespaces and selector.matches(self.namespaces[namespace])

    def find_admissibility_error(self, info: WorkloadInfo, selector: Selector, *, is_adjusted: bool) -> str:
        """Return why a Workload may not be admitted at all, or "". Upstream: ValidateAdmissibility.

        ``is_adjusted`` says whether default requests are filled in before they are checked.
        """
        workload = info.workload
        namespace = workload.namespace
        if namespace not in self.namespaces:
            return f'workload namespace "{namespace}" does not exist: namespaces "{namespace}" not found'
        if not selector.matches(self.namespaces[namespace]):
            return NAMESPACE_MISMATCH
        pod_sets = workload.adjusted_pod_sets if is_adjusted else workload.pod_sets
        cached = self._admissibility_errors.get((workload.key, is_adjusted))
        if cached is not None and cached[0] is pod_sets:
            return cached[1]
        error = self._find_pod_set_error(pod_sets, namespace)
        self._admissibility_errors[workload.key, is_adjusted] = pod_sets, error
        return error

    def _find_pod_set_error(self, pod_sets: Sequence[KueuePodSet], namespace: str) -> str:
        """Return what is wrong with the resources of pod sets, or ""."""
        if errors := find_resource_errors(pod_sets):
            return f"resources validation failed: {_aggregate(errors)}"
        if errors := find_limit_range_errors(pod_sets, self.limit_ranges.get(namespace, ())):
            return f"resources didn't satisfy LimitRange constraints: {_aggregate(errors)}"
        return ""


def _has_same_requests(a: WorkloadState, b: WorkloadState) -> bool:
    """Return whether two states of a Workload share all that ``build_info`` computes requests and shape from."""
    return (
        a.adjusted_pod_sets is b.adjusted_pod_sets
        and a.pod_sets is b.pod_sets
        and a.admission is b.admission
        and a.reclaimable is b.reclaimable
        and a.priority == b.priority
    )


def _aggregate(errors: Sequence[str]) -> str:
    """Join errors as upstream's aggregate prints them: duplicates once, several in brackets."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def is_stopped(stop_policy: str | None) -> bool:
    """Return whether a stop policy stops a queue."""
    return stop_policy in _STOPPED


def matches_shape(progress: ScanProgress, shape: bytes) -> bool:
    """Return whether the flavors were tried for a Workload of the same shape. Unknown shapes match."""
    return not progress.shape or not shape or progress.shape == shape
