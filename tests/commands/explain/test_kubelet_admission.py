"""Check a new pod whose spec.nodeName bypasses the scheduler: would the kubelet of that node start it?"""

from __future__ import annotations

import pytest
from small import Json, build_node, build_pod

import kschedctl
from kschedctl.commands.explain.command import is_everything_fine
from kschedctl.commands.explain.report import Explanation

RUNNING = build_pod("busy", "n1", cpu="3")  # leaves 1 of 4 CPUs


def explain_bound_pod(phase: str = "", uid: str = "", **fields: Json) -> Explanation:
    """Return the explanation of a pod with nodeName n1, from a file unless it has a uid."""
    asked = build_pod("p", "n1", **fields)
    asked["metadata"]["uid"] = uid
    asked["status"] = {"phase": phase}
    return kschedctl.explain(kschedctl.Cluster.from_objects([build_node("n1"), RUNNING, asked]), "d/p")


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"cpu": "1.5"}, "the pod needs 1.5 CPUs, but the node has 1 of 4 free"),
        ({"cpu": "0.1", "nodeSelector": {"pool": "q"}}, "the pod needs pool=q, but the node has pool=p"),
    ],
)
def test_rejection_by_the_kubelet_exits_1(fields: Json, cause: str) -> None:
    report = explain_bound_pod(**fields)
    assert report.verdict == "Bound"
    assert report.kubelet_rejection == cause
    assert report.headline == f"spec.nodeName n1 bypasses the scheduler, but the kubelet would reject the pod: {cause}"
    assert [advice.kind for advice in report.advice] == ["RemoveNodeName"]
    assert not is_everything_fine(report)
    assert [problem.message for problem in report.find_ci_gate_problems()] == [report.headline]


def test_pods_that_the_kubelet_starts() -> None:
    """They are a fitting, a stored, a running and a critical pod. For the last one, the kubelet evicts others."""
    for report in (
        explain_bound_pod(cpu="1"),
        explain_bound_pod(cpu="1.5", uid="u"),
        explain_bound_pod(cpu="1.5", phase="Running"),
        explain_bound_pod(cpu="1.5", priority=2_000_000_000),
    ):
        assert report.kubelet_rejection == ""
        assert report.headline == "already on node n1"
