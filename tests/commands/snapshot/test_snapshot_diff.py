"""Check that the difference between two snapshots names only what scheduling reads."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import kschedctl
from kschedctl.api.copying import replace
from kschedctl.commands.snapshot import diff
from kschedctl.commands.snapshot.report import FieldChange
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

Json = dict[str, Any]


def build_node(name: str, **labels: str) -> Json:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [ready]},
    }


def build_pod(name: str, uid: str = "1", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "shop", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": "Pending"},
    }


BEFORE = [
    build_node("n1"),
    build_node("n2", pool="a"),
    build_pod("web"),
    build_pod("gone"),
    build_pod("same", nodeName="n1"),
]


def list_differences(after: list[Json], **settings: Any) -> tuple[set[tuple[Any, ...]], tuple[Any, ...]]:
    before = kschedctl.Cluster.from_objects(BEFORE)
    report = diff(before, kschedctl.Cluster.from_objects(after, **settings), ("a", "b"))
    lines = {
        (change.kind, change.name, change.change, *((f.field, f.before, f.after) for f in change.fields))
        for change in report.changes
    }
    return lines, report.scheduler


def test_equal_snapshots_have_no_differences() -> None:
    after = deepcopy(BEFORE)
    after[0]["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T00:00:00Z"
    after[0]["metadata"]["annotations"] = {"note": "x"}
    after[2]["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]
    after[4]["status"]["startTime"] = "2026-01-01T00:00:05Z"
    assert list_differences(after) == (set(), ())


def test_added_removed_and_changed_objects() -> None:
    after = deepcopy(BEFORE)
    after[0]["spec"] = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    after[1]["metadata"]["labels"] = {"pool": "b", "example.com/x": "1"}
    after[2]["spec"]["nodeName"] = "n1"
    after[3] = build_pod("new")
    lines, _ = list_differences(after)
    taints = ("spec.taints", None, '[{"key":"k","effect":"NoSchedule"}]')
    labels = ('metadata.labels["example.com/x"]', None, '"1"'), ("metadata.labels.pool", '"a"', '"b"')
    assert lines == {
        ("Node", "n1", "changed", taints, ("spec.unschedulable", None, "true")),
        ("Node", "n2", "changed", *labels),
        ("Pod", "shop/web", "changed", ("spec.nodeName", None, '"n1"')),
        ("Pod", "shop/gone", "removed"),
        ("Pod", "shop/new", "added"),
    }


def test_recreated_pod_is_another_pod() -> None:
    after = [*BEFORE[:2], build_pod("web", uid="2"), *BEFORE[3:]]
    assert list_differences(after)[0] == {("Pod", "shop/web", "recreated")}


def test_scheduler_configuration_is_compared() -> None:
    lines, scheduler = list_differences(BEFORE, feature_gates={"StorageCapacityScoring": True})
    assert lines == set()
    assert [(change.field, change.before, change.after) for change in scheduler] == [
        ("feature_gates.StorageCapacityScoring", None, "true")
    ]


def build_workload(kind: str, name: str, spec: Json, **status: Any) -> Json:
    return {"kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status}


def build_budget(allowed: int) -> Json:
    return build_workload("PodDisruptionBudget", "web", {"minAvailable": 1}, disruptionsAllowed=allowed)


def test_workloads_that_create_pods_are_compared() -> None:
    """The effect of a drain depends on the backoffLimit of a Job and its number of failed pods, but not on times."""
    failed = {"type": "FailureTarget", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    job = build_workload("Job", "load", {"backoffLimit": 6}, failed=1, conditions=[failed])
    before = kschedctl.Cluster.from_objects([*BEFORE, build_workload("Deployment", "web", {"replicas": 1}), job])
    changed_job = build_workload(
        "Job", "load", {"backoffLimit": 0}, failed=2, conditions=[{**failed, "lastTransitionTime": "x"}]
    )
    deployments = [
        build_workload("Deployment", "web", {"replicas": 2}),
        build_workload("Deployment", "new", {"replicas": 1}),
    ]
    report = diff(before, kschedctl.Cluster.from_objects([*BEFORE, *deployments, changed_job]))
    assert {(change.kind, change.name, change.change, change.fields) for change in report.changes} == {
        ("Deployment", "shop/web", "changed", (FieldChange("spec.replicas", "1", "2"),)),
        ("Deployment", "shop/new", "added", ()),
        (
            "Job",
            "shop/load",
            "changed",
            (FieldChange("spec.backoffLimit", "6", "0"), FieldChange("status.failed", "1", "2")),
        ),
    }


def test_kinds_in_only_one_snapshot_are_named() -> None:
    before = kschedctl.Cluster.from_objects(BEFORE)
    gap = kschedctl.cluster.Gap("could not be read: forbidden")
    before = replace(before, gaps={**before.gaps, "Deployment": gap})
    after = kschedctl.Cluster.from_objects([*BEFORE, build_workload("Deployment", "web", {"replicas": 1})])
    report = diff(before, replace(after, gaps={}))
    assert not report.changes
    assert "Deployment" in report.not_compared
    assert "not compared, since only one snapshot has them: " in RENDERERS["brief"](report, Style(width=300))


def test_number_that_becomes_0_is_not_absent() -> None:
    before, after = (kschedctl.Cluster.from_objects([build_budget(allowed)]) for allowed in (1, 0))
    (change,) = diff(before, after).changes
    assert change.fields == (FieldChange("status.disruptionsAllowed", "1", "0"),)


def test_brief_form_names_the_changes() -> None:
    after = deepcopy(BEFORE)
    after[0]["spec"] = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    del after[4]["spec"]["nodeName"]
    after[3] = build_pod("new")
    before, later = (
        kschedctl.Cluster.from_objects([*objects, build_budget(n)]) for objects, n in ((BEFORE, 1), (after, 0))
    )
    report = diff(before, later)
    lines = RENDERERS["brief"](report, Style(width=100, full_command="kschedctl snapshot diff a b")).splitlines()
    assert lines[1:] == [
        "1 node cordoned: n1",
        "1 pod without a node now: shop/same",
        "1 pod removed: shop/gone",
        "1 pod added: shop/new",
        "PodDisruptionBudget shop/web: status.disruptionsAllowed 1 → 0",
        "more: kschedctl snapshot diff a b",
    ]


def test_only_terminals_shorten_long_values() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    before = kschedctl.Cluster.from_objects([build_node("n1")])
    after = kschedctl.Cluster.from_objects([{**build_node("n1"), "spec": {"taints": [taint]}}])
    report = diff(before, after)
    assert '"NoSche…' in RENDERERS["table"](report, Style(width=80))
    for output in ("markdown", "html"):
        assert "NoSchedule" in RENDERERS[output](report, Style(width=80)).replace("&#34;", '"')
