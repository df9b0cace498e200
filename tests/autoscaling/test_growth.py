"""Check that node groups grow by as many nodes as the pods need, up to the group's maximum."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Write

import kschedctl
from kschedctl.autoscaling.cluster_autoscaler.scale_down import scale_down
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.commands.explain.pending_pods import add_node_growth
from kschedctl.fixes.new_node import build_autoscaler, simulate_node_growth
from kschedctl.reports.new_node import NodeGrowth

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-06-01T10:00:00Z"}


def build_node(name: str, zone: str) -> Json:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "pool": "p"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"allocatable": room, "capacity": room, "conditions": [READY]}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def build_web(replicas: int, cpu: str = "2", **spec: Any) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": body}


def build_filling_pod(name: str) -> Json:
    """Build a pod that fills a node."""
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    spec = {"nodeName": name, "containers": [container]}
    return {"kind": "Pod", "metadata": {"name": f"full-{name}", "namespace": "d"}, "spec": spec}


def simulate_growth(
    manifest: Json, most: int, *zones: str
) -> tuple[kschedctl.commands.simulate_scheduling.report.SimulationReport, NodeGrowth]:
    """Simulate a manifest in a cluster with a group of one full node in each zone."""
    nodes = [build_node(f"n-{zone}", zone) for zone in zones]
    cluster = kschedctl.Cluster.from_objects(
        [*nodes, *(build_filling_pod(f"n-{zone}") for zone in zones)], assume_complete=True
    )
    groups = [{"id": f"g-{zone}", "min": 0, "max": most, "target": 1, "nodes": [f"n-{zone}"]} for zone in zones]
    report = kschedctl.simulate(cluster, [manifest], autoscaler=build_autoscaler(cluster, NOW, UserGroups(groups)))
    assert report.growth is not None
    return report, report.growth


def test_group_grows_by_the_nodes_that_pods_need() -> None:
    """Five pods of 2 cores need three new nodes of 4 cores."""
    report, growth = simulate_growth(build_web(5), 10, "a")
    assert (growth.nodes, growth.unplaced_count, len(growth.placements)) == (3, 0, 5)
    assert set(growth.placements.values()) == {"g-a-new-1", "g-a-new-2", "g-a-new-3"}
    assert report.build_headline_parts() == (
        "All scheduled:",
        "0 pods get a node now, 5 more with 3 new nodes (3 of g-a)",
    )
    assert (report.good, report.undecided, report.unplaced) == (True, False, 5)


def test_growth_stops_at_the_maximum() -> None:
    """The maximum allows two more nodes, which take four of the five pods."""
    report, growth = simulate_growth(build_web(5), 3, "a")
    assert (growth.nodes, growth.unplaced_count, len(growth.placements)) == (2, 1, 4)
    (never,) = growth.never
    assert never.autoscaler == "pod didn't trigger scale-up: 1 max node group size reached"
    assert "Insufficient cpu" in never.message
    assert not report.good


def test_pods_too_large_for_any_node_add_no_node() -> None:
    _, growth = simulate_growth(build_web(1, cpu="5"), 3, "a")
    assert (growth.nodes, growth.loops, growth.unplaced_count) == (0, 0, 1)
    assert growth.never[0].autoscaler == "pod didn't trigger scale-up: 1 Insufficient cpu"


@pytest.mark.parametrize("waits_before", [False, True])
def test_pods_evicted_after_new_nodes_came_are_named(
    run: Run, write: Write, tmp_path: Path, waits_before: bool
) -> None:
    """Pod follow needs pod web in its zone, so it evicts pod old on n-a only once web has a new node.

    The replacement of old has a new node in the end.
    """
    old = build_filling_pod("n-a")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "old", "uid": "r", "controller": True}
    old["metadata"] |= {"name": "old", "ownerReferences": [owner], "uid": "old"}
    affinity = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    follow: Json = build_filling_pod("")
    follow["metadata"]["name"] = "follow"
    follow["spec"]["containers"][0]["image"] = "web"
    follow["spec"] |= {
        "nodeSelector": {"kubernetes.io/hostname": "n-a"},
        "priorityClassName": "important",
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity]}},
    }
    important = {"kind": "PriorityClass", "metadata": {"name": "important"}, "value": 100}
    if waits_before:
        follow["metadata"]["uid"] = "follow"
        follow["spec"]["priority"] = 100
    cluster = [build_node("n-a", "a"), old, important, *([follow] if waits_before else [])]
    manifests = [build_web(1), *([] if waits_before else [follow])]
    group = {"id": "g-a", "min": 0, "max": 5, "target": 1, "nodes": ["n-a"]}
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"nodeGroups": [group]}))
    chart = write(*manifests, name="new.json", whole=False)
    options = ["-f", chart, "-f", write(*cluster), "--node-groups", str(groups)]
    question = ["simulate", *options, "--autoscale", "--pending"]

    document = json.loads(run(*question, "-o", "json").out)
    (eviction,) = document["growth"]["preempted"]
    assert (eviction["pod"], eviction["by"], eviction["node"]) == ("d/old", "d/follow", "n-a")
    assert (eviction["fate"], eviction["target"]) == ("Moved", "g-a-new-2")
    assert document["growth"]["evicted"] == 1
    assert not document["evicted"]
    assert document["evictedForWaiting"] == (["d/old"] if waits_before else [])

    page = " ".join(run(*question).out.split())
    assert "with 2 new nodes (2 of g-a), and then 1 pod is evicted (d/old)" in page
    assert "Preempted pods, after new nodes are added PREEMPTED POD" in page
    assert "d/old" in run(*question, "--brief").out
    assert run(*question, "--max-evictions", "0").code == (0 if waits_before else 1)


def test_groups_of_several_zones_grow_until_pods_are_spread() -> None:
    """Four pods spread evenly over two zones, where one new node each has room for two."""
    selector = {"matchLabels": {"app": "web"}}
    key = "topology.kubernetes.io/zone"
    spread = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    _, growth = simulate_growth(build_web(4, topologySpreadConstraints=[spread]), 5, "a", "b")
    assert [(pool.pool, pool.zone, pool.new, pool.pods) for pool in growth.pools] == [
        ("g-a", "a", 1, 2),
        ("g-b", "b", 1, 2),
    ]
    assert growth.sentence == "2 new nodes (1 of g-a; 1 of g-b)"


def test_pending_pods_of_the_old_version_get_no_node() -> None:
    """The old pod waits, although it fits now. The new one, which replaces it, is too large for every node."""
    owner = {"kind": "ReplicaSet", "name": "web-5f", "apiVersion": "apps/v1", "controller": True}
    old_pod = {
        "kind": "Pod",
        "metadata": {
            "name": "web-5f-a",
            "namespace": "d",
            "labels": {"app": "web", "pod-template-hash": "5f"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    }
    cluster = kschedctl.Cluster.from_objects([build_node("n", "a"), old_pod], assume_complete=True)
    groups = [{"id": "g", "min": 0, "max": 3, "target": 1, "nodes": ["n"]}]
    report = kschedctl.simulate(
        cluster, [build_web(1, cpu="5")], autoscaler=build_autoscaler(cluster, NOW, UserGroups(groups))
    )
    assert [workload.removed for workload in report.workloads] == [1]
    assert report.growth is not None
    assert report.growth.placements == {}
    assert [never.pods for never in report.growth.never] == [("d/web-new-0",)]


def test_no_group_grows_if_all_pods_fit() -> None:
    cluster = kschedctl.Cluster.from_objects([build_node("n-a", "a")], assume_complete=True)
    groups = [{"id": "g", "min": 0, "max": 3, "target": 1, "nodes": ["n-a"]}]
    report = kschedctl.simulate(cluster, [build_web(2)], autoscaler=build_autoscaler(cluster, NOW, UserGroups(groups)))
    assert (report.growth, report.good) == (None, True)


def test_groups_without_limits_make_growth_uncertain() -> None:
    cluster = kschedctl.Cluster.from_objects([build_node("n-a", "a"), build_filling_pod("n-a")], assume_complete=True)
    report = kschedctl.simulate(
        cluster, [build_web(1)], autoscaler=build_autoscaler(cluster, NOW, UserGroups(label="pool"))
    )
    assert report.undecided
    assert report.growth is not None
    assert "their minimum and maximum sizes are unknown" in report.growth.doubts[0]


def test_missing_autoscaler_is_an_error() -> None:
    with pytest.raises(kschedctl.KschedctlError, match="no node groups are known"):
        build_autoscaler(kschedctl.Cluster.from_objects([]), NOW)


def test_unfinished_growth_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node would come, but no loop is allowed, so none was added."""
    monkeypatch.setattr("kschedctl.fixes.new_node.MAX_LOOPS", 0)
    report, growth = simulate_growth(build_web(1), 3, "a")
    assert (growth.nodes, growth.unplaced_count, report.undecided) == (0, 1, True)
    assert growth.doubts == ("after 0 loops, it is still adding nodes",)


