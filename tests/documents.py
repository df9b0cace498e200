"""Run the console examples of the README and of the help topics, and check or refresh their output.

``python tests/documents.py`` writes the current output into these files.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from kschedctl.cli.main import main

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TOPICS = {path.stem: path for path in sorted((ROOT / "kschedctl" / "cli" / "topics").glob("*.md"))}
DOCUMENTS = (README, *TOPICS.values())
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"^\$ (?P<command>.+)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
COLUMNS = 100


def run(command: str) -> str:
    """Run a command in this process, and return what it prints to a pipe."""
    program, *arguments = shlex.split(command)
    assert program == "kschedctl", command
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": str(COLUMNS)}),
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(out),
    ):
        code = main(arguments)
    assert code in (0, 1, 5), command
    out.flush()
    return "".join(f"{line.rstrip()}\n" for line in out.buffer.getvalue().decode().splitlines())


def iter_examples() -> list[tuple[str, str]]:
    """Yield the command and the printed output of each example."""
    blocks = (block for document in DOCUMENTS for block in BLOCK.findall(document.read_text()))
    return [(match["command"], match["output"]) for block in blocks for match in EXAMPLE.finditer(block)]


def iter_command_lines() -> Iterator[str]:
    """Yield the kschedctl commands in the shell examples, without comments and without commands that pipe into them."""
    for document in DOCUMENTS:
        for block in SHELL.findall(document.read_text()):
            for line in block.splitlines():
                yield from (found.strip() for found in re.findall(r"(?:^|\| |<\()(kschedctl [^|>)#&]*)", line))


def refresh_examples(text: str) -> str:
    """Return the document with the current output of every example."""

    def example(found: re.Match[str]) -> str:
        return f"$ {found['command']}\n{run(found['command'])}"

    return BLOCK.sub(lambda block: f"```console\n{EXAMPLE.sub(example, block[1])}```", text)


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(refresh_examples(path.read_text()))
