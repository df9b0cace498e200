"""How many devices of a class nodes have: what an extended resource amounts to when nodes are scored.

Upstream: calculateDRAResourceTotals in pkg/scheduler/framework/plugins/noderesources/resource_allocation.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.objects import DeviceClass
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, Expression


class ClassDevices(NamedTuple):
    """The devices of a class: (N,) how many a node has, and whether they cannot be told; the rows of each of them."""

    total: Counts
    faulty: Bools
    rows: dict[DeviceId, list[Rows]]


def device_totals(inventory: Inventory, device_class: DeviceClass) -> tuple[Counts, Counts]:
    """(N,) each: how many devices of a class every node has, and how many of them are allocated; for scoring.

    Slices count by themselves here, whatever is wrong with their pools; a node whose devices cannot be told has none.
    """
    class_devices = inventory.objects.index(
        (ClassDevices, device_class.metadata.name, inventory.features),
        lambda: _class_devices(inventory, device_class),
        of=(inventory.visible, device_class),
    )
    state, allocated = inventory.state, np.zeros(len(inventory.nodes), np.int64)
    for device in state.dedicated | state.shared | state.consumed.keys():
        for rows in class_devices.rows.get(device, ()):
            allocated[rows] += 1
    return np.where(class_devices.faulty, 0, class_devices.total), np.where(class_devices.faulty, 0, allocated)


def _class_devices(inventory: Inventory, device_class: DeviceClass) -> ClassDevices:
    name = f"class {device_class.metadata.name}"
    selectors = [Expression(name, s.cel.expression) for s in device_class.spec.selectors if s.cel is not None]
    nodes = len(inventory.nodes)
    class_devices = ClassDevices(np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_), {})
    for piece in inventory.slices:
        for device in piece.devices:
            rows = np.flatnonzero(_holders(inventory, device))
            try:
                if all(inventory.selects(selector, device, shares=False) for selector in selectors):
                    class_devices.total[rows] += 1
                    class_devices.rows.setdefault(device.id, []).append(rows)
            except AllocationError:
                class_devices.faulty[rows] = True
    return class_devices


def any_device(inventory: Inventory) -> Bools:
    """(N,): the nodes for which some device counts."""
    mask = np.zeros(len(inventory.nodes), np.bool_)
    for piece in inventory.slices:
        for device in piece.devices:
            mask |= _holders(inventory, device)
    return mask


def _holders(inventory: Inventory, device: PooledDevice) -> Bools:
    """(N,): the nodes for which a device counts; a slice that names none counts for all."""
    spec = device.slice.spec
    if spec.per_device_node_selection:
        published = device.device
        return inventory.node_mask(published.node_name, published.all_nodes, published.node_selector)
    everywhere = spec.all_nodes or not (spec.node_name or spec.node_selector is not None)
    return inventory.node_mask(spec.node_name, everywhere, spec.node_selector)
