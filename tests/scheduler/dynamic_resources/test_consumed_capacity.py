"""Check how much capacity a share of a device consumes: the request, or all of it, rounded up by a policy.

Upstream's tables of 1.37: structured/internal/incubating/consumable_capacity_test.go, transcribed.
"""

from __future__ import annotations

import msgspec
import pytest
from golden_cases import Json
from plugin_cases import parametrize_cases

from kschedctl.api.objects import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kschedctl.api.quantity import parse_quantity
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.capacity import (
    RangeArithmetic,
    compute_consumption,
    fits_capacity,
    violates_policy,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError
from kschedctl.scheduler.plugins.helper.device_features import Features

STEPS = CapacityRequestPolicy(default="2", valid_range=CapacityRequestPolicyRange(min="2", step="3"))
VALUES = CapacityRequestPolicy(default="4", valid_values=("4", "8"))


@pytest.mark.parametrize(
    ("requested", "policy", "expected"),
    [
        (None, None, "10"),
        ("3", None, "3"),
        (None, STEPS, "2"),
        ("1", STEPS, "2"),
        ("6", STEPS, "8"),
        ("5", VALUES, "8"),
    ],
    ids=["all", "as requested", "the default", "the least", "the next step", "the next value"],
)
def test_consumption_of_a_capacity_of_10(
    requested: str | None, policy: CapacityRequestPolicy | None, expected: str
) -> None:
    """The steps of 3, beginning at 2, are 2, 5 and 8."""
    wanted = {"bandwidth": parse_quantity(requested)} if requested else {}
    found = compute_consumption(wanted, {"bandwidth": DeviceCapacity("10", policy)}, RangeArithmetic())
    assert found == {"bandwidth": parse_quantity(expected)}


def build_arithmetic_of_1_37(case: Json) -> RangeArithmetic:
    gates = FeatureGates("1.37", {"DRAFractionalCapacityRange": case["fractionalCapacityRange"]})
    return RangeArithmetic.from_features(Features.from_gates(gates))


def read_policy(document: Json | None) -> CapacityRequestPolicy | None:
    return None if document is None else msgspec.convert(document, CapacityRequestPolicy)


@parametrize_cases("consumablecapacity137", "calculateconsumedcapacity")
def test_consumed_in_1_37(case: Json) -> None:
    requested = {"c": parse_quantity(case["requested"])} if case["requested"] is not None else {}
    capacity = {"c": DeviceCapacity(case["capacity"], read_policy(case["policy"]))}
    if "error" in case["want"]:
        with pytest.raises(AllocationError, match="cannot be represented in the device's range arithmetic"):
            compute_consumption(requested, capacity, build_arithmetic_of_1_37(case))
    else:
        assert compute_consumption(requested, capacity, build_arithmetic_of_1_37(case)) == {
            "c": parse_quantity(case["want"]["amount"])
        }


@parametrize_cases("consumablecapacity137", "usemilli")
def test_thousandths_in_1_37(case: Json) -> None:
    unit = build_arithmetic_of_1_37(case).choose_unit(msgspec.convert(case["range"], CapacityRequestPolicyRange))
    assert (unit == -3) is case["want"]["milli"]


@parametrize_cases("consumablecapacity137", "violatecapacityrequestpolicy")
def test_violated_policies_in_1_37(case: Json) -> None:
    assert (
        violates_policy(parse_quantity(case["amount"]), read_policy(case["policy"]), build_arithmetic_of_1_37(case))
        is case["want"]["violates"]
    )


def test_unrepresentable_amount_fails_before_an_amount_that_is_too_large() -> None:
    """This is cmp-request-over-capacity-fatal-beats-soft of upstream's table, in both orders.

    1.36 tries other devices.
    """
    steps = CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(min="0", step="2"))
    capacity = {"c0": DeviceCapacity("1"), "c1": DeviceCapacity(str(2**63), steps)}
    requested = {"c0": parse_quantity("2"), "c1": parse_quantity(str(2**63 - 1))}
    for names in (("c0", "c1"), ("c1", "c0")):
        ordered = {name: capacity[name] for name in names}
        with pytest.raises(AllocationError):
            fits_capacity(
                requested, ordered, arithmetic=RangeArithmetic.from_features(Features.from_gates(FeatureGates("1.37")))
            )
        assert not fits_capacity(
            requested, ordered, arithmetic=RangeArithmetic.from_features(Features.from_gates(FeatureGates("1.36")))
        )
