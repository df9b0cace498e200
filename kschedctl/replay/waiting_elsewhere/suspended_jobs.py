"""Suspended Jobs, and Jobs that Kueue may have suspended.

Upstream: pkg/controller/job/job_controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kschedctl.api.events import JOB_ENDED
from kschedctl.api.objects import StoredJob
from kschedctl.api.queueing import QUEUE_LABEL
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import build_waiting_entry, is_condition_true
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState

KUEUE = "Kueue"


def has_queues(cluster: Cluster) -> bool:
    """Return whether the cluster has queues of Kueue. Without them, the queue label of a job has no effect."""
    return bool(cluster.local_queues or cluster.cluster_queues)


def is_queued(job: StoredJob) -> bool:
    """Return whether a Job names a LocalQueue of Kueue."""
    return QUEUE_LABEL in job.metadata.labels


def iter_suspended_jobs(cluster: Cluster, reported: Collection[str], now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the suspended Jobs that are not in ``reported``, a set of titles such as ``Job shop/web``.

    Jobs that have ended are left out. ``now`` is the RFC 3339 time for ages, or empty.
    """
    for job in cluster.jobs:
        meta = job.metadata
        if not job.spec.suspend or f"Job {meta.namespace}/{meta.name}" in reported or has_ended(job):
            continue
        queue = meta.labels.get(QUEUE_LABEL, "")
        headline = f"waits for {KUEUE}, in LocalQueue {queue}: it is suspended" if queue else "is suspended"
        yield build_waiting_entry(
            "Job",
            meta,
            WaitingState.NOT_ADMITTED if is_queued(job) else WaitingState.SUSPENDED,
            headline,
            now=now,
            pods=_count_parallel_pods(job),
            decides=KUEUE if queue else "whoever sets spec.suspend",
            conditions=job.status.conditions,
            details=_explain_missing_workload(cluster, queue),
        )


def _explain_missing_workload(cluster: Cluster, queue: str) -> Iterator[str]:
    """Yield a sentence if the Job's reason to wait is unknown, because it names a queue and Workloads were not read."""
    gap = cluster.find_gap("KueueWorkload") if queue else None
    if gap is not None:
        yield f"Its Workload says what it waits for, but Workloads of {KUEUE} {gap.why}"


def has_ended(job: StoredJob) -> bool:
    """Return whether the Job has completed or failed."""
    return any(is_condition_true(job.status.conditions, type_) for type_ in JOB_ENDED)


def _count_parallel_pods(job: StoredJob) -> int:
    """Return how many pods run at the same time after the Job is resumed."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    return parallelism if job.spec.completions is None else min(parallelism, job.spec.completions)
