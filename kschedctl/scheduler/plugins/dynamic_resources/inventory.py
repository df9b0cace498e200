"""All devices of a cluster and what is allocated of them, made ready for asking what each node can have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import DeviceClass, NodeSelector, PodGroup, ResourceClaim, ResourceClaimSpec
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState, Claims, PoolId
from kschedctl.scheduler.plugins.dynamic_resources.claims import pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.devices import Devices, TaintRules
from kschedctl.scheduler.plugins.dynamic_resources.pools import (
    Counters,
    IndexedSlice,
    Pool,
    PooledDevice,
    available,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import Expression
from kschedctl.scheduler.plugins.dynamic_resources.visible import VisibleDevices
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder(order="sorted").encode

ANSWERS_KEPT, FACTS_KEPT = 64, 4096
V = TypeVar("V")


class Kept:
    """What was made, each under a key; the oldest are dropped when there are enough."""

    def __init__(self, most: int) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._most = most

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """What is kept under a key, made now if nothing is."""
        value: V | None = self._kept.get(key)
        if value is None:
            drop_oldest_if_full(self._kept, self._most)
            value = self._kept[key] = make()
        return value


class Inventory:
    """The devices of a fork's nodes under some features. Raises AllocationError where slices cannot be read.

    ``devices`` and ``visible`` are what slices, rules and nodes say; ``reservations`` is what claims hold of it now;
    ``changed``: the pools of which devices were taken or freed since, in order. ``answers``: what is said of every node
    to pods whose claims ask for the same; ``facts``: what these have in common whatever is allocated.
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
        known = self.objects.index((Claims, shares), lambda claims: Claims(claims, shares), "ResourceClaim")
        self.reservations = known.copy()
        self.changed: list[PoolId] = []
        self._latest: tuple[PodInfo, tuple[ResourceClaim, ...]] | None = None
        self.answers, self.facts = Kept(ANSWERS_KEPT), Kept(FACTS_KEPT)
        self._specs: dict[int, tuple[ResourceClaimSpec, int]] = {}
        self._numbers: dict[bytes, int] = {}

    def replaced(self, claim: ResourceClaim) -> None:
        """A claim of the fork was replaced."""
        self._latest = None
        self.changed += [use.id for use in self.reservations.replaced(claim)]

    def claims_of(self, info: PodInfo) -> tuple[ResourceClaim, ...]:
        """A pod's claims in order, kept for the latest pod until a claim changes. Raises ClaimError."""
        if self._latest is None or self._latest[0] is not info:
            self._latest = info, tuple([claim for _, claim in pod_claims(info.pod, self.claims, self.features)])
        return self._latest[1]

    def wanted(self, claim: ResourceClaim) -> int:
        """A number that claims share which ask for the same; each spec is compared once."""
        spec = claim.spec
        known = self._specs.get(id(spec))
        if known is None:  # it is kept with its number, so that no other comes to have its id
            known = self._specs[id(spec)] = spec, self._numbers.setdefault(_encode(spec), len(self._numbers))
        return known[1]

    @property
    def claims(self) -> Mapping[str, ResourceClaim]:
        """By ``namespace/name``."""
        return self.reservations.by_name

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self.objects.index("device classes", _by_name, "DeviceClass")

    @property
    def classes_by_resource(self) -> Mapping[str, DeviceClass]:
        """The classes that back extended resources, none without DRAExtendedResource."""
        return find_backing_classes(self.objects) if self.features.extended_resource else {}

    @property
    def pod_groups(self) -> tuple[PodGroup, ...]:
        return self.objects.of("PodGroup")

    @property
    def slices(self) -> list[IndexedSlice]:
        """All slices, those that the features leave out aside."""
        return self.devices.slices

    @property
    def state(self) -> AllocatedState:
        return self.reservations.state

    def pools(self, row: int) -> tuple[Pool, ...]:
        """The pools that a node sees, in the order of the search; also those that are of no use to it."""
        return self.visible.pools(row)

    def available(self, pool: Pool) -> Counters:
        """The pool's counters that allocated devices leave over."""
        return available(pool, self.state, self.features.release)

    def look(self, row: int) -> object:
        """Equal for nodes that see alike devices, with the same allocated of them."""
        return self.visible.look(row), tuple(map(self._allocated, self.visible.pools(row)))

    def _allocated(self, pool: Pool) -> object:
        """Kept until something of the pool is taken or freed."""
        use = self.reservations.use(pool.id)
        marked = use.kept.get(pool)
        if marked is None:
            marks = tuple(map(use.marks.get, pool.device_ids)) if use.marks else None
            left = tuple(sorted(self.available(pool).items())) if pool.counters else ()
            marked = use.kept[pool] = marks, left
        return marked

    def node_mask(self, name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> Bools:
        """(N,): the nodes that a slice or device is for. Raises AllocationError."""
        return self.visible.node_mask(name, everywhere, selector)

    def on_node(self, device: PooledDevice, row: int) -> bool:
        """Whether a device of a slice that leaves this to its devices is for the node. Raises AllocationError."""
        return self.visible.on_node(device, row)

    def selects(self, expression: Expression, device: PooledDevice, shares: bool = True) -> bool:
        """Whether a selector matches a device, as in Devices. Raises AllocationError."""
        return self.devices.selects(expression, device, shares)


def inventory_of(view: Fork, features: Features) -> Inventory:
    """The fork's inventory, made on first use and shared by the plugins that look at devices."""
    return view.objects.follow((Inventory, features), lambda: Inventory(view, features), "ResourceClaim")


def _by_name(classes: Iterable[DeviceClass]) -> Mapping[str, DeviceClass]:
    return {class_.metadata.name: class_ for class_ in classes}
