"""What changed between kube-scheduler's versions, where whole cases of them do not show it: patches, gates."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]


def node(name: str, **more: Any) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}} | more.pop("status", {})
    return {"kind": "Node", "metadata": {"name": name}, "spec": more, "status": status}


def pod(name: str = "p", node_name: str = "", **spec: Any) -> Json:
    containers = spec.pop("containers", [{"name": "c"}])
    metadata = {"name": name, "namespace": "d", "uid": name}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node_name, "containers": containers, **spec}}


def explained(version: str, *objects: Json, gates: dict[str, bool] | None = None, config: Json | None = None) -> Json:
    """Of pod p, which asks for nothing unless it is among the objects."""
    named = {each["metadata"]["name"] for each in objects}
    documents = objects if "p" in named else (*objects, pod())
    cluster = kschedctl.Cluster.from_objects(documents, config, gates, kube_version=version)
    return kschedctl.explain(cluster, "d/p").to_dict()


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.33", "node(s) had untolerated taint {gpu: yes}"),
        ("v1.34.1-eks-3abc12", "node(s) had untolerated taint {gpu: yes}"),
        ("1.34.2", "node(s) had untolerated taint(s)"),
        ("1.34", "node(s) had untolerated taint(s)"),
    ],
)
def test_the_reason_for_a_taint(version: str, reason: str) -> None:
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    found = explained(version, node("n", taints=taints), node("m", taints=taints))
    assert found["message"].startswith(f"0/2 nodes are available: 2 {reason}.")


@pytest.mark.parametrize(("version", "fits"), [("1.33.5", True), ("1.33.6", False), ("1.33", False), ("1.34.0", False)])
def test_host_ports_of_sidecars(version: str, fits: bool) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": ports}
    there = pod("there", "n", containers=[{"name": "c", "ports": ports}])
    found = explained(version, node("n"), there, pod(initContainers=[sidecar]))
    assert found["feasible"] == (["n"] if fits else [])


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.35", "node declared features check failed - unsatisfied requirements: UserNamespacesHostNetworkSupport"),
        ("1.36", "node(s) didn't match Pod's required features"),
    ],
)
def test_the_reason_for_features_that_are_not_declared(version: str, reason: str) -> None:
    gates = {"NodeDeclaredFeatures": True, "UserNamespacesHostNetworkSupport": True}
    found = explained(version, node("n"), pod(hostNetwork=True, hostUsers=False), gates=gates)
    assert found["filter"]["n"]["NodeDeclaredFeatures"]["reasons"] == [reason]


@pytest.mark.parametrize(("version", "score"), [("1.34", 0), ("1.35", 50)])
def test_devices_that_back_an_extended_resource_are_scored(version: str, score: int) -> None:
    """One of two devices would be left. Before 1.35 a node that offers none of the resource itself scores nothing."""
    strategy = {"type": "LeastAllocated", "resources": [{"name": "example.com/gpu", "weight": 1}]}
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs", "scoringStrategy": strategy}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    version_of = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version_of, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    devices = [{"name": "a"}, {"name": "b"}]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    objects = [
        node("n"),
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        pod(containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]),
    ]
    found = explained(version, *objects, gates={"DRAExtendedResource": True}, config=config)
    assert found["score"]["NodeResourcesFit"] == {"n": score}


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        ("1.35", {"ExtendWebSocketsToKubelet": True}),
        ("1.34", {"NodeDeclaredFeatures": False}),
        ("1.32", {"StorageCapacityScoring": True}),
    ],
)
def test_gates_that_a_version_does_not_know_are_refused(version: str, unknown: dict[str, bool]) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=next(iter(unknown))):
        explained(version, node("n"), gates=unknown)


@pytest.mark.parametrize(
    ("version", "ignored"),
    [
        (
            "1.30",
            [
                "spec.resources needs 1.34, or 1.32 and the feature gate PodLevelResources",
                "spec.volumes[].image needs 1.35, or 1.31 and the feature gate ImageVolume",
                "DeviceTaintRule needs 1.33",
            ],
        ),
        (
            "1.33",
            [
                "spec.resources needs 1.34, or the feature gate PodLevelResources",
                "spec.volumes[].image needs 1.35, or the feature gate ImageVolume",
            ],
        ),
        ("1.36", []),
    ],
)
def test_what_a_version_does_not_know_is_said(version: str, ignored: list[str]) -> None:
    asking = {"resources": {"requests": {"cpu": "8"}}, "volumes": [{"name": "v", "image": {"reference": "i"}}]}
    taint = {"key": "k", "effect": "NoSchedule"}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {"taint": taint}}
    found = explained(version, node("n"), rule, pod(**asking))
    assert found["ignored"] == ignored
    assert found["feasible"] == ([] if version == "1.36" else ["n"])  # eight cores of the pod's own, of four
