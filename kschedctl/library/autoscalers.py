"""``pools``, and what autoscalers do: ``scale_up``, ``scale_down``, ``provision`` and ``disrupt``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.unhealthy_pods import budget_causes
from kschedctl.autoscaling.cluster_autoscaler import scale_down as going_down
from kschedctl.autoscaling.cluster_autoscaler import scale_up as going_up
from kschedctl.autoscaling.cluster_autoscaler.drainability import NOT_ENOUGH_BUDGET
from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups
from kschedctl.autoscaling.karpenter import disrupt as disrupting
from kschedctl.autoscaling.karpenter import provision as provisioning
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.launched_nodes import launched_nodes
from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools
from kschedctl.autoscaling.karpenter.node_classes import kind_of_class
from kschedctl.autoscaling.karpenter.seen_types import seen_types
from kschedctl.autoscaling.node_groups.found import Given, NodeGroups
from kschedctl.cluster import NOT_GIVEN, NOT_LISTED, Cluster
from kschedctl.library.cluster import moment_of
from kschedctl.library.new_node import has_groups, node_groups
from kschedctl.reports.disruption import Disruption
from kschedctl.reports.pools import NodePools
from kschedctl.reports.provisioning import Provisioning
from kschedctl.reports.scale_down import ScaleDown
from kschedctl.reports.scale_up import ScaleUp
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.new_node_rivals import queue_with_new_nodes
from kschedctl.studies.packing import pool_reports
from kschedctl.studies.packing.pool_groups import PoolGroups

NOT_ASKED_FOR = (NOT_GIVEN, NOT_LISTED)
LOOKED_AT = ("NodePool", "NodeClaim", "Node", "Pod", "DaemonSet")


def pools(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
) -> NodePools:
    """The node pools by name, what their nodes are like, what is free on them, and how many pods wait for more.

    ``groups``, ``pool_label``, ``where``: as for ``scale_up``. ``now``: the RFC 3339 time for the budgets of
    Karpenter's NodePools; when the cluster was read. Raises InputError.

    >>> str(pools(Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}]), now="2026-01-01T00:00:00Z"))
    '1 pool, 1 node 0 pending pods'
    """
    given, now = Given(groups, {}, pool_label, where), now or moment_of(cluster)
    found = PoolGroups(cluster, node_groups(cluster, given), now) if has_groups(cluster, given) else None
    return pool_reports.pools(Scheduler(cluster), now, found)


def scale_up(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    options: JsonObject | None = None,
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
    active_scale_ups: Mapping[str, int] | None = None,
    progress: Progress = UNSEEN,
) -> ScaleUp:
    """What the Cluster Autoscaler (release 1.36) would do in its next loop for pending pods, and why not more.

    ``groups``: node groups as ``--node-groups`` has them (id, min, max, target, nodes, template), besides those that
    the cluster tells; ``options``: the autoscaler's flags; ``pool_label``: the node label that names a node's group;
    ``where``: what the report calls the source of the groups. ``now``: an RFC 3339 time; when the cluster was read.
    ``active_scale_ups``: group -> nodes that it asked for and that are not there yet, None for what its status says.
    Raises UsageError where nothing names a group, InputError.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_up(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No group grows for 0 unschedulable pods'
    """
    named = node_groups(cluster, Given(groups, options or {}, pool_label, where))
    loop = _loop(cluster, named, now, active_scale_ups)
    made, report = going_up.replay(cluster, named.groups, named.options, begin=progress.begin, **loop)
    if made.increases:
        growing = GrowingGroups(named, loop["now"])
        after = queue_with_new_nodes(cluster, growing.add_nodes(made, cluster), report.triggered, growing)
        report = replace(report, still_pending=after.still_pending, rivals=after.rivals, enough=after.enough)
    doubtful = bool(report.faults or report.doubts or (report.unknown_groups and report.waiting))
    basis = _basis(named)
    basis["doubts"] = (*report.doubts, *basis["doubts"])
    faults = (*named.faults, *report.faults)
    return replace(report, undecided=doubtful or not named.certain, faults=faults, **basis)


def scale_down(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    options: JsonObject | None = None,
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
    active_scale_ups: Mapping[str, int] | None = None,
    progress: Progress = UNSEEN,
) -> ScaleDown:
    """Which nodes the Cluster Autoscaler does not need, which go in its next loop, and what keeps the others.

    Arguments and errors as for ``scale_up``.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_down(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No node goes of 0 unneeded nodes'
    """
    named = node_groups(cluster, Given(groups, options or {}, pool_label, where))
    loop = _loop(cluster, named, now, active_scale_ups)
    report = going_down.scale_down(cluster, named.groups, named.options, begin=progress.begin, **loop)
    blocked = (node.blocking_pod for node in report.nodes.values() if node.blocking_pod)
    keys = {blocking.pod for blocking in blocked if blocking.reason == NOT_ENOUGH_BUDGET}
    held = [pod for key in sorted(keys) if (pod := cluster.pod(*key.split("/", 1)))]
    causes = budget_causes(held, cluster.pod_disruption_budgets, cluster.pods)
    report = replace(report, budget_causes=causes)
    undecided = not named.certain or bool(report.faults)
    faults, waits = (*named.faults, *report.faults), dict(named.waits)
    return replace(report, undecided=undecided, faults=faults, waits=waits, **_basis(named))


class LoopBegin(TypedDict):
    """What a loop of the Cluster Autoscaler begins with, besides the cluster."""

    now: str
    active_scale_ups: Mapping[str, int]


class GroupsBasis(TypedDict):
    """What both reports say of the groups."""

    seen_groups: bool
    sources: tuple[str, ...]
    doubts: tuple[str, ...]


def _loop(cluster: Cluster, named: NodeGroups, now: str, active: Mapping[str, int] | None) -> LoopBegin:
    return {"now": now or moment_of(cluster), "active_scale_ups": named.active if active is None else active}


def _basis(named: NodeGroups) -> GroupsBasis:
    return {"seen_groups": not named.limits_known, "sources": named.sources, "doubts": named.doubts}


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
    types = seen_types(cluster) if instance_types is None else instance_types
    report = provisioning.provision(cluster, types, options or {}, now=now or moment_of(cluster))
    unknown = unread_kinds(cluster)
    seen = len(types) if instance_types is None else None
    undecided = bool(unknown) or (seen is not None and bool(report.pod_errors))
    report = replace(report, seen_types=seen, unknown=unknown, undecided=undecided)
    claims = report.new_node_claims
    if not claims:
        return report
    pools = LaunchingPools(cluster, types, options or {}, now or moment_of(cluster))
    new = launched_nodes(cluster, claims, read_instance_types(types))
    after = queue_with_new_nodes(cluster, new, [pod for claim in claims for pod in claim.pods], pools)
    return replace(report, still_pending=after.still_pending, rivals=after.rivals, enough=after.enough)


def disrupt(
    cluster: Cluster,
    instance_types: Sequence[JsonObject],
    options: JsonObject | None = None,
    *,
    now: str = "",
    progress: Progress = UNSEEN,
) -> Disruption:
    """Which nodes Karpenter (v1.14) would take away, what it would launch instead, and what keeps each other node.

    Arguments and errors as for ``provision``; that a replacement is cheaper needs prices.

    >>> import kschedctl
    >>> str(disrupt(kschedctl.Cluster.from_objects([]), [], now="2026-01-01T00:00:00Z"))
    'Karpenter would take no node away'
    """
    now = now or moment_of(cluster)
    report = disrupting.disrupt(cluster, instance_types, options or {}, now=now, begin=progress.begin)
    unknown = unread_kinds(cluster, "PodDisruptionBudget")
    return replace(report, unknown=unknown, undecided=bool(unknown))


def unread_kinds(cluster: Cluster, *more: str) -> tuple[UnknownKind, ...]:
    """What Karpenter looks at, and was not read; of node classes those that might not be read."""
    gaps = {kind: cluster.gap(kind) for kind in (*LOOKED_AT, *more)}
    classes = {kind.name for pool in cluster.karpenter_node_pools if (kind := kind_of_class(pool))}
    refused = {kind: gap for kind in sorted(classes) if (gap := cluster.gap(kind)) and gap.why not in NOT_ASKED_FOR}
    gaps |= refused
    return tuple(UnknownKind(kind, gap.why, VERDICT) for kind, gap in gaps.items() if gap is not None)
