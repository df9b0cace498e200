"""Run several command lines of a copy of the package in one new interpreter, because each start is slow."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

PROGRAM = """if True:
    import contextlib, io, json, sys
    from kschedctl.cli.main import main

    answers = []
    for arguments in json.load(sys.stdin):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(out):
            code = main(arguments)
        out.flush()
        answers.append([code, out.buffer.getvalue().decode()])
    json.dump(answers, sys.stdout)
"""


def run_command_lines(folder: Path, *lines: str, exit_codes: Container[int] = (0,)) -> list[str]:
    """Run kschedctl, as it is in the folder, with the arguments of each line. Return the standard output of each.

    Raises AssertionError if an exit code is not one of `exit_codes`.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([shlex.split(line) for line in lines]),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr[-600:]
    answers = json.loads(done.stdout)
    for line, (code, _) in zip(lines, answers, strict=True):
        assert code in exit_codes, (line, code, done.stderr)
    return [out for _, out in answers]
