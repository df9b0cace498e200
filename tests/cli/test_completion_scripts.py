"""The scripts in ``completions/`` are those that the program prints, and bash's completes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Run

FOLDER = Path(__file__).parents[2] / "completions"
FILES = {
    "bash": "kschedctl.bash",
    "zsh": "_kschedctl",
    "fish": "kschedctl.fish",
    "kubectl": "kubectl_complete-ksched",
}


@pytest.mark.parametrize(("shell", "file"), FILES.items())
def test_scripts_in_the_repository_are_up_to_date(run: Run, shell: str, file: str) -> None:
    script = run("completion", shell).out
    assert (FOLDER / file).read_text() == script, f"run: kschedctl completion {shell} > completions/{file}"
    assert "kubectl-ksched" in script or shell == "kubectl"


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["kschedctl", "ex"], {"explain"}),
        (["kubectl-ksched", "de"], {"demo"}),
        (["kschedctl", "explain", "--all"], {"--all-namespaces"}),
        (["kschedctl", "explain", "-o", "ja"], set()),
        (["kschedctl", "explain", "-o", "j"], {"json", "jsonpath="}),
        (["kschedctl", "explain", "-o", "na"], {"name"}),
        (["kschedctl", "explain", "-o", "c"], {"csv", "custom-columns="}),
        (["kschedctl", "lint", "-o", "s"], {"sarif"}),
        (["kschedctl", "lint", "ex"], {"explain"}),
        (["kschedctl", "lint", "README."], {"README.md"}),
        (["kschedctl", "whatif", "pypro"], {"pyproject.toml"}),
        (["kschedctl", "config", "check", "pypro"], {"pyproject.toml"}),
        (["kschedctl", "snapshot", "show", "pypro"], {"pyproject.toml"}),
        (["kschedctl", "whatif", "--compare-config", "pypro"], {"pyproject.toml"}),
        (["kschedctl", "completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(words: list[str], expected: set[str]) -> None:
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
        source {FOLDER / "kschedctl.bash"}
        COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
        _kschedctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=FOLDER.parent)
    assert set(done.stdout.split()) == expected


@pytest.mark.skipif(not shutil.which("sh"), reason="needs sh")
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
def test_kubectl_completes_its_plugin(words: list[str], expected: list[str]) -> None:
    program = FOLDER / "kubectl_complete-ksched"
    assert program.stat().st_mode & 0o111
    done = subprocess.run(["sh", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
