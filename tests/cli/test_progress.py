"""Check that progress bars show how far work is, and never mix with the answer's stream."""

from __future__ import annotations

import sys

import pytest

from kschedctl.cli import progress


def test_progress_bar_does_not_touch_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While bars are shown, an answer asks stdout for its width and whether it is a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(progress, "STEP_SECONDS", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    stdout = sys.stdout
    with progress.show_progress() as shown:
        shown.begin("Simulating", 2)(1)
        assert sys.stdout is stdout
    assert "Simulating" in capsys.readouterr().err


def test_later_bars_appear_at_once_and_replace_bars_of_the_same_title(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bar appears only after some time. When the second computation begins, the user has waited already."""
    monkeypatch.setattr(progress, "STEP_SECONDS", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.show_progress() as shown:
        first = shown.begin("First", 2)
        first(1)
        assert shown._bars is None
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
        first(1)
        assert shown._bars is not None
        replaced = shown.begin("Second", 0)
        second = shown.begin("Second", 5)
        replaced(1)
        second(2)
        bars = {task.description: (task.completed, task.total) for task in shown._bars.tasks}
        assert bars == {"First": (2, 2), "Second": (2, 5)}
