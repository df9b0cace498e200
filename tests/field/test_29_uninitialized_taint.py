"""No node was ever initialized: the cloud controller manager is not running (rancher/rke2#7822)."""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen

POD, FILE = "kube-system/metrics-1-a", "29-uninitialized-taint/in.yaml"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_only_fix_starts_the_cloud_controller_manager(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, FILE))
    assert fixes.startswith("Start the cloud controller manager: both nodes still have the taint")
    for unwanted in ("olerate the taint", "emove the taint", "Wait until", "Add a node"):
        assert unwanted not in fixes
