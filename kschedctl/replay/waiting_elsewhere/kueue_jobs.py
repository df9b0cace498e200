"""Jobs in Kueue's queues that have no Workload yet, and what a replay predicts that Kueue does with them.

The Workloads that Kueue's integrations would make join those of the cluster in a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Condition, Pod, PodSchedulingGate, StoredJob, Struct
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload
from kschedctl.api.workloads import CronJob, Job, get_identity
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.feature_gates import build_feature_gates
from kschedctl.kueue.installation import detect_installation
from kschedctl.kueue.integrations import NotIntegratedError, PriorityClasses, WorkloadBuilder
from kschedctl.kueue.managed_jobs import ManagedJobs, find_queue_label
from kschedctl.kueue.outlook import WorkloadOutlook
from kschedctl.kueue.pod_groups import build_group_workload, compute_role_hash, get_group_name
from kschedctl.replay.controllers.workload_pods import find_pods_of_owner
from kschedctl.replay.waiting_elsewhere.entries import build_waiting_entry
from kschedctl.replay.waiting_elsewhere.kueue import (
    WaitingQueues,
    WaitReason,
    build_workload_report,
    describe_flavors,
    find_quota_owner,
    find_wait_reason,
    format_key,
    is_waiting,
    replay_queues,
)
from kschedctl.replay.waiting_elsewhere.kueue_placement import (
    StartedPods,
    add_flavors,
    build_started_pods,
    find_victim_pod_keys,
)
from kschedctl.replay.waiting_elsewhere.suspended_jobs import KUEUE, has_ended, has_queues
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import counted

_OPERATED_KINDS = tuple(kind for kind in KINDS.values() if issubclass(kind.struct, OperatorResource))
_ADMISSION_GATE = PodSchedulingGate("kueue.x-k8s.io/admission")


class JobOutlook(NamedTuple):
    """The prediction of what Kueue would do with a job that has no Workload yet."""

    owner: Owner
    job: Struct
    report: WaitingElsewhere
    admitted: tuple[WorkloadOutlook, ...] = ()
    """The outlook of each of its Workloads that gets quota."""
    workload_count: int = 0
    """The number of its Workloads: more than one if each pod has one."""
    pod_set: str = ""
    """The pod set of a pod that is part of a group, or ""."""
    reason: str = ""
    """The reason why the first of its Workloads that gets no quota waits."""

    @property
    def flavors(self) -> str:
        """The flavors in which the job is admitted, such as ``flavor spot``, or ""."""
        admissions = (outlook.admission for outlook in self.admitted)
        return ", ".join(dict.fromkeys(describe_flavors(admission) for admission in admissions if admission))


class QueueForecast(NamedTuple):
    """The outlook of new jobs and of Workloads that are already waiting."""

    jobs: tuple[JobOutlook, ...] = ()
    """The jobs without a Workload."""
    workloads: tuple[WaitingElsewhere, ...] = ()
    """The Workloads of the cluster that wait."""
    flavors: Mapping[str, str] = MappingProxyType({})
    """The flavors of each admitted job or Workload, such as ``flavor spot``, by title."""
    started: tuple[StartedPods, ...] = ()
    """The pods of admitted jobs of which no controller is replayed, and of admitted Workloads."""
    victims: frozenset[tuple[str, str]] = frozenset()
    """The namespace and name of each pod that Kueue preempts."""


def add_expected_flavors(pod: Pod, outlook: JobOutlook, cluster: Cluster) -> Pod:
    """Return the pod with the node labels and tolerations of the flavors that its pod set would be assigned.

    The pod is returned unchanged if Kueue would not admit its job. If each pod of the job has its own Workload, the
    first admitted one counts.
    """
    # If each pod has its own Workload, the first one stands for all.
    admission = outlook.admitted[0].admission if outlook.admitted else None
    if admission is None:
        return pod

    # Only a pod of a group names its pod set. Other pods get the flavors of the first one.
    pod_set = next(
        (admitted for admitted in admission.pod_sets if admitted.name == outlook.pod_set), admission.pod_sets[0]
    )
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    return replace(pod, spec=add_flavors(pod.spec, pod_set, flavors))


def apply_outlook(outlook: JobOutlook, cluster: Cluster) -> Struct:
    """Return the manifest as Kueue changes it.

    The pods of an admitted job get the node labels and tolerations of its flavors, and a Job is resumed. A job that is
    not admitted is suspended, gated or scaled to 0. If each pod of the job has its own Workload, the number of replicas
    becomes the number of admitted pods. A manifest about which nothing is known stays unchanged.
    """
    job: Any = outlook.job
    report = outlook.report
    if report.state is WaitingState.NOT_CHECKED or not (report.replayed or outlook.admitted):
        return outlook.job
    spec = _build_admitted_job_spec(outlook, cluster) if outlook.admitted else _build_held_back_spec(job)
    manifest: Struct = replace(job, spec=spec)
    return manifest


def _build_held_back_spec(job: Any) -> Any:
    """Return the spec of a job that Kueue does not admit.

    A Job is suspended, a pod is gated, and other workloads get no replicas.
    """
    if isinstance(job, Job):
        return replace(job.spec, suspend=True)
    if isinstance(job, Pod):
        return replace(job.spec, scheduling_gates=(*job.spec.scheduling_gates, _ADMISSION_GATE))
    return replace(job.spec, replicas=0)


def _build_admitted_job_spec(outlook: JobOutlook, cluster: Cluster) -> Any:
    """Return the spec of an admitted job, with the node labels and tolerations of its flavors in the pod template.

    If each pod has its own Workload, only the admitted ones become replicas. A Job is resumed with as many parallel
    pods as are admitted. Other workloads keep their number of pods.
    """
    job: Any = outlook.job
    if isinstance(job, Pod):
        return add_expected_flavors(job, outlook, cluster).spec
    template_pod = add_expected_flavors(Pod(spec=job.spec.template.spec), outlook, cluster)
    template = replace(job.spec.template, spec=template_pod.spec)
    if outlook.workload_count > 1:
        return replace(job.spec, template=template, replicas=len(outlook.admitted))
    if isinstance(job, Job):
        return replace(job.spec, template=template, suspend=False, parallelism=_count_admitted_pods(outlook))
    return replace(job.spec, template=template)


def _count_admitted_pods(outlook: JobOutlook) -> int:
    """Return the number of a job's pods that Kueue admits."""
    admissions = (predicted.admission for predicted in outlook.admitted)
    return sum(pod_set.count for admission in admissions if admission for pod_set in admission.pod_sets)


