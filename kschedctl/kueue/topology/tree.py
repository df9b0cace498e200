"""The domains of a Topology: the nodes of a flavor, grouped level by level by their labels, and the room in them.

The domains of a level are sorted by the labels from the widest level down, so the domains below one domain are next
to each other. `PodsOutside` has the room that is taken by pods outside Kueue's topology-aware scheduling, and
`DomainCapacities` the number of pods that still fit.

Upstream: pkg/cache/scheduler/tas_topology_tree.go, tas_nodes_cache.go, tas_non_tas_usage_cache.go, and fillInCounts of
tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kschedctl.api.objects import Node, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.api.queueing import ResourceFlavor, Topology
from kschedctl.kueue.amounts import Requests, parse_requests, sum_requests
from kschedctl.kueue.pod_requests import compute_requests

HOSTNAME = "kubernetes.io/hostname"
Indexes = NDArray[np.int64]
Counts = NDArray[np.int64]

_PLACED_LABEL = "kueue.x-k8s.io/tas"
"""The label of pods that Kueue assigned to a topology domain. Their Workloads count their room."""

_MAX_COUNT = 2**31 - 1
"""The number of pods that fit if no resource limits it."""


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
    def has_node_level(self) -> bool:
        """True if the domains of the lowest level are nodes."""
        return bool(self.keys) and self.keys[-1] == HOSTNAME

    def find_level(self, key: str | None) -> int | None:
        """Return the index of a level by its label, or None."""
        return self.keys.index(key) if key in self.keys else None


def _sum_leaf_capacities(
    nodes_by_leaf: Sequence[Sequence[Node]], more_resources: Iterable[str]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the resources, and the total allocatable amounts (resources, leaves) of the nodes of each leaf.

    The resources are ``more_resources``, followed by other resources of the nodes. Raises QuantityError if a quantity
    is malformed.
    """
    amounts_by_leaf = [[parse_requests(node.status.allocatable) for node in nodes] for nodes in nodes_by_leaf]
    resources = tuple(dict.fromkeys(chain(more_resources, *chain.from_iterable(amounts_by_leaf))))
    row_by_resource = {resource: row for row, resource in enumerate(resources)}
    capacity = np.zeros((len(resources), len(nodes_by_leaf)), dtype=np.int64)
    for leaf_index, node_amounts in enumerate(amounts_by_leaf):
        for amounts in node_amounts:
            for resource, amount in amounts.items():
                capacity[row_by_resource[resource], leaf_index] += amount
    return resources, capacity


