"""Consumable capacity of shared devices: the amount that a request consumes, and the check that it fits."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kschedctl.api.quantity import INT64_MAX, MILLI, Format, Quantity, parse_quantity
from kschedctl.scheduler.plugins.dynamic_resources.allocated import Quantities
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError
from kschedctl.scheduler.plugins.helper.device_features import Features


class UnrepresentableRequest(StrEnum):
    """The outcome for a capacity request that is negative or overflows the arithmetic of its validRange."""

    GRANTED = "granted"
    ERROR = "rejected with an error"


UNREPRESENTABLE_REQUEST = ByVersion(
    "treatment of a capacity request that is negative, or overflows when it is checked against a validRange",
    (("", UnrepresentableRequest.GRANTED), ("1.37", UnrepresentableRequest.ERROR)),
    "#140442",
)
FRACTIONS = ByVersion(
    "a capacity's validRange may contain fractional quantities", (("", False), ("1.37", True)), "#140161"
)
BEYOND = "capacity request cannot be represented in the device's range arithmetic: "
TOO_LARGE = BEYOND + "request {} exceeds MaxInt64"
ROUNDED_TOO_FAR = BEYOND + "rounding request {} up to the next step passes {}"
NO_THOUSANDTHS = BEYOND + "request {} is not a representable milli value"
NEGATIVE = "capacity value is negative"


class RangeArithmetic(NamedTuple):
    """The units in which amounts in a validRange are counted."""

    thousandths: bool = False
    """True if a range can be counted in thousandths."""
    rejects_unrepresentable: bool = False
    """True if amounts that cannot be represented are errors."""

    @classmethod
    def from_features(cls, features: Features) -> RangeArithmetic:
        """Return the arithmetic of a version with its feature gates."""
        rejects = UNREPRESENTABLE_REQUEST.at(features.release) is UnrepresentableRequest.ERROR
        return cls(features.fractional_range and FRACTIONS.at(features.release), rejects)

    def choose_unit(self, valid: CapacityRequestPolicyRange) -> int:
        """Return the decimal exponent of the unit in which amounts of the range are counted: MILLI or 0.

        The unit is MILLI if the version counts in thousandths, the range has a step, and its bounds and step are whole
        thousandths. Otherwise the unit is 0, so that amounts are rounded up to whole numbers.
        """
        if not self.thousandths or valid.step is None or _parse_quantity(valid.step).milli_value() < 1:
            return 0
        quantities = [_parse_quantity(text) for text in (valid.min, valid.max, valid.step) if text is not None]
        is_exact = all(_convert_to_thousandths(quantity) is not None for quantity in quantities)
        return MILLI if is_exact else 0


def compute_consumption(
    requested: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], arithmetic: RangeArithmetic
) -> Quantities:
    """Return the amount that a request consumes of each capacity of a device, rounded up by the capacities' policies.

    A capacity that is not requested is consumed by the default of its policy or, without a default, as a whole. Raises
    AllocationError if `arithmetic` rejects an amount because it is negative or cannot be represented.
    """
    amounts = {}
    for name, device_capacity in capacity.items():
        try:
            amounts[name] = _compute_consumed_amount(requested.get(name), device_capacity, arithmetic)
        except _BeyondRangeError as error:
            raise AllocationError(f'capacity "{name}": {error}') from None
    return amounts


def fits_capacity(
    requested: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    *taken: Mapping[str, Quantity],
    arithmetic: RangeArithmetic,
) -> bool:
    """Return whether a request can be added to all `taken` amounts without exceeding the device's capacity.

    Also return False if the device lacks a requested capacity or a policy forbids the amount. Raises AllocationError if
    `arithmetic` rejects an amount because it is negative or cannot be represented.
    """
    if any(name not in capacity for name in requested):
        return False
    for name, amount in compute_consumption(requested, capacity, arithmetic).items():
        if violates_policy(amount, capacity[name].request_policy, arithmetic):
            return False
        total = amount
        for taken_amounts in taken:
            if name in taken_amounts:
                total = total.add(taken_amounts[name])
        if total > _parse_quantity(capacity[name].value):
            return False
    return True


class _BeyondRangeError(Exception):
    """The error for an amount that is negative or cannot be represented."""


def _compute_consumed_amount(
    requested: Quantity | None, capacity: DeviceCapacity, arithmetic: RangeArithmetic
) -> Quantity:
    """Return the amount of one capacity that a request consumes.

    `requested` is None if the request does not name the capacity. Raises _BeyondRangeError if the version checks
    amounts and the amount is negative or cannot be represented.
    """
    amount = _apply_request_policy(requested, capacity, arithmetic)
    if arithmetic.rejects_unrepresentable and amount.mantissa < 0:
        raise _BeyondRangeError(NEGATIVE)
    return amount


def _apply_request_policy(
    requested: Quantity | None, capacity: DeviceCapacity, arithmetic: RangeArithmetic
) -> Quantity:
    """Return the requested amount, rounded up to an amount that the capacity's policy allows.

    If `requested` is None, return the policy's default, or the whole capacity if there is no default. Without a policy,
    and above all valid values, the amount stays the same.
    """
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return _parse_quantity(policy.default)
        return _parse_quantity(capacity.value)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_to_range(requested, policy.valid_range, arithmetic)
    for valid_value in map(_parse_quantity, policy.valid_values):  # in ascending order
        if requested <= valid_value:
            return valid_value
    return requested


def _round_up_to_range(requested: Quantity, valid: CapacityRequestPolicyRange, arithmetic: RangeArithmetic) -> Quantity:
    """Round a requested amount up to the range's minimum or, if the range has steps, to its next step.

    If the range has no steps, an amount above the minimum stays the same. Raises _BeyondRangeError if the version
    checks amounts and the amount cannot be represented.
    """
    minimum = _parse_quantity(valid.min or 0)
    if requested < minimum:
        return minimum
    if valid.step is None:
        return requested
    unit = arithmetic.choose_unit(valid)
    if arithmetic.rejects_unrepresentable:
        _check_representable(requested, unit)
    start = _count_units(minimum, unit)
    step = _count_units(_parse_quantity(valid.step), unit)
    steps = -(-(_count_units(requested, unit) - start) // step)  # division that rounds up
    rounded = start + step * steps
    if arithmetic.rejects_unrepresentable and start >= 0 and rounded > INT64_MAX:
        exceeded = "the milli-value range" if unit == MILLI else "MaxInt64"
        raise _BeyondRangeError(ROUNDED_TOO_FAR.format(requested, exceeded))
    return Quantity(rounded, unit, Format.BINARY_SI)


def _check_representable(requested: Quantity, unit: int) -> None:
    """Raise _BeyondRangeError if the amount cannot be counted in the unit, which is MILLI or 0."""
    if unit == MILLI:
        if _convert_to_thousandths(requested) is None:
            raise _BeyondRangeError(NO_THOUSANDTHS.format(requested))
    elif requested > Quantity(INT64_MAX):
        raise _BeyondRangeError(TOO_LARGE.format(requested))


def _count_units(amount: Quantity, unit: int) -> int:
    """Return the amount as a number of thousandths if `unit` is MILLI, else as a whole number. Rounds up."""
    return amount.milli_value() if unit == MILLI else amount.value()


def _convert_to_thousandths(amount: Quantity) -> int | None:
    """Return the amount in thousandths, or None if it has smaller parts or overflows int64."""
    count = amount.milli_value()
    return count if Quantity(count, MILLI) == amount else None


def violates_policy(amount: Quantity, policy: CapacityRequestPolicy | None, arithmetic: RangeArithmetic) -> bool:
    """Return whether the policy forbids an amount, which must already be rounded up.

    The policy's default is always allowed. Without a policy, every amount is allowed. If the policy has a range, other
    amounts must not exceed its maximum and must be on one of its steps. Otherwise they must be among the policy's
    values, if it lists any.
    """
    if policy is None or (policy.default is not None and amount == _parse_quantity(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount > _parse_quantity(valid.max):
            return True
        return valid.step is not None and _is_off_step(amount, valid, valid.step, arithmetic.choose_unit(valid))
    if policy.valid_values:
        return amount not in map(_parse_quantity, policy.valid_values)
    return False


def _is_off_step(amount: Quantity, valid: CapacityRequestPolicyRange, step: str | int | float, unit: int) -> bool:
    """Return whether the amount, counted in the unit, is not a whole number of steps above the range's minimum."""
    if unit == MILLI and _convert_to_thousandths(amount) is None:
        return True
    start = _count_units(_parse_quantity(valid.min or 0), unit)
    step_units = _count_units(_parse_quantity(step), unit)
    return (_count_units(amount, unit) - start) % step_units != 0


def _parse_quantity(amount: str | int | float) -> Quantity:
    """Parse a quantity, which may be written as a number."""
    return parse_quantity(str(amount))
