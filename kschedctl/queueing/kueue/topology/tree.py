"""The domains of a Topology: the nodes of a flavor, grouped level by level by their labels.

The domains of a level are sorted by the labels from the widest level down, so the domains below one domain are next
to each other.

Upstream: pkg/cache/scheduler/tas_topology_tree.go and tas_nodes_cache.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kschedctl.api.objects import Node
from kschedctl.api.queueing import ResourceFlavor, Topology
from kschedctl.queueing.kueue.amounts import parse_requests

HOSTNAME = "kubernetes.io/hostname"
Indexes = NDArray[np.int64]
Counts = NDArray[np.int64]


class Level(NamedTuple):
    """The domains of one level."""

    values: tuple[tuple[str, ...], ...]
    """The labels of each domain, from the widest level to this one, sorted."""
    parents: Indexes
    """The index of each domain's parent in the level above. Shape: domains."""
    child_starts: Indexes
    """The index of each domain's first child in the level below. Shape: domains; empty for the lowest level."""
    child_ends: Indexes
    """The index after each domain's last child in the level below."""


class TopologyTree(NamedTuple):
    """The domains of a flavor's nodes."""

    name: str
    """The name of the Topology."""
    keys: tuple[str, ...]
    """The node label of each level, from the widest to the narrowest."""
    levels: tuple[Level, ...]
    leaf_indexes: Mapping[tuple[str, ...], int]
    """The index in the lowest level by the values that a placement names: only the hostname if that is the level."""
    leaf_of_node: Mapping[str, int]
    """The index in the lowest level by node name."""
    leaf_nodes: tuple[Node, ...]
    """A node of each domain of the lowest level."""
    resources: tuple[str, ...]
    capacity: Counts
    """The allocatable amounts. Shape: resources x domains of the lowest level."""

    @property
    def is_lowest_node(self) -> bool:
        """Return whether the domains of the lowest level are nodes."""
        return bool(self.keys) and self.keys[-1] == HOSTNAME

    def find_level(self, key: str | None) -> int | None:
        """Return the index of a level by its label, or None."""
        return self.keys.index(key) if key in self.keys else None


def build_topology_tree(
    flavor: ResourceFlavor, topology: Topology, nodes: Iterable[Node], more_resources: Iterable[str]
) -> TopologyTree:
    """Build the topology tree of a flavor from its nodes that are ready and schedulable.

    ``more_resources`` are resources that pods may request although no node has them. Raises QuantityError if a quantity
    is malformed.
    """
    keys = tuple(level.node_label for level in topology.spec.levels)
    is_lowest_node = bool(keys) and keys[-1] == HOSTNAME
    selected_nodes = [
        node
        for node in nodes
        if is_usable_node(node) and _belongs_to_flavor(node.metadata.labels, flavor.spec.node_labels, keys)
    ]
    members = _group_nodes_by_leaf(selected_nodes, keys)
    leaves = sorted(members)

    # The resources are those of all nodes, after those that pods may request
    allocatable_by_leaf = [[parse_requests(node.status.allocatable) for node in members[leaf]] for leaf in leaves]
    node_resources = (name for of_leaf in allocatable_by_leaf for amounts in of_leaf for name in amounts)
    resources = tuple(dict.fromkeys((*more_resources, *node_resources)))
    rows = {resource: row for row, resource in enumerate(resources)}

    capacity = np.zeros((len(resources), len(leaves)), dtype=np.int64)
    for index, of_leaf in enumerate(allocatable_by_leaf):
        for amounts in of_leaf:
            for resource, amount in amounts.items():
                capacity[rows[resource], index] += amount
    return TopologyTree(
        name=topology.metadata.name,
        keys=keys,
        levels=_build_levels(leaves, len(keys)),
        leaf_indexes={(leaf[-1:] if is_lowest_node else leaf): index for index, leaf in enumerate(leaves)},
        leaf_of_node={node.metadata.name: index for index, leaf in enumerate(leaves) for node in members[leaf]},
        leaf_nodes=tuple(members[leaf][0] for leaf in leaves),
        resources=resources,
        capacity=capacity,
    )


def _group_nodes_by_leaf(nodes: Iterable[Node], keys: Sequence[str]) -> dict[tuple[str, ...], list[Node]]:
    """Group the nodes by their values of the labels ``keys``, which identify a domain of the lowest level.

    If the lowest level is the hostname, all nodes with the same hostname are put into the domain of the first of them.
    """
    members: dict[tuple[str, ...], list[Node]] = {}
    leaf_of_hostname: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        leaf = tuple(node.metadata.labels[key] for key in keys)
        if keys and keys[-1] == HOSTNAME:
            leaf = leaf_of_hostname.setdefault(leaf[-1], leaf)
        members.setdefault(leaf, []).append(node)
    return members


def is_usable_node(node: Node) -> bool:
    """Return whether Kueue may use a node: it is ready and not cordoned."""
    is_ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return is_ready and not node.spec.unschedulable


def _belongs_to_flavor(labels: Mapping[str, str], node_labels: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Return whether a node has the flavor's node labels and a label for each level of the topology (``keys``)."""
    return all(labels.get(key) == value for key, value in node_labels.items()) and all(key in labels for key in keys)


def _build_levels(leaves: Sequence[tuple[str, ...]], depth: int) -> tuple[Level, ...]:
    """Build the ``depth`` levels of the tree from the sorted domains of the lowest level, the widest level first."""
    # A domain of a level is identified by the labels of the levels down to this one
    values = [sorted({leaf[: level + 1] for leaf in leaves}) for level in range(depth)]
    indexes = [{value: index for index, value in enumerate(level)} for level in values]
    levels = []
    for number, level_values in enumerate(values):
        parents = np.zeros(len(level_values), dtype=np.int64)
        if number > 0:
            parents = np.array([indexes[number - 1][value[:-1]] for value in level_values], dtype=np.int64)

        # The children of a domain are next to each other, since the level below is sorted by the same labels
        child_starts = child_ends = np.zeros(0, dtype=np.int64)
        if number + 1 < depth:
            parents_below = [indexes[number][value[:-1]] for value in values[number + 1]]
            child_starts = np.searchsorted(parents_below, np.arange(len(level_values)), side="left")
            child_ends = np.searchsorted(parents_below, np.arange(len(level_values)), side="right")
        levels.append(Level(tuple(level_values), parents, child_starts, child_ends))
    return tuple(levels)
