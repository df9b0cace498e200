"""Check differences between kube-scheduler's versions beyond the golden cases: patches, gates."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]
FREE = {"phase": "Available"}
RESTARTS = "RestartAllContainersOnContainerExits"


def build_node(name: str, **more: Any) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}} | more.pop("status", {})
    return {"kind": "Node", "metadata": {"name": name}, "spec": more, "status": status}


def build_pod(name: str = "p", node_name: str = "", **spec: Any) -> Json:
    containers = spec.pop("containers", [{"name": "c"}])
    metadata = {"name": name, "namespace": "d", "uid": name}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node_name, "containers": containers, **spec}}


def explain_pod(version: str, *objects: Json, gates: dict[str, bool] | None = None, config: Json | None = None) -> Json:
    """Explain pod p, which requests nothing unless it is among the objects."""
    named = {each["metadata"]["name"] for each in objects}
    documents = objects if "p" in named else (*objects, build_pod())
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
def test_reason_for_a_taint(version: str, reason: str) -> None:
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    found = explain_pod(version, build_node("n", taints=taints), build_node("m", taints=taints))
    assert found["message"].startswith(f"0/2 nodes are available: 2 {reason}.")


@pytest.mark.parametrize(("version", "fits"), [("1.33.5", True), ("1.33.6", False), ("1.33", False), ("1.34.0", False)])
def test_host_ports_of_sidecars(version: str, fits: bool) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": ports}
    there = build_pod("there", "n", containers=[{"name": "c", "ports": ports}])
    found = explain_pod(version, build_node("n"), there, build_pod(initContainers=[sidecar]))
    assert found["feasible"] == (["n"] if fits else [])


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (
            "1.35",
            "node declared features check failed - unsatisfied requirements: RestartAllContainersOnContainerExits",
        ),
        ("1.36", "node(s) didn't match Pod's required features"),
    ],
)
def test_reason_for_undeclared_features(version: str, reason: str) -> None:
    gates = {"NodeDeclaredFeatures": True, RESTARTS: True}
    containers = [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
    found = explain_pod(version, build_node("n"), build_pod(containers=containers), gates=gates)
    assert found["filter"]["n"]["NodeDeclaredFeatures"]["reasons"] == [reason]


@pytest.mark.parametrize(("version", "code"), [("1.35", "Skip"), ("1.36", "Success")])
def test_features_that_a_version_infers(version: str, code: str) -> None:
    """1.35 has a gate for user namespaces on the host network, but no node has to declare the feature."""
    gates = {"NodeDeclaredFeatures": True, "UserNamespacesHostNetworkSupport": True}
    found = explain_pod(version, build_node("n"), build_pod(hostNetwork=True, hostUsers=False), gates=gates)
    assert found["preFilter"]["NodeDeclaredFeatures"]["code"] == code


@pytest.mark.parametrize(
    ("version", "gates", "needs"),
    [
        ("1.34", {"DynamicResourceAllocation": False}, ""),
        ("1.35", {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": True}, "PodLevelResources"),
        ("1.35", {"UserNamespacesHostNetworkSupport": True}, ""),
        ("1.36", {"UserNamespacesHostNetworkSupport": True, "NodeDeclaredFeatures": False}, "NodeDeclaredFeatures"),
    ],
)
def test_gates_that_depend_on_others(version: str, gates: dict[str, bool], needs: str) -> None:
    """1.34 starts without devices but with DRAPrioritizedList, which is on by default and has no effect alone."""
    if not needs:
        assert explain_pod(version, build_node("n"), gates=gates)["feasible"] == ["n"]
        return
    with pytest.raises(kschedctl.KschedctlError, match=rf"depends on features that are disabled: \[.*{needs}"):
        explain_pod(version, build_node("n"), gates=gates)


@pytest.mark.parametrize(("version", "score"), [("1.34", 0), ("1.35", 50)])
def test_devices_that_back_an_extended_resource_are_scored(version: str, score: int) -> None:
    """One of two devices would remain. Before 1.35 a node that does not offer the resource itself scores 0."""
    strategy = {"type": "LeastAllocated", "resources": [{"name": "example.com/gpu", "weight": 1}]}
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs", "scoringStrategy": strategy}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    version_of = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version_of, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    devices = [{"name": "a"}, {"name": "b"}]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    objects = [
        build_node("n"),
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        build_pod(containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]),
    ]
    found = explain_pod(version, *objects, gates={"DRAExtendedResource": True}, config=config)
    assert found["score"]["NodeResourcesFit"] == {"n": score}


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        ("1.35", {"ExtendWebSocketsToKubelet": True}),
        ("1.34", {"NodeDeclaredFeatures": False}),
        ("1.32", {"StorageCapacityScoring": True}),
    ],
)
def test_gates_that_a_version_does_not_know_are_rejected(version: str, unknown: dict[str, bool]) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=next(iter(unknown))):
        explain_pod(version, build_node("n"), gates=unknown)


@pytest.mark.parametrize(
    ("version", "ignored"),
    [
        (
            "1.30",
            [
                "spec.resources needs Kubernetes 1.34, or 1.32 and the feature gate PodLevelResources",
                "spec.volumes[].image needs Kubernetes 1.35, or 1.31 and the feature gate ImageVolume",
                "DeviceTaintRule needs Kubernetes 1.33",
            ],
        ),
        (
            "1.33",
            [
                "spec.resources needs Kubernetes 1.34, or the feature gate PodLevelResources",
                "spec.volumes[].image needs Kubernetes 1.35, or the feature gate ImageVolume",
            ],
        ),
        ("1.36", []),
    ],
)
def test_ignored_fields_of_a_version_are_reported(version: str, ignored: list[str]) -> None:
    asking = {"resources": {"requests": {"cpu": "8"}}, "volumes": [{"name": "v", "image": {"reference": "i"}}]}
    taint = {"key": "k", "effect": "NoSchedule"}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {"taint": taint}}
    found = explain_pod(version, build_node("n"), rule, build_pod(**asking))
    assert found["ignored"] == ignored
    assert found["feasible"] == ([] if version == "1.36" else ["n"])  # eight cores of the pod's own, of four


@pytest.mark.parametrize(
    ("version", "ignored", "refused"),
    [
        ("1.31", [], False),  # there it depends on no gate
        ("1.33", ["of ResourceClaim needs Kubernetes 1.34, or the feature gate DRAAdminAccess"], True),
        ("1.34", [], False),
    ],
)
def test_dropped_field_may_be_rejected(version: str, ignored: list[str], refused: bool) -> None:
    exact = {"deviceClassName": "c", "adminAccess": True}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exact}]}}
    driver, pool = "gpu.example.com", {"name": "n", "generation": 1, "resourceSliceCount": 1}
    devices = {"driver": driver, "nodeName": "n", "pool": pool, "devices": [{"name": "a"}]}
    documents = [
        {"kind": "DeviceClass", "metadata": {"name": "c"}},
        {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "d"}, "spec": spec},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": devices},
        build_pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
    ]
    found = explain_pod(version, build_node("n"), *documents, gates={"DynamicResourceAllocation": True})
    assert found["ignored"] == [f"spec.devices.requests[].exactly.adminAccess {line}" for line in ignored]
    assert ("admin access is requested, but the feature is disabled" in (found["message"] or "")) == refused
    assert found["feasible"] == ([] if refused else ["n"])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.32", 'running PreFilter plugin "DynamicResources": request r: unsupported request type'),
        ("1.33", "resource claim d/k, request r: has subrequests, but the DRAPrioritizedList feature is disabled"),
    ],
)
def test_alternatives_that_the_version_does_not_know(version: str, said: str) -> None:
    """1.32 decodes only the name of such a request."""
    alternative = {"name": "x", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    request = {"name": "r", "firstAvailable": [alternative]}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "k", "namespace": "d"}}
    asking = build_pod(resourceClaims=[{"name": "k", "resourceClaimName": "k"}])
    objects = (build_node("n"), claim | {"spec": {"devices": {"requests": [request]}}}, asking)
    found = explain_pod(version, *objects, gates={"DynamicResourceAllocation": True})
    assert said in found["message"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.30.1", "1 Insufficient cpu, 1 node is filtered out by the prefilter result."),
        ("1.30.2", "1 Insufficient cpu."),
        ("1.31.0", "1 Insufficient cpu."),
        ("1.32.0", "1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
    ],
)
def test_nodes_excluded_before_filters(version: str, said: str) -> None:
    """The pod names one of the two nodes, which is too small."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    asking = build_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "8"}}}], affinity=affinity)
    message = explain_pod(version, build_node("n"), build_node("m"), asking)["message"]
    assert message.startswith(f"0/2 nodes are available: {said} preemption: 0/2 nodes are available: ")


