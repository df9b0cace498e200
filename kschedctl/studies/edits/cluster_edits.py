"""A cluster with other pods or nodes than it has, and whose its pods are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from kschedctl.api.objects import Node, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.workloads import TEMPLATE_HASH
from kschedctl.cluster import Cluster

Owner = tuple[str, str, str]
"""Kind, namespace, name."""


def with_pods(cluster: Cluster, changes: Mapping[tuple[str, str], Pod | None]) -> Cluster:
    """The cluster with pods put in the place of those of their (namespace, name), or taken out where it is None."""
    if isinstance(cluster.pods, PodTable):
        return replace(cluster, pods=cluster.pods.with_changes(changes))
    pods: dict[tuple[str, str], Pod | None] = {(p.metadata.namespace, p.metadata.name): p for p in cluster.pods}
    pods |= changes
    return replace(cluster, pods=tuple(pod for _, pod in sorted(pods.items()) if pod is not None))


def added(cluster: Cluster, pods: Iterable[Pod]) -> Cluster:
    """The cluster with these pods added, or replaced."""
    return with_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods})


def pods_where(cluster: Cluster, predicate: Callable[[Pod], bool], *, ended: bool = False) -> list[Pod]:
    """The pods for which a predicate holds that asks for neither name, node nor times; ``ended`` ones on demand."""

    def wanted(pod: Pod) -> bool:
        return (ended or not pod.terminated) and predicate(pod)

    pods = cluster.pods
    if isinstance(pods, PodTable):
        return [pods[int(row)] for row in pods.rows_where(wanted)]
    return [pod for pod in pods if wanted(pod)]


def with_nodes(cluster: Cluster, change: Callable[[Node], Node | None]) -> Cluster:
    """The cluster with every node changed, or left out where the change is None."""
    changed = map(change, cluster.nodes)
    return replace(cluster, nodes=tuple(node for node in changed if node is not None))


def owner_of(pod: Pod) -> Owner:
    """The workload that a pod belongs to, of a ReplicaSet the Deployment behind it; a bare pod is its own."""
    meta = pod.metadata
    owner = next((o for o in meta.owner_references if o.controller), None)
    if owner is None:
        return "Pod", meta.namespace, meta.name
    suffix = f"-{meta.labels.get(TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return "Deployment", meta.namespace, owner.name.removesuffix(suffix)
    return owner.kind, meta.namespace, owner.name


def workload_of(pod: Pod) -> str:
    """``Deployment shop/web``."""
    kind, namespace, name = owner_of(pod)
    return f"{kind} {namespace}/{name}"


def is_made_again(pod: Pod) -> bool:
    """Whether somebody makes the pod anew once it is gone: not a bare or a static one, nor one that is deleted."""
    return owner_of(pod)[0] not in ("Node", "Pod") and pod.metadata.deletion_timestamp is None


def returns(pod: Pod) -> bool:
    """The same once its node is gone, to which a DaemonSet's pod belongs."""
    return is_made_again(pod) and owner_of(pod)[0] != "DaemonSet"


def pods_on(cluster: Cluster, nodes: Collection[str]) -> list[Pod]:
    """The pods that run on these nodes."""
    pods, names = cluster.pods, frozenset(nodes)
    if isinstance(pods, PodTable):
        chosen = np.array([name in names for name in pods.node.values], np.bool_)[pods.node.codes]
        return [pod for row in np.flatnonzero(chosen).tolist() if not (pod := pods[row]).terminated]
    return [pod for pod in pods if pod.spec.node_name in names and not pod.terminated]
