"""The NUMA nodes of the cluster's nodes and the resources available on them, as arrays.

Upstream: pkg/noderesourcetopology/pluginhelpers.go and nodeconfig/topologymanager.go of
kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Counts, Rows
from kschedctl.api.objects import NodeResourceTopology, TopologyZone
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.api.resource_names import CPU, HUGE_PAGES_PREFIX, MEMORY
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import convert_to_amounts

KIND = "NodeResourceTopology"
MISSING = -1
"""The available amount of a resource that a NUMA node lacks."""
SINGLE_NUMA_NODE, POD_SCOPE, CONTAINER_SCOPE = "single-numa-node", "pod", "container"
POLICIES = frozenset({"none", "best-effort", "restricted", SINGLE_NUMA_NODE})
DEPRECATED_POLICIES = {
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD_SCOPE),
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER_SCOPE),
    "BestEffortPodLevel": ("best-effort", POD_SCOPE),
    "BestEffortContainerLevel": ("best-effort", CONTAINER_SCOPE),
    "RestrictedPodLevel": ("restricted", POD_SCOPE),
    "RestrictedContainerLevel": ("restricted", CONTAINER_SCOPE),
}
"""Policy and scope of each value of topologyPolicies, of which only the first counts."""
MAX_NUMA_NODES = 64

MAX_CONFIGURED_NUMA_NODES = 1024
"""Upper bound on the topologyManagerMaxNUMANodes of a kubelet."""
FAR = 255
"""The distance between NUMA nodes whose distance is not published."""

_AMOUNT = re.compile(r"[+-]?[0-9]{1,18}")
_NUMA_NODE = re.compile(r"node-(\d{1,2})")


class TopologyManager(NamedTuple):
    """The settings by which the kubelet of a node aligns resources."""

    policy: str = "none"
    scope: str = CONTAINER_SCOPE
    max_numa_nodes: int = 8
    """The number of NUMA nodes that the kubelet supports."""

    @classmethod
    def from_topology(cls, topology: NodeResourceTopology) -> TopologyManager:
        """Read the settings of the node's topology manager from a published topology. Unknown values are ignored.

        Attributes override the deprecated topologyPolicies, of which only the first is read.
        """
        deprecated = DEPRECATED_POLICIES.get(next(iter(topology.topology_policies), ""))
        manager = cls() if deprecated is None else cls(*deprecated)
        for attribute in topology.attributes:
            if attribute.name == "topologyManagerPolicy" and attribute.value in POLICIES:
                manager = manager._replace(policy=attribute.value)
            elif attribute.name == "topologyManagerScope" and attribute.value in (POD_SCOPE, CONTAINER_SCOPE):
                manager = manager._replace(scope=attribute.value)
            elif attribute.name == "topologyManagerMaxNUMANodes" and _AMOUNT.fullmatch(attribute.value):
                limit = int(attribute.value)
                if limit > 1:
                    manager = manager._replace(max_numa_nodes=min(limit, MAX_CONFIGURED_NUMA_NODES))
        return manager


class NumaNodes(NamedTuple):
    """NUMA nodes by number, of nodes with the policy single-numa-node."""

    single: Bools
    """(N,): whether the node has the policy single-numa-node."""
    by_pod: Bools
    """(N,): whether the policy applies to the pod as a whole."""
    available: Mapping[str, Amounts]
    """Resource -> (N, Z): the available amount, or MISSING if the NUMA node lacks the resource."""
    width: int
    """Z, the highest NUMA node number plus 1."""

    def get_available_amounts(self, resource: str) -> Amounts:
        """Return the available amounts (nodes, NUMA nodes) of a resource, which may be MISSING."""
        amounts = self.available.get(resource)
        return np.full((len(self.single), self.width), MISSING, np.int64) if amounts is None else amounts

    def subtract(self, reserved: Mapping[str, Amounts]) -> NumaNodes:
        """Return the NUMA nodes with the amounts (N,) in `reserved` subtracted from every NUMA node of each node."""
        return self._replace(available=_subtract_reserved_amounts(self.available, reserved)) if reserved else self


@dataclass(frozen=True)
class NumaList:
    """NUMA nodes in the order in which they are published, of nodes with any policy."""

    has_topology: Bools
    """(N,): whether the node has a published topology."""
    by_pod: Bools
    """(N,): whether the kubelet aligns the pod as a whole."""
    max_numa_nodes: Counts
    """(N,): the number of NUMA nodes that the kubelet supports."""
    numbers: Amounts
    """(N, Z): the number of the NUMA node, or -1 for none."""
    costs: Amounts
    """(N, Z, Z): the distances between the NUMA nodes."""
    available: Mapping[str, Amounts]
    """Resource -> (N, Z): the available amount, or MISSING if the NUMA node lacks the resource."""

    def __len__(self) -> int:
        return len(self.has_topology)

    @cached_property
    def exists(self) -> Bools:
        """A mask (nodes, NUMA nodes) of the places that have a NUMA node."""
        exists: Bools = self.numbers >= 0
        return exists

    def get_available_amounts(self, resource: str) -> Amounts:
        """Return the available amounts (nodes, NUMA nodes) of a resource, which may be MISSING."""
        amounts = self.available.get(resource)
        return np.full(self.numbers.shape, MISSING, np.int64) if amounts is None else amounts

    def subtract(self, reserved: Mapping[str, Amounts]) -> NumaList:
        """Return the NUMA nodes with the amounts (N,) in `reserved` subtracted from every NUMA node of each node."""
        return replace(self, available=_subtract_reserved_amounts(self.available, reserved)) if reserved else self

    def select_rows(self, rows: Rows) -> NumaList:
        """Return the NUMA nodes of only the nodes in these rows."""
        available = {name: amounts[rows] for name, amounts in self.available.items()}
        return NumaList(
            self.has_topology[rows],
            self.by_pod[rows],
            max_numa_nodes=self.max_numa_nodes[rows],
            numbers=self.numbers[rows],
            costs=self.costs[rows],
            available=available,
        )


def build_numa_list(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> NumaList:
    """Build arrays of the NUMA nodes of all nodes with a topology, in the order in which they were published.

    `index` maps the names of nodes to their rows, and topologies of other nodes are ignored. Raises InputError for an
    invalid amount.
    """
    topologies_by_row = {}
    for topology in topologies:
        if topology.metadata.name in index:
            topologies_by_row[index[topology.metadata.name]] = topology
    zones = {row: _list_numbered_zones(topology) for row, topology in topologies_by_row.items()}

    # The settings of each node's topology manager, and the numbers and costs of the node's zones
    node_count = len(index)
    width = max(map(len, zones.values()), default=0)  # the largest number of NUMA nodes
    has_topology = np.zeros(node_count, np.bool_)
    by_pod = np.zeros(node_count, np.bool_)
    max_numa_nodes = np.ones(node_count, np.int64)
    zone_numbers = np.full((node_count, width), -1, np.int64)  # -1 marks a missing zone
    costs = np.full((node_count, width, width), FAR, np.int64)
    for row, topology in topologies_by_row.items():
        manager = TopologyManager.from_topology(topology)
        has_topology[row] = True
        by_pod[row] = manager.scope == POD_SCOPE
        max_numa_nodes[row] = manager.max_numa_nodes
        numbers = [number for number, _ in zones[row]]
        zone_numbers[row, : len(numbers)] = numbers
        for place, (_number, zone) in enumerate(zones[row]):
            costs[row, place, : len(numbers)] = _list_costs(zone, numbers)

    # The amounts that are available in each zone
    zone_amounts: list[_ZoneAmount] = []
    for row, topology in topologies_by_row.items():
        for place, (_number, zone) in enumerate(zones[row]):
            for resource, amount in _parse_available_amounts(topology, zone).items():
                zone_amounts.append(_ZoneAmount(row, place, resource, amount))
    available = _build_amount_arrays(zone_amounts, node_count, width)
    return NumaList(
        has_topology, by_pod, max_numa_nodes=max_numa_nodes, numbers=zone_numbers, costs=costs, available=available
    )


def _list_numbered_zones(topology: NodeResourceTopology) -> list[tuple[int, TopologyZone]]:
    """Return the zones that stand for NUMA nodes, with the numbers in their names."""
    numbered = ((_find_zone_number(zone), zone) for zone in topology.zones)
    return [(number, zone) for number, zone in numbered if number is not None]


def _subtract_reserved_amounts(available: Mapping[str, Amounts], reserved: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the available amounts minus the reserved amounts (N,) of each node, but at least 0.

    MISSING, the amount of a resource that a NUMA node lacks, is kept.
    """
    remaining = dict(available)
    for name in reserved.keys() & remaining.keys():
        difference = np.maximum(remaining[name] - reserved[name][:, None], 0)
        remaining[name] = np.where(remaining[name] < 0, MISSING, difference)
    return remaining


