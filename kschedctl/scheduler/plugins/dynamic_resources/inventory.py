"""The devices of a cluster, the pools that each node sees, and the allocations.

Upstream: GatherPools in structured/internal/incubating (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import (
    DeviceClass,
    NodeSelector,
    NodeSelectorTerm,
    PodGroup,
    ResourceClaim,
    ResourceClaimSpec,
    SelectorRequirement,
)
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState, ClaimIndex, DeviceId, PoolId
from kschedctl.scheduler.plugins.dynamic_resources.claims import iter_pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.devices import Devices, TaintRules
from kschedctl.scheduler.plugins.dynamic_resources.pools import (
    COUNTER_SCOPE,
    Counters,
    CounterScope,
    IndexedSlice,
    Pool,
    PooledDevice,
    build_pool,
    compute_remaining_counters,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, Expression
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.nodes import NodeColumns, match_node_selector
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder(order="sorted").encode

MAX_SHARED_VERDICTS = 64
MAX_FACTS = 4096
V = TypeVar("V")


class BoundedCache:
    """A cache that drops its oldest entries when it is full."""

    def __init__(self, max_entries: int) -> None:
        self._values: dict[Hashable, Any] = {}
        self._max_entries = max_entries

    def get_or_make(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the cached value for a key, or compute it with `make` and cache it.

        If the cache is full, its oldest entries are dropped. A cached None counts as missing.
        """
        value: V | None = self._values.get(key)
        if value is None:
            drop_oldest_if_full(self._values, self._max_entries)
            value = self._values[key] = make()
        return value


