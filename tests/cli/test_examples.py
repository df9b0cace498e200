"""Check that every help has examples and that every example is accepted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from command_line import Run

from kschedctl.cli.main import COMMANDS, load_command

MOST_COLUMNS = 80


def iter_help_command_lines() -> Iterator[tuple[str, ...]]:
    """Yield the command lines that have a help of their own."""
    yield ()
    for name in COMMANDS:
        yield (name,)
        yield from ((name, sub) for sub in getattr(load_command(name), "commands", ()))


@pytest.fixture
def examples(run: Run, command: tuple[str, ...]) -> list[str]:
    """Return the lines below "Examples:" in a help."""
    section = run(*command, "--help").out.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in section.splitlines()]


@pytest.mark.parametrize("command", list(iter_help_command_lines()), ids=" ".join)
def test_each_example_is_one_line_and_calls_its_command(examples: list[str], command: tuple[str, ...]) -> None:
    assert examples
    assert all("kschedctl " in line and len(line) + 4 <= MOST_COLUMNS for line in examples)
    assert any(" ".join(("kschedctl", *command)) in line for line in examples)


@pytest.mark.parametrize("command", list(iter_help_command_lines()), ids=" ".join)
def test_examples_are_accepted(examples: list[str]) -> None:
    for line in examples:
        words = shlex.split(re.split(r"[)>]", line[line.index("kschedctl ") :])[0])[1:]
        found, arguments = load_command(words[0]), words[1:]
        if hasattr(found, "commands"):
            found, arguments = found.commands[arguments[0]], arguments[1:]
        found.make_context(words[0], arguments)  # a usage error would be raised


def test_check_rejects_an_unknown_option() -> None:
    with pytest.raises(Exception, match="No such option: --no-such"):
        load_command("drain").make_context("drain", ["general-a1", "--no-such"])
