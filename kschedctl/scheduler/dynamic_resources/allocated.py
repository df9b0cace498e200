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

    def marks(self, devices: Iterable[DeviceId]) -> tuple[tuple[int, object], ...]:
        """The positions of those of the devices that anybody has, each with its mark."""
        dedicated, shared, consumed = self.dedicated, self.shared, self.consumed
        held = [(i, d) for i, d in enumerate(devices) if d in dedicated or d in shared or d in consumed]
        return tuple([(i, self.mark(device)) for i, device in held])

    def mark(self, device: DeviceId) -> object:
        """What of the state matters for this device, in a form to compare; None for a device that nobody has."""
        if not self.holds(device):
            return None
        consumed = tuple(sorted((name, str(amount)) for name, amount in self.consumed.get(device, {}).items()))
        return device in self.dedicated, device in self.shared, consumed


class Holding(NamedTuple):
    """A device that a claim has, ``shared`` with others, and what it consumes of it then."""

    device: DeviceId
    shared: bool
    consumed: Quantities


class Claims:
    """The ResourceClaims of a fork ``by_name``, ``namespace/name``, and what they hold, kept up to date.

    ``changed``: the pools of the devices that were taken or freed since, in order. Without ``shares``
    (DRAConsumableCapacity) each claim takes its whole device.
    """

    def __init__(self, claims: Iterable[ResourceClaim], shares: bool) -> None:
        self.shares = shares
        self.by_name: dict[str, ResourceClaim] = {}
        self.state = AllocatedState()
        self.changed: list[tuple[str, str]] = []
        self._holders: dict[DeviceId, tuple[tuple[str, Holding], ...]] = {}
        for claim in claims:
            self._take(claim)
        for device in self._holders:
            self._tell(device)

    def copy(self) -> Claims:
        """One that goes its own way."""
        other = Claims((), self.shares)
        other.by_name = dict(self.by_name)
        other.state = AllocatedState(
            set(self.state.dedicated), set(self.state.shared), {d: dict(a) for d, a in self.state.consumed.items()}
        )
        other._holders = dict(self._holders)
        return other

    def replaced(self, kind: str, found: Struct) -> None:
        """A claim came into the place of the one of its name."""
        if isinstance(found, ResourceClaim):
            devices = dict.fromkeys((*self._leave(found), *self._take(found)))
            for device in devices:
                self._tell(device)
            self.changed.extend(device[:2] for device in devices)

    def _take(self, claim: ResourceClaim) -> list[DeviceId]:
        """Note what a claim holds."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        self.by_name[name] = claim
        found = list(holdings(claim, self.shares))
        for holding in found:
            self._holders[holding.device] = (*self._holders.get(holding.device, ()), (name, holding))
        return [holding.device for holding in found]

    def _leave(self, claim: ResourceClaim) -> list[DeviceId]:
        """Forget whatever the claim of this name held."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        before = self.by_name.get(name)
        devices = [holding.device for holding in holdings(before, self.shares)] if before is not None else []
        for device in devices:
            self._holders[device] = tuple(each for each in self._holders[device] if each[0] != name)
        return devices

    def _tell(self, device: DeviceId) -> None:
        """Say of a device in the state what its holders make of it."""
        state, held = self.state, [holding for _, holding in self._holders[device]]
        state.dedicated.discard(device)
        state.shared.discard(device)
        state.consumed.pop(device, None)
        for holding in held:
            (state.shared if holding.shared else state.dedicated).add(device)
            if holding.consumed:
                add(state.consumed.setdefault(device, {}), holding.consumed)


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
