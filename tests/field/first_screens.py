"""What a person sees first: the first lines of a command's output, as one line of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from kschedctl.cli.main import main

FIELD = Path(__file__).parent
LINES, COLUMNS = 24, 80
"""The height and the width of a terminal."""


def first_screen(capsys: pytest.CaptureFixture[str], command: str, pod: str, file: str, *options: str) -> str:
    """Run a command about a pod of a situation and return the first screen with its lines joined."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(COLUMNS))
        main([command, pod, "-f", str(FIELD / file), *options])
    lines = capsys.readouterr().out.splitlines()[:LINES]
    return " ".join(" ".join(lines).split())


def fixes_in(screen: str) -> str:
    """Return the part of a screen that lists the fixes."""
    return screen.partition("FIX 1 ")[2]
