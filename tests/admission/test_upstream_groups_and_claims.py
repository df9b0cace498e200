"""Check admission of pod groups, claims and tolerations against upstream's tables, named beside each test."""

from __future__ import annotations

import pytest
from upstream_objects import Json, build_limits, build_pod

import kschedctl
from kschedctl.reports.not_created import Admission

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test", "uid": "t"}}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "test"}}
GATES = dict.fromkeys(("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"), True)


def build_priority_class(name: str, value: int, default: bool) -> Json:
    meta = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": meta,
        "value": value,
        "globalDefault": default,
    }


DEFAULT, OTHER = build_priority_class("default1", 1000, True), build_priority_class("nondefault1", 2000, False)


def admit(manifest: Json, *objects: Json, plugins: tuple[str, ...] = (), **gates: bool) -> Admission:
    cluster = kschedctl.Cluster.from_objects([NAMESPACE, ACCOUNT, *objects], feature_gates=gates)
    return kschedctl.admit(cluster, manifest, namespace="test", plugins=plugins)


def build_group(**spec: object) -> Json:
    meta = {"name": "test-podgroup", "namespace": "test"}
    policy = {"schedulingPolicy": {"basic": {}}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {**policy, **spec},
    }


@pytest.mark.parametrize(
    ("classes", "spec", "wanted"),
    [
        ([DEFAULT, OTHER], {}, ("default1", 1000)),
        ([DEFAULT, OTHER], {"priorityClassName": "nondefault1"}, ("nondefault1", 2000)),
        ([DEFAULT, OTHER], {"priorityClassName": "non-existent"}, None),
        ([OTHER], {}, ("", 0)),
        ([DEFAULT, OTHER], {"priorityClassName": "nondefault1", "priority": 2000}, ("nondefault1", 2000)),
        ([DEFAULT, OTHER], {"priorityClassName": "nondefault1", "priority": 9999}, None),
    ],
)
def test_admit_pod_group(classes: list[Json], spec: Json, wanted: tuple[str, int] | None) -> None:
    """priority: TestAdmitPodGroup."""
    found = admit(build_group(**spec), *classes, **GATES)
    stored = (found.object or {}).get("spec", {})
    assert found.allowed == (wanted is not None)
    if wanted is not None:
        assert (stored.get("priorityClassName", ""), stored["priority"]) == wanted
    elif "priority" in spec:
        said = "priority set in the pod group (9999) must match the priority computed (2000)"
        because = "based on the priority class set in the spec"
        assert found.message == f'podgroups.scheduling.k8s.io "test-podgroup" is forbidden: {said} {because}'
    else:
        assert "no PriorityClass with name non-existent was found" in (found.message or "")


def test_admit_pod_group_without_the_gate() -> None:
    """priority: TestAdmitPodGroup. The PodGroup of scheduler-plugins is not checked either."""
    gates = {**GATES, "WorkloadAwarePreemption": False}
    assert admit(build_group(priorityClassName="non-existent"), DEFAULT, **gates).allowed
    foreign = {**build_group(priorityClassName="non-existent"), "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
    assert admit(foreign, DEFAULT, **GATES).allowed


@pytest.mark.parametrize(
    ("asked", "item", "admitted"),
    [
        ("1Gi", {"min": {"storage": "1Gi"}}, True),
        ("1Gi", {"max": {"storage": "1Gi"}}, True),
        ("100Gi", {}, True),
        ("5Gi", {"min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}, True),
        ("500Mi", {"min": {"storage": "1Gi"}}, False),
        ("100Gi", {"min": {"storage": "1Gi"}, "max": {"storage": "1Gi"}}, False),
    ],
)
def test_persistent_volume_claim_limit_func(asked: str, item: Json, admitted: bool) -> None:
    """limitranger: TestPersistentVolumeClaimLimitFunc."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": asked}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    assert admit(claim, build_limits("PersistentVolumeClaim", **item)).allowed == admitted


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def build_timed_toleration(key: str, seconds: int = 300) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


FOO = {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ([], [build_timed_toleration(NOT_READY), build_timed_toleration(UNREACHABLE)]),
        ([FOO], [FOO, build_timed_toleration(NOT_READY), build_timed_toleration(UNREACHABLE)]),
        (
            [build_timed_toleration(NOT_READY, 700)],
            [build_timed_toleration(NOT_READY, 700), build_timed_toleration(UNREACHABLE)],
        ),
        (
            [build_timed_toleration(UNREACHABLE, 700)],
            [build_timed_toleration(UNREACHABLE, 700), build_timed_toleration(NOT_READY)],
        ),
        (
            [build_timed_toleration(NOT_READY, 700), build_timed_toleration(UNREACHABLE, 700)],
            [build_timed_toleration(NOT_READY, 700), build_timed_toleration(UNREACHABLE, 700)],
        ),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    ],
)
def test_forgiveness_admission(own: list[Json], wanted: list[Json]) -> None:
    """defaulttolerationseconds: TestForgivenessAdmission."""
    found = admit({"apiVersion": "v1", "kind": "Pod", **build_pod(1, {}, tolerations=own)})
    assert found.object is not None, found.message
    assert found.object["spec"]["tolerations"] == wanted


def build_toleration(name: str) -> Json:
    return {"key": name, "operator": "Exists", "effect": "NoSchedule"}


ONE, TWO = {"example.com/device-ek": "1"}, {"example.com/device-do": "1"}


@pytest.mark.parametrize(
    ("container", "init", "own", "wanted"),
    [
        ({}, {}, [], []),
        ({"cpu": "2", "memory": "2Gi"}, {}, [], []),
        ({"cpu": "2", **ONE}, {}, [], [*ONE]),
        (ONE, TWO, [], [*TWO, *ONE]),
        (ONE, ONE, [], [*ONE]),
        (ONE, {}, [build_toleration("foo")], ["foo", *ONE]),
        (ONE, {}, [build_toleration(*ONE)], [*ONE]),
    ],
)
def test_extended_resource_toleration(container: Json, init: Json, own: list[Json], wanted: list[str]) -> None:
    """extendedresourcetoleration: TestAdmit."""
    made = build_pod(
        1, {"requests": container, "limits": container}, {"requests": init, "limits": init}, tolerations=own
    )
    on = ("ExtendedResourceToleration",)
    found = admit({"apiVersion": "v1", "kind": "Pod", **made}, plugins=on)
    assert found.object is not None, found.message
    going = (NOT_READY, UNREACHABLE)
    kept = [t for t in found.object["spec"]["tolerations"] if t["key"] not in going]
    assert kept == list(map(build_toleration, wanted))
