"""Read the first screen of a command's output as one line of text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kschedctl.cli.main import main

FIELD = Path(__file__).parent
LINES, COLUMNS = 24, 80
"""The height and the width of a terminal."""
_FIRST_FIX = re.compile(r"(?:Fixes, each|Not verified: these) [a-zA-Z ]+ 1 (.*)")


def read_first_screen(capsys: pytest.CaptureFixture[str], command: str, pod: str, file: str, *options: str) -> str:
    """Run a command about a pod of a situation and return the first screen with its lines joined."""
    return _join_lines(_list_output_lines(capsys, command, pod, file, *options)[:LINES])


def read_whole_output(capsys: pytest.CaptureFixture[str], command: str, pod: str, file: str, *options: str) -> str:
    """Run a command about a pod of a situation and return all that it prints with its lines joined."""
    return _join_lines(_list_output_lines(capsys, command, pod, file, *options))


def _list_output_lines(
    capsys: pytest.CaptureFixture[str], command: str, pod: str, file: str, *options: str
) -> list[str]:
    """Return the lines that a command prints for a pod of a recorded cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(COLUMNS))
        main([command, pod, "-f", str(FIELD / file), *options])
    return capsys.readouterr().out.splitlines()


def _join_lines(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def cut_fixes(screen: str) -> str:
    """Return the part of a screen that lists the fixes, without the number of the first, or "" if there is none."""
    found = _FIRST_FIX.search(screen)
    return found[1] if found else ""
