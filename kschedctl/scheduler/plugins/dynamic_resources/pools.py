"""Pools of devices, built from the ResourceSlices that a node sees and checked as upstream does.

Upstream: structured/internal/incubating/pools_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kschedctl.api.copying import replace
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import Device, ResourceSlice
from kschedctl.api.quantity import parse_quantity
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState, DeviceId, PoolId
from kschedctl.scheduler.plugins.helper.device_features import Features

Counters = dict[tuple[str, str], int]
"""Counter set and counter -> amount, in billionths."""


@dataclass(slots=True, eq=False)
class PooledDevice:
    """A device of a ResourceSlice."""

    device: Device
    slice: ResourceSlice
    kind: int
    """A number that is equal for devices that selectors cannot tell apart."""
    twin: int
    """A number that is equal for devices that differ at most in their allocations."""
    consumes: Counters
    """The counters that the device consumes when it is allocated."""
    id: DeviceId

    @property
    def label(self) -> str:
        """The device's driver, pool and name as messages show them."""
        return "/".join(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSlice:
    """A ResourceSlice with its index in the list of all slices."""

    index: int
    slice: ResourceSlice
    devices: tuple[PooledDevice, ...]

    @property
    def pool(self) -> PoolId:
        """The driver and name of the slice's pool."""
        return self.slice.spec.driver, self.slice.spec.pool.name


@dataclass(frozen=True, eq=False)
class Pool:
    """The part of a pool that one node sees."""

    id: PoolId
    devices: tuple[PooledDevice, ...] = ()
    """The visible devices in the order of the search."""
    counters: Counters | None = None
    """The shared counters for all devices of the pool. None or empty if there are none."""
    consumers: tuple[PooledDevice, ...] = ()
    """The devices that consume counters, including those that the node does not see."""
    incomplete: bool = False
    """True if slices are missing. Since 1.35 nothing is allocated from such a pool."""
    invalid: str = ""
    """The reason why nothing is allocated from the pool; empty if it is valid."""

    @cached_property
    def device_ids(self) -> tuple[DeviceId, ...]:
        """The IDs of the visible devices."""
        return tuple(device.id for device in self.devices)

    @property
    def usable(self) -> bool:
        """True if devices can be allocated from the pool."""
        return not (self.incomplete or self.invalid)

    @property
    def fault(self) -> str:
        """The error message for an invalid pool."""
        _, name = self.id
        return f"pool {name} is invalid: {self.invalid}"

    @property
    def label(self) -> str:
        """The driver and name as messages show them."""
        return "/".join(self.id)

    @property
    def shape(self) -> object:
        """A key that is equal for pools that differ only in their allocations."""
        counters = tuple(sorted(self.counters.items())) if self.counters else ()
        driver, _ = self.id
        return driver, self.incomplete, bool(self.invalid), counters, tuple(d.twin for d in self.devices)

    @property
    def has_binding_conditions(self) -> bool:
        """True if some device of the pool has binding conditions."""
        return any(d.device.binding_conditions for d in self.devices)


def to_billionths(amount: str | int | float) -> int:
    """Return an amount as a whole number of billionths.

    >>> to_billionths("1500m"), to_billionths("1Ki")
    (1500000000, 1024000000000)
    """
    quantity = parse_quantity(str(amount))
    return int(quantity.mantissa * 10 ** (quantity.scale + 9))


def select_newest_generation(slices: Iterable[IndexedSlice]) -> list[IndexedSlice]:
    """Return the slices of one pool that have the highest generation, in their original order."""
    slices = list(slices)
    if len(slices) == 1:
        return slices
    generation = max(indexed_slice.slice.spec.pool.generation for indexed_slice in slices)
    return [indexed_slice for indexed_slice in slices if indexed_slice.slice.spec.pool.generation == generation]


class Allocatability(StrEnum):
    """The ability of a version to allocate certain devices."""

    ALLOCATABLE = "can be allocated"
    UNALLOCATABLE = "cannot be allocated"


INCOMPLETE = ByVersion(
    "devices of a pool whose ResourceSlices are not all visible to the node",
    (("", Allocatability.ALLOCATABLE), ("1.35", Allocatability.UNALLOCATABLE)),
)

NEWER_SLICES = ByVersion(
    "the count of a pool's ResourceSlices is one too high if some are of an older generation (a bug)",
    (("", True), ("1.32", False)),
)
CHECKS_NAMES = ByVersion("a pool with two devices of the same name is invalid", (("", False), ("1.32", True)))


class CounterScope(StrEnum):
    """The devices that can consume the shared counters of a ResourceSlice."""

    SLICE = "devices of the same slice"
    POOL = "devices of the whole pool"


COUNTER_SCOPE = ByVersion(
    "devices that can consume a ResourceSlice's shared counters",
    (("", CounterScope.SLICE), ("1.35", CounterScope.POOL)),
)


def build_pool(
    visible_slices: Sequence[IndexedSlice], published: Sequence[IndexedSlice], features: Features
) -> Pool | None:
    """Build the pool that a node sees from its `visible_slices` and all `published` slices of the pool.

    Since 1.35, a pool is incomplete and has no devices unless all its slices are published. Return None if the driver
    is replacing the pool with a newer generation that the node does not see yet. Before 1.35, only the visible slices
    count.
    """
    allows_incomplete_pools = INCOMPLETE.at(features.release) is Allocatability.ALLOCATABLE
    if allows_incomplete_pools:
        return _build_pool_before_1_35(visible_slices, features)
    newest = select_newest_generation(visible_slices)
    pool_id, pool_spec = newest[0].pool, newest[0].slice.spec.pool
    if len(newest) == pool_spec.resource_slice_count:
        return _build_complete_pool(_sort_by_name(newest), [], partitionable=features.partitionable_devices)

    # The node does not see all slices of the pool. The others may be for other nodes, or not published yet.
    generations = [indexed_slice.slice.spec.pool.generation for indexed_slice in published]
    if max(generations) > pool_spec.generation:  # the driver is replacing the pool
        return None
    if generations.count(pool_spec.generation) != pool_spec.resource_slice_count:
        return Pool(pool_id, incomplete=True)

    # All slices are published. Those that the node does not see offer it no devices, but may use the same counters.
    visible_names = {indexed_slice.slice.metadata.name for indexed_slice in newest}
    invisible_slices = [
        indexed_slice
        for indexed_slice, generation in zip(published, generations, strict=True)
        if generation == pool_spec.generation and indexed_slice.slice.metadata.name not in visible_names
    ]
    return _build_complete_pool(_sort_by_name(newest), invisible_slices, partitionable=features.partitionable_devices)


def _build_pool_before_1_35(visible_slices: Sequence[IndexedSlice], features: Features) -> Pool:
    """Build a pool from only its visible slices, as versions before 1.35 do.

    In these versions, an incomplete or invalid pool keeps its devices, because the search visits them. Before 1.32, a
    pool with two devices of the same name is valid.
    """
    newest = select_newest_generation(visible_slices)
    pool_spec = newest[0].slice.spec.pool

    # Upstream before 1.32 counts one slice too many if it meets an older generation first.
    slice_count = len(newest)
    if visible_slices[0].slice.spec.pool.generation < pool_spec.generation:
        slice_count += NEWER_SLICES.at(features.release)
    incomplete = slice_count != pool_spec.resource_slice_count

    slices = _sort_by_name(newest)
    pool = _build_pool_with_slice_counters(slices, partitionable=features.partitionable_devices)
    if pool.invalid:
        has_noticed_fault = CHECKS_NAMES.at(features.release)
        devices = tuple(device for indexed_slice in slices for device in indexed_slice.devices)
        pool = Pool(pool.id, devices, invalid=pool.invalid if has_noticed_fault else "")
    return replace(pool, incomplete=incomplete)


def _sort_by_name(slices: Sequence[IndexedSlice]) -> list[IndexedSlice]:
    """Return the slices sorted by name."""
    return sorted(slices, key=lambda indexed_slice: indexed_slice.slice.metadata.name)


def _build_pool_with_slice_counters(visible_slices: Sequence[IndexedSlice], *, partitionable: bool) -> Pool:
    """Build a pool in which counters are shared within each slice, as before 1.35.

    If two devices have the same name, the pool is invalid and has no devices. It has counters only if `partitionable`
    (DRAPartitionableDevices) is True.
    """
    pool_id = visible_slices[0].pool
    devices = _list_devices(visible_slices)
    fault = _describe_duplicate_name(devices)
    if fault:
        return Pool(pool_id, invalid=fault)
    if not partitionable:
        return Pool(pool_id, devices)
    counters = {}
    for indexed_slice in visible_slices:
        for shared_counter in indexed_slice.slice.spec.shared_counters:
            counter_set = qualify_counter_set(indexed_slice.slice.metadata.name, shared_counter.name)
            for name, counter in shared_counter.counters.items():
                counters[counter_set, name] = to_billionths(counter.value)
    consumers = tuple(device for device in devices if device.consumes)
    return Pool(pool_id, devices, counters, consumers)


def _list_devices(slices: Iterable[IndexedSlice]) -> tuple[PooledDevice, ...]:
    """Return the devices of all slices, in order."""
    return tuple(device for indexed_slice in slices for device in indexed_slice.devices)


def qualify_counter_set(slice_name: str, counter_set: str) -> str:
    """Return ``slice/counter set``, which distinguishes counter sets of the same name in different slices."""
    return f"{slice_name}/{counter_set}"


def _build_complete_pool(
    visible_slices: Sequence[IndexedSlice], invisible_slices: Sequence[IndexedSlice], *, partitionable: bool
) -> Pool:
    """Build a pool whose slices are all published. It has the devices of the slices that the node sees.

    If ``partitionable`` (DRAPartitionableDevices) is true, a slice has either shared counters or devices, and devices
    in `invisible_slices` consume counters as well. If a device name occurs twice or counters are faulty, the pool is
    invalid and has no devices.
    """
    pool_id = visible_slices[0].pool
    slices_with_devices = visible_slices
    if partitionable:
        slices_with_devices = [indexed for indexed in visible_slices if not indexed.slice.spec.shared_counters]
    devices = _list_devices(slices_with_devices)
    name_fault = _describe_duplicate_name(devices)
    if name_fault:
        return Pool(pool_id, invalid=name_fault)
    if not partitionable:
        return Pool(pool_id, devices)

    counters, counter_fault = _read_shared_counters(visible_slices)
    all_devices = (*devices, *_list_devices(invisible_slices))
    counter_fault = counter_fault or _describe_unknown_counter(all_devices, counters)
    if counter_fault:
        return Pool(pool_id, invalid=counter_fault)
    consumers = tuple(device for device in all_devices if device.consumes)
    return Pool(pool_id, devices, counters, consumers)


COUNTS_SHARES = ByVersion(
    "a shared device (allowMultipleAllocations) that is already in use consumes its pool's shared counters",
    (("", False), ("1.36.2", True)),
    "#139040, structured/internal/incubating/allocator_incubating.go",
)


def compute_remaining_counters(pool: Pool, state: AllocatedState, release: KubeVersion) -> Counters:
    """Return the pool's counters minus what its allocated devices consume, or {} if the pool has no counters.

    Since 1.36.2, devices that are allocated only in shares consume counters as well.
    """
    if not pool.counters:
        return {}
    counts_shares = COUNTS_SHARES.at(release)
    remaining = dict(pool.counters)
    for device in pool.consumers:
        is_counted = state.is_allocated(device.id) if counts_shares else device.id in state.dedicated
        if not is_counted:
            continue
        for counter, amount in device.consumes.items():
            if counter in remaining:
                remaining[counter] -= amount
    return remaining


def _describe_duplicate_name(devices: Iterable[PooledDevice]) -> str:
    """Return an error message if two devices have the same name, otherwise an empty string."""
    names: set[str] = set()
    for device in devices:
        if device.device.name in names:
            return f"duplicate device name {device.device.name}"
        names.add(device.device.name)
    return ""


def _read_shared_counters(slices: Iterable[IndexedSlice]) -> tuple[Counters, str]:
    """Return the shared counters of the slices and an error message, which is empty if they are valid.

    If two counter sets have the same name, return no counters and an error message.
    """
    set_names: set[str] = set()
    counters: Counters = {}
    for indexed_slice in slices:
        for counter_set in indexed_slice.slice.spec.shared_counters:
            if counter_set.name in set_names:
                return {}, f"duplicate counter set name {counter_set.name}"
            set_names.add(counter_set.name)
            for name, counter in counter_set.counters.items():
                counters[counter_set.name, name] = to_billionths(counter.value)
    return counters, ""


def _describe_unknown_counter(devices: Iterable[PooledDevice], available: Counters) -> str:
    """Return an error message if a device consumes a counter that is not in `available`, otherwise an empty string."""
    set_names = {set_name for set_name, _ in available}
    for device in devices:
        for consumption in device.device.consumes_counters:
            if consumption.counter_set not in set_names:
                return f"counter set {consumption.counter_set} not found"
            for counter in consumption.counters:
                if (consumption.counter_set, counter) not in available:
                    return f"counter {counter} not found in counter set {consumption.counter_set}"
    return ""


def compute_counter_consumption(device: Device, slice_name: str = "") -> Counters:
    """Return the amount that a device consumes of each counter, in billionths.

    If `slice_name` is given, it qualifies the names of the counter sets, as in versions before 1.35.
    """
    total: Counters = {}
    for consumed in device.consumes_counters:
        counter_set = qualify_counter_set(slice_name, consumed.counter_set) if slice_name else consumed.counter_set
        for name, counter in consumed.counters.items():
            key = (counter_set, name)
            total[key] = total.get(key, 0) + to_billionths(counter.value)
    return total
