"""Node groups as labels tell them, where nobody says what the cloud knows: their limits are not known."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import pool_of
from kschedctl.cluster import Cluster

NO_LIMIT = 1_000_000


def seen_groups(cluster: Cluster, label: str = "") -> list[JsonObject]:
    """By the name of the pool that a label tells, a well-known one or this; nodes without it are in no group.

    As large as it is, from none to any number of nodes; a node of it tells what a new one would be.
    """
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        pool = node.metadata.labels.get(label, "") if label else pool_of(node)
        if pool:
            groups.setdefault(pool, []).append(node.metadata.name)
    return [
        {"id": pool, "min": 0, "max": NO_LIMIT, "target": len(nodes), "nodes": nodes}
        for pool, nodes in sorted(groups.items())
    ]
