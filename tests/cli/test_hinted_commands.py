"""Run every command line that an error or another text of the program mentions."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Run
from printed_commands import iter_commands

import kschedctl

HINTS = {
    "Run kschedctl remedies": ([], ["remedies -A --demo"]),
    "the manifest to complete is printed by kschedctl remedies": ([], ["remedies -A --demo"]),
    "list all rules with: kschedctl lint rules": (["lint", "--select", "no-such", "."], ["lint rules"]),
    "kschedctl lint explain RULE; list all rules with: kschedctl lint rules": (["lint", "explain"], ["lint rules"]),
    "kschedctl versions {} 1.36": (["versions", "1.33"], ["versions 1.33 1.36"]),
    "kschedctl whatif --compare-version {} {}": ([], ["whatif --compare-version 1.35 1.36 --demo"]),
    "Node groups: id, min, max, target, nodes, template, as in `kschedctl help scale`.": ([], ["help scale"]),
    "kschedctl help what-if shows an example of each step": (
        ["whatif", '{"steps": [{"drian": {}}]}', "--demo"],
        ["help what-if"],
    ),
    "list all kinds with: kschedctl schema": (["schema", "no-such"], ["schema"]),
    "kschedctl explain -A prints the same": (["browse", "--demo"], ["explain -A --demo"]),
    "kschedctl topology lists all": (["topology", "no-such", "--demo"], ["topology --demo"]),
    "kschedctl snapshot save writes them; -f reads other files": (
        ["snapshot", "show", "pyproject.toml"],
        ["snapshot save -o new.ksnap --demo"],
    ),
    "kschedctl explain POD -o html has them": ([], ["explain shop/checkout-7d9f6c5b8-x2x4q -o html --demo"]),
    "kschedctl config check FILE; kschedctl config view [FILE | --live]": (["config", "check"], ["config view"]),
    "kschedctl scale up; kschedctl scale down": (
        ["scale", "sideways", "--demo"],
        ["scale up --demo", "scale down --demo"],
    ),
    "kschedctl needs to get, list and watch them: see kschedctl help rights": ([], ["help rights"]),
    "the rules of 1.{} were not compared with a real kube-scheduler: see kschedctl versions": ([], ["versions"]),
    "The steps, as in `kschedctl help what-if`.": ([], ["help what-if"]),
    "kschedctl lint": ([], ["lint rules"]),
    "# Rules of `kschedctl lint`\n": ([], ["lint rules"]),
    "Rules marked with ★ need nodes and pods. `kschedctl lint explain RULE` explains a rule in full.\n": (
        [],
        ["lint explain pdb-zero-disruptions"],
    ),
    "\\fBkschedctl help\\fR \\fITOPIC\\fR a topic.": ([], ["help exit-codes"]),
}
"""A text of the program that names a command -> a command line that prints it, and those that it names."""
NAME_OF_PROGRAM = re.compile(r"kschedctl(?!\.)")
"""The name of the program, not of a module in an import."""


def iter_texts() -> Iterator[str]:
    """Yield the string literals of the program that may name a command, without docstrings and helps."""
    for file in Path(kschedctl.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if not NAME_OF_PROGRAM.search(source):
            continue
        tree = ast.parse(source)
        silent = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        silent |= {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg == "help"}
        for each in ast.walk(tree):
            if isinstance(each, ast.Assign) and "EXAMPLES" in ast.unparse(each.targets[0]):
                silent |= {id(part) for part in ast.walk(each)}
            if isinstance(each, ast.JoinedStr):
                silent |= {id(part) for part in each.values}
        for each in ast.walk(tree):
            if id(each) not in silent and (text := _get_text(each)) and any(iter_commands(text)):
                yield text


def _get_text(node_: ast.AST) -> str:
    if isinstance(node_, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node_.values)
    return node_.value if isinstance(node_, ast.Constant) and isinstance(node_.value, str) else ""


def test_texts_that_mention_commands_are_listed_here() -> None:
    assert set(iter_texts()) == HINTS.keys()


@pytest.mark.parametrize("text", HINTS)
def test_mentioned_commands_run(text: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question, commands = HINTS[text]
    if question:
        outcome = run(*question)
        assert outcome.code == 2
        assert text.format("1.33") in outcome.err
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert run(*shlex.split(command)).code in (0, 1, 5)
