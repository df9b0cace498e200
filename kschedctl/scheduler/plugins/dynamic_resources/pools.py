"""The devices that a node can see: ResourceSlices put together to pools, checked, in the order of the search.

Upstream: structured/internal/incubating/pools_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kschedctl.api.copying import replace
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import Device, ResourceSlice
from kschedctl.api.quantity import parse
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState, DeviceId, PoolId
from kschedctl.scheduler.plugins.helper.device_features import Features

Counters = dict[tuple[str, str], int]
"""Counter set and counter -> amount, in billionths."""


@dataclass(slots=True, eq=False)
class PooledDevice:
    """A device of a slice. Devices alike in what selectors see share ``kind``; ``twin`` is shared by those that the
    search cannot tell apart at all, but for what is allocated of them."""

    device: Device
    slice: ResourceSlice
    kind: int
    twin: int
    consumes: Counters
    id: DeviceId

    @property
    def label(self) -> str:
        return "/".join(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSlice:
    """A ResourceSlice at its place in the list of all."""

    index: int
    slice: ResourceSlice
    devices: tuple[PooledDevice, ...]

    @property
    def pool(self) -> PoolId:
        return self.slice.spec.driver, self.slice.spec.pool.name


@dataclass(frozen=True, eq=False)
class Pool:
    """What one node sees of a pool: the ``devices`` for it in the order of the search.

    From one that is ``invalid`` for a reason nothing is allocated, nor from an ``incomplete`` one since 1.35.
    ``counters`` are there for all its devices, of which ``consumers``, also those that the node does not see, take some
    when allocated. Nodes whose pools have equal ``shape``, and have the same allocated of them, are alike for the
    search.
    """

    id: PoolId
    devices: tuple[PooledDevice, ...] = ()
    counters: Counters | None = None
    consumers: tuple[PooledDevice, ...] = ()
    incomplete: bool = False
    invalid: str = ""

    @cached_property
    def device_ids(self) -> tuple[DeviceId, ...]:
        return tuple(device.id for device in self.devices)

    @property
    def usable(self) -> bool:
        return not (self.incomplete or self.invalid)

    @property
    def fault(self) -> str:
        return f"pool {self.id[1]} is invalid: {self.invalid}"

    @property
    def label(self) -> str:
        return "/".join(self.id)

    @property
    def shape(self) -> object:
        counters = tuple(sorted(self.counters.items())) if self.counters else ()
        return self.id[0], self.incomplete, bool(self.invalid), counters, tuple(d.twin for d in self.devices)

    @property
    def has_binding_conditions(self) -> bool:
        return any(d.device.binding_conditions for d in self.devices)


def billionths(amount: str | int | float) -> int:
    """An amount as a whole number of billionths.

    >>> billionths("1500m"), billionths("1Ki")
    (1500000000, 1024000000000)
    """
    quantity = parse(str(amount))
    return int(quantity.mantissa * 10 ** (quantity.scale + 9))


def newest(slices: Iterable[IndexedSlice]) -> list[IndexedSlice]:
    """The slices of one pool that have its highest generation, in their order."""
    slices = list(slices)
    if len(slices) == 1:
        return slices
    generation = max(piece.slice.spec.pool.generation for piece in slices)
    return [piece for piece in slices if piece.slice.spec.pool.generation == generation]


class Allocatability(StrEnum):
    """Whether devices can be allocated."""

    ALLOCATABLE = "can be allocated"
    UNALLOCATABLE = "cannot be"


INCOMPLETE = ByVersion(
    "devices of a pool of which a node does not see all slices",
    (("", Allocatability.ALLOCATABLE), ("1.35", Allocatability.UNALLOCATABLE)),
)

NEWER_SLICES = ByVersion(
    "how often more a slice of a newer generation counts that is found after an older one", (("", 1), ("1.32", 0))
)
CHECKS_NAMES = ByVersion("whether pools in which two devices share a name are refused", (("", False), ("1.32", True)))


class CounterScope(StrEnum):
    """The devices that can consume the shared counters of a ResourceSlice."""

    SLICE = "the slice"
    POOL = "the pool"


COUNTER_SCOPE = ByVersion(
    "for the devices of what the shared counters of a ResourceSlice are there",
    (("", CounterScope.SLICE), ("1.35", CounterScope.POOL)),
)


def build_pool(seen: Sequence[IndexedSlice], everything: Sequence[IndexedSlice], features: Features) -> Pool | None:
    """The pool of which a node sees these slices, of ``everything`` that has been published of it.

    None when the driver is replacing it by a newer generation of which the node sees nothing yet.
    """
    outdated = seen[0].slice.spec.pool.generation < max(piece.slice.spec.pool.generation for piece in seen)
    seen, partitionable = newest(seen), features.partitionable_devices
    if INCOMPLETE.at(features.release) is Allocatability.ALLOCATABLE:
        count = len(seen) + (outdated and NEWER_SLICES.at(features.release))
        missing = count != seen[0].slice.spec.pool.resource_slice_count
        pool = _with_own_counters(_by_name(seen), partitionable)
        if pool.invalid:  # the search comes to its devices all the same
            devices = tuple(device for piece in _by_name(seen) for device in piece.devices)
            pool = Pool(pool.id, devices, invalid=pool.invalid if CHECKS_NAMES.at(features.release) else "")
        return replace(pool, incomplete=missing)
    first = seen[0].slice.spec.pool
    others: list[IndexedSlice] = []
    if len(seen) != first.resource_slice_count:
        if any(piece.slice.spec.pool.generation > first.generation for piece in everything):
            return None
        current = [piece for piece in everything if piece.slice.spec.pool.generation == first.generation]
        if len(current) != first.resource_slice_count:
            return Pool(seen[0].pool, incomplete=True)
        named = {piece.slice.metadata.name for piece in seen}
        others = [piece for piece in current if piece.slice.metadata.name not in named]
    return _complete(_by_name(seen), others, partitionable)


def _by_name(slices: Sequence[IndexedSlice]) -> list[IndexedSlice]:
    return sorted(slices, key=lambda piece: piece.slice.metadata.name)


def _with_own_counters(seen: Sequence[IndexedSlice], partitionable: bool) -> Pool:
    """Slices whose counters, if any, are there for their own devices."""
    id, devices = seen[0].pool, tuple(device for piece in seen for device in piece.devices)
    fault = _duplicate(devices)
    if fault or not partitionable:
        return Pool(id, () if fault else devices, invalid=fault)
    counters = {
        (within(piece.slice.metadata.name, shared_counter.name), name): billionths(counter.value)
        for piece in seen
        for shared_counter in piece.slice.spec.shared_counters
        for name, counter in shared_counter.counters.items()
    }
    return Pool(id, devices, counters, tuple(device for device in devices if device.consumes))


def within(slice_name: str, counter_set: str) -> str:
    """The name of a counter set that is a slice's own."""
    return f"{slice_name}/{counter_set}"


