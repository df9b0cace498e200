"""aws/karpenter-provider-aws#7713: the EC2NodeClass has no subnet in the zone that the pod requires.

Right answer: the NodeClass and the zones of its subnets are named, in the default table.
"""

from __future__ import annotations

import pytest
from autoscaling_cases import TYPES, get_case_path, run, run_json

CASE = "33-karpenter-subnet-zone"
STOP = "EC2NodeClass std has no subnet in eu-1a, only in eu-1b and eu-1c"


def test_node_class_and_its_zones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "provision", "-f", get_case_path(CASE), "--instance-types", TYPES)
    assert f"{STOP}; with one, 4 of 4 instance types are offered in eu-1a" in text


def test_zones_are_named_without_instance_types(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "provision", "-f", get_case_path(CASE))
    assert report["missing"]["dev/coder-1-a"]["base"] == [STOP]


def test_explain_names_the_node_class(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(
        capsys, "explain", "dev/coder-1-a", "-f", get_case_path(CASE), "--instance-types", TYPES, "-o", "yaml"
    )
    assert STOP in text


def test_next_command_keeps_the_instance_types(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "explain", "-A", "-f", get_case_path(CASE), "--instance-types", TYPES)
    assert f"dev/coder-1-a: NodePool base: {STOP}" in text
    assert f"kschedctl explain dev/coder-1-a --instance-types {TYPES}" in text
