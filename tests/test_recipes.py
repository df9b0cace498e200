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
