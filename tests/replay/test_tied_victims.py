"""Check that an answer says if kube-scheduler's memory decides between victims of equal priority and start time."""

from __future__ import annotations

from typing import Any

import kschedctl
from kschedctl.commands.explain.report import CandidateReport

Json = dict[str, Any]
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3", "pods": "9"}}}


def pod(name: str, priority: int, start: str = "", cpu: str = "1", node: str = "n1") -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"containers": [container], "priority": priority, "nodeName": node},
        "status": {"startTime": f"2026-01-01T00:00:0{start}Z"} if start else {},
    }


def candidate(cpu: str, *running: Json) -> CandidateReport:
    cluster = kschedctl.Cluster.from_objects([NODE, *running, pod("p", 10, cpu=cpu, node="")])
    preemption = kschedctl.explain(cluster, "d/p").preemption
    assert preemption is not None
    return preemption.candidates["n1"]


def test_one_of_two_equals_goes() -> None:
    found = candidate("1", pod("a", 0, "1"), pod("b", 0, "1"), pod("c", 5, "1"))
    assert found.victims == ("d/b",)
    assert found.ties == (("d/b", "d/a"),)


def test_both_go() -> None:
    assert candidate("3", pod("a", 0, "1"), pod("b", 0, "1"), pod("c", 5, "1")).ties == (("d/a", "d/b"),)


def test_pods_that_have_not_started_are_equal() -> None:
    assert len(candidate("1", pod("a", 0), pod("b", 0), pod("c", 0)).ties[0]) == 3


def test_another_start_or_priority_decides() -> None:
    assert candidate("1", pod("a", 0, "1"), pod("b", 0, "2"), pod("c", 5, "2")).ties == ()


def test_equals_that_all_stay_are_not_told() -> None:
    assert candidate("1", pod("a", 3, "1"), pod("b", 3, "1"), pod("c", 0, "1")).ties == ()