def build_topology_tree(
    flavor: ResourceFlavor, topology: Topology, nodes: Iterable[Node], more_resources: Iterable[str]
) -> TopologyTree:
    """Build the topology tree of a flavor from its nodes that are ready and schedulable.

    ``more_resources`` are resources that pods may request although no node has them. Raises QuantityError if a quantity
    is malformed.
    """
    keys = tuple(level.node_label for level in topology.spec.levels)
    has_node_level = bool(keys) and keys[-1] == HOSTNAME
    selected_nodes = [
        node
        for node in nodes
        if is_usable_node(node) and _belongs_to_flavor(node.metadata.labels, flavor.spec.node_labels, keys)
    ]
    members = _group_nodes_by_leaf(selected_nodes, keys)
    leaves = sorted(members)

    resources, capacity = _sum_leaf_capacities([members[leaf] for leaf in leaves], more_resources)
    return TopologyTree(
        name=topology.metadata.name,
        keys=keys,
        levels=_build_topology_levels(leaves, len(keys)),
        # Placements name nodes by hostname alone
        leaf_indexes={(leaf[-1:] if has_node_level else leaf): index for index, leaf in enumerate(leaves)},
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
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    return is_ready and not node.spec.unschedulable


def _belongs_to_flavor(labels: Mapping[str, str], node_labels: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Return whether a node has the flavor's node labels and a label for each level of the topology (``keys``)."""
    return all(labels.get(key) == value for key, value in node_labels.items()) and all(key in labels for key in keys)


def _build_topology_levels(leaves: Sequence[tuple[str, ...]], depth: int) -> tuple[Level, ...]:
    """Build the ``depth`` levels of the tree from the sorted domains of the lowest level, the widest level first."""
    # A domain of a level is identified by the labels of the levels down to this one, a parent by all but the last
    values_by_level: list[list[tuple[str, ...]]] = []
    parents_by_level: list[Indexes] = []
    index_above: dict[tuple[str, ...], int] = {(): 0}  # domains of the widest level have no parent, which counts as 0
    for number in range(depth):
        values = sorted({leaf[: number + 1] for leaf in leaves})
        values_by_level.append(values)
        parents_by_level.append(np.array([index_above[value[:-1]] for value in values], dtype=np.int64))
        index_above = {value: index for index, value in enumerate(values)}

    levels = []
    for number, values in enumerate(values_by_level):
        # The children of a domain are next to each other, since the level below is sorted by the same labels
        child_starts = child_ends = np.zeros(0, dtype=np.int64)
        if number + 1 < depth:
            parents_below = parents_by_level[number + 1]
            domains = np.arange(len(values))
            child_starts = np.searchsorted(parents_below, domains, side="left")
            child_ends = np.searchsorted(parents_below, domains, side="right")
        levels.append(Level(tuple(values), parents_by_level[number], child_starts, child_ends))
    return tuple(levels)


class PodsOutside:
    """The pods on nodes to which Kueue assigned no topology domain, as columns."""

    def __init__(self, pods: PodTable) -> None:
        """Compute the requests of each template of pods on nodes. Raises QuantityError if a request is malformed."""
        self._pods = pods
        has_node = np.array([bool(node) for node in pods.node.values], np.bool_)
        bound_templates = set(pods.template[has_node[pods.node.codes]].tolist()) if len(pods) else set()
        self._requests: list[Requests | None] = [
            sum_requests([compute_requests(template.spec), {"pods": 1}])
            if number in bound_templates and _takes_room_outside_kueue(template)
            else None
            for number, template in enumerate(pods.templates)
        ]
        """The requests of a pod of each template, or None if such pods take no room."""

    def compute_free_capacity(self, tree: TopologyTree) -> Counts:
        """Return a topology's capacity minus the requests of these pods on its nodes, as an array (resources, leaves).

        Pods on nodes outside the topology take no room.
        """
        pods = self._pods
        if not len(pods):
            return tree.capacity

        # The pods that take room in the topology, with their leaves and templates
        leaf_of_node = np.array([tree.leaf_of_node.get(node, -1) for node in pods.node.values], np.int64)
        leaf_of_pod = leaf_of_node[pods.node.codes]
        takes_room = np.array([requests is not None for requests in self._requests], np.bool_)
        counted = (leaf_of_pod >= 0) & takes_room[pods.template]
        leaves, templates = leaf_of_pod[counted], pods.template[counted]

        # Add their requests. If a sum could exceed int64, Python's unlimited integers are used
        requests_of_template = [requests or {} for requests in self._requests]
        largest = max((abs(amount) for requests in requests_of_template for amount in requests.values()), default=0)
        may_exceed_int64 = largest * len(leaves) > INT64_MAX // 2
        dtype = np.object_ if may_exceed_int64 else np.int64
        used = np.zeros(tree.capacity.shape, dtype)
        for row, resource in enumerate(tree.resources):
            amount_of_template = np.array([requests.get(resource, 0) for requests in requests_of_template], dtype)
            np.add.at(used[row], leaves, amount_of_template[templates])

        free = tree.capacity.astype(np.object_) - used
        limited: Counts = np.clip(free, INT64_MIN, INT64_MAX).astype(np.int64)
        return limited


def _takes_room_outside_kueue(template: Pod) -> bool:
    """Return whether the pods of a template still run and were not assigned to a topology domain by Kueue."""
    return not template.terminated and _PLACED_LABEL not in template.metadata.labels


class LevelCapacities(NamedTuple):
    """The arrays of `DomainCapacities` for one level, which can be changed in place. Shape: domains of the level."""

    pods: Counts
    slices: Counts
    pods_with_leader: Counts
    slices_with_leader: Counts
    leaders: Counts
    affinity: Counts

    def get_room(self, *, by_slices: bool) -> Counts:
        """Return the number of slices or pods that fit without a leader."""
        return self.slices if by_slices else self.pods

    def get_room_with_leader(self, *, by_slices: bool) -> Counts:
        """Return the number of slices or pods that fit together with a leader."""
        return self.slices_with_leader if by_slices else self.pods_with_leader


class DomainCapacities:
    """The numbers of pods and slices that fit into the domains of each level, as arrays (domains of the level,)."""

    __slots__ = ("affinity", "leaders", "pods", "pods_with_leader", "slices", "slices_with_leader", "tree")

    def __init__(self, tree: TopologyTree) -> None:
        sizes = [len(level.values) for level in tree.levels]
        self.tree = tree
        self.pods = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.slices = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.pods_with_leader = [np.zeros(size, dtype=np.int64) for size in sizes]
        """The pods that fit together with a leader."""
        self.slices_with_leader = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.leaders = [np.zeros(size, dtype=np.int64) for size in sizes]
        """1 if a leader fits, else 0."""
        self.affinity = [np.zeros(size, dtype=np.int64) for size in sizes]
        """The score of preferred node affinity."""

    def copy(self) -> DomainCapacities:
        """Return an independent copy of the counts. The tree is shared."""
        # Without __init__, which would allocate arrays
        copy = DomainCapacities.__new__(DomainCapacities)
        copy.tree = self.tree
        for name in ("pods", "slices", "pods_with_leader", "slices_with_leader", "leaders", "affinity"):
            setattr(copy, name, [counts.copy() for counts in getattr(self, name)])
        return copy

    def at_level(self, level: int) -> LevelCapacities:
        """Return the arrays of a level. They are outdated once `sum_up_levels` has recomputed the level."""
        return LevelCapacities(
            pods=self.pods[level],
            slices=self.slices[level],
            pods_with_leader=self.pods_with_leader[level],
            slices_with_leader=self.slices_with_leader[level],
            leaders=self.leaders[level],
            affinity=self.affinity[level],
        )

    def get_children(self, level: int, index: int) -> range:
        """Return the indexes of a domain's children in the level below."""
        domains = self.tree.levels[level]
        return range(int(domains.child_starts[index]), int(domains.child_ends[index]))

    def list_children(self, level: int, indexes: Sequence[int]) -> list[int]:
        """Return the indexes of all children of these domains in the level below."""
        return [child for index in indexes for child in self.get_children(level, index)]

    def sum_up_levels(
        self,
        slice_size: int,
        slice_level: int,
        *,
        inner_sizes: Mapping[int, int],
        needs_leader: bool,
        top_level: int = 0,
    ) -> None:
        """Compute the counts of each level from the level below, starting with the lowest one, up to ``top_level``.

        Slices are counted at ``slice_level`` and above. ``inner_sizes`` maps a level to the size of the slices that are
        nested inside larger slices there.
        """
        lowest = len(self.tree.levels) - 1
        for level in range(lowest, top_level - 1, -1):
            if level < lowest:
                self._sum_counts_of_children(level, inner_sizes.get(level + 1), needs_leader=needs_leader)
            if level == slice_level:
                self.slices[level] = self.pods[level] // slice_size
                self.slices_with_leader[level] = self.pods_with_leader[level] // slice_size

    def _sum_counts_of_children(self, level: int, inner_size: int | None, *, needs_leader: bool) -> None:
        """Compute the counts of a level by adding up the counts of the level below.

        With ``inner_size``, only whole slices of this size count in the level below. If a leader is needed, it is
        placed in the child where it costs the fewest pods or slices.
        """
        below = level + 1
        starts = self.tree.levels[level].child_starts
        if not len(starts):
            return
        pods, pods_with_leader = self.pods[below], self.pods_with_leader[below]
        if inner_size is not None:
            pods, pods_with_leader = pods // inner_size * inner_size, pods_with_leader // inner_size * inner_size
        slices, slices_with_leader = self.slices[below], self.slices_with_leader[below]

        # The children of a domain are next to each other, from its start to the start of the next domain
        self.pods[level] = np.add.reduceat(pods, starts)
        self.slices[level] = np.add.reduceat(slices, starts)
        self.leaders[level] = np.maximum.reduceat(self.leaders[below], starts)
        self.affinity[level] = np.add.reduceat(self.affinity[below], starts)

        may_lead = self.leaders[below] > 0 if needs_leader else np.ones(len(pods), dtype=np.bool_)
        has_place = np.logical_or.reduceat(may_lead, starts)

        def count_beside_leader(totals: Counts, lost: Counts) -> Counts:
            """Return the totals minus the cost of a leader in the best child, or 0 if no child can hold a leader."""
            least_lost = np.minimum.reduceat(np.where(may_lead, lost, _MAX_COUNT), starts)
            return np.where(has_place, totals - least_lost, 0)

        self.pods_with_leader[level] = count_beside_leader(self.pods[level], pods - pods_with_leader)
        self.slices_with_leader[level] = count_beside_leader(self.slices[level], slices - slices_with_leader)


def count_fitting_pods(requests: Mapping[str, int], capacity: Mapping[str, Counts], size: int) -> Counts:
    """Return how many pods with these requests fit into each of ``size`` domains, as an array (domains,).

    ``capacity`` has the free amounts by resource. No pod fits if a requested resource is missing, or if ``requests`` is
    empty.
    """
    if not requests:
        return np.zeros(size, dtype=np.int64)
    counts = np.full(size, _MAX_COUNT, dtype=np.int64)
    for resource, amount in requests.items():
        if amount != 0:
            free = capacity.get(resource)
            fitting = np.zeros(size, dtype=np.int64) if free is None else np.maximum(free, 0) // amount
            counts = np.minimum(counts, fitting)
    return counts
