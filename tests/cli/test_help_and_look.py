"""Help, version, colours and widths."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest
from command_line import Run, Write, build_node, build_pod

import kschedctl
from kschedctl.cli.completing import find_completions
from kschedctl.cli.main import COMMANDS, RARE, get_program_name, load_command

HEAVY = ("numpy", "yaml", "rich", "kschedctl.scheduler", "kschedctl.sources")


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"kschedctl {kschedctl.__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert all(f"{name} {command.summary}" in " ".join(out.split()) for name, command in COMMANDS.items())
    assert "Exit codes: 0" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: kschedctl {name}")


def test_help_imports_nothing_heavy() -> None:
    program = "import sys; from kschedctl.cli.main import main; main(['--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not set(out.splitlines()[-1].split()) & set(HEAVY)


def test_empty_answer_imports_neither_rich_nor_the_explanation() -> None:
    program = "import sys; from kschedctl.cli.main import main; main(['explain', '--demo']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.startswith("Nothing is pending in namespace default\n")
    assert not set(out.splitlines()[-1].split()) & {"rich.console", "rich.table", "kschedctl.commands.explain.one_pod"}


def test_a_pod_is_explained_with_fewer_than_300_of_our_modules(write: Write) -> None:
    file = write(build_node("n1", cpu="2"), build_pod("big", cpu="4", uid="a-uid"))
    command = ["explain", "big", "-f", file]
    program = f"import sys; from kschedctl.cli.main import main; main({command}); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "Best fix: Add a node like n1 but with 4 CPUs\n" in out
    modules = [name for name in out.splitlines()[-1].split() if name.partition(".")[0] == "kschedctl"]
    assert 100 < len(modules) < 300


def test_program_name_is_the_called_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-ksched", "explain"])
    assert get_program_name() == "kubectl ksched"
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kschedctl"])
    assert get_program_name() == "kschedctl"


def run_in_pipe(command: list[str], environment: dict[str, str]) -> bytes:
    return subprocess.run(command, env=environment, capture_output=True, check=False).stdout


def run_on_terminal(command: list[str], environment: dict[str, str]) -> bytes:
    """Return the output of the command on a terminal of 70 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.STDOUT):
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):  # Linux says EIO when the other side is closed
            while data := os.read(ours, 65536):
                out += data
    os.close(ours)
    return out


def test_width_of_a_terminal_is_used() -> None:
    command = [sys.executable, "-m", "kschedctl", "demo", "--color", "never"]
    lines = run_on_terminal(command, dict(os.environ) | {"COLUMNS": ""}).decode().split("\r\n")
    assert 60 < max(len(line) for line in lines if "kschedctl explain" not in line) <= 70


@pytest.mark.parametrize(
    ("arguments", "terminal", "environment", "colored"),
    [
        ([], True, {}, True),
        (["--color", "auto"], True, {"NO_COLOR": "1"}, False),
        ([], True, {"NO_COLOR": ""}, True),
        ([], True, {"TERM": "dumb"}, False),
        ([], False, {}, False),
        (["--color", "always"], False, {"NO_COLOR": "1"}, True),
        (["--color", "never"], True, {}, False),
    ],
)
def test_color(arguments: list[str], terminal: bool, environment: dict[str, str], colored: bool) -> None:
    settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    settings |= {"TERM": "xterm", **environment}
    command = [sys.executable, "-m", "kschedctl", "explain", "batch/embedder-t7x4w", "--demo", *arguments]
    run_it = run_on_terminal if terminal else run_in_pipe
    out = run_it(command, settings)
    assert (b"\x1b[1;31mUnschedulable" in out) == colored


