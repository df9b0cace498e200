"""Check how claims of manifests and templates count for quotas, by hand."""

from __future__ import annotations

import pytest
from test_counted_pods import NODE, Json, build_quota

import kschedctl
from kschedctl.commands.simulate.report import SimulationReport

SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
GPU = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}


def build_device_requests(*asked: Json) -> Json:
    return {"devices": {"requests": list(asked)}}


def build_exact_request(name: str = "r", device_class: str = "gpu", **how: object) -> Json:
    return {"name": name, "exactly": {"deviceClassName": device_class, **how}}


def build_claim(spec: Json, name: str = "c") -> Json:
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def admit_claim(spec: Json, hard: Json, *more: Json) -> str:
    used = build_quota("q", dict.fromkeys(hard, "0"), hard)
    return kschedctl.admit(kschedctl.Cluster.from_objects([SHOP, GPU, used, *more]), build_claim(spec)).message or ""


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
WAYS = [
    {"name": "big", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
    {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        (build_device_requests(build_exact_request()), 1),
        (build_device_requests(build_exact_request(count=5)), 5),
        (build_device_requests(build_exact_request(allocationMode="All")), 32),
        (build_device_requests(build_exact_request("a", count=1), build_exact_request("b", count=2)), 3),
        (build_device_requests({"name": "r", "firstAvailable": WAYS}), 2),
        (build_device_requests({"name": "r", "firstAvailable": WAYS}, build_exact_request(count=3)), 5),
        (build_device_requests(build_exact_request(device_class="other", count=9)), 0),
    ],
    ids=["one by default", "count", "all", "several requests", "the most of the ways", "both", "another class"],
)
@pytest.mark.parametrize(
    "name", [DEVICES, "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"]
)
def test_by_device_class(spec: Json, counted: int, name: str) -> None:
    """Upstream: TestResourceClaimEvaluatorUsage. The class also stands for an extended resource."""
    assert admit_claim(spec, {name: str(counted)}) == ""
    said = admit_claim(spec, {name: str(counted - 1)}) if counted else ""
    wanted = f"exceeded quota: q, requested: {name}={counted}, used: {name}=0, limited: {name}={counted - 1}"
    assert said == (f'resourceclaims.resource.k8s.io "c" is forbidden: {wanted}' if counted else "")


def test_number_of_claims() -> None:
    """Upstream: TestResourceClaimEvaluatorMatchingResources."""
    name = "count/resourceclaims.resource.k8s.io"
    assert "exceeded quota" in admit_claim(build_device_requests(build_exact_request()), {name: "0"})
    assert (
        admit_claim(
            build_device_requests(build_exact_request()),
            {"pods": "0", "requests.cpu": "0", "requests.foreign.io/x": "0"},
        )
        == ""
    )


def test_class_without_an_extended_resource() -> None:
    plain = {**GPU, "spec": {}}
    assert admit_claim(build_device_requests(build_exact_request()), {"requests.example.com/gpu": "0"}, plain) == ""


def build_volume_claim(name: str, size: str = "5Gi") -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def build_deployment(**spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "c"}], **spec}}
    meta = {"name": "web", "namespace": "shop"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def build_mounting_deployment(name: str) -> Json:
    return build_deployment(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/disk",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def simulate_manifests(objects: list[Json], *manifests: Json) -> SimulationReport:
    """Simulate manifests in a cluster with these objects."""
    return kschedctl.simulate(kschedctl.Cluster.from_objects([NODE, SHOP, *objects]), list(manifests))


@pytest.mark.parametrize(
    "limit",
    [
        build_quota("q", {"requests.storage": "8Gi"}, {"requests.storage": "10Gi"}),
        build_quota("q", {"persistentvolumeclaims": "1"}, {"persistentvolumeclaims": "1"}),
        build_quota(
            "q",
            {"fast.storageclass.storage.k8s.io/requests.storage": "0"},
            {"fast.storageclass.storage.k8s.io/requests.storage": "4Gi"},
        ),
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l", "namespace": "shop"},
            "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "4Gi"}}]},
        },
    ],
    ids=["storage", "claims", "of the default class", "maximum"],
)
def test_volume_claim_of_the_same_file(limit: Json) -> None:
    """The claim is denied, and the pods that reference it do not find it."""
    free = simulate_manifests([STORAGE_CLASS], build_volume_claim("data"), build_mounting_deployment("data"))
    assert (free.placed, free.not_created) == (2, ())
    report = simulate_manifests([STORAGE_CLASS, limit], build_volume_claim("data"), build_mounting_deployment("data"))
    (lacking,) = report.not_created
    assert lacking.workload == "PersistentVolumeClaim shop/data"
    assert 'persistentvolumeclaims "data" is forbidden: ' in lacking.failures[0].message
    assert report.placed == 0
    assert 'persistentvolumeclaim "data" not found' in str(report.to_dict())


def test_claims_of_a_file_and_of_a_stateful_set_share_a_quota() -> None:
    """Of the three allowed claims, the file has one, and the four pods get two."""
    stateful = {**build_deployment(), "kind": "StatefulSet"}
    template = {"metadata": {"name": "own"}, "spec": build_volume_claim("own")["spec"]}
    stateful["spec"] = {**stateful["spec"], "replicas": 4, "serviceName": "web", "volumeClaimTemplates": [template]}
    three = build_quota("q", {"persistentvolumeclaims": "0"}, {"persistentvolumeclaims": "3"})
    report = simulate_manifests([STORAGE_CLASS, three], build_volume_claim("data"), stateful)
    (lacking,) = report.not_created
    assert (lacking.workload, lacking.missing, report.placed) == ("StatefulSet shop/web", 2, 2)


TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one", "namespace": "shop"},
    "spec": {"spec": build_device_requests(build_exact_request())},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a"}, {"name": "b"}],
    },
}
ASKING = build_deployment(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])


