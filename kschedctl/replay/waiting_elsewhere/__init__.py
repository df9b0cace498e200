"""Workloads and groups that wait before kube-scheduler sees their pods: in queues, suspended, or with operators.

Read `entries` for the shape of a report, then `suspended_jobs`, `kueue` and `kueue_jobs`, `volcano`,
`uncreated_pods` and `bypassing_pods`, each for one reason to wait. Kueue's modules load its replay, so they are
imported only for clusters with objects of Kueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kschedctl.api.kinds import is_operated
from kschedctl.api.ownership import Owner
from kschedctl.cluster import QUEUE_KINDS, Cluster
from kschedctl.replay.unknown import CREATION
from kschedctl.replay.waiting_elsewhere.bypassing_pods import iter_bypassing_pods
from kschedctl.replay.waiting_elsewhere.suspended_jobs import KUEUE, has_queues, iter_suspended_jobs
from kschedctl.replay.waiting_elsewhere.uncreated_pods import (
    iter_resources_without_pods,
    iter_waiting_coscheduling_groups,
    iter_waiting_native_groups,
)
from kschedctl.replay.waiting_elsewhere.volcano import iter_jobs_without_group, iter_waiting_volcano_groups
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere

_FINDERS: tuple[Callable[[Cluster, str], Iterator[WaitingElsewhere]], ...] = (
    iter_waiting_volcano_groups,
    iter_jobs_without_group,
    iter_waiting_coscheduling_groups,
    iter_waiting_native_groups,
)


def find_waiting_elsewhere(
    cluster: Cluster, namespace: str | None = None, now: str = ""
) -> tuple[WaitingElsewhere, ...]:
    """Return reports on the objects that wait before kube-scheduler sees their pods, in one namespace or in all.

    ``now`` is the RFC 3339 time for ages, or empty.
    """
    entries = list(_iter_waiting_for_kueue(cluster, now))
    entries += (entry for finder in _FINDERS for entry in finder(cluster, now))

    # Jobs and other objects that an entry already covers, such as the entry of their PodGroup
    reported = {workload for entry in entries for workload in entry.part_of}
    entries += iter_bypassing_pods(cluster, now)

    # Suspended Jobs, unless they are reported. Kueue suspends the Jobs that it queues.
    queued = {entry.resource for entry in entries if entry.decides == KUEUE}
    entries += iter_suspended_jobs(cluster, reported | queued, now)

    # Custom resources whose pods are missing, unless they are reported
    reported |= {entry.resource for entry in entries}
    entries += (entry for entry in iter_resources_without_pods(cluster, now) if entry.resource not in reported)
    return tuple(entry for entry in entries if namespace in (None, get_namespace(entry)))


def _iter_waiting_for_kueue(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the Workloads of Kueue and on the jobs that wait for it."""
    if cluster.kueue_workloads:
        from kschedctl.replay.waiting_elsewhere.kueue import iter_waiting_workloads  # noqa: PLC0415 - few clusters

        yield from iter_waiting_workloads(cluster, now)
    if has_queues(cluster):
        from kschedctl.replay.waiting_elsewhere.kueue_jobs import iter_jobs_without_workload  # noqa: PLC0415

        yield from iter_jobs_without_workload(cluster, now)


def find_blockers(cluster: Cluster, workload: Owner, now: str = "") -> tuple[WaitingElsewhere, ...]:
    """Return the waiting objects that keep a workload from having pods: objects in queues, or the workload itself."""
    title = str(workload)
    waiting = find_waiting_elsewhere(cluster, workload.namespace, now)
    return tuple(entry for entry in waiting if title in (entry.resource, *entry.part_of))


def get_namespace(entry: WaitingElsewhere) -> str:
    """Return the namespace of a waiting object."""
    return entry.resource.partition(" ")[2].partition("/")[0]


def find_unread_waiting_kinds(cluster: Cluster) -> tuple[UnknownKind, ...]:
    """Return the kinds that could contain waiting objects but could not be read.

    Files and snapshots need not have these kinds, and a cluster without a custom resource definition has no objects of
    its kind. Custom resources of operators do not affect the verdict.
    """
    gaps = ((kind, gap) for kind in QUEUE_KINDS if (gap := cluster.find_gap(kind)) and not gap.is_unrequested)
    return tuple(UnknownKind(kind, gap.why, CREATION if is_operated(kind) else VERDICT) for kind, gap in gaps)
