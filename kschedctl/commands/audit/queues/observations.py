"""What section "queues" finds in the report on Kueue's queues and in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.objects import ObjectMeta, Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.api.quantity import parse
from kschedctl.api.queueing import KueueWorkload
from kschedctl.api.times import format_age
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.queues.report import (
    InactiveQueue,
    LongWaitingWorkload,
    StarvingQueue,
    UnplacedWorkload,
    UnusedFlavor,
)
from kschedctl.commands.queues.report import ClusterQueueState, KueueQueues
from kschedctl.replay.waiting_elsewhere.entries import find_condition, is_condition_true
from kschedctl.replay.waiting_elsewhere.kueue import (
    ADMITTED,
    FINISHED,
    WaitingQueues,
    find_job,
    find_reason,
    is_waiting,
)

_EVICTED = "Evicted"
_KIND_BY_REASON = {
    "FlavorNotFound": "ResourceFlavor",
    "AdmissionCheckNotFound": "AdmissionCheck",
    "TopologyNotFound": "Topology",
}
"""The kind whose missing object makes a ClusterQueue inactive, by Kueue's reason."""
_MAX_OWNERS = 4
"""The longest chain of controllers that is followed."""


def list_waiting_workloads(audited: AuditedCluster, report: KueueQueues) -> list[LongWaitingWorkload]:
    """Return the Workloads that are neither admitted nor deactivated, the longest waiting first."""
    queued = {workload.workload: workload for workload in report.waiting}
    without_replay = WaitingQueues(audited.cluster, None)
    waiting = []
    for workload in audited.cluster.kueue_workloads:
        if not is_waiting(workload) or workload.spec.active is False:
            continue
        key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        admission = workload.status.admission
        since = _find_waiting_since(workload)
        waiting.append(
            LongWaitingWorkload(
                workload=key,
                queue=queued[key].queue if key in queued else admission.cluster_queue if admission else "",
                since=since,
                age=format_age(since, audited.now),
                why=queued[key].waits if key in queued else find_reason(workload, without_replay).headline,
            )
        )
    return sorted(waiting, key=lambda workload: (workload.since, workload.workload))


def _find_waiting_since(workload: KueueWorkload) -> str:
    """Return the time since which a Workload waits: its last eviction, or else its creation."""
    evicted = find_condition(workload.status.conditions, _EVICTED)
    return (evicted.last_transition_time if evicted else None) or workload.metadata.creation_timestamp or ""


def list_referenced_kinds(cluster: Cluster) -> list[str]:
    """Return the optional kinds of Kueue that ClusterQueues and ResourceFlavors of the cluster refer to."""
    specs = [queue.spec for queue in cluster.cluster_queues]
    is_referenced = {
        "Cohort": any(spec.cohort or spec.cohort_name for spec in specs),
        "AdmissionCheck": any(spec.admission_checks or spec.admission_checks_strategy for spec in specs),
        "Topology": any(flavor.spec.topology_name for flavor in cluster.resource_flavors),
    }
    return [kind for kind, referenced in is_referenced.items() if referenced]


def list_inactive_queues(cluster: Cluster, report: KueueQueues) -> list[InactiveQueue]:
    """Return the ClusterQueues that admit nothing, except those that only lack objects of an unread kind."""
    return [
        InactiveQueue(queue=state.queue, reason=state.reason, message=state.message, waiting=state.waiting)
        for state in report.queues
        if not state.active and not cluster.gap(_KIND_BY_REASON.get(state.reason, ""))
    ]


def find_starving_queues(report: KueueQueues, oldest: Mapping[str, LongWaitingWorkload]) -> list[StarvingQueue]:
    """Return the active ClusterQueues that borrow nothing and wait, while others borrow what they have quota for.

    ``oldest`` is the Workload of each ClusterQueue that waits longest. Such a queue has a share of 0, whatever the
    weights of fair sharing are.
    """
    nominal: dict[str, set[tuple[str, str]]] = {}
    borrowed: dict[str, set[tuple[str, str]]] = {}
    for quota in report.quotas:
        key = quota.flavor, quota.resource
        if _is_positive(quota.nominal):
            nominal.setdefault(quota.queue, set()).add(key)
        if _is_positive(quota.borrowed):
            borrowed.setdefault(quota.queue, set()).add(key)
    cohorts: dict[str, list[ClusterQueueState]] = {}
    for state in report.queues:
        if state.cohort and state.active:
            cohorts.setdefault(state.cohort.partition("/")[0], []).append(state)
    starving = []
    for cohort, members in cohorts.items():
        for state in members:
            keys = nominal.get(state.queue, set())
            borrowers = [other.queue for other in members if keys & borrowed.get(other.queue, set())]
            if borrowers and state.queue in oldest and state.queue not in borrowed:
                starving.append(
                    StarvingQueue(
                        queue=state.queue,
                        cohort=cohort,
                        waiting=state.waiting,
                        age=oldest[state.queue].age,
                        borrowers=tuple(sorted(borrowers)),
                    )
                )
    return starving


