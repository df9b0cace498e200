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
        self._holders: dict[DeviceId, dict[str, list[Holding]]] = {}
        for claim in claims:
            self._take(claim)
        self.changed.clear()

    def copy(self) -> Claims:
        """One that goes its own way."""
        other = Claims((), self.shares)
        other.by_name = dict(self.by_name)
        other.state = AllocatedState(
            set(self.state.dedicated), set(self.state.shared), {d: dict(a) for d, a in self.state.consumed.items()}
        )
        other._holders = {device: dict(holders) for device, holders in self._holders.items()}
        return other

    def replaced(self, kind: str, found: Struct) -> None:
        """A claim came into the place of the one of its name."""
        if isinstance(found, ResourceClaim):
            self._leave(found)
            self._take(found)

    def _take(self, claim: ResourceClaim) -> None:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        self.by_name[name] = claim
        for holding in holdings(claim, self.shares):
            self._holders.setdefault(holding.device, {}).setdefault(name, []).append(holding)
            self._tell(holding.device)

    def _leave(self, claim: ResourceClaim) -> None:
        """Whatever the claim of this name held."""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for holding in holdings(self.by_name[name], self.shares) if name in self.by_name else ():
            self._holders[holding.device].pop(name, None)
            self._tell(holding.device)

    def _tell(self, device: DeviceId) -> None:
        """Say of a device in the state what its holders make of it."""
        state, held = self.state, [holding for found in self._holders[device].values() for holding in found]
        for devices, there in (
            (state.dedicated, any(not holding.shared for holding in held)),
            (state.shared, any(holding.shared for holding in held)),
        ):
            (devices.add if there else devices.discard)(device)
        state.consumed.pop(device, None)
        for holding in held:
            if holding.consumed:
                add(state.consumed.setdefault(device, {}), holding.consumed)
        self.changed.append(device[:2])


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