def _complete(seen: Sequence[IndexedSlice], others: Sequence[IndexedSlice], partitionable: bool) -> Pool:
    id = seen[0].pool
    with_devices = [piece for piece in seen if not (partitionable and piece.slice.spec.shared_counters)]
    devices = tuple(device for piece in with_devices for device in piece.devices)
    fault = _duplicate(devices)
    if fault or not partitionable:
        return Pool(id, () if fault else devices, invalid=fault)
    counters, fault = _counters(seen)
    everything = (*devices, *(device for piece in others for device in piece.devices))
    fault = fault or _unknown_counter(everything, counters)
    if fault:
        return Pool(id, invalid=fault)
    return Pool(id, devices, counters, tuple(device for device in everything if device.consumes))


COUNTS_SHARES = ByVersion(
    "whether a device of which others have shares uses up the counters of its pool",
    (("", False), ("1.36.2", True)),
    "#139040, structured/internal/incubating/allocator_incubating.go",
)


def available(pool: Pool, state: AllocatedState, release: KubeVersion) -> Counters:
    """The pool's counters that allocated devices leave over."""
    holds = state.holds if COUNTS_SHARES.at(release) else state.dedicated.__contains__
    left = dict(pool.counters or {})
    for device in pool.consumers if left else ():
        if holds(device.id):
            for counter, amount in device.consumes.items():
                if counter in left:
                    left[counter] -= amount
    return left


def _duplicate(devices: Iterable[PooledDevice]) -> str:
    names = [device.device.name for device in devices]
    again = (name for i, name in enumerate(names) if name in names[:i])
    return f"duplicate device name {next(again)}" if len(set(names)) < len(names) else ""


def _counters(slices: Iterable[IndexedSlice]) -> tuple[Counters, str]:
    sets: dict[str, Mapping[str, int]] = {}
    for piece in slices:
        for counters in piece.slice.spec.shared_counters:
            if counters.name in sets:
                return {}, f"duplicate counter set name {counters.name}"
            sets[counters.name] = {name: billionths(counter.value) for name, counter in counters.counters.items()}
    return {(name, counter): amount for name, set_ in sets.items() for counter, amount in set_.items()}, ""


def _unknown_counter(devices: Iterable[PooledDevice], available: Counters) -> str:
    sets = {name for name, _ in available}
    for device in devices:
        for consumption in device.device.consumes_counters:
            if consumption.counter_set not in sets:
                return f"counter set {consumption.counter_set} not found"
            for counter in consumption.counters:
                if (consumption.counter_set, counter) not in available:
                    return f"counter {counter} not found in counter set {consumption.counter_set}"
    return ""


def consumption(device: Device, slice_name: str = "") -> Counters:
    """What a device takes of its pool's counters, or of those of its slice, if that is named."""
    total: Counters = {}
    for consumed in device.consumes_counters:
        counter_set = within(slice_name, consumed.counter_set) if slice_name else consumed.counter_set
        for name, counter in consumed.counters.items():
            key = (counter_set, name)
            total[key] = total.get(key, 0) + billionths(counter.value)
    return total
