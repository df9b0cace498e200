"""The devices that claims hold, and the consumed capacity of shared devices.

Upstream: plugins/dynamicresources/allocateddevices.go and structured/schedulerapi/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.objects import DeviceRequestAllocationResult, ResourceClaim
from kschedctl.api.quantity import Quantity, parse_quantity

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""
PoolId = tuple[str, str]
"""Driver and name."""
Quantities = dict[str, Quantity]


@dataclass
class AllocatedState:
    """The allocated devices of a cluster."""

    dedicated: set[DeviceId] = field(default_factory=set)
    """Devices that are allocated as a whole."""
    shared: set[DeviceId] = field(default_factory=set)
    """Devices of which claims have shares."""
    consumed: dict[DeviceId, Quantities] = field(default_factory=dict)
    """The consumed capacity of shared devices."""

    def copy(self) -> AllocatedState:
        """Return an independent copy."""
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        return AllocatedState(set(self.dedicated), set(self.shared), consumed)

    def is_allocated(self, device: DeviceId) -> bool:
        """Return whether a claim has the device or a share of it."""
        return device in self.dedicated or device in self.shared or device in self.consumed

    def remove_device(self, device: DeviceId) -> None:
        """Remove all allocations of the device."""
        self.dedicated.discard(device)
        self.shared.discard(device)
        self.consumed.pop(device, None)

    def build_device_state(self, device: DeviceId) -> object:
        """Return a hashable value that is equal for devices in the same state, or None if the device is unallocated.

        The state says whether the device is dedicated or shared, and how much of each capacity is consumed.
        """
        if not self.is_allocated(device):
            return None
        amounts = self.consumed.get(device, {})
        consumed = tuple(sorted((name, str(amount)) for name, amount in amounts.items()))
        return device in self.dedicated, device in self.shared, consumed


class HeldDevice(NamedTuple):
    """A device that a claim holds, or a share of it."""

    device: DeviceId
    shared: bool = False
    """True if the claim has only a share."""
    consumed: Quantities | None = None
    """The capacity that the share consumes."""


@dataclass(eq=False, slots=True)
class PoolUse:
    """The claims that hold devices of a pool."""

    id: PoolId
    holders: dict[DeviceId, tuple[tuple[str, HeldDevice], ...]] = field(default_factory=dict)
    """By device, the names of the claims that hold it, each with its whole device or share."""
    state_numbers: dict[DeviceId, int] = field(default_factory=dict)
    """A number for each allocated device, equal for devices with equal allocations."""
    derived: dict[object, object] = field(default_factory=dict)
    """Values derived from the allocations, cleared when one changes."""

    def copy_without_derived_values(self) -> PoolUse:
        """Return an independent copy in which the derived values have to be computed again."""
        return PoolUse(self.id, dict(self.holders), dict(self.state_numbers))


class ClaimIndex:
    """The ResourceClaims of a fork by ``namespace/name``, and the devices that they hold.

    Without ``shares`` (DRAConsumableCapacity) each claim takes its devices as a whole.
    """

    def __init__(self, claims: Iterable[ResourceClaim], shares: bool) -> None:
        self.shares = shares
        self.by_name: dict[str, ResourceClaim] = {}
        self.state = AllocatedState()
        self._pools: dict[PoolId, PoolUse] = {}
        self._numbers_by_state: dict[object, int] = {}
        for claim in claims:
            self.put_claim(claim)

    def copy(self) -> ClaimIndex:
        """Return an independent copy of the index, without the derived values of its pools."""
        copied = ClaimIndex(claims=(), shares=self.shares)
        copied.by_name = dict(self.by_name)
        copied.state = self.state.copy()
        copied._pools = {pool_id: use.copy_without_derived_values() for pool_id, use in self._pools.items()}
        copied._numbers_by_state = dict(self._numbers_by_state)
        return copied

    def _get_use_of_pool_with(self, device: DeviceId) -> PoolUse:
        """Return the record of the claims that hold devices of the device's pool."""
        driver, pool_name, _ = device
        return self.get_pool_use((driver, pool_name))

    def get_pool_use(self, pool: PoolId) -> PoolUse:
        """Return the record of the claims that hold the pool's devices. An empty record is added if there is none."""
        pool_use = self._pools.get(pool)
        if pool_use is None:
            pool_use = self._pools[pool] = PoolUse(pool)
        return pool_use

    def put_claim(self, claim: ResourceClaim) -> list[PoolUse]:
        """Add a claim to the index, or replace the claim of the same name, and update the allocated devices.

        Return the PoolUse of each device in the old or the new claim. A pool can occur several times.
        """
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        old_claim = self.by_name.get(name)
        self.by_name[name] = claim

        # Replace the devices that the old claim holds by the devices of the new claim.
        changed: dict[DeviceId, PoolUse] = {}
        if old_claim is not None:
            for held in list_held_devices(old_claim, shares=self.shares):
                use = changed[held.device] = self._get_use_of_pool_with(held.device)
                other_holders = [holder for holder in use.holders[held.device] if holder[0] != name]
                use.holders[held.device] = tuple(other_holders)
        for held in list_held_devices(claim, shares=self.shares):
            use = changed[held.device] = self._get_use_of_pool_with(held.device)
            use.holders[held.device] = (*use.holders.get(held.device, ()), (name, held))

        for device, use in changed.items():
            self._recompute_device_state(device, use)
        return list(changed.values())

    def _recompute_device_state(self, device: DeviceId, use: PoolUse) -> None:
        """Recompute the state of a device from the claims that hold it, and clear the values derived from its pool.

        A device that no claim holds any more becomes unallocated.
        """
        state = self.state
        holders = use.holders[device]
        use.derived.clear()

        was_allocated = use.state_numbers.pop(device, None) is not None
        if was_allocated:
            state.remove_device(device)
        for _, held in holders:
            if held.shared:
                state.shared.add(device)
            else:
                state.dedicated.add(device)
            if held.consumed:
                add_quantities(state.consumed.setdefault(device, {}), held.consumed)

        if holders:
            device_state = state.build_device_state(device)
            use.state_numbers[device] = self._numbers_by_state.setdefault(device_state, len(self._numbers_by_state))


def list_held_devices(claim: ResourceClaim, *, shares: bool) -> Sequence[HeldDevice]:
    """Return the devices of the claim's allocation, except devices that it accesses as an administrator.

    If ``shares`` is False (without DRAConsumableCapacity), the claim holds each device as a whole. The result is empty
    for a claim without an allocation.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return [
        _build_held_device(result, shares=shares) for result in allocation.devices.results if not result.admin_access
    ]


def _build_held_device(result: DeviceRequestAllocationResult, *, shares: bool) -> HeldDevice:
    """Build the held device from an allocation result, with the consumed capacity if the claim has only a share.

    If ``shares`` is False, the claim has the device as a whole even if the result has a share ID.
    """
    device = result.driver, result.pool, result.device
    if not shares or result.share_id is None:
        return HeldDevice(device)
    consumed = {name: parse_quantity(str(amount)) for name, amount in (result.consumed_capacity or {}).items()}
    return HeldDevice(device, shared=True, consumed=consumed)


def add_quantities(total: Quantities, amounts: Quantities) -> None:
    """Add amounts to the `total` of each name, in place."""
    for name, quantity in amounts.items():
        total[name] = total[name].add(quantity) if name in total else quantity
