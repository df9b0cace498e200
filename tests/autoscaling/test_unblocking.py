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


def node(name: str) -> Json:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    metadata = {"name": name, "creationTimestamp": BEFORE, "labels": {"kubernetes.io/hostname": name}}
    status = {"capacity": offers, "allocatable": offers, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(name: str, on: str, cpu: str, **metadata: object) -> Json:
    own = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": BEFORE, **metadata}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec, "status": {"phase": "Running"}}


def replica_set() -> Json:
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
def test_every_keeper_is_named_and_what_follows_without_them(free: str, then: str) -> None:
    """Node a has a pod of nobody and one that must not be evicted, together 600m; b has 3 cpu left, or 100m."""
    cluster = kschedctl.Cluster.from_objects(
        [
            *(node("a"), node("b"), replica_set()),
            pod("alone", "a", "300m"),
            pod("unsafe", "a", "300m", ownerReferences=[OWNER], annotations=UNSAFE),
            pod("web", "b", free, ownerReferences=[OWNER]),
        ]
    )
    report = kschedctl.scale_down(cluster, GROUPS, now=NOW)
    assert report.kept.keys() == {"a"}
    assert {keeper.pod: keeper.reason for keeper in report.kept["a"].keepers} == {
        "default/alone": "NotReplicated",
        "default/unsafe": "NotSafeToEvictAnnotation",
    }
    assert report.kept["a"].then == then


def test_what_scale_down_empties_drain_empties() -> None:
    """Each node that could go by itself: drained, all its pods find a node."""
    objects = [node(name) for name in "abc"] + [replica_set()]
    for name, cpu in {"a": "1", "b": "1500m", "c": "3500m"}.items():
        objects.append(pod(f"web-{name}", name, cpu, ownerReferences=[OWNER]))
    groups = ({"id": "g", "min": 0, "max": 5, "target": 3, "nodes": ["a", "b", "c"]},)
    cluster = kschedctl.Cluster.from_objects(objects)
    report = kschedctl.scale_down(cluster, groups, now=NOW)
    alone = {name: of_node.alone.removable for name, of_node in report.nodes.items() if of_node.alone}
    assert alone == {"a": True, "b": True, "c": False}  # 3.5 cpu fit nowhere: 3 and 2.5 are left
    for name, removable in alone.items():
        drained = kschedctl.drain(cluster, [name])
        assert bool(drained.unplaced) != removable, name
