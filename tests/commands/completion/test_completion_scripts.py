"""Check that completion works in every shell without loading the commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run

from kschedctl.cli.completing import OUTLINE_FILE, encode_outlines
from kschedctl.commands.completion.command import FILES, SCRIPTS

ROOT = Path(__file__).parents[3]
CASES = [
    (["ex"], {"explain"}),
    (["de"], {"demo"}),
    (["explain", "--all"], {"--all-namespaces"}),
    (["explain", "-o", "ja"], set()),
    (["explain", "-o", "j"], {"json", "jsonpath=", "junit"}),
    (["explain", "-o", "na"], {"name"}),
    (["explain", "-o", "c"], {"csv", "custom-columns="}),
    (["races", "--expiry", ""], {"adaptive", "never"}),
    (["lint", "-o", "s"], {"sarif"}),
    (["lint", "ex"], {"explain"}),
    (["lint", "README."], {"README.md"}),
    (["whatif", "pypro"], {"pyproject.toml"}),
    (["config", "check", "pypro"], {"pyproject.toml"}),
    (["snapshot", "show", "pypro"], {"pyproject.toml"}),
    (["whatif", "--compare-config", "pypro"], {"pyproject.toml"}),
    (["completion", "z"], {"zsh"}),
]
NAMES = [
    ["explain", "--demo", "we"],
    ["explain", "-n", ""],
    ["lint", "explain", "pd"],
]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which shells find this program by both its names."""
    return _install_programs(tmp_path_factory.mktemp("bin"), f'exec {sys.executable} -m kschedctl "$@"')


@pytest.fixture
def scripted(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the program prints its arguments and names in a fixed order."""
    return _install_programs(tmp_path, r"""shift; printf '%s|' "$@"; printf '\na\tthe first: one\n:36\n'""")


def _install_programs(folder: Path, line: str) -> dict[str, str]:
    for program in ("kschedctl", "kubectl-ksched"):
        (folder / program).write_text(f"#!/bin/sh\n{line}\n")
        (folder / program).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def build_bash_command(words: list[str]) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in ("kschedctl", *words))
    return [
        *("bash", "-c"),
        f"""
        source {SCRIPTS / "kschedctl.bash"}
        COMP_WORDS=({quoted}); COMP_CWORD={len(words)}
        _kschedctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """,
    ]


def build_zsh_command(words: list[str]) -> list[str]:
    """Return the candidates of zsh, printed because zsh shows none outside of its line editor."""
    quoted = " ".join(f"'{word}'" for word in ("kschedctl", *words))
    return [
        *("zsh", "-f", "-c"),
        f"""
        compdef() {{ : }}
        _describe() {{ print -l -- "${{(@P)3}}" }}
        _files() {{ print -l -- $PREFIX*(N) }}
        source {SCRIPTS / "_kschedctl"}
        words=({quoted}) CURRENT={len(words) + 1} PREFIX='{words[-1]}'
        _kschedctl
        """,
    ]


def build_fish_command(words: list[str]) -> list[str]:
    return ["fish", "-N", "-c", f"source {SCRIPTS / 'kschedctl.fish'}; complete -C 'kschedctl {' '.join(words)}'"]


def build_kubectl_command(words: list[str]) -> list[str]:
    return ["sh", str(SCRIPTS / "kubectl_complete-ksched"), *words]


SHELLS = [
    pytest.param(build_command, id=shell, marks=pytest.mark.skipif(not shutil.which(shell), reason=f"needs {shell}"))
    for shell, build_command in (("bash", build_bash_command), ("zsh", build_zsh_command), ("fish", build_fish_command))
]


def list_output_lines(command: list[str], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(("shell", "file"), FILES.items())
def test_scripts_equal_the_installed_ones(run: Run, shell: str, file: str) -> None:
    script = run("completion", shell).out
    assert (SCRIPTS / file).read_text() == script
    assert "kubectl-ksched" in script
    assert len(script.splitlines()) <= 60
    assert f'"{(SCRIPTS / file).relative_to(ROOT)}" = ' in (ROOT / "pyproject.toml").read_text()
    assert shell != "kubectl" or (SCRIPTS / file).stat().st_mode & 0o111


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_words_at_the_cursor(run: Run, words: list[str], expected: set[str]) -> None:
    *candidates, directive = run("__complete", *words).out.splitlines()
    files = {"README.md", "pyproject.toml"} & expected
    assert {line.partition("\t")[0] for line in candidates} == expected - files
    assert directive == ":0" if files else directive in (":0", ":4")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("words", "expected"), [CASES[0], CASES[2], CASES[4], CASES[11]])
def test_shells_complete(shell: object, words: list[str], expected: set[str], real: dict[str, str]) -> None:
    assert callable(shell)
    shown = {line.partition("\t")[0].split(":")[0] for line in list_output_lines(shell(words), real)}
    assert shown == expected


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("words", NAMES)
def test_scripts_pass_all_words(shell: object, words: list[str], scripted: dict[str, str]) -> None:
    """Of all lines, fish shows those that begin like the word."""
    assert callable(shell)
    if shell is build_fish_command:
        words = [*words[:-1], ""]
    asked, first = list_output_lines(shell(words), scripted)
    assert asked == "".join(f"{word}|" for word in words)
    assert (
        first
        == {build_bash_command: "a", build_zsh_command: "a:the first: one", build_fish_command: "a\tthe first: one"}[
            shell
        ]
    )


def test_option_with_an_attached_value(run: Run) -> None:
    """Bash splits the word into three, and replaces the last one."""
    assert run("__complete", "explain", "--color=n").out == "--color=never\n:4\n"
    assert run("__complete", "explain", "--color", "=", "n").out == "never\n:4\n"
    assert run("__complete", "explain", "--color", "=").out == "auto\nalways\nnever\n:4\n"
    assert run("__complete", "explain", "--demo", "--namespace=sh").out == "--namespace=shop\n:36\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ex"], ["explain", ":4"]),
        (["explain", "--all"], ["--all-namespaces", ":4"]),
        (["explain", "--color", "n"], ["never", ":4"]),
        (["explain", "--snapshot", ""], [":0"]),
        (["snapshot", "s"], ["save", "show", ":0"]),
        (["drain", "--dem"], ["--demo", ":4"]),
    ],
)
def test_kubectl_completes_its_plugin(words: list[str], expected: list[str], real: dict[str, str]) -> None:
    assert list_output_lines(build_kubectl_command(words), real) == expected


def test_kubectl_script_passes_all_words(scripted: dict[str, str]) -> None:
    """Directive 36 means: no files, in this order."""
    assert list_output_lines(build_kubectl_command(["explain", "-n", ""]), scripted) == ["explain|-n||", "a", ":36"]


def test_file_of_options_is_current() -> None:
    """`python -m kschedctl.cli.completing` writes completions/options.json."""
    assert json.loads(OUTLINE_FILE.read_text("utf-8")) == json.loads(encode_outlines())


def test_completing_an_option_loads_nothing_heavy() -> None:
    code = """if True:
        import sys
        from kschedctl.cli.completing import print_completions
        print_completions(["size", "--"])
        print([name for name in ("numpy", "rich", "textual", "kschedctl.scheduler") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--keep-zone-loss" in done.stdout
