"""Delete a command from a copy of the package and run the rest.

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

import grimp
import pytest

from kschedctl.reports.command import CommandEntry, load_command_table

ROOT = Path(__file__).parent.parent
REQUIRED = {"explain", "audit", "schema"}
"""The commands that the test itself runs."""
IMPORT_ALL = """if True:
    import pkgutil, kschedctl
    from importlib import import_module
    for module in pkgutil.walk_packages(kschedctl.__path__, "kschedctl."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in kschedctl.PUBLIC_NAMES:
        getattr(kschedctl, name)
"""
LIST_TOOLS = "from kschedctl.commands.mcp.tools import TOOLS; print(*[tool.command for tool in TOOLS])"


def find_unused_commands() -> list[str]:
    """Return the commands that no command but `mcp` imports: the tools of `mcp` follow the table."""
    graph = grimp.build_graph("kschedctl", cache_dir=None)

    def is_used(command: CommandEntry) -> bool:
        folder = f"kschedctl.commands.{command.module}"
        importers = {
            importer
            for module in (folder, *graph.find_descendants(folder))
            for importer in graph.find_modules_that_directly_import(module)
        }
        return any(
            importer.startswith("kschedctl.commands.")
            and not f"{importer}.".startswith((f"{folder}.", "kschedctl.commands.mcp."))
            for importer in importers
        )

    return [command.name for command in load_command_table() if not is_used(command) and command.name not in REQUIRED]


@pytest.fixture(params=["races", "size", "rebalance", "all unused"])
def deleted(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Delete a command, or all that no other uses, from the copy of the package in tmp_path. Return their names."""
    names = [str(request.param)]
    if request.param == "all unused":
        names = [name for name in find_unused_commands() if name != "mcp"]
        assert {"drain", "pools", "watch", "browse", "races"} <= {*names}
    shutil.copytree(ROOT / "kschedctl", tmp_path / "kschedctl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in names:
        module = name.replace("-", "_")
        shutil.rmtree(tmp_path / "kschedctl" / "commands" / module)
        remove_entry(tmp_path / "kschedctl" / "commands" / "table.py", name)
        remove_public_functions(tmp_path / "kschedctl" / "__init__.py", module)
    return names


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


def remove_public_functions(package: Path, module: str) -> None:
    line = re.compile(
        rf"^ +(?:from kschedctl\.commands\.{module}\b.*|\"\w+\": \"commands\.{module}\b.*)\n", re.MULTILINE
    )
    package.write_text(line.sub("", package.read_text()))


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run Python on the copy. Return the exit code and the standard output."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr[-600:]
    return done.returncode, done.stdout


def test_the_rest_works_without_the_command(deleted: list[str], tmp_path: Path) -> None:
    program = ("-m", "kschedctl")
    _, shown = run(tmp_path, *program, "--help")
    assert not [name for name in deleted if re.search(rf"^  {name} ", shown, re.MULTILINE)]
    assert re.search(r"^  explain ", shown, re.MULTILINE)
    _, shown = run(tmp_path, *program, "explain", "-A", "--demo")
    assert "FailedScheduling" in shown or "shop/" in shown
    _, shown = run(tmp_path, *program, "audit", "--demo")
    assert "double-book" in shown.lower() or "races" in shown.lower()
    _, shown = run(tmp_path, *program, "schema")
    assert "explanation" in shown.split()
    _, shown = run(tmp_path, "-c", LIST_TOOLS)
    assert "explain" in shown.split()
    assert not {*deleted} & {*shown.split()}
    assert run(tmp_path, "-c", IMPORT_ALL) == (0, "")
