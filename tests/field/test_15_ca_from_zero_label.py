"""A node group without nodes whose template lacks a label: the node-template tag (kubernetes/autoscaler#8341).

The pod selects grp=windows and tolerates os=windows. To drop or change its selector would put it on Linux nodes.
"""

from __future__ import annotations

import pytest
from first_screens import FIELD, cut_fixes, read_first_screen

POD = "default/iis-1-a"
GROUPS = ("--node-groups", str(FIELD / "15-ca-from-zero-label" / "groups.yaml"))
TAG = "Add the node-template tag for label grp=windows to node group win"


@pytest.mark.parametrize("file", ["in.yaml", "in2.yaml"])
@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_tag_is_the_first_fix(capsys: pytest.CaptureFixture[str], command: str, file: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, f"15-ca-from-zero-label/{file}", *GROUPS))
    assert fixes.startswith(TAG)


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_no_fix_puts_the_image_on_linux_nodes(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """This also holds without the node groups."""
    for options in (GROUPS, ()):
        screen = read_first_screen(capsys, command, POD, "15-ca-from-zero-label/in.yaml", *options)
        assert "emove nodeSelector" not in screen
        assert "then the pod fits on l1" not in screen


def test_tag_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_first_screen(capsys, "remedies", POD, "15-ca-from-zero-label/in.yaml", *GROUPS)
    assert "k8s.io/cluster-autoscaler/node-template/label/grp=windows" in screen
