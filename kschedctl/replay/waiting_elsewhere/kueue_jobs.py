"""Jobs of Kueue's queues that have no Workload yet: what Kueue would do with them.

The Workloads that Kueue's integrations would make join those of the cluster in a replay.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod, PodSchedulingGate, StoredJob, Struct
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import QUEUE_LABEL, KueueWorkload
from kschedctl.api.workloads import CronJob, Job, get_identity
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.errors import InputError
from kschedctl.queueing.kueue.feature_gates import build_feature_gates
from kschedctl.queueing.kueue.installation import find_installation
from kschedctl.queueing.kueue.integrations import (
    NotIntegratedError,
    PriorityClasses,
    build_workloads,
    find_queue_name,
)
from kschedctl.queueing.kueue.outlook import WorkloadOutlook
from kschedctl.replay.controllers.workload_pods import find_pods
from kschedctl.replay.edits import change_pods
from kschedctl.replay.waiting_elsewhere.entries import build_entry
from kschedctl.replay.waiting_elsewhere.kueue import (
    WaitingQueues,
    WaitReason,
    describe_flavors,
    find_job,
    find_reason,
    foresee_queues,
    format_key,
)
from kschedctl.replay.waiting_elsewhere.kueue_placement import add_flavors, find_victim_pods
from kschedctl.replay.waiting_elsewhere.suspended_jobs import KUEUE, has_ended, has_queues
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import counted

_ADMISSION_GATE = PodSchedulingGate("kueue.x-k8s.io/admission")


class JobOutlook(NamedTuple):
    """What Kueue would do with a job that has no Workload yet."""

    owner: Owner
    job: Struct
    report: WaitingElsewhere
    admitted: tuple[WorkloadOutlook, ...] = ()
    """The outlook of each of its Workloads that gets quota."""
    workload_count: int = 0
    """The number of its Workloads: more than one if each pod has one."""

    @property
    def flavors(self) -> str:
        """The flavors in which it is admitted, such as ``flavor spot``, or ""."""
        admissions = (outlook.admission for outlook in self.admitted)
        return ", ".join(dict.fromkeys(describe_flavors(admission) for admission in admissions if admission))


def add_foreseen_flavors(pod: Pod, outlook: JobOutlook, cluster: Cluster) -> Pod:
    """Return a pod of an admitted job with the node labels and tolerations of the flavors that it gets."""
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    for foreseen in outlook.admitted[:1]:
        if foreseen.admission is not None:
            pod = replace(pod, spec=add_flavors(pod.spec, foreseen.admission.pod_sets[0], flavors))
    return pod


def apply_outlook(outlook: JobOutlook, cluster: Cluster) -> Struct:
    """Return the manifest as Kueue changes it: started in its flavors if it is admitted, suspended or gated otherwise.

    Of a workload whose pods are Workloads of their own, the admitted pods remain. A manifest about which nothing is
    known stays unchanged.
    """
    job: Any = outlook.job
    spec, report = job.spec, outlook.report
    if report.state is WaitingState.NOT_CHECKED or not (report.replayed or outlook.admitted):
        return outlook.job
    if not outlook.admitted:
        if isinstance(job, Job):
            held_back: dict[str, Any] = {"suspend": True}
        elif isinstance(job, Pod):
            held_back = {"scheduling_gates": (*spec.scheduling_gates, _ADMISSION_GATE)}
        else:
            held_back = {"replicas": 0}
        changed = replace(spec, **held_back)
    elif isinstance(job, Pod):
        changed = add_foreseen_flavors(job, outlook, cluster).spec
    else:
        pod = add_foreseen_flavors(Pod(spec=spec.template.spec), outlook, cluster)
        started: dict[str, Any] = {"template": replace(spec.template, spec=pod.spec)}
        if outlook.workload_count > 1:
            started["replicas"] = len(outlook.admitted)
        elif isinstance(job, Job):
            started |= {"suspend": False, "parallelism": _count_admitted_pods(outlook)}
        changed = replace(spec, **started)
    manifest: Struct = replace(job, spec=changed)
    return manifest


def _count_admitted_pods(outlook: JobOutlook) -> int:
    """Return the number of pods with which Kueue admits a job."""
    admissions = (foreseen.admission for foreseen in outlook.admitted)
    return sum(pod_set.count for admission in admissions if admission for pod_set in admission.pod_sets)


def remove_preempted_pods(cluster: Cluster, outlooks: Iterable[JobOutlook]) -> Cluster:
    """Return the cluster without the pods of the Workloads that Kueue preempts for the jobs."""
    jobs = {format_key(workload): find_job(workload, cluster) for workload in cluster.kueue_workloads}
    admitted = [foreseen for outlook in outlooks for foreseen in outlook.admitted]
    return change_pods(cluster, dict.fromkeys(find_victim_pods(cluster, admitted, jobs)))


def find_jobs_without_workload(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the suspended Jobs with a queue label and without a Workload, and on unknown kinds of jobs."""
    if not has_queues(cluster):
        return
    owners = {find_job(workload, cluster) for workload in cluster.kueue_workloads}
    for outlook in foresee_jobs(cluster, _find_suspended_jobs(cluster, owners), now):
        yield outlook.report
    yield from _find_unknown_jobs(cluster, owners, now)


