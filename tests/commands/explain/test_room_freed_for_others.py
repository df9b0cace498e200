"""Check the answer about a pod that gets a node without a fix once other waiting pods have preempted pods."""

from __future__ import annotations

import pytest
from small import Json, build_node, build_pod, build_replica

from kschedctl import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.make_room import find_room
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

OUTCOME = "it will get n1 without a fix once other waiting pods have preempted pods"


def build_objects() -> list[Json]:
    """Build a full node of 4 CPUs, a pod that preempts its only pod for 2 CPUs, and a pod that never preempts."""
    return [
        build_node("n1"),
        build_replica("low", "n1", "4", priority=0),
        build_pod("urgent", "", "2", priority=100),
        build_pod("patient", "", "2", priority=50, preemptionPolicy="Never"),
    ]


def test_node_after_other_preemptions_is_named() -> None:
    report = explain(Cluster.from_objects(build_objects()), "d/patient", remedies=True)
    assert (report.verdict, report.node_after_other_preemptions) == ("Unschedulable", "n1")
    assert report.headline.endswith(f"; {OUTCOME}")
    assert report.advice[0].text == f"I{OUTCOME[1:]}: d/urgent will preempt d/low"


@pytest.mark.parametrize("form", ["table", "brief"])
def test_every_form_says_so(form: str) -> None:
    report = explain(Cluster.from_objects(build_objects()), "d/patient", remedies=True)
    assert OUTCOME in " ".join(RENDERERS[form](report, Style(width=200)).split())


def test_pod_without_room_after_the_preemptions_gets_no_node() -> None:
    node, low, urgent, _ = build_objects()
    large = build_pod("patient", "", "3", priority=50, preemptionPolicy="Never")
    report = explain(Cluster.from_objects([node, low, urgent, large]), "d/patient", remedies=True)
    assert (report.verdict, report.node_after_other_preemptions, report.headline.count("will get")) == (
        "Unschedulable",
        "",
        0,
    )


def test_make_room_names_the_preempted_pods() -> None:
    report = find_room(Cluster.from_objects(build_objects()), ["d/patient"])
    assert (report.fits, report.moves, report.preempted_first) == (True, (), ("d/low",))
    assert str(report) == (
        "Nothing has to move: d/patient fits without moves once kube-scheduler has preempted d/low for other waiting "
        "pods"
    )
