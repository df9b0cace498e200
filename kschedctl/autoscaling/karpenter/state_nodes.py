"""Nodes as Karpenter tracks them, with their pods, and the instance types that can be derived from them.

Upstream: pkg/controllers/state/statenode.go, cluster.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodeClaim
from kschedctl.api.objects import Node, Pod, Resources, Taint
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.amounts import ZERO, subtract_quantities, sum_pod_requests, sum_quantities
from kschedctl.autoscaling.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    INSTANCE_TYPE_PREFIXES,
    NODE_POOL,
    OS,
    PROVIDER_CAPACITY_TYPES,
    REGISTERED,
    ZONE,
)
from kschedctl.autoscaling.karpenter.pods import is_daemon_set_pod
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.cluster import Cluster

NODES = "nodes"
EPHEMERAL = frozenset(
    (
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        ("karpenter.sh/unregistered", "NoExecute"),
    )
)
"""Key and effect of taints that are removed once a node has come up."""
EPHEMERAL_PREFIX = "readiness.k8s.io/"
INSTANCE_TERMINATING = "InstanceTerminating"


@dataclass(eq=False)
class StateNode:
    """A Node with its NodeClaim. One of them may be missing."""

    node: Node | None
    claim: NodeClaim | None
    bound: list[Pod] = field(default_factory=list)
    """Pods on the node, including terminated ones."""

    @cached_property
    def pods(self) -> list[Pod]:
        """The pods on the node that have not ended."""
        return [pod for pod in self.bound if not pod.terminated]

    @property
    def managed(self) -> bool:
        """True if the node has a NodeClaim."""
        return self.claim is not None

    @cached_property
    def registered(self) -> bool:
        """True if the node has registered. Nodes without a NodeClaim count as registered."""
        return not self.managed or _has_true_label(self.node, REGISTERED)

    @cached_property
    def initialized(self) -> bool:
        """True if the node is initialized. Nodes without a NodeClaim count as initialized."""
        return not self.managed or _has_true_label(self.node, INITIALIZED)

    @cached_property
    def _metadata_source(self) -> Node | NodeClaim:
        """The object that has the valid name and labels: the NodeClaim until the node registers, then the Node."""
        if self.node is not None and (self.claim is None or self.registered):
            return self.node
        assert self.claim is not None
        return self.claim

    @property
    def name(self) -> str:
        """The name of the Node, or the NodeClaim's name until the node has registered."""
        return self._metadata_source.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the Node, or the NodeClaim's labels until the node has registered."""
        return self._metadata_source.metadata.labels

    @cached_property
    def own_labels(self) -> Requirements:
        """The labels of the Node object as requirements, even before the node has registered."""
        return Requirements.from_labels(self.node.metadata.labels if self.node else {})

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the Node, or the NodeClaim's annotations until the node has registered."""
        return self._metadata_source.metadata.annotations

    @property
    def hostname(self) -> str:
        """The value of the hostname label, or the name if there is no such label."""
        return self.labels.get(HOSTNAME) or self.name

    @property
    def pool(self) -> str:
        """The name of the node's NodePool, or "" if it belongs to none."""
        return self.labels.get(NODE_POOL, "")

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints of the node, or those of its NodeClaim if it has not registered yet.

        Until a node with a NodeClaim is initialized, its startup taints and known ephemeral taints are left out.
        """
        claim = self.claim
        if claim is None:
            return self.node.spec.taints if self.node else ()
        taints = claim.spec.taints if self.node is None or not self.registered else self.node.spec.taints
        if self.initialized:
            return taints
        startup_taints = {(taint.key, taint.effect) for taint in claim.spec.startup_taints}
        lasting_taints = (taint for taint in taints if not _is_ephemeral_taint(taint))
        return tuple(taint for taint in lasting_taints if (taint.key, taint.effect) not in startup_taints)

    @cached_property
    def capacity(self) -> Quantities:
        """The capacity, filled in from the NodeClaim until the node is initialized, with one unit of ``nodes``."""
        reported = self.node.status.capacity if self.node else {}
        claimed = self.claim.status.capacity if self.claim else {}
        return {**self._compute_reported_amounts(reported, claimed), NODES: Quantity(1)}

    @cached_property
    def allocatable(self) -> Quantities:
        """The allocatable resources, filled in from the NodeClaim until the node is initialized."""
        reported = self.node.status.allocatable if self.node else {}
        claimed = self.claim.status.allocatable if self.claim else {}
        return self._compute_reported_amounts(reported, claimed)

    def _compute_reported_amounts(self, reported: Resources, claimed: Resources) -> Quantities:
        """Return the amounts that the node reports.

        Until the node is initialized, amounts that are missing or 0 are taken from its claim.
        """
        amounts = parse_quantities(reported)
        if self.initialized:
            return amounts
        for name, claimed_amount in parse_quantities(claimed).items():
            if amounts.get(name, ZERO) == ZERO:
                amounts[name] = claimed_amount
        return amounts

    @cached_property
    def available(self) -> Quantities:
        """The allocatable resources minus the requests of the node's pods."""
        requested = sum_quantities(*(sum_pod_requests([pod]) for pod in self.pods))
        return subtract_quantities(self.allocatable, requested)

    @cached_property
    def daemon_requests(self) -> Quantities:
        """The requests of the DaemonSets' pods on the node."""
        return sum_quantities(*(sum_pod_requests([pod]) for pod in self.pods if is_daemon_set_pod(pod)))

    @cached_property
    def deleting(self) -> bool:
        """True if the node is being deleted or its instance is terminating."""
        if self.claim is not None:
            conditions = self.claim.status.conditions
            is_terminating = any(
                condition.type == INSTANCE_TERMINATING and condition.status == "True" for condition in conditions
            )
            return is_terminating or self.claim.metadata.deletion_timestamp is not None
        return self.node is not None and self.node.metadata.deletion_timestamp is not None


