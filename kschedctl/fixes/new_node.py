"""Predict whether an autoscaler adds nodes, and whether a pod then gets one of them.

Karpenter decides if the cluster has NodePools, else the Cluster Autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.node_groups.discovery import NodeGroups, UserGroups, discover_node_groups, has_node_groups
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.reports.new_node import NeverScheduled, NewNode, NewPoolNodes, NodeGrowth, QueueShare
from kschedctl.reports.placements import EvictedPod, EvictionFate, list_displaced_pods
from kschedctl.reports.remedy import Remedy
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.snapshot.nodes import ZONE
from kschedctl.text.counts import counted

if TYPE_CHECKING:
    from kschedctl.autoscaling.growth import Autoscaler, NewNodes
    from kschedctl.replay.settling import SettledCluster

NO_USER_GROUPS = UserGroups()


def predict_new_node(
    target_pod: TargetPod,
    now: str,
    user_groups: UserGroups = NO_USER_GROUPS,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NewNode | None:
    """Predict whether a node would be added for a pod, and whether the pod gets it when all waiting pods compete.

    The result is None if no autoscaler is known. `user_groups` holds the node groups that the user names. `types` are
    Karpenter's instance types, or None for the types of the existing nodes. `settings` are Karpenter's options. Raises
    InputError if the groups, types or settings are invalid.
    """
    answer = predict_new_node_for_pod(target_pod, now, user_groups, types, settings)
    if answer is None:
        return None
    if not answer.would_launch and not any(pool.would_take for pool in answer.pools):
        return answer  # no pool would add a node even without its limits, so other pods do not matter

    cluster = target_pod.scheduler.cluster

    def build_unlimited_autoscaler() -> Autoscaler:
        """Return the autoscaler without its size limits."""
        return build_autoscaler(cluster, now, user_groups, types, settings, limited=False)

    autoscaler = build_autoscaler(cluster, now, user_groups, types, settings)
    return with_competing_pods(answer, cluster, target_pod.pod, autoscaler, build_unlimited_autoscaler)


def predict_new_node_for_pod(
    target_pod: TargetPod,
    now: str,
    user_groups: UserGroups = NO_USER_GROUPS,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NewNode | None:
    """Predict whether a node would be added for a pod, without regard to other waiting pods.

    The Cluster Autoscaler decides if there are node groups, and Karpenter if there are only NodePools. The result is
    None if there are neither. `user_groups`, `types` and `settings` are described in `predict_new_node`. `now` is the
    RFC 3339 time of the autoscaler's loop. Raises InputError if one of the arguments is invalid.
    """
    cluster = target_pod.scheduler.cluster
    if has_any_node_groups(cluster, user_groups):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked

        return autoscaler.predict_new_node(cluster, target_pod.pod, get_node_groups(cluster, user_groups), now)
    if not cluster.karpenter_node_pools:
        return None
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it

    return karpenter.predict_new_node(cluster, target_pod.pod, types, settings or {}, now)


def find_autoscaler_fixes(
    target_pod: TargetPod,
    current_answer: NewNode,
    now: str,
    user_groups: UserGroups = NO_USER_GROUPS,
    *,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> tuple[Remedy, ...]:
    """Return verified changes that would make the autoscaler add a node for the pod.

    Node groups are changed if there are any, and Karpenter's NodePools otherwise. The result is empty if the autoscaler
    adds a node anyway, as `current_answer` says, or if there are neither groups nor pools. The other arguments are
    those of `predict_new_node_for_pod`. Raises InputError if the groups, types or settings are invalid.
    """
    cluster = target_pod.scheduler.cluster
    if current_answer.would_launch:
        return ()
    if has_any_node_groups(cluster, user_groups):
        from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked
        from kschedctl.fixes.node_groups import find_node_group_fixes  # noqa: PLC0415 - seldom asked

        groups = get_node_groups(cluster, user_groups)

        def replay_groups(changed: Sequence[JsonObject]) -> NewNode:
            """Return the Cluster Autoscaler's answer with changed node groups."""
            return autoscaler.predict_new_node(cluster, target_pod.pod, replace(groups, groups=tuple(changed)), now)

        return find_node_group_fixes(cluster, target_pod.pod, groups.groups, current_answer, replay_groups)
    if not cluster.karpenter_node_pools:
        return ()
    from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it
    from kschedctl.fixes.node_pools import find_node_pool_fixes  # noqa: PLC0415 - few clusters have it

    def replay_pools(changed: Cluster, changed_types: Sequence[JsonObject] | None) -> NewNode:
        """Return Karpenter's answer for a changed cluster and, if not None, other instance types."""
        available_types = types if changed_types is None else changed_types
        return karpenter.predict_new_node(changed, target_pod.pod, available_types, settings or {}, now)

    return find_node_pool_fixes(cluster, target_pod.pod, current_answer, replay_pools, types)


