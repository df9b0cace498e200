"""Check that everything that CONTRIBUTING.md names exists, and that the hooks run the checks of .ci/run."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def list_named_paths(text: str) -> set[str]:
    """Return the files and folders between backquotes: those with a slash or with a file suffix."""
    return set(re.findall(r"`(\.?\w[\w.-]*/[\w./-]*|\w+\.(?:toml|md|yaml))`", text))


def test_paths_exist() -> None:
    paths = list_named_paths(TEXT)
    assert {"kschedctl/cli/main.py", "tests/golden/", "pyproject.toml", ".ci/run"} <= paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert list_named_paths("`kschedctl/no/such.py` and `a/` but not `Rejection`") == {"kschedctl/no/such.py", "a/"}


def test_commands_name_existing_modules_and_tests() -> None:
    modules = re.findall(r"python -m (kschedctl[\w.]+)", TEXT)
    assert modules
    assert all(map(find_spec, modules))
    tests = re.findall(r"pytest -q (\S+)`? ", TEXT)
    assert len(tests) >= 5
    assert [path for path in tests if not (ROOT / path.rstrip("`")).exists()] == []


def test_names_are_defined_in_the_files_given_for_them() -> None:
    """A sentence such as "`Rejection` in `kschedctl/scheduler/framework.py`" gives the file of a name."""
    places = re.findall(r"`(\w+)` (?:in|of)\s+`(kschedctl/[\w/]+\.py)`", TEXT)
    assert ("Rejection", "kschedctl/scheduler/framework/__init__.py") in places
    assert [(name, path) for name, path in places if not re.search(rf"\b{name}\b", (ROOT / path).read_text())] == []


def test_hooks_run_the_checks_of_ci() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    commands = re.findall(r'^"\$bin/([\w-]+)"( \w+)?', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    asked = {" ".join(hook["entry"].split()[:2]).removesuffix(" --fix") for hook in hooks}
    assert asked == {tool + verb for tool, verb in commands if tool != "python"}  # python runs the tests
