"""Whether an autoscaler would make a node for a pod: Karpenter where it has NodePools, else the Cluster Autoscaler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.autoscaling.node_groups.found import NodeGroups, UserGroups, find_node_groups, has_node_groups
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.new_node import NewNode, NodeGrowth
from kschedctl.reports.remedy import Remedy

NOBODY = UserGroups()


def new_node(
    asked: TargetPod,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NewNode | None:
    """Return whether a node would come for a pod while others wait, or None if nobody is known to make nodes.

    ``given`` holds node groups that people name, ``types`` Karpenter's instance types (None for those of the nodes).
    Raises InputError.
    """
    alone = new_node_alone(asked, now, given, types, settings)
    if alone is None or not (alone.comes or any(pool.would_take for pool in alone.pools)):
        return alone
    from kschedctl.fixes.new_node_rivals import count_waiting_pods  # noqa: PLC0415 - few clusters tell who makes nodes

    cluster = asked.scheduler.cluster

    def without_limits() -> Autoscaler:
        return autoscaler_of(cluster, now, given, types, settings, limited=False)

    autoscaler = autoscaler_of(cluster, now, given, types, settings)
    return count_waiting_pods(alone, cluster, asked.pod, autoscaler, without_limits)


def new_node_alone(
    asked: TargetPod,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NewNode | None:
    """Return whether a node would come for a pod, whatever becomes of the pods that wait, too.

    Arguments, result and errors are those of ``explain_new_node``.
    """
    cluster = asked.scheduler.cluster
    if has_groups(cluster, given):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked

        return autoscaler.explain_new_node(cluster, asked.pod, node_groups(cluster, given), now)
    if not cluster.karpenter_node_pools:
        return None
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it

    return karpenter.new_node(cluster, asked.pod, types, settings or {}, now)


def autoscaler_fixes(
    asked: TargetPod,
    told: NewNode,
    now: str,
    given: UserGroups = NOBODY,
    *,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> tuple[Remedy, ...]:
    """Return what lets a node group grow, or a NodePool launch a node, for the pod. Each change is replayed.

    ``told``: what the autoscaler says of the pod now. Raises InputError.
    """
    cluster = asked.scheduler.cluster
    if told.comes:
        return ()
    if has_groups(cluster, given):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked
        from kschedctl.fixes.node_groups import node_group_fixes  # noqa: PLC0415 - seldom asked

        groups = node_groups(cluster, given)

        def replay_groups(changed: Sequence[JsonObject]) -> NewNode:
            return autoscaler.explain_new_node(cluster, asked.pod, replace(groups, groups=tuple(changed)), now)

        return node_group_fixes(cluster, asked.pod, groups.groups, told, replay_groups)
    if not cluster.karpenter_node_pools:
        return ()
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it
    from kschedctl.fixes.node_pools import node_pool_fixes  # noqa: PLC0415 - few clusters have it

    def replay_pools(changed: Cluster, known: Sequence[JsonObject] | None) -> NewNode:
        return karpenter.new_node(changed, asked.pod, types if known is None else known, settings or {}, now)

    return node_pool_fixes(cluster, asked.pod, told, replay_pools, types)


def autoscaler_of(
    cluster: Cluster,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
    *,
    limited: bool = True,
) -> Autoscaler:
    """Return who makes nodes for a cluster, loop after loop. Arguments are those of ``explain_new_node``.

    Without ``limited``, maximum sizes of node groups and limits of NodePools do not count. Raises InputError, and
    UsageError if nobody is known to make nodes.
    """
    if cluster.karpenter_node_pools and not has_groups(cluster, given):
        from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools  # noqa: PLC0415 - few clusters

        return LaunchingPools(cluster, types, settings or {}, now, limited=limited)
    from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups  # noqa: PLC0415 - seldom asked

    return GrowingGroups(node_groups(cluster, given), now, limited=limited)


def node_growth(
    cluster: Cluster,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NodeGrowth | None:
    """The nodes that come for all pods that wait, loop after loop; None where nobody is known to make any.

    Arguments and errors as for ``explain_new_node``.
    """
    if not (cluster.karpenter_node_pools or has_groups(cluster, given)):
        return None
    from kschedctl.replay.growth import simulate_growth  # noqa: PLC0415 - few clusters tell who makes their nodes

    return simulate_growth(cluster, autoscaler_of(cluster, now, given, types, settings), explains=True)


def has_groups(cluster: Cluster, given: UserGroups) -> bool:
    """Whether anybody, or the cluster itself, tells of node groups that grow."""
    return bool(given.groups or given.label) or has_node_groups(cluster)


def node_groups(cluster: Cluster, given: UserGroups) -> NodeGroups:
    """Groups and options. Raises InputError, UsageError where nothing names a group."""
    groups = find_node_groups(cluster, given)
    if not groups.groups and not groups.faults:
        raise UsageError("nothing names a node group", hint="--pool-label KEY, --node-groups FILE")
    return groups
