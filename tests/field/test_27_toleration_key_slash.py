"""A toleration whose key contains the taint's value, and a misspelled selector beside it (kubeflow/spark-
operator#2537)."""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen

FILE = "27-toleration-key-slash/in.yaml"
TOLERATION = (
    "orrect the toleration from key applications/platform-amd64 to key applications and value platform-amd64, "
    "the node's taint"
)


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_toleration_is_corrected(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, "data/etl-exec-1", FILE))
    assert fixes.startswith(f"C{TOLERATION}")


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_selector_is_corrected_with_the_toleration(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, "data/etl-driver", FILE))
    first = fixes.partition(" 2 ")[0]
    assert TOLERATION in first
    assert "et nodeSelector applications=platform-amd64 instead of cx-platform-amd64" in first
    assert "result: the pod fits on d1" in first
