"""Check that the difference between two snapshots names only what scheduling reads."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import kschedctl
from kschedctl.commands.snapshot import diff

Json = dict[str, Any]


def node(name: str, **labels: str) -> Json:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [ready]},
    }


def pod(name: str, uid: str = "1", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "shop", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": "Pending"},
    }


BEFORE = [node("n1"), node("n2", pool="a"), pod("web"), pod("gone"), pod("same", nodeName="n1")]


def differences(after: list[Json], **settings: Any) -> tuple[set[tuple[Any, ...]], tuple[Any, ...]]:
    before = kschedctl.Cluster.from_objects(BEFORE)
    report = diff(before, kschedctl.Cluster.from_objects(after, **settings), ("a", "b"))
    lines = {
        (change.kind, change.name, change.change, *((f.field, f.before, f.after) for f in change.fields))
        for change in report.changes
    }
    return lines, report.scheduler


def test_nothing_changed() -> None:
    after = deepcopy(BEFORE)
    after[0]["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T00:00:00Z"
    after[0]["metadata"]["annotations"] = {"note": "x"}
    after[2]["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]
    after[4]["status"]["startTime"] = "2026-01-01T00:00:05Z"
    assert differences(after) == (set(), ())


def test_what_came_went_and_changed() -> None:
    after = deepcopy(BEFORE)
    after[0]["spec"] = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    after[1]["metadata"]["labels"] = {"pool": "b", "example.com/x": "1"}
    after[2]["spec"]["nodeName"] = "n1"
    after[3] = pod("new")
    lines, _ = differences(after)
    taints = ("spec.taints", None, '[{"key":"k","effect":"NoSchedule"}]')
    labels = ('metadata.labels["example.com/x"]', None, '"1"'), ("metadata.labels.pool", '"a"', '"b"')
    assert lines == {
        ("Node", "n1", "changed", taints, ("spec.unschedulable", None, "true")),
        ("Node", "n2", "changed", *labels),
        ("Pod", "shop/web", "changed", ("spec.nodeName", None, '"n1"')),
        ("Pod", "shop/gone", "removed"),
        ("Pod", "shop/new", "added"),
    }


def test_a_pod_of_the_same_name_can_be_another() -> None:
    after = [*BEFORE[:2], pod("web", uid="2"), *BEFORE[3:]]
    assert differences(after)[0] == {("Pod", "shop/web", "recreated")}


def test_the_scheduler_counts_too() -> None:
    lines, scheduler = differences(BEFORE, feature_gates={"StorageCapacityScoring": True})
    assert lines == set()
    assert [(change.field, change.before, change.after) for change in scheduler] == [
        ("feature_gates.StorageCapacityScoring", None, "true")
    ]
