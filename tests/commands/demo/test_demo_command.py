"""Check that ``kschedctl demo`` shows what is pending, with commands that work."""

from __future__ import annotations

import re

from command_line import Run


def test_demo_shows_what_is_pending_and_three_commands(run: Run) -> None:
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    commands = re.findall(r"^  kschedctl (explain .*)$", out, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert run(*command.split()).code in (0, 1)
