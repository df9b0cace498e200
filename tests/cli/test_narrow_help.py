"""Check that help fits narrow output: topics are folded, and wide tables of Markdown become lists."""

from __future__ import annotations

import pytest
from command_line import Run

from kschedctl.commands.help.command import fold_markdown, read_topics

WIDTH = 45


def find_foldable_lines(text: str, width: int) -> list[str]:
    """Return the lines outside code blocks that are too wide although they could be broken at a space."""
    prose = text.split("```")[::2]
    lines = [line for part in prose for line in part.splitlines()]
    return [line for line in lines if len(line) > width and " " in line.strip().removeprefix("- ")]


@pytest.mark.parametrize("topic", sorted(read_topics()))
@pytest.mark.parametrize("width", [WIDTH, 80])
def test_topics_fit(topic: str, width: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = run("help", topic).out
    assert find_foldable_lines(out, width) == []
    assert out.split("```")[1::2] == read_topics()[topic].split("```")[1::2]  # code stays as it is
    assert all("\n\n\n" not in prose for prose in out.split("```")[::2])


@pytest.mark.parametrize("command", ["explain", "lint", "simulate"])
def test_help_of_commands_fits(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    options, _, _examples = run(command, "--help").out.partition("  Examples:")
    assert [line for line in options.splitlines() if len(line) > WIDTH] == []


def test_wide_tables_become_lists() -> None:
    table = "| Code | Meaning |\n|---|---|\n| 0 | it schedules |\n| 1 | it does not schedule |\n"
    assert fold_markdown(table, 30) == table
    assert fold_markdown(table, 20) == "- 0: it schedules\n- 1: it does not\n  schedule\n"


def test_tables_of_three_columns_name_the_columns() -> None:
    table = "| Kind | Form | Use |\n|---|---|---|\n| a `x\\|y` | JSON | for programs |\n"
    assert fold_markdown(table, 20) == "- a `x|y`\n  Form: JSON\n  Use: for programs\n"
