"""Check fixes for devices: apply each to the documents, read them again, and schedule the pod."""

from __future__ import annotations

import pytest
from applied import Json
from applied_changes import find_helping_remedies
from claim_documents import (
    GPU,
    allocate_devices,
    build_attributes,
    build_claims,
    build_device_class,
    build_device_slice,
    build_node,
    build_pod,
    build_resource_claim,
    request,
)

from kschedctl.reports.remedy import Remedy

ASKED = build_pod(**build_claims(g="want"))
BIG = build_device_class("big", 'device.attributes["gpu.example.com"].model == "big"')
BROKEN = {"taints": [{"key": "broken", "value": "yes", "effect": "NoExecute"}]}
PICKY = request(selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].model == "big"'}}])
SMALL = build_attributes(model="small")
RULE = {
    "kind": "DeviceTaintRule",
    "metadata": {"name": "maintenance"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": BROKEN["taints"][0]},
}
SAME = [{"requests": ["r", "s"], "matchAttribute": "gpu.example.com/model"}]
GOING = build_resource_claim("want", request())
GOING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
N1 = [build_node("n1"), GPU]

CASES: dict[str, tuple[list[Json], dict[str, str]]] = {
    "fewer devices than asked for": (
        [*N1, build_device_slice("n1", {}, {}), build_resource_claim("want", request(count=3))],
        {"FewerDevices": "Recreate ResourceClaim d/want, requesting 2 devices instead of 3 (request r)"},
    ),
    "not all devices are free": (
        [
            *N1,
            build_device_slice("n1", {}, {}),
            build_resource_claim("want", request(allocationMode="All", count=0)),
            allocate_devices(build_resource_claim("have", request()), "n1", "gpu-0"),
        ],
        {
            "FewerDevices": "Recreate ResourceClaim d/want, requesting 1 device instead of all (request r)",
            "FreeDevices": "Free the devices of ResourceClaim d/have, which no pod uses",
        },
    ),
    "a pod has the device": (
        [
            *N1,
            build_device_slice("n1", {}),
            build_resource_claim("want", request()),
            allocate_devices(build_resource_claim("have", request()), "n1", "gpu-0", users=("user",)),
            build_pod("user", "n1", **build_claims(g="have")),
        ],
        {"StopPod": "Evict pod d/user"},
    ),
    "the device is on the second node": (
        [
            *N1,
            build_node("n2"),
            build_device_slice("n2", {}),
            build_resource_claim("want", request()),
            allocate_devices(build_resource_claim("have", request()), "n2", "gpu-0", users=("user",)),
            build_pod("user", "n2", **build_claims(g="have")),
        ],
        {"StopPod": "Evict pod d/user"},
    ),
    "the class selects others": (
        [*N1, BIG, build_device_slice("n1", SMALL), build_resource_claim("want", request(of="big"))],
        {"OtherDeviceClass": "Recreate ResourceClaim d/want with device class gpu instead of big (request r)"},
    ),
    "the claim selects others": (
        [*N1, build_device_slice("n1", SMALL), build_resource_claim("want", PICKY)],
        {"DropDeviceSelector": "Recreate ResourceClaim d/want, without the selector device.attributes["},
    ),
    "the device is tainted by its driver": (
        [*N1, build_device_slice("n1", BROKEN), build_resource_claim("want", request())],
        {
            "TolerateDeviceTaint": "Recreate ResourceClaim d/want, tolerating the device taint broken=yes:NoExecute",
            "UntaintDevices": "Have driver gpu.example.com remove the taint broken=yes:NoExecute from the devices of R",
        },
    ),
    "the devices differ": (
        [
            *N1,
            build_device_slice("n1", SMALL, build_attributes(model="big")),
            build_resource_claim("want", request("r"), request("s"), constraints=SAME),
        ],
        {"DropDeviceConstraint": "Recreate ResourceClaim d/want, without the constraint that all devices"},
    ),
    "one request of two is filled": (
        [
            *N1,
            build_device_class("net"),
            build_device_slice("n1", {}),
            build_resource_claim("want", request(), request("s")),
        ],
        {"DropDeviceRequest": "Recreate ResourceClaim d/want, without request "},
    ),
    "the claim is allocated on another node": (
        [
            *N1,
            build_device_slice("n1", {}),
            allocate_devices(build_resource_claim("want", request()), "gone", "gpu-0"),
        ],
        {"FreeDevices": "Recreate ResourceClaim d/want, so that its devices are allocated where the pod can run"},
    ),
    "the class is not there": (
        [*N1, build_device_slice("n1", {}), build_resource_claim("want", request(of="gpus"))],
        {
            "CorrectDeviceClass": "Recreate ResourceClaim d/want with device class gpu instead of gpus (request r)",
            "CreateDeviceClass": "Create DeviceClass gpus for the devices of driver gpu.example.com",
        },
    ),
    "the claim is not there": (
        [*N1, build_device_slice("n1", {})],
        {"CreateResourceClaim": "Create ResourceClaim d/want for one device of class gpu"},
    ),
    "the claim is misspelled": (
        [*N1, build_device_slice("n1", {}), build_resource_claim("wants", request())],
        {"CorrectClaim": "Use ResourceClaim wants instead of want, which does not exist"},
    ),
    "the claim is being deleted": (
        [*N1, build_device_slice("n1", {}), GOING],
        {"RemakeResourceClaim": "Recreate ResourceClaim d/want, which is being deleted"},
    ),
}


def get_remedies_by_kind(documents: list[Json], most: int = 1) -> dict[str, Remedy]:
    """Return the first remedy of each kind."""
    return {remedy.kinds[0]: remedy for remedy in reversed(find_helping_remedies(documents, most).remedies)}


@pytest.mark.parametrize("name", CASES)
def test_fix_removes_the_cause(name: str) -> None:
    documents, wanted = CASES[name]
    remedies = get_remedies_by_kind([*documents, ASKED])
    for kind, begin in wanted.items():
        assert remedies[kind].summary.startswith(begin)


def test_devices_of_a_stopped_pod_are_freed() -> None:
    documents, _ = CASES["a pod has the device"]
    stop = get_remedies_by_kind([*documents, ASKED])["StopPod"]
    assert stop.weakens == "pod d/user is not recreated, since it has no controller"
    assert stop.changes == (
        {"delete": {"kind": "Pod", "namespace": "d", "name": "user"}},
        {
            "kind": "ResourceClaim",
            "namespace": "d",
            "name": "have",
            "patch": [
                {"op": "remove", "path": "/status/allocation"},
                {"op": "remove", "path": "/status/reservedFor"},
            ],
        },
    )


def test_generated_claim_is_deleted_with_its_stopped_pod() -> None:
    have = allocate_devices(build_resource_claim("user-g", request(), owner="user"), "n1", "gpu-0", users=("user",))
    user = build_pod("user", "n1", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    user["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "user-g"}]
    documents = [*N1, build_device_slice("n1", {}), build_resource_claim("want", request()), have, user, ASKED]
    deleted = [change["delete"]["kind"] for change in get_remedies_by_kind(documents)["StopPod"].changes]
    assert deleted == ["Pod", "ResourceClaim"]


def test_devices_on_another_node() -> None:
    documents, _ = CASES["a pod has the device"]
    more = get_remedies_by_kind([*documents, ASKED])["AddNode"]
    assert more.opens == ("n1-more-0",)
    created = [change["create"] for change in more.changes]
    assert [each["kind"] for each in created] == ["Node", "ResourceSlice"]
    assert created[1]["spec"]["pool"]["name"] == "n1-n1-more-0"


def test_template_is_recreated_with_its_claim() -> None:
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "d"},
        "spec": {"spec": build_resource_claim("", request(count=2))["spec"]},
    }
    asked = build_pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    waiting = [*N1, build_device_slice("n1", {}, {}), template, asked]
    made = "Let the resourceclaim controller of kube-controller-manager create the claim from template t"
    assert get_remedies_by_kind(waiting)["GenerateResourceClaim"].summary == made
    asked["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "asked-g"}]
    own = build_resource_claim("asked-g", request(count=2), owner="asked")
    fewer = get_remedies_by_kind([*N1, build_device_slice("n1", {}), template, own, asked])["FewerDevices"]
    what = "requesting 1 device instead of 2 (request r)"
    assert fewer.summary == f"Recreate ResourceClaimTemplate d/t and the pod's claim, {what}"
    assert [change["kind"] for change in fewer.changes] == ["ResourceClaimTemplate", "ResourceClaim"]
    first, last = fewer.commands
    assert first.startswith("kubectl patch resourceclaimtemplate -n d t --type=merge ")
    assert first.endswith(" --dry-run=client -o json | kubectl replace --force -f -")
    assert last == "kubectl delete resourceclaim -n d asked-g"  # its controller makes it again


def test_missing_template() -> None:
    asked = build_pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    create = get_remedies_by_kind([*N1, build_device_slice("n1", {}), asked])["CreateResourceClaimTemplate"]
    assert create.summary == "Create ResourceClaimTemplate d/t for one device of class gpu"
    assert len(create.commands) == 1
    kinds = [change["create"]["kind"] if "create" in change else change["kind"] for change in create.changes]
    assert kinds == ["ResourceClaimTemplate", "ResourceClaim", "Pod"]


def test_claim_generated_for_another_pod() -> None:
    asked = build_pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    asked["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "asked-g"}]
    documents = [*N1, build_device_slice("n1", {}), build_resource_claim("asked-g", request(), owner="before"), asked]
    remedy = get_remedies_by_kind(documents)["RemakeResourceClaim"]
    assert remedy.commands == ("kubectl delete resourceclaim -n d asked-g",)


def test_two_requests_need_two_changes() -> None:
    documents = [*N1, build_device_slice("n1", {**SMALL, **BROKEN}), build_resource_claim("want", PICKY), ASKED]
    kinds = {remedy.kinds for remedy in find_helping_remedies(documents, 2).remedies}
    assert ("DropDeviceSelector", "TolerateDeviceTaint") in kinds
    assert not find_helping_remedies(documents, 1).remedies


# -- extended resources ------------------------------------------------------------------------------------------------


def test_lower_request_of_a_device_backed_resource() -> None:
    asked = build_pod()
    asked["spec"]["containers"][0]["resources"] = {"requests": {"a.b/gpu": "3"}, "limits": {"a.b/gpu": "3"}}
    gpu = build_device_class("gpu", 'device.driver == "gpu.example.com"', extendedResourceName="a.b/gpu")
    remedy = get_remedies_by_kind([build_node("n1"), gpu, build_device_slice("n1", {}, {}), asked])["LowerRequest"]
    assert remedy.summary == "Request 2 a.b/gpu instead of 3 in container c"


def test_resource_that_no_node_has() -> None:
    asked = build_pod()
    asked["spec"]["containers"][0]["resources"] = {"requests": {"a.b/gpu": "1"}, "limits": {"a.b/gpu": "1"}}
    remedy = get_remedies_by_kind([*N1, build_device_slice("n1", {}), asked])["BackResource"]
    assert remedy.summary == "Offer the devices of DeviceClass gpu as a.b/gpu"
    (command,) = remedy.commands
    assert command == (
        """kubectl patch deviceclass gpu --type=merge -p '{"spec": {"extendedResourceName": "a.b/gpu"}}'"""
    )


def test_rule_that_taints_devices() -> None:
    documents = [*N1, build_device_slice("n1", {}), build_resource_claim("want", request()), RULE, ASKED]
    report = find_helping_remedies(documents, gates={"DRADeviceTaintRules": True})
    delete = next(remedy for remedy in report.remedies if remedy.kinds == ("DeleteDeviceTaintRule",))
    assert delete.summary == "Delete DeviceTaintRule maintenance, which taints devices with broken=yes:NoExecute"
    assert delete.commands == ("kubectl delete devicetaintrule maintenance",)
    assert delete.weakens == "devices are no longer tainted with broken=yes:NoExecute"
