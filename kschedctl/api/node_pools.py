"""Which pool a node belongs to. Kubernetes has no such thing; providers and people tell it by labels."""

from __future__ import annotations

from kschedctl.api.objects import Node

POOL_NAMES = (
    "nodepool",
    "gke-nodepool",
    "nodegroup",
    "nodegroup-name",
    "agentpool",
    "worker-pool-name",
    "instancegroup",
    "node-pool",
    "pool-name",
    "provisioner-name",
    "pool",
)
"""What follows the slash in the labels by which providers and people name a node pool, the most specific first."""


def pool_of(node: Node) -> str:
    """The node's pool as far as labels tell, empty for none."""
    by_name = {key.rpartition("/")[2]: value for key, value in node.metadata.labels.items()}
    return next((by_name[name] for name in POOL_NAMES if name in by_name), "")
