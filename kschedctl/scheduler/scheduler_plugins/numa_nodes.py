"""What is available in the NUMA nodes of the nodes, as columns.

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
from kschedctl.snapshot.pod_info import to_amounts

KIND = "NodeResourceTopology"
SINGLE_NUMA_NODE, POD_SCOPE, CONTAINER_SCOPE = "single-numa-node", "pod", "container"
POLICIES = frozenset({"none", "best-effort", "restricted", SINGLE_NUMA_NODE})
FORMER_POLICIES = {
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD_SCOPE),
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER_SCOPE),
    "BestEffortPodLevel": ("best-effort", POD_SCOPE),
    "BestEffortContainerLevel": ("best-effort", CONTAINER_SCOPE),
    "RestrictedPodLevel": ("restricted", POD_SCOPE),
    "RestrictedContainerLevel": ("restricted", CONTAINER_SCOPE),
}
"""What topologyPolicies say, the first of which counts, as policy and scope."""
MOST_NUMA_NODES = 64

MOST_PREPARED_FOR = 1024
"""Kubelets that say that they are prepared for more NUMA nodes are taken to mean this many."""
FAR = 255
"""The distance of NUMA nodes of which none is published."""

_AMOUNT = re.compile(r"[+-]?[0-9]{1,18}")
_NUMA_NODE = re.compile(r"node-(\d{1,2})")


class TopologyManager(NamedTuple):
    """How the kubelet of a node aligns resources; ``most``: how many NUMA nodes it is prepared for."""

    policy: str = "none"
    scope: str = CONTAINER_SCOPE
    most: int = 8

    @classmethod
    def of(cls, topology: NodeResourceTopology) -> TopologyManager:
        """Attributes go before topologyPolicies; what is not known does not count."""
        former = FORMER_POLICIES.get(next(iter(topology.topology_policies), ""))
        manager = cls() if former is None else cls(*former)
        for attribute in topology.attributes:
            if attribute.name == "topologyManagerPolicy" and attribute.value in POLICIES:
                manager = manager._replace(policy=attribute.value)
            elif attribute.name == "topologyManagerScope" and attribute.value in (POD_SCOPE, CONTAINER_SCOPE):
                manager = manager._replace(scope=attribute.value)
            elif attribute.name == "topologyManagerMaxNUMANodes" and _AMOUNT.fullmatch(attribute.value):
                most = int(attribute.value)
                manager = manager._replace(most=min(most, MOST_PREPARED_FOR)) if most > 1 else manager
        return manager


class NumaNodes(NamedTuple):
    """``single`` and ``by_pod`` (N,): all is to come from one NUMA node, for the whole pod at once.

    ``available`` by resource (N, Z): in the NUMA node of each number, -1 where it has none.
    """

    single: Bools
    by_pod: Bools
    available: Mapping[str, Amounts]
    width: int

    def of(self, resource: str) -> Amounts:
        """(N, Z)"""
        amounts = self.available.get(resource)
        return np.full((len(self.single), self.width), -1, np.int64) if amounts is None else amounts

    def less(self, reserved: Mapping[str, Amounts]) -> NumaNodes:
        """What is left after these amounts (N,) were taken from every NUMA node of each node."""
        return self._replace(available=_less(self.available, reserved)) if reserved else self


@dataclass(frozen=True)
class NumaList:
    """NUMA nodes by their places in what was published of the nodes, whatever their policy is.

    ``known`` and ``by_pod`` (N,): something was published, and all is aligned for the whole pod at once. ``most`` (N,):
    how many NUMA nodes the kubelet is prepared for. ``number`` (N, Z), -1 for none; ``costs`` (N, Z, Z): how far each
    is from each. ``available`` (N, Z) by resource, -1 where there is none.
    """

    known: Bools
    by_pod: Bools
    most: Counts
    number: Amounts
    costs: Amounts
    available: Mapping[str, Amounts]

    def __len__(self) -> int:
        return len(self.known)

    @cached_property
    def there(self) -> Bools:
        """(N, Z)"""
        known: Bools = self.number >= 0
        return known

    def of(self, resource: str) -> Amounts:
        """(N, Z)"""
        amounts = self.available.get(resource)
        return np.full(self.number.shape, -1, np.int64) if amounts is None else amounts

    def less(self, reserved: Mapping[str, Amounts]) -> NumaList:
        """What is left after these amounts (N,) were taken from every NUMA node of each node."""
        return replace(self, available=_less(self.available, reserved)) if reserved else self

    def taken(self, rows: Rows) -> NumaList:
        """The NUMA nodes of some rows."""
        available = {name: amounts[rows] for name, amounts in self.available.items()}
        known, by_pod, most = self.known[rows], self.by_pod[rows], self.most[rows]
        return NumaList(known, by_pod, most, self.number[rows], self.costs[rows], available)


def numa_list(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> NumaList:
    """NUMA nodes of the nodes, by their rows. Raises InputError for an amount that is none."""
    listed = [(index[topology.metadata.name], topology) for topology in topologies if topology.metadata.name in index]
    zones = {row: [(of, z) for z in topology.zones if (of := _number(z)) is not None] for row, topology in listed}
    shape = len(index), max(map(len, zones.values()), default=0)
    known, by_pod, most = np.zeros(len(index), np.bool_), np.zeros(len(index), np.bool_), np.ones(len(index), np.int64)
    number, costs = np.full(shape, -1, np.int64), np.full((*shape, shape[1]), FAR, np.int64)
    available: dict[str, Amounts] = {}
    for row, topology in listed:
        manager = TopologyManager.of(topology)
        known[row], by_pod[row], most[row] = True, manager.scope == POD_SCOPE, manager.most
        numbers = [number for number, _ in zones[row]]
        number[row, : len(numbers)] = numbers
        for place, (_, zone) in enumerate(zones[row]):
            costs[row, place, : len(numbers)] = _costs(zone, numbers)
            for name, amount in _available(topology, zone).items():
                available.setdefault(name, np.full(shape, -1, np.int64))[row, place] = amount
    return NumaList(known, by_pod, most, number, costs, available)


def _less(available: Mapping[str, Amounts], reserved: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """What is left of each, at least nothing; -1 where there was none stays."""
    less = dict(available)
    for name in reserved.keys() & less.keys():
        left = np.maximum(less[name] - reserved[name][:, None], 0)
        less[name] = np.where(less[name] < 0, -1, left)
    return less


def _costs(zone: TopologyZone, numbers: Iterable[int]) -> list[int]:
    """How far the zone is from each of these, with itself among them."""
    costs = {_numbered(cost.name): cost.value for cost in zone.costs}
    return [costs.get(number, FAR) for number in numbers]


def is_affine(resource: str) -> bool:
    """Whether only pods that are Guaranteed get it from a NUMA node, exclusively."""
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES_PREFIX)


def numa_nodes(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> NumaNodes:
    """NUMA nodes of the nodes, by their rows. Raises InputError for an amount that is none."""
    nodes = len(index)
    single, by_pod = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    entries: list[tuple[int, int, str, int]] = []
    for topology in topologies:
        row = index.get(topology.metadata.name)
        manager = TopologyManager.of(topology)
        if row is None or manager.policy != SINGLE_NUMA_NODE:
            continue
        single[row], by_pod[row] = True, manager.scope == POD_SCOPE
        for zone in topology.zones:
            if (number := _number(zone)) is not None:
                entries += ((row, number, name, amount) for name, amount in _available(topology, zone).items())
    width = max((number for _, number, _, _ in entries), default=0) + 1
    available: dict[str, Amounts] = {}
    for row, number, name, amount in entries:
        if name not in available:
            available[name] = np.full((nodes, width), -1, np.int64)
        available[name][row, number] = amount
    return NumaNodes(single, by_pod, available, width)


def _number(zone: TopologyZone) -> int | None:
    return _numbered(zone.name) if zone.type == "Node" else None


def _numbered(name: str) -> int | None:
    match = _NUMA_NODE.fullmatch(name)
    return int(match[1]) if match and int(match[1]) < MOST_NUMA_NODES else None


def _available(topology: NodeResourceTopology, zone: TopologyZone) -> Mapping[str, int]:
    try:
        return to_amounts(parse_quantities({resource.name: resource.available for resource in zone.resources}))
    except QuantityError as error:
        where = f"{KIND} {topology.metadata.name}, zone {zone.name}"
        raise InputError(error.what, where=where, hint=error.hint) from None
