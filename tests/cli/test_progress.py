"""Check that progress bars show how far work is, and never mix with the answer's stream."""

from __future__ import annotations

import sys

import pytest

from kschedctl.cli import progress


def test_a_bar_leaves_stdout_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer asks it for its width and whether it is a terminal while bars are shown."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(progress, "STEP_SECONDS", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    stdout = sys.stdout
    with progress.show_progress() as shown:
        shown.begin("Simulating", 2)(1)
        assert sys.stdout is stdout
    assert "Simulating" in capsys.readouterr().err
