"""Comparison of a cluster before and after changes: where each pod ends up, and how full each zone is."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Set
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif.report import DomainBalance, MessageChange, PodChange
from kschedctl.replay.controllers.job_failures import JobFailures, JobName, find_failed_jobs, find_job_name
from kschedctl.replay.edits import is_recreated
from kschedctl.replay.settling import SettledCluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.nodes import ZONE

CausesByPod = Mapping[str, tuple[str, ...]]
"""Pod -> the causes of its changed outcome, if they were searched."""
PodOutcome = tuple[str, str] | bool
"""The node of a pod with the message if the node is empty, or only whether the pod has a node."""


def iter_pod_changes(
    before: SettledCluster, after: SettledCluster, objects_before: ClusterObjects, recreated: Collection[str]
) -> Iterator[PodChange]:
    """Yield a change for each pod that was created, moved to another node, restarted, waits now, or is gone.

    The changes are in order of the pods' keys. `objects_before` are the objects of the earlier cluster. Its Jobs tell
    which pods are not recreated. The pods in `recreated` count as restarted if they have the same node as before.
    """
    job_failures = JobFailures.of(objects_before)
    newly_failed_jobs = find_failed_jobs(after.cluster) - find_failed_jobs(before.cluster)
    old_nodes, new_nodes = _map_pods_to_nodes(before.cluster), _map_pods_to_nodes(after.cluster)
    for key in sorted(old_nodes.keys() | new_nodes.keys()):
        source, target = old_nodes.get(key), new_nodes.get(key)
        change = _classify_change(source, target)
        if source and source == target and key in recreated:
            change = "Restarted"
        if change:
            namespace, _, name = key.partition("/")
            pod = after.cluster.pods.find(namespace, name) or before.cluster.pods.find(namespace, name)
            assert pod is not None
            is_lost = change == "Gone" and _is_pod_lost(pod, job_failures, newly_failed_jobs)
            yield PodChange(
                key,
                str(find_owner(pod)),
                change=change,
                before=source or "",
                after=target or "",
                message="" if target else after.waiting.get(key, ""),
                lost=is_lost,
                ends_with_job=is_lost and find_job_name(pod) in newly_failed_jobs,
            )


def _is_pod_lost(pod: Pod, job_failures: JobFailures, newly_failed_jobs: Set[JobName]) -> bool:
    """Return whether a pod that has disappeared is lost for good.

    A pod is lost if no controller recreates it, or if its Job or its index of the Job fails. Pods that had ended or
    were being deleted anyway are not lost, nor are static pods, which belong to their nodes.
    """
    is_static = find_owner(pod).kind == "Node"
    if pod.terminated or pod.metadata.deletion_timestamp is not None or is_static:
        return False
    if not is_recreated(pod) or find_job_name(pod) in newly_failed_jobs:
        return True
    return job_failures.would_fail_job_or_index(pod)


def find_changed_messages(before: SettledCluster, after: SettledCluster) -> dict[str, tuple[str, str]]:
    """Return the old and new message, by pod key, of each pod that waits both before and after, if they differ."""
    changed_messages = {}
    for pod, old_message in sorted(before.waiting.items()):
        new_message = after.waiting.get(pod, old_message)
        if new_message != old_message:
            changed_messages[pod] = (old_message, new_message)
    return changed_messages


def group_message_changes(
    messages: Mapping[str, tuple[str, str]], causes_by_pod: CausesByPod
) -> Iterator[MessageChange]:
    """Yield a message change for all pods with the same old message, new message and causes, the largest group first.

    `messages` maps pods to their old and new messages.
    """
    pods_by_change: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for pod, (old_message, new_message) in messages.items():
        change = old_message, new_message, causes_by_pod.get(pod, ())
        pods_by_change.setdefault(change, []).append(pod)
    message_changes = [
        MessageChange(before=old_message, after=new_message, pods=tuple(pods), because=causes)
        for (old_message, new_message, causes), pods in pods_by_change.items()
    ]
    yield from sorted(message_changes, key=lambda change: -len(change.pods))


def collect_outcomes(settled: SettledCluster, compared_by_verdict: Container[str] = ()) -> dict[str, PodOutcome]:
    """Map the key of each pod to its outcome: its node, and the scheduler's message if it has no node.

    For the pods in `compared_by_verdict`, the outcome is only whether they have a node.
    """
    outcomes: dict[str, PodOutcome] = {}
    for pod, node in _map_pods_to_nodes(settled.cluster).items():
        message = "" if node else settled.waiting.get(pod, "")
        outcomes[pod] = bool(node) if pod in compared_by_verdict else (node, message)
    return outcomes


def _classify_change(source: str | None, target: str | None) -> str:
    """Return the kind of change from node `source` to node `target`, or "" if they are equal.

    An empty node means that the pod waits, and None that the pod does not exist.
    """
    if source == target:
        return ""
    if source is None:
        return "Created" if target else "NewlyPending"
    if target is None:
        return "Gone"
    if source and target:
        return "Moved"
    return "NewlyPending" if source else "NewlyScheduled"


def _map_pods_to_nodes(cluster: Cluster) -> dict[str, str]:
    """Map the key of each pod to the name of its node, which is empty for a waiting pod."""
    return dict(zip(cluster.pods.keys(), cluster.pods.node.texts(), strict=True))


def compare_zones(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Yield the nodes, pods and requested shares of each zone before and after, sorted by zone."""
    old_view, new_view = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*old_view.nodes.label(ZONE).values, *new_view.nodes.label(ZONE).values}):
        old, new = _compute_zone_totals(old_view, zone), _compute_zone_totals(new_view, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, nodes=(old.nodes, new.nodes), pods=(old.pods, new.pods), requested=requested)


class _ZoneTotals(NamedTuple):
    """The nodes and pods of a zone."""

    nodes: int
    pods: int
    requested: dict[str, float]
    """Resource -> its requested share in percent."""


def _compute_zone_totals(view: Fork, zone: str) -> _ZoneTotals:
    """Count the nodes and pods of a zone, and compute the requested shares of CPU and memory.

    All numbers are 0 if the cluster has no such zone.
    """
    column = view.nodes.label(ZONE)
    if zone in column.values:
        is_in_zone = column.codes == column.values.index(zone)
    else:
        is_in_zone = np.zeros(len(view.nodes), np.bool_)
    nodes_of_bound_pods = view.node[view.mask_placed()]
    return _ZoneTotals(
        nodes=int(is_in_zone.sum()),
        pods=int(is_in_zone[nodes_of_bound_pods].sum()),
        requested={name: _compute_requested_share(view, is_in_zone, name) for name in (CPU, MEMORY)},
    )


def _compute_requested_share(view: Fork, in_zone: Bools, resource: str) -> float:
    """Compute how much of a resource that the nodes in the mask (N,) offer is requested, in percent.

    The share is 0 if the nodes offer nothing.
    """
    column = view.resources[resource]
    offered = int(view.allocatable[in_zone, column].sum())
    if not offered:
        return 0.0
    return round(100 * int(view.requested[in_zone, column].sum()) / offered, 1)
