"""Jobs with ``suspend: true``, which have no pods until somebody resumes them.

Upstream: pkg/controller/job/job_controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kschedctl.api.objects import StoredJob
from kschedctl.api.observed.failed_creation import JOB_ENDED
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import entry, holds
from kschedctl.replay.waiting_elsewhere.kueue import KUEUE, QUEUE_LABEL, is_queued
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState


def suspended_jobs(cluster: Cluster, told: Collection[str], now: str) -> Iterator[WaitingElsewhere]:
    """Yield the suspended Jobs, less those that are ``told`` already (``Job shop/web``) by what holds them."""
    for job in cluster.jobs:
        meta = job.metadata
        if not job.spec.suspend or f"Job {meta.namespace}/{meta.name}" in told or _has_ended(job):
            continue
        queue = meta.labels.get(QUEUE_LABEL, "")
        headline = f"waits for {KUEUE}, in LocalQueue {queue}: it is suspended" if queue else "is suspended"
        yield entry(
            "Job",
            meta,
            WaitingState.NOT_ADMITTED if is_queued(job) else WaitingState.SUSPENDED,
            headline,
            now=now,
            pods=_pods_at_once(job),
            decides=KUEUE if queue else "whoever sets spec.suspend",
            conditions=job.status.conditions,
            details=_details(cluster, queue),
        )


def _details(cluster: Cluster, queue: str) -> Iterator[str]:
    gap = cluster.gap("KueueWorkload") if queue else None
    if gap is not None:
        yield f"What it waits for would be told by its Workload, but Workloads of {KUEUE} {gap.why}"


def _has_ended(job: StoredJob) -> bool:
    return any(holds(job.status.conditions, type_) for type_ in JOB_ENDED)


def _pods_at_once(job: StoredJob) -> int:
    """Return how many pods run side by side once the Job is resumed."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    return parallelism if job.spec.completions is None else min(parallelism, job.spec.completions)
