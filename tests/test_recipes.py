"""What CONTRIBUTING.md says under "To add" is done on a copy of the package, and the program knows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = '''"""``kschedctl greet``: says hello."""

from __future__ import annotations

EXAMPLES = ("kschedctl greet",)


def greet(*, name: str = "you") -> int:
    """Say hello."""
    print(f"hello {name}")
    return 0
'''


def recipe(title: str) -> str:
    """The paragraph that begins with it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return next(part for part in text.split("\n\n") if part.startswith(f"**{title}.**"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package in links, but for files that a recipe changes, which it writes anew."""
    subprocess.run(["cp", "-rs", str(ROOT / "kschedctl"), str(tmp_path)], check=True)
    return tmp_path


def add(copy: Path, path: str, text: str, after: str = "") -> None:
    """A new file, or a line after another one."""
    file = copy / path
    if after:
        old = file.read_text()
        assert old.count(after) == 1
        text = old.replace(after, f"{after}\n{text}")
        file.unlink()
    file.write_text(text)


def run(copy: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "kschedctl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=copy).stdout


def test_a_command(copy: Path) -> None:
    folder, table = re.findall(
        r"`(kschedctl/cli/commands/)` with|`COMMANDS` of\s+`(kschedctl/[\w/]+\.py)`", recipe("A command")
    )
    add(copy, f"{folder[0]}greet.py", COMMAND)
    add(copy, table[1], '    "greet": "Says hello.",', after="COMMANDS = {")
    assert run(copy, "greet", "--name", "us") == "hello us\n"
    assert "Says hello." in run(copy, "--help")
    assert "kschedctl greet" in run(copy, "greet", "--help")
    assert run(copy, "__complete", "gre") == "greet\tSays hello.\n:4\n"
    assert run(copy, "__complete", "greet", "--na").startswith("--name")


RULE = '''"""Replicas that are a number of legend."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint.framework.rule import WARNING, Rule, each_workload
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload


def legendary(workload: Workload) -> Iterator[Problem]:
    if workload.subject.document["spec"].get("replicas") == 42:
        yield workload.subject.problem(("spec", "replicas"), "42 replicas")


RULES = (
    Rule(
        "pc-legendary",
        WARNING,
        each_workload(legendary),
        summary="42 replicas",
        why="Nobody knows the question.",
        fix="Ask",
        source="https://example.com",
    ),
)
'''
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 42
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


def test_a_lint_rule(copy: Path) -> None:
    (folder,) = re.findall(r"`(kschedctl/lint/rules/)<family>/`", recipe("A lint rule"))
    add(copy, f"{folder}priority/legends.py", RULE)
    (examples,) = re.findall(r"`(kschedctl/lint/examples/)` with the rule's id as name", recipe("A lint rule"))
    good = DEPLOYMENT.replace("42", "41")
    add(copy, f"{examples}pc-legendary.yaml", f"# bad\n{DEPLOYMENT.replace('42', '42  # <-')}# good\n{good}")
    (copy / "web.yaml").write_text(DEPLOYMENT)
    assert "pc-legendary" in run(copy, "lint", "explain", "pc-legendary")
    table = run(copy, "lint", "web.yaml", "--select", "pc-legendary", "--fail-on", "error")
    assert re.search(r"^ +5:\d+ +warning +pc-legendary +Deployment shop/web +42 replicas", table, re.MULTILINE)
    (copy / "web.yaml").write_text(good)
    assert "42 replicas" not in run(copy, "lint", "web.yaml", "--select", "pc-legendary")
