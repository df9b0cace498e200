"""A DaemonSet's pod on a node full of pods of equal priority: a higher PriorityClass (kubernetes/kubernetes#140984).

An agent belongs on every node, so it goes before pods that run anywhere. Moving one of them is the second best.
"""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen, read_whole_output

POD = "ops/agent-x2"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_existing_class_is_used_first(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, "06-ds-equal-priority/in2.yaml"))
    assert fixes.startswith("Use PriorityClass agents (priority 1,000 instead of 0)")


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_class_is_created_if_none_was_read(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, "06-ds-equal-priority/in.yaml"))
    assert fixes.startswith("Create PriorityClass node-agents (priority 1,000,000 instead of 0) and use it")


@pytest.mark.parametrize("command", ["explain", "remedies"])
@pytest.mark.parametrize("file", ["in.yaml", "in2.yaml"])
def test_moving_a_pod_of_equal_priority_is_the_second_best(
    capsys: pytest.CaptureFixture[str], command: str, file: str
) -> None:
    """The commands of the first fix may push the second one off the first screen."""
    fixes = cut_fixes(read_whole_output(capsys, command, POD, f"06-ds-equal-priority/{file}"))
    assert " 2 Move shop/bulk-9f-" in fixes


@pytest.mark.parametrize("file", ["in.yaml", "in2.yaml"])
def test_higher_limit_of_the_kubelet_is_the_third_best(capsys: pytest.CaptureFixture[str], file: str) -> None:
    """Node w2 has 5 of 5 pods. With 6 the agent fits, which takes a restart of the kubelet but no eviction."""
    fixes = cut_fixes(read_whole_output(capsys, "remedies", POD, f"06-ds-equal-priority/{file}"))
    assert " 3 Set maxPods of the kubelet on node w2 to 6 instead of 5, and restart the kubelet" in fixes
