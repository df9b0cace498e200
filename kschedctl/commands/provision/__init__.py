"""`provision`: which nodes would Karpenter launch, and which would it disrupt?

The replay itself is in `kschedctl/autoscaling/karpenter`.
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
    """Find the nodes that Karpenter (v1.14) would launch for pending pods, and explain why other pods get none.

    ``instance_types`` are in the format of kwok's instance_types.json. Without them, only the types of existing nodes
    are known, without prices, and it is uncertain whether another type would fit. ``options`` are preferencePolicy,
    minValuesPolicy, maxInstanceTypes and featureGates. ``now`` is an RFC 3339 time and defaults to the time at which
    the cluster was read. If nodes would be launched, kube-scheduler's queue is replayed with the new nodes, to find the
    pods that stay pending nevertheless. Raises InputError if an argument or object is malformed.

    >>> str(provision(Cluster.from_objects([]), now="2026-01-01T00:00:00Z"))
    'No pending pods: Karpenter would launch no node'
    """
    now = now or get_read_time(cluster)
    options = options or {}
    uses_only_seen_types = instance_types is None
    types = derive_instance_types(cluster) if instance_types is None else instance_types

    replayed = provisioning.provision(cluster, types, options, now=now)
    unknown = find_unread_kinds(cluster)
    may_other_type_fit = uses_only_seen_types and bool(replayed.pod_errors)
    undecided = bool(unknown) or may_other_type_fit
    seen_types = len(types) if uses_only_seen_types else None
    report = replace(replayed, seen_types=seen_types, unknown=unknown, undecided=undecided)
    claims = report.new_node_claims
    if not claims:
        return report

    new_nodes = build_launched_nodes(cluster, claims, read_instance_types(types))
    pools_by_pod = {pod: [claim.node_pool] for claim in claims for pod in claim.pods}
    pools = LaunchingPools(cluster, types, options, now)
    queue_result = replay_queue_with_new_nodes(cluster, new_nodes, pools_by_pod, pools)
    return replace(
        report, still_pending=queue_result.still_pending, rivals=queue_result.rivals, enough=queue_result.enough
    )


def disrupt(
    cluster: Cluster,
    instance_types: Sequence[JsonObject],
    options: JsonObject | None = None,
    *,
    now: str = "",
    progress: Progress = NO_PROGRESS,
) -> Disruption:
    """Find the nodes that Karpenter (v1.14) would remove or replace, and explain why the other nodes stay.

    The arguments and errors are as for ``provision``, except that ``instance_types`` are required. Without prices, no
    replacement can be shown to be cheaper.

    >>> import kschedctl
    >>> str(disrupt(kschedctl.Cluster.from_objects([]), [], now="2026-01-01T00:00:00Z"))
    'Karpenter would remove no node: no node has a NodeClaim in the data'
    """
    now = now or get_read_time(cluster)
    report = disrupting.disrupt(cluster, instance_types, options or {}, now=now, begin=progress.begin)
    unknown = find_unread_kinds(cluster, "PodDisruptionBudget")
    return replace(report, unknown=unknown, undecided=bool(unknown))


UNREQUESTED = (NOT_GIVEN, NOT_LISTED)
"""The reasons of gaps that are not errors of reading."""


REQUIRED_KINDS = ("NodePool", "NodeClaim", "Node", "Pod", "DaemonSet")
"""The kinds without which Karpenter's decisions are not certain."""


def find_unread_kinds(cluster: Cluster, *further_kinds: str) -> tuple[UnknownKind, ...]:
    """Return the kinds that Karpenter needs but that were not read.

    Karpenter needs REQUIRED_KINDS, `further_kinds` and the node classes of its pools. A kind of node class is reported
    only if reading it failed, since node classes are optional.
    """
    gaps = {kind: cluster.find_gap(kind) for kind in (*REQUIRED_KINDS, *further_kinds)}
    class_kinds = {kind.name for pool in cluster.karpenter_node_pools if (kind := find_class_kind(pool))}
    for class_kind in sorted(class_kinds):
        gap = cluster.find_gap(class_kind)
        if gap is not None and gap.why not in UNREQUESTED:
            gaps[class_kind] = gap
    return tuple(UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps.items() if gap is not None)
