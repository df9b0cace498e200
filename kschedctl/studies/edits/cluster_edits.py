"""A cluster with other pods or nodes than it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from kschedctl.api.objects import Node, Pod
from kschedctl.api.ownership import owner_of
from kschedctl.cluster import Cluster


def with_pods(cluster: Cluster, changes: Mapping[tuple[str, str], Pod | None]) -> Cluster:
    """The cluster with pods put in the place of those of their (namespace, name), or taken out where it is None."""
    return replace(cluster, pods=cluster.pods.with_changes(changes))


def added(cluster: Cluster, pods: Iterable[Pod]) -> Cluster:
    """The cluster with these pods added, or replaced."""
    return with_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods})


def pods_where(cluster: Cluster, predicate: Callable[[Pod], bool], *, ended: bool = False) -> list[Pod]:
    """The pods for which a predicate holds that asks for neither name, node nor times; ``ended`` ones on demand."""

    def wanted(pod: Pod) -> bool:
        return (ended or not pod.terminated) and predicate(pod)

    return [cluster.pods[row] for row in cluster.pods.rows_where(wanted).tolist()]


def with_nodes(cluster: Cluster, change: Callable[[Node], Node | None]) -> Cluster:
    """The cluster with every node changed, or left out where the change is None."""
    changed = map(change, cluster.nodes)
    return replace(cluster, nodes=tuple(node for node in changed if node is not None))


def is_made_again(pod: Pod) -> bool:
    """Whether somebody makes the pod anew once it is gone: not a bare or a static one, nor one that is deleted."""
    return owner_of(pod).kind not in ("Node", "Pod") and pod.metadata.deletion_timestamp is None


def returns(pod: Pod) -> bool:
    """The same once its node is gone, to which a DaemonSet's pod belongs."""
    return is_made_again(pod) and owner_of(pod).kind != "DaemonSet"


def pods_on(cluster: Cluster, nodes: Collection[str]) -> list[Pod]:
    """The pods that run on these nodes."""
    pods, names = cluster.pods, frozenset(nodes)
    chosen = np.array([name in names for name in pods.node.values], np.bool_)[pods.node.codes]
    return [pod for row in np.flatnonzero(chosen).tolist() if not (pod := pods[row]).terminated]
