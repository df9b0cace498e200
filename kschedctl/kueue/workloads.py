"""Workloads as Kueue's scheduler sees them, and the state changes that it writes.

A ``Workload`` is never changed in place: every change makes a new one, so that caches and snapshots keep what they saw.

Upstream: pkg/workload/workload.go, admissionchecks.go and evict/evict.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import msgspec

from kschedctl.api.queueing import KueuePodSet, KueueWorkload, TopologyAssignment
from kschedctl.api.times import parse_microseconds
from kschedctl.kueue.amounts import (
    FlavorResource,
    Requests,
    Usage,
    add_amounts,
    divide_requests,
    parse_requests,
    scale_requests,
)
from kschedctl.kueue.conditions import (
    Conditions,
    ConditionType,
    WorkloadCondition,
    is_condition_true,
    read_conditions,
    update_condition,
)
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.pod_requests import ResourceSettings, compute_quota_requests, compute_requests

PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
"""The states of an admission check."""
ADMISSION_CHECK = "AdmissionCheck"
"""The reason of an eviction by an admission check."""
NO_RESERVATION = "The workload has no reservation"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
_ONE_MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class DomainCount:
    """A topology domain and the number of pods in it."""

    values: tuple[str, ...]
    """The labels of the domain, from the widest level to the narrowest."""
    count: int


class TopologyPlacement(NamedTuple):
    """The domains that a pod set's pods are assigned to."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """The part of an admission that belongs to one pod set."""

    name: str
    flavors: Mapping[str, str]
    """Flavor by resource."""
    usage: Requests
    """The quota that is reserved."""
    count: int
    topology: TopologyPlacement | None = None
    delayed_topology: str = ""
    """``Pending`` if the topology is assigned later, or ""."""


class QuotaAdmission(NamedTuple):
    """The quota that a Workload holds."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]


class CheckState(NamedTuple):
    """The state of an admission check for a Workload."""

    state: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A Workload at one moment."""

    namespace: str
    name: str
    uid: str
    job_uid: str
    """The UID of the job that it stands for, or ""."""
    is_owned: bool
    """True if an object owns it."""
    queue_name: str
    priority: int
    created: int
    """In microseconds since 1970."""
    pod_sets: tuple[KueuePodSet, ...]
    """As they are stored."""
    adjusted_pod_sets: tuple[KueuePodSet, ...]
    """With overhead and default requests filled in."""
    active: bool
    conditions: Conditions = field(default_factory=dict)
    admission: QuotaAdmission | None = None
    checks: Mapping[str, CheckState] = field(default_factory=dict)
    resource_requests: Mapping[str, Requests] = field(default_factory=dict)
    """The requests of each pod set, written while the Workload is pending."""
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    """The number of pods of each pod set that have ended."""

    @property
    def key(self) -> str:
        """The namespace and the name, joined by a slash."""
        return f"{self.namespace}/{self.name}"

    def has_condition(self, condition: ConditionType) -> bool:
        """Return whether the condition of this type is set and true."""
        return is_condition_true(self.conditions, condition)

    @property
    def has_quota(self) -> bool:
        """True if quota is reserved for the Workload."""
        return self.has_condition(ConditionType.QUOTA_RESERVED)

    @property
    def is_admitted(self) -> bool:
        """True if the Workload's pods may start."""
        return self.has_condition(ConditionType.ADMITTED)

    @property
    def is_evicted(self) -> bool:
        """True if the Workload was evicted and has to release its quota."""
        return self.has_condition(ConditionType.EVICTED)

    @property
    def is_finished(self) -> bool:
        """True if the Workload has ended."""
        return self.has_condition(ConditionType.FINISHED)

    @property
    def is_on_hold(self) -> bool:
        """True if the condition QuotaReserved says that the Workload was put on hold."""
        reserved = self.conditions.get(ConditionType.QUOTA_RESERVED)
        return reserved is not None and not reserved.status and reserved.reason == "OnHold"

    @property
    def is_admissible(self) -> bool:
        """True if the Workload may enter a queue: it is active, has no quota, and nothing holds it back."""
        is_blocked = self.is_on_hold or self.has_condition(ConditionType.WAITING_FOR_REPLACEMENT_PODS)
        return self.active and not (self.is_finished or self.has_quota or is_blocked)

    def has_check_in(self, *states: str) -> bool:
        """Return whether any of the Workload's admission checks is in one of the states."""
        return any(check.state in states for check in self.checks.values())

    @property
    def are_checks_ready(self) -> bool:
        """True if all of the Workload's admission checks are ready."""
        return all(check.state == READY for check in self.checks.values())

    @property
    def is_topology_pending(self) -> bool:
        """True if the Workload was admitted before all of its pod sets were placed in their topology."""
        return self.admission is not None and any(
            pod_set.topology is None and pod_set.delayed_topology == PENDING for pod_set in self.admission.pod_sets
        )

    def with_condition(self, kind: ConditionType, condition: WorkloadCondition) -> WorkloadState:
        """Return the Workload with the condition of type ``kind`` set, or the Workload itself if nothing changes."""
        conditions, changed = update_condition(self.conditions, kind, condition)
        return replace(self, conditions=conditions) if changed else self


