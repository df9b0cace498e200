"""A waiting Workload of Kueue is reported with what a replay does with it, and with where its pods would go."""

from __future__ import annotations

from typing import Any

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster, Gap
from kschedctl.replay.waiting_elsewhere import find_waiting_elsewhere
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere

NOW = "2026-03-01T00:00:00Z"
VERSION = "kueue.x-k8s.io/v1beta2"


def _build_object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    """Build an object of Kueue."""
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": {"name": name, "uid": f"{kind}-{name}"},
        "spec": spec,
    }


def _build_flavor(name: str) -> JsonObject:
    """Build a flavor for the nodes of a pool."""
    return _build_object("ResourceFlavor", name, {"nodeLabels": {"pool": name}})


def _build_queue(name: str = "cq", quota: int = 8, flavor: str = "gpu", **spec: Any) -> JsonObject:
    """Build a ClusterQueue with a quota of GPUs."""
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": quota}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    return _build_object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def _build_local_queue(name: str = "lq", queue: str = "cq") -> JsonObject:
    """Build a LocalQueue in namespace ai."""
    local_queue = _build_object("LocalQueue", name, {"clusterQueue": queue})
    local_queue["metadata"]["namespace"] = "ai"
    return local_queue


def _build_workload(name: str, gpus: int, pods: int = 1, created: str = "2026-02-01", queue: str = "lq") -> JsonObject:
    """Build a Workload of some pods with ``gpus`` each."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    workload = _build_object("Workload", name, {"queueName": queue, "podSets": [pod_set]})
    workload["metadata"] |= {"namespace": "ai", "creationTimestamp": f"{created}T00:00:00Z"}
    return workload


def _build_node(name: str, gpus: int, pool: str = "gpu") -> JsonObject:
    """Build a node with GPUs."""
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def _find(name: str, *objects: JsonObject) -> WaitingElsewhere:
    """Return what is said of a Workload."""
    entries = find_waiting_elsewhere(Cluster.from_objects(objects), None, NOW)
    return next(entry for entry in entries if entry.resource == f"Workload ai/{name}")


def test_a_workload_with_enough_quota_is_next_and_its_pods_are_placed() -> None:
    entry = _find(
        "w", _build_flavor("gpu"), _build_queue(), _build_local_queue(), _build_workload("w", 4), _build_node("n", 4)
    )
    assert entry.headline == "is next in ClusterQueue cq: there is enough quota for it"
    assert entry.details == (
        "Number 1 of 1 in ClusterQueue cq",
        "If nothing else changes, Kueue admits it in flavor gpu",
        "kube-scheduler would then place 1 pod",
    )


def test_quota_alone_does_not_give_its_pods_a_node() -> None:
    nodes = [_build_node("a", 4), _build_node("b", 4), _build_node("other", 8, pool="cpu")]
    entry = _find("w", _build_flavor("gpu"), _build_queue(), _build_local_queue(), _build_workload("w", 8), *nodes)
    assert entry.details[-1].startswith("Its pods would not all get a node then: 0 of 1 fit. kube-scheduler: 0/3 nodes")
    assert "2 Insufficient nvidia.com/gpu" in entry.details[-1]


def test_a_workload_waits_for_those_before_it() -> None:
    workloads = [_build_workload("old", 8, created="2026-01-01"), _build_workload("new", 4)]
    entry = _find("new", _build_flavor("gpu"), _build_queue(), _build_local_queue(), *workloads)
    assert entry.headline.startswith("waits in ClusterQueue cq: couldn't assign flavors to pod set main")
    assert "Number 2 of 2 in ClusterQueue cq" in entry.details


def test_what_a_cohort_lends_is_free_quota() -> None:
    queues = [_build_queue(cohortName="all"), _build_queue("idle", 8, cohortName="all")]
    entry = _find("w", _build_flavor("gpu"), *queues, _build_local_queue(), _build_workload("w", 32))
    assert entry.headline == (
        "waits for quota in ClusterQueue cq: pod set main needs 32 nvidia.com/gpu, flavor gpu has 16 of 16 free"
    )
    assert entry.details[0] == "The free quota includes what cohort all can lend"


def test_an_inactive_queue_says_why() -> None:
    entry = _find("w", _build_queue(flavor="gone"), _build_local_queue(), _build_workload("w", 1))
    assert entry.headline == "waits: ClusterQueue cq is inactive: references missing ResourceFlavor(s): gone"


def test_kinds_that_were_not_read_are_named() -> None:
    objects = [_build_queue(), _build_local_queue(), _build_workload("w", 16)]
    cluster = Cluster.from_objects(objects)
    cluster = Cluster(
        cluster_queues=cluster.cluster_queues,
        local_queues=cluster.local_queues,
        kueue_workloads=cluster.kueue_workloads,
        gaps={"ResourceFlavor": Gap("could not be read: forbidden")},
    )
    (entry,) = find_waiting_elsewhere(cluster, None, NOW)
    assert entry.headline.endswith("pod set main needs 16 nvidia.com/gpu, flavor gpu has 8 of 8 free")
    assert entry.details == ("Kueue was not replayed: ResourceFlavor were not read",)


def test_a_malformed_quota_of_one_queue_is_named() -> None:
    queue = _build_queue()
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "8 GPUs"
    entry = _find("w", _build_flavor("gpu"), queue, _build_local_queue(), _build_workload("w", 1))
    assert entry.details[-1].startswith("Not certain: ClusterQueue cq was left out: ")
