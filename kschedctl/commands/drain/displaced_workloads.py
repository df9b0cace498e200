"""The Workloads of Kueue whose pods a drain evicts: which keep their quota, and which have to be admitted again.

A job keeps the quota of its Workload while its controller recreates pods. A pod that is a Workload by itself gives its
quota back, and its successor is a new Workload at the end of the queue. Upstream: pkg/controller/jobs/pod of
kubernetes-sigs/kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_fields

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.drain.report import DisplacedWorkload, QuotaOutcome
from kschedctl.replay.edits import is_recreated
from kschedctl.replay.waiting_elsewhere.entries import is_condition_true
from kschedctl.replay.waiting_elsewhere.kueue import FINISHED, find_quota_owner
from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook, predict_job_outlooks
from kschedctl.replay.waiting_elsewhere.kueue_placement import find_workload_pods


def report_displaced_workloads(cluster: Cluster, pods: Sequence[Pod]) -> tuple[DisplacedWorkload, ...]:
    """Report on the Workloads with quota that have some of these evicted pods.

    A Workload of a single pod releases its quota. If the pod is recreated, Kueue is replayed with the pod's successor.
    Other Workloads keep their quota. ``cluster`` has the drained nodes cordoned, and still has the evicted pods.
    """
    evicted_keys = {pod.key for pod in pods}
    reports: list[DisplacedWorkload] = []
    single_pods: dict[str, tuple[KueueWorkload, Pod]] = {}
    for workload in cluster.kueue_workloads:
        if workload.status.admission is None or is_condition_true(workload.status.conditions, FINISHED):
            continue
        job = find_quota_owner(workload, cluster)
        workload_pods = find_workload_pods(cluster, workload, job)
        evicted_pods = [pod for pod in workload_pods if pod.key in evicted_keys]
        if not evicted_pods:
            continue
        is_single_pod = job is not None and job.kind == "Pod" and len(workload_pods) == 1
        if is_single_pod and is_recreated(evicted_pods[0]):
            single_pods[evicted_pods[0].key] = workload, evicted_pods[0]
        else:
            outcome = QuotaOutcome.RELEASED if is_single_pod else QuotaOutcome.KEPT
            reports.append(
                _build_displaced_workload_report(workload, str(job or ""), pods=len(evicted_pods), outcome=outcome)
            )
    return (*reports, *_iter_successor_reports(cluster, single_pods))


def _iter_successor_reports(
    cluster: Cluster, single_pods: dict[str, tuple[KueueWorkload, Pod]]
) -> Iterator[DisplacedWorkload]:
    """Replay Kueue with the successors of evicted pods, and yield a report on each evicted pod's Workload.

    In the replay, the evicted pods' Workloads have released their quota. ``single_pods`` maps the key of each evicted
    pod to its Workload and the pod.
    """
    # Workloads are compared by identity, since comparing their contents would take long
    displaced_ids = {id(workload) for workload, _ in single_pods.values()}
    remaining_workloads = tuple(workload for workload in cluster.kueue_workloads if id(workload) not in displaced_ids)

    # The successors get new names, because the evicted pods are still in the cluster
    successors: dict[Owner, Pod] = {}
    pod_by_successor: dict[Owner, str] = {}
    for key, (_, pod) in single_pods.items():
        successor = recreate_pod(pod, cluster)
        metadata = replace(successor.metadata, name=f"{pod.metadata.name}~new", uid="")
        owner = Owner("Pod", metadata.namespace, metadata.name)
        successors[owner] = replace(successor, metadata=metadata)
        pod_by_successor[owner] = key

    outlooks = predict_job_outlooks(replace_fields(cluster, kueue_workloads=remaining_workloads), successors, "")
    for outlook in outlooks:
        workload, pod = single_pods[pod_by_successor[outlook.owner]]
        yield _build_successor_report(workload, pod, outlook)


def _build_successor_report(workload: KueueWorkload, pod: Pod, outlook: JobOutlook) -> DisplacedWorkload:
    """Build the report on a Workload of one pod: its successor is admitted again, or waits for quota."""
    job = f"Pod {pod.key}"
    if outlook.admitted:
        return _build_displaced_workload_report(
            workload, job, pods=1, outcome=QuotaOutcome.READMITTED, flavors=outlook.flavors
        )
    return _build_displaced_workload_report(
        workload, job, pods=1, outcome=QuotaOutcome.WAITS, reason=outlook.reason or outlook.report.headline
    )


def _build_displaced_workload_report(
    workload: KueueWorkload, job: str, *, pods: int, outcome: QuotaOutcome, flavors: str = "", reason: str = ""
) -> DisplacedWorkload:
    """Build the report on one Workload with quota.

    `job` is the title of the object for which the Workload requests quota, and `pods` is the number of its evicted
    pods.
    """
    admission = workload.status.admission
    return DisplacedWorkload(
        workload=f"{workload.metadata.namespace}/{workload.metadata.name}",
        job=job,
        pods=pods,
        queue=admission.cluster_queue if admission is not None else "",
        outcome=outcome,
        flavors=flavors,
        reason=reason,
    )
