"""Nodes that Karpenter would launch, as kube-scheduler would see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node, NodeSpec, NodeStatus, ObjectMeta, Pod, Resources, Taint
from kschedctl.autoscaling.growth import NewNodes
from kschedctl.autoscaling.karpenter.daemons import Daemons, get_daemonset_pods
from kschedctl.autoscaling.karpenter.instance_types import InstanceType, InstanceTypeCatalog
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, HOSTNAME, INITIALIZED, NORMALIZED, REGISTERED, ZONE
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.cluster import Cluster
from kschedctl.reports.provisioning import LaunchedClaim

READY = Condition("Ready", "True")


def build_launched_nodes(cluster: Cluster, claims: Iterable[LaunchedClaim], sold: InstanceTypeCatalog) -> NewNodes:
    """Build a node of the cheapest offering for each claim, with the pods of DaemonSets."""
    used_names = {node.metadata.name for node in cluster.nodes}
    types = {sold_type.name: sold_type for sold_type in sold.types}
    nodes: dict[str, tuple[Node, ...]] = {}
    for claim in claims:
        name = next(name for name in _iter_names(claim.node_pool) if name not in used_names)
        used_names.add(name)
        nodes[claim.node_pool] = (*nodes.get(claim.node_pool, ()), *_iter_node(claim, name, types))
    made = (node for of_pool in nodes.values() for node in of_pool)
    return NewNodes(nodes, tuple(pod for node in made for pod in _iter_daemonset_pods(cluster, node)), {})


def _iter_names(pool: str) -> Iterator[str]:
    """Yield numbered node names for a pool without end."""
    number = 0
    while number := number + 1:
        yield f"{pool}-new-{number}"


def _iter_node(claim: LaunchedClaim, name: str, types: dict[str, InstanceType]) -> Iterator[Node]:
    """Yield the claim's node, or nothing if it has no available offering."""
    if claim.cheapest is None:
        return
    type_name, zone, capacity_type = claim.cheapest.options[0].split("|")
    own = types[type_name]
    single = {
        key: value
        for key, requirement in own.requirements.items()
        if not requirement.complement and (value := requirement.any())
    }
    place = {key: value for key, value in ((ZONE, zone), (CAPACITY_TYPE, capacity_type)) if value}
    labels = {**claim.labels, **single, **place, HOSTNAME: name, REGISTERED: "true", INITIALIZED: "true"}
    labels |= {old: labels[new] for old, new in NORMALIZED.items() if new in labels}  # kubelets set both
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in claim.taints)
    capacity: Resources = {resource: str(amount) for resource, amount in own.capacity.items()}
    allocatable: Resources = {resource: str(amount) for resource, amount in own.allocatable.items()}
    yield Node(
        ObjectMeta(name, labels=labels), NodeSpec(taints=taints), NodeStatus(allocatable, capacity, (), (READY,))
    )


def _iter_daemonset_pods(cluster: Cluster, node: Node) -> Iterator[Pod]:
    """Yield a pod of each DaemonSet that should run on the node."""
    for pod in Daemons(get_daemonset_pods(cluster)).find_expected(StateNode(node, None)):
        meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node.metadata.name}", uid="")
        yield replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node.metadata.name))
