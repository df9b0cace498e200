"""Whether the node that an autoscaler makes for a pod is left to it, once all pods that wait pass the queue."""

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
"""With more pods waiting, their queue is not replayed for a single pod: the answer for all pods tells it."""


def count_waiting_pods(
    new_node: NewNode, cluster: Cluster, pod: Pod, autoscaler: Autoscaler, without_limits: Callable[[], Autoscaler]
) -> NewNode:
    """Return the answer for a pod, with what all other waiting pods make of it.

    The autoscaler makes nodes for all pods that wait, and kube-scheduler places the pods in the order of its queue.
    If other pods take all nodes that may come, the autoscaler ``without_limits`` says how many would be enough.
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
    """What becomes of waiting pods once new nodes are there."""

    still_pending: dict[str, str]
    """Pod for which a node was made, and which has none -> kube-scheduler's message."""
    rivals: tuple[str, ...]
    """Pods for which no node was made, and that take room on the new nodes."""
    enough: int | None
    """How many new nodes would be enough, if pods are still pending; None if none that further loops add is."""


def queue_with_new_nodes(
    cluster: Cluster, new: NewNodes, promised: Sequence[str], autoscaler: Autoscaler
) -> QueueAfterGrowth:
    """Return what becomes of the pods for which the new nodes were made, once all waiting pods pass the queue.

    The autoscaler goes on where its new nodes are not enough. Raises InputError.
    """
    there = {node.metadata.name for node in cluster.nodes}
    rest = settle(add_new_nodes(cluster, new))
    still_pending = {key: rest.waiting[key] for key in sorted(promised) if key in rest.waiting}
    if not still_pending:
        return QueueAfterGrowth({}, (), None)
    waited, wanted = {pod.key for pod in cluster.unbound_pods()}, frozenset(promised)
    rivals = tuple(
        pod.key
        for pod in rest.cluster.pods
        if pod.key in waited and pod.key not in wanted and pod.spec.node_name and pod.spec.node_name not in there
    )
    more = simulate_growth(rest.cluster, autoscaler, max_loops=MOST_LOOPS)
    enough = sum(map(len, new.nodes.values())) + more.nodes
    return QueueAfterGrowth(still_pending, rivals, enough if still_pending.keys() <= more.placements.keys() else None)


def _find_rivals(cluster: Cluster, pod: Pod, growth: NodeGrowth) -> tuple[str, ...]:
    """Return the keys of the other pods that are on new nodes in the end."""
    there = {node.metadata.name for node in cluster.nodes}
    return tuple(key for key, node in growth.placements.items() if node not in there and key != pod.key)
