"""Check runs of the scheduling queue on small clusters, with results by hand."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

import kschedctl
from kschedctl.commands.schema import build_schema
from kschedctl.replay.run_queue import QueueRun

Json = dict[str, Any]


def build_node(name: str, cpu: str = "1") -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}},
    }


def build_pod(
    name: str, priority: int = 0, cpu: str = "1", promised: str = "", deleted: bool = False, **spec: Any
) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "uid": name}
    if deleted:
        metadata["deletionTimestamp"] = "2026-03-01T08:00:00Z"
    status = {"nominatedNodeName": promised} if promised else {}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "priority": priority, **spec},
        "status": status,
    }


def run(*objects: Json, closed_loop: bool = True, **settings: Any) -> QueueRun:
    report = kschedctl.run_queue(kschedctl.Cluster.from_objects(list(objects), **settings), closed_loop)
    jsonschema.validate(report.to_dict(), build_schema(QueueRun))
    return report


def list_tried_pods(report: QueueRun) -> list[str]:
    return [cycle.popped.removeprefix("shop/") for cycle in report.cycles]


RUNNING = build_pod("low", nodeName="a")


def test_victims_leave_and_their_preemptor_is_retried() -> None:
    report = run(build_node("a"), RUNNING, build_pod("high", 10))
    first, second = report.cycles
    assert (first.failed["shop/high"].nominated, first.victims) == ("a", ("shop/low",))
    assert first.failed["shop/high"].rejectors == ("NodeResourcesFit",)
    assert second.bound == {"shop/high": "a"}
    assert (second.feasible, second.evaluated) == (1, 1)
    assert report.queue_after == {}


def test_victims_stay_in_the_open_loop() -> None:
    report = run(build_node("a"), RUNNING, build_pod("high", 10), closed_loop=False)
    assert [cycle.victims for cycle in report.cycles] == [("shop/low",)]
    assert report.queue_after == {"shop/high": "unschedulable"}


def test_pods_yield_to_the_nominated_pod() -> None:
    """Its victim is gone when the other pod is tried, but the room is reserved."""
    report = run(build_node("a"), RUNNING, build_pod("high", 10), build_pod("later"))
    assert list_tried_pods(report) == ["high", "later", "high"]
    assert report.cycles[1].failed["shop/later"].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert report.cycles[2].bound == {"shop/high": "a"}
    assert report.queue_after == {"shop/later": "unschedulable"}


def test_pod_of_lower_priority_loses_its_nomination() -> None:
    report = run(build_node("a"), RUNNING, build_pod("mid", 5, promised="a"), build_pod("high", 10))
    assert list_tried_pods(report) == ["high", "mid", "high"]
    assert [cycle.nominations_cleared for cycle in report.cycles] == [("shop/mid",), (), ()]
    assert report.cycles[1].failed["shop/mid"].nominated == ""


def test_pod_that_fits_nowhere_loses_its_nomination() -> None:
    """Until then, the second pod had to yield. Upstream also notifies the first pod, which is retried."""
    first = build_pod("first", 10, cpu="3", promised="a")
    second = build_pod("second", 1, cpu="2")
    report = run(
        build_node("a", "2"), build_pod("other", 20, cpu="2", nodeName="b"), build_node("b", "2"), first, second
    )
    assert list_tried_pods(report) == ["first", "second", "first"]
    assert report.cycles[1].bound == {"shop/second": "a"}


def test_gated_pods_are_named_and_never_tried() -> None:
    report = run(build_node("a"), build_pod("held", schedulingGates=[{"name": "later"}]))
    assert report.cycles == ()
    assert report.gated["shop/held"].plugin == "SchedulingGates"
    assert report.gated["shop/held"].reasons == ("waiting for scheduling gates: [later]",)
    assert report.queue_after == {"shop/held": "unschedulable"}


def test_terminating_pod_is_popped_and_skipped() -> None:
    report = run(build_node("a"), build_pod("leaving", deleted=True))
    assert list_tried_pods(report) == ["leaving"]
    assert (report.cycles[0].bound, report.cycles[0].failed, report.queue_after) == ({}, {}, {})


def test_pods_of_other_schedulers_are_not_in_the_queue() -> None:
    assert run(build_node("a"), build_pod("other", schedulerName="other")).cycles == ()


def test_pod_is_in_backoff_without_nodes() -> None:
    """No event can wake it.

    Time stands still, so its back-off does not end, and pods that failed with errors are not popped early.
    """
    report = run(build_pod("a"))
    assert report.cycles[0].failed["shop/a"].code == "UnschedulableAndUnresolvable"
    assert report.queue_after == {"shop/a": "backoff"}


@pytest.mark.parametrize(("version", "cycles"), [("1.31", 1), ("1.32", 1), ("1.36", 2)])
def test_older_versions_retry(version: str, cycles: int) -> None:
    """1.31 has no hints. 1.32 does not pop pods from the back-off queue, so the pod waits until its back-off ends."""
    report = run(build_node("a"), RUNNING, build_pod("high", 10), kube_version=version)
    assert len(report.cycles) == cycles
    assert report.queue_after == ({} if cycles == 2 else {"shop/high": "backoff"})
