"""Check what admission adds to new pods (upstream: plugin/pkg/admission/runtimeclass, v1.36)."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.simulate import simulate

Json = dict[str, Any]
OVERHEAD = {"podFixed": {"cpu": "500m"}}
SCHEDULING = {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]}


def build_node(name: str, cpu: str, labels: Json, taints: list[Json]) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}


OBJECTS = [
    build_node("sandboxed", "2", {"sandbox": "yes"}, [{"key": "sandbox", "effect": "NoSchedule"}]),
    build_node("plain", "4", {}, []),
    {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": OVERHEAD, "scheduling": SCHEDULING},
]


def build_pod(cpu: str, runtime_class: str = "kata") -> Json:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"runtimeClassName": runtime_class, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(("cpu", "best"), [("1500m", ("sandboxed",)), ("1501m", ())])
def test_overhead_selector_and_tolerations_of_a_runtime_class(cpu: str, best: tuple[str, ...]) -> None:
    """500m of the 2 cores are overhead. Without the class, the pod would get the other node."""
    cluster = kschedctl.Cluster.from_objects(OBJECTS)
    assert kschedctl.explain(cluster, build_pod(cpu)).best == best
    assert tuple(simulate(cluster, [build_pod(cpu)]).placements.values()) == best


def test_unread_runtime_class_makes_the_answer_uncertain() -> None:
    lists = [
        {"kind": f"{kind}List", "items": [each for each in OBJECTS if each["kind"] == kind]} for kind in ("Node", "Pod")
    ]
    cluster = kschedctl.Cluster.from_objects(lists, assume_complete=False)
    report = kschedctl.explain(cluster, build_pod("1"))
    assert report.undecided
    assert "RuntimeClass" in {unknown.kind for unknown in report.unknown}
