"""Which devices the claims of a cluster hold, how much of those that are shared, and which claims there are.

Upstream: plugins/dynamicresources/allocateddevices.go and structured/schedulerapi/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.objects import ResourceClaim, Struct
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

    def mark(self, device: DeviceId) -> object:
        """What of the state matters for this device, in a form to compare; None for a device that nobody has."""
        if not self.holds(device):
            return None
        amounts = self.consumed.get(device)
        consumed = tuple(sorted((name, str(amount)) for name, amount in amounts.items())) if amounts else ()
        return device in self.dedicated, device in self.shared, consumed


class Holding(NamedTuple):
    """A device that a claim has, ``shared`` with others, and what it consumes of it then."""

    device: DeviceId
    shared: bool
    consumed: Quantities


class Claims:
    """The ResourceClaims of a fork ``by_name``, ``namespace/name``, and what they hold, kept up to date.

    ``marks``: by pool, a number for each device that anybody has, the same for equal marks. ``changed``: the pools of
    the devices that were taken or freed since, in order. Without ``shares`` (DRAConsumableCapacity) each claim takes
    its whole device.
    """

    def __init__(self, claims: Iterable[ResourceClaim], shares: bool) -> None:
        self.shares = shares
        self.by_name: dict[str, ResourceClaim] = {}
        self.state = AllocatedState()
        self.marks: dict[PoolId, dict[DeviceId, int]] = {}
        self._mark_numbers: dict[object, int] = {}
        self.changed: list[PoolId] = []
        self._holders: dict[DeviceId, tuple[tuple[str, Holding], ...]] = {}
        for claim in claims:
            self._take(f"{claim.metadata.namespace}/{claim.metadata.name}", claim)
        for device in self._holders:
            self._tell(device)

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

    def replaced(self, kind: str, found: Struct) -> None:
        """A claim came into the place of the one of its name."""
        if isinstance(found, ResourceClaim):
            name = f"{found.metadata.namespace}/{found.metadata.name}"
            devices = dict.fromkeys((*self._leave(name), *self._take(name, found)))
            for device in devices:
                self._tell(device)
            self.changed.extend([device[:2] for device in devices])

    def _take(self, name: str, claim: ResourceClaim) -> list[DeviceId]:
        """Note what a claim holds."""
        self.by_name[name] = claim
        found = list(holdings(claim, self.shares))
        for holding in found:
            self._holders[holding.device] = (*self._holders.get(holding.device, ()), (name, holding))
        return [holding.device for holding in found]

    def _leave(self, name: str) -> list[DeviceId]:
        """Forget whatever the claim of this name held."""
        before = self.by_name.get(name)
        if before is None or before.status.allocation is None:
            return []
        devices = [holding.device for holding in holdings(before, self.shares)]
        for device in devices:
            self._holders[device] = tuple(each for each in self._holders[device] if each[0] != name)
        return devices

    def _tell(self, device: DeviceId) -> None:
        """Say of a device in the state what its holders make of it."""
        state, holders = self.state, self._holders[device]
        state.dedicated.discard(device)
        state.shared.discard(device)
        state.consumed.pop(device, None)
        for _, holding in holders:
            (state.shared if holding.shared else state.dedicated).add(device)
            if holding.consumed:
                add(state.consumed.setdefault(device, {}), holding.consumed)
        marks = self.marks.setdefault(device[:2], {})
        if holders:
            marks[device] = self._mark_numbers.setdefault(state.mark(device), len(self._mark_numbers))
        else:
            marks.pop(device, None)


def holdings(claim: ResourceClaim, shares: bool) -> Iterator[Holding]:
    """The devices that a claim has allocated; those that it accesses as an administrator are not taken."""
    for result in claim.status.allocation.devices.results if claim.status.allocation else ():
        if result.admin_access:
            continue
        shared = shares and result.share_id is not None
        consumed: Mapping[str, object] = result.consumed_capacity if shared and result.consumed_capacity else {}
        yield Holding(
            (result.driver, result.pool, result.device),
            shared,
            {name: parse(str(amount)) for name, amount in consumed.items()},
        )


def add(total: Quantities, more: Quantities) -> None:
    """Add amounts to a total, in place."""
    for name, quantity in more.items():
        total[name] = total[name].add(quantity) if name in total else quantity
