"""A second DNS replica beside a tainted control plane: nodeTaintsPolicy: Honor comes first (kubernetes/kops#18453).

The control-plane node counts as an empty domain although no replica tolerates it. Nobody tolerates it for that.
"""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen

POD, FILE = "kube-system/dns-6bb-bbbbb", "02-coredns-one-worker/in.yaml"


def test_explain_names_the_policy_as_the_best_fix(capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_first_screen(capsys, "explain", POD, FILE)
    assert "Best fix: Spread across kubernetes.io/hostname, counting only nodes whose taints" in screen
    assert "nodeTaintsPolicy: Honor" in screen.partition("This fix in detail")[0]


def test_remedies_put_the_policy_before_all_other_fixes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fixes = cut_fixes(read_first_screen(capsys, "remedies", POD, FILE))
    assert fixes.startswith("Spread across kubernetes.io/hostname, counting only nodes whose taints")
    assert "olerate the taint" not in fixes
