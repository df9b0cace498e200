"""Check the allocators before 1.36 with searches short enough to follow by hand."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]
DRIVER = "gpu.example.com"


def build_device(name: str, **attributes: str) -> Json:
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


def build_slice(name: str, *devices: Json, pool: str = "n", **fields: Any) -> Json:
    generation, count = fields.get("generation", 1), fields.get("count", 1)
    spec = {"driver": DRIVER, "nodeName": "n", "devices": devices}
    spec["pool"] = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def request(name: str, selector: str = "true", mode: str = "ExactCount", **more: Any) -> Json:
    selectors = [{"cel": {"expression": selector}}]
    return {"name": name, "exactly": {"deviceClassName": "c", "selectors": selectors, "allocationMode": mode, **more}}


def build_name_expression(*names: str) -> str:
    return f'device.attributes["{DRIVER}"].n in {list(names)}'


def explain_rejection(
    version: str,
    slices: list[Json],
    requests: list[Json],
    constraints: Any = (),
    *,
    chosen: str = "true",
    gates: dict[str, bool] | None = None,
) -> str:
    """Return why DynamicResources rejects the only node, or "" if it passes."""
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    selectors = [{"cel": {"expression": chosen}}]
    pod = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    documents = [
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}},
        {"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {"selectors": selectors}},
        {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "d"}, "spec": spec},
        {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "p"}, "spec": pod},
        *slices,
    ]
    gates = gates or ({"DynamicResourceAllocation": True} if version < "1.34" else {})
    cluster = kschedctl.Cluster.from_objects(documents, feature_gates=gates, kube_version=version)
    found = kschedctl.explain(cluster, "d/p").to_dict()["filter"].get("n", {}).get("DynamicResources", {})
    return "".join(found.get("reasons", ()))


NO = "cannot allocate all claims"
TWO = [build_slice("s", build_device("a", n="a"), build_device("b", n="b"))]
THREE = [build_slice("s", *(build_device(n, n=n) for n in "abc"))]


@pytest.mark.parametrize(
    ("version", "of_two", "of_three"),
    [("1.31", "", ""), ("1.32", NO, NO), ("1.33", "", NO), ("1.34", "", ""), ("1.36", "", "")],
)
def test_mode_all_with_devices_that_an_earlier_request_took(version: str, of_two: str, of_three: str) -> None:
    """The first request takes one device.

    The second one wants all devices named a, or all named a or b. In 1.31, devices in use are left out. 1.32 ends its
    search after the first try, which took a. 1.33 continues, but when it tries b first, it takes a for the second
    request, finds b in use, and does not give a back. Later versions give it back.
    """
    assert explain_rejection(version, TWO, [request("r0"), request("r1", build_name_expression("a"), "All")]) == of_two
    assert (
        explain_rejection(version, THREE, [request("r0"), request("r1", build_name_expression("a", "b"), "All")])
        == of_three
    )


@pytest.mark.parametrize(("version", "words"), [("1.31", "no such key: missing"), ("1.32", "")])
def test_mode_all_applies_the_selectors_of_the_class(version: str, words: str) -> None:
    """The class selects no device, so the claim's selector need not be evaluated. 1.31 ignores the class's selector."""
    found = explain_rejection(
        version, TWO, [request("r0", f'device.attributes["{DRIVER}"].missing == "x"', "All")], chosen="false"
    )
    assert found.endswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(("version", "want"), [("1.32", ""), ("1.33", NO)])
def test_mode_all_without_matching_devices(version: str, want: str) -> None:
    assert explain_rejection(version, TWO, [request("r0", "false", "All")]) == want


@pytest.mark.parametrize(
    ("version", "want"),
    [
        ("1.31", ""),
        ("1.32", ""),
        ("1.33", "pool p is invalid: duplicate device name x"),
        ("1.34", "pool p is invalid: duplicate device name x"),
        ("1.35", ""),
    ],
)
def test_invalid_pool_before_a_usable_pool(version: str, want: str) -> None:
    """The invalid pool has two devices of one name, which the request does not select.

    1.32 fails only if it selects one.
    """
    invalid = build_slice("s0", build_device("x", n="x"), build_device("x", n="y"), pool="p")
    assert (
        explain_rejection(
            version,
            [invalid, build_slice("s1", build_device("a", n="a"), pool="q")],
            [request("r0", build_name_expression("a"))],
        )
        == want
    )


def test_request_that_selects_a_device_of_an_invalid_pool() -> None:
    invalid = build_slice("s0", build_device("x", n="x"), build_device("x", n="y"), pool="p")
    assert explain_rejection("1.31", [invalid], [request("r0", build_name_expression("x"))]) == ""
    assert (
        explain_rejection("1.32", [invalid], [request("r0", build_name_expression("x"))])
        == "pool p is invalid: duplicate device name x"
    )
    assert (
        explain_rejection("1.36", [invalid], [request("r0", build_name_expression("x"))])
        == "invalid resource pools were encountered"
    )


@pytest.mark.parametrize(("version", "want"), [("1.34", ""), ("1.35", NO)])
def test_pool_with_a_missing_slice(version: str, want: str) -> None:
    assert explain_rejection(version, [build_slice("s", build_device("a", n="a"), count=2)], [request("r0")]) == want


@pytest.mark.parametrize(("version", "words"), [("1.31", "is currently being updated"), ("1.32", "")])
def test_pool_with_a_slice_of_an_older_generation(version: str, words: str) -> None:
    """The pool consists of one slice, but the slice of the previous generation still exists. 1.31 counts both."""
    slices = [build_slice("s1", build_device("a", n="a")), build_slice("s2", build_device("b", n="b"), generation=2)]
    found = explain_rejection(version, slices, [request("r0", mode="All")])
    assert found.endswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(("version", "want"), [("1.34", ""), ("1.35", NO)])
def test_distinct_attribute_of_devices_with_equal_values(version: str, want: str) -> None:
    """1.34 compares the addresses of values, so that two devices always differ."""
    alike = [build_slice("s", build_device("a", model="m"), build_device("b", model="m"))]
    distinct = [{"distinctAttribute": f"{DRIVER}/model"}]
    consumable = {"DRAConsumableCapacity": True}
    assert explain_rejection(version, alike, [request("r0"), request("r1")], distinct, gates=consumable) == want


@pytest.mark.parametrize(("version", "want"), [("1.31", ""), ("1.33", ""), ("1.34", NO), ("1.36", NO)])
def test_admin_request_for_two_devices_gets_one_device_twice(version: str, want: str) -> None:
    """Only one device exists.

    Before 1.34, a device allocated with adminAccess is not in use, even for the same request.
    """
    one, gates = [build_slice("s", build_device("a", n="a"))], {"DynamicResourceAllocation": True}
    gates |= {"DRAAdminAccess": True} if version == "1.33" else {}
    assert explain_rejection(version, one, [request("r0", count=2, adminAccess=True)], gates=gates) == want


@pytest.mark.parametrize("version", ["1.32", "1.33.0", "1.33.1", "1.34", "1.36"])
@pytest.mark.parametrize("number", [16, 17])
def test_mode_all_with_more_than_half_the_devices_of_a_claim(version: str, number: int) -> None:
    """1.33.0 adds all devices of a request to those already allocated.

    Before the last of 17 devices, the sum is 16 + 17, which exceeds 32.
    """
    slices = [build_slice("s", *(build_device(f"d{i}", n=f"d{i}") for i in range(number)))]
    want = NO if (version, number) == ("1.33.0", 17) else ""
    assert explain_rejection(version, slices, [request("r0", mode="All")]) == want


@pytest.mark.parametrize(("version", "want"), [("1.33.0", NO), ("1.33.1", "")])
def test_limit_of_devices_with_a_second_request(version: str, want: str) -> None:
    """With one device of another request, the sum of 1.33.0 before the last device is 1 + 15 + 16 = 32 for 16 devices.

    For 17 devices, it exceeds 32.
    """
    slices = [build_slice("s", *(build_device(f"d{i}", n=f"d{i}") for i in range(18)))]
    others = [f"d{i}" for i in range(1, 18)]
    assert (
        explain_rejection(
            version,
            slices,
            [request("r0", build_name_expression("d0")), request("r1", build_name_expression(*others), "All")],
        )
        == want
    )
    assert (
        explain_rejection(
            version,
            slices,
            [request("r0", build_name_expression("d0")), request("r1", build_name_expression(*others[:16]), "All")],
        )
        == ""
    )


TAKES = {"consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "1"}}}]}
ONE_COUNTER = [{"name": "s", "counters": {"memory": {"value": "1"}}}]
COUNTERS = build_slice("s0", count=2)
COUNTERS["spec"] = COUNTERS["spec"] | {"devices": [], "sharedCounters": ONE_COUNTER}
SHARED = build_device("a", n="a") | TAKES | {"allowMultipleAllocations": True}


@pytest.mark.parametrize(("version", "want"), [("1.34", NO), ("1.35", ""), ("1.36", "")])
def test_two_shares_of_a_device_that_consumes_the_only_counter(version: str, want: str) -> None:
    gates = {"DRAConsumableCapacity": True, "DRAPartitionableDevices": True}
    slots = {"slots": {"value": "2", "requestPolicy": {"default": "1"}}}
    slices = [COUNTERS, build_slice("s1", SHARED | {"capacity": slots}, count=2)]
    if version == "1.34":  # the counters of devices stand in their own slice
        slices = [build_slice("s1", SHARED | {"capacity": slots})]
        slices[0]["spec"]["sharedCounters"] = ONE_COUNTER
    assert explain_rejection(version, slices, [request("r0")], gates=gates) == ""
    assert explain_rejection(version, slices, [request("r0"), request("r1")], gates=gates) == want


@pytest.mark.parametrize(("version", "want"), [("1.36.1", ""), ("1.36.2", NO), ("1.36", NO)])
def test_counters_consumed_by_a_shared_device(version: str, want: str) -> None:
    """The pool's counter is enough for one device.

    Another claim has a share of device a, which up to 1.36.1 consumes no counters.
    """
    share = {"request": "r", "driver": DRIVER, "pool": "n", "device": "a", "shareID": "6cc9ac5e"}
    other = {
        "kind": "ResourceClaim",
        "metadata": {"name": "other", "namespace": "d"},
        "status": {"allocation": {"devices": {"results": [share]}}},
    }
    documents = [COUNTERS, build_slice("s1", SHARED, build_device("b", n="b") | TAKES, count=2), other]
    assert explain_rejection(version, documents, [request("r0", build_name_expression("b"))]) == want
    assert explain_rejection(version, documents[:2], [request("r0", build_name_expression("b"))]) == ""