def read_workload(stored: KueueWorkload, adjusted: tuple[KueuePodSet, ...], priority: int) -> WorkloadState:
    """Read a Workload from the API.

    ``adjusted`` are the Workload's pod sets with overhead and default requests filled in. ``priority`` is the resolved
    priority. Raises InputError if a time is malformed, and QuantityError if a quantity is malformed.
    """
    metadata, spec, status = stored.metadata, stored.spec, stored.status
    return WorkloadState(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        job_uid=metadata.labels.get(JOB_UID_LABEL, ""),
        is_owned=bool(metadata.owner_references),
        queue_name=spec.queue_name,
        priority=priority,
        created=parse_microseconds(metadata.creation_timestamp) if metadata.creation_timestamp else 0,
        pod_sets=spec.pod_sets,
        adjusted_pod_sets=adjusted,
        active=spec.active is not False,
        conditions=read_conditions(status.conditions),
        admission=_read_admission(stored),
        checks={check.name: CheckState(check.state, check.message) for check in status.admission_checks},
        reclaimable={pods.name: pods.count for pods in status.reclaimable_pods},
    )


def _read_admission(stored: KueueWorkload) -> QuotaAdmission | None:
    """Read the quota that a Workload in the API holds. Return None if the Workload has no admission.

    An admission that does not state the number of pods covers all pods of the pod set. Raises QuantityError if a
    quantity is malformed.
    """
    admission = stored.status.admission
    if admission is None:
        return None
    pod_counts = {pod_set.name: pod_set.count for pod_set in stored.spec.pod_sets}
    pod_sets = tuple(
        PodSetAdmission(
            name=assignment.name,
            flavors=assignment.flavors,
            usage=parse_requests(assignment.resource_usage),
            count=pod_counts.get(assignment.name, 0) if assignment.count is None else assignment.count,
            topology=read_topology_placement(assignment.topology_assignment),
            delayed_topology=assignment.delayed_topology_request or "",
        )
        for assignment in admission.pod_set_assignments
    )
    return QuotaAdmission(admission.cluster_queue, pod_sets)


def read_topology_placement(assignment: TopologyAssignment | None) -> TopologyPlacement | None:
    """Read a topology assignment of either API version. Return None if there is none."""
    if assignment is None:
        return None
    domains = tuple(DomainCount(domain.values, domain.count) for domain in assignment.list_domains())
    return TopologyPlacement(assignment.levels, domains)


def sync_admitted_condition(workload: WorkloadState, gates: FeatureGates, now: int) -> WorkloadState:
    """Return the Workload with the Admitted condition that follows from its quota, checks and topology.

    A false condition names what is missing. The Workload is returned unchanged if the condition is already right, or if
    a new Workload needs no explicit conditions yet. Upstream: SyncAdmittedCondition of pkg/workload/admissionchecks.go.
    """
    is_observable = Gate.UNADMITTED_OBSERVABILITY in gates
    may_be_admitted = workload.has_quota and workload.are_checks_ready and not workload.is_topology_pending

    # With the gate, the condition is always set, except that a new Workload may not need an explicit one
    if is_observable:
        has_no_condition = {ConditionType.QUOTA_RESERVED, ConditionType.ADMITTED}.isdisjoint(workload.conditions)
        if has_no_condition and Gate.UNADMITTED_EXPLICIT_STATUS not in gates:
            return workload
    elif workload.is_admitted == may_be_admitted:
        return workload

    reason, message = "Admitted", "The workload is admitted"
    if not may_be_admitted:
        reason, message = _find_missing_requirement(workload, is_observable=is_observable)
    condition = WorkloadCondition(status=may_be_admitted, reason=reason, message=message, since=now)
    return workload.with_condition(ConditionType.ADMITTED, condition)


