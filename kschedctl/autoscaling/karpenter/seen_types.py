"""Instance types derived from the existing nodes and NodeClaims, without prices.

The cloud may offer more types than the cluster uses, so a type that is missing here may still exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Resources
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.autoscaling.karpenter.amounts import subtract_quantities
from kschedctl.autoscaling.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, INSTANCE_TYPE_PREFIXES, OS, ZONE
from kschedctl.autoscaling.karpenter.state_nodes import StateNode, build_state_nodes
from kschedctl.cluster import Cluster


def derive_instance_types(cluster: Cluster) -> list[JsonObject]:
    """Derive instance types from nodes, in the format of instance_types.json. The last node of a type sets its size."""
    nodes: dict[str, list[StateNode]] = {}
    for node in build_state_nodes(cluster):
        sized = node.node is not None or (node.claim is not None and node.claim.status.allocatable)
        if (name := node.labels.get(INSTANCE_TYPE)) and sized:
            nodes.setdefault(name, []).append(node)
    return [_build_document(name, type_nodes) for name, type_nodes in sorted(nodes.items())]


def _build_document(name: str, nodes: list[StateNode]) -> JsonObject:
    """Build the document of one instance type from the nodes of that type."""
    labels, capacity = nodes[-1].labels, {k: v for k, v in nodes[-1].capacity.items() if k != "nodes"}
    overhead = subtract_quantities(capacity, nodes[-1].allocatable)
    places = sorted({(n.labels.get(ZONE, ""), n.labels.get(CAPACITY_TYPE, "")) for n in nodes})
    type_labels = {key: value for key, value in labels.items() if key.startswith(INSTANCE_TYPE_PREFIXES)}
    common = {key: value for key, value in type_labels.items() if all(n.labels.get(key) == value for n in nodes)}
    document = {
        "name": name,
        "architecture": labels.get(ARCH, ""),
        "operatingSystems": [labels[OS]] if OS in labels else [],
        "resources": {key: str(amount) for key, amount in capacity.items()},
        "overhead": _keep_positive({key: str(amount) for key, amount in overhead.items()}),
        "offerings": [
            {"Price": 0, "Requirements": _build_terms({ZONE: zone, CAPACITY_TYPE: capacity_type})}
            for zone, capacity_type in places
        ],
    }
    return {**document, "requirements": _build_terms(common)} if common else document


def _keep_positive(amounts: Resources) -> Resources:
    """Return only the amounts above zero."""
    return {name: amounts[name] for name, amount in parse_quantities(amounts).items() if amount.mantissa > 0}


def _build_terms(labels: Mapping[str, str]) -> list[JsonObject]:
    """Build an In term for each label with a value."""
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items() if value]
