"""Check that all reasons that keep a node from being removed are reported, and whether it could be removed without
them."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]
BEFORE, NOW = "2026-05-31T12:00:00Z", "2026-06-01T12:00:00Z"
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
GROUPS = ({"id": "g", "min": 0, "max": 5, "target": 2, "nodes": ["a", "b"]},)


def build_node(name: str) -> Json:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    metadata = {"name": name, "creationTimestamp": BEFORE, "labels": {"kubernetes.io/hostname": name}}
    status = {"capacity": offers, "allocatable": offers, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def build_pod(name: str, on: str, cpu: str, **metadata: object) -> Json:
    own = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": BEFORE, **metadata}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec, "status": {"phase": "Running"}}


def build_replica_set() -> Json:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("free", "then"), [("1", ""), ("3900m", "NoPlaceToMovePods")], ids=["room elsewhere", "no room elsewhere"]
)
def test_all_obstacles_and_their_effect_are_named(free: str, then: str) -> None:
    """Node a has a pod without an owner and one that must not be evicted, with 600m together.

    Node b has 3 CPUs free, or 100m.
    """
    cluster = kschedctl.Cluster.from_objects(
        [
            *(build_node("a"), build_node("b"), build_replica_set()),
            build_pod("alone", "a", "300m"),
            build_pod("unsafe", "a", "300m", ownerReferences=[OWNER], annotations=UNSAFE),
            build_pod("web", "b", free, ownerReferences=[OWNER]),
        ]
    )
    report = kschedctl.scale_down(cluster, GROUPS, now=NOW)
    assert report.kept.keys() == {"a"}
    assert {keeper.pod: keeper.reason for keeper in report.kept["a"].keepers} == {
        "default/alone": "NotReplicated",
        "default/unsafe": "NotSafeToEvictAnnotation",
    }
    assert report.kept["a"].then == then


def test_drain_empties_what_scale_down_empties() -> None:
    """Each node that could be removed alone is drained, and all its pods find a node."""
    objects = [build_node(name) for name in "abc"] + [build_replica_set()]
    for name, cpu in {"a": "1", "b": "1500m", "c": "3500m"}.items():
        objects.append(build_pod(f"web-{name}", name, cpu, ownerReferences=[OWNER]))
    groups = ({"id": "g", "min": 0, "max": 5, "target": 3, "nodes": ["a", "b", "c"]},)
    cluster = kschedctl.Cluster.from_objects(objects)
    report = kschedctl.scale_down(cluster, groups, now=NOW)
    alone = {name: of_node.alone.removable for name, of_node in report.nodes.items() if of_node.alone}
    assert alone == {"a": True, "b": True, "c": False}  # 3.5 cpu fit nowhere: 3 and 2.5 are left
    for name, removable in alone.items():
        drained = kschedctl.drain(cluster, [name])
        assert bool(drained.unplaced) != removable, name


@pytest.mark.parametrize(
    ("pod_parts", "second"),
    [
        ({"annotations": UNSAFE}, "NotSafeToEvictAnnotation"),
        ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, "LocalStorageRequested"),
    ],
)
def test_second_obstacle_of_a_pod_is_named(pod_parts: Json, second: str) -> None:
    """With an owner that exists, the pod would still keep its node, which the replay with the owner confirms."""
    spec = {"volumes": pod_parts.get("volumes", [])}
    annotations = pod_parts.get("annotations", {})

    def build_cluster(*more: Json) -> kschedctl.Cluster:
        held = build_pod("held", "a", "300m", ownerReferences=[OWNER], annotations=annotations)
        held["spec"] |= spec
        return kschedctl.Cluster.from_objects([build_node("a"), build_node("b"), held, *more])

    orphaned = kschedctl.scale_down(build_cluster(), GROUPS, now=NOW)
    assert [keeper.reason for keeper in orphaned.kept["a"].keepers] == ["ControllerNotFound", second]
    assert "gets an owner that exists and" in orphaned.describe_staying_node("a")
    owned = kschedctl.scale_down(build_cluster(build_replica_set()), GROUPS, now=NOW)
    assert [keeper.reason for keeper in owned.kept["a"].keepers] == [second]


def test_minimum_size_and_utilization_are_named() -> None:
    """Each node is the only one of its group. Node b uses 3 of its 4 cores."""
    groups = [
        {"id": "fixed", "min": 1, "max": 5, "target": 1, "nodes": ["a"]},
        {"id": "free", "min": 0, "max": 5, "target": 1, "nodes": ["b"]},
    ]
    busy = build_pod("busy", "b", "3", ownerReferences=[OWNER])
    cluster = kschedctl.Cluster.from_objects([build_node("a"), build_node("b"), busy, build_replica_set()])
    report = kschedctl.scale_down(cluster, groups, now=NOW)
    assert report.describe_staying_node("a") == "its group is at its minimum of 1 node"
    assert report.describe_staying_node("b") == "above the utilization threshold of 50% (NotUnderutilized)"
    assert str(report) == "No node is removed: none is unneeded"
    warnings = report.summary().warnings
    assert any(warning.startswith("a: its group is at its minimum") for warning in warnings)


def test_pods_below_the_priority_cutoff_are_reported() -> None:
    """The autoscaler's default cutoff is -10. The pod fits nowhere, but no group grows for it."""
    low = build_pod("low", "", "16")
    low["spec"]["priority"] = -50
    low["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    report = kschedctl.scale_up(
        kschedctl.Cluster.from_objects([build_node("a"), build_node("b"), low]), GROUPS, now=NOW
    )
    assert (report.ignored, report.priority_cutoff) == ({"default/low": -50}, -10)
    assert not report.are_all_placed
    text = report.to_markdown()
    assert "ignores default/low: priority -50 is below the autoscaler's cutoff of -10" in text
    assert "existing or upcoming nodes" not in text


def test_pods_that_a_higher_maximum_helps_are_named() -> None:
    """One more node of 4 cores takes the pod of 4 cores, but not the pod of 16."""
    waiting = []
    for name, cpu in {"fits": "4", "large": "16"}.items():
        waiting.append(build_pod(name, "", cpu))
        waiting[-1]["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        }
    filling = [build_pod(f"full-{name}", name, "3", ownerReferences=[OWNER]) for name in "ab"]
    groups = [{"id": "g", "min": 0, "max": 2, "target": 2, "nodes": ["a", "b"]}]
    cluster = kschedctl.Cluster.from_objects(
        [build_node("a"), build_node("b"), build_replica_set(), *filling, *waiting]
    )
    report = kschedctl.scale_up(cluster, groups, now=NOW)
    assert report.would_accept == {"default/fits": ("g",)}
    assert report.describe_skipped_group("default/fits", "g").endswith("one more node would take the pod")
    assert "nor would one more node take the pod: the pod needs 16 CPUs" in report.describe_skipped_group(
        "default/large", "g"
    )
    whys = {pods.such_as: pods.why for pods in report.summary().pods}
    assert whys["default/fits"].startswith("group g: max node group size reached")
