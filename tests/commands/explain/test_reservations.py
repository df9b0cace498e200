"""Check what would be bound, provisioned and allocated, on very small clusters."""

from __future__ import annotations

from typing import Any

import kschedctl
from kschedctl.commands.explain.report import Explanation

Json = dict[str, Any]


def build_node(name: str) -> Json:
    labels = {"kubernetes.io/hostname": name}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": "10"}}}


def build_pod(**spec: Any) -> Json:
    containers = [{"name": "c", "image": "c"}]
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"containers": containers, **spec}}


def build_volume(name: str, on: str) -> Json:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
        "status": {"phase": "Available"},
    }


def build_claim(name: str) -> Json:
    size = {"requests": {"storage": "5Gi"}}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "late"},
    }


LATE = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def build_gpu_slice(on: str, *names: str) -> Json:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": name} for name in names]
    spec = {"driver": "gpu.example.com", "nodeName": on, "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": on}, "spec": spec}


def explain_pod(*objects: Json) -> Explanation:
    """Explain the pod shop/p on two nodes."""
    return kschedctl.explain(kschedctl.Cluster.from_objects([build_node("n1"), build_node("n2"), *objects]), "shop/p")


def test_volume_is_bound_where_it_is_reachable_and_provisioned_elsewhere() -> None:
    uses = build_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    found = explain_pod(LATE, build_volume("pv-1", "n1"), build_claim("data"), uses).to_dict()["volumes"]
    assert found == {
        "n1": {"bindings": {"shop/data": "pv-1"}, "provisions": []},
        "n2": {"bindings": {}, "provisions": ["shop/data"]},
    }


def test_nodes_that_do_not_fit_and_pods_without_claims_reserve_nothing() -> None:
    uses = build_pod(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], nodeSelector={"no": "node"}
    )
    for incoming in (uses, build_pod()):
        report = explain_pod(LATE, build_volume("pv-1", "n1"), build_claim("data"), incoming)
        assert (report.volumes, report.allocations) == ({}, {})


def test_allocated_devices_are_listed_by_claim() -> None:
    request = {"name": "r0", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    wanted = {
        "kind": "ResourceClaim",
        "metadata": {"name": "two-gpus", "namespace": "shop"},
        "spec": {"devices": {"requests": [request]}},
    }
    slices = (build_gpu_slice("n1", "a"), build_gpu_slice("n2", "a", "b"))
    uses = build_pod(resourceClaims=[{"name": "gpus", "resourceClaimName": "two-gpus"}])
    report = explain_pod(*slices, {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}, wanted, uses)
    assert report.feasible == ("n2",)
    [(where, devices)] = report.allocations.items()
    assert where == "n2"
    assert [(d.request, d.driver, d.pool, d.device) for d in devices["shop/two-gpus"]] == [
        ("r0", "gpu.example.com", "n2", "a"),
        ("r0", "gpu.example.com", "n2", "b"),
    ]
