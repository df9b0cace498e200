"""Traces of wrong placements: rejected pods, pods on missing nodes, shared devices and overcommitted nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row, Rows
from kschedctl.api.events import is_kubelet_rejection
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_controller
from kschedctl.api.pod_table import PodTable
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.placed.report import Arrival, OrphanedPods, OvercommittedNode, RefusedPods, SharedDevice
from kschedctl.errors import InputError
from kschedctl.scheduler.plugins.node_resources.fit import find_deferred_resizes
from kschedctl.snapshot.fork import Fork

MAX_EXAMPLES = 6
"""The number of examples that are listed."""


def iter_rejected_pods_by_reason(cluster: Cluster) -> Iterator[RefusedPods]:
    """Yield the pods that kubelets rejected, grouped by reason, most frequent first.

    The counts include deleted pods that are known only from events.
    """
    table = cluster.pods
    rows_by_reason: dict[str, list[int]] = {}
    for row in table.find_rows(_is_rejected_by_kubelet).tolist():
        reason = table.get_template(row).status.reason
        rows_by_reason.setdefault(reason, []).append(row)
    deleted_counts = _count_deleted_rejected_pods(cluster)
    groups = (
        _build_rejected_pods_report(table, reason, rows_by_reason.get(reason, []), deleted_counts[reason])
        for reason in dict.fromkeys((*rows_by_reason, *deleted_counts))
    )
    yield from sorted(groups, key=lambda group: (-group.pods - group.gone, group.reason))


def _is_rejected_by_kubelet(template: Pod) -> bool:
    """Return whether the pods of a template failed because a kubelet rejected them."""
    return template.status.phase == "Failed" and is_kubelet_rejection(template.status.reason)


def _count_deleted_rejected_pods(cluster: Cluster) -> Counter[str]:
    """Return how many rejected pods no longer exist, by reason, from their events."""
    rejections = {
        (event.reason, event.involved_object.namespace, event.involved_object.name)
        for event in cluster.events
        if is_kubelet_rejection(event.reason)
    }
    return Counter(reason for reason, namespace, name in rejections if cluster.pods.find_row(namespace, name) is None)


def _build_rejected_pods_report(table: PodTable, reason: str, rows: list[int], deleted_count: int) -> RefusedPods:
    """Build the report about the pods that kubelets rejected for one reason.

    `rows` are the rows of the pods that still exist. `deleted_count` is the number of rejected pods that were deleted.
    """
    if not rows:
        return RefusedPods(reason=reason, pods=0, gone=deleted_count)
    columns = table.columns

    def get_time(row: int) -> str:
        """Return when a pod started, otherwise when it was created."""
        return columns.started.get_text(row) or columns.created.get_text(row)

    latest = max(rows, key=get_time)
    nodes = Counter(columns.node.get_text(row) for row in rows)
    return RefusedPods(
        reason=reason,
        pods=len(rows),
        gone=deleted_count,
        nodes=tuple(name for name, _ in nodes.most_common(MAX_EXAMPLES)),
        examples=tuple(table[row].key for row in rows[:MAX_EXAMPLES]),
        last=get_time(latest),
        message=columns.message.get_text(latest),
    )


def iter_orphaned_pods(cluster: Cluster) -> Iterator[OrphanedPods]:
    """Yield the pods on nodes that do not exist, grouped by node, most pods first.

    Nothing is yielded if not all nodes were read. Pods that have ended do not count.
    """
    if cluster.find_gap("Node"):
        return
    table = cluster.pods.drop_terminated()
    existing_names = {node.metadata.name for node in cluster.nodes}
    is_missing_node = np.array([bool(name) and name not in existing_names for name in table.node.values], np.bool_)
    rows = np.flatnonzero(is_missing_node[table.node.codes])
    codes = table.node.codes[rows]
    groups = [_build_orphaned_pods(table, rows[codes == code]) for code in np.unique(codes)]
    yield from sorted(groups, key=lambda orphaned_pods: (-orphaned_pods.pods, orphaned_pods.node))


def _build_orphaned_pods(table: PodTable, rows: Rows) -> OrphanedPods:
    """Build the report about the pods on one missing node. `rows` are these pods' rows in the table."""
    templates = [table.templates[number] for number in table.template[rows].tolist()]
    return OrphanedPods(
        node=table.node.get_text(int(rows[0])),
        pods=len(rows),
        leaving=sum(template.metadata.deletion_timestamp is not None for template in templates),
        examples=tuple(table[row].key for row in rows[:MAX_EXAMPLES].tolist()),
    )


def iter_shared_devices(cluster: Cluster) -> Iterator[SharedDevice]:
    """Yield the devices that are allocated to several claims, ordered by driver, pool and name.

    Allocations for admin access and shares of a device do not count.
    """
    claims: dict[tuple[str, str, str], list[str]] = {}
    for claim in cluster.resource_claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            if not (result.admin_access or result.share_id or result.consumed_capacity):
                key = f"{claim.metadata.namespace}/{claim.metadata.name}"
                claims.setdefault((result.driver, result.pool, result.device), []).append(key)
    for device, keys in sorted(claims.items()):
        if len(keys) > 1:
            yield SharedDevice(device="/".join(device), claims=tuple(sorted(keys)))


