"""Check the report on a waiting Workload of Kueue: its replayed admission and the nodes of its pods."""

from __future__ import annotations

from kueue_objects import NOW, build_flavor, build_local_queue, build_node, build_queue, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster, Gap
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere


def _find(name: str, *objects: JsonObject) -> WaitingElsewhere:
    """Return what is said of a Workload."""
    entries = find_objects_waiting_elsewhere(Cluster.from_objects(objects), None, NOW)
    return next(entry for entry in entries if entry.resource == f"Workload ai/{name}")


def test_workload_with_enough_quota_is_next_and_its_pods_are_placed() -> None:
    entry = _find(
        "w", build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 4), build_node("n", 4)
    )
    assert entry.headline == "is next in ClusterQueue cq: there is enough quota for it"
    assert entry.details == (
        "This Workload is number 1 of 1 in ClusterQueue cq",
        "If nothing else changes, Kueue admits this Workload with flavor gpu",
        "kube-scheduler would then place 1 pod",
    )


def test_quota_alone_does_not_give_its_pods_a_node() -> None:
    nodes = [build_node("a", 4), build_node("b", 4), build_node("other", 8, pool="cpu")]
    entry = _find("w", build_flavor("gpu"), build_queue(), build_local_queue(), build_workload("w", 8), *nodes)
    assert entry.details[-1].startswith(
        "Not all of its pods would then get a node: 0 of 1 fit. kube-scheduler: 0/3 nodes"
    )
    assert "2 Insufficient nvidia.com/gpu" in entry.details[-1]


def test_workload_waits_for_the_workloads_ahead() -> None:
    workloads = [build_workload("old", 8, created="2026-01-01"), build_workload("new", 4)]
    entry = _find("new", build_flavor("gpu"), build_queue(), build_local_queue(), *workloads)
    assert entry.headline.startswith("waits in ClusterQueue cq: couldn't assign flavors to pod set main")
    assert "This Workload is number 2 of 2 in ClusterQueue cq" in entry.details


def test_quota_lent_by_a_cohort_is_free() -> None:
    queues = [build_queue(cohortName="all"), build_queue("idle", 8, cohortName="all")]
    entry = _find("w", build_flavor("gpu"), *queues, build_local_queue(), build_workload("w", 32))
    assert entry.headline == (
        "waits for quota in ClusterQueue cq: pod set main needs 32 nvidia.com/gpu, but flavor gpu has 16 of 16 free"
    )
    assert entry.details[0] == "The free quota includes what cohort all can lend"


def test_inactive_queue_has_a_reason() -> None:
    entry = _find("w", build_queue(flavor="gone"), build_local_queue(), build_workload("w", 1))
    assert entry.headline == "waits: ClusterQueue cq is inactive: references missing ResourceFlavor(s): gone"


def test_unread_kinds_are_named() -> None:
    objects = [build_queue(), build_local_queue(), build_workload("w", 16)]
    cluster = Cluster.from_objects(objects)
    cluster = Cluster(
        cluster_queues=cluster.cluster_queues,
        local_queues=cluster.local_queues,
        kueue_workloads=cluster.kueue_workloads,
        gaps={"ResourceFlavor": Gap("could not be read: forbidden")},
    )
    (entry,) = find_objects_waiting_elsewhere(cluster, None, NOW)
    assert entry.headline.endswith("pod set main needs 16 nvidia.com/gpu, but flavor gpu has 8 of 8 free")
    assert entry.details == ("Kueue was not replayed: ResourceFlavor were not read",)


def test_malformed_quota_of_one_queue_is_named() -> None:
    queue = build_queue()
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "8 GPUs"
    entry = _find("w", build_flavor("gpu"), queue, build_local_queue(), build_workload("w", 1))
    assert entry.details[-1].startswith("Not certain: ClusterQueue cq was left out: ")