class Inventory:
    """The devices and claims of a fork under some feature gates. Raises AllocationError if slices cannot be read.

    ``devices`` and ``visible`` hold what slices, taint rules and nodes define, and ``reservations`` the claims'
    allocations. ``changed_pools`` lists, in order, the pools of devices that were allocated or released later.
    ``shared_verdicts`` and ``facts`` are shared by pods whose claims request the same.
    """

    def __init__(self, view: Fork, features: Features) -> None:
        self.objects, self.nodes, self.features = view.objects, view.nodes, features
        self.devices = self.objects.index(
            (Devices, features),
            lambda slices, rules, classes: Devices(slices, TaintRules(rules, classes, features), features),
            "ResourceSlice",
            "DeviceTaintRule",
            "DeviceClass",
        )
        self.visible = self.objects.index(
            (VisibleDevices, features),
            lambda: VisibleDevices(self.devices, self.nodes),
            of=(self.devices, self.nodes),
        )
        shares = features.consumable_capacity
        claim_index = self.objects.index(
            (ClaimIndex, shares), lambda claims: ClaimIndex(claims, shares), "ResourceClaim"
        )
        self.reservations = claim_index.copy()
        self.changed_pools: list[PoolId] = []
        self._latest_claims: tuple[PodInfo, tuple[ResourceClaim, ...]] | None = None
        """The pod for which `list_pod_claims` was called last, with its claims. None once a claim has changed."""
        self.shared_verdicts, self.facts = BoundedCache(MAX_SHARED_VERDICTS), BoundedCache(MAX_FACTS)
        self._numbers_by_spec_id: dict[int, tuple[ResourceClaimSpec, int]] = {}
        self._numbers: dict[bytes, int] = {}

    def replace_object(self, claim: ResourceClaim) -> None:
        """Update the allocated devices for a new claim, or for a claim that replaces the claim of the same name."""
        self._latest_claims = None
        self.changed_pools += [use.id for use in self.reservations.put_claim(claim)]

    def list_pod_claims(self, info: PodInfo) -> tuple[ResourceClaim, ...]:
        """Return the claims that the pod's spec references, in order. Raises ClaimError if a claim cannot be used.

        The claims of the latest pod are cached until a claim changes.
        """
        if self._latest_claims is not None:
            latest_info, claims = self._latest_claims
            if latest_info is info:
                return claims
        claims = tuple([claim for _, claim in iter_pod_claims(info.pod, self.claims, self.features)])
        self._latest_claims = info, claims
        return claims

    def get_claim_spec_id(self, claim: ResourceClaim) -> int:
        """Return a number that is equal for claims with equal specs, and different for all other claims."""
        spec = claim.spec
        if id(spec) not in self._numbers_by_spec_id:
            number = self._numbers.setdefault(_encode(spec), len(self._numbers))
            self._numbers_by_spec_id[id(spec)] = spec, number  # keeping the spec alive keeps its id unique
        _, number = self._numbers_by_spec_id[id(spec)]
        return number

    @property
    def claims(self) -> Mapping[str, ResourceClaim]:
        """The claims by ``namespace/name``."""
        return self.reservations.by_name

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The device classes by name."""
        return self.objects.index("device classes", _index_classes_by_name, "DeviceClass")

    @property
    def classes_by_resource(self) -> Mapping[str, DeviceClass]:
        """The device classes that back extended resources, by resource. Empty without DRAExtendedResource."""
        return find_backing_classes(self.objects) if self.features.extended_resource else {}

    @property
    def pod_groups(self) -> tuple[PodGroup, ...]:
        """All PodGroups of the fork."""
        return self.objects.of("PodGroup")

    @property
    def slices(self) -> list[IndexedSlice]:
        """All ResourceSlices with their devices, after taint rules."""
        return self.devices.slices

    @property
    def state(self) -> AllocatedState:
        """The allocated devices."""
        return self.reservations.state

    def get_pools(self, row: int) -> tuple[Pool, ...]:
        """Return the pools that a node sees, including unusable ones, in the order of the search."""
        return self.visible.get_pools(row)

    def compute_available_counters(self, pool: Pool) -> Counters:
        """Return the pool's counters minus the amounts that allocated devices consume."""
        return compute_remaining_counters(pool, self.state, self.features.release)

    def build_device_key(self, row: int) -> object:
        """Return a key that is equal for nodes with equivalent devices and equal allocations."""
        allocations = tuple(map(self._build_allocation_key, self.visible.get_pools(row)))
        return self.visible.get_visible_devices_id(row), allocations

    def _build_allocation_key(self, pool: Pool) -> object:
        """Return a key for the allocations of the pool's devices and its remaining counters.

        The key is cached until an allocation in the pool changes.
        """
        use = self.reservations.get_pool_use(pool.id)
        key = use.derived.get(pool)
        if key is None:
            device_states = tuple(map(use.state_numbers.get, pool.device_ids)) if use.state_numbers else None
            available = tuple(sorted(self.compute_available_counters(pool).items())) if pool.counters else ()
            key = use.derived[pool] = device_states, available
        return key

    def find_available_nodes(self, name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> Bools:
        """Return the mask (N,) of the nodes on which a slice or device is available.

        Arguments and errors are those of `VisibleDevices.find_available_nodes`.
        """
        return self.visible.find_available_nodes(name, everywhere, selector)

    def is_on_node(self, device: PooledDevice, row: int) -> bool:
        """Return whether the device is available on a node. Raises AllocationError for an invalid node selector."""
        return self.visible.is_on_node(device, row)

    def matches_selector(self, expression: Expression, device: PooledDevice, shares: bool = True) -> bool:
        """Return whether the selector matches the device.

        Arguments and errors are those of `Devices.matches_selector`.
        """
        return self.devices.matches_selector(expression, device, shares)


def get_inventory(view: Fork, features: Features) -> Inventory:
    """Return the fork's inventory under the features, which is built on first use and follows changes of claims."""
    return view.objects.get_derived_value((Inventory, features), lambda: Inventory(view, features), "ResourceClaim")


def _index_classes_by_name(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    """Return the device classes by name."""
    return {class_.metadata.name: class_ for class_ in classes}


class VisibleDevices:
    """The devices that each of N nodes sees, whether or not they are allocated.

    Its methods raise AllocationError if slices cannot be read.
    """

    def __init__(self, devices: Devices, nodes: NodeColumns) -> None:
        self.devices, self.nodes = devices, nodes
        # Caches
        self._masks_by_selector: dict[bytes, Bools] = {}
        self._pools_by_slices: dict[tuple[int, ...], Pool | None] = {}
        self._devices_by_pools: dict[tuple[Pool, ...], tuple[PooledDevice, ...]] = {}
        self._rows_by_pool: dict[PoolId, list[int]] = {}
        self._selectors_by_row: dict[int, NodeSelector] = {}
        self._numbers_by_devices: dict[object, int] = {}
        self._numbers_by_row: dict[int, int] = {}

    def get_pools(self, row: int) -> tuple[Pool, ...]:
        """Return the pools that a node sees, including unusable ones, in the order of the search."""
        return self._pools_by_row[row]

    def list_devices(self, row: int) -> tuple[PooledDevice, ...]:
        """Return all devices of the node's pools, in the order of the search.

        Nodes with the same pools share the result.
        """
        pools = self.get_pools(row)
        devices = self._devices_by_pools.get(pools)
        if devices is None:
            devices = self._devices_by_pools[pools] = tuple(device for pool in pools for device in pool.devices)
        return devices

    def find_rows_of_nodes_seeing_pool(self, pool: PoolId) -> list[int]:
        """Return the rows of the nodes that see a slice of the pool, even if the slice is outdated.

        The result is cached.
        """
        rows = self._rows_by_pool.get(pool)
        if rows is None:
            mask = np.zeros(len(self.nodes), np.bool_)
            for indexed_slice in self.devices.slices_by_pool.get(pool, ()):
                mask |= self._find_slice_nodes(indexed_slice)
            rows = self._rows_by_pool[pool] = np.flatnonzero(mask).tolist()
        return rows

    def get_node_selector(self, row: int) -> NodeSelector:
        """Return a selector that matches only the node in this row. Repeated calls return the same object."""
        selector = self._selectors_by_row.get(row)
        if selector is None:
            has_name = SelectorRequirement("metadata.name", "In", (self.nodes.names[row],))
            selector = self._selectors_by_row[row] = NodeSelector((NodeSelectorTerm(match_fields=(has_name,)),))
        return selector

    def get_visible_devices_id(self, row: int) -> int:
        """Return a number that is equal for nodes that see the same available devices in pools of the same shape.

        The numbers are cached by row. Raises AllocationError for an invalid node selector.
        """
        number = self._numbers_by_row.get(row)
        if number is not None:
            return number
        pools = self.get_pools(row)

        # Pools of equal names matter, the names themselves do not: ["a", "b", "a"] becomes (0, 1, 0).
        pool_ids = [pool.id for pool in pools]
        pool_names = [name for _driver, name in pool_ids]
        name_pattern = tuple(map(pool_names.index, pool_names))

        availability = tuple(
            self.is_on_node(device, row)
            for pool in pools
            for device in pool.devices
            if device.slice.spec.per_device_node_selection
        )
        key = availability, name_pattern, tuple(pool.shape for pool in pools)
        number = self._numbers_by_devices.setdefault(key, len(self._numbers_by_devices))
        self._numbers_by_row[row] = number
        return number

    def find_available_nodes(self, name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> Bools:
        """Return a mask (N,) of the nodes on which a slice or device with these three fields is available.

        If `name` is not empty, only the node with that name counts. Without a name, all nodes count if `everywhere` is
        True. If neither is set, the nodes that the selector matches count, or no node without a selector. Raises
        AllocationError for an invalid selector.
        """
        if name:
            mask = np.zeros(len(self.nodes), np.bool_)
            if name in self.nodes.index:
                mask[self.nodes.index[name]] = True
            return mask
        if everywhere:
            return np.ones(len(self.nodes), np.bool_)
        if selector is None:
            return np.zeros(len(self.nodes), np.bool_)
        key = _encode(selector)
        if key not in self._masks_by_selector:
            compiled = compile_node_selector(selector)
            try:
                self._masks_by_selector[key] = match_node_selector(self.nodes, compiled)
            except NodeSelectorError as error:
                raise AllocationError(f"gather pool information: failed to parse node selector: {error}") from None
        return self._masks_by_selector[key]

    def is_on_node(self, device: PooledDevice, row: int) -> bool:
        """Return whether the device is available on a node. Raises AllocationError for an invalid node selector."""
        if not device.slice.spec.per_device_node_selection:
            return True
        spec = device.device
        return bool(self.find_available_nodes(spec.node_name, spec.all_nodes, spec.node_selector)[row])

    # -- slices --------------------------------------------------------------------------------------------------

    @cached_property
    def _pools_by_row(self) -> list[tuple[Pool, ...]]:
        """The pools that each node sees, in the order of the search, one tuple per node."""
        slice_sets, set_by_node = self._shared_slices
        pools_by_slices: dict[tuple[int, ...], tuple[Pool, ...]] = {}
        pools = []
        with without_garbage_collection():
            for name, set_index in zip(self.nodes.names, set_by_node.tolist(), strict=True):
                slice_indices = (*self._slices_by_node.get(name, ()), *slice_sets[set_index])
                if slice_indices not in pools_by_slices:
                    pools_by_slices[slice_indices] = self._build_pools(slice_indices)
                pools.append(pools_by_slices[slice_indices])
        return pools

    def _build_pools(self, slice_indices: tuple[int, ...]) -> tuple[Pool, ...]:
        """Build the pools that a node sees, in the order of the search.

        `slice_indices` are the indices of the slices for this node. Slices with shared counters, which every node sees,
        are added to their pools. Pools that the driver is replacing are left out. Unusable pools are included even if
        the node sees only their counters. Pools with binding conditions come last.
        """
        by_pool: dict[PoolId, list[int]] = {}
        for index in slice_indices:
            by_pool.setdefault(self.devices.slices[index].pool, []).append(index)
        pools = []
        for id, indices in by_pool.items():
            pool = self._get_pool((*indices, *self._shared_counter_slices_by_pool.get(id, ())))
            if pool is not None:
                pools.append(pool)
        pools += [pool for id, pool in self._unusable_counter_pools.items() if id not in by_pool]
        return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    def _get_pool(self, indices: tuple[int, ...]) -> Pool | None:
        """Return the pool made of the visible slices at `indices`, from a cache if possible.

        Return None if the driver is replacing the pool with a newer generation that the node does not see yet.
        """
        if indices not in self._pools_by_slices:
            visible_slices = [self.devices.slices[index] for index in indices]
            published = self.devices.slices_by_pool[visible_slices[0].pool]
            self._pools_by_slices[indices] = build_pool(visible_slices, published, self.devices.features)
        return self._pools_by_slices[indices]

    def _is_visible_everywhere(self, indexed_slice: IndexedSlice) -> bool:
        """Return whether every node sees the slice.

        Since 1.35, every node sees a slice with shared counters.
        """
        shares_counters_in_pool = COUNTER_SCOPE.at(self.devices.features.release) is CounterScope.POOL
        return shares_counters_in_pool and bool(indexed_slice.slice.spec.shared_counters)

    @cached_property
    def _shared_counter_slices_by_pool(self) -> dict[PoolId, tuple[int, ...]]:
        """The indices of the slices with shared counters that every node sees, by pool."""
        indices_by_pool: dict[PoolId, list[int]] = {}
        for indexed_slice in self.devices.enabled_slices:
            if self._is_visible_everywhere(indexed_slice):  # only slices with shared counters are
                indices_by_pool.setdefault(indexed_slice.pool, []).append(indexed_slice.index)
        return {pool_id: tuple(indices) for pool_id, indices in indices_by_pool.items()}

    @cached_property
    def _unusable_counter_pools(self) -> dict[PoolId, Pool]:
        """The unusable pools of which a node sees only counters. They make requests with mode All fail."""
        pools = {id: self._get_pool(indices) for id, indices in self._shared_counter_slices_by_pool.items()}
        return {id: pool for id, pool in pools.items() if pool is not None and not pool.usable}

    @cached_property
    def _slices_by_node(self) -> dict[str, tuple[int, ...]]:
        """The indices of the slices for a single node, by node name."""
        by_node: dict[str, tuple[int, ...]] = {}
        for indexed_slice in self.devices.enabled_slices:
            name = indexed_slice.slice.spec.node_name
            if name and not self._is_visible_everywhere(indexed_slice):
                by_node[name] = (*by_node.get(name, ()), indexed_slice.index)
        return by_node

    @cached_property
    def _shared_slices(self) -> tuple[list[tuple[int, ...]], npt.NDArray[np.intp]]:
        """The distinct sets of shared slices that nodes see, and for each node the index of its set.

        Each set is a tuple of slice indices. If there are no shared slices, the only set is empty.
        """
        indexed_slices = [
            indexed_slice
            for indexed_slice in self.devices.enabled_slices
            if not indexed_slice.slice.spec.node_name and not self._is_visible_everywhere(indexed_slice)
        ]
        if not indexed_slices:
            return [()], np.zeros(len(self.nodes), np.intp)
        is_visible = np.array([self._find_slice_nodes(indexed_slice) for indexed_slice in indexed_slices])
        # A column of this matrix (slices, N) is the set of slices that a node sees.
        distinct_columns, set_by_node = np.unique(is_visible, axis=1, return_inverse=True)
        indices = np.array([indexed_slice.index for indexed_slice in indexed_slices])
        slice_sets = [tuple(indices[is_in_set].tolist()) for is_in_set in distinct_columns.T]
        return slice_sets, set_by_node.reshape(-1)  # some versions of numpy return it as a row

    def _find_slice_nodes(self, indexed_slice: IndexedSlice) -> Bools:
        """Return a mask (N,) of the nodes served by the slice or, with per-device node selection, by its devices.

        A slice that does not select nodes serves no node. Raises AllocationError for an invalid node selector.
        """
        spec = indexed_slice.slice.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self.find_available_nodes(spec.node_name, spec.all_nodes, spec.node_selector)
        mask = np.zeros(len(self.nodes), np.bool_)
        if spec.per_device_node_selection:
            for device in indexed_slice.devices:
                fields = device.device
                mask |= self.find_available_nodes(fields.node_name, fields.all_nodes, fields.node_selector)
        return mask


class ClassDevices(NamedTuple):
    """The devices of a class."""

    total: Counts
    """The number of devices on each node (N,)."""
    faulty: Bools
    """Mask of nodes (N,) with a device for which a selector fails."""
    rows_by_device: dict[DeviceId, list[Rows]]
    """The rows of the nodes on which each device is available."""


def count_class_devices(inventory: Inventory, device_class: DeviceClass) -> tuple[Counts, Counts]:
    """Return, for each node, how many devices of the class it has, and how many of these are allocated.

    Devices in unusable pools are included. If a selector fails for one of a node's devices, both numbers of the node
    are 0.
    """
    class_devices = inventory.objects.index(
        (ClassDevices, device_class.metadata.name, inventory.features),
        lambda: _find_class_devices(inventory, device_class),
        of=(inventory.visible, device_class),
    )
    state = inventory.state
    allocated = np.zeros(len(inventory.nodes), np.int64)
    for device in state.dedicated | state.shared | state.consumed.keys():
        for rows in class_devices.rows_by_device.get(device, ()):
            allocated[rows] += 1
    return np.where(class_devices.faulty, 0, class_devices.total), np.where(class_devices.faulty, 0, allocated)


def _find_class_devices(inventory: Inventory, device_class: DeviceClass) -> ClassDevices:
    """Find the devices that match all selectors of the class, and count them on each node.

    A node is marked as faulty if the evaluation of a selector raises an error for one of its devices.
    """
    holder = f"class {device_class.metadata.name}"
    selectors = [Expression(holder, s.cel.expression) for s in device_class.spec.selectors if s.cel is not None]
    num_nodes = len(inventory.nodes)
    total = np.zeros(num_nodes, np.int64)
    faulty = np.zeros(num_nodes, np.bool_)
    rows_by_device: dict[DeviceId, list[Rows]] = {}
    for indexed_slice in inventory.slices:
        for device in indexed_slice.devices:
            rows = np.flatnonzero(_find_nodes_with_device(inventory, device))
            try:
                # As in upstream's scoring, selectors do not see whether the device allows multiple allocations
                if all(inventory.matches_selector(selector, device, shares=False) for selector in selectors):
                    total[rows] += 1
                    rows_by_device.setdefault(device.id, []).append(rows)
            except AllocationError:
                faulty[rows] = True
    return ClassDevices(total=total, faulty=faulty, rows_by_device=rows_by_device)


def find_device_nodes(inventory: Inventory) -> Bools:
    """Return a mask (N,) of the nodes on which any published device is available, even if it is allocated."""
    mask = np.zeros(len(inventory.nodes), np.bool_)
    for indexed_slice in inventory.slices:
        for device in indexed_slice.devices:
            mask |= _find_nodes_with_device(inventory, device)
    return mask


def _find_nodes_with_device(inventory: Inventory, device: PooledDevice) -> Bools:
    """Return a mask (N,) of the nodes on which the device is available, as upstream's scoring counts it.

    Unlike in a search for devices, a device of a slice that does not select nodes is available on all nodes.
    """
    spec = device.slice.spec
    if spec.per_device_node_selection:
        fields = device.device
        return inventory.find_available_nodes(fields.node_name, fields.all_nodes, fields.node_selector)
    everywhere = spec.all_nodes or (not spec.node_name and spec.node_selector is None)
    return inventory.find_available_nodes(spec.node_name, everywhere, spec.node_selector)
