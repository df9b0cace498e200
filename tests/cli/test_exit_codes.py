"""Check that errors are one line on stderr with an exit code, and that no input causes a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl import errors
from kschedctl.cli import main
from kschedctl.commands.explain import command as explain


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explian"], "No such command 'explian'. Did you mean 'explain'?"),
        (["explain", "--nope"], "unknown option --nope (kschedctl explain --help lists the options)"),
        (["explain", "--namspace", "shop"], "unknown option --namspace (did you mean --namespace?)"),
        (["config", "--demo"], "unknown option --demo (kschedctl config --help lists the options)"),
        (["snapshot", "--demo"], "unknown option --demo (kschedctl snapshot needs a subcommand: save, show or diff)"),
        (["explain", "--demo", "-o", "xml"], "'xml' is not one of"),
        (["demo", "a"], "unexpected extra argument"),
        (["--demo", "explain"], "unknown option --demo (options follow the command: kschedctl COMMAND --demo)"),
        (["capacity", "deploy/web", "--demo"], "takes no names; files are given with -f"),
        (["help", "source"], "did you mean sources"),
        (["lint", "explain", "rq-absrd"], "did you mean rq-absurd"),
        (["explain", "-f"], "requires an argument"),
        (["explain", "-f", "no-such-file.yaml"], "no-such-file.yaml: no such file or directory"),
        (["explain", "--demo", "--config", "no-such-file.yaml"], "no-such-file.yaml"),
        (["explain", "--demo", "--feature-gates", "A"], "missing bool value for A"),
        (["explain", "--demo", "--feature-gates", "NoSuchGate=true"], "NoSuchGate"),
        (["explain", "--demo", "--kube-version", "1.12"], "'1.12' is not supported"),
        (["explain", "--snapshot", "none", "--kube-version", "latest"], "'latest' is not supported"),
        (["config", "view", "--kube-version", "1.38"], "'1.38' is not supported (supported: 1.30 to 1.37)"),
        (["explain", "--demo", "shop/nope", "--as-if-priority", "high"], "--as-if-priority"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said.lower() in err.lower()


def test_error_names_a_broken_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"kind": "Pod", ')
    code, _, err = run("explain", "-f", str(file))
    assert code == 2
    assert err.startswith(f"error: {file}")
    assert err.count("\n") == 1


def test_unreachable_cluster_is_one_line_and_exit_3(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    code, out, err = run("explain")
    assert (code, out) == (3, "")
    assert err.startswith("error: no kubeconfig was found (")
    assert err.count("\n") == 1


def build_raising_function(error: BaseException) -> object:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.ClusterError("connection refused", where="https://x:6443"), 3, "https://x:6443: connection refused"),
        (ZeroDivisionError("oops"), 4, "ZeroDivisionError: oops (this is a bug"),
        (RecursionError("deep"), 4, "this is a bug"),
    ],
)
def test_the_error_boundary(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str) -> None:
    monkeypatch.setattr(explain, "read_inquiry", build_raising_function(error))
    outcome = run("explain", "--demo")
    assert outcome.code == code
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert "Traceback" in run("explain", "--demo", "-vv").err
    assert "Traceback" not in run("explain", "--demo").err


def test_interruption_exits_130_silently(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "read_inquiry", build_raising_function(KeyboardInterrupt()))
    assert run("explain", "--demo") == (130, "", "")


def test_error_text_cannot_control_the_terminal(run: Run, write: Write) -> None:
    code, _, err = run("explain", "x\x1b[2J\x9b31m\u202ey", "-f", write(build_node("n1"), build_pod("web")))
    assert code == 2
    assert "\\x1b[2J\\x9b31m\\u202e" in err
    assert err.rstrip("\n").isprintable()


def start_python(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **settings}
    command = [sys.executable, "-m", "kschedctl", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_closed_pipe_is_no_error() -> None:
    process = start_python("explain", "-A", "--demo", "-o", "wide")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == main.BROKEN_PIPE


def test_characters_outside_the_locales_encoding_are_escaped() -> None:
    out, err = start_python("explain", "shop/web-6d4cf56db6-h8s2k", "--demo", PYTHONIOENCODING="ascii").communicate()
    assert err == ""
    assert "\\u2192" in out