def iter_jobs_without_workload(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the suspended jobs that Kueue manages and that have no Workload."""
    for outlook in _predict_suspended_job_outlooks(cluster, now):
        yield outlook.report


def predict_stored_job_outlook(cluster: Cluster, owner: Owner, now: str) -> JobOutlook | None:
    """Return what Kueue would do with a suspended job that has no Workload. Return None for any other object."""
    return next((outlook for outlook in _predict_suspended_job_outlooks(cluster, now) if outlook.owner == owner), None)


def _predict_suspended_job_outlooks(cluster: Cluster, now: str) -> list[JobOutlook]:
    """Return what Kueue would do with the suspended jobs without a Workload, or [] if the cluster has no queues."""
    return predict_job_outlooks(cluster, _find_suspended_jobs(cluster), now) if has_queues(cluster) else []


def _find_suspended_jobs(cluster: Cluster) -> dict[Owner, Struct]:
    """Return the suspended jobs and the not yet created custom resources that certainly have no Workload.

    A job is left out if it may have a Workload that was not read.
    """
    owners = {find_quota_owner(workload, cluster) for workload in cluster.kueue_workloads}
    jobs: dict[Owner, Struct] = {}
    for job in cluster.jobs:
        if job.spec.suspend and not has_ended(job):
            jobs[Owner("Job", job.metadata.namespace, job.metadata.name)] = job
    for kind in _OPERATED_KINDS:
        for resource in getattr(cluster, kind.field):
            name = resource.resource_kind if isinstance(resource, CustomResource) else kind.kind
            if not resource.has_ended and (resource.suspended or not resource.metadata.uid):
                jobs[Owner(name, resource.metadata.namespace, resource.metadata.name)] = resource
    return {
        owner: job for owner, job in jobs.items() if owner not in owners and not _may_have_unread_workload(job, cluster)
    }


def _may_have_unread_workload(job: Any, cluster: Cluster) -> bool:
    """Return whether a job may have a Workload that was not read."""
    return bool(job.metadata.uid) and cluster.find_gap("KueueWorkload") is not None


def predict_manifest_outlooks(cluster: Cluster, manifests: Iterable[Struct], now: str = "") -> list[JobOutlook]:
    """Return what Kueue would do with the manifests that it manages, if they were all created now.

    Suspended CronJobs are left out, as well as existing objects, because they have a Workload. Return [] if the cluster
    has no queues.
    """
    if not has_queues(cluster):
        return []
    return predict_job_outlooks(cluster, _select_new_jobs(cluster, manifests), now)


def forecast_queues(
    cluster: Cluster, manifests: Iterable[Struct], now: str = "", *, include_waiting: bool = False
) -> QueueForecast:
    """Replay Kueue with new manifests and with the new custom resources of the cluster, as if all were created now.

    Return the outlook and the flavors of each job, the pods that are started because Kueue admits them, and the pods
    that it preempts. With ``include_waiting``, the Workloads and suspended jobs that already wait are also started, and
    the result has a report on each waiting Workload.
    """
    # Replay Kueue with the jobs that have no Workload yet
    jobs = _select_new_jobs(cluster, manifests)
    for owner, job in _find_suspended_jobs(cluster).items():
        is_new_resource = isinstance(job, OperatorResource) and not job.metadata.uid
        if include_waiting or is_new_resource:
            jobs[owner] = job
    replayed = _replay_jobs(cluster, jobs, now)
    admitted = [outlook for job_outlook in replayed.outlooks for outlook in job_outlook.admitted]
    flavors = {outlook.report.resource: outlook.flavors for outlook in replayed.outlooks if outlook.flavors}
    started = list(_iter_pods_of_unreplayed_jobs(cluster, replayed))

    # Add the Workloads that wait already and that Kueue admits
    owners = {format_key(workload): find_quota_owner(workload, cluster) for workload in cluster.kueue_workloads}
    forecasts = _forecast_waiting_workloads(cluster, replayed.queues, now) if include_waiting else []
    for forecast in forecasts:
        if forecast.admitted is not None:
            admitted.append(forecast.admitted)
            flavors[forecast.report.resource] = forecast.flavors
            quota_owner = owners[format_key(forecast.workload)]
            started.append(build_started_pods(cluster, forecast.workload, forecast.admitted, quota_owner))

    return QueueForecast(
        jobs=tuple(replayed.outlooks),
        workloads=tuple(forecast.report for forecast in forecasts),
        flavors=flavors,
        started=tuple(started),
        victims=frozenset(find_victim_pod_keys(cluster, admitted, owners)),
    )


def _iter_pods_of_unreplayed_jobs(cluster: Cluster, replayed: _ReplayedJobs) -> Iterator[StartedPods]:
    """Yield the pods of each admitted Workload of the jobs whose controllers are not replayed."""
    for outlook in replayed.outlooks:
        if isinstance(outlook.job, OperatorResource | StoredJob):
            for workload, workload_outlook in replayed.iter_admitted_workloads(outlook.owner):
                yield build_started_pods(cluster, workload, workload_outlook, outlook.owner)


class _WaitingForecast(NamedTuple):
    """What a replay predicts for a Workload that waits already."""

    workload: KueueWorkload
    report: WaitingElsewhere
    admitted: WorkloadOutlook | None = None
    """The Workload's outlook if Kueue admits the Workload, otherwise None."""
    flavors: str = ""
    """The flavors that an admitted Workload gets."""


def _forecast_waiting_workloads(cluster: Cluster, queues: WaitingQueues | None, now: str) -> list[_WaitingForecast]:
    """Return what a replay predicts for each Workload that waits already.

    ``queues`` are those of a replay with new jobs, or None if there was no such replay.
    """
    waiting = list(filter(is_waiting, cluster.kueue_workloads))
    if not waiting:
        return []
    if queues is None:
        queues = replay_queues(cluster, now)
    forecasts = []
    for workload in waiting:
        report = build_workload_report(workload, queues, now)
        predicted = queues.find_outlook(workload)
        if predicted is None or predicted.admission is None:
            forecasts.append(_WaitingForecast(workload, report))
            continue
        report = replace(report, state=WaitingState.ADMISSIBLE, replayed=True)
        forecasts.append(_WaitingForecast(workload, report, predicted, describe_flavors(predicted.admission)))
    return forecasts


def build_new_workloads(
    cluster: Cluster, manifests: Iterable[Struct], now: str
) -> dict[str, tuple[KueueWorkload, ...]]:
    """Build the Workloads that Kueue would create for manifests and for suspended jobs, by title of the job.

    A job is left out if it has a Workload, if Kueue rejects it, or if its integration is not replayed. Raises
    InputError for a malformed Configuration of Kueue.
    """
    jobs = {**_find_suspended_jobs(cluster), **_select_new_jobs(cluster, manifests)}
    return {str(owner): workloads for owner, workloads in _NewJobs(cluster, jobs, now).workloads.items()}


def _select_new_jobs(cluster: Cluster, manifests: Iterable[Struct]) -> dict[Owner, Struct]:
    """Return the manifests of jobs that the cluster does not have yet, keyed by identity.

    A manifest is left out if the cluster has its object or pods that the object controls, or if it is a suspended
    CronJob.
    """
    new_jobs: dict[Owner, Struct] = {}
    for manifest in manifests:
        owner = get_identity(manifest)
        is_suspended_cron_job = isinstance(manifest, CronJob) and manifest.spec.suspend
        if not is_suspended_cron_job and not _does_object_or_its_pods_exist(owner, cluster):
            new_jobs[owner] = manifest
    return new_jobs


def _does_object_or_its_pods_exist(owner: Owner, cluster: Cluster) -> bool:
    """Return whether the cluster has the object, or pods that it controls."""
    if owner.kind == "Pod":
        return cluster.pod(owner.namespace, owner.name) is not None
    stored = cluster.list_in_namespace(FIELDS[owner.kind], owner.namespace) if owner.kind in FIELDS else ()
    return any(obj.metadata.name == owner.name for obj in stored) or bool(find_pods_of_owner(cluster, owner))


def predict_job_outlooks(cluster: Cluster, jobs: Mapping[Owner, Struct], now: str) -> list[JobOutlook]:
    """Replay Kueue with the Workloads that it would create for the jobs, and return the outlook of each job.

    Jobs that Kueue does not manage are left out.
    """
    return _replay_jobs(cluster, jobs, now).outlooks


class _ReplayedJobs(NamedTuple):
    """The result of a replay with new jobs."""

    outlooks: list[JobOutlook]
    queues: WaitingQueues | None = None
    """None if no job is new, or if the Configuration of Kueue is malformed."""
    workloads: Mapping[Owner, Sequence[KueueWorkload]] = MappingProxyType({})
    """The new Workloads of each job."""

    def iter_admitted_workloads(self, owner: Owner) -> Iterator[tuple[KueueWorkload, WorkloadOutlook]]:
        """Yield the Workloads of a job that get quota, with their outlook."""
        if self.queues is None:
            return
        for workload in self.workloads.get(owner, ()):
            predicted = self.queues.find_outlook(workload)
            if predicted is not None and predicted.admission is not None:
                yield workload, predicted


def _replay_jobs(cluster: Cluster, jobs: Mapping[Owner, Struct], now: str) -> _ReplayedJobs:
    """Replay Kueue with the Workloads that it would create for the jobs.

    The result is empty if Kueue manages none of the jobs. If the Configuration of Kueue is malformed, jobs with a queue
    label get an outlook that says so. ``now`` is the RFC 3339 time of the replay, or empty.
    """
    if not jobs:
        return _ReplayedJobs([])
    try:
        new_jobs = _NewJobs(cluster, jobs, now)
    except InputError as error:
        problem = NotIntegratedError(error.what)
        outlooks = []
        for owner, job in jobs.items():
            queue = find_queue_label(job)
            if queue:
                outlooks.append(_build_problem_outlook(owner, job, queue, problem, now))
        return _ReplayedJobs(outlooks)
    if not new_jobs.queues:
        return _ReplayedJobs([])
    queues = replay_queues(cluster.with_objects({"KueueWorkload": new_jobs.list_workloads()}), now)
    outlooks = [new_jobs.build_outlook(owner, jobs[owner], queues, now) for owner in new_jobs.queues]
    return _ReplayedJobs(outlooks, queues, new_jobs.workloads)


class _NewJobs:
    """Jobs with the Workloads that Kueue would create for them, and jobs for which it would create none."""

    def __init__(self, cluster: Cluster, jobs: Mapping[Owner, Struct], now: str) -> None:
        installation = detect_installation(cluster)
        gates = build_feature_gates(installation.release, object_at(installation.configuration, "featureGates"))
        created = now or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._builder = WorkloadBuilder(PriorityClasses.from_cluster(cluster, gates), gates, created)
        managed_jobs = ManagedJobs(cluster, installation.configuration)
        found_queues = {owner: managed_jobs.find_local_queue_name(owner, job) for owner, job in jobs.items()}
        self.queues = {owner: queue for owner, queue in found_queues.items() if queue is not None}
        """The LocalQueue of each job that Kueue manages."""
        self.workloads: dict[Owner, tuple[KueueWorkload, ...]] = {}
        """The new Workloads of each job."""
        self._problems: dict[Owner, InputError] = {}
        """The error because of which a job gets no Workload."""

        # Build the Workload of each job, and one for each group of pods
        groups: dict[tuple[str, str], dict[Owner, Pod]] = {}
        for owner in self.queues:
            job = jobs[owner]
            if isinstance(job, Pod) and (group := get_group_name(job)):
                groups.setdefault((owner.namespace, group), {})[owner] = job
            else:
                self._record_shared_workloads(
                    [owner], partial(self._builder.build_workloads, owner, job, self.queues[owner])
                )
        for members in groups.values():
            self._record_shared_workloads(list(members), partial(self._build_group, members))

    def _build_group(self, members: Mapping[Owner, Pod]) -> tuple[KueueWorkload, ...]:
        """Build the Workload of a group of pods. Raises InputError if Kueue would not create one."""
        queue = self.queues[next(iter(members))]
        return (build_group_workload(tuple(members.values()), queue, self._builder),)

    def _record_shared_workloads(self, owners: Sequence[Owner], build: Callable[[], tuple[KueueWorkload, ...]]) -> None:
        """Record the Workloads that ``build`` returns for these jobs together.

        If ``build`` raises InputError, record the error as the reason why the jobs have no Workload.
        """
        try:
            workloads = build()
        except InputError as error:
            self._problems |= dict.fromkeys(owners, error)
        else:
            self.workloads |= dict.fromkeys(owners, workloads)

    def list_workloads(self) -> list[KueueWorkload]:
        """Return the new Workloads, each once."""
        by_key = {format_key(workload): workload for of_job in self.workloads.values() for workload in of_job}
        return list(by_key.values())

    def build_outlook(self, owner: Owner, job: Struct, queues: WaitingQueues, now: str) -> JobOutlook:
        """Build the outlook of a job that Kueue manages. ``now`` is the RFC 3339 time for its age, or empty.

        If the job has a problem, the outlook only describes the problem. For a pod in a group, ``pod_set`` is the pod's
        role.
        """
        if owner in self._problems:
            return _build_problem_outlook(owner, job, self.queues[owner], self._problems[owner], now)
        role = compute_role_hash(job.spec) if isinstance(job, Pod) and get_group_name(job) else ""
        return _build_outlook_from_workloads(owner, job, self.workloads[owner], queues, now)._replace(pod_set=role)


def _build_problem_outlook(owner: Owner, job: Any, queue: str, problem: InputError, now: str) -> JobOutlook:
    """Build the outlook of a job without a Workload: Kueue creates none, or the job's integration is not replayed.

    ``queue`` is the LocalQueue that the job names, and ``problem`` the reason. ``now`` is the RFC 3339 time for the
    job's age, or empty.
    """
    is_unknown = isinstance(problem, NotIntegratedError)
    headline = f"waits for {KUEUE}, in LocalQueue {queue}: {problem.what}"
    report = build_waiting_entry(
        owner.kind,
        job.metadata,
        WaitingState.NOT_CHECKED if is_unknown else WaitingState.NOT_ADMITTED,
        headline if is_unknown else f"gets no Workload of {KUEUE}: {problem.what}",
        now=now,
        pods=getattr(job, "expected_pods", None),
        decides=KUEUE,
        conditions=_get_conditions(job),
        replayed=not is_unknown,
    )
    return JobOutlook(owner, job, report)


def _get_conditions(job: Any) -> tuple[Condition, ...]:
    """Return the conditions in the status of a job."""
    holder = job if isinstance(job, OperatorResource) else getattr(job, "status", None)
    conditions: tuple[Condition, ...] = getattr(holder, "conditions", ())
    return conditions


def _build_outlook_from_workloads(
    owner: Owner, job: Struct, workloads: Sequence[KueueWorkload], queues: WaitingQueues, now: str
) -> JobOutlook:
    """Build the outlook of a job from what the replay did with its Workloads.

    The report shows the first Workload that waits or, if none does, the first one. ``now`` is the RFC 3339 time for the
    job's age, or empty.
    """
    admitted, waiting = _split_by_admission(workloads, queues)
    is_admitted = len(admitted) == len(workloads)
    reported_workload = next(iter(waiting or workloads), None)
    reason = _find_job_wait_reason(reported_workload, queues)
    details = [*reason.details]
    if reported_workload is not None:
        details += queues.describe_outlook(reported_workload)

    required_count = len(workloads) or 1  # a job without Workloads needs at least one
    unit = "replicas" if owner.kind == "LeaderWorkerSet" else "pods"
    # An admission that depends on assumptions does not count as replayed
    is_certain = not is_admitted or not queues.assumptions
    report = build_waiting_entry(
        owner.kind,
        job.metadata,  # type: ignore[attr-defined]
        WaitingState.ADMISSIBLE if is_admitted else WaitingState.NOT_ADMITTED,
        _build_job_headline(reason, len(admitted), required_count, unit),
        now=now,
        pods=sum(pod_set.count for workload in workloads for pod_set in workload.spec.pod_sets),
        decides=KUEUE,
        details=details,
        holders=reason.holders,
        conditions=_get_conditions(job),
        replayed=queues.outlook is not None and is_certain,
    )
    return JobOutlook(owner, job, report, admitted=admitted, workload_count=len(workloads), reason=reason.headline)


def _split_by_admission(
    workloads: Sequence[KueueWorkload], queues: WaitingQueues
) -> tuple[tuple[WorkloadOutlook, ...], list[KueueWorkload]]:
    """Return the outlooks of the Workloads that the replay admits, and the Workloads that still wait."""
    admitted_by_key: dict[str, WorkloadOutlook] = {}
    waiting: list[KueueWorkload] = []
    for workload in workloads:
        outlook = queues.find_outlook(workload)
        if outlook is not None and outlook.admission is not None:
            admitted_by_key[format_key(workload)] = outlook
        else:
            waiting.append(workload)
    return tuple(admitted_by_key.values()), waiting


def _find_job_wait_reason(shown: KueueWorkload | None, queues: WaitingQueues) -> WaitReason:
    """Return the reason why a job waits, judged by the Workload that its report shows.

    If Kueue will admit this Workload after preempting others, the reason says so. Otherwise, the reason is what the
    Workload waits for now. `shown` is None for a job without Workloads, which has no pods.
    """
    if shown is None:
        return WaitReason("has no pods, so Kueue admits it at once")
    outlook = queues.find_outlook(shown)
    if outlook is not None and outlook.admission is not None and outlook.victims:
        victims = counted(len(outlook.victims), "Workload")
        queue = outlook.admission.cluster_queue
        return WaitReason(f"will be admitted in ClusterQueue {queue} once Kueue has preempted {victims}")
    return find_wait_reason(shown, queues)


def _build_job_headline(reason: WaitReason, admitted: int, count: int, parts: str) -> str:
    """Build the headline for a job: the reason of one Workload, and how many of several are admitted.

    ``count`` is the job's number of Workloads. ``parts`` says what has a Workload of its own: pods or replicas.
    """
    if count == 1:
        return reason.headline
    headline = f"Kueue admits {admitted:,} of its {count:,} {parts}, each a Workload of its own"
    return f"{headline}; the next {reason.headline}" if admitted < count else headline
