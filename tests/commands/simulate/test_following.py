"""Check the placement of pods one after the other, and what happens to those that fit nowhere."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]


def build_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}


def build_pod(name: str, cpu: str = "1", priority: int = 0, **spec: Any) -> Json:
    requests = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [requests], "priority": priority, **spec}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec}


def follow_steps(objects: list[Json], pods: str, **options: Any) -> list[Json]:
    cluster = kschedctl.Cluster.from_objects(objects)
    return kschedctl.follow(cluster, [f"d/{name}" for name in pods.split()], **options).to_dict()["steps"]


def test_chosen_node_counts_only_if_it_is_among_the_best() -> None:
    """The two nodes are equal, so the second pod gets the node that the first one left, whatever was chosen."""
    found = follow_steps(
        [build_node("n1"), build_node("n2"), build_pod("a"), build_pod("b")], "a b", choices=["n2", "n2"]
    )
    assert [(step["node"], step["best"]) for step in found] == [("n2", ["n1", "n2"]), ("n1", ["n1"])]


def test_nominated_pod_keeps_other_pods_off_its_node() -> None:
    """``low`` is evicted for ``high``, which is retried last. Until then, its node counts as taken."""
    objects = [
        build_node("n1"),
        build_pod("low", "2", nodeName="n1"),
        build_pod("high", "2", priority=9),
        build_pod("small"),
    ]
    found = follow_steps(objects, "high small", retry="end")
    assert [step.get("nominated") or step.get("node") for step in found] == ["n1", None, "n1"]
    assert found[0]["victims"] == ["d/low"]
    assert found[1]["fitErrorMessage"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_pod_of_higher_priority_takes_a_nominated_node() -> None:
    """``a`` waits for the CPU of ``low``. Then ``b``, which needs the whole node, evicts ``mid``."""
    running = [build_pod("low", nodeName="n1"), build_pod("mid", nodeName="n1", priority=3)]
    found = follow_steps(
        [build_node("n1"), *running, build_pod("a", priority=5), build_pod("b", "2", priority=9)], "a b", retry="end"
    )
    assert [step.get("victims") for step in found[:2]] == [["d/low"], ["d/mid"]]
    assert found[1]["nominationsCleared"] == ["d/a"]
    assert [step.get("node") for step in found[2:]] == [None, "n1"]


def test_pods_that_the_scheduler_does_not_try() -> None:
    gated = build_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    found = follow_steps([build_node("n1"), gated, build_pod("other", schedulerName="mine")], "gated other")
    assert found[0] == {"pod": "d/gated", "gated": "SchedulingGates"}
    assert "no profile serves" in found[1]["error"]


@pytest.mark.parametrize(("pods", "options", "text"), [("x", {}, '"d/x" not found'), ("a", {"retry": "no"}, "retry")])
def test_invalid_questions_are_errors(pods: str, options: Json, text: str) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=text):
        follow_steps([build_node("n1"), build_pod("a")], pods, **options)
