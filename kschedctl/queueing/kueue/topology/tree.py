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
    """The index in the lowest level by the values that a placement names."""
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


def build_tree(
    flavor: ResourceFlavor, topology: Topology, nodes: Iterable[Node], more_resources: Iterable[str]
) -> TopologyTree:
    """Build the tree of the ready, schedulable nodes with the flavor's labels. Raises QuantityError.

    ``more_resources`` are resources that pods may request although no node has them.
    """
    keys = tuple(level.node_label for level in topology.spec.levels)
    is_lowest_node = bool(keys) and keys[-1] == HOSTNAME
    members: dict[tuple[str, ...], list[Node]] = {}
    hostnames: set[str] = set()
    for node in nodes:
        labels = node.metadata.labels
        if not is_usable(node) or not _is_selected(labels, flavor.spec.node_labels, keys):
            continue
        values = tuple(labels[key] for key in keys)
        if is_lowest_node and labels[HOSTNAME] in hostnames:
            values = next(known for known in members if known[-1] == labels[HOSTNAME])
        hostnames.add(labels.get(HOSTNAME, ""))
        members.setdefault(values, []).append(node)
    leaves = sorted(members)
    allocatable = [parse_requests(node.status.allocatable) for leaf in leaves for node in members[leaf]]
    resources = tuple(dict.fromkeys((*more_resources, *(name for amounts in allocatable for name in amounts))))
    capacity = np.zeros((len(resources), len(leaves)), dtype=np.int64)
    position = 0
    for index, leaf in enumerate(leaves):
        for _ in members[leaf]:
            for row, resource in enumerate(resources):
                capacity[row, index] += allocatable[position].get(resource, 0)
            position += 1
    return TopologyTree(
        topology.metadata.name,
        keys,
        _build_levels(leaves, len(keys)),
        {(leaf[-1:] if is_lowest_node else leaf): index for index, leaf in enumerate(leaves)},
        {node.metadata.name: index for index, leaf in enumerate(leaves) for node in members[leaf]},
        tuple(members[leaf][0] for leaf in leaves),
        resources,
        capacity,
    )


def is_usable(node: Node) -> bool:
    """Return whether Kueue counts on a node: it is ready and schedulable."""
    is_ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return is_ready and not node.spec.unschedulable


def _is_selected(labels: Mapping[str, str], node_labels: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Return whether a node belongs to a flavor and has the labels of all levels."""
    return all(labels.get(key) == value for key, value in node_labels.items()) and all(key in labels for key in keys)


def _build_levels(leaves: Sequence[tuple[str, ...]], depth: int) -> tuple[Level, ...]:
    """Group the sorted leaves level by level."""
    values = [sorted({leaf[: level + 1] for leaf in leaves}) for level in range(depth)]
    indexes = [{value: index for index, value in enumerate(level)} for level in values]
    levels = []
    for depth_of_level, level in enumerate(values):
        above = indexes[depth_of_level - 1]
        parents = [above[value[:-1]] if depth_of_level else 0 for value in level]
        if depth_of_level + 1 < depth:
            below = [indexes[depth_of_level][value[:-1]] for value in values[depth_of_level + 1]]
            starts = np.searchsorted(below, np.arange(len(level)), side="left")
            ends = np.searchsorted(below, np.arange(len(level)), side="right")
        else:
            starts = ends = np.zeros(0, dtype=np.int64)
        levels.append(Level(tuple(level), np.array(parents, dtype=np.int64), starts, ends))
    return tuple(levels)
