"""What is available in the NUMA nodes of the nodes, as columns.

Upstream: pkg/noderesourcetopology/pluginhelpers.go and nodeconfig/topologymanager.go of
kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.objects import NodeResourceTopology, TopologyZone
from kschedctl.api.pod_requests import quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import amounts

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

_NUMA_NODE = re.compile(r"node-(\d{1,2})")


class TopologyManager(NamedTuple):
    """How the kubelet of a node aligns resources."""

    policy: str = "none"
    scope: str = CONTAINER_SCOPE

    @classmethod
    def of(cls, topology: NodeResourceTopology) -> TopologyManager:
        """Attributes go before topologyPolicies; what is not known does not count."""
        former = FORMER_POLICIES.get(next(iter(topology.topology_policies), ""))
        found = cls() if former is None else cls(*former)
        for attribute in topology.attributes:
            if attribute.name == "topologyManagerPolicy" and attribute.value in POLICIES:
                found = found._replace(policy=attribute.value)
            elif attribute.name == "topologyManagerScope" and attribute.value in (POD_SCOPE, CONTAINER_SCOPE):
                found = found._replace(scope=attribute.value)
        return found


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
        found = self.available.get(resource)
        return np.full((len(self.single), self.width), -1, np.int64) if found is None else found


def numa_nodes(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> NumaNodes:
    """Of the nodes, by their rows. Raises InputError for an amount that is none."""
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
    match = _NUMA_NODE.fullmatch(zone.name) if zone.type == "Node" else None
    return int(match[1]) if match and int(match[1]) < MOST_NUMA_NODES else None


def _available(topology: NodeResourceTopology, zone: TopologyZone) -> Mapping[str, int]:
    try:
        return amounts(quantities({resource.name: resource.available for resource in zone.resources}))
    except QuantityError as error:
        where = f"{KIND} {topology.metadata.name}, zone {zone.name}"
        raise InputError(error.what, where=where, hint=error.hint) from None
