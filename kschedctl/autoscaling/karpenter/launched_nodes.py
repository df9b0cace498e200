"""Nodes that Karpenter would launch, in the form in which kube-scheduler would see them."""

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
from kschedctl.reports.karpenter import LaunchedClaim

READY = Condition("Ready", "True")


def build_launched_nodes(cluster: Cluster, claims: Iterable[LaunchedClaim], catalog: InstanceTypeCatalog) -> NewNodes:
    """Build a node for each claim from its cheapest offering, with the DaemonSets' pods."""
    used_names = {node.metadata.name for node in cluster.nodes}
    types = {sold_type.name: sold_type for sold_type in catalog.types}
    nodes: dict[str, tuple[Node, ...]] = {}
    for claim in claims:
        name = next(name for name in _iter_node_names(claim.node_pool) if name not in used_names)
        used_names.add(name)
        nodes[claim.node_pool] = (*nodes.get(claim.node_pool, ()), *_iter_claim_nodes(claim, name, types))
    made = (node for of_pool in nodes.values() for node in of_pool)
    return NewNodes(nodes, tuple(pod for node in made for pod in _iter_daemonset_pods(cluster, node)), {})


def _iter_node_names(pool: str) -> Iterator[str]:
    """Yield numbered node names for a pool, without end."""
    number = 0
    while number := number + 1:
        yield f"{pool}-new-{number}"


def _iter_claim_nodes(claim: LaunchedClaim, name: str, types: dict[str, InstanceType]) -> Iterator[Node]:
    """Yield the node that the claim launches, or nothing if the claim has no offering."""
    if claim.cheapest is None:
        return
    type_name, zone, capacity_type = claim.cheapest.options[0].split("|")
    instance_type = types[type_name]
    type_labels = {
        key: value
        for key, requirement in instance_type.requirements.items()
        if not requirement.complement and (value := requirement.any())
    }
    offering_labels = {key: value for key, value in ((ZONE, zone), (CAPACITY_TYPE, capacity_type)) if value}
    labels = {**claim.labels, **type_labels, **offering_labels, HOSTNAME: name, REGISTERED: "true", INITIALIZED: "true"}
    labels |= {old: labels[new] for old, new in NORMALIZED.items() if new in labels}  # kubelets set both
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in claim.taints)
    capacity: Resources = {resource: str(amount) for resource, amount in instance_type.capacity.items()}
    allocatable: Resources = {resource: str(amount) for resource, amount in instance_type.allocatable.items()}
    yield Node(
        ObjectMeta(name, labels=labels), NodeSpec(taints=taints), NodeStatus(allocatable, capacity, (), (READY,))
    )


def _iter_daemonset_pods(cluster: Cluster, node: Node) -> Iterator[Pod]:
    """Yield a pod of each DaemonSet that should run on the node."""
    for pod in Daemons(get_daemonset_pods(cluster)).find_expected_pods(StateNode(node, None)):
        meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node.metadata.name}", uid="")
        yield replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node.metadata.name))
