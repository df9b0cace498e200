"""Workloads and groups that wait before kube-scheduler sees their pods: in queues, suspended, or with operators.

Read `entries` for the shape of a report, then `suspended_jobs`, `kueue` and `kueue_jobs`, `volcano` and
`uncreated_pods`, each for one reason to wait. Kueue's modules load its replay, so they are imported only for clusters
with objects of Kueue. Pods that bypass the scheduler by spec.nodeName although a claim waits for it to choose a node
are found here. Upstream: shouldSkip and syncUnboundClaim in pkg/controller/volume/persistentvolume (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kschedctl.api.kinds import is_operated
from kschedctl.api.objects import PersistentVolumeClaim, Pod
from kschedctl.api.ownership import Owner
from kschedctl.cluster import QUEUE_KINDS, Cluster
from kschedctl.replay.edits import select_pods
from kschedctl.replay.unknown import CREATION
from kschedctl.replay.waiting_elsewhere.entries import build_waiting_entry
from kschedctl.replay.waiting_elsewhere.suspended_jobs import KUEUE, has_queues, iter_suspended_jobs
from kschedctl.replay.waiting_elsewhere.uncreated_pods import (
    iter_resources_missing_pods,
    iter_waiting_coscheduling_groups,
    iter_waiting_native_groups,
)
from kschedctl.replay.waiting_elsewhere.volcano import iter_jobs_without_pod_group, iter_waiting_volcano_groups
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.scheduler.plugins.helper.volume_listers import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, get_claim_class

_FINDERS: tuple[Callable[[Cluster, str], Iterator[WaitingElsewhere]], ...] = (
    iter_waiting_volcano_groups,
    iter_jobs_without_pod_group,
    iter_waiting_coscheduling_groups,
    iter_waiting_native_groups,
)


def find_objects_waiting_elsewhere(
    cluster: Cluster, namespace: str | None = None, now: str = ""
) -> tuple[WaitingElsewhere, ...]:
    """Return reports on the objects that wait before kube-scheduler sees their pods, in one namespace or in all.

    Each object is reported once. ``now`` is the current time (RFC 3339), from which ages are computed. If it is empty,
    the reports have no ages.
    """
    entries = list(_iter_waiting_for_kueue(cluster, now))
    for find_entries in _FINDERS:
        entries += find_entries(cluster, now)

    # Jobs and other objects that an entry already covers, such as the entry of their PodGroup
    reported = {workload for entry in entries for workload in entry.part_of}
    entries += iter_bypassing_pods(cluster, now)

    # Suspended Jobs, unless they are reported. Kueue suspends the Jobs that it queues.
    queued = {entry.resource for entry in entries if entry.decides == KUEUE}
    entries += iter_suspended_jobs(cluster, reported | queued, now)

    # Custom resources whose pods are missing, unless they are reported
    reported |= {entry.resource for entry in entries}
    resource_entries = iter_resources_missing_pods(cluster, now)
    entries += [entry for entry in resource_entries if entry.resource not in reported]
    if namespace is None:
        return tuple(entries)
    return tuple(entry for entry in entries if get_namespace(entry) == namespace)


def _iter_waiting_for_kueue(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the Workloads of Kueue and on the jobs that wait for it."""
    if cluster.kueue_workloads:
        from kschedctl.replay.waiting_elsewhere.kueue import iter_waiting_workloads  # noqa: PLC0415 - few clusters

        yield from iter_waiting_workloads(cluster, now)
    if has_queues(cluster):
        from kschedctl.replay.waiting_elsewhere.kueue_jobs import iter_jobs_without_workload  # noqa: PLC0415

        yield from iter_jobs_without_workload(cluster, now)


def find_blockers(cluster: Cluster, workload: Owner, now: str = "") -> tuple[WaitingElsewhere, ...]:
    """Return the waiting objects that keep a workload from having pods: objects in queues, or the workload itself.

    ``now`` is the RFC 3339 time for ages, or empty.
    """
    title = str(workload)
    waiting = find_objects_waiting_elsewhere(cluster, workload.namespace, now)
    return tuple(entry for entry in waiting if title in (entry.resource, *entry.part_of))


def get_namespace(entry: WaitingElsewhere) -> str:
    """Return the namespace of a waiting object."""
    return Owner.parse(entry.resource).namespace


def find_unread_waiting_kinds(cluster: Cluster) -> tuple[UnknownKind, ...]:
    """Return the kinds that could contain waiting objects but could not be read.

    Files and snapshots need not have these kinds, and a cluster without a custom resource definition has no objects of
    its kind. Custom resources of operators do not affect the verdict.
    """
    gaps = ((kind, gap) for kind in QUEUE_KINDS if (gap := cluster.find_gap(kind)) and not gap.is_unrequested)
    return tuple(UnknownKind(kind, gap.why, CREATION if is_operated(kind) else VERDICT) for kind, gap in gaps)


_STARTING = frozenset({"", "Pending"})


def iter_bypassing_pods(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the starting pods with spec.nodeName whose claims wait for kube-scheduler to select a node.

    The scheduler does not see such a pod, and therefore selects no node for its claims. ``now`` is the RFC 3339 time
    for ages, or empty.
    """
    waiting_claims = _find_claims_without_node(cluster)
    if not waiting_claims:
        return
    for pod in select_pods(cluster, _has_claims):
        if not pod.spec.node_name or pod.status.phase not in _STARTING:
            continue
        claims = [waiting_claims[key] for key in _iter_claim_keys(pod) if key in waiting_claims]
        if claims:
            names = ", ".join(f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in claims)
            verb = "waits" if len(claims) == 1 else "wait"
            yield build_waiting_entry(
                "Pod",
                pod.metadata,
                WaitingState.BYPASSES_SCHEDULER,
                f"spec.nodeName {pod.spec.node_name} bypasses the scheduler, but claim {names} {verb} for the "
                "scheduler to choose a node (WaitForFirstConsumer)",
                now=now,
                pods=1,
                decides="whoever sets spec.nodeName",
                exists=True,
            )


def _has_claims(pod: Pod) -> bool:
    """Return whether the pod has volumes with claims."""
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def _find_claims_without_node(cluster: Cluster) -> dict[tuple[str, str], PersistentVolumeClaim]:
    """Return the unbound claims of WaitForFirstConsumer classes without a selected node, by namespace and name."""
    classes = {
        storage_class.metadata.name
        for storage_class in cluster.storage_classes
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    }
    claims = {}
    for claim in cluster.persistent_volume_claims:
        awaits_node = not claim.spec.volume_name and SELECTED_NODE not in claim.metadata.annotations
        if awaits_node and get_claim_class(claim) in classes:
            claims[claim.metadata.namespace, claim.metadata.name] = claim
    return claims


def _iter_claim_keys(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each claim of the pod's volumes."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}"
