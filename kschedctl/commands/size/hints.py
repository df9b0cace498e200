"""Hints on why a set takes fewer pods than the cluster: pods bound to their nodes, and what new nodes lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from kschedctl.api.objects import NodeSelector, Pod
from kschedctl.cluster import Cluster
from kschedctl.commands.size.shapes import NodeShape
from kschedctl.scheduler.plugins.helper.volumes.listers import Listers, get_listers, iter_claim_volumes
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.nodes import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, counted, first_few

MAX_LABEL_HINTS = 3
"""At most this many labels are named that new nodes lack."""


def find_nodes_to_keep(cluster: Cluster, pod_keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the nodes to which some of these running pods are bound by hostname, with the keys of the bound pods.

    A pod is bound to its node by a volume that only this node can access, or by its nodeSelector. The nodes are sorted
    by name.
    """
    pods_by_node: dict[str, list[str]] = {}
    storage = get_listers(Scheduler(cluster).view)
    for pod in cluster.pods:
        if pod.key in pod_keys and pod.spec.node_name and _is_bound_by_hostname(pod, storage):
            pods_by_node.setdefault(pod.spec.node_name, []).append(pod.key)
    return {node: tuple(pods) for node, pods in sorted(pods_by_node.items())}


def _is_bound_by_hostname(pod: Pod, storage: Listers) -> bool:
    """Return whether the pod's nodeSelector or one of its volumes names the hostname of its node."""
    if HOSTNAME in pod.spec.node_selector:
        return True
    for claim_volume in iter_claim_volumes(pod):
        claim = storage.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        volume = storage.volumes.get(claim.spec.volume_name) if claim else None
        affinity = volume.spec.node_affinity if volume else None
        if affinity is not None and affinity.required is not None and _names_hostname(affinity.required):
            return True
    return False


def _names_hostname(selector: NodeSelector) -> bool:
    """Return whether each term of the selector names hostnames."""
    return all(
        any(requirement.key == HOSTNAME and requirement.operator == "In" for requirement in term.match_expressions)
        for term in selector.node_selector_terms
    )


def iter_instance_type_hints(
    cluster: Cluster, shapes: Sequence[NodeShape], pods_without_node: Collection[str]
) -> Iterator[str]:
    """Yield hints about what nodes of the instance types lack: labels that pods select, and zones of the cluster.

    At most MAX_LABEL_HINTS labels are named: those selected by most of the pods still without a node. Hostnames and
    zones are left out. There is a hint about zones only if the types and the cluster have no zone in common.
    """
    yield from _iter_label_hints(shapes, [pod for pod in cluster.pods if pod.key in pods_without_node])

    zones_of_types = sorted({zone for shape in shapes for zone in shape.zones if zone})
    zones_of_cluster = sorted({node.metadata.labels[ZONE] for node in cluster.nodes if ZONE in node.metadata.labels})
    if zones_of_types and zones_of_cluster and not set(zones_of_types) & set(zones_of_cluster):
        yield (
            f"none of the zones of these types ({first_few(zones_of_types)}) is a zone of the cluster "
            f"({first_few(zones_of_cluster)}): volumes and zone selectors do not match"
        )


def _iter_label_hints(shapes: Sequence[NodeShape], pods: Iterable[Pod]) -> Iterator[str]:
    """Yield hints about the labels that most of the pods select and that no node of the shapes has."""
    models = [model for shape in shapes for model in shape.models.values()]
    offered_labels = {label for model in models for label in model.metadata.labels.items()}
    selecting_pods: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        lacking_labels = pod.spec.node_selector.items() - offered_labels
        # No --node-label can give all nodes one hostname or zone
        selecting_pods.update((key, value) for key, value in lacking_labels if key not in (HOSTNAME, ZONE))
    for (key, value), pod_count in selecting_pods.most_common(MAX_LABEL_HINTS):
        selects = agreeing(pod_count, "selects", "select")
        option = f"--node-label {key}={value} sizes nodes for {agreeing(pod_count, 'it', 'them')}"
        yield f"{counted(pod_count, 'pod')} {selects} {key}={value}, which no node of these types has: {option}"
