"""Workloads and groups that wait before kube-scheduler sees a pod of them: in queues, suspended, with operators.

Read `entries` for how one is reported, then `kueue`, `volcano`, `gangs`, `operators` and `bypassing_pods`, each for one
reason to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kschedctl.api.kinds import is_operated
from kschedctl.api.ownership import Owner
from kschedctl.cluster import ELSEWHERE, NOT_ASKED_FOR, Cluster
from kschedctl.replay.unknown import CREATION
from kschedctl.replay.waiting_elsewhere.bypassing_pods import bypassing_pods
from kschedctl.replay.waiting_elsewhere.gangs import waiting_coscheduling_groups, waiting_native_groups
from kschedctl.replay.waiting_elsewhere.kueue import suspended_jobs, waiting_workloads
from kschedctl.replay.waiting_elsewhere.operators import resources_without_pods
from kschedctl.replay.waiting_elsewhere.volcano import waiting_jobs_without_group, waiting_pod_groups
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere

_FINDERS: tuple[Callable[[Cluster, str], Iterator[WaitingElsewhere]], ...] = (
    waiting_workloads,
    waiting_pod_groups,
    waiting_jobs_without_group,
    waiting_coscheduling_groups,
    waiting_native_groups,
)


def find_waiting_elsewhere(
    cluster: Cluster, namespace: str | None = None, now: str = ""
) -> tuple[WaitingElsewhere, ...]:
    """Return what waits before kube-scheduler sees a pod of it; ``namespace``: None for all.

    ``now``: the RFC 3339 time at which ages are taken, empty for none.
    """
    entries = [entry for finder in _FINDERS for entry in finder(cluster, now)]
    told = {workload for entry in entries for workload in entry.part_of}
    entries += bypassing_pods(cluster, now)
    entries += suspended_jobs(cluster, told, now)
    told |= {entry.resource for entry in entries}
    entries += (entry for entry in resources_without_pods(cluster, now) if entry.resource not in told)
    return tuple(entry for entry in entries if namespace in (None, namespace_of(entry)))


def find_holding_back(cluster: Cluster, workload: Owner, now: str = "") -> tuple[WaitingElsewhere, ...]:
    """Return what keeps a workload from having pods: what waits in its stead, or the workload where it is suspended."""
    title = str(workload)
    waiting = find_waiting_elsewhere(cluster, workload.namespace, now)
    return tuple(entry for entry in waiting if title in (entry.resource, *entry.part_of))


def namespace_of(entry: WaitingElsewhere) -> str:
    """Return the namespace of what waits."""
    return entry.resource.partition(" ")[2].partition("/")[0]


def unread_elsewhere(cluster: Cluster) -> tuple[UnknownKind, ...]:
    """Return the kinds that should have told what waits elsewhere, and that could not be read.

    Files and snapshots need not hold these kinds, and a cluster without a custom resource definition has none. Custom
    resources of operators leave the verdict as it is.
    """
    gaps = ((kind, gap) for kind in ELSEWHERE if (gap := cluster.gap(kind)) and not gap.why.startswith(NOT_ASKED_FOR))
    return tuple(UnknownKind(kind, gap.why, CREATION if is_operated(kind) else VERDICT) for kind, gap in gaps)