def report_pending_pods(most: int, wants: list[str]) -> kschedctl.commands.explain.pending_report.PendingPods:
    """Report pods that request this much CPU and wait beside a full node of a group, which is known by labels only."""
    waiting = [
        {
            "kind": "Pod",
            "metadata": {"name": f"w{number}", "namespace": "d", "uid": str(number)},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        }
        for number, cpu in enumerate(wants)
    ]
    cluster = kschedctl.Cluster.from_objects(
        [build_node("n", "a"), build_filling_pod("n"), *waiting], assume_complete=True
    )
    groups = [{"id": "g", "min": 0, "max": most, "target": 1, "nodes": ["n"]}]
    growth = simulate_node_growth(cluster, NOW, UserGroups(groups))
    return add_node_growth(kschedctl.pending(cluster, now=NOW), lambda: growth)


def test_new_nodes_are_reported_for_all_waiting_pods() -> None:
    """Three pods of 3 cores need three nodes of 4 cores. The pod of 9 cores fits on none."""
    report = report_pending_pods(10, ["3", "3", "3", "9"])
    assert report.growth is not None
    assert [(pool.pool, pool.new, pool.pods) for pool in report.growth.pools] == [("g", 3, 3)]
    assert [never.pods for never in report.growth.never] == [("d/w3",)]
    assert report.summary().figures["newNodes"] == 3
    shown = report.to_markdown()
    assert "3 new nodes (3 of g); 1 pod stays Pending" in shown
    assert "d/w3: pod didn't trigger scale-up: 1 Insufficient cpu" in shown


