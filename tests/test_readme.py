"""Check that the README and the help topics show what the program prints and accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from documents import COLUMNS, README, TOPICS, iter_command_lines, iter_examples, run
from pictures import BROWSE, PICTURES, REPORT

from kschedctl.cli.main import load_command

MOST_LINES = 220


@pytest.mark.parametrize(("command", "printed"), iter_examples(), ids=lambda value: value.split("\n")[0][:60])
def test_example(command: str, printed: str) -> None:
    assert drop_rule_count(run(command)) == drop_rule_count(printed)


def drop_rule_count(text: str) -> str:
    """Return the output without the number of lint rules, so that a new rule does not outdate the documents."""
    return re.sub(r"by \d+ rules$", "by all rules", text, flags=re.MULTILINE)


@pytest.mark.parametrize("line", dict.fromkeys(iter_command_lines()))
def test_shell_lines_parse(line: str) -> None:
    command, *arguments = shlex.split(line)[1:]
    found = load_command(command)
    if hasattr(found, "commands"):
        found, arguments = found.commands[arguments[0]], arguments[1:]
    found.make_context(command, arguments)  # a usage error would be raised


def test_readme_is_short_and_names_every_topic() -> None:
    text = README.read_text()
    assert text.count("\n") <= MOST_LINES
    assert f"at {COLUMNS} columns" in text
    assert set(re.findall(r"\]\(kschedctl/cli/topics/(.+)\.md\)", text)) == set(TOPICS)


def test_links_have_existing_targets() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    assert not [link for link in links if not (README.parent / link).exists()]


def test_readme_shows_the_pictures() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README.read_text())
    assert [README.parent / link for link in shown] == [REPORT, BROWSE]
    assert set(PICTURES.iterdir()) == {REPORT, BROWSE}
    assert REPORT.read_bytes().startswith(b"\x89PNG")
    assert BROWSE.read_text().startswith("<svg")


def test_scenario_runs(tmp_path: Path) -> None:
    (scenario,) = re.findall(r"```yaml\n(steps:\n.*?)```", TOPICS["what-if"].read_text(), re.DOTALL)
    file = tmp_path / "scenario.yaml"
    file.write_text(scenario)
    assert "Effect on pods" in run(f"kschedctl whatif {file} --demo")
