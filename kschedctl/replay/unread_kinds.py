"""The kinds that an answer about autoscalers needs and that were not read."""

from __future__ import annotations

from kschedctl.autoscaling.karpenter.node_classes import kind_of_class
from kschedctl.cluster import NOT_GIVEN, NOT_LISTED, Cluster
from kschedctl.reports.unknown import VERDICT, UnknownKind

NOT_ASKED_FOR = (NOT_GIVEN, NOT_LISTED)


LOOKED_AT = ("NodePool", "NodeClaim", "Node", "Pod", "DaemonSet")


def unread_kinds(cluster: Cluster, *more: str) -> tuple[UnknownKind, ...]:
    """What Karpenter looks at, and was not read; of node classes those that might not be read."""
    gaps = {kind: cluster.gap(kind) for kind in (*LOOKED_AT, *more)}
    classes = {kind.name for pool in cluster.karpenter_node_pools if (kind := kind_of_class(pool))}
    refused = {kind: gap for kind in sorted(classes) if (gap := cluster.gap(kind)) and gap.why not in NOT_ASKED_FOR}
    gaps |= refused
    return tuple(UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps.items() if gap is not None)