def test_daemonset_pods_do_not_count_as_pods_on_new_nodes() -> None:
    agent: Json = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "d", "uid": "u"},
    }
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c"}]}}
    agent["spec"] = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    agent_pod: Json = {"kind": "Pod", "metadata": {"name": "agent-n", "namespace": "d", "ownerReferences": [owner]}}
    agent_pod["spec"] = {"nodeName": "n", "containers": [{"name": "c"}]}
    waiting: Json = {"kind": "Pod", "metadata": {"name": "w", "namespace": "d"}}
    waiting["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    waiting["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    objects = [build_node("n", "a"), build_filling_pod("n"), agent, agent_pod, waiting]
    cluster = kschedctl.Cluster.from_objects(objects, assume_complete=True)
    groups = [{"id": "g", "min": 0, "max": 3, "target": 1, "nodes": ["n"]}]
    growth = simulate_node_growth(cluster, NOW, UserGroups(groups))
    assert growth is not None
    assert [(pool.new, pool.pods, pool.pod_names) for pool in growth.pools] == [(1, 1, ("d/w",))]


def test_group_at_its_maximum_does_not_grow() -> None:
    report = report_pending_pods(1, ["3"])
    assert report.growth is not None
    assert (report.growth.nodes, report.growth.unplaced_count) == (0, 1)
    assert "pod didn't trigger scale-up: 1 max node group size reached" in report.to_markdown()


def test_new_nodes_are_not_mentioned_without_an_autoscaler() -> None:
    cluster = kschedctl.Cluster.from_objects([build_node("n", "a"), build_filling_pod("n")], assume_complete=True)
    assert simulate_node_growth(cluster, NOW) is None
    assert kschedctl.pending(cluster).growth is None


def test_progress_is_reported() -> None:
    """There is one step for each group that may grow, and one for each node that may be removed."""
    told: list[tuple[str, int]] = []
    done: list[int] = []

    def begin(what: str, total: int) -> Callable[[int], None]:
        told.append((what, total))
        return done.append

    cluster = kschedctl.Cluster.from_objects([build_node("n", "a"), build_filling_pod("n")], assume_complete=True)
    groups = [{"id": "g", "min": 0, "max": 3, "target": 1, "nodes": ["n"]}]
    scale_down(cluster, groups, now=NOW, begin=begin)
    assert told[0] == ("Taking nodes away", 1)
    assert done[:1] == [1]
