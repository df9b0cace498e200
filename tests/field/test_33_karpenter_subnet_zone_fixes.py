"""No subnet of the node class is in the pod's zone: it gets one (aws/karpenter-provider-aws#7713)."""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen

POD, FILE = "dev/coder-1-a", "33-karpenter-subnet-zone/in.yaml"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_subnet_for_the_node_class_is_the_first_fix(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, FILE))
    first_fix = "Give EC2NodeClass std a subnet in eu-1a: the subnets that it selects are in eu-1b and eu-1c"
    assert fixes.startswith(first_fix)
