"""Check closed, full and ended streams, and files that are not regular files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import Run

from kschedctl.cli.streams import MAX_LINE_LENGTH
from kschedctl.sources.documents import files

HELP = ["--help"]
DEMO = ["explain", "-A", "--demo"]
WRONG = ["explain", "nope", "--demo"]


def run_in_shell(arguments: list[str], redirected: str, **settings: str) -> tuple[int, str]:
    """Exit code, and what came out of both streams."""
    words = [sys.executable, "-m", "kschedctl", *arguments]
    environment = {**os.environ, **settings}
    command = ["bash", "-c", f'"$@" {redirected}', "bash", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "redirected", "code", "said"),
    [
        (DEMO, ">/dev/full", 2, "error: standard output: no space left on device\n"),
        (HELP, ">/dev/full", 2, "error: standard output: no space left on device\n"),
        (DEMO, ">&-", 2, "error: standard output: closed\n"),
        (["--version"], ">&-", 2, "error: standard output: closed\n"),
        (DEMO, ">/dev/full 2>/dev/full", 2, ""),
        (DEMO, ">&- 2>&-", 2, ""),
        (WRONG, "2>/dev/full", 2, ""),
        (WRONG, "2>&-", 2, ""),
        (["explain", "-f", "-"], "<&-", 2, "error: standard input: closed\n"),
    ],
)
def test_full_and_closed_output_streams(
    arguments: list[str], redirected: str, code: int, said: str, unbuffered: str
) -> None:
    if "full" in redirected and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    assert run_in_shell(arguments, redirected, PYTHONUNBUFFERED=unbuffered) == (code, said)


def test_an_answer_does_not_need_stderr() -> None:
    assert run_in_shell(DEMO, "2>&-")[0] == 1


def test_ctrl_c_while_modules_are_imported_is_silent(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "kschedctl", "--help"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, env=environment)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None, "kschedctl is not installed"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"")


# -- files --------------------------------------------------------------------------------------------------------

READERS = {
    "explain -f": ["explain", "-f", "FILE"],
    "explain --config": ["explain", "-A", "--demo", "--config", "FILE"],
    "simulate -f": ["simulate", "--demo", "-f", "FILE"],
    "capacity -f": ["capacity", "--demo", "-f", "FILE"],
    "whatif": ["whatif", "--demo", "FILE"],
    "lint": ["lint", "FILE"],
    "lint -f": ["lint", "-f", "FILE"],
    "lint --with-cluster": ["lint", "--with-cluster", "FILE"],
    "lint --settings": ["lint", "--demo", "--settings", "FILE"],
    "lint --baseline": ["lint", "--demo", "--baseline", "FILE"],
    "config check": ["config", "check", "FILE"],
    "config view": ["config", "view", "FILE"],
}


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "PIPE_TIMEOUT_SECONDS", 0.1)
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"\xe9: 1")
    os.mkfifo(tmp_path / "pipe")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/zero", "neither JSON nor YAML, but binary data"),
        ("pipe", "no program writes to this pipe"),
        ("folder", ""),
        ("nul\0", "null byte"),
        ("no-such-\udcff", "no-such-\\xff: no such file or directory"),
        ("latin.yaml", "not UTF-8: byte 1"),
    ],
)
@pytest.mark.usefixtures("no_files")
def test_input_that_is_no_file_is_an_error_of_one_line(run: Run, reader: str, path: str, said: str) -> None:
    code, out, err = run(*[path if word == "FILE" else word for word in READERS[reader]])
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert said in err


def test_size_of_toml_settings_is_limited(run: Run, tmp_path: Path) -> None:
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    code, _, err = run("lint", "--demo", "--settings", str(tmp_path / "zero.toml"))
    assert (code, "larger than 1 MiB" in err) == (2, True)


def test_pipe_with_a_late_writer_is_read(run: Run, tmp_path: Path) -> None:
    """Some shells implement process substitution with such a pipe."""
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        time.sleep(0.3)
        (tmp_path / "pipe").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")

    threading.Thread(target=write, daemon=True).start()
    assert run("lint", str(tmp_path / "pipe")).code == 0


def test_error_cuts_a_long_name(run: Run, tmp_path: Path) -> None:
    name = "n" * 1_000_000
    (tmp_path / "m.yaml").write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{{name}: 1, priority: x}}"
    )
    code, _, err = run("explain", "-f", str(tmp_path / "m.yaml"))
    assert code == 2
    assert all(len(line) < MAX_LINE_LENGTH + 20 for line in err.splitlines())
    code, _, err = run("explain", name, "--demo")
    assert code == 2
    assert len(err) < MAX_LINE_LENGTH + 20
