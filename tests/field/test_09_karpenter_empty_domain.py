"""kubernetes-sigs/karpenter#3146: a spread constraint over a label whose value is empty in the NodePool.

Right answer: an empty topology label value is "none found" to Karpenter, so no NodeClaim is made; the answer says that
the value is empty, and to give it a value. An existing node with the empty value takes no such pod either.
"""

from __future__ import annotations

import pytest
from autoscaling_cases import TYPES, get_case_path, run, run_json

CASE = "09-karpenter-empty-domain"
WHY = "the label acme.io/worker has an empty value"
ADVICE = "set a value in NodePool base"


@pytest.mark.parametrize("file", ["in.yaml", "in2.yaml"])
def test_no_node_is_launched_and_the_empty_label_is_named(capsys: pytest.CaptureFixture[str], file: str) -> None:
    _, text = run(capsys, "provision", "-f", get_case_path(CASE, file), "--instance-types", TYPES)
    assert "Karpenter would launch no node for 1 pending pod" in text
    assert WHY in text
    assert ADVICE in text
    assert "unsatisfiable topology constraint for topology spread, key=acme.io/worker" in text


def test_document_names_the_obstacle_of_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "provision", "-f", get_case_path(CASE), "--instance-types", TYPES)
    assert not report["newNodeClaims"]
    (stop,) = report["missing"]["default/api-5-a"]["base"]
    assert WHY in stop
    assert ADVICE in stop


def test_explain_names_the_empty_label(capsys: pytest.CaptureFixture[str]) -> None:
    path = get_case_path(CASE, "in2.yaml")
    _, text = run(capsys, "explain", "default/api-5-a", "-f", path, "--instance-types", TYPES)
    assert "No, not by Karpenter" in text
    assert (
        WHY
        in run_json(capsys, "explain", "default/api-5-a", "-f", path, "--instance-types", TYPES)["newNode"]["pools"][0][
            "missing"
        ][0]
    )


def test_label_value_gives_the_pod_a_node(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    with open(get_case_path(CASE), encoding="utf-8") as file:
        text = file.read().replace('acme.io/worker: ""', "acme.io/worker: general")
    path = f"{tmp_path}/in.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    report = run_json(capsys, "provision", "-f", path, "--instance-types", TYPES)
    (claim,) = report["newNodeClaims"]
    assert claim["labels"]["acme.io/worker"] == "general"


def test_consolidate_says_that_karpenter_replaces_the_only_node(capsys: pytest.CaptureFixture[str]) -> None:
    """k1 (m6.large, $0.10) runs a pod of 1.8 CPUs, so it can only be replaced, by a c6.large ($0.08).

    Karpenter evicts the pod although no controller recreates it (IsReschedulable, pkg/utils/pod/scheduling.go).
    """
    ask = ("consolidate", "-f", get_case_path(CASE, "in2.yaml"), "--instance-types", TYPES)
    report = run_json(capsys, *ask)
    assert [node["autoscaler"] for node in report["staying"]] == [
        "replaces it with 1 new node (c6.large); default/fat is lost"
    ]
    assert report["autoscaler"] == (
        "Karpenter replaces 1 node in its next round (not certain): k1 with 1 new node (c6.large), "
        "saving $0.02 an hour; 1 pod is lost, since no controller recreates it: default/fat"
    )
    disruption = run_json(capsys, *ask, "--autoscaler", "karpenter")
    assert (disruption["movedPods"], disruption["lostPods"]) == ({}, {"k1": ["default/fat"]})
    _, brief = run(capsys, *ask, "--autoscaler", "karpenter", "--brief")
    assert "1 pod is lost, since no controller recreates it: default/fat" in " ".join(brief.split())
    _, text = run(capsys, *ask)
    assert "removes" not in text
