"""Count how many more pods of a workload Kueue admits at once without preemption."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.workloads import get_identity, with_replicas
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook, add_expected_flavors, predict_job_outlooks
from kschedctl.reports.waiting_elsewhere import WaitingState


class QuotaRoom(NamedTuple):
    """The number of pods of a workload that get quota at the same time."""

    pods: int
    flavors: str
    """The flavors of the first pod, such as ``flavor spot``, or "" if there is no quota for it."""
    reason: str
    """The reason why one more pod does not get quota, or "" if all pods that were tried do."""


def add_flavors_of_queue(cluster: Cluster, workload: Struct, pods: list[Pod]) -> list[Pod]:
    """Return the pods of a workload with the labels and tolerations of the flavor that Kueue gives to the first pod."""
    outlook = _predict_outlook_of_pods(cluster, workload, 1)
    return pods if outlook is None else [add_expected_flavors(pod, outlook, cluster) for pod in pods]


def find_quota_room(cluster: Cluster, workload: Struct, max_pods: int) -> QuotaRoom | None:
    """Count how many new pods of a workload Kueue would admit without preemption, up to `max_pods`.

    The new pods join the queue behind all Workloads that wait. The pods of one Job are admitted together. Return None
    if Kueue does not manage the workload, or if its admission is not replayed.
    """
    first = _predict_outlook_of_pods(cluster, workload, pods=1)
    if first is None or first.report.state is WaitingState.NOT_CHECKED:
        return None
    is_replayed = first.report.replayed or first.admitted
    if not is_replayed:
        return None
    if not _count_admitted_pods(first):
        return QuotaRoom(pods=0, flavors="", reason=first.reason or first.report.headline)
    return _find_largest_admitted_number(cluster, workload, max_pods, first)


def _find_largest_admitted_number(cluster: Cluster, workload: Struct, max_pods: int, first: JobOutlook) -> QuotaRoom:
    """Find the largest number of pods, up to `max_pods`, that Kueue admits, and why it does not admit one more.

    `first` is the outlook of a single pod, which Kueue admits.
    """
    # Try all pods, then search by bisection
    most_admitted, fewest_refused = _count_admitted_pods(first), max_pods + 1
    tried = max_pods
    while most_admitted < tried:
        outlook = _predict_outlook_of_pods(cluster, workload, tried) or first  # never None, as Kueue manages them
        admitted = _count_admitted_pods(outlook)
        if admitted and admitted < tried:  # each pod is a Workload of its own, or the Job starts with fewer pods
            return QuotaRoom(admitted, first.flavors, outlook.reason)
        if admitted:
            most_admitted = tried
        else:
            fewest_refused = tried
        tried = (most_admitted + fewest_refused) // 2
    if fewest_refused > max_pods:
        return QuotaRoom(max_pods, first.flavors, reason="")
    refusing_outlook = _predict_outlook_of_pods(cluster, workload, fewest_refused) or first
    return QuotaRoom(most_admitted, first.flavors, refusing_outlook.reason)


def _predict_outlook_of_pods(cluster: Cluster, workload: Struct, pods: int) -> JobOutlook | None:
    """Return what Kueue does with a new workload of ``pods`` pods, or None if Kueue does not manage it."""
    new_workload: Any = with_replicas(workload, pods)
    new_workload = replace(new_workload, metadata=replace(new_workload.metadata, uid=""))
    return next(iter(predict_job_outlooks(cluster, {get_identity(workload): new_workload}, "")), None)


def _count_admitted_pods(outlook: JobOutlook) -> int:
    """Return the number of pods that get quota without preemption."""
    count = 0
    for admitted in outlook.admitted:
        if admitted.admission is not None and not admitted.victims:
            count += sum(pod_set.count for pod_set in admitted.admission.pod_sets)
    return count
