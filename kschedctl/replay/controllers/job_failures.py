"""Jobs whose evicted pods count as failed pods, and which fail after too many of them.

Upstream: exceedsBackoffLimit in pkg/controller/job/job_controller.go, matchPodFailurePolicy in
pkg/controller/job/pod_failure_policy.go (v1.36).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from kschedctl.api.objects import Condition, Pod, StoredJob, StoredJobSpec
from kschedctl.api.ownership import find_controller
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import is_recreated
from kschedctl.snapshot.indexes import AnyObject, ClusterObjects

DEFAULT_BACKOFF_LIMIT = 6
JOB_WOULD_FAIL = "their Job allows no more failed pods (backoffLimit)"
IGNORE, FAIL_INDEX, FAIL_JOB = "Ignore", "FailIndex", "FailJob"
"""The actions of a podFailurePolicy. Another one, Count, is the default."""
EVICTED = ("DisruptionTarget", "True")
"""The type and status of the condition that evicted pods have."""
FAILED = Condition("Failed", "True", reason="BackoffLimitExceeded")

JobName = tuple[str, str]
"""The namespace and name of a Job."""


class JobFailures:
    """The Jobs of a cluster, with the evicted pods that their controllers count as failed."""

    def __init__(self, find_job: Callable[[str, str], StoredJob | None]) -> None:
        self._find_job = find_job
        self._evicted_pods: Counter[JobName] = Counter()
        self.failed_jobs: dict[JobName, StoredJob] = {}
        """The Jobs that failed because of an eviction."""

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

    def would_fail_job(self, pod: Pod) -> bool:
        """Return whether a Job controls the pod and has failed, or would fail if the pod were also evicted."""
        name = find_job_name(pod)
        job = self._find_job(*name) if name else None
        if name is None or job is None:
            return False
        failed = (job.status.failed or 0) + self._evicted_pods[name]
        return name in self.failed_jobs or failed >= _get_max_failed_pods(job.spec)

    def record_eviction(self, pod: Pod) -> bool:
        """Count an evicted pod as failed if a Job controls it. Return whether a controller recreates the pod."""
        if not is_recreated(pod):
            return False
        name = find_job_name(pod)
        job = self._find_job(*name) if name else None
        if name is None or job is None:
            return True
        action = _get_action_for_evicted_pods(job.spec)
        if action == IGNORE:
            return True
        if self.would_fail_job(pod):
            self.failed_jobs[name] = job
            return False
        if action == FAIL_INDEX or job.spec.backoff_limit_per_index == 0:
            return False
        self._evicted_pods[name] += 1
        return True

    def undo_eviction(self, pod: Pod) -> None:
        """Take back the record of an eviction after which the pod was recreated."""
        name = find_job_name(pod)
        if name is not None and self._evicted_pods[name] > 0:
            self._evicted_pods[name] -= 1

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

    def list_changed_jobs(self) -> list[StoredJob]:
        """Return the Jobs as their controllers update them: with more failed pods, and with a condition if they failed.

        Failed Jobs come last.
        """
        changed_jobs = []
        for name in {**self._evicted_pods, **self.failed_jobs}:
            job = self._find_job(*name)
            if job is None:
                continue
            status = replace(job.status, failed=(job.status.failed or 0) + self._evicted_pods[name])
            if name in self.failed_jobs:
                status = replace(status, failed=(status.failed or 0) + 1, conditions=(*status.conditions, FAILED))
            changed_jobs.append(replace(job, status=status))
        return changed_jobs


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


def _get_max_failed_pods(spec: StoredJobSpec) -> float:
    """Return the number of evicted pods that a Job accepts: its backoffLimit, unless its policy says otherwise."""
    action = _get_action_for_evicted_pods(spec)
    if action == FAIL_JOB:
        return 0
    if action in (IGNORE, FAIL_INDEX):
        return math.inf
    if spec.backoff_limit is not None:
        return spec.backoff_limit
    # With a limit for each index, the API server sets the limit of the Job to the largest integer
    return DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else math.inf


def _get_action_for_evicted_pods(spec: StoredJobSpec) -> str:
    """Return the action of the first rule of the podFailurePolicy that matches evicted pods, or "" if none does."""
    for rule in spec.pod_failure_policy.rules if spec.pod_failure_policy else ():
        if any((condition.type, condition.status) == EVICTED for condition in rule.on_pod_conditions):
            return rule.action
    return ""