def find_unused_flavors(cluster: Cluster, report: KueueQueues) -> list[UnusedFlavor]:
    """Return the ResourceFlavors in which no Workload holds quota."""
    names = {state.queue for state in report.queues}
    quotas = [quota for quota in report.quotas if quota.queue in names]
    used = {quota.flavor for quota in quotas if _is_positive(quota.reserved)}
    queues: dict[str, dict[str, None]] = {}
    for quota in quotas:
        queues.setdefault(quota.flavor, {})[quota.queue] = None
    return [
        UnusedFlavor(flavor=flavor.metadata.name, queues=tuple(queues.get(flavor.metadata.name, ())))
        for flavor in cluster.resource_flavors
        if flavor.metadata.name not in used
    ]


def _is_positive(quantity: str) -> bool:
    """Return whether a formatted amount is above zero."""
    return quantity != "" and parse(quantity).mantissa > 0


def find_unplaced_workloads(audited: AuditedCluster, min_seconds: float) -> list[UnplacedWorkload]:
    """Return the Workloads that were admitted longer ago and have pods without a node, the oldest admission first.

    Without the time of the cluster nothing is returned.
    """
    admitted = list(_iter_long_admitted(audited, min_seconds))
    pods = _group_unbound_pods(audited.cluster) if admitted else {}
    unplaced = []
    for since, workload in admitted if pods else ():
        members = {pod for owner in _list_owners(workload, audited.cluster) for pod in pods.get(owner, ())}
        admission = workload.status.admission
        if members and admission is not None:
            unplaced.append(
                UnplacedWorkload(
                    workload=f"{workload.metadata.namespace}/{workload.metadata.name}",
                    queue=admission.cluster_queue,
                    since=since,
                    age=format_age(since, audited.now),
                    pods=tuple(sorted(members)),
                    count=_count_admitted_pods(workload),
                )
            )
    return sorted(unplaced, key=lambda workload: (workload.since, workload.workload))


def _iter_long_admitted(audited: AuditedCluster, min_seconds: float) -> Iterator[tuple[str, KueueWorkload]]:
    """Yield the Workloads that were admitted longer ago and have not ended, each with the time of the admission."""
    for workload in audited.cluster.kueue_workloads:
        conditions = workload.status.conditions
        admitted = find_condition(conditions, ADMITTED)
        if admitted is None or admitted.status != "True" or is_condition_true(conditions, FINISHED):
            continue
        seconds = audited.seconds_since(admitted.last_transition_time)
        if seconds is not None and seconds > min_seconds:
            yield admitted.last_transition_time or "", workload


def _count_admitted_pods(workload: KueueWorkload) -> int:
    """Return the number of pods that a Workload was admitted with."""
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    assignments = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    counts |= {assigned.name: assigned.count for assigned in assignments if assigned.count is not None}
    return sum(counts.values())


def _list_owners(workload: KueueWorkload, cluster: Cluster) -> list[Owner]:
    """Return the objects that a Workload stands for: a job, or the pods of a pod group."""
    meta = workload.metadata
    owners = [Owner(owner.kind, meta.namespace, owner.name) for owner in meta.owner_references]
    job = find_job(workload, cluster) if not owners else None
    return owners if job is None else [job]


def _group_unbound_pods(cluster: Cluster) -> dict[Owner, list[str]]:
    """Return the keys of the pods without a node, by each controller above them and by the pod itself."""
    controllers = {
        Owner(kind, item.namespace, item.name): Owner(controller.kind, item.namespace, controller.name)
        for kind, items in _list_controlled(cluster).items()
        for item in items
        if (controller := find_controller(item)) is not None
    }
    groups: dict[Owner, list[str]] = {}
    for pod in cluster.unbound_pods():
        if pod.terminated or pod.metadata.deletion_timestamp is not None:
            continue
        for owner in _iter_owners(pod, controllers):
            groups.setdefault(owner, []).append(pod.key)
    return groups


def _list_controlled(cluster: Cluster) -> dict[str, Sequence[ObjectMeta]]:
    """Return the metadata of objects that own pods and may have a controller themselves, by kind."""
    return {
        "Job": [job.metadata for job in cluster.jobs],
        "StatefulSet": [stateful_set.metadata for stateful_set in cluster.stateful_sets],
    }


def _iter_owners(pod: Pod, controllers: Mapping[Owner, Owner]) -> Iterator[Owner]:
    """Yield a pod as its own owner, then its controller, the controller of that, and so on."""
    itself = Owner("Pod", pod.metadata.namespace, pod.metadata.name)
    yield itself
    owner = find_owner(pod)
    for _ in range(_MAX_OWNERS):
        if owner != itself:
            yield owner
        if owner not in controllers:
            return
        owner = controllers[owner]
