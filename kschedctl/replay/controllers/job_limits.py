"""Whether a Job fails for good when one more of its pods does, as one that is evicted.

Upstream: exceedsBackoffLimit of syncJob in pkg/controller/job/job_controller.go (v1.36). What its podFailurePolicy
ignores is not read: such a Job counts as failing.
"""

from __future__ import annotations

from kschedctl.api.objects import Pod, StoredJob
from kschedctl.api.ownership import find_controller
from kschedctl.snapshot.indexes import ClusterObjects

DEFAULT_BACKOFF_LIMIT = 6
JOB_WOULD_FAIL = "their Job allows no more failed pods (backoffLimit)"


def is_of_job(pod: Pod) -> bool:
    owner = find_controller(pod.metadata)
    return owner is not None and owner.kind == "Job"


def job_would_fail(pod: Pod, objects: ClusterObjects) -> bool:
    """Whether the pod's Job ends with its eviction; not, where there is no such Job."""
    owner = find_controller(pod.metadata)
    if owner is None or owner.kind != "Job":
        return False
    job: StoredJob | None = objects.named("Job", pod.metadata.namespace, owner.name)
    if job is None:
        return False
    limit = DEFAULT_BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    return (job.status.failed or 0) >= limit
