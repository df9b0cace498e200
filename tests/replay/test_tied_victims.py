"""Check that an answer says if kube-scheduler's memory decides between victims of equal priority and start time."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.explain.report import CandidateReport

Json = dict[str, Any]
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3", "pods": "9"}}}


def build_pod(name: str, priority: int, start: str = "", *, cpu: str = "1", node: str = "n1", app: str = "") -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [container], "priority": priority, "nodeName": node},
        "status": {"startTime": f"2026-01-01T00:00:0{start}Z"} if start else {},
    }


def build_budget(app: str, allowed: int) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def find_candidate(cpu: str, *running: Json) -> CandidateReport:
    cluster = kschedctl.Cluster.from_objects([NODE, *running, build_pod("p", 10, cpu=cpu, node="")])
    preemption = kschedctl.explain(cluster, "d/p").preemption
    assert preemption is not None
    return preemption.candidates["n1"]


def test_one_of_two_equal_pods_is_evicted() -> None:
    found = find_candidate("1", build_pod("a", 0, "1"), build_pod("b", 0, "1"), build_pod("c", 5, "1"))
    assert found.victims == ("d/b",)
    assert found.ties == (("d/b", "d/a"),)


def test_both_equal_pods_are_evicted() -> None:
    assert find_candidate("3", build_pod("a", 0, "1"), build_pod("b", 0, "1"), build_pod("c", 5, "1")).ties == (
        ("d/a", "d/b"),
    )


def test_pods_that_have_not_started_are_equal() -> None:
    assert len(find_candidate("1", build_pod("a", 0), build_pod("b", 0), build_pod("c", 0)).ties[0]) == 3


def test_different_start_or_priority_decides() -> None:
    assert find_candidate("1", build_pod("a", 0, "1"), build_pod("b", 0, "2"), build_pod("c", 5, "2")).ties == ()


def test_equal_pods_that_all_stay_are_not_reported() -> None:
    assert find_candidate("1", build_pod("a", 3, "1"), build_pod("b", 3, "1"), build_pod("c", 0, "1")).ties == ()


def test_pod_of_an_exhausted_budget_is_put_back_first() -> None:
    pods = build_pod("a", 0, "1", app="web"), build_pod("b", 0, "1"), build_pod("c", 0, "1")
    assert find_candidate("1", build_budget("web", 0), *pods).ties == (("d/c", "d/b"),)


def test_budget_that_allows_a_disruption_does_not_decide() -> None:
    pods = build_pod("a", 0, "1", app="web"), build_pod("b", 0, "1"), build_pod("c", 5, "1")
    assert find_candidate("1", build_budget("web", 1), *pods).ties == (("d/b", "d/a"),)


def test_more_important_pod_uses_up_the_budget_first() -> None:
    pods = build_pod("a", 5, "1", app="web"), build_pod("b", 0, "1", app="web"), build_pod("c", 0, "1")
    assert find_candidate("1", build_budget("web", 1), *pods).ties == ()


def test_pod_that_cannot_be_preempted_uses_up_no_budget() -> None:
    pods = build_pod("a", 10, "1", app="web"), build_pod("b", 0, "1", app="web"), build_pod("c", 0, "1")
    assert find_candidate("1", build_budget("web", 1), *pods).ties == (("d/c", "d/b"),)


def test_equal_pods_of_one_budget_violate_it_in_an_arbitrary_order() -> None:
    pods = build_pod("a", 0, "1", app="web"), build_pod("b", 0, "1", app="web"), build_pod("c", 5, "1")
    assert find_candidate("1", build_budget("web", 1), *pods).ties == (("d/a", "d/b"),)


@pytest.mark.parametrize(("allowed", "tied"), [(0, ()), (1, ("d/a",))])
def test_simulation_names_the_same_equal_pods(allowed: int, tied: tuple[str, ...]) -> None:
    running = build_pod("a", 0, "1", app="web"), build_pod("b", 0, "1"), build_pod("c", 5, "1")
    cluster = kschedctl.Cluster.from_objects(
        [NODE, build_budget("web", allowed), *running, build_pod("p", 10, node="")]
    )
    (victim,) = kschedctl.simulate(cluster, [], pending=True).evicted
    assert (victim.pod, victim.tied) == ("d/b", tied)