MAX_ARRIVALS = 6
"""The number of pods that are listed for a node."""


class _NodePod(NamedTuple):
    """A pod of a node, with its request and the time at which it was scheduled, or started if the former is unknown."""

    position: Position
    requests: int
    at: str
    nanoseconds: int | None
    """The same time in nanoseconds since the epoch; None if it is unknown."""


def iter_overcommitted_nodes(view: Fork) -> Iterator[OvercommittedNode]:
    """Yield a report for each overcommitted resource of each node. Nodes without any allocatable resource are left out.

    As in kube-scheduler, an allocatable amount beyond int64 becomes negative. Such a resource counts as overcommitted
    only if pods on the node request it.
    """
    has_resources = view.allocatable.any(axis=1, keepdims=True)
    is_overcommitted = (view.requested > np.maximum(view.allocatable, 0)) & has_resources
    resource_names = list(view.resources)
    for row, column in np.argwhere(is_overcommitted).tolist():
        yield _build_overcommitted_node(view, Row(row), column, resource_names[column])


def _build_overcommitted_node(view: Fork, row: Row, column: int, resource: str) -> OvercommittedNode:
    """Build the report on a node whose pods request more of a resource than is allocatable.

    The pods are in order of arrival, and those for which the node had no room are marked. If an arrival time is
    missing, the pods are ordered by request, and no pod is marked. `row` is the node's row, and `column` is the
    resource's column.
    """
    pods = [pod for pod in _iter_pods_on_node(view, row, column) if pod.requests]
    allocatable = int(view.allocatable[row, column])
    ordered = _sort_by_arrival(pods)
    if ordered is not None:
        cumulative_requests = np.cumsum([pod.requests for pod in ordered])
        first_beyond = int(np.argmax(cumulative_requests > allocatable))  # the first index where this is true
        gap = _compute_gap_before_excess(ordered, first_beyond)
    else:
        ordered = sorted(pods, key=lambda pod: pod.requests)
        first_beyond = len(ordered)  # no pod is marked
        gap = None
    return OvercommittedNode(
        node=view.nodes.names[row],
        resource=resource,
        requested=int(view.requested[row, column]),
        allocatable=allocatable,
        pods=len(ordered),
        arrivals=tuple(_iter_arrivals_around_overcommit(view, ordered, first_beyond)),
        gap=gap,
        deferred_resizes=find_deferred_resizes(resource, row, view),
    )


def _sort_by_arrival(pods: Sequence[_NodePod]) -> list[_NodePod] | None:
    """Return the pods in order of arrival, or None if the arrival time of a pod is unknown."""
    pods_with_time = [(pod.nanoseconds, pod) for pod in pods if pod.nanoseconds is not None]
    if len(pods_with_time) < len(pods):
        return None
    return [pod for _, pod in sorted(pods_with_time, key=itemgetter(0))]


def _iter_pods_on_node(view: Fork, row: Row, column: int) -> Iterator[_NodePod]:
    """Yield the pods of a node, with their requests of the resource in `column` and their arrival time.

    The arrival time is the time of the binding. If it is unknown, it is the time of the pod's start.
    """
    table = view.pods.objects.table
    columns = table.columns
    for position in view.pods_on(row):
        request = int(view.requests[view.pods.info[position], column])
        table_row = int(view.pods.objects.rows[position])
        time = columns.scheduled.get_text(table_row) or columns.started.get_text(table_row)
        yield _NodePod(position, request, time, _parse_nanoseconds(time))


def _parse_nanoseconds(time: str) -> int | None:
    """Return a time in nanoseconds, or None if it is missing or malformed."""
    try:
        return parse_nanoseconds(time) if time else None
    except InputError:
        return None


def _iter_arrivals_around_overcommit(view: Fork, ordered: Sequence[_NodePod], first_beyond: int) -> Iterator[Arrival]:
    """Yield at most MAX_ARRIVALS pods in order of arrival, around the first pod for which the node had no room.

    `first_beyond` is the index of this pod. The pods begin with the one before it, or earlier if fewer pods follow. If
    the first pod without room is unknown, `first_beyond` is the number of pods, and the last pods are yielded.
    """
    start = max(min(first_beyond - 1, len(ordered) - MAX_ARRIVALS), 0)
    for index, node_pod in enumerate(ordered[start : start + MAX_ARRIVALS], start):
        pod = view.pods.objects[node_pod.position]
        controller = find_controller(pod.metadata)
        yield Arrival(
            pod=pod.key,
            requests=node_pod.requests,
            at=node_pod.at,
            beyond=index >= first_beyond,
            static=controller is not None and controller.kind == "Node",
        )


def _compute_gap_before_excess(ordered: Sequence[_NodePod], first_beyond: int) -> float | None:
    """Return the seconds between the first pod for which the node had no room and the pod before it.

    `first_beyond` is the index of this pod in `ordered`, the node's pods in order of arrival. Return None if there is
    no pod before it or if one of the times is unknown.
    """
    if not first_beyond:
        return None
    later_time = ordered[first_beyond].nanoseconds
    earlier_time = ordered[first_beyond - 1].nanoseconds
    if later_time is None or earlier_time is None:
        return None
    return (later_time - earlier_time) / 10**9