def _find_suspended_jobs(cluster: Cluster, owners: Container[Owner | None]) -> dict[Owner, Struct]:
    """Return the suspended Jobs with a queue label that are not among the owners of Workloads."""
    jobs: dict[Owner, Struct] = {}
    for job in cluster.jobs:
        owner = Owner("Job", job.metadata.namespace, job.metadata.name)
        is_waiting = job.spec.suspend and find_queue_name(job) and not has_ended(job)
        if is_waiting and owner not in owners and not _may_have_workload(job, cluster):
            jobs[owner] = job
    return jobs


def foresee_stored_job(cluster: Cluster, owner: Owner, now: str) -> JobOutlook | None:
    """Return what Kueue would do with a suspended Job without a Workload, or None for any other object."""
    if not has_queues(cluster):
        return None
    owners = {find_job(workload, cluster) for workload in cluster.kueue_workloads}
    outlooks = foresee_jobs(cluster, _find_suspended_jobs(cluster, owners), now)
    return next((outlook for outlook in outlooks if outlook.owner == owner), None)


def _may_have_workload(job: StoredJob, cluster: Cluster) -> bool:
    """Return whether the Job may have a Workload that was not read."""
    return bool(job.metadata.uid) and cluster.gap("KueueWorkload") is not None


def _find_unknown_jobs(cluster: Cluster, owners: Container[Owner | None], now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on custom resources with a queue label and without a Workload."""
    for kind in KINDS.values():
        if not issubclass(kind.struct, OperatorResource):
            continue
        for resource in getattr(cluster, kind.field):
            name = resource.resource_kind if isinstance(resource, CustomResource) else kind.kind
            meta = resource.metadata
            if QUEUE_LABEL not in meta.labels or resource.has_ended or Owner(name, meta.namespace, meta.name) in owners:
                continue
            if meta.uid and (cluster.gap("KueueWorkload") is not None or not resource.suspended):
                continue
            yield build_entry(
                name,
                meta,
                WaitingState.NOT_CHECKED,
                f"waits for {KUEUE}, in LocalQueue {meta.labels[QUEUE_LABEL]}: Kueue's integration for {name} is not "
                "replayed",
                now=now,
                pods=resource.expected_pods,
                decides=KUEUE,
                conditions=resource.conditions,
            )


def foresee_manifests(cluster: Cluster, manifests: Iterable[Struct], now: str = "") -> list[JobOutlook]:
    """Return what Kueue would do with the manifests that name a queue, if they were all created now.

    Manifests of objects that exist are left out, since these have a Workload, and suspended CronJobs. A cluster without
    queues gives no outlook.
    """
    if not has_queues(cluster):
        return []
    jobs = {get_identity(manifest): manifest for manifest in manifests if find_queue_name(manifest)}
    new_jobs = {
        owner: job
        for owner, job in jobs.items()
        if not _exists(owner, cluster) and not (isinstance(job, CronJob) and job.spec.suspend)
    }
    return foresee_jobs(cluster, new_jobs, now)


def _exists(owner: Owner, cluster: Cluster) -> bool:
    """Return whether the cluster has the object, or pods of it."""
    if owner.kind == "Pod":
        return cluster.pod(owner.namespace, owner.name) is not None
    stored = cluster.in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
    return any(obj.metadata.name == owner.name for obj in stored) or bool(find_pods(cluster, owner))


def foresee_jobs(cluster: Cluster, jobs: dict[Owner, Struct], now: str) -> list[JobOutlook]:
    """Replay Kueue with the Workloads that it would make of the jobs, and return what becomes of each job."""
    if not jobs:
        return []
    installation = find_installation(cluster)
    gates = build_feature_gates(installation.release, object_at(installation.configuration, "featureGates"))
    classes = PriorityClasses.read(cluster, gates)
    created = now or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    workloads: dict[Owner, tuple[KueueWorkload, ...]] = {}
    problems: dict[Owner, InputError] = {}
    for owner, job in jobs.items():
        try:
            workloads[owner] = build_workloads(owner, job, classes, gates, created)
        except InputError as error:
            problems[owner] = error
    new_workloads = [workload for of_job in workloads.values() for workload in of_job]
    queues = foresee_queues(cluster.with_objects({"KueueWorkload": new_workloads}), now)
    return [
        _build_problem_outlook(owner, job, problems[owner], now)
        if owner in problems
        else _build_outlook(owner, job, workloads[owner], queues, now)
        for owner, job in jobs.items()
    ]


def _build_problem_outlook(owner: Owner, job: Struct, problem: InputError, now: str) -> JobOutlook:
    """Build the outlook of a job that Kueue makes no Workload of, or whose integration is not replayed."""
    queue = find_queue_name(job)
    is_unknown = isinstance(problem, NotIntegratedError)
    headline = f"waits for {KUEUE}, in LocalQueue {queue}: {problem.what}"
    report = build_entry(
        owner.kind,
        job.metadata,  # type: ignore[attr-defined]
        WaitingState.NOT_CHECKED if is_unknown else WaitingState.NOT_ADMITTED,
        headline if is_unknown else f"gets no Workload of {KUEUE}: {problem.what}",
        now=now,
        decides=KUEUE,
        replayed=not is_unknown,
    )
    return JobOutlook(owner, job, report)


def _build_outlook(
    owner: Owner, job: Struct, workloads: Sequence[KueueWorkload], queues: WaitingQueues, now: str
) -> JobOutlook:
    """Build the outlook of a job by what the replay did with its Workloads."""
    foreseen = queues.outlook.workloads if queues.outlook is not None else {}
    outlooks = {key: foreseen[key] for workload in workloads if (key := format_key(workload)) in foreseen}
    admitted = tuple(outlook for outlook in outlooks.values() if outlook.admission is not None)
    is_admitted = len(admitted) == len(workloads)
    waiting = [w for w in workloads if (outlook := outlooks.get(format_key(w))) is None or outlook.admission is None]
    shown = next(iter(waiting or workloads), None)
    headline, details, holders = _find_job_reason(shown, admitted, len(workloads), queues)
    pods = sum(pod_set.count for workload in workloads for pod_set in workload.spec.pod_sets)
    report = build_entry(
        owner.kind,
        job.metadata,  # type: ignore[attr-defined]
        WaitingState.ADMISSIBLE if is_admitted else WaitingState.NOT_ADMITTED,
        headline,
        now=now,
        pods=pods,
        decides=KUEUE,
        details=[*details, *(queues.describe_outlook(shown) if shown is not None else ())],
        holders=holders,
        conditions=getattr(getattr(job, "status", None), "conditions", ()),
        replayed=queues.outlook is not None and (not is_admitted or not queues.assumptions),
    )
    return JobOutlook(owner, job, report, admitted, len(workloads))


def _find_job_reason(
    shown: KueueWorkload | None, admitted: Sequence[WorkloadOutlook], count: int, queues: WaitingQueues
) -> WaitReason:
    """Return what a job waits for: the reason of one Workload, and how many of several are admitted."""
    if shown is None:
        return WaitReason("has no pods, so Kueue admits it at once")
    reason = find_reason(shown, queues)
    outlook = queues.outlook.workloads.get(format_key(shown)) if queues.outlook is not None else None
    if outlook is not None and outlook.admission is not None and outlook.victims:
        victims = counted(len(outlook.victims), "Workload")
        queue = outlook.admission.cluster_queue
        reason = WaitReason(f"is admitted in ClusterQueue {queue} once Kueue has preempted {victims}")
    if count == 1:
        return reason
    headline = f"Kueue admits {len(admitted):,} of its {count:,} pods, each a Workload of its own"
    if len(admitted) < count:
        headline += f"; the next {reason.headline}"
    return reason._replace(headline=headline)
