"""``provision``: which nodes would Karpenter launch, and which would it disrupt?

The replay is ``kschedctl/autoscaling/karpenter``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.autoscaling.karpenter import disrupt as disrupting
from kschedctl.autoscaling.karpenter import provision as provisioning
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools, build_launched_nodes
from kschedctl.autoscaling.karpenter.node_classes import find_class_kind
from kschedctl.autoscaling.karpenter.state_nodes import derive_instance_types
from kschedctl.cluster import NOT_GIVEN, NOT_LISTED, Cluster
from kschedctl.fixes.new_node import replay_queue_with_new_nodes
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.karpenter import Disruption, Provisioning
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.sources.cluster import get_read_time


def provision(
    cluster: Cluster,
    instance_types: Sequence[JsonObject] | None = None,
    options: JsonObject | None = None,
    *,
    now: str = "",
) -> Provisioning:
    """Which nodes Karpenter (v1.14) would launch for pending pods, and why none for the others.

    ``instance_types``: as kwok's instance_types.json has them; None for those of the nodes that exist, without prices:
    then that no type fits is not certain. ``options``: preferencePolicy, minValuesPolicy, maxInstanceTypes,
    featureGates. ``now``: an RFC 3339 time; when the cluster was read. Raises InputError.

    >>> str(provision(Cluster.from_objects([]), now="2026-01-01T00:00:00Z"))
    'Karpenter would launch no node for 0 pending pods'
    """
    types = derive_instance_types(cluster) if instance_types is None else instance_types
    report = provisioning.provision(cluster, types, options or {}, now=now or get_read_time(cluster))
    unknown = find_unread_kinds(cluster)
    seen = len(types) if instance_types is None else None
    undecided = bool(unknown) or (seen is not None and bool(report.pod_errors))
    report = replace(report, seen_types=seen, unknown=unknown, undecided=undecided)
    claims = report.new_node_claims
    if not claims:
        return report
    pools = LaunchingPools(cluster, types, options or {}, now or get_read_time(cluster))
    new = build_launched_nodes(cluster, claims, read_instance_types(types))
    after = replay_queue_with_new_nodes(cluster, new, [pod for claim in claims for pod in claim.pods], pools)
    return replace(report, still_pending=after.still_pending, rivals=after.rivals, enough=after.enough)


def disrupt(
    cluster: Cluster,
    instance_types: Sequence[JsonObject],
    options: JsonObject | None = None,
    *,
    now: str = "",
    progress: Progress = NO_PROGRESS,
) -> Disruption:
    """Which nodes Karpenter (v1.14) would take away, what it would launch instead, and what keeps each other node.

    Arguments and errors as for ``provision``; that a replacement is cheaper needs prices.

    >>> import kschedctl
    >>> str(disrupt(kschedctl.Cluster.from_objects([]), [], now="2026-01-01T00:00:00Z"))
    'Karpenter would take no node away'
    """
    now = now or get_read_time(cluster)
    report = disrupting.disrupt(cluster, instance_types, options or {}, now=now, begin=progress.begin)
    unknown = find_unread_kinds(cluster, "PodDisruptionBudget")
    return replace(report, unknown=unknown, undecided=bool(unknown))


UNREQUESTED = (NOT_GIVEN, NOT_LISTED)


REQUIRED_KINDS = ("NodePool", "NodeClaim", "Node", "Pod", "DaemonSet")


def find_unread_kinds(cluster: Cluster, *more: str) -> tuple[UnknownKind, ...]:
    """Return the kinds that Karpenter reads and the snapshot lacks, and unreadable node classes."""
    gaps = {kind: cluster.gap(kind) for kind in (*REQUIRED_KINDS, *more)}
    classes = {kind.name for pool in cluster.karpenter_node_pools if (kind := find_class_kind(pool))}
    refused = {kind: gap for kind in sorted(classes) if (gap := cluster.gap(kind)) and gap.why not in UNREQUESTED}
    gaps |= refused
    return tuple(UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps.items() if gap is not None)
