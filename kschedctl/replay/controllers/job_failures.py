"""Jobs whose evicted pods count as failed pods, and which fail after too many of them.

Upstream: syncJob in pkg/controller/job/job_controller.go, matchPodFailurePolicy in pod_failure_policy.go, and
calculateFailedIndexes in indexed_job_utils.go beside it (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kschedctl.api.objects import Condition, Pod, StoredJob, StoredJobSpec
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import is_recreated
from kschedctl.reports.placements import FailedJob, JobFailureReason
from kschedctl.snapshot.indexes import AnyObject, ClusterObjects

DEFAULT_BACKOFF_LIMIT = 6
JOB_WOULD_FAIL = "their Job allows no more failed pods"
IGNORE, FAIL_INDEX, FAIL_JOB = "Ignore", "FailIndex", "FailJob"
"""The actions of a podFailurePolicy. Another one, Count, is the default."""
EVICTED = ("DisruptionTarget", "True")
"""The type and status of the condition that evicted pods have."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The label with the index of a pod of an Indexed Job."""

JobName = tuple[str, str]
"""The namespace and name of a Job."""


class JobFailures:
    """The Jobs of a cluster, with the evicted pods that their controllers count as failed."""

    def __init__(self, find_job: Callable[[str, str], StoredJob | None]) -> None:
        self._find_job = find_job
        self._evicted_pods: Counter[JobName] = Counter()
        self._evictions_of_pod: Counter[str] = Counter()
        """The number of recorded evictions after which a pod was recreated, by key."""
        self._lost_pods: set[str] = set()
        """The evicted pods that are not recreated, by key."""
        self._failed_indexes: dict[JobName, dict[str, None]] = {}
        """The indexes that failed because of an eviction, in order, for each Job with a limit per index."""
        self.failed_jobs: dict[JobName, JobFailureReason] = {}
        """The Jobs that failed because of an eviction, with the reasons."""

    @classmethod
    def of(cls, objects: ClusterObjects) -> JobFailures:
        """Return the JobFailures that belong to a simulation's objects. The first call creates them."""
        return objects.get_derived_value("job failures", lambda: cls(lambda *name: objects.find("Job", *name)))

    @classmethod
    def of_cluster(cls, cluster: Cluster) -> JobFailures:
        """Return new JobFailures for the Jobs of a cluster."""
        jobs = {(job.metadata.namespace, job.metadata.name): job for job in cluster.jobs}
        return cls(lambda *name: jobs.get(name))

    def replace_object(self, obj: AnyObject) -> None:
        """Do nothing, since Jobs are not replaced while a simulation runs."""

    def would_fail_job_or_index(self, pod: Pod) -> bool:
        """Return whether the pod's Job or its index would fail if the pod was evicted, so that no pod replaces it.

        Also return True if the Job has already failed. Return False if no Job controls the pod.
        """
        name = find_job_name(pod)
        job = self._find_job(*name) if name else None
        if name is None or job is None:
            return False
        is_failing = name in self.failed_jobs or self._predict_failure(name, job, pod) is not None
        return is_failing or self._would_fail_index(job, pod)

    def record_eviction(self, pod: Pod) -> bool:
        """Record the eviction of a pod, and return whether a controller recreates the pod.

        A Job's pod counts as failed unless the Job's podFailurePolicy ignores evicted pods. If this makes the Job or
        the pod's index fail, the failure is recorded, and the pod is not recreated. Further evictions from a failed
        Job, or of a pod of a failed index, change nothing.
        """
        if not is_recreated(pod):
            return False
        name = find_job_name(pod)
        job = self._find_job(*name) if name else None
        if name is None or job is None:
            return True
        if name in self.failed_jobs or pod.key in self._lost_pods:
            return False
        if _get_action_for_evicted_pods(job.spec) == IGNORE:
            return True

        reason = self._predict_failure(name, job, pod)
        fails_index = self._would_fail_index(job, pod)
        self._evicted_pods[name] += 1
        if fails_index:
            self._failed_indexes.setdefault(name, {})[_get_index(pod)] = None
        if reason is not None:
            self.failed_jobs[name] = reason
        if reason is not None or fails_index:
            self._lost_pods.add(pod.key)
            return False
        self._evictions_of_pod[pod.key] += 1
        return True

    def _predict_failure(self, name: JobName, job: StoredJob, pod: Pod) -> JobFailureReason | None:
        """Return the reason for which the Job would fail if the pod was evicted, or None if it would not fail."""
        spec, status = job.spec, job.status
        action = _get_action_for_evicted_pods(spec)
        if action == FAIL_JOB:
            return JobFailureReason.POD_FAILURE_POLICY
        max_failed_pods = _get_backoff_limit(spec)
        accepts_more = max_failed_pods is None or (status.failed or 0) + self._evicted_pods[name] < max_failed_pods
        if action != IGNORE and not accepts_more:
            return JobFailureReason.BACKOFF_LIMIT_EXCEEDED
        if not self._would_fail_index(job, pod):
            return None

        # Only Indexed Jobs have a limit per index, and these have a number of completions
        new_indexes = {*self._failed_indexes.get(name, ()), _get_index(pod)}
        failed = _count_indexes(status.failed_indexes) + len(new_indexes)
        if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
            return JobFailureReason.MAX_FAILED_INDEXES_EXCEEDED
        if spec.completions is not None and failed + (status.succeeded or 0) >= spec.completions:
            return JobFailureReason.FAILED_INDEXES
        return None

    def _would_fail_index(self, job: StoredJob, pod: Pod) -> bool:
        """Return whether the pod's index would fail if the pod was evicted, so that the Job would not retry it."""
        limit = job.spec.backoff_limit_per_index
        action = _get_action_for_evicted_pods(job.spec)
        if limit is None or action in (IGNORE, FAIL_JOB):
            return False
        failures = pod.metadata.annotations.job_index_failure_count
        earlier_failures = int(failures) if failures.isdecimal() else 0
        return action == FAIL_INDEX or earlier_failures + self._evictions_of_pod[pod.key] >= limit

    def undo_eviction(self, pod: Pod) -> None:
        """Take back the record of an eviction after which the pod was recreated."""
        name = find_job_name(pod)
        if name is not None and self._evicted_pods[name] > 0:
            self._evicted_pods[name] -= 1
            self._evictions_of_pod[pod.key] -= 1

    def list_pods_of_failed_jobs(self, cluster: Cluster) -> list[Pod]:
        """Return the pods of a cluster that end because an eviction made their Job fail, or [] if no Job failed."""
        if not self.failed_jobs:
            return []
        namespaces = dict.fromkeys(namespace for namespace, _ in self.failed_jobs)
        pods = (pod for namespace in namespaces for pod in cluster.list_in_namespace("pods", namespace))
        return [pod for pod in pods if not pod.terminated and self.is_of_failed_job(pod)]

    def is_of_failed_job(self, pod: Pod) -> bool:
        """Return whether an eviction made the pod's Job fail, which ends all its pods."""
        return bool(self.failed_jobs) and find_job_name(pod) in self.failed_jobs

    def report_failed_jobs(self, cluster: Cluster) -> tuple[FailedJob, ...]:
        """Report the Jobs that failed because of evictions, with their pods in the cluster, which end with them."""
        pods_by_job: dict[JobName, list[Pod]] = {}
        for pod in self.list_pods_of_failed_jobs(cluster):
            name = find_job_name(pod)
            assert name is not None
            pods_by_job.setdefault(name, []).append(pod)
        return tuple(
            FailedJob(str(find_owner(pods[0])), tuple(pod.key for pod in pods), self.failed_jobs[name])
            for name, pods in pods_by_job.items()
        )

    def list_changed_jobs(self) -> list[StoredJob]:
        """Return the Jobs that evictions changed, as their controllers update them.

        These Jobs have more failed pods and failed indexes, and a condition Failed if they failed. The order is that of
        the first evictions from each Job.
        """
        changed_jobs = []
        for name in {**self._evicted_pods, **self.failed_jobs}:
            job = self._find_job(*name)
            if job is None:
                continue
            status = replace(job.status, failed=(job.status.failed or 0) + self._evicted_pods[name])
            if name in self._failed_indexes:
                failed_indexes = filter(None, (status.failed_indexes, *self._failed_indexes[name]))
                status = replace(status, failed_indexes=",".join(failed_indexes))
            if name in self.failed_jobs:
                failed = Condition("Failed", "True", reason=self.failed_jobs[name])
                status = replace(status, conditions=(*status.conditions, failed))
            changed_jobs.append(replace(job, status=status))
        return changed_jobs


