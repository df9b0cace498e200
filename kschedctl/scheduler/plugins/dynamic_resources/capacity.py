"""Shares of devices that several claims may use at once: how much a request takes, and whether so much is left.

Upstream: structured/internal/incubating/consumable_capacity.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.objects import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kschedctl.api.quantity import Format, Quantity, parse
from kschedctl.scheduler.plugins.dynamic_resources.allocated import Quantities


def consumed(requested: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity]) -> Quantities:
    """What a request takes of each of a device's capacities, rounded up as their policies say; all of it by default."""
    return {name: _consumed(requested.get(name), device_capacity) for name, device_capacity in capacity.items()}


def fits(
    requested: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], *taken: Mapping[str, Quantity]
) -> bool:
    """Whether the device has each requested capacity, the policies allow it, and so much is left over by ``taken``."""
    if any(name not in capacity for name in requested):
        return False
    for name, device_capacity in capacity.items():
        amount = _consumed(requested.get(name), device_capacity)
        if _violates(amount, device_capacity.request_policy):
            return False
        for other in taken:
            amount = amount.add(other[name]) if name in other else amount
        if amount > _quantity(device_capacity.value):
            return False
    return True


def _consumed(requested: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy else None
        return _quantity(capacity.value if default is None else default)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(requested, policy.valid_range)
    return next((valid for valid in map(_quantity, policy.valid_values) if requested <= valid), requested)


def _round_up(requested: Quantity, valid: CapacityRequestPolicyRange) -> Quantity:
    least = _quantity(valid.min or 0)
    if requested < least:
        return least
    if valid.step is None:
        return requested
    start, step = least.value(), _quantity(valid.step).value()
    steps = -(-(requested.value() - start) // step)
    return Quantity(start + step * steps, 0, Format.BINARY_SI)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and amount == _quantity(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > _quantity(valid.max):
            return True
        start = _quantity(valid.min or 0).value()
        return valid.step is not None and (amount.value() - start) % _quantity(valid.step).value() != 0
    return bool(policy.valid_values) and amount not in map(_quantity, policy.valid_values)


def _quantity(text: str | int | float) -> Quantity:
    return parse(str(text))
