"""The number of devices of a class on each node, which scoring needs for extended resources."""

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
    """The devices of a class."""

    total: Counts
    """The number of devices on each node (N,)."""
    faulty: Bools
    """Mask of nodes (N,) with a device for which a selector fails."""
    rows: dict[DeviceId, list[Rows]]
    """The rows of the nodes on which each device is available."""


def count_class_devices(inventory: Inventory, device_class: DeviceClass) -> tuple[Counts, Counts]:
    """Return how many devices of the class each node has, and how many of them are allocated, both (N,).

    Slices count even if their pools are unusable. A node with a device for which a selector fails has no devices.
    """
    class_devices = inventory.objects.index(
        (ClassDevices, device_class.metadata.name, inventory.features),
        lambda: _find_class_devices(inventory, device_class),
        of=(inventory.visible, device_class),
    )
    state = inventory.state
    allocated = np.zeros(len(inventory.nodes), np.int64)
    for device in state.dedicated | state.shared | state.consumed.keys():
        for rows in class_devices.rows.get(device, ()):
            allocated[rows] += 1
    return np.where(class_devices.faulty, 0, class_devices.total), np.where(class_devices.faulty, 0, allocated)


def _find_class_devices(inventory: Inventory, device_class: DeviceClass) -> ClassDevices:
    """Evaluate the selectors of the class for all devices."""
    name = f"class {device_class.metadata.name}"
    selectors = [Expression(name, s.cel.expression) for s in device_class.spec.selectors if s.cel is not None]
    nodes = len(inventory.nodes)
    class_devices = ClassDevices(np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_), {})
    for indexed_slice in inventory.slices:
        for device in indexed_slice.devices:
            rows = np.flatnonzero(_find_nodes_with_device(inventory, device))
            try:
                if all(inventory.matches_selector(selector, device, shares=False) for selector in selectors):
                    class_devices.total[rows] += 1
                    class_devices.rows.setdefault(device.id, []).append(rows)
            except AllocationError:
                class_devices.faulty[rows] = True
    return class_devices


def find_device_nodes(inventory: Inventory) -> Bools:
    """Return the mask of nodes (N,) on which some device is available."""
    mask = np.zeros(len(inventory.nodes), np.bool_)
    for indexed_slice in inventory.slices:
        for device in indexed_slice.devices:
            mask |= _find_nodes_with_device(inventory, device)
    return mask


def _find_nodes_with_device(inventory: Inventory, device: PooledDevice) -> Bools:
    """Return the mask of nodes (N,) on which the device is available.

    Devices of slices without a node are available on all nodes.
    """
    spec = device.slice.spec
    if spec.per_device_node_selection:
        published = device.device
        return inventory.find_available_nodes(published.node_name, published.all_nodes, published.node_selector)
    everywhere = spec.all_nodes or not (spec.node_name or spec.node_selector is not None)
    return inventory.find_available_nodes(spec.node_name, everywhere, spec.node_selector)
