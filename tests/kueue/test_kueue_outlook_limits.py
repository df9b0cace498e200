"""Check that the outlook of Kueue ends once the replay repeats itself, and names the undecided Workloads."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.kueue import outlook

NOW = "2026-03-01T00:00:00Z"


def _build_object(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Build an object of Kueue."""
    metadata = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-02-01T00:00:00Z"}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _build_cluster(workloads: int, quota: int) -> kschedctl.Cluster:
    """Build a ClusterQueue with Workloads that wait, each with another cpu request."""
    flavors = [{"name": "main", "resources": [{"name": "cpu", "nominalQuota": str(quota)}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    objects = [
        _build_object("ResourceFlavor", "main", {}),
        _build_object("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups}),
        _build_object("LocalQueue", "q", {"clusterQueue": "q"}, "ai"),
    ]
    for number in range(1, workloads + 1):
        container = {"name": "c", "resources": {"requests": {"cpu": str(number)}}}
        pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        objects.append(_build_object("Workload", f"w{number}", {"queueName": "q", "podSets": [pod_set]}, "ai"))
    return kschedctl.Cluster.from_objects(objects)


def test_workloads_that_were_not_tried_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "_MOST_WORK", 2)
    report = kschedctl.queues(_build_cluster(5, 100), now=NOW)
    assert report.undecided
    assert "3 Workloads would get quota is unknown, and 3 of them were not tried" in report.doubts[0]
    waits = {workload.workload: workload.waits for workload in report.waiting}
    assert waits["ai/w5"] == "waits in ClusterQueue q; the replay of Kueue ended before its turn"
    assert sum(bool(workload.flavors) for workload in report.waiting) == 2


def test_replay_that_ends_by_itself_is_fully_decided() -> None:
    report = kschedctl.queues(_build_cluster(5, 8), now=NOW)
    assert not report.undecided
    assert not report.doubts
    assert [workload.workload for workload in report.waiting if workload.flavors] == ["ai/w1", "ai/w2", "ai/w3"]
