"""What is left of placement errors: pods rejected by kubelets, pods on missing nodes, devices allocated twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Rows
from kschedctl.api.events import is_kubelet_rejection
from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.placed.report import OrphanedPods, RefusedPods, SharedDevice

MAX_EXAMPLES = 6
"""The number of examples that are listed."""


def iter_rejected_pods(cluster: Cluster) -> Iterator[RefusedPods]:
    """Yield pods that kubelets rejected by reason, the most frequent first, including pods of which only an event is
    left.
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
    """Return how many rejected pods no longer exist, by reason, from events."""
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
    """Yield pods on nodes that do not exist by node, most pods first. Yields nothing if not all nodes were read."""
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
