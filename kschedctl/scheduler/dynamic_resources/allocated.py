"""Which devices the claims of a cluster hold already, and how much of those that are shared.

Upstream: plugins/dynamicresources/allocateddevices.go and structured/schedulerapi/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kschedctl.api.objects import ResourceClaim
from kschedctl.api.quantity import Quantity, parse

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""
Amounts = dict[str, Quantity]


@dataclass(frozen=True)
class AllocatedState:
    """Devices that one claim has for itself, devices of which claims have shares, and what of each is consumed."""

    dedicated: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    consumed: dict[DeviceId, Amounts] = field(default_factory=dict)

    def holds(self, device: DeviceId) -> bool:
        """Whether anybody has the device or a share of it."""
        return device in self.dedicated or device in self.shared or device in self.consumed

    def mark(self, device: DeviceId) -> object:
        """What of the state matters for this device, in a form to compare."""
        if device in self.dedicated:
            return True
        consumed = self.consumed.get(device)
        return (
            [device in self.shared, sorted((k, str(v)) for k, v in consumed.items())]
            if consumed
            else device in self.shared
        )


def gather(claims: Iterable[ResourceClaim], shares: bool) -> AllocatedState:
    """The state by the claims' allocations. Without ``shares`` (DRAConsumableCapacity) each takes its whole device.

    Devices accessed by administrators are not taken.
    """
    dedicated, shared = set(), set()
    consumed: dict[DeviceId, Amounts] = {}
    for claim in claims:
        for result in claim.status.allocation.devices.results if claim.status.allocation else ():
            device = (result.driver, result.pool, result.device)
            if result.admin_access:
                continue
            if not (shares and result.share_id is not None):
                dedicated.add(device)
                continue
            shared.add(device)
            if result.consumed_capacity:
                add(consumed.setdefault(device, {}), {k: parse(str(v)) for k, v in result.consumed_capacity.items()})
    return AllocatedState(frozenset(dedicated), frozenset(shared), consumed)


def add(total: Amounts, more: Amounts) -> None:
    """Add amounts to a total, in place."""
    for name, quantity in more.items():
        total[name] = total[name].add(quantity) if name in total else quantity
