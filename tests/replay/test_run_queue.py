"""Check runs of the scheduling queue on small clusters, with results by hand."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

import kschedctl
from kschedctl.commands.schema import build_schema
from kschedctl.replay.run_queue import QueueRun

Json = dict[str, Any]


def node(name: str, cpu: str = "1") -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}},
    }


def pod(name: str, priority: int = 0, cpu: str = "1", promised: str = "", deleted: bool = False, **spec: Any) -> Json:
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


def tried(report: QueueRun) -> list[str]:
    return [cycle.popped.removeprefix("shop/") for cycle in report.cycles]


RUNNING = pod("low", nodeName="a")


def test_victims_go_and_who_preempted_them_is_tried_again() -> None:
    report = run(node("a"), RUNNING, pod("high", 10))
    first, second = report.cycles
    assert (first.failed["shop/high"].nominated, first.victims) == ("a", ("shop/low",))
    assert first.failed["shop/high"].rejectors == ("NodeResourcesFit",)
    assert second.bound == {"shop/high": "a"}
    assert (second.feasible, second.evaluated) == (1, 1)
    assert report.queue_after == {}


def test_in_the_open_loop_no_victim_goes() -> None:
    report = run(node("a"), RUNNING, pod("high", 10), closed_loop=False)
    assert [cycle.victims for cycle in report.cycles] == [("shop/low",)]
    assert report.queue_after == {"shop/high": "unschedulable"}


def test_pods_yield_to_the_one_that_was_promised_the_node_meanwhile() -> None:
    """Its victim is gone when the other one is tried, but the room is promised."""
    report = run(node("a"), RUNNING, pod("high", 10), pod("later"))
    assert tried(report) == ["high", "later", "high"]
    assert report.cycles[1].failed["shop/later"].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert report.cycles[2].bound == {"shop/high": "a"}
    assert report.queue_after == {"shop/later": "unschedulable"}


def test_a_less_urgent_pod_loses_the_node_that_it_was_promised() -> None:
    report = run(node("a"), RUNNING, pod("mid", 5, promised="a"), pod("high", 10))
    assert tried(report) == ["high", "mid", "high"]
    assert [cycle.nominations_cleared for cycle in report.cycles] == [("shop/mid",), (), ()]
    assert report.cycles[1].failed["shop/mid"].nominated == ""


def test_a_pod_that_can_go_nowhere_loses_the_node_that_it_was_promised() -> None:
    """The second had to yield until then. Upstream tells the first of its own departure too, which tries it again."""
    first = pod("first", 10, cpu="3", promised="a")
    second = pod("second", 1, cpu="2")
    report = run(node("a", "2"), pod("other", 20, cpu="2", nodeName="b"), node("b", "2"), first, second)
    assert tried(report) == ["first", "second", "first"]
    assert report.cycles[1].bound == {"shop/second": "a"}


def test_gated_pods_are_named_and_never_tried() -> None:
    report = run(node("a"), pod("held", schedulingGates=[{"name": "later"}]))
    assert report.cycles == ()
    assert report.gated["shop/held"].plugin == "SchedulingGates"
    assert report.gated["shop/held"].reasons == ("waiting for scheduling gates: [later]",)
    assert report.queue_after == {"shop/held": "unschedulable"}


def test_a_pod_that_is_being_deleted_is_popped_and_left() -> None:
    report = run(node("a"), pod("leaving", deleted=True))
    assert tried(report) == ["leaving"]
    assert (report.cycles[0].bound, report.cycles[0].failed, report.queue_after) == ({}, {}, {})


def test_pods_of_other_schedulers_are_not_in_the_queue() -> None:
    assert run(node("a"), pod("other", schedulerName="other")).cycles == ()


def test_without_nodes_a_pod_backs_off() -> None:
    """There is nobody to wait for. Its backoff is not over, as time stands still, and errors are not popped before."""
    report = run(pod("a"))
    assert report.cycles[0].failed["shop/a"].code == "UnschedulableAndUnresolvable"
    assert report.queue_after == {"shop/a": "backoff"}


@pytest.mark.parametrize(("version", "cycles"), [("1.31", 1), ("1.32", 1), ("1.36", 2)])
def test_older_versions_retry_too(version: str, cycles: int) -> None:
    """1.31 has no hints, and 1.32 does not pop from the backoff queue: there the pod waits until its time is over."""
    report = run(node("a"), RUNNING, pod("high", 10), kube_version=version)
    assert len(report.cycles) == cycles
    assert report.queue_after == ({} if cycles == 2 else {"shop/high": "backoff"})