def _find_missing_requirement(workload: WorkloadState, *, is_observable: bool) -> tuple[str, str]:
    """Return the reason and the message that name what keeps a Workload from being admitted.

    ``is_observable`` is set if the gate UnadmittedWorkloadsObservability is on, which changes some of the reasons.
    """
    if not workload.has_quota:
        if not workload.are_checks_ready and not is_observable:
            return "NoReservationUnsatisfiedChecks", f"{NO_RESERVATION} and not all checks ready"
        return "NoReservation", NO_RESERVATION
    if not workload.are_checks_ready:
        reason = "UnsatisfiedAdmissionChecks" if is_observable else "UnsatisfiedChecks"
        return reason, "The workload has not all checks ready"
    return "PendingDelayedTopologyRequests", "There are pending delayed topology requests"


def reserve_quota(workload: WorkloadState, admission: QuotaAdmission, now: int) -> WorkloadState:
    """Return the Workload with quota reserved. Its conditions Evicted and Preempted become false if they were true.

    Upstream: SetQuotaReservation.
    """
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    workload = replace(workload, admission=admission)
    workload = workload.with_condition(
        ConditionType.QUOTA_RESERVED, WorkloadCondition(status=True, reason="QuotaReserved", message=message, since=now)
    )
    for kind in (ConditionType.EVICTED, ConditionType.PREEMPTED):
        if workload.has_condition(kind):
            previous = f"Previously: {workload.conditions[kind].message}"
            workload = workload.with_condition(
                kind, WorkloadCondition(status=False, reason="QuotaReserved", message=previous, since=now)
            )
    return workload


def release_quota(workload: WorkloadState, reason: str, message: str, gates: FeatureGates, now: int) -> WorkloadState:
    """Return the Workload without quota, with its conditions QuotaReserved and Admitted updated.

    QuotaReserved becomes false, with the reason and the message. Upstream: UnsetQuotaReservationWithCondition.
    """
    workload = replace(workload, admission=None).with_condition(
        ConditionType.QUOTA_RESERVED, WorkloadCondition(status=False, reason=reason, message=message, since=now)
    )
    return sync_admitted_condition(workload, gates, now)


def mark_workload_evicted(workload: WorkloadState, reason: str, message: str, now: int) -> WorkloadState:
    """Return the Workload with the condition Evicted, and with its admission checks reset to pending.

    The Workload still holds its quota. Upstream: prepareForEviction.
    """
    workload = workload.with_condition(
        ConditionType.EVICTED, WorkloadCondition(status=True, reason=reason, message=message, since=now)
    )
    checks = dict(workload.checks)
    for name, check in workload.checks.items():
        if check.state != PENDING:
            checks[name] = CheckState(PENDING, f"Reset to Pending after eviction. Previously: {check.state}")
    return replace(workload, checks=checks)


@dataclass(frozen=True, slots=True)
class DomainRequests:
    """Pods of one pod set in a topology domain."""

    values: tuple[str, ...]
    pod_requests: Requests
    """The requests of one pod."""
    count: int


TopologyUsage = dict[str, list[DomainRequests]]
"""Pods in topology domains, by flavor."""


class WorkloadUsage(NamedTuple):
    """Quota and room in the topology that a Workload takes."""

    quota: Usage
    topology: TopologyUsage


@dataclass(slots=True)
class PodSetRequests:
    """The total requests of a pod set."""

    name: str
    requests: Requests
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict)
    """Flavor by resource; empty for a Workload that never had quota."""
    domains: Sequence[DomainRequests] | None = None
    """The topology domains in use, or None without a topology assignment."""
    delayed_topology: str = ""

    def scale_to_count(self, count: int) -> PodSetRequests:
        """Return the requests for ``count`` pods.

        A pod set with a topology assignment or without pods keeps its requests.
        """
        if self.domains is not None:
            return self
        if self.count in (0, count):
            return PodSetRequests(self.name, dict(self.requests), self.count, self.flavors)
        requests_per_pod = divide_requests(self.requests, self.count)
        return PodSetRequests(self.name, scale_requests(requests_per_pod, count), count, self.flavors)


ALL_FLAVORS_TRIED = -1
"""Stands for the index of the last flavor that was tried, once all flavors were tried."""


