"""Traces of wrong placements: rejected pods, pods on missing nodes, shared devices and overcommitted nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from kschedctl.snapshot.fork import Fork

MAX_EXAMPLES = 6
"""The number of examples that are listed."""


def iter_rejected_pods(cluster: Cluster) -> Iterator[RefusedPods]:
    """Yield the pods that kubelets rejected by reason, most frequent first.

    Includes deleted pods known from events.
    """
    table = cluster.pods
    rows = table.find_rows(_is_rejected_by_kubelet)
    reasons: dict[str, list[int]] = {}
    for row in rows.tolist():
        reasons.setdefault(table.templates[table.template[row]].status.reason, []).append(row)
    deleted = _count_deleted_rejected_pods(cluster)
    groups = (
        _build_rejected_pods(table, reason, reasons.get(reason, []), deleted[reason])
        for reason in {**reasons, **deleted}
    )
    yield from sorted(groups, key=lambda refused_pods: (-refused_pods.pods - refused_pods.gone, refused_pods.reason))


def _is_rejected_by_kubelet(template: Pod) -> bool:
    """Return whether the pods of a template failed because a kubelet rejected them."""
    return template.status.phase == "Failed" and is_kubelet_rejection(template.status.reason)


def _count_deleted_rejected_pods(cluster: Cluster) -> Counter[str]:
    """Return how many rejected pods no longer exist, by reason, from their events."""
    names = {(event.reason, event.involved_object.namespace, event.involved_object.name) for event in cluster.events}
    return Counter(
        reason
        for reason, *key in names
        if is_kubelet_rejection(reason) and cluster.pods.find_row(key[0], key[1]) is None
    )


def _build_rejected_pods(table: PodTable, reason: str, rows: list[int], deleted_count: int) -> RefusedPods:
    """Build the report about pods rejected for one reason."""
    if not rows:
        return RefusedPods(reason=reason, pods=0, gone=deleted_count)
    columns = table.columns
    latest = max(rows, key=lambda row: columns.started.text_of(row) or columns.created.text_of(row))
    nodes = Counter(columns.node.text_of(row) for row in rows)
    return RefusedPods(
        reason=reason,
        pods=len(rows),
        gone=deleted_count,
        nodes=tuple(name for name, _ in nodes.most_common(MAX_EXAMPLES)),
        examples=tuple(table[row].key for row in rows[:MAX_EXAMPLES]),
        last=columns.started.text_of(latest) or columns.created.text_of(latest),
        message=columns.message.text_of(latest),
    )


def iter_orphaned_pods(cluster: Cluster) -> Iterator[OrphanedPods]:
    """Yield pods on nodes that do not exist by node, most pods first, or nothing if not all nodes were read."""
    if cluster.gap("Node"):
        return
    table, node_names = cluster.pods.drop_terminated(), {node.metadata.name for node in cluster.nodes}
    missing = np.array([bool(name) and name not in node_names for name in table.node.values], np.bool_)
    rows = np.flatnonzero(missing[table.node.codes])
    codes = table.node.codes[rows]
    groups = [_build_orphaned_pods(table, rows[codes == code]) for code in np.unique(codes)]
    yield from sorted(groups, key=lambda orphaned_pods: (-orphaned_pods.pods, orphaned_pods.node))


def _build_orphaned_pods(table: PodTable, rows: Rows) -> OrphanedPods:
    """Build the report about the pods on one missing node."""
    templates = [table.templates[number] for number in table.template[rows].tolist()]
    return OrphanedPods(
        node=table.node.text_of(int(rows[0])),
        pods=len(rows),
        leaving=sum(template.metadata.deletion_timestamp is not None for template in templates),
        examples=tuple(table[row].key for row in rows[:MAX_EXAMPLES].tolist()),
    )


def iter_shared_devices(cluster: Cluster) -> Iterator[SharedDevice]:
    """Yield devices allocated to several claims, except by admin access or in shares."""
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
    """A pod of a node with its request and the time at which it was scheduled or, if unknown, started."""

    position: Position
    requests: int
    at: str
    nanoseconds: int | None


def iter_overcommitted_nodes(view: Fork) -> Iterator[OvercommittedNode]:
    """Yield the overcommitted resources node by node. Nodes that offer nothing of any resource are left out.

    An allocatable amount beyond int64 wraps to a negative one, as it does in kube-scheduler. A resource that no pod of
    the node requests is not overcommitted by that.
    """
    offers = view.allocatable.any(axis=1, keepdims=True)
    exceeded = (view.requested > np.maximum(view.allocatable, 0)) & offers
    names = list(view.resources)
    for row, column in np.argwhere(exceeded).tolist():
        yield _build_overcommitted_node(view, Row(row), column, names[column])


def _build_overcommitted_node(view: Fork, row: Row, column: int, resource: str) -> OvercommittedNode:
    """Build the report about a node and a resource.

    Its pods are in order of time, or of request if times are missing.
    """
    pods = [pod for pod in _iter_pods_on_node(view, row, column) if pod.requests]
    allocatable = int(view.allocatable[row, column])
    has_all_times = all(pod.nanoseconds is not None for pod in pods)
    ordered = sorted(pods, key=lambda pod: pod.nanoseconds if has_all_times else pod.requests)  # type: ignore[return-value, arg-type]
    cumulative = np.cumsum([pod.requests for pod in ordered])
    first = int(np.argmax(cumulative > allocatable))
    return OvercommittedNode(
        node=view.nodes.names[row],
        resource=resource,
        requested=int(view.requested[row, column]),
        allocatable=allocatable,
        pods=len(ordered),
        arrivals=tuple(_iter_arrivals(view, ordered, first if has_all_times else len(ordered))),
        gap=_compute_gap(ordered, first) if has_all_times else None,
    )


def _iter_pods_on_node(view: Fork, row: Row, column: int) -> Iterator[_NodePod]:
    """Yield the pods of a node with their requests of one resource and their times."""
    table = view.pods.objects.table
    columns = table.columns
    for position in view.pods_on(row):
        table_row = int(view.pods.objects.rows[position])
        time = columns.scheduled.text_of(table_row) or columns.started.text_of(table_row)
        yield _NodePod(position, int(view.requests[view.pods.info[position], column]), time, _parse_time(time))


def _parse_time(time: str) -> int | None:
    """Return a time in nanoseconds, or None if it is missing or malformed."""
    try:
        return parse_nanoseconds(time) if time else None
    except InputError:
        return None


def _iter_arrivals(view: Fork, ordered: Sequence[_NodePod], first: int) -> Iterator[Arrival]:
    """Yield a window of pods around the first one that exceeded the node, or the last pods if there is none."""
    start = max(min(first - 1, len(ordered) - MAX_ARRIVALS), 0)
    for place, node_pod in enumerate(ordered[start : start + MAX_ARRIVALS], start):
        pod = view.pods.objects[node_pod.position]
        owner = find_controller(pod.metadata)
        static = owner is not None and owner.kind == "Node"
        yield Arrival(pod=pod.key, requests=node_pod.requests, at=node_pod.at, beyond=place >= first, static=static)


def _compute_gap(ordered: Sequence[_NodePod], first: int) -> float | None:
    """Return the seconds between the first pod that exceeded the node and the pod before it, or None if unknown."""
    if not first:
        return None
    later, before = ordered[first].nanoseconds, ordered[first - 1].nanoseconds
    return None if later is None or before is None else (later - before) / 10**9
