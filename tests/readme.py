"""The console examples of the README: each is run and must print what stands there.

``python tests/readme.py`` writes the current output into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>.+)\n(?P<output>(?:.*\n)*?)```")


def run(command: str) -> str:
    """The stdout of a command of the README, with this interpreter's kschedctl, as on a pipe."""
    program, *arguments = shlex.split(command)
    assert program == "kschedctl", command
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "110"}
    done = subprocess.run(
        [sys.executable, "-m", "kschedctl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=README.parent,
    )
    assert done.returncode in (0, 1, 5), done.stderr
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def examples() -> list[tuple[str, str]]:
    """(command, output as printed in the README)"""
    return [(match["command"], match["output"]) for match in BLOCK.finditer(README.read_text())]


def refreshed(text: str) -> str:
    """The README with the current output of every example."""
    return BLOCK.sub(lambda match: f"```console\n$ {match['command']}\n{run(match['command'])}```", text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text()))
