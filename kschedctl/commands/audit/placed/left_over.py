"""What mistakes in placing leave: pods that kubelets refused, pods of nodes that are gone, devices given out twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Rows
from kschedctl.api.objects import Pod
from kschedctl.api.observed.events import is_kubelet_rejection
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.placed.report import OrphanedPods, RefusedPods, SharedDevice

SHOWN = 6
"""Names that are told of many."""


def refused(cluster: Cluster) -> Iterator[RefusedPods]:
    """By reason, that of the most pods first: those that are left, and those of which only an event is."""
    table = cluster.pods
    rows = table.find_rows(_is_refused)
    reasons: dict[str, list[int]] = {}
    for row in rows.tolist():
        reasons.setdefault(table.templates[table.template[row]].status.reason, []).append(row)
    gone = _gone(cluster)
    groups = (_refused(table, reason, reasons.get(reason, []), gone[reason]) for reason in {**reasons, **gone})
    yield from sorted(groups, key=lambda refused_pods: (-refused_pods.pods - refused_pods.gone, refused_pods.reason))


def _is_refused(template: Pod) -> bool:
    return template.status.phase == "Failed" and is_kubelet_rejection(template.status.reason)


def _gone(cluster: Cluster) -> Counter[str]:
    """How many pods that are no longer there were refused, by reason."""
    names = {(event.reason, event.involved_object.namespace, event.involved_object.name) for event in cluster.events}
    return Counter(
        reason
        for reason, *key in names
        if is_kubelet_rejection(reason) and cluster.pods.find_row(key[0], key[1]) is None
    )


def _refused(table: PodTable, reason: str, rows: list[int], gone: int) -> RefusedPods:
    if not rows:
        return RefusedPods(reason=reason, pods=0, gone=gone)
    columns = table.columns
    latest = max(rows, key=lambda row: columns.started.text_of(row) or columns.created.text_of(row))
    nodes = Counter(columns.node.text_of(row) for row in rows)
    return RefusedPods(
        reason=reason,
        pods=len(rows),
        gone=gone,
        nodes=tuple(name for name, _ in nodes.most_common(SHOWN)),
        examples=tuple(table[row].key for row in rows[:SHOWN]),
        last=columns.started.text_of(latest) or columns.created.text_of(latest),
        message=columns.message.text_of(latest),
    )


def orphaned(cluster: Cluster) -> Iterator[OrphanedPods]:
    """By node, that of the most pods first; none where not all nodes are known."""
    if cluster.gap("Node"):
        return
    table, known = cluster.pods.drop_terminated(), {node.metadata.name for node in cluster.nodes}
    missing = np.array([bool(name) and name not in known for name in table.node.values], np.bool_)
    rows = np.flatnonzero(missing[table.node.codes])
    codes = table.node.codes[rows]
    groups = [_orphaned(table, rows[codes == code]) for code in np.unique(codes)]
    yield from sorted(groups, key=lambda orphaned_pods: (-orphaned_pods.pods, orphaned_pods.node))


def _orphaned(table: PodTable, rows: Rows) -> OrphanedPods:
    templates = [table.templates[number] for number in table.template[rows].tolist()]
    return OrphanedPods(
        node=table.node.text_of(int(rows[0])),
        pods=len(rows),
        leaving=sum(template.metadata.deletion_timestamp is not None for template in templates),
        examples=tuple(table[row].key for row in rows[:SHOWN].tolist()),
    )


def shared_devices(cluster: Cluster) -> Iterator[SharedDevice]:
    """Devices allocated to more than one claim, but for administrators and in shares."""
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
