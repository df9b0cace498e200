"""convox/convox#994: Karpenter keeps node k2 although its one pod would fit on k1.

Right answer: k2 stays because Karpenter treats dns's ScheduleAnyway zone spread as required while it simulates. The
constraint and its pod are named, and what would happen with preferencePolicy=Ignore.
"""

from __future__ import annotations

import pytest
from autoscaling_cases import TYPES, get_case_path, run, run_json

CASE = "12-karpenter-soft-spread-blocks"
ASK = ("consolidate", "-f", get_case_path(CASE), "--instance-types", TYPES)


def test_soft_constraint_is_named_with_its_node(capsys: pytest.CaptureFixture[str]) -> None:
    node = next(node for node in run_json(capsys, *ASK)["removable"] if node["node"] == "k2")
    assert node["autoscaler"].startswith("stays: Can't replace with a cheaper node; Karpenter treats the ")
    assert "ScheduleAnyway spread over topology.kubernetes.io/zone of kube-system/dns-1-2" in node["autoscaler"]
    assert "with preferencePolicy=Ignore" in node["autoscaler"]
    assert node["autoscaler"].endswith("it would delete the node")


def test_policy_ignore_lets_karpenter_remove_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, *ASK, "--karpenter", "preferencePolicy=Ignore")
    assert "Karpenter removes 1 node in its next round" in text
    assert "removes it" in text
    assert "as required in its simulation" not in text
