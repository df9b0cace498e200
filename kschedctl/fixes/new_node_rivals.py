"""Predict whether a pod gets the node that an autoscaler adds for it, once all waiting pods pass the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.growth import Autoscaler, NewNodes, mark_unschedulable
from kschedctl.cluster import Cluster
from kschedctl.replay.growth import add_new_nodes, simulate_growth
from kschedctl.replay.settling import settle
from kschedctl.reports.new_node import NewNode, NodeGrowth, QueueShare

MOST_LOOPS = 10
"""How many loops of the autoscaler are replayed to find out how many nodes are enough."""
MOST_WAITING = 300
"""With more waiting pods than this, the queue is not replayed for a single pod."""


def add_queue_share(
    new_node: NewNode, cluster: Cluster, pod: Pod, autoscaler: Autoscaler, without_limits: Callable[[], Autoscaler]
) -> NewNode:
    """Return the answer for a pod, extended by its share of the new nodes when all waiting pods compete.

    The autoscaler adds nodes for all waiting pods, and kube-scheduler places the pods in the order of its queue. If
    other pods take all nodes that may come, the autoscaler `without_limits` says how many would be enough.
    """
    key = pod.metadata.namespace, pod.metadata.name
    waiting = sum(other.key != pod.key and not other.terminated for other in cluster.unbound_pods())
    if not waiting or waiting > MOST_WAITING:
        return new_node
    cluster = replace(cluster, pods=cluster.pods.apply_changes({key: mark_unschedulable(pod)}))
    growth = simulate_growth(cluster, autoscaler, max_loops=MOST_LOOPS)
    if not growth.nodes:
        return new_node
    rivals = _find_rivals(cluster, pod, growth)
    if pod.key in growth.placements:
        share = QueueShare(growth.nodes, rivals, True, growth.nodes, growth.sentence)
    else:
        enough = simulate_growth(cluster, without_limits(), max_loops=MOST_LOOPS)
        share = QueueShare(
            growth.nodes, rivals, False, enough.nodes if pod.key in enough.placements else None, growth.sentence
        )
    return replace(new_node, queue=share)


class QueueAfterGrowth(NamedTuple):
    """The state of the waiting pods once the new nodes are there."""

    still_pending: dict[str, str]
    """Pod that still waits although a node was added for it -> kube-scheduler's message."""
    rivals: tuple[str, ...]
    """Pods that are on the new nodes although no node was added for them."""
    enough: int | None
    """Number of new nodes that would suffice if pods are still pending, or None if further loops do not help."""


def replay_queue_with_new_nodes(
    cluster: Cluster, new: NewNodes, helped_pods: Sequence[str], autoscaler: Autoscaler
) -> QueueAfterGrowth:
    """Replay the queue with the new nodes and report which of the pods they were added for still wait.

    If the new nodes are not enough, the autoscaler goes on. Raises InputError.
    """
    old_nodes = {node.metadata.name for node in cluster.nodes}
    settled = settle(add_new_nodes(cluster, new))
    still_pending = {key: settled.waiting[key] for key in sorted(helped_pods) if key in settled.waiting}
    if not still_pending:
        return QueueAfterGrowth({}, (), None)
    waiting_before, helped = {pod.key for pod in cluster.unbound_pods()}, frozenset(helped_pods)
    rivals = tuple(
        pod.key
        for pod in settled.cluster.pods
        if pod.key in waiting_before
        and pod.key not in helped
        and pod.spec.node_name
        and pod.spec.node_name not in old_nodes
    )
    further_growth = simulate_growth(settled.cluster, autoscaler, max_loops=MOST_LOOPS)
    enough = sum(map(len, new.nodes.values())) + further_growth.nodes
    return QueueAfterGrowth(
        still_pending, rivals, enough if still_pending.keys() <= further_growth.placements.keys() else None
    )


def _find_rivals(cluster: Cluster, pod: Pod, growth: NodeGrowth) -> tuple[str, ...]:
    """Return the keys of the other pods that end up on new nodes."""
    old_nodes = {node.metadata.name for node in cluster.nodes}
    return tuple(key for key, node in growth.placements.items() if node not in old_nodes and key != pod.key)
