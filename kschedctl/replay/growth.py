"""Node growth: pending pods make an autoscaler add nodes, loop after loop, until nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node
from kschedctl.autoscaling.growth import Autoscaler, NewNodes
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import add_pods
from kschedctl.replay.settling import SettledCluster, settle
from kschedctl.reports.new_node import NeverScheduled, NewPoolNodes, NodeGrowth
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.snapshot.node_order import ZONE
from kschedctl.text.counts import counted

MAX_LOOPS = 100
UNFINISHED = "after {} it still adds nodes"


def simulate_growth(
    cluster: Cluster,
    autoscaler: Autoscaler,
    call_extender: CallExtender | None = None,
    *,
    explains: bool = False,
    max_loops: int | None = None,
) -> NodeGrowth:
    """Let an autoscaler add nodes for the pending pods until it adds no more, and report the result. Raises InputError.

    With ``explains``, the autoscaler is asked why its groups or pools add no nodes for the pods that never get one.
    """
    initial = settle(cluster, call_extender=call_extender)
    pools: dict[str, str] = {}
    settled, loops = initial, 0
    new_nodes = autoscaler.grow(settled.cluster)
    evicted = 0
    while new_nodes.nodes and loops < (MAX_LOOPS if max_loops is None else max_loops):
        loops += 1
        pools |= {node.metadata.name: pool for pool, nodes in new_nodes.nodes.items() for node in nodes}
        settled = settle(add_new_nodes(settled.cluster, new_nodes), call_extender=call_extender)
        evicted += settled.evicted
        new_nodes = autoscaler.grow(settled.cluster)
    pending_keys = {pod.key for pod in cluster.unbound_pods()}
    causes = autoscaler.find_obstacles(settled.cluster) if explains and settled.waiting else {}
    placements = {
        pod.key: pod.spec.node_name for pod in settled.cluster.pods if pod.key in pending_keys and pod.spec.node_name
    }
    return NodeGrowth(
        autoscaler.name,
        loops=loops,
        nodes=len(pools),
        pools=tuple(_report_pools(settled.cluster, pools)),
        never=tuple(_report_never_scheduled(settled, new_nodes.reasons, causes)),
        placements=placements,
        evicted=evicted,
        sources=autoscaler.sources,
        doubts=(*autoscaler.doubts, *([UNFINISHED.format(counted(loops, "loop"))] if new_nodes.nodes else [])),
    )


def add_new_nodes(cluster: Cluster, new: NewNodes) -> Cluster:
    """Return the cluster with new nodes and the DaemonSet pods that come with them."""
    nodes = (*cluster.nodes, *(node for nodes in new.nodes.values() for node in nodes))
    return add_pods(replace(cluster, nodes=nodes), new.daemons)


def _report_pools(cluster: Cluster, pools: Mapping[str, str]) -> Iterator[NewPoolNodes]:
    """Yield how many new nodes each pool got in each zone. ``pools`` maps new nodes to their pools."""
    new_nodes = [node for node in cluster.nodes if node.metadata.name in pools]
    pods = Counter(pod.spec.node_name for pod in cluster.pods)
    by_place: dict[tuple[str, str], list[Node]] = {}
    for node in new_nodes:
        by_place.setdefault((pools[node.metadata.name], node.metadata.labels.get(ZONE, "")), []).append(node)
    for (pool, zone), nodes in sorted(by_place.items()):
        pod_count = sum(pods[node.metadata.name] for node in nodes)
        yield NewPoolNodes(pool, zone, len(nodes), pod_count)


def _report_never_scheduled(
    settled: SettledCluster, refused: Mapping[str, str], causes: Mapping[str, tuple[str, ...]]
) -> Iterator[NeverScheduled]:
    """Yield the pods that still wait, grouped by the messages of kube-scheduler and of the autoscaler."""
    keys_by_messages: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for key, message in settled.waiting.items():
        keys_by_messages.setdefault((message, refused.get(key, ""), causes.get(key, ())), []).append(key)
    for (message, refusal, pod_causes), keys in keys_by_messages.items():
        yield NeverScheduled(tuple(keys), message, refusal, pod_causes)