def _list_costs(zone: TopologyZone, numbers: Iterable[int]) -> list[int]:
    """Return the distances of a zone to the NUMA nodes with these numbers.

    A distance that is not published is FAR.
    """
    costs = {_parse_numa_number(cost.name): cost.value for cost in zone.costs}
    return [costs.get(number, FAR) for number in numbers]


def is_affine(resource: str) -> bool:
    """Return whether only Guaranteed pods get the resource exclusively from a NUMA node."""
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES_PREFIX)


def build_numa_nodes(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> NumaNodes:
    """Build arrays of the NUMA zones of all nodes that use the single-numa-node policy.

    `index` maps the names of nodes to their rows. Raises InputError for an invalid amount.
    """
    node_count = len(index)
    single = np.zeros(node_count, np.bool_)
    by_pod = np.zeros(node_count, np.bool_)
    zone_amounts: list[_ZoneAmount] = []
    for topology in topologies:
        row = index.get(topology.metadata.name)
        manager = TopologyManager.from_topology(topology)
        if row is None or manager.policy != SINGLE_NUMA_NODE:
            continue
        single[row] = True
        by_pod[row] = manager.scope == POD_SCOPE
        for number, zone in _list_numbered_zones(topology):
            for resource, amount in _parse_available_amounts(topology, zone).items():
                zone_amounts.append(_ZoneAmount(row, number, resource, amount))

    width = max((zone_amount.column for zone_amount in zone_amounts), default=0) + 1
    available = _build_amount_arrays(zone_amounts, node_count, width)
    return NumaNodes(single, by_pod, available, width)


class _ZoneAmount(NamedTuple):
    """The available amount of a resource in a zone."""

    row: int
    """The node's row."""
    column: int
    """The column of the NUMA node: its number, or its place in the list of NUMA nodes."""
    resource: str
    amount: int


def _build_amount_arrays(zone_amounts: Iterable[_ZoneAmount], node_count: int, width: int) -> dict[str, Amounts]:
    """Build an array (nodes, NUMA nodes) for each resource. Entries without an amount are MISSING.

    `width` is the number of columns.
    """
    arrays: dict[str, Amounts] = {}
    for zone_amount in zone_amounts:
        if zone_amount.resource not in arrays:
            arrays[zone_amount.resource] = np.full((node_count, width), MISSING, np.int64)
        arrays[zone_amount.resource][zone_amount.row, zone_amount.column] = zone_amount.amount
    return arrays


def _find_zone_number(zone: TopologyZone) -> int | None:
    """Return the number of a zone that is a NUMA node, or None for other zones."""
    return _parse_numa_number(zone.name) if zone.type == "Node" else None


def _parse_numa_number(name: str) -> int | None:
    """Parse the number of a NUMA node from a name such as node-1, or return None."""
    match = _NUMA_NODE.fullmatch(name)
    return int(match[1]) if match and int(match[1]) < MAX_NUMA_NODES else None


def _parse_available_amounts(topology: NodeResourceTopology, zone: TopologyZone) -> Mapping[str, int]:
    """Parse the available amounts of a zone. Raises InputError for an invalid amount."""
    try:
        return convert_to_amounts(parse_quantities({resource.name: resource.available for resource in zone.resources}))
    except QuantityError as error:
        location = f"{KIND} {topology.metadata.name}, zone {zone.name}"
        raise InputError(error.what, where=location, hint=error.hint) from None
