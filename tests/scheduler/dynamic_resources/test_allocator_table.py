"""The structured allocator against upstream's own table (structured/internal/allocatortesting; v1.36)."""

from __future__ import annotations

import json

import msgspec
import pytest
from golden_cases import table
from plugin_cases import cases, snapshot

from kschedctl.api.objects import ResourceClaim
from kschedctl.api.quantity import parse
from kschedctl.cluster import convert
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState
from kschedctl.scheduler.plugins.dynamic_resources.allocator import InvalidPoolsError, Search
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, read_claim
from kschedctl.scheduler.plugins.dynamic_resources.results import allocation_result
from kschedctl.scheduler.plugins.helper.device_features import Features

GATES = {
    "DRAAdminAccess": "admin_access",
    "DRAPrioritizedList": "prioritized_list",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRADeviceTaints": "device_taints",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": "binding_conditions",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRAListTypeAttributes": "list_attributes",
}


class IncubatingFeatures(Features):
    """The table was recorded with the allocator that the scheduler runs by default, whatever the features."""

    stable_allocator = False


EXPERIMENTAL = [case["name"] for case in table("draallocator") if case["channel"] == "experimental"]
"""Constraints on attributes with several values: kube-scheduler v1.36 never asks for the allocator that knows them."""


@cases("draallocator", "draallocate", left_out=EXPERIMENTAL)
def test_allocate(case):
    features = IncubatingFeatures(**{name: bool(case["featureGates"].get(gate)) for gate, name in GATES.items()})
    view = snapshot(case)
    inventory = Inventory(view, features)
    inventory.reservations.state = state_of(case)
    claims = [msgspec.convert(document, ResourceClaim) for document in case["claims"]]
    want = case["want"]
    if "error" in want:
        with pytest.raises((AllocationError, InvalidPoolsError)) as caught:
            allocate(inventory, claims)
        assert str(caught.value) == want["error"].replace('  "not found" not found', f" {absent(want['error'])}")
        return
    found = allocate(inventory, claims)
    assert plain(found, inventory.visible.itself(0), features) == [
        without_ids(allocation) for allocation in want.get("allocations") or ()
    ]


def allocate(inventory, claims):
    return Search(inventory, 0, [read_claim(claim, inventory.classes, inventory.features) for claim in claims]).run()


def absent(error):
    """The table's lister words the absence of a class in its own way."""
    name = error.partition("device class ")[2].partition(":")[0]
    return f'deviceclass.resource.k8s.io "{name}" not found'


def plain(found, itself, features):
    results = [allocation_result(results, [r.device for r in results], itself, features) for results in found or ()]
    return [without_ids(json.loads(msgspec.json.encode(result))) for result in results]


def without_ids(allocation):
    """Upstream's share IDs are random; parts that are empty are left out."""
    results = [
        {key: value for key, value in result.items() if key != "shareID"}
        for result in allocation.get("devices", {}).get("results", ())
    ]
    return {"devices": results, "nodeSelector": allocation.get("nodeSelector")}


def state_of(case):
    def device(text):
        return tuple(text.split("/")[:3])

    return AllocatedState(
        set(map(device, case.get("allocatedDevices", ()))),
        set(map(device, case.get("allocatedSharedDeviceIDs", ()))),
        {
            device(name): {capacity: parse(amount) for capacity, amount in amounts.items()}
            for name, amounts in case.get("allocatedCapacity", {}).items()
        },
    )


def test_claims_of_the_table_are_claims():
    assert isinstance(convert({"kind": "ResourceClaim"}), ResourceClaim)
