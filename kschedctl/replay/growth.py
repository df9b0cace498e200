"""Pods that find no room make an autoscaler add nodes, loop after loop, until nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node
from kschedctl.autoscaling.growth import Autoscaler, NewNodes
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import added
from kschedctl.replay.settling import Settled, settle
from kschedctl.reports.new_node import NeverScheduled, NewPoolNodes, NodeGrowth
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.snapshot.node_order import ZONE
from kschedctl.text.counts import counted

MOST_LOOPS = 100
UNFINISHED = "after {} it still adds nodes"


def grow(
    cluster: Cluster,
    autoscaler: Autoscaler,
    call_extender: CallExtender | None = None,
    *,
    explains: bool = False,
    most_loops: int | None = None,
) -> NodeGrowth:
    """Return what becomes of the pods that wait in a cluster at rest. Raises InputError.

    With ``explains``, the autoscaler is asked what keeps its groups or pools from making nodes for the pods that
    never get one. ``most_loops`` bounds the loops of the autoscaler.
    """
    begin = settle(cluster, call_extender=call_extender)
    pools: dict[str, str] = {}
    rest, loops = begin, 0
    new = autoscaler.grow(rest.cluster)
    evicted = 0
    while new.nodes and loops < (MOST_LOOPS if most_loops is None else most_loops):
        loops += 1
        pools |= {node.metadata.name: pool for pool, nodes in new.nodes.items() for node in nodes}
        rest = settle(with_nodes(rest.cluster, new), call_extender=call_extender)
        evicted += rest.evicted
        new = autoscaler.grow(rest.cluster)
    waited = {pod.key for pod in cluster.unbound_pods()}
    causes = autoscaler.find_causes(rest.cluster) if explains and rest.waiting else {}
    placements = {pod.key: pod.spec.node_name for pod in rest.cluster.pods if pod.key in waited and pod.spec.node_name}
    return NodeGrowth(
        autoscaler.name,
        loops=loops,
        nodes=len(pools),
        pools=tuple(_pools(rest.cluster, pools)),
        never=tuple(_never(rest, new.refused, causes)),
        placements=placements,
        evicted=evicted,
        sources=autoscaler.sources,
        doubts=(*autoscaler.doubts, *([UNFINISHED.format(counted(loops, "loop"))] if new.nodes else [])),
    )


def with_nodes(cluster: Cluster, new: NewNodes) -> Cluster:
    """The cluster with nodes that came, and the pods that came with them."""
    nodes = (*cluster.nodes, *(node for nodes in new.nodes.values() for node in nodes))
    return added(replace(cluster, nodes=nodes), new.daemons)


def _pools(cluster: Cluster, pools: Mapping[str, str]) -> Iterator[NewPoolNodes]:
    """By pool and zone; ``pools``: new node -> its pool."""
    new = [node for node in cluster.nodes if node.metadata.name in pools]
    pods = Counter(pod.spec.node_name for pod in cluster.pods)
    by_place: dict[tuple[str, str], list[Node]] = {}
    for node in new:
        by_place.setdefault((pools[node.metadata.name], node.metadata.labels.get(ZONE, "")), []).append(node)
    for (pool, zone), nodes in sorted(by_place.items()):
        held = sum(pods[node.metadata.name] for node in nodes)
        yield NewPoolNodes(pool, zone, len(nodes), held)


def _never(
    rest: Settled, refused: Mapping[str, str], causes: Mapping[str, tuple[str, ...]]
) -> Iterator[NeverScheduled]:
    """Yield the pods that wait in the end, grouped by what kube-scheduler and the autoscaler say of them."""
    by_words: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for key, message in rest.waiting.items():
        by_words.setdefault((message, refused.get(key, ""), causes.get(key, ())), []).append(key)
    for (message, words, known), keys in by_words.items():
        yield NeverScheduled(tuple(keys), message, words, known)
