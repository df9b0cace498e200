"""Which nodes are meant, and nodes with other taints, labels or none at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.api.ownership import find_owner
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.snapshot.node_order import zone_key


def with_pods(cluster: Cluster, changes: Mapping[tuple[str, str], Pod | None]) -> Cluster:
    """The cluster with pods put in the place of those of their (namespace, name), or taken out where it is None."""
    return replace(cluster, pods=cluster.pods.apply_changes(changes))


def added(cluster: Cluster, pods: Iterable[Pod]) -> Cluster:
    """The cluster with these pods added, or replaced."""
    return with_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods})


def pods_where(cluster: Cluster, predicate: Callable[[Pod], bool], *, ended: bool = False) -> list[Pod]:
    """The pods for which a predicate holds that asks for neither name, node nor times; ``ended`` ones on demand."""

    def wanted(pod: Pod) -> bool:
        return (ended or not pod.terminated) and predicate(pod)

    return [cluster.pods[row] for row in cluster.pods.find_rows(wanted).tolist()]


def with_nodes(cluster: Cluster, change: Callable[[Node], Node | None]) -> Cluster:
    """The cluster with every node changed, or left out where the change is None."""
    changed = map(change, cluster.nodes)
    return replace(cluster, nodes=tuple(node for node in changed if node is not None))


def is_made_again(pod: Pod) -> bool:
    """Whether somebody makes the pod anew once it is gone: not a bare or a static one, nor one that is deleted."""
    return find_owner(pod).kind not in ("Node", "Pod") and pod.metadata.deletion_timestamp is None


def returns(pod: Pod) -> bool:
    """Whether somebody makes the pod anew once its node is gone: not a DaemonSet's pod, which belongs to the node."""
    return is_made_again(pod) and find_owner(pod).kind != "DaemonSet"


def pods_on(cluster: Cluster, nodes: Collection[str]) -> list[Pod]:
    """The pods that run on these nodes."""
    pods, names = cluster.pods, frozenset(nodes)
    chosen = np.array([name in names for name in pods.node.values], np.bool_)[pods.node.codes]
    return [pod for row in np.flatnonzero(chosen).tolist() if not (pod := pods[row]).terminated]


_NAMED = re.compile(r"^(nodes?|no)/")


def find_nodes(cluster: Cluster, names: Sequence[str] = (), selector: str = "") -> list[str]:
    """The nodes of these names, ``node/n1`` too, or with such labels. Raises UsageError when there is no such node."""
    names = [_NAMED.sub("", name) for name in names]
    known = {node.metadata.name: node for node in cluster.nodes}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known)
            raise UsageError(f'node "{name}" not found', hint=f"did you mean {' or '.join(near)}?" if near else "")
    nodes = list(dict.fromkeys(names))
    if selector:
        wanted = parse_selector(selector)
        nodes += [name for name, node in known.items() if wanted.matches(node.metadata.labels) and name not in nodes]
    if not nodes:
        raise UsageError(f'no node has labels "{selector}"' if selector else "no node is named")
    return nodes


def zone_of(node: Node) -> str:
    """The node's zone, empty for none."""
    return zone_key(node)[1]


def by_group(cluster: Cluster, group: Callable[[Node], str]) -> dict[str, list[str]]:
    """Zone, pool or whatever ``group`` tells -> its nodes; nodes without one are left out."""
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        if name := group(node):
            groups.setdefault(name, []).append(node.metadata.name)
    return dict(sorted(groups.items()))


def changed(cluster: Cluster, names: Collection[str], change: Callable[[Node], Node]) -> Cluster:
    """The cluster with these nodes changed."""
    chosen = frozenset(names)
    return with_nodes(cluster, lambda node: change(node) if node.metadata.name in chosen else node)


def cordoned(cluster: Cluster, names: Collection[str]) -> Cluster:
    """The cluster with nodes that take no more pods."""
    return changed(cluster, names, cordoned_node)


def cordoned_node(node: Node) -> Node:
    """The node, which takes no more pods."""
    return _tainted(_schedulable(node, False), [UNSCHEDULABLE_TAINT], [])


def uncordoned(cluster: Cluster, names: Collection[str]) -> Cluster:
    """The cluster with nodes that take pods again."""
    return changed(cluster, names, lambda node: _tainted(_schedulable(node, True), [], [UNSCHEDULABLE_TAINT]))


def tainted(cluster: Cluster, names: Collection[str], taints: Iterable[Taint], removed: Iterable[Taint]) -> Cluster:
    """Taints added to these nodes, and others taken off; an empty effect takes off those of any."""
    added, gone = list(taints), list(removed)
    return changed(cluster, names, lambda node: _tainted(node, added, gone))


def labelled(cluster: Cluster, names: Collection[str], labels: Mapping[str, str | None]) -> Cluster:
    """Labels set on these nodes, or taken off where the value is None."""

    def change(node: Node) -> Node:
        changed = {key: value for key, value in {**node.metadata.labels, **labels}.items() if value is not None}
        return replace(node, metadata=replace(node.metadata, labels=changed))

    return changed(cluster, names, change)


def _schedulable(node: Node, schedulable: bool) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=not schedulable))


def _tainted(node: Node, added: Sequence[Taint], gone: Sequence[Taint]) -> Node:
    """The node with taints added and removed; of two with one key and effect the later counts."""
    kept = [t for t in node.spec.taints if not any(t.key == g.key and g.effect in ("", t.effect) for g in gone)]
    taints = {(t.key, t.effect): t for t in (*kept, *added)}
    return replace(node, spec=replace(node.spec, taints=tuple(taints.values())))
