"""What a share of a device takes of its capacities: what is requested, else all; a policy may round it up."""

from __future__ import annotations

import pytest

from kschedctl.api.objects import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from kschedctl.api.quantity import parse
from kschedctl.scheduler.plugins.dynamic_resources.capacity import consumed

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
def test_of_a_device_with_ten(requested: str | None, policy: CapacityRequestPolicy | None, expected: str) -> None:
    """Steps of 3 from 2 on are 2, 5, 8."""
    wanted = {"bandwidth": parse(requested)} if requested else {}
    found = consumed(wanted, {"bandwidth": DeviceCapacity("10", policy)})
    assert found == {"bandwidth": parse(expected)}
