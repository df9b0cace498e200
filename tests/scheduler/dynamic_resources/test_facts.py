"""Check the texts about unsuitable devices, and inputs that cannot be read."""

from __future__ import annotations

import pytest
from plugin_cases import build_snapshot, find_pod_info, run_filter, run_pre_filter

from kschedctl.errors import InputError
from kschedctl.scheduler.framework import PluginVerdict
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources, DynamicResourcesArgs
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.snapshot.delta import NO_CHANGE

DRIVER = "dra.example.com"
BIG = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


def build_device(name, memory="80Gi", **more):
    return {"name": name, "capacity": {"memory": {"value": memory}}, **more}


def build_cluster(devices, request, constraints=(), allocated=(), rules=(), **pool):
    slices = [
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "slice"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "node",
                "devices": devices,
                "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1, **pool},
            },
        }
    ]
    results = [{"driver": DRIVER, "pool": "pool", "device": name, "request": "r"} for name in allocated]
    exactly = {"deviceClassName": "class", "allocationMode": "ExactCount", "count": 1, **request}
    claims = [
        build_claim("mine", {"requests": [{"name": "r", "exactly": exactly}], "constraints": list(constraints)}, {}),
        build_claim("used", {}, {"allocation": {"devices": {"results": results}}}),
    ]
    taint_rules = [{"kind": "DeviceTaintRule", "metadata": {"name": "rule"}, "spec": rule} for rule in rules]
    return {
        "nodes": [{"kind": "Node", "metadata": {"name": "node"}}],
        "objects": [{"kind": "DeviceClass", "metadata": {"name": "class"}}, *slices, *claims, *taint_rules],
        "pod": {
            "kind": "Pod",
            "metadata": {"name": "pod", "namespace": "default"},
            "spec": {"resourceClaims": [{"name": "devices", "resourceClaimName": "mine"}]},
        },
    }


def build_claim(name, devices, status):
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}, "status": status}


def answer(case, features=DEFAULT_FEATURES):
    view = build_snapshot(case)
    plugin, info = DynamicResources(DynamicResourcesArgs(), features), find_pod_info(case, view)
    _, state = run_pre_filter(plugin, info, view)
    return plugin, info, view, state


def list_facts(case, features=DEFAULT_FEATURES):
    plugin, info, view, state = answer(case, features)
    verdict = PluginVerdict.from_rejections(plugin.filter(info, view, state, NO_CHANGE), 1)
    return [describe_fact(rejection.fact(0)) for rejection in verdict.rejections]


TAINT = {"key": "sick", "effect": "NoSchedule"}
WANTS = "request r of claim default/mine needs"
CASES = {
    "no-devices": (build_cluster([], {}), f"{WANTS} 1 device, but the node has none"),
    "allocated": (
        build_cluster([build_device("a"), build_device("b")], {"count": 2}, allocated=["a"]),
        f"{WANTS} 2 devices, but only 1 of 2 on the node fits (1 allocated)",
    ),
    "selector": (
        build_cluster([build_device("a", "1Gi")], {"selectors": [{"cel": {"expression": BIG}}]}),
        f"{WANTS} 1 device, but the only device on the node does not fit (1 not selected by claim default/mine: {BIG})",
    ),
    "taint": (
        build_cluster([build_device("a", taints=[TAINT])], {}),
        f"{WANTS} 1 device, but the only device on the node does not fit (1 tainted sick:NoSchedule)",
    ),
    "all-but-one-taken": (
        build_cluster([build_device("a"), build_device("b")], {"allocationMode": "All"}, allocated=["b"]),
        f"{WANTS} all devices, but only 1 of 2 on the node fits (1 allocated)",
    ),
    "capacity": (
        build_cluster([build_device("a", "8Gi")], {"capacity": {"requests": {"memory": "10Gi"}}}),
        f"{WANTS} 1 device, but the only device on the node does not fit (1 without the capacity)",
    ),
    "attribute": (
        build_cluster([build_device("a")], {}, [{"matchAttribute": f"{DRIVER}/numa"}]),
        f"{WANTS} 1 device, but the only device on the node does not fit (1 without attribute {DRIVER}/numa)",
    ),
    "constraint": (
        build_cluster(
            [build_device(f"{i}", attributes={"numa": {"int": i}}) for i in range(2)],
            {"count": 2},
            [{"matchAttribute": f"{DRIVER}/numa"}],
        ),
        f"{WANTS} 2 devices, and 2 of 2 on the node fit; no choice of devices meets matchAttribute {DRIVER}/numa",
    ),
    "pool": (
        build_cluster([build_device("a")], {}, resourceSliceCount=2),
        f"{WANTS} 1 device, but the node has none; pool {DRIVER}/pool is incomplete",
    ),
    "invalid-pool": (
        build_cluster([build_device("a"), build_device("a")], {}),
        f"{WANTS} 1 device, but the node has none; pool {DRIVER}/pool is invalid: duplicate device name a",
    ),
    "runtime-error": (
        build_cluster(
            [build_device("a")], {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].x'}}]}
        ),
        f'claim default/mine: selector #0: CEL runtime error: no such key: x, in device.attributes["{DRIVER}"].x',
    ),
    "compile-error": (
        build_cluster([build_device("a")], {"selectors": [{"cel": {"expression": "noSuchVar"}}]}),
        "claim default/mine: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:1: "
        "undeclared reference to 'noSuchVar' (in container ''), in noSuchVar",
    ),
}


@pytest.mark.parametrize(("case", "fact"), CASES.values(), ids=CASES)
def test_fact(case, fact):
    assert list_facts(case) == [fact]


RULES = {
    "all": ({"taint": TAINT}, True),
    "this-device": ({"deviceSelector": {"driver": DRIVER, "pool": "pool", "device": "a"}, "taint": TAINT}, True),
    "other-device": ({"deviceSelector": {"device": "b"}, "taint": TAINT}, False),
    "other-driver": ({"deviceSelector": {"driver": "x"}, "taint": TAINT}, False),
}


@pytest.mark.parametrize(("rule", "applies"), RULES.values(), ids=RULES)
@pytest.mark.parametrize("enabled", [False, True])
def test_device_taint_rules(rule, applies, enabled):
    found = list_facts(build_cluster([build_device("a")], {}, rules=[rule]), Features(device_taint_rules=enabled))
    assert bool(found) == (applies and enabled)


@pytest.mark.parametrize(
    ("case", "where"),
    [
        (build_cluster([build_device("a", "lots")], {}), "ResourceSlice slice"),
        (
            build_cluster([build_device("a")], {"capacity": {"requests": {"memory": "lots"}}}),
            "claim default/mine, request r",
        ),
    ],
    ids=["slice", "claim"],
)
def test_unreadable_quantities(case, where):
    plugin, info, view, state = answer(case)
    with pytest.raises(InputError) as caught:
        run_filter(plugin, info, view, state)
    assert caught.value.where == where


def test_claims_and_slices_of_v1beta1():
    """In v1beta1, requests have no ``exactly``, and devices have their fields under ``basic``."""
    case = build_cluster([{"name": "a", "basic": build_device("a", "8Gi", taints=[TAINT])}], {})
    devices = {"requests": [{"name": "r", "deviceClassName": "class", "count": 2}]}
    case["objects"] = [
        build_claim("mine", devices, {}) if o["metadata"]["name"] == "mine" else o for o in case["objects"]
    ]
    assert list_facts(case) == [
        f"{WANTS} 2 devices, but the only device on the node does not fit (1 tainted sick:NoSchedule)"
    ]
