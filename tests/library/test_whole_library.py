"""Type-check and run the program that uses the whole library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import kschedctl

PROGRAM = Path(__file__).with_name("whole_library.py")
ROOT = PROGRAM.parents[2]


def test_program_uses_every_function() -> None:
    assert {*kschedctl.PUBLIC_NAMES} <= set(re.findall(r"kschedctl\.(\w+)", PROGRAM.read_text()))


def test_type_checker_finds_no_error() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(PROGRAM)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_program_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "saved.ksnap")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{done.stdout.splitlines()[0]}".startswith("Schedulable ('general-")
