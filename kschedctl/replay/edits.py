"""Edits of a cluster, which change its pods, nodes, taints and labels, and the keys of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import ApiObject, Node, ObjectMeta, Pod, ResourceSlice, Taint
from kschedctl.api.ownership import find_owner
from kschedctl.api.priority import with_class_priority
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT
from kschedctl.cluster import CLUSTER_SCOPED, Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.errors import UsageError
from kschedctl.snapshot.nodes import get_region_and_zone
from kschedctl.text.counts import join_words


def change_pods(cluster: Cluster, changes: Mapping[tuple[str, str], Pod | None]) -> Cluster:
    """Return the cluster with pods replaced or added by namespace and name. None removes the pod of that name."""
    return replace(cluster, pods=cluster.pods.apply_changes(changes))


def add_or_replace_pods(cluster: Cluster, pods: Iterable[Pod]) -> Cluster:
    """Return the cluster with these pods added in place of any pods of the same names."""
    return change_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods})


def build_made_up_uid(pod: Pod) -> str:
    """Build the UID of a pod that the replay creates. It contains a slash, unlike UIDs from the API server."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def is_made_up(pod: Pod) -> bool:
    """Return whether the replay created the pod, which does not exist in the cluster."""
    return pod.metadata.uid == build_made_up_uid(pod)


def select_pods(cluster: Cluster, predicate: Callable[[Pod], bool], *, include_ended: bool = False) -> list[Pod]:
    """Return the pods that satisfy the predicate. Pods that have ended are included only with ``include_ended``.

    The predicate is called once per pod template, which has no name, UID, node, creation time or start time, so it must
    not read these fields.
    """

    def is_selected(pod: Pod) -> bool:
        """Return whether the pod is selected."""
        return (include_ended or not pod.terminated) and predicate(pod)

    return [cluster.pods[row] for row in cluster.pods.find_rows(is_selected).tolist()]


def copy_resource_slice(resource_slice: ResourceSlice, node: str) -> ResourceSlice:
    """Return a copy of the ResourceSlice for another node, with a name and a device pool of its own."""
    pool = replace(resource_slice.spec.pool, name=f"{resource_slice.spec.pool.name}-{node}")
    spec = replace(resource_slice.spec, node_name=node, pool=pool)
    return replace(resource_slice, metadata=ObjectMeta(f"{resource_slice.metadata.name}-{node}"), spec=spec)


def change_nodes(cluster: Cluster, change: Callable[[Node], Node | None]) -> Cluster:
    """Return the cluster with every node passed through ``change``, which returns None to remove a node."""
    nodes = map(change, cluster.nodes)
    return replace(cluster, nodes=tuple(node for node in nodes if node is not None))


def is_recreated(pod: Pod) -> bool:
    """Return whether a controller recreates the pod when it is gone.

    Bare pods, static pods and pods that are being deleted are not recreated.
    """
    return find_owner(pod).kind not in ("Node", "Pod") and pod.metadata.deletion_timestamp is None


def is_recreated_elsewhere(pod: Pod) -> bool:
    """Return whether a controller recreates the pod when its node is gone, which is not so for DaemonSets."""
    return is_recreated(pod) and find_owner(pod).kind != "DaemonSet"


def recreate_pod_with_current_priority(pod: Pod, cluster: Cluster) -> Pod:
    """Return the pod that a controller creates in place of the pod, with the current priority of its PriorityClass."""
    return with_class_priority(recreate_pod(pod, cluster), cluster.priority_classes)


def with_current_priorities(cluster: Cluster, nodes: Collection[str]) -> Cluster:
    """Return the cluster in which the pods on these nodes have the priorities with which they would be recreated.

    This is for replays that take the pods off these nodes and then schedule them as they are.
    """
    changes: dict[tuple[str, str], Pod | None] = {}
    for pod in find_pods_on_nodes(cluster, nodes):
        current_pod = with_class_priority(pod, cluster.priority_classes) if is_recreated(pod) else pod
        if current_pod is not pod:
            changes[pod.metadata.namespace, pod.metadata.name] = current_pod
    return change_pods(cluster, changes) if changes else cluster


def find_nodes_with_outdated_priorities(cluster: Cluster) -> frozenset[str]:
    """Return the names of the nodes with pods that would be recreated with another priority."""
    classes = cluster.priority_classes
    pods = select_pods(cluster, lambda pod: is_recreated(pod) and with_class_priority(pod, classes) is not pod)
    return frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name)


def find_pods_on_nodes(cluster: Cluster, nodes: Collection[str]) -> list[Pod]:
    """Return the pods on these nodes that have not ended."""
    pods = cluster.pods
    names = frozenset(nodes)
    is_named = np.array([name in names for name in pods.node.values], np.bool_)
    rows_on_nodes = np.flatnonzero(is_named[pods.node.codes])
    pods_on_nodes = (pods[row] for row in rows_on_nodes.tolist())
    return [pod for pod in pods_on_nodes if not pod.terminated]


_NODE_PREFIX = re.compile(r"^(nodes?|no)/")


