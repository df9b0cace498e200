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
from one_interpreter import run_command_lines

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
    from kschedctl.commands.mcp.tools import TOOLS
    print(*[tool.command for tool in TOOLS])
"""
"""A program that imports all modules and prints the commands that are tools of `mcp`."""


def find_unused_commands() -> list[str]:
    """Return the commands that no command but `mcp` imports. The tools of `mcp` follow the table."""
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


def delete_commands(folder: Path, names: list[str]) -> None:
    """Delete commands from the copy of the package in a folder."""
    for name in names:
        module = name.replace("-", "_")
        shutil.rmtree(folder / "kschedctl" / "commands" / module)
        remove_entry(folder / "kschedctl" / "commands" / "table.py", name)
        remove_public_functions(folder / "kschedctl" / "__init__.py", module)


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


def check_remaining_commands(folder: Path, deleted: list[str]) -> None:
    """Check that the copy works, and that nothing in it mentions the deleted commands."""
    lines = ("--help", "explain -A --demo", "audit --demo", "schema")
    overview, explained, audited, schemas = run_command_lines(folder, *lines, exit_codes=(0, 1))
    assert not [name for name in deleted if re.search(rf"^  {name} ", overview, re.MULTILINE)]
    assert re.search(r"^  explain ", overview, re.MULTILINE)
    assert "FailedScheduling" in explained or "shop/" in explained
    assert "double-book" in audited.lower() or "races" in audited.lower()
    assert "explanation" in schemas.split()
    command = [sys.executable, "-c", IMPORT_ALL]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-600:]
    assert "explain" in done.stdout.split()
    assert not {*deleted} & {*done.stdout.split()}


def test_remaining_commands_work_without_a_command(tmp_path: Path) -> None:
    """Delete one command, and then the others that no command uses. The copy also has the compiled modules."""
    shutil.copytree(ROOT / "kschedctl", tmp_path / "kschedctl")
    unused = [name for name in find_unused_commands() if name != "mcp"]
    assert {"drain", "pools", "watch", "browse", "races", "size", "rebalance"} <= {*unused}
    delete_commands(tmp_path, ["races"])
    check_remaining_commands(tmp_path, ["races"])
    delete_commands(tmp_path, [name for name in unused if name != "races"])
    check_remaining_commands(tmp_path, unused)
