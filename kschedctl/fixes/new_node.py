"""Predict whether an autoscaler would add a node for a pod: Karpenter if it has NodePools, else the Cluster
Autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.autoscaling.node_groups.discovery import NodeGroups, UserGroups, find_node_groups, has_node_groups
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.new_node import NewNode, NodeGrowth
from kschedctl.reports.remedy import Remedy

NOBODY = UserGroups()


def explain_new_node(
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
    answer = explain_new_node_for_pod(asked, now, given, types, settings)
    if answer is None or not (answer.comes or any(pool.would_take for pool in answer.pools)):
        return answer
    from kschedctl.fixes.new_node_rivals import add_queue_share  # noqa: PLC0415 - few clusters tell who makes nodes

    cluster = asked.scheduler.cluster

    def build_unlimited_autoscaler() -> Autoscaler:
        """Return the autoscaler without its size limits."""
        return autoscaler_of(cluster, now, given, types, settings, limited=False)

    autoscaler = autoscaler_of(cluster, now, given, types, settings)
    return add_queue_share(answer, cluster, asked.pod, autoscaler, build_unlimited_autoscaler)


def explain_new_node_for_pod(
    asked: TargetPod,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NewNode | None:
    """Return whether a node would be added for a pod, without regard to other waiting pods.

    Arguments, result and errors are those of `explain_new_node`.
    """
    cluster = asked.scheduler.cluster
    if has_any_node_groups(cluster, given):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked

        return autoscaler.explain_new_node(cluster, asked.pod, get_node_groups(cluster, given), now)
    if not cluster.karpenter_node_pools:
        return None
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it

    return karpenter.explain_new_node(cluster, asked.pod, types, settings or {}, now)


def find_autoscaler_fixes(
    asked: TargetPod,
    current_answer: NewNode,
    now: str,
    given: UserGroups = NOBODY,
    *,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> tuple[Remedy, ...]:
    """Return verified changes that let a node group grow, or a NodePool launch a node, for the pod.

    `told` is the autoscaler's answer for the unchanged cluster. Raises InputError.
    """
    cluster = asked.scheduler.cluster
    if current_answer.comes:
        return ()
    if has_any_node_groups(cluster, given):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked
        from kschedctl.fixes.node_groups import find_node_group_fixes  # noqa: PLC0415 - seldom asked

        groups = get_node_groups(cluster, given)

        def replay_groups(changed: Sequence[JsonObject]) -> NewNode:
            """Return the Cluster Autoscaler's answer with changed node groups."""
            return autoscaler.explain_new_node(cluster, asked.pod, replace(groups, groups=tuple(changed)), now)

        return find_node_group_fixes(cluster, asked.pod, groups.groups, current_answer, replay_groups)
    if not cluster.karpenter_node_pools:
        return ()
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it
    from kschedctl.fixes.node_pools import find_node_pool_fixes  # noqa: PLC0415 - few clusters have it

    def replay_pools(changed: Cluster, known: Sequence[JsonObject] | None) -> NewNode:
        """Return Karpenter's answer for a changed cluster and, if not None, other instance types."""
        return karpenter.explain_new_node(changed, asked.pod, types if known is None else known, settings or {}, now)

    return find_node_pool_fixes(cluster, asked.pod, current_answer, replay_pools, types)


def autoscaler_of(
    cluster: Cluster,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
    *,
    limited: bool = True,
) -> Autoscaler:
    """Return the autoscaler of the cluster, to be run loop after loop.

    Arguments are those of `explain_new_node`. Without `limited`, maximum sizes of node groups and limits of NodePools
    do not count. Raises InputError, and UsageError if nobody is known to add nodes.
    """
    if cluster.karpenter_node_pools and not has_any_node_groups(cluster, given):
        from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools  # noqa: PLC0415 - few clusters

        return LaunchingPools(cluster, types, settings or {}, now, limited=limited)
    from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups  # noqa: PLC0415 - seldom asked

    return GrowingGroups(get_node_groups(cluster, given), now, limited=limited)


def simulate_node_growth(
    cluster: Cluster,
    now: str,
    given: UserGroups = NOBODY,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NodeGrowth | None:
    """Return the nodes that are added for all waiting pods, loop after loop, or None if nothing adds nodes.

    Arguments and errors are those of `explain_new_node`.
    """
    if not (cluster.karpenter_node_pools or has_any_node_groups(cluster, given)):
        return None
    from kschedctl.replay.growth import simulate_growth  # noqa: PLC0415 - few clusters tell who makes their nodes

    return simulate_growth(cluster, autoscaler_of(cluster, now, given, types, settings), explains=True)


def has_any_node_groups(cluster: Cluster, given: UserGroups) -> bool:
    """Return whether the user or the cluster itself names node groups that can grow."""
    return bool(given.groups or given.label) or has_node_groups(cluster)


def get_node_groups(cluster: Cluster, given: UserGroups) -> NodeGroups:
    """Return the node groups and the autoscaler's options.

    Raises InputError, and UsageError if nothing names a group.
    """
    groups = find_node_groups(cluster, given)
    if not groups.groups and not groups.faults:
        raise UsageError("nothing names a node group", hint="--pool-label KEY, --node-groups FILE")
    return groups