@pytest.mark.parametrize(
    ("version", "chosen"), [("1.30.6", "n"), ("1.30.7", "m"), ("1.31.2", "n"), ("1.31.3", "m"), ("1.36", "m")]
)
def test_most_important_victim(version: str, chosen: str) -> None:
    """Both pods of a node must be evicted, and a PDB protects the less important one.

    Before the fix it came first and counted as the most important, with priorities 1 and 5. When sorted again, 50 and
    49 count.
    """

    def victim(name: str, node_name: str, priority: int, guarded: bool) -> Json:
        containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
        made = build_pod(name, node_name, priority=priority, containers=containers)
        made["metadata"]["labels"] = {"guarded": str(guarded)}
        return made

    victims = [
        *(victim("n-guarded", "n", 1, True), victim("n-other", "n", 50, False)),
        *(victim("m-guarded", "m", 5, True), victim("m-other", "m", 49, False)),
    ]
    selector = {"matchLabels": {"guarded": "True"}}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": selector},
    }
    asking = build_pod(priority=100, containers=[{"name": "c", "resources": {"requests": {"cpu": "4"}}}])
    found = explain_pod(version, build_node("n"), build_node("m"), budget, *victims, asking)["preemption"]
    assert found["chosen"] == chosen


def explain_with_volumes(version: str, gates: dict[str, bool]) -> Json:
    """Explain a pod with a claim of 4Gi, for volumes of 5Gi on n and 8Gi on m."""
    mode, names = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}, {"n": "5Gi", "m": "8Gi"}
    made = {"kind": "StorageClass", "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    objects: list[Json] = [made | {"volumeBindingMode": "WaitForFirstConsumer"}]
    for name, size in names.items():
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        spec = {"capacity": {"storage": size}, "nodeAffinity": affinity, **mode}
        objects.append({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": FREE})
        objects.append(build_node(name))
        objects[-1]["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "d"}}
    objects.append(claim | {"spec": {"resources": {"requests": {"storage": "4Gi"}}, **mode}})
    asking = build_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    return explain_pod(version, *objects, asking, gates=gates)


@pytest.mark.parametrize(
    ("version", "gate", "scores"),
    [
        ("1.32", "VolumeCapacityPriority", {"n": 80, "m": 50}),
        ("1.33", "StorageCapacityScoring", {"n": 20, "m": 50}),
    ],
)
def test_capacity_scoring_changes_from_most_to_least(version: str, gate: str, scores: dict[str, int]) -> None:
    """4 of 5Gi are 80 percent, and 4 of 8Gi are 50."""
    found = explain_with_volumes(version, {gate: True})["score"]
    assert found["VolumeBinding"] == scores
    assert "VolumeBinding" not in explain_with_volumes(version, {})["score"]


def test_older_gate_scores_only_volumes_to_bind() -> None:
    plain = explain_pod("1.32", build_node("n"), build_node("m"), gates={"VolumeCapacityPriority": True})
    assert "VolumeBinding" not in plain["score"]
    with pytest.raises(kschedctl.KschedctlError, match="unrecognized feature gate: VolumeCapacityPriority"):
        explain_pod("1.33", build_node("n"), gates={"VolumeCapacityPriority": True})


@pytest.mark.parametrize("spec", [{"resourceClassName": "gpu"}, {"controller": "gpu.example.com", "devices": {}}])
def test_claims_allocated_by_a_controller_are_unknown(spec: Json) -> None:
    """In classic dynamic resource allocation of 1.30 and 1.31, the driver determines the nodes."""
    claim = {"kind": "ResourceClaim", "metadata": {"name": "k", "namespace": "d"}, "spec": spec}
    asking = build_pod(resourceClaims=[{"name": "k", "resourceClaimName": "k"}])
    for version in ("1.30", "1.31"):
        found = explain_pod(version, build_node("n"), claim, asking, gates={"DynamicResourceAllocation": True})
        assert found["undecided"]
        assert [each["kind"] for each in found["unknown"]] == ["ResourceClaim"]
    assert not explain_pod("1.31", build_node("n"), claim, gates={"DynamicResourceAllocation": True})["undecided"]


@pytest.mark.parametrize(
    ("version", "gates", "fits"),
    [("1.30", {}, True), ("1.30", {"CSIMigrationPortworx": True}, False), ("1.31", {}, False), ("1.36", {}, False)],
)
def test_volumes_of_portworx_are_those_of_its_csi_driver(version: str, gates: dict[str, bool], fits: bool) -> None:
    """The node allows one volume, and has one."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/portworx-volume"}
    driver = {"name": "pxd.portworx.com", "nodeID": "n", "allocatable": {"count": 1}}
    csi_node = {"kind": "CSINode", "metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": [driver]}}
    pods = [
        build_pod("there", "n", volumes=[build_portworx_volume("a")]),
        build_pod(volumes=[build_portworx_volume("b")]),
    ]
    assert explain_pod(version, build_node("n"), csi_node, *pods, gates=gates)["feasible"] == (["n"] if fits else [])


def build_portworx_volume(volume: str) -> Json:
    return {"name": "v", "portworxVolume": {"volumeID": volume}}
