"""The scheduler's order of nodes: round robin over the zones, in order of their first node.

Upstream: pkg/scheduler/backend/cache/node_tree.go and component-helpers/node/topology/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from kschedctl.api.objects import Node

ZONE, REGION, HOSTNAME = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def get_region_and_zone(node: Node) -> tuple[str, str]:
    """Return region and zone from the node's labels, preferring the deprecated labels.

    Each is empty if the node has no such label.
    """
    labels = node.metadata.labels
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    return region, zone


def interleave_zones(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes in the scheduler's order. They must be in the order in which they joined."""
    zones: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        zones.setdefault(get_region_and_zone(node), []).append(node)
    return [node for nodes_of_rank in zip_longest(*zones.values()) for node in nodes_of_rank if node is not None]