def find_jobs_failed_by_evictions(cluster: Cluster, evicted_pods: Iterable[Pod]) -> tuple[FailedJob, ...]:
    """Return the Jobs that fail if these pods are evicted, with the pods that end with them."""
    pods_of_jobs = [pod for pod in evicted_pods if find_job_name(pod)]
    if not pods_of_jobs:
        return ()
    job_failures = JobFailures.of_cluster(cluster)
    for pod in pods_of_jobs:
        if pod.metadata.deletion_timestamp is None:
            job_failures.record_eviction(pod)
    return job_failures.report_failed_jobs(cluster)


def find_job_name(pod: Pod) -> JobName | None:
    """Return the name of the Job that controls the pod, or None if none does."""
    controller = find_controller(pod.metadata)
    if controller is None or controller.kind != "Job":
        return None
    return pod.metadata.namespace, controller.name


def find_failed_jobs(cluster: Cluster) -> frozenset[JobName]:
    """Return the names of the Jobs that have failed."""
    return frozenset(
        (job.metadata.namespace, job.metadata.name)
        for job in cluster.jobs
        if any((condition.type, condition.status) == ("Failed", "True") for condition in job.status.conditions)
    )


def _get_backoff_limit(spec: StoredJobSpec) -> int | None:
    """Return the number of failed pods that a Job accepts, or None if only the failures of each index are limited."""
    if spec.backoff_limit is not None:
        return spec.backoff_limit
    # With a limit for each index, the API server sets the limit of the Job to the largest integer
    return DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else None


def _get_index(pod: Pod) -> str:
    """Return the pod's index in its Job, or the pod's name if the pod has no label with it."""
    return pod.metadata.labels.get(COMPLETION_INDEX, pod.metadata.name)


def _count_indexes(intervals: str) -> int:
    """Return the number of indexes in intervals as the Job controller writes them.

    >>> _count_indexes(""), _count_indexes("1,3-5,7")
    (0, 5)
    """
    count = 0
    for interval in filter(None, intervals.split(",")):
        first, _, last = interval.partition("-")
        is_range = first.isdecimal() and last.isdecimal()
        count += int(last) - int(first) + 1 if is_range else 1
    return count


def _get_action_for_evicted_pods(spec: StoredJobSpec) -> str:
    """Return the action of the first rule of the podFailurePolicy that matches evicted pods, or "" if none does."""
    for rule in spec.pod_failure_policy.rules if spec.pod_failure_policy else ():
        if any((condition.type, condition.status) == EVICTED for condition in rule.on_pod_conditions):
            return rule.action
    return ""
