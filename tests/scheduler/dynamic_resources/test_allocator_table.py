"""Check the structured allocator against upstream's own table (structured/internal/allocatortesting; v1.36)."""

from __future__ import annotations

import json

import msgspec
import pytest
from golden_cases import read_table
from plugin_cases import build_snapshot, parametrize_cases

from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.objects import ResourceClaim
from kschedctl.api.quantity import parse_quantity
from kschedctl.cluster import convert_document
from kschedctl.scheduler.plugins.dynamic_resources.allocated import AllocatedState
from kschedctl.scheduler.plugins.dynamic_resources.allocator import InvalidPoolsError, Search
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, build_allocation_result, read_claim
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


EXPERIMENTAL = [case["name"] for case in read_table("draallocator") if case["channel"] == "experimental"]
"""Constraints on attributes with several values: kube-scheduler v1.36 never asks for the allocator that knows them."""


@parametrize_cases("draallocator", "draallocate", left_out=EXPERIMENTAL)
def test_allocate(case):
    features = IncubatingFeatures(**{name: bool(case["featureGates"].get(gate)) for gate, name in GATES.items()})
    view = build_snapshot(case)
    inventory = Inventory(view, features)
    inventory.reservations.state = build_state(case)
    claims = [msgspec.convert(document, ResourceClaim) for document in case["claims"]]
    want = case["want"]
    if "error" in want:
        with pytest.raises((AllocationError, InvalidPoolsError)) as caught:
            allocate_claims(inventory, claims)
        assert str(caught.value) == want["error"].replace(
            '  "not found" not found', f" {rephrase_missing_class(want['error'])}"
        )
        return
    found = allocate_claims(inventory, claims)
    assert list_results(found, inventory.visible.get_node_selector(0), features) == [
        drop_share_ids(allocation) for allocation in want.get("allocations") or ()
    ]


def allocate_claims(inventory, claims):
    return Search(inventory, 0, [read_claim(claim, inventory.classes, inventory.features) for claim in claims]).run()


def rephrase_missing_class(error):
    """Return the error in the words of the table's lister for a missing class."""
    name = error.partition("device class ")[2].partition(":")[0]
    return f'deviceclass.resource.k8s.io "{name}" not found'


def list_results(found, itself, features):
    results = [
        build_allocation_result(results, [r.device for r in results], itself, features) for results in found or ()
    ]
    return [drop_share_ids(json.loads(msgspec.json.encode(result))) for result in results]


def drop_share_ids(allocation):
    """Return the allocation without upstream's random share IDs and without empty parts."""
    results = [
        {key: value for key, value in result.items() if key != "shareID"}
        for result in allocation.get("devices", {}).get("results", ())
    ]
    return {"devices": results, "nodeSelector": allocation.get("nodeSelector")}


def build_state(case):
    def device(text):
        return tuple(text.split("/")[:3])

    return AllocatedState(
        set(map(device, case.get("allocatedDevices", ()))),
        set(map(device, case.get("allocatedSharedDeviceIDs", ()))),
        {
            device(name): {capacity: parse_quantity(amount) for capacity, amount in amounts.items()}
            for name, amounts in case.get("allocatedCapacity", {}).items()
        },
    )


def test_claims_of_the_table_are_claims():
    assert isinstance(convert_document({"kind": "ResourceClaim"}), ResourceClaim)


V1_37 = KubeVersion(37)
SINCE_1_37 = {
    "list-attributes-disabled-match-constraint-with-lists": None,
    "list-attributes-disabled-distinct-constraint-with-lists": None,
    "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-insufficient": None,
}
"""What v1.37's table expects otherwise than v1.36's: nothing is allocated."""


@pytest.mark.parametrize("name", SINCE_1_37)
def test_since_1_37(name):
    """#139395: a selector that asks for none of the attributes with several values no longer fails; #140769."""
    (case,) = (case for case in read_table("draallocator") if case["name"] == name)
    features = IncubatingFeatures(
        **{name: bool(case["featureGates"].get(gate)) for gate, name in GATES.items()}, release=V1_37
    )
    inventory = Inventory(build_snapshot(case), features)
    inventory.reservations.state = build_state(case)
    assert allocate_claims(inventory, [msgspec.convert(document, ResourceClaim) for document in case["claims"]]) is None


