"""Check a gated pod with a nominated node, which a restarted scheduler does not count.

Upstream: moveToActiveQ and Update in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
NOMINATED = {"nominatedNodeName": "small"}


def build_node(name: str, cpu: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}


def build_pod(name: str, cpu: str, status: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"containers": [container], **spec},
        "status": status or {},
    }


def explain_pod(*objects: Json) -> Json:
    """Explain the pod d/p and return the document."""
    return kschedctl.explain(kschedctl.Cluster.from_objects(list(objects)), "d/p").to_dict()


def test_nomination_without_gates_counts() -> None:
    found = explain_pod(build_node("small", "1"), build_pod("first", "1", NOMINATED), build_pod("p", "1"))
    assert found["verdict"] == "Unschedulable"
    assert found["unknown"] == []


def test_gated_nomination_counts_since_1_37() -> None:
    """#139057: addPod adds the nomination first."""
    objects = [build_node("small", "1"), build_pod("gated", "1", NOMINATED, **GATED), build_pod("p", "1")]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects, kube_version="1.37"), "d/p")
    assert (report.verdict, report.undecided, report.unknown) == ("Unschedulable", False, ())


def test_answer_is_conditional_if_the_nomination_decides_it() -> None:
    found = explain_pod(build_node("small", "1"), build_pod("gated", "1", NOMINATED, **GATED), build_pod("p", "1"))
    assert (found["verdict"], found["feasible"], found["undecided"]) == ("Schedulable", ["small"], True)
    (unknown,) = found["unknown"]
    assert (unknown["kind"], unknown["affects"]) == ("Nomination", "verdict")
    assert unknown["why"].endswith("(d/gated on small)")


def test_only_scores_are_uncertain_if_another_node_is_feasible() -> None:
    """The pod would use 1 of 2 CPUs of the other node, but only 1 of 9 of the small one, unless it must yield there."""
    nodes = build_node("small", "9"), build_node("other", "2")
    found = explain_pod(*nodes, build_pod("gated", "9", NOMINATED, **GATED), build_pod("p", "1"))
    assert (found["verdict"], found["undecided"], found["best"]) == ("Schedulable", False, ["small"])
    assert [each["affects"] for each in found["unknown"]] == ["scores"]


@pytest.mark.parametrize(
    ("gated", "wanted"),
    [
        (build_pod("gated", "1", NOMINATED, priority=-1, **GATED), "1"),  # less urgent: never in the way
        (build_pod("gated", "1", {"nominatedNodeName": "gone"}, **GATED), "1"),
        (build_pod("gated", "500m", NOMINATED, **GATED), "500m"),  # there is room for both
    ],
)
def test_irrelevant_nomination_is_not_reported(gated: Json, wanted: str) -> None:
    found = explain_pod(build_node("small", "1"), gated, build_pod("p", wanted))
    assert (found["verdict"], found["unknown"]) == ("Schedulable", [])


def test_simulation_reports_the_nomination() -> None:
    cluster = kschedctl.Cluster.from_objects(
        [build_node("small", "1"), build_pod("gated", "1", NOMINATED, **GATED), build_pod("p", "1")]
    )
    simulation = Simulation(Scheduler(cluster))
    (placed,) = simulation.schedule([simulation.view.pods.index["d/p"]])
    assert placed.verdict == "Scheduled"
    assert [(each.kind, each.affects) for each in find_simulation_unknowns(simulation)] == [("Nomination", "verdict")]
