"""Check that commands call library functions of kschedctl or of a command's package.

Only ``browse`` calls analyses, as it keeps a scheduler between its screens. It writes no document.
"""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import kschedctl
from kschedctl.autoscaling.growth import Autoscaler, NewNodes
from kschedctl.reports.report import PlainReport

FOLDER = Path(kschedctl.__file__).parent
ANSWERING = ("commands", "fixes", "replay", "lint", "admission", "autoscaling", "descheduling", "scheduler")
"""The layers where questions are answered."""
NO_ANSWERS = {
    *("rule_list", "rule_report"),
    "ask_each_cluster",
    *("combine_explanations", "summarize_pending_pods", "build_waiting_objects_report", "report_new_resources"),
}
"""Exceptions: descriptions of lint rules, commands over several snapshots, and combinations of several answers."""
LIBRARY = {
    *(f"kschedctl.commands.{folder.name}" for folder in (FOLDER / "commands").iterdir()),
    "kschedctl.commands.explain.one_pod",
    "kschedctl.commands.explain.pending_pods",
}
"""The modules of library functions."""
FILES = sorted(
    file
    for pattern in ("cli/**/*.py", "commands/*/command.py")
    for file in FOLDER.glob(pattern)
    if "browse" not in file.parent.parts
)
PUBLIC = {id(getattr(kschedctl, name)) for name in kschedctl.PUBLIC_NAMES}


def iter_used_names(source: str) -> Iterator[tuple[str, object]]:
    """Yield the names and values that a module takes from the answering layers."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kschedctl.")):
            continue
        if node.module.split(".")[1] not in ANSWERING or node.module in LIBRARY:
            continue
        for alias in node.names:
            if f"{node.module}.{alias.name}" in LIBRARY:
                continue
            value = getattr(import_module(node.module), alias.name, None)
            if value is None:
                value = import_module(f"{node.module}.{alias.name}")
            if isinstance(value, types.ModuleType):
                asked = {n.attr for n in ast.walk(tree) if _is_of(n, alias.asname or alias.name)}
                yield from ((name, getattr(value, name)) for name in sorted(asked))
            else:
                yield alias.name, value


def _is_of(node: ast.AST, module: str) -> typing.TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module


ONLY_FOR_TYPES = {"Autoscaler": Autoscaler, "NewNodes": NewNodes}
"""Classes that modules import for type checkers only, since they load much."""


def is_report(hint: object) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, PlainReport)
    return any(is_report(part) for part in typing.get_args(hint))


def answers(value: object) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    return is_report(typing.get_type_hints(value, localns=ONLY_FOR_TYPES).get("return"))


def list_faults(source: str) -> list[str]:
    return [
        name
        for name, value in iter_used_names(source)
        if answers(value) and id(value) not in PUBLIC and name not in NO_ANSWERS
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_commands_call_only_library_functions(file: Path) -> None:
    assert list_faults(file.read_text()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from kschedctl.commands.wakes.many import find_wake_ups_of_pods", ["find_wake_ups_of_pods"]),
        ("from kschedctl.commands import capacity as library\nlibrary.run_trial()", []),
        ("from kschedctl.commands.audit.races import compare\ncompare.compare_expiries()", ["compare_expiries"]),
        ("from kschedctl.commands.simulate import simulate", []),
        ("from kschedctl.commands.explain.cycle_report import explain_pod", ["explain_pod"]),
    ],
)
def test_detected_faults(source: str, found: list[str]) -> None:
    assert list_faults(source) == found