def build_slice(name, node_name, **spec):
    """Build a ResourceSlice of driver-a's pool-1, which has three slices."""
    pool = {"name": "pool-1", "generation": 1, "resourceSliceCount": 3}
    spec = {"driver": "driver-a", "nodeName": node_name, "pool": pool, **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def build_consuming_device(name, memory):
    counters = {"memory": {"value": memory}}
    return {"name": name, "consumesCounters": [{"counterSet": "counter-set-1", "counters": counters}]}


@pytest.mark.parametrize("release", [KubeVersion(36), V1_37], ids=str)
def test_devices_consume_a_counter_set_in_different_nodes(release):
    """Upstream: partitionable-devices-devices-consume-counter-set-in-different-nodes (v1.37): 8 - 6 leaves 2 GiB."""
    shared = [{"name": "counter-set-1", "counters": {"memory": {"value": "8Gi"}}}]
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "class-a"}},
        build_slice("slice-1", "node-1", sharedCounters=shared),
        build_slice("slice-2", "node-1", devices=[build_consuming_device("device-1", "6Gi")]),
        build_slice(
            "slice-3",
            "node-2",
            devices=[build_consuming_device("device-2", "6Gi"), build_consuming_device("device-3", "2Gi")],
        ),
    ]
    case = {
        "nodes": [{"kind": "Node", "metadata": {"name": "node-2"}}],
        "objects": objects,
        "allocatedDevices": ["driver-a/pool-1/device-1"],
    }
    inventory = Inventory(build_snapshot(case), IncubatingFeatures(release=release))
    inventory.reservations.state = build_state(case)
    request = {"name": "req-0", "exactly": {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": 1}}
    claim = msgspec.convert(
        {"metadata": {"name": "claim-0"}, "spec": {"devices": {"requests": [request]}}}, ResourceClaim
    )
    (results,) = allocate_claims(inventory, [claim])
    assert [result.device.id for result in results] == [("driver-a", "pool-1", "device-3")]


HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (KubeVersion(36), "claim claim-0: selector #0: CEL runtime error: no such key: sharingStrategy"),
        (
            V1_37,
            "claim claim-0: selector #0 on device driver-a/pool-1/device-1: "
            f"CEL runtime error: no such key: sharingStrategy{HINT}",
        ),
    ],
    ids=str,
)
def test_an_attribute_that_is_missing(release, said):
    """Upstream: "no such key error gets enhanced with usage hint" (TestEnhanceRuntimeError), selectorsMatch (v1.37)."""
    case = {
        "nodes": [{"kind": "Node", "metadata": {"name": "node-1"}}],
        "objects": [
            {"kind": "DeviceClass", "metadata": {"name": "class-a"}},
            {
                **build_slice("slice-1", "node-1", devices=[{"name": "device-1", "attributes": {"a": {"int": 1}}}]),
            },
        ],
    }
    case["objects"][1]["spec"]["pool"]["resourceSliceCount"] = 1
    selector = {"cel": {"expression": 'device.attributes["driver-a"].sharingStrategy == "x"'}}
    exactly = {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": 1, "selectors": [selector]}
    claim = {
        "metadata": {"name": "claim-0"},
        "spec": {"devices": {"requests": [{"name": "req-0", "exactly": exactly}]}},
    }
    with pytest.raises(AllocationError) as caught:
        allocate_claims(
            Inventory(build_snapshot(case), IncubatingFeatures(release=release)),
            [msgspec.convert(claim, ResourceClaim)],
        )
    assert str(caught.value) == said


def build_single_slice(driver, *devices, **spec):
    """Build a ResourceSlice of node-1 and its counters, each alone in pool-1 of the driver."""
    shared = [{"name": "counter-set-1", "counters": {"memory": {"value": "4Gi"}}}]
    pool = {"name": "pool-1", "generation": 1, "resourceSliceCount": 2}
    specs = [
        {"driver": driver, "nodeName": "node-1", "pool": pool, **part}
        for part in ({"sharedCounters": shared}, {"devices": list(devices), **spec})
    ]
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{driver}-{i}"}, "spec": s}
        for i, s in enumerate(specs)
    ]


def build_claim_spec(count=1, **fields):
    """Build the spec of a claim for this many devices."""
    exactly = {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": count}
    return {"requests": [{"name": "req-0", "exactly": exactly}], **fields}


TAINT = {"key": "k", "effect": "NoSchedule"}
COLOURS = [{"name": f"device-{i}", "attributes": {"colour": {"string": c}}} for i, c in enumerate("aba")]
CHANGED = {
    "#140434: two drivers whose pools have one name": (
        [
            *build_single_slice("driver-a", build_consuming_device("a", "4Gi")),
            *build_single_slice("driver-b", build_consuming_device("b", "4Gi")),
        ],
        build_claim_spec(2),
        {},
        (None, ["a", "b"]),
    ),
    "#140436: a device that is tainted gives its counters back": (
        build_single_slice(
            "driver-a", {**build_consuming_device("a", "4Gi"), "taints": [TAINT]}, build_consuming_device("b", "4Gi")
        ),
        build_claim_spec(),
        {},
        (None, ["b"]),
    ),
    "#140433: a device of which somebody has a share without capacity": (
        build_single_slice("driver-a", {**build_consuming_device("a", "4Gi"), "allowMultipleAllocations": True}),
        build_claim_spec(),
        {"allocatedSharedDeviceIDs": ["driver-a/pool-1/a"]},
        (None, ["a"]),
    ),
    "#140438: three devices of one request, of which two are of a colour": (
        build_single_slice("driver-a", *COLOURS),
        build_claim_spec(3, constraints=[{"distinctAttribute": "driver-a/colour"}]),
        {},
        (["device-0", "device-1", "device-2"], None),
    ),
}
"""As upstream's issues tell them: slices, the claim, what is allocated, and what v1.36.2 and v1.37 give."""


@pytest.mark.parametrize(("minor", "place"), [(36, 0), (37, 1)])
@pytest.mark.parametrize("name", CHANGED)
def test_what_1_37_mended(name, minor, place):
    slices, devices, state, expected = CHANGED[name]
    node = {"kind": "Node", "metadata": {"name": "node-1"}}
    case = {"nodes": [node], "objects": [{"kind": "DeviceClass", "metadata": {"name": "class-a"}}, *slices], **state}
    inventory = Inventory(build_snapshot(case), IncubatingFeatures(release=KubeVersion(minor)))
    inventory.reservations.state = build_state(case)
    claim = {"metadata": {"name": "claim-0"}, "spec": {"devices": devices}}
    found = allocate_claims(inventory, [msgspec.convert(claim, ResourceClaim)])
    assert (found and [result.device.device.name for result in found[0]]) == expected[place]