def build_autoscaler(
    cluster: Cluster,
    now: str,
    user_groups: UserGroups = NO_USER_GROUPS,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
    *,
    limited: bool = True,
) -> Autoscaler:
    """Return the cluster's autoscaler as a simulation that can be run loop after loop.

    It is Karpenter if there are NodePools but no node groups, and otherwise the Cluster Autoscaler. If `limited` is
    False, maximum sizes of node groups and limits of NodePools are ignored. `user_groups`, `types` and `settings` are
    described in `predict_new_node`. Raises InputError if one of them is invalid, and UsageError if no autoscaler is
    known.
    """
    if cluster.karpenter_node_pools and not has_any_node_groups(cluster, user_groups):
        from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools  # noqa: PLC0415 - few clusters

        return LaunchingPools(cluster, types, settings or {}, now, limited=limited)
    from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups  # noqa: PLC0415 - seldom asked

    return GrowingGroups(get_node_groups(cluster, user_groups), now, limited=limited)


def simulate_node_growth(
    cluster: Cluster,
    now: str,
    user_groups: UserGroups = NO_USER_GROUPS,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> NodeGrowth | None:
    """Simulate which nodes the autoscaler adds for all waiting pods, and explain why it adds none for the rest.

    The result is None if no autoscaler is known. `user_groups`, `types` and `settings` are described in
    `predict_new_node`. Raises InputError if one of them is invalid.
    """
    if not (cluster.karpenter_node_pools or has_any_node_groups(cluster, user_groups)):
        return None

    return simulate_growth(cluster, build_autoscaler(cluster, now, user_groups, types, settings), explains=True)


def has_any_node_groups(cluster: Cluster, user_groups: UserGroups) -> bool:
    """Return whether the user or the cluster's objects name node groups that can grow."""
    return bool(user_groups.groups or user_groups.label) or has_node_groups(cluster)


def get_node_groups(cluster: Cluster, user_groups: UserGroups) -> NodeGroups:
    """Return the node groups with the Cluster Autoscaler's options.

    Raises InputError if the groups are invalid, and UsageError if there are none.
    """
    groups = discover_node_groups(cluster, user_groups)
    if not groups.groups and not groups.faults:
        raise UsageError("no node groups are known", hint="specify --pool-label KEY or --node-groups FILE")
    return groups


MOST_LOOPS_FOR_POD = 10
"""The maximum number of autoscaler loops that are replayed to find how many nodes are enough for a single pod."""
MOST_WAITING = 300
"""With more waiting pods than this, the queue is not replayed for a single pod."""


def with_competing_pods(
    new_node: NewNode, cluster: Cluster, pod: Pod, autoscaler: Autoscaler, without_limits: Callable[[], Autoscaler]
) -> NewNode:
    """Return the autoscaler's answer with `queue` set, which says whether the pod gets a node among all waiting pods.

    The autoscaler adds nodes for all waiting pods, and kube-scheduler places the pods in the order of its queue.
    `queue` counts the new nodes of the pools that would take the pod, or all new nodes if these pools get none. If
    other pods take all new nodes, the autoscaler from `without_limits` shows how many nodes would be enough.

    The answer is returned unchanged if no other pod waits, if more than `MOST_WAITING` others wait, if no nodes are
    added, or if the pod would get no node even without other pods.
    """
    from kschedctl.autoscaling.growth import mark_pod_unschedulable  # noqa: PLC0415 - only with an autoscaler

    waiting_count = sum(other.key != pod.key and not other.terminated for other in cluster.unbound_pods())
    if not 0 < waiting_count <= MOST_WAITING:
        return new_node

    key = pod.metadata.namespace, pod.metadata.name
    cluster = replace(cluster, pods=cluster.pods.apply_changes({key: mark_pod_unschedulable(pod)}))
    growth = simulate_growth(cluster, autoscaler, max_loops=MOST_LOOPS_FOR_POD)
    if not growth.nodes:
        return new_node
    gets_node = pod.key in growth.placements
    accepting_pools = {pool.pool for pool in new_node.pools if pool.takes or pool.would_take or pool.sufficient_limits}
    accepting_growth = growth.select_pools(accepting_pools)
    is_pod_skipped = not accepting_growth.nodes and not gets_node and not new_node.would_launch
    if is_pod_skipped:
        return new_node  # the new nodes are only for other pods
    growth_for_pod = accepting_growth if accepting_growth.nodes else growth
    rivals = tuple(
        key for key in growth_for_pod.iter_pods_on_new_nodes() if key != pod.key and key in growth.placements
    )

    # Count the nodes that would be enough. Without the limits, enough nodes of the same pools are added.
    sufficient_growth = growth
    if not gets_node:
        sufficient_growth = simulate_growth(cluster, without_limits(), max_loops=MOST_LOOPS_FOR_POD)
    enough = None
    if pod.key in sufficient_growth.placements:
        enough = sufficient_growth.select_pools(accepting_pools).nodes or sufficient_growth.nodes
    share = QueueShare(
        nodes=growth_for_pod.nodes, rivals=rivals, placed=gets_node, enough=enough, growth=growth_for_pod.sentence
    )
    return replace(new_node, queue=share)


class QueueAfterGrowth(NamedTuple):
    """The state of the waiting pods once the new nodes are there."""

    still_pending: dict[str, str]
    """Pod that still waits although a node was added for it -> kube-scheduler's message."""
    rivals: tuple[str, ...]
    """Pods ahead in the queue that are on new nodes of the pools that grew for the pods that still wait."""
    enough: int | None
    """Number of new nodes that would suffice if pods are still pending, or None if further loops do not help."""


def replay_queue_with_new_nodes(
    cluster: Cluster, new: NewNodes, pools_by_pod: Mapping[str, Collection[str]], autoscaler: Autoscaler
) -> QueueAfterGrowth:
    """Replay the queue with the new nodes, and report which of the helped pods still wait.

    `pools_by_pod` maps the keys of the pods for which the nodes were added to the pools whose new nodes would take
    them. If some of these pods still wait, the report also names the pods ahead in the queue that took their room, and
    how many nodes would be enough, which further autoscaler loops show. Raises InputError if the autoscaler's input is
    invalid.
    """
    from kschedctl.replay.settling import settle  # noqa: PLC0415 - few clusters tell who makes their nodes

    # Pods that fit on existing nodes are placed before the new nodes are ready.
    settled = settle(add_new_nodes(settle(cluster).cluster, new))
    still_pending = {key: settled.waiting[key] for key in sorted(pools_by_pod) if key in settled.waiting}
    if not still_pending:
        return QueueAfterGrowth(still_pending={}, rivals=(), enough=None)

    # Find the pods ahead in the queue that took the new nodes, first those for which no node was added.
    waiting_pods = {pod.key: pod for pod in cluster.unbound_pods()}
    pools = {pool for key in still_pending for pool in pools_by_pod[key]}
    node_names = {node.metadata.name for pool in pools for node in new.nodes.get(pool, ())}
    lowest_priority = min(waiting_pods[key].spec.priority or 0 for key in still_pending)
    pods_ahead = [
        pod.key
        for pod in settled.cluster.pods
        if pod.spec.node_name in node_names and pod.key in waiting_pods and (pod.spec.priority or 0) >= lowest_priority
    ]
    rivals = tuple(key for key in pods_ahead if key not in pools_by_pod) or tuple(pods_ahead)

    # Find out how many nodes would be enough.
    further_growth = simulate_growth(settled.cluster, autoscaler, max_loops=MOST_LOOPS_FOR_POD)
    enough = None
    if still_pending.keys() <= further_growth.placements.keys():
        enough = sum(map(len, new.nodes.values())) + further_growth.nodes
    return QueueAfterGrowth(still_pending, rivals, enough)


MAX_LOOPS = 100
"""The maximum number of autoscaler loops that are replayed for all waiting pods."""
UNFINISHED = "after {}, it is still adding nodes"
"""The doubt about a simulation that was stopped."""


def simulate_growth(
    cluster: Cluster,
    autoscaler: Autoscaler,
    call_extender: CallExtender | None = None,
    *,
    explains: bool = False,
    max_loops: int | None = None,
) -> NodeGrowth:
    """Let an autoscaler add nodes for the pending pods until it adds no more, and report the new nodes and placements.

    The pods are placed on the nodes after each loop. If the autoscaler has not finished after `max_loops` loops (by
    default `MAX_LOOPS`), it is stopped and the report says so. With `explains`, the report says why no nodes are added
    for the pods that never get one. Raises InputError if the autoscaler's input is invalid.
    """
    from kschedctl.replay.settling import settle  # noqa: PLC0415 - few clusters tell who makes their nodes

    if max_loops is None:
        max_loops = MAX_LOOPS
    settled = settle(cluster, call_extender=call_extender)
    new_nodes = autoscaler.grow_for_pending_pods(settled.cluster)
    pool_by_node: dict[str, str] = {}
    daemon_keys: set[str] = set()
    loops = 0
    preempted = [*settled.preempted]
    while new_nodes.nodes and loops < max_loops:
        loops += 1
        pool_by_node |= {node.metadata.name: pool for pool, nodes in new_nodes.nodes.items() for node in nodes}
        daemon_keys |= {pod.key for pod in new_nodes.daemons}
        settled = settle(add_new_nodes(settled.cluster, new_nodes), call_extender=call_extender)
        preempted += settled.preempted
        new_nodes = autoscaler.grow_for_pending_pods(settled.cluster)

    # Report where the pending pods are now, and why the remaining ones get no node.
    pending_keys = {pod.key for pod in cluster.unbound_pods()}
    causes = autoscaler.explain_missing_nodes(settled.cluster) if explains and settled.waiting else {}
    unfinished = [UNFINISHED.format(counted(loops, "loop"))] if new_nodes.nodes else []
    placements = {
        pod.key: pod.spec.node_name for pod in settled.cluster.pods if pod.key in pending_keys and pod.spec.node_name
    }
    return NodeGrowth(
        autoscaler.name,
        loops=loops,
        nodes=len(pool_by_node),
        pools=tuple(_iter_new_nodes_by_pool(settled.cluster, pool_by_node, daemon_keys)),
        never=tuple(_report_never_scheduled_pods(settled, new_nodes.reasons, causes)),
        placements=placements,
        evicted=len(list_displaced_pods(preempted)),
        preempted=tuple(_update_fate(eviction, settled.cluster) for eviction in preempted),
        sources=autoscaler.sources,
        doubts=(*autoscaler.doubts, *unfinished),
    )


def _update_fate(eviction: EvictedPod, cluster: Cluster) -> EvictedPod:
    """Return the eviction with the node that the recreated pod has in the cluster, if it has one."""
    if eviction.fate not in (EvictionFate.MOVED, EvictionFate.PENDING):
        return eviction
    namespace, _, name = eviction.pod.partition("/")
    pod = cluster.pod(namespace, name)
    node = pod.spec.node_name if pod is not None else ""
    return replace(eviction, fate=EvictionFate.MOVED if node else EvictionFate.PENDING, target=node)


def add_new_nodes(cluster: Cluster, new: NewNodes) -> Cluster:
    """Return the cluster with the new nodes of all pools and their DaemonSet pods added."""
    nodes = (*cluster.nodes, *(node for nodes in new.nodes.values() for node in nodes))
    return add_or_replace_pods(replace(cluster, nodes=nodes), new.daemons)


def _iter_new_nodes_by_pool(
    cluster: Cluster, pool_by_node: Mapping[str, str], daemon_keys: Collection[str]
) -> Iterator[NewPoolNodes]:
    """Yield, for each pool and zone, the number of new nodes and the pods on these nodes, except DaemonSet pods.

    `pool_by_node` maps the names of the new nodes to their pools, and `daemon_keys` are the keys of their DaemonSet
    pods.
    """
    pods_by_node: dict[str, list[str]] = {}
    for pod in cluster.pods:
        if pod.spec.node_name in pool_by_node and pod.key not in daemon_keys:
            pods_by_node.setdefault(pod.spec.node_name, []).append(pod.key)
    nodes_by_pool_and_zone: dict[tuple[str, str], list[Node]] = {}
    for node in cluster.nodes:
        if node.metadata.name in pool_by_node:
            pool_and_zone = pool_by_node[node.metadata.name], node.metadata.labels.get(ZONE, "")
            nodes_by_pool_and_zone.setdefault(pool_and_zone, []).append(node)
    for (pool, zone), nodes in sorted(nodes_by_pool_and_zone.items()):
        keys = sorted(key for node in nodes for key in pods_by_node.get(node.metadata.name, ()))
        yield NewPoolNodes(pool, zone, new=len(nodes), pods=len(keys), pod_names=tuple(keys))


def _report_never_scheduled_pods(
    settled: SettledCluster, autoscaler_reasons: Mapping[str, str], causes: Mapping[str, tuple[str, ...]]
) -> Iterator[NeverScheduled]:
    """Yield the pods that still wait, grouped by the messages of kube-scheduler and of the autoscaler.

    `autoscaler_reasons` maps pods to why the autoscaler adds no nodes for them, and `causes` maps pods to what keeps
    each group or pool from adding nodes. Both may lack pods.
    """
    keys_by_messages: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for key, message in settled.waiting.items():
        messages = message, autoscaler_reasons.get(key, ""), causes.get(key, ())
        keys_by_messages.setdefault(messages, []).append(key)
    for (message, autoscaler_reason, pod_causes), keys in keys_by_messages.items():
        yield NeverScheduled(pods=tuple(keys), message=message, autoscaler=autoscaler_reason, causes=pod_causes)
