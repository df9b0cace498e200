"""Which devices the claims of a cluster hold, how much of those that are shared, and which claims there are.

Upstream: plugins/dynamicresources/allocateddevices.go and structured/schedulerapi/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.objects import DeviceRequestAllocationResult, ResourceClaim
from kschedctl.api.quantity import Quantity, parse

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""
PoolId = tuple[str, str]
"""Driver and name."""
Quantities = dict[str, Quantity]


@dataclass
class AllocatedState:
    """Devices that one claim has for itself, devices of which claims have shares, and what of each is consumed."""

    dedicated: set[DeviceId] = field(default_factory=set)
    shared: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, Quantities] = field(default_factory=dict)

    def holds(self, device: DeviceId) -> bool:
        """Whether anybody has the device or a share of it."""
        return device in self.dedicated or device in self.shared or device in self.consumed

    def free(self, device: DeviceId) -> None:
        """Nobody has the device any more."""
        self.dedicated.discard(device)
        self.shared.discard(device)
        self.consumed.pop(device, None)

    def mark(self, device: DeviceId) -> object:
        """What of the state matters for this device, in a form to compare; None for a device that nobody has."""
        dedicated, shared, amounts = device in self.dedicated, device in self.shared, self.consumed.get(device)
        if not (dedicated or shared or amounts is not None):
            return None
        consumed = tuple(sorted((name, str(amount)) for name, amount in amounts.items())) if amounts else ()
        return dedicated, shared, consumed


class Holding(NamedTuple):
    """A device that a claim has, ``shared`` with others, and what it consumes of it then."""

    device: DeviceId
    shared: bool = False
    consumed: Quantities | None = None


@dataclass(eq=False, slots=True)
class PoolUse:
    """Which claims, by name, hold each device of a pool, and what. ``marks``: a number for each device that anybody
    has, the same for equal marks. ``kept``: what is derived from that, under any key, until it changes.
    """

    id: PoolId
    holders: dict[DeviceId, tuple[tuple[str, Holding], ...]] = field(default_factory=dict)
    marks: dict[DeviceId, int] = field(default_factory=dict)
    kept: dict[object, object] = field(default_factory=dict)


class Claims:
    """The ResourceClaims of a fork ``by_name``, ``namespace/name``, and what they hold, kept up to date.

    Without ``shares`` (DRAConsumableCapacity) each claim takes its whole device.
    """

    def __init__(self, claims: Iterable[ResourceClaim], shares: bool) -> None:
        self.shares = shares
        self.by_name: dict[str, ResourceClaim] = {}
        self.state = AllocatedState()
        self._pools: dict[PoolId, PoolUse] = {}
        self._mark_numbers: dict[object, int] = {}
        for claim in claims:
            self.replaced(claim)

    def copy(self) -> Claims:
        """One that goes its own way."""
        other = Claims((), self.shares)
        other.by_name = dict(self.by_name)
        other.state = AllocatedState(
            set(self.state.dedicated), set(self.state.shared), {d: dict(a) for d, a in self.state.consumed.items()}
        )
        other._pools = {id: PoolUse(id, dict(use.holders), dict(use.marks)) for id, use in self._pools.items()}
        other._mark_numbers = dict(self._mark_numbers)
        return other

    def use(self, pool: PoolId) -> PoolUse:
        """Who holds what of a pool."""
        pool_use = self._pools.get(pool)
        if pool_use is None:
            pool_use = self._pools[pool] = PoolUse(pool)
        return pool_use

    def replaced(self, claim: ResourceClaim) -> list[PoolUse]:
        """A claim came into the place of the one of its name: for each device that one of the two has, its pool."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        before, self.by_name[name] = self.by_name.get(name), claim
        devices: dict[DeviceId, PoolUse] = {}
        for holding in holdings(before, self.shares) if before is not None else ():
            use = devices[holding.device] = self.use(holding.device[:2])
            use.holders[holding.device] = tuple([holder for holder in use.holders[holding.device] if holder[0] != name])
        for holding in holdings(claim, self.shares):
            use = devices[holding.device] = self.use(holding.device[:2])
            use.holders[holding.device] = (*use.holders.get(holding.device, ()), (name, holding))
        for device, use in devices.items():
            self._tell(device, use)
        return list(devices.values())

    def _tell(self, device: DeviceId, use: PoolUse) -> None:
        """Say of a device in the state what its holders make of it."""
        state, holders = self.state, use.holders[device]
        use.kept.clear()
        if use.marks.pop(device, None) is not None:
            state.free(device)
        for _, holding in holders:
            (state.shared if holding.shared else state.dedicated).add(device)
            if holding.consumed:
                add(state.consumed.setdefault(device, {}), holding.consumed)
        if holders:
            use.marks[device] = self._mark_numbers.setdefault(state.mark(device), len(self._mark_numbers))


def holdings(claim: ResourceClaim, shares: bool) -> Sequence[Holding]:
    """The devices that a claim has allocated; those that it accesses as an administrator are not taken."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return [_holding(result, shares) for result in allocation.devices.results if not result.admin_access]


def _holding(result: DeviceRequestAllocationResult, shares: bool) -> Holding:
    device = result.driver, result.pool, result.device
    if not shares or result.share_id is None:
        return Holding(device)
    capacity = result.consumed_capacity or {}
    return Holding(device, True, {name: parse(str(amount)) for name, amount in capacity.items()})


def add(total: Quantities, more: Quantities) -> None:
    """Add amounts to a total, in place."""
    for name, quantity in more.items():
        total[name] = total[name].add(quantity) if name in total else quantity
