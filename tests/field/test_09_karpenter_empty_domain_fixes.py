"""A NodePool's label over which pods are spread is empty: it gets a value (kubernetes-sigs/karpenter#3146)."""

from __future__ import annotations

import pytest
from first_screens import FIELD, read_first_screen

TYPES = ("--instance-types", str(FIELD / "types.json"))


def test_best_fix_gives_the_label_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    screen = read_first_screen(capsys, "explain", "default/api-5-a", "09-karpenter-empty-domain/in2.yaml", *TYPES)
    assert "Best fix: Set a value, such as true, for the label acme.io/worker of NodePool base" in screen
