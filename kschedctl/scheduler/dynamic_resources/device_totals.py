"""How many devices of a class nodes have: what an extended resource amounts to when nodes are scored.

Upstream: calculateDRAResourceTotals in pkg/scheduler/framework/plugins/noderesources/resource_allocation.go (v1.36).
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import DeviceClass
from kschedctl.scheduler.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.dynamic_resources.requests import AllocationError, Expression


def device_totals(inventory: Inventory, device_class: DeviceClass) -> tuple[Counts, Counts]:
    """(N,) each: how many devices of a class every node has, and how many of them are allocated; for scoring.

    Slices count by themselves here, whatever is wrong with their pools; a node whose devices cannot be told has none.
    """
    name = f"class {device_class.metadata.name}"
    selectors = [Expression(name, s.cel.expression) for s in device_class.spec.selectors if s.cel is not None]
    total, allocated = np.zeros((2, len(inventory.nodes)), np.int64)
    faulty = np.zeros(len(inventory.nodes), np.bool_)
    for piece in inventory.slices:
        for device in piece.devices:
            mask = _holders(inventory, device)
            try:
                if all(inventory.selects(selector, device, shares=False) for selector in selectors):
                    total += mask
                    allocated += mask & inventory.state.holds(device.id)
            except AllocationError:
                faulty |= mask
    return np.where(faulty, 0, total), np.where(faulty, 0, allocated)


def any_device(inventory: Inventory) -> Bools:
    """(N,): the nodes for which some device counts."""
    found = np.zeros(len(inventory.nodes), np.bool_)
    for piece in inventory.slices:
        for device in piece.devices:
            found |= _holders(inventory, device)
    return found


def _holders(inventory: Inventory, device: PooledDevice) -> Bools:
    """(N,): the nodes for which a device counts; a slice that names none counts for all."""
    spec = device.slice.spec
    if spec.per_device_node_selection:
        found = device.device
        return inventory.node_mask(found.node_name, found.all_nodes, found.node_selector)
    everywhere = spec.all_nodes or not (spec.node_name or spec.node_selector is not None)
    return inventory.node_mask(spec.node_name, everywhere, spec.node_selector)
