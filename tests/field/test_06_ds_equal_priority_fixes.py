"""A DaemonSet's pod on a node full of pods of equal priority: a higher PriorityClass (kubernetes/kubernetes#140984).

An agent belongs on every node, so it goes before pods that run anywhere. Moving one of them is the second best.
"""

from __future__ import annotations

import pytest
from first_screens import first_screen, fixes_in

POD = "ops/agent-x2"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_a_class_that_exists_is_used_first(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = fixes_in(first_screen(capsys, command, POD, "06-ds-equal-priority/in2.yaml"))
    assert fixes.startswith("Use PriorityClass agents (1,000 instead of 0)")
    assert " 2 Move shop/bulk-9f-" in fixes


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_a_class_is_created_if_none_was_read(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = fixes_in(first_screen(capsys, command, POD, "06-ds-equal-priority/in.yaml"))
    assert fixes.startswith("Create PriorityClass node-agents (1,000,000 instead of 0) and use it")