def build_state_nodes(cluster: Cluster) -> list[StateNode]:
    """Build the nodes that Karpenter tracks, by joining Nodes and NodeClaims with the same provider id.

    Each node gets the pods that are bound to it. Objects without a provider id are left out.
    """
    by_provider: dict[str, StateNode] = {}
    for node in cluster.nodes:
        if provider_id := _get_provider_id(node):
            by_provider[provider_id] = StateNode(node, claim=None)
    for claim in cluster.node_claims:
        if provider_id := claim.status.provider_id:
            by_provider.setdefault(provider_id, StateNode(node=None, claim=None)).claim = claim

    by_name = {state.node.metadata.name: state for state in by_provider.values() if state.node is not None}
    for pod in cluster.pods:
        if pod.spec.node_name in by_name:
            by_name[pod.spec.node_name].bound.append(pod)
    return list(by_provider.values())


def _get_provider_id(node: Node) -> str:
    """Return the id by which Karpenter tracks the node, or "" if Karpenter does not track the node yet.

    This is the node's provider id, or the node's name if Karpenter did not launch the node and the node has no provider
    id.
    """
    labels = node.metadata.labels
    if not labels.get(NODE_POOL):
        return node.spec.provider_id or node.metadata.name
    if not labels.get(INSTANCE_TYPE) and not labels.get(INITIALIZED):
        return ""
    return node.spec.provider_id


def _has_true_label(node: Node | None, label: str) -> bool:
    """Return whether the node exists and its label has the value "true"."""
    return node is not None and node.metadata.labels.get(label) == "true"


def _is_ephemeral_taint(taint: Taint) -> bool:
    """Return whether the taint is removed once the node is initialized."""
    return (taint.key, taint.effect) in EPHEMERAL or taint.key.startswith(EPHEMERAL_PREFIX)


def derive_instance_types(cluster: Cluster) -> list[JsonObject]:
    """Derive instance types from the existing nodes, in the format of instance_types.json.

    The last node of a type determines its size, and nodes without a known size are ignored. The types have no prices,
    and the cloud may offer more types than the cluster uses.
    """
    nodes_by_type: dict[str, list[StateNode]] = {}
    for state in build_state_nodes(cluster):
        has_known_size = state.node is not None or (state.claim is not None and state.claim.status.allocatable)
        type_name = state.labels.get(INSTANCE_TYPE)
        if type_name and has_known_size:
            nodes_by_type.setdefault(type_name, []).append(state)
    return [_build_type_document(name, type_nodes) for name, type_nodes in sorted(nodes_by_type.items())]


def _build_type_document(name: str, nodes: list[StateNode]) -> JsonObject:
    """Build the document of one instance type from its nodes, the last of which determines the size.

    The type has an offering for each combination of zone and capacity type in the labels of its nodes. It gets the
    provider's labels that all nodes share.
    """
    last = nodes[-1]
    capacity = {resource: amount for resource, amount in last.capacity.items() if resource != NODES}
    overhead = subtract_quantities(capacity, last.allocatable)
    places = sorted({(node.labels.get(ZONE, ""), find_capacity_type(node.labels)) for node in nodes})
    offerings = [  # the price 0 stands for an unknown one
        {"Price": 0, "Requirements": _build_label_terms({ZONE: zone, CAPACITY_TYPE: capacity_type})}
        for zone, capacity_type in places
    ]
    document = {
        "name": name,
        "architecture": last.labels.get(ARCH, ""),
        "operatingSystems": [last.labels[OS]] if OS in last.labels else [],
        "resources": {resource: str(amount) for resource, amount in capacity.items()},
        "overhead": _drop_non_positive_amounts({resource: str(amount) for resource, amount in overhead.items()}),
        "offerings": offerings,
    }

    common_labels = {
        key: value
        for key, value in last.labels.items()
        if key.startswith(INSTANCE_TYPE_PREFIXES) and all(node.labels.get(key) == value for node in nodes)
    }
    if common_labels:
        document["requirements"] = _build_label_terms(common_labels)
    return document


def find_capacity_type(labels: Mapping[str, str]) -> str:
    """Return the capacity type in a node's labels as Karpenter names it, such as "spot", or "" if they have none.

    Karpenter's own label takes precedence over the labels of cloud providers.
    """
    if labels.get(CAPACITY_TYPE):
        return labels[CAPACITY_TYPE]
    types = (
        capacity_type for (key, value), capacity_type in PROVIDER_CAPACITY_TYPES.items() if labels.get(key) == value
    )
    return next(types, "")


def _drop_non_positive_amounts(amounts: Resources) -> Resources:
    """Return the amounts that are above zero."""
    return {name: amounts[name] for name, amount in parse_quantities(amounts).items() if amount.mantissa > 0}


def _build_label_terms(labels: Mapping[str, str]) -> list[JsonObject]:
    """Build a requirement with the operator In for each label, except labels with an empty value."""
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items() if value]
