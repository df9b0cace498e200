"""A node group of GPUs without nodes whose template lacks the resource: the tag for it (kubernetes/autoscaler#8799)."""

from __future__ import annotations

import pytest
from first_screens import FIELD, cut_fixes, read_first_screen

POD, FILE = "default/train-x", "16-ca-gpu-from-zero/in.yaml"
GROUPS = ("--node-groups", str(FIELD / "16-ca-gpu-from-zero" / "groups.yaml"))


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_tag_is_the_first_fix_and_no_cpu_node_gets_a_gpu(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, FILE, *GROUPS))
    assert fixes.startswith("Add the node-template tag for resource nvidia.com/gpu=1 to node group gpu")
    assert "pool cpu" not in fixes
    assert "node group cpu" not in fixes


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_no_cpu_node_is_proposed_without_the_groups(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, FILE))
    assert "pool cpu" not in fixes
    assert "check the resource name and the device plugin first" in fixes