def test_claims_of_templates_beyond_the_quota_leave_pods_waiting() -> None:
    """Both pods are created, but not the second one's claim."""
    assert simulate_manifests([GPU, SLICE, TEMPLATE], ASKING).placed == 2
    report = simulate_manifests([GPU, SLICE, TEMPLATE, build_quota("q", {DEVICES: "0"}, {DEVICES: "1"})], ASKING)
    assert report.placed == 1
    told = f"exceeded quota: q, requested: {DEVICES}=1, used: {DEVICES}=1, limited: {DEVICES}=1"
    assert any(told in line and "pods wait for claims that are not created" in line for line in report.assumed)


def build_other_claim(name: str) -> Json:
    return {**ASKING, "metadata": {"name": name, "namespace": "shop"}}


def test_denied_pods_need_no_claims() -> None:
    """One of the first workload's two pods is denied, which leaves the second claim to the other workload's pod."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    of_high = build_quota("h", {"count/pods": "0"}, {"count/pods": "1"}, scopeSelector=scope)
    around = [GPU, SLICE, TEMPLATE, high, of_high, build_quota("d", {DEVICES: "0"}, {DEVICES: "2"})]
    important = build_deployment(priorityClassName="high", **ASKING["spec"]["template"]["spec"])
    report = simulate_manifests(around, important, set_one_replica(build_other_claim("later")))
    assert (report.placed, report.unplaced) == (2, 0)


def set_one_replica(workload: Json) -> Json:
    return {**workload, "spec": {**workload["spec"], "replicas": 1}}


def test_step_counts_the_claims_of_earlier_steps() -> None:
    cluster = kschedctl.Cluster.from_objects(
        [NODE, GPU, SLICE, TEMPLATE, build_quota("q", {DEVICES: "0"}, {DEVICES: "1"})]
    )
    steps = [
        {"apply": {"manifests": [set_one_replica(ASKING)]}},
        {"apply": {"manifests": [set_one_replica(build_other_claim("later"))]}},
    ]
    report = kschedctl.whatif(cluster, {"steps": steps})
    assert [step.placed for step in report.steps] == [1, 0]


ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}
GATES = dict.fromkeys(("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"), True)


def test_pod_group_of_a_missing_class() -> None:
    """Upstream: plugin/pkg/admission/priority/admission_test.go, TestPodGroupAdmission. The group's pods wait."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "shop"},
        "spec": {"priorityClassName": "none", "schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "c"}]},
    }
    cluster = kschedctl.Cluster.from_objects([SHOP, ACCOUNT, NODE], feature_gates=GATES)
    said = "podgroups.scheduling.k8s.io g: no PriorityClass with name none was found"
    simulated = kschedctl.simulate(cluster, [group, pod])
    assert [(lost.workload, lost.headline) for lost in simulated.not_created] == [
        ("PodGroup shop/g", f"the group itself: {said}")
    ]
    assert simulated.placed == 0
    explained = kschedctl.explain(cluster.with_objects({"PodGroup": [kschedctl.cluster.convert_document(group)]}), pod)
    assert (explained.verdict, explained.stands_for) == ("Gated", f"PodGroup shop/g is not created: {said}")
