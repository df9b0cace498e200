"""Delete a command from a copy of the package and run what is left.

A command is its folder, its entry in kschedctl/commands/table.py, and its lines in kschedctl/__init__.py.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IMPORT_ALL = """if True:
    import pkgutil, kschedctl
    from importlib import import_module
    for module in pkgutil.walk_packages(kschedctl.__path__, "kschedctl."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in kschedctl.WHERE:
        getattr(kschedctl, name)
"""


@pytest.fixture(params=["races", "size", "rebalance"])
def deleted(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the name of a command that was deleted from the copy of the package in tmp_path."""
    name = str(request.param)
    shutil.copytree(ROOT / "kschedctl", tmp_path / "kschedctl", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "kschedctl" / "commands" / name)
    remove_entry(tmp_path / "kschedctl" / "commands" / "table.py", name)
    remove_public_function(tmp_path / "kschedctl" / "__init__.py", name)
    return name


def remove_entry(table: Path, name: str) -> None:
    text = table.read_text()
    lines = text.splitlines(keepends=True)
    (entry,) = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]) == repr(name)
    )
    assert entry.end_lineno is not None
    del lines[entry.lineno - 1 : entry.end_lineno]
    table.write_text("".join(lines))


def remove_public_function(package: Path, name: str) -> None:
    line = re.compile(rf"^ +(?:from kschedctl\.commands\.{name}\b.*|\"\w+\": \"commands\.{name}\b.*)\n", re.MULTILINE)
    text, count = line.subn("", package.read_text())
    assert count == 2
    package.write_text(text)


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run Python on the copy. Return the exit code and the standard output."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr[-600:]
    return done.returncode, done.stdout


def test_what_is_left_works(deleted: str, tmp_path: Path) -> None:
    program = ("-m", "kschedctl")
    _, shown = run(tmp_path, *program, "--help")
    assert not re.search(rf"^  {deleted} ", shown, re.MULTILINE)
    assert re.search(r"^  explain ", shown, re.MULTILINE)
    _, shown = run(tmp_path, *program, "explain", "-A", "--demo")
    assert "FailedScheduling" in shown or "shop/" in shown
    _, shown = run(tmp_path, *program, "audit", "--demo")
    assert "double-book" in shown.lower() or "races" in shown.lower()
    _, shown = run(tmp_path, *program, "schema")
    assert "explanation" in shown.split()
    assert run(tmp_path, "-c", IMPORT_ALL) == (0, "")
