"""Which devices the claims of a cluster hold, how much of those that are shared, and which claims there are.

Upstream: plugins/dynamicresources/allocateddevices.go and structured/schedulerapi/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.objects import ResourceClaim
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


class Claims:
    """The ResourceClaims of a fork ``by_name``, ``namespace/name``, and what they hold, kept up to date.

    ``marks``: by pool, a number for each device that anybody has, the same for equal marks. Without ``shares``
    (DRAConsumableCapacity) each claim takes its whole device.
    """

    def __init__(self, claims: Iterable[ResourceClaim], shares: bool) -> None:
        self.shares = shares
        self.by_name: dict[str, ResourceClaim] = {}
        self.state = AllocatedState()
        self.marks: dict[PoolId, dict[DeviceId, int]] = {}
        self._mark_numbers: dict[object, int] = {}
        self._holders: dict[DeviceId, tuple[tuple[str, Holding], ...]] = {}
        for claim in claims:
            self.replaced(claim)

    def copy(self) -> Claims:
        """One that goes its own way."""
        other = Claims((), self.shares)
        other.by_name = dict(self.by_name)
        other.state = AllocatedState(
            set(self.state.dedicated), set(self.state.shared), {d: dict(a) for d, a in self.state.consumed.items()}
        )
        other.marks = {pool: dict(marks) for pool, marks in self.marks.items()}
        other._holders, other._mark_numbers = dict(self._holders), dict(self._mark_numbers)
        return other

    def replaced(self, claim: ResourceClaim) -> Iterable[DeviceId]:
        """A claim came into the place of the one of its name: the devices that one of the two has."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        before, self.by_name[name] = self.by_name.get(name), claim
        devices: dict[DeviceId, None] = {}
        for holding in holdings(before, self.shares) if before else ():
            self._holders[holding.device] = tuple([each for each in self._holders[holding.device] if each[0] != name])
            devices[holding.device] = None
        for holding in holdings(claim, self.shares):
            self._holders[holding.device] = (*self._holders.get(holding.device, ()), (name, holding))
            devices[holding.device] = None
        for device in devices:
            self._tell(device)
        return devices

    def _tell(self, device: DeviceId) -> None:
        """Say of a device in the state what its holders make of it."""
        state, marks, holders = self.state, self.marks.setdefault(device[:2], {}), self._holders[device]
        if marks.pop(device, None) is not None:
            state.free(device)
        for _, holding in holders:
            (state.shared if holding.shared else state.dedicated).add(device)
            if holding.consumed:
                add(state.consumed.setdefault(device, {}), holding.consumed)
        if holders:
            marks[device] = self._mark_numbers.setdefault(state.mark(device), len(self._mark_numbers))


def holdings(claim: ResourceClaim, shares: bool) -> Iterator[Holding]:
    """The devices that a claim has allocated; those that it accesses as an administrator are not taken."""
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation else ():
        if result.admin_access:
            continue
        device = result.driver, result.pool, result.device
        if shares and result.share_id is not None:
            capacity = result.consumed_capacity or {}
            yield Holding(device, True, {name: parse(str(amount)) for name, amount in capacity.items()})
        else:
            yield Holding(device)


def add(total: Quantities, more: Quantities) -> None:
    """Add amounts to a total, in place."""
    for name, quantity in more.items():
        total[name] = total[name].add(quantity) if name in total else quantity
