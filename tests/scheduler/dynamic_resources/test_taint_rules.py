"""Check DeviceTaintRules by version: applyPatches in resourceslice/tracker/tracker.go of v1.33 to v1.36."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kschedctl
from kschedctl.cluster import Cluster, Gap

DRIVER = "gpu.example.com"
SLOW = f'device.attributes["{DRIVER}"].model == "slow"'
LACKING = f'device.attributes["{DRIVER}"].memory == 1'
TAINTS, RULES = "DRADeviceTaints", "DRADeviceTaintRules"


def build_cel_selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def build_documents(selector: dict[str, Any] | None, model: str = "slow") -> list[dict[str, Any]]:
    """Build a node with one device, a pod that claims it, and a rule that taints the selected devices."""
    device = {"name": "a", "attributes": {"model": {"string": model}}, "allowMultipleAllocations": True}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [device]}
    request = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
    taint = {"key": "broken", "effect": "NoSchedule"}
    rule: dict[str, Any] = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
    api = "resource.k8s.io/v1"
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    claim = {"devices": {"requests": [request]}}
    named = {"name": "c", "namespace": "d", "uid": "c"}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "p"}, "spec": spec},
        {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
        {
            "apiVersion": api,
            "kind": "DeviceClass",
            "metadata": {"name": "slow"},
            "spec": {"selectors": build_cel_selectors(SLOW)},
        },
        {"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": slice_},
        {"apiVersion": api, "kind": "ResourceClaim", "metadata": named, "spec": claim},
        {"apiVersion": f"{api}alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": rule},
    ]


def is_feasible(version: str, gates: tuple[str, ...], *case: Any) -> bool:
    on = {"DynamicResourceAllocation": True} if version == "1.33" else {}
    on |= dict.fromkeys(gates, True)
    cluster = Cluster.from_objects(build_documents(*case), feature_gates=on, kube_version=version)
    return bool(kschedctl.explain(cluster, "d/p").to_dict()["feasible"])


@pytest.mark.parametrize(
    ("version", "gates", "applies"),
    [
        ("1.33", (), False),
        ("1.33", (TAINTS,), True),
        ("1.34", (), False),
        ("1.34", (TAINTS,), True),
        ("1.35", (TAINTS,), False),
        ("1.35", (TAINTS, RULES), True),
        ("1.36", (), False),
        ("1.36", (RULES,), True),
    ],
)
def test_feature_gate_of_taint_rules_by_version(version: str, gates: tuple[str, ...], applies: bool) -> None:
    assert is_feasible(version, gates, None) == (not applies)


@pytest.mark.parametrize("version", ["1.33", "1.34"])
@pytest.mark.parametrize(
    ("selector", "model", "tainted"),
    [
        ({"deviceClassName": "slow"}, "slow", True),
        ({"deviceClassName": "slow"}, "fast", False),
        ({"deviceClassName": "any"}, "fast", True),
        ({"deviceClassName": "unheard-of"}, "slow", False),
        ({"selectors": build_cel_selectors(SLOW)}, "slow", True),
        ({"selectors": build_cel_selectors(SLOW, "false")}, "slow", False),
        ({"selectors": build_cel_selectors(LACKING)}, "slow", False),
        ({"deviceClassName": "slow", "device": "b"}, "slow", False),
        ({"deviceClassName": "slow", "driver": DRIVER, "pool": "p", "device": "a"}, "slow", True),
        ({"deviceClassName": "slow", "selectors": build_cel_selectors("false")}, "slow", False),
    ],
    ids=["class", "class of others", "any", "no such class", "cel", "all of them", "fails", "device", "all", "both"],
)
def test_taint_rule_selects_devices_by_class_and_cel(version: str, selector: Any, model: str, tainted: bool) -> None:
    assert is_feasible(version, (TAINTS,), selector, model) == (not tainted)


def test_taint_rule_selectors_do_not_see_multiple_allocations() -> None:
    """Upstream passes only the driver, attributes and capacity to cel.Device."""
    selector = {"selectors": build_cel_selectors("device.allowMultipleAllocations")}
    assert is_feasible("1.34", (TAINTS, "DRAConsumableCapacity"), selector)


def test_slice_is_ignored_if_a_taint_rule_does_not_compile() -> None:
    """syncSlice does not add the slice, even if the rule would not select any of its devices."""
    assert not is_feasible("1.34", (TAINTS,), {"selectors": build_cel_selectors("noSuchVariable")})
    assert is_feasible("1.34", (TAINTS,), {"driver": "other", "selectors": build_cel_selectors("noSuchVariable")})


def test_taint_rule_selectors_are_ignored_since_1_35() -> None:
    """The selectors were removed from the API. A rule that had nothing else selects every device."""
    assert not is_feasible("1.35", (TAINTS, RULES), {"deviceClassName": "slow"}, "fast")


@pytest.mark.parametrize(("selector", "unknown"), [({"deviceClassName": "slow"}, ["DeviceClass"]), ({}, [])])
def test_unread_class_of_a_taint_rule_makes_the_answer_unknown(selector: dict[str, Any], unknown: list[str]) -> None:
    read = [found for found in build_documents(selector) if found["metadata"]["name"] != "slow"]
    whole = Cluster.from_objects(read, feature_gates={TAINTS: True}, kube_version="1.34")
    found = kschedctl.explain(replace(whole, gaps={"DeviceClass": Gap("was not read")}), "d/p")
    assert [each["kind"] for each in found.to_dict()["unknown"]] == unknown