def drop_command_lines(text: str) -> list[str]:
    """Return the lines without commands, which are never folded."""
    return [line for line in text.splitlines() if not line.startswith(("  kschedctl ", "  kubectl "))]


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_tables_fit_the_width_and_are_complete(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    names = [f"ip-10-0-{i}-7.eu-west-1.compute.internal" for i in range(3)]
    taints = [{"key": "example.com/dedicated-to-a-team", "value": "payments", "effect": "NoSchedule"}]
    file = write(*(build_node(name, "1", taints=taints) for name in names), build_pod("web", "2"))
    monkeypatch.setenv("COLUMNS", str(columns))
    grouped = run("explain", "web", "-f", file).out
    assert "3" in grouped
    assert max(map(len, drop_command_lines(grouped))) <= columns
    out = run("explain", "web", "-f", file, "--each-node").out
    assert max(map(len, drop_command_lines(out))) <= columns
    squeezed = re.sub(r"\s+", "", out)
    assert all(name in squeezed or columns == 40 for name in names)
    assert "example.com/dedicated-to-a-team=payments:NoSchedule" in squeezed or columns == 40


def test_wide_output_in_a_pipe_keeps_each_node_in_one_line(run: Run, write: Write) -> None:
    file = write(build_node("n1", "1", taints=[{"key": "k" * 200, "effect": "NoSchedule"}]), build_pod("web", "2"))
    lines = run("explain", "web", "-f", file, "-o", "wide").out.splitlines()
    assert any("n1 " in line and "k" * 200 in line and "NodeResourcesFit" in line for line in lines)


def test_every_command_has_its_own_place_in_the_help(run: Run) -> None:
    places = [(command.heading, command.place) for command in COMMANDS.values()]
    assert len(places) == len(set(places))
    shown = re.findall(r"^  ([a-z][a-z-]+)  ", run("--help").out, re.MULTILINE)
    assert sorted(shown) == sorted(COMMANDS)


def test_options_are_grouped_by_subject(run: Run) -> None:
    text = run("explain", "--help-all").out
    sections = split_sections(text)
    assert [title for title, _ in sections][:4] == ["Arguments", "Options", "Cluster and scheduler", "Pods"]
    under = dict(sections)
    assert "--kubeconfig" in under["Cluster and scheduler"]
    assert "--output" in under["Output"]
    assert "--plot" in under["Output"]
    assert "--call-extenders" in under["Extenders"]
    assert "--namespace" in under["Pods"]


def split_sections(text: str) -> list[tuple[str, str]]:
    """Return the headings of a help with the text below each."""
    return re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text, re.MULTILINE)


def list_options(text: str) -> set[str]:
    """Return the options that a help lists."""
    return {
        option
        for _, listed in split_sections(text)
        for option in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", listed, re.MULTILINE)
    }


def list_subcommands(name: str) -> dict[tuple[str, ...], Any]:
    """Return a command or its subcommands, by the words that call them."""
    command: Any = load_command(name)
    inner = getattr(command, "commands", {})
    return {(name, word): each for word, each in inner.items()} if inner else {(name,): command}


@pytest.mark.parametrize("name", COMMANDS)
def test_rare_options_are_only_in_the_full_help(run: Run, name: str) -> None:
    for words, command in list_subcommands(name).items():
        options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
        every = {next(option for option in p.opts if option.startswith("--")) for p in options} | {"--help"}
        (code, whole, err), short = run(*words, "--help-all"), run(*words, "--help").out
        assert (code, err) == (0, "")
        assert list_options(whole) == every
        assert list_options(short) == every - RARE
        count = len(every & RARE)
        assert (f"Show {count} more option{'s' * (count != 1)} and exit." in short) == (count > 0)


@pytest.mark.parametrize("name", COMMANDS)
def test_completion_includes_rare_options(name: str) -> None:
    for words, command in list_subcommands(name).items():
        options = {o for p in command.params if p.param_type_name == "option" and not p.hidden for o in p.opts}
        assert {word for word, _ in find_completions([*words, "--"]).words} == {
            o for o in options if o.startswith("--")
        }


def test_rare_options_are_options() -> None:
    commands = [command for name in COMMANDS for command in list_subcommands(name).values()]
    assert {option for command in commands for p in command.params for option in p.opts} >= RARE