@dataclass(slots=True)
class ScanProgress:
    """The progress of trying flavors for a Workload. Upstream: AssignmentClusterQueueState."""

    tried_flavors: list[dict[str, int]]
    """The index of the last flavor that was tried, or ALL_FLAVORS_TRIED, by resource, for each pod set."""
    generation: int
    """The generation of the ClusterQueue."""
    cycle: int
    shape: bytes
    """The shape of the Workload, see ``build_shape_key``."""

    @property
    def has_flavors_left(self) -> bool:
        """True if there is a resource for which not all flavors were tried yet."""
        indexes = chain.from_iterable(pod_set.values() for pod_set in self.tried_flavors)
        return any(index != ALL_FLAVORS_TRIED for index in indexes)


@dataclass(slots=True)
class WorkloadInfo:
    """A Workload with its total requests, as it is held by caches and queues. Upstream: workload.Info."""

    workload: WorkloadState
    pod_sets: list[PodSetRequests]
    cluster_queue: str
    shape: bytes = b""
    """Workloads of the same shape are scheduled alike; b"" if shapes are not compared."""
    last_assignment: ScanProgress | None = None
    nominated_flavors: Mapping[str, Mapping[str, str]] | None = None
    """The flavors by pod set and resource to which an assignment is limited, or None."""
    usage: WorkloadUsage | None = field(default=None, repr=False, compare=False)
    """The result of ``compute_usage`` once it was called."""

    def compute_usage(self, gates: FeatureGates) -> WorkloadUsage:
        """Return the quota and the pods in topology domains that the Workload uses in its flavors.

        Resources without a flavor are left out. The result is cached.
        """
        if self.usage is not None:
            return self.usage
        quota: Usage = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.requests.items():
                if flavor := pod_set.flavors.get(resource):
                    key = FlavorResource(flavor, resource)
                    quota[key] = add_amounts(quota.get(key, 0), amount)
        self.usage = WorkloadUsage(quota, self.compute_topology_usage(gates))
        return self.usage

    def compute_topology_usage(self, gates: FeatureGates) -> TopologyUsage:
        """Return the Workload's pods in topology domains, by flavor. Without the topology gate, there are none."""
        if Gate.TOPOLOGY_AWARE_SCHEDULING not in gates:
            return {}
        usage: TopologyUsage = {}
        for pod_set in self.pod_sets:
            if pod_set.domains is not None:
                for flavor in dict.fromkeys(pod_set.flavors.values()):
                    usage.setdefault(flavor, []).extend(pod_set.domains)
        return usage

    @property
    def can_be_admitted_partially(self) -> bool:
        """True if Kueue may admit fewer pods than requested, because a pod set has a lower minCount."""
        return any(
            pod_set.min_count is not None and pod_set.count > pod_set.min_count for pod_set in self.workload.pod_sets
        )


def build_workload_info(workload: WorkloadState, settings: ResourceSettings, gates: FeatureGates) -> WorkloadInfo:
    """Build the WorkloadInfo of a Workload, with the total requests of its pod sets.

    The requests are taken from its admission or, if it has none, computed from its pod templates. With the gate
    SchedulingEquivalenceHashing, the WorkloadInfo also gets a shape key. Raises QuantityError if a request is
    malformed.
    """
    if workload.admission is not None:
        pod_sets = _compute_admitted_requests(workload, workload.admission, gates)
        info = WorkloadInfo(workload, pod_sets, workload.admission.cluster_queue)
    else:
        info = WorkloadInfo(workload, _compute_pod_set_requests(workload, settings, gates), cluster_queue="")
    if Gate.SCHEDULING_EQUIVALENCE_HASHING in gates:
        info.shape = build_shape_key(workload, info.pod_sets)
    return info


def _count_remaining_pods(workload: WorkloadState, gates: FeatureGates) -> dict[str, int]:
    """Return, by pod set name, the number of pods that still need quota.

    With the gate ReclaimablePods, pods that have ended do not need quota.
    """
    pod_counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    if Gate.RECLAIMABLE_PODS in gates:
        for name, count in workload.reclaimable.items():
            if name in pod_counts:
                pod_counts[name] -= min(count, pod_counts[name])
    return pod_counts


def _compute_pod_set_requests(
    workload: WorkloadState, settings: ResourceSettings, gates: FeatureGates
) -> list[PodSetRequests]:
    """Compute the requests of each pod set of a Workload that has not been admitted.

    Raises QuantityError if a request is malformed.
    """
    pod_counts = _count_remaining_pods(workload, gates)
    return [
        PodSetRequests(
            pod_set.name,
            scale_requests(compute_quota_requests(pod_set.template.spec, settings), pod_counts[pod_set.name]),
            pod_counts[pod_set.name],
        )
        for pod_set in workload.adjusted_pod_sets
    ]


