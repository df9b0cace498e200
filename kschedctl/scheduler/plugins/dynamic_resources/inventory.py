"""The devices of a cluster and their allocations, shared by everything that looks at devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import DeviceClass, NodeSelector, PodGroup, ResourceClaim, ResourceClaimSpec
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState, ClaimIndex, PoolId
from kschedctl.scheduler.plugins.dynamic_resources.claims import iter_pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.devices import Devices, TaintRules
from kschedctl.scheduler.plugins.dynamic_resources.pools import (
    Counters,
    IndexedSlice,
    Pool,
    PooledDevice,
    subtract_allocated,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import Expression
from kschedctl.scheduler.plugins.dynamic_resources.visible import VisibleDevices
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder(order="sorted").encode

ANSWERS_KEPT, FACTS_KEPT = 64, 4096
V = TypeVar("V")


class BoundedCache:
    """A cache that drops its oldest entries when it is full."""

    def __init__(self, most: int) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._most = most

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value for a key, and make it if it is missing."""
        value: V | None = self._kept.get(key)
        if value is None:
            drop_oldest_if_full(self._kept, self._most)
            value = self._kept[key] = make()
        return value


class Inventory:
    """The devices and claims of a fork under some feature gates.

    ``devices`` and ``visible`` hold what slices, taint rules and nodes define, and ``reservations`` the claims'
    allocations. ``changed`` lists the pools of devices that were allocated or released since, in order. ``answers`` and
    ``facts`` are shared by pods whose claims request the same. Raises AllocationError if slices cannot be read.
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
        known = self.objects.index((ClaimIndex, shares), lambda claims: ClaimIndex(claims, shares), "ResourceClaim")
        self.reservations = known.copy()
        self.changed: list[PoolId] = []
        self._latest: tuple[PodInfo, tuple[ResourceClaim, ...]] | None = None
        self.answers, self.facts = BoundedCache(ANSWERS_KEPT), BoundedCache(FACTS_KEPT)
        self._specs: dict[int, tuple[ResourceClaimSpec, int]] = {}
        self._numbers: dict[bytes, int] = {}

    def replaced(self, claim: ResourceClaim) -> None:
        """Update allocations after a claim of the fork was replaced."""
        self._latest = None
        self.changed += [use.id for use in self.reservations.put(claim)]

    def list_pod_claims(self, info: PodInfo) -> tuple[ResourceClaim, ...]:
        """Return the pod's claims in order, cached for the latest pod until a claim changes. Raises ClaimError."""
        if self._latest is None or self._latest[0] is not info:
            self._latest = info, tuple([claim for _, claim in iter_pod_claims(info.pod, self.claims, self.features)])
        return self._latest[1]

    def number_spec(self, claim: ResourceClaim) -> int:
        """Return a number that is equal for claims with equal specs."""
        spec = claim.spec
        entry = self._specs.get(id(spec))
        if entry is None:  # it is kept with its number, so that no other comes to have its id
            entry = self._specs[id(spec)] = spec, self._numbers.setdefault(_encode(spec), len(self._numbers))
        return entry[1]

    @property
    def claims(self) -> Mapping[str, ResourceClaim]:
        """The claims by ``namespace/name``."""
        return self.reservations.by_name

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The device classes by name."""
        return self.objects.index("device classes", _index_by_name, "DeviceClass")

    @property
    def classes_by_resource(self) -> Mapping[str, DeviceClass]:
        """The classes that back extended resources, none without DRAExtendedResource."""
        return find_backing_classes(self.objects) if self.features.extended_resource else {}

    @property
    def pod_groups(self) -> tuple[PodGroup, ...]:
        return self.objects.of("PodGroup")

    @property
    def slices(self) -> list[IndexedSlice]:
        """All ResourceSlices with their devices, after taint rules."""
        return self.devices.slices

    @property
    def state(self) -> AllocatedState:
        """The allocated devices."""
        return self.reservations.state

    def pools(self, row: int) -> tuple[Pool, ...]:
        """Return the pools that a node sees, including unusable ones, in the order of the search."""
        return self.visible.pools(row)

    def compute_available_counters(self, pool: Pool) -> Counters:
        """Return the pool's counters that allocated devices leave over."""
        return subtract_allocated(pool, self.state, self.features.release)

    def build_device_key(self, row: int) -> object:
        """Return a key that is equal for nodes with equivalent devices and equal allocations."""
        return self.visible.number_visible_devices(row), tuple(map(self._build_allocation_key, self.visible.pools(row)))

    def _build_allocation_key(self, pool: Pool) -> object:
        """Return a key for the allocations of a pool, cached until one of them changes."""
        use = self.reservations.get_pool_use(pool.id)
        marked = use.derived.get(pool)
        if marked is None:
            marks = tuple(map(use.state_numbers.get, pool.device_ids)) if use.state_numbers else None
            available = tuple(sorted(self.compute_available_counters(pool).items())) if pool.counters else ()
            marked = use.derived[pool] = marks, available
        return marked

    def node_mask(self, name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> Bools:
        """Return the mask of nodes (N,) on which a slice or device is available. Raises AllocationError."""
        return self.visible.node_mask(name, everywhere, selector)

    def is_on_node(self, device: PooledDevice, row: int) -> bool:
        """Return whether the device is available on a node that sees its slice. Raises AllocationError."""
        return self.visible.is_on_node(device, row)

    def matches_selector(self, expression: Expression, device: PooledDevice, shares: bool = True) -> bool:
        """Return whether the selector matches the device, see `Devices.matches_selector`. Raises AllocationError."""
        return self.devices.matches_selector(expression, device, shares)


def get_inventory(view: Fork, features: Features) -> Inventory:
    """Return the fork's inventory, which is built on first use and shared by plugins."""
    return view.objects.follow((Inventory, features), lambda: Inventory(view, features), "ResourceClaim")


def _index_by_name(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    """Return the classes by name."""
    return {class_.metadata.name: class_ for class_ in classes}
