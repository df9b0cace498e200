"""Shares of devices that several claims may use at once: how much a request takes, and whether so much is left.

Upstream: structured/internal/incubating/consumable_capacity.go (v1.36 and v1.37).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kschedctl.api.quantity import INT64_MAX, MILLI, Format, Quantity, parse
from kschedctl.scheduler.plugins.dynamic_resources.allocated import Quantities
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError
from kschedctl.scheduler.plugins.helper.device_features import Features


class UnrepresentableRequest(StrEnum):
    """What happens to a capacity request that is negative or overflows the arithmetic of its validRange."""

    GRANTED = "is granted"
    ERROR = "is an error"


UNREPRESENTABLE_REQUEST = ByVersion(
    "a request for capacity that is negative, or that the arithmetic of a validRange cannot hold",
    (("", UnrepresentableRequest.GRANTED), ("1.37", UnrepresentableRequest.ERROR)),
    "#140442",
)
FRACTIONS = ByVersion("whether a validRange of capacity may have fractions", (("", False), ("1.37", True)), "#140161")
BEYOND = "capacity request cannot be represented in the device's range arithmetic: "
TOO_LARGE = BEYOND + "request {} exceeds MaxInt64"
ROUNDED_TOO_FAR = BEYOND + "rounding request {} up to the next step passes {}"
NO_THOUSANDTHS = BEYOND + "request {} is not a representable milli value"
NEGATIVE = "capacity value is negative"


class Arithmetic(NamedTuple):
    """How steps are counted: ``thousandths``, where a range can be written in these; ``refuses`` what is beyond."""

    thousandths: bool = False
    refuses: bool = False

    @classmethod
    def of(cls, features: Features) -> Arithmetic:
        refuses = UNREPRESENTABLE_REQUEST.at(features.release) is UnrepresentableRequest.ERROR
        return cls(features.fractional_range and FRACTIONS.at(features.release), refuses)

    def unit(self, valid: CapacityRequestPolicyRange) -> int:
        """The power of ten in which the range is counted."""
        parts = [_quantity(part) for part in (valid.min, valid.max, valid.step) if part is not None]
        exact = self.thousandths and all(_in_thousandths(part) is not None for part in parts)
        return MILLI if exact and valid.step is not None and _quantity(valid.step).milli_value() >= 1 else 0


def consumed(
    requested: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], arithmetic: Arithmetic
) -> Quantities:
    """What a request takes of each of a device's capacities, rounded up as their policies say; all of it by default.

    Raises AllocationError.
    """
    amounts = {}
    for name, device_capacity in capacity.items():
        try:
            amounts[name] = _consumed(requested.get(name), device_capacity, arithmetic)
        except _BeyondRangeError as error:
            raise AllocationError(f'capacity "{name}": {error}') from None
    return amounts


def fits(
    requested: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    *taken: Mapping[str, Quantity],
    arithmetic: Arithmetic,
) -> bool:
    """Whether the device has each requested capacity, the policies allow it, and so much is left over by ``taken``.

    Raises AllocationError.
    """
    if any(name not in capacity for name in requested):
        return False
    for name, amount in consumed(requested, capacity, arithmetic).items():
        if violates(amount, capacity[name].request_policy, arithmetic):
            return False
        total = amount
        for other in taken:
            total = total.add(other[name]) if name in other else total
        if total > _quantity(capacity[name].value):
            return False
    return True


class _BeyondRangeError(Exception):
    pass


def _consumed(requested: Quantity | None, capacity: DeviceCapacity, arithmetic: Arithmetic) -> Quantity:
    amount = _rounded(requested, capacity, arithmetic)
    if arithmetic.refuses and amount.mantissa < 0:
        raise _BeyondRangeError(NEGATIVE)
    return amount


def _rounded(requested: Quantity | None, capacity: DeviceCapacity, arithmetic: Arithmetic) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy else None
        return _quantity(capacity.value if default is None else default)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(requested, policy.valid_range, arithmetic)
    return next((valid for valid in map(_quantity, policy.valid_values) if requested <= valid), requested)


def _round_up(requested: Quantity, valid: CapacityRequestPolicyRange, arithmetic: Arithmetic) -> Quantity:
    least = _quantity(valid.min or 0)
    if requested < least:
        return least
    if valid.step is None:
        return requested
    unit = arithmetic.unit(valid)
    if arithmetic.refuses:
        _check_size(requested, unit)
    start, step = (_count(part, unit) for part in (least, _quantity(valid.step)))
    rounded = start + step * -(-(_count(requested, unit) - start) // step)
    if arithmetic.refuses and start >= 0 and rounded > INT64_MAX:
        raise _BeyondRangeError(ROUNDED_TOO_FAR.format(requested, "the milli-value range" if unit else "MaxInt64"))
    return Quantity(rounded, unit, Format.BINARY_SI)


def _check_size(requested: Quantity, unit: int) -> None:
    if unit and _in_thousandths(requested) is None:
        raise _BeyondRangeError(NO_THOUSANDTHS.format(requested))
    if not unit and requested > Quantity(INT64_MAX):
        raise _BeyondRangeError(TOO_LARGE.format(requested))


def _count(amount: Quantity, unit: int) -> int:
    return amount.milli_value() if unit else amount.value()


def _in_thousandths(amount: Quantity) -> int | None:
    """None where it has smaller parts, or is too large for an int64 of them."""
    count = amount.milli_value()
    return count if Quantity(count, MILLI) == amount else None


def violates(amount: Quantity, policy: CapacityRequestPolicy | None, arithmetic: Arithmetic) -> bool:
    """Whether the policy does not allow an amount that was rounded up by it."""
    if policy is None or (policy.default is not None and amount == _quantity(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > _quantity(valid.max):
            return True
        return valid.step is not None and _off_step(amount, valid, valid.step, arithmetic.unit(valid))
    return bool(policy.valid_values) and amount not in map(_quantity, policy.valid_values)


def _off_step(amount: Quantity, valid: CapacityRequestPolicyRange, step: str | int | float, unit: int) -> bool:
    if unit and _in_thousandths(amount) is None:
        return True
    start, width = (_count(_quantity(part), unit) for part in (valid.min or 0, step))
    return (_count(amount, unit) - start) % width != 0


def _quantity(text: str | int | float) -> Quantity:
    return parse(str(text))