def find_node_names(cluster: Cluster, names: Sequence[str] = (), selector: str = "") -> list[str]:
    """Return the names of the named nodes, followed by other nodes whose labels match the selector.

    Names may have a prefix, as in ``node/n1``. Raises UsageError if a named node does not exist, if no node matches the
    selector, or if nothing is named.
    """
    names = [_NODE_PREFIX.sub("", name) for name in names]
    nodes_by_name = {node.metadata.name: node for node in cluster.nodes}
    for name in names:
        if name not in nodes_by_name:
            similar = get_close_matches(name, nodes_by_name)
            hint = f"did you mean {join_words(similar, 'or')}?" if similar else ""
            raise UsageError(f'node "{name}" not found', hint=hint)
    # Named nodes first, then nodes that match the selector
    nodes = list(dict.fromkeys(names))
    if selector:
        label_selector = parse_selector(selector)
        for name, node in nodes_by_name.items():
            if label_selector.matches(node.metadata.labels) and name not in nodes:
                nodes.append(name)
    if not nodes and selector:
        raise UsageError(f'no node has labels that match "{selector}"')
    if not nodes:
        raise UsageError("no node is named")
    return nodes


def get_zone(node: Node) -> str:
    """Return the node's zone, or an empty string if it has none."""
    _, zone = get_region_and_zone(node)
    return zone


def group_nodes(cluster: Cluster, get_group: Callable[[Node], str]) -> dict[str, list[str]]:
    """Group node names by zone, pool or whatever ``get_group`` returns, sorted by group.

    Nodes with an empty group are left out.
    """
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        if group := get_group(node):
            groups.setdefault(group, []).append(node.metadata.name)
    return dict(sorted(groups.items()))


def change_named_nodes(cluster: Cluster, names: Collection[str], change: Callable[[Node], Node]) -> Cluster:
    """Return the cluster with these nodes changed."""
    name_set = frozenset(names)
    return change_nodes(cluster, lambda node: change(node) if node.metadata.name in name_set else node)


def cordon_nodes(cluster: Cluster, names: Collection[str]) -> Cluster:
    """Return the cluster with these nodes cordoned."""
    return change_named_nodes(cluster, names, cordon_node)


def cordon_node(node: Node) -> Node:
    """Return the node cordoned, with the taint that marks a cordon."""
    return _change_taints(_set_schedulable(node, schedulable=False), [UNSCHEDULABLE_TAINT], removed=[])


def uncordon_nodes(cluster: Cluster, names: Collection[str]) -> Cluster:
    """Return the cluster with these nodes uncordoned."""
    return change_named_nodes(
        cluster,
        names,
        lambda node: _change_taints(_set_schedulable(node, schedulable=True), added=[], removed=[UNSCHEDULABLE_TAINT]),
    )


def change_node_taints(
    cluster: Cluster, names: Collection[str], taints: Iterable[Taint], removed: Iterable[Taint]
) -> Cluster:
    """Return the cluster with some taints removed from these nodes and others added to them.

    A removed taint without an effect stands for all effects. An added taint replaces one of the same key and effect.
    """
    added_taints, removed_taints = list(taints), list(removed)
    return change_named_nodes(cluster, names, lambda node: _change_taints(node, added_taints, removed_taints))


def set_node_labels(cluster: Cluster, names: Collection[str], labels: Mapping[str, str | None]) -> Cluster:
    """Return the cluster with labels set on these nodes, or removed if the value is None."""

    def change(node: Node) -> Node:
        """Return the node with the changed labels."""
        changed = {key: value for key, value in {**node.metadata.labels, **labels}.items() if value is not None}
        return replace(node, metadata=replace(node.metadata, labels=changed))

    return change_named_nodes(cluster, names, change)


def _set_schedulable(node: Node, schedulable: bool) -> Node:
    """Return the node with spec.unschedulable set or unset."""
    return replace(node, spec=replace(node.spec, unschedulable=not schedulable))


def _change_taints(node: Node, added: Sequence[Taint], removed: Sequence[Taint]) -> Node:
    """Return the node with taints removed and then added.

    A removed taint without an effect stands for all effects. An added taint replaces a taint of the same key and
    effect.
    """
    removed_pairs = {(taint.key, taint.effect) for taint in removed}
    taints = {}
    for taint in node.spec.taints:
        if removed_pairs.isdisjoint({(taint.key, taint.effect), (taint.key, "")}):
            taints[taint.key, taint.effect] = taint
    for taint in added:
        taints[taint.key, taint.effect] = taint
    return replace(node, spec=replace(node.spec, taints=tuple(taints.values())))


class ObjectKey(NamedTuple):
    """The kind, namespace and name of an object."""

    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    @classmethod
    def of(cls, api_object: ApiObject) -> ObjectKey:
        """Return the key of a typed object."""
        kind = type(api_object).__name__
        namespace = "" if kind in CLUSTER_SCOPED else api_object.metadata.namespace
        return cls(kind, namespace, api_object.metadata.name)

    def __str__(self) -> str:
        """Return the key as ``Pod shop/web``."""
        if not self.namespace:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.namespace}/{self.name}"