def _compute_admitted_requests(
    workload: WorkloadState, admission: QuotaAdmission, gates: FeatureGates
) -> list[PodSetRequests]:
    """Compute the quota that an admission holds for each pod set, without the quota of pods that have ended.

    With topology-aware scheduling, topology domains still count the pods that have ended. Raises QuantityError if a
    request is malformed.
    """
    pod_counts = _count_remaining_pods(workload, gates)
    templates = {pod_set.name: pod_set.template.spec for pod_set in workload.adjusted_pod_sets}
    is_topology_aware = Gate.TOPOLOGY_AWARE_SCHEDULING in gates
    pod_sets = []
    for assigned in admission.pod_sets:
        requests = dict(assigned.usage)
        count = assigned.count

        # Record the topology domains, which count all pods, even those that have ended
        domains = None
        if is_topology_aware and assigned.topology is not None:
            template = templates.get(assigned.name)
            pod_requests = divide_requests(requests, count) if template is None else compute_requests(template)
            domains = [
                DomainRequests(domain.values, pod_requests, domain.count) for domain in assigned.topology.domains
            ]
        delayed = assigned.delayed_topology if is_topology_aware else ""

        # Reduce the quota to that of the remaining pods
        remaining = pod_counts.get(assigned.name, 0)
        if remaining < count:
            requests_per_pod = divide_requests(requests, count)
            requests = scale_requests(requests_per_pod, remaining)
            count = remaining
        pod_sets.append(
            PodSetRequests(
                assigned.name, requests, count, flavors=assigned.flavors, domains=domains, delayed_topology=delayed
            )
        )
    return pod_sets


def build_shape_key(workload: WorkloadState, pod_sets: Sequence[PodSetRequests]) -> bytes:
    """Return a key built from everything that decides how a Workload is scheduled: pod sets, requests, priority.

    Workloads with equal keys are treated alike in a ClusterQueue. Upstream: computeSchedulingHash.
    """
    pod_set_keys = []
    for index, pod_set in enumerate(workload.adjusted_pod_sets):
        spec = pod_set.template.spec
        if index < len(pod_sets):
            count, requests = pod_sets[index].count, pod_sets[index].requests
        else:
            count, requests = pod_set.count, {}
        pod_set_key = {
            "name": pod_set.name,
            "initContainers": [(container.resources.requests, container.ports) for container in spec.init_containers],
            "containers": [(container.resources.requests, container.ports) for container in spec.containers],
            "nodeSelector": spec.node_selector,
            "affinity": spec.affinity,
            "tolerations": spec.tolerations,
            "runtimeClassName": spec.runtime_class_name,
            "priority": spec.priority,
            "topologySpreadConstraints": spec.topology_spread_constraints,
            "overhead": spec.overhead,
            "resourceClaims": spec.resource_claims,
            "podRequests": spec.resources and spec.resources.requests,
            "count": count,
            "totalRequests": requests,
            "minCount": pod_set.min_count,
            "topologyRequest": pod_set.topology_request,
        }
        pod_set_keys.append(pod_set_key)
    return msgspec.json.encode((pod_set_keys, workload.priority), order="sorted")


def get_queue_order_time(workload: WorkloadState, gates: FeatureGates) -> int:
    """Return the time that determines a Workload's place in its queue, in microseconds since 1970.

    It is usually the creation time. For a Workload evicted by its admission checks or by the timeout for ready pods, it
    is the time of the eviction. Without the gate PrioritySortingWithinCohort, it is just after the preemption if the
    Workload was preempted by a queue that reclaimed quota while borrowing. Upstream: GetQueueOrderTimestamp.
    """
    evicted = workload.conditions.get(ConditionType.EVICTED)
    if evicted is not None and evicted.status and evicted.reason in (ADMISSION_CHECK, "PodsReadyTimeout"):
        return evicted.since
    preempted = workload.conditions.get(ConditionType.PREEMPTED)
    if (
        Gate.PRIORITY_SORTING_WITHIN_COHORT not in gates
        and preempted is not None
        and preempted.status
        and preempted.reason == _RECLAIM_WHILE_BORROWING
    ):
        return preempted.since + _ONE_MILLISECOND  # as upstream, so that the preemptor comes first
    return workload.created


def get_wait_start(workload: WorkloadState) -> int:
    """Return the time since which a Workload has been waiting in its queue, in microseconds since 1970.

    Upstream: QueuedWaitTime.
    """
    requeued = workload.conditions.get(ConditionType.REQUEUED)
    return workload.created if requeued is None else requeued.since
