"""Check that output files are regular files, written completely or not at all."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kschedctl.cli.main import main
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.output_file import validate_output_files, write_file


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def make_link(path: Path, target: str) -> str:
    path.symlink_to(target)
    return str(path)


def make_folder(path: Path) -> str:
    path.mkdir()
    return str(path)


REFUSED: dict[str, tuple[Callable[[Path], str], str]] = {
    "a device": (lambda path: "/dev/null", "not a regular file"),
    "a FIFO, before anybody reads it": (make_fifo, "not a regular file"),
    "a symlink to a device": (lambda path: make_link(path, "/dev/zero"), "not a regular file"),
    "a folder": (make_folder, "a folder"),
    "a folder that is not there": (lambda path: str(path / "no" / "x"), "no such folder"),
    "a name that ends as a folder's": (lambda path: f"{path}/", "not a file name"),
    "no name": (lambda path: "", "not a file name"),
    "symlinks in a circle": (lambda path: make_link(path, path.name), "too many levels of symbolic links"),
    "something below a file": (lambda path: f"{__file__}/x", "not a directory"),
    "a name with a NUL": (lambda path: f"{path}\0", "embedded null byte"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_only_regular_files_are_written(case: str, tmp_path: Path) -> None:
    make, words = REFUSED[case]
    path = make(tmp_path / "out")
    for act in (lambda: write_file(path, [b"data"]), lambda: validate_output_files(path)):
        with pytest.raises(InputError, match=f"cannot be written: {words}"):
            act()
    assert not [name for name in os.listdir(tmp_path) if name != "out"]


def test_symlink_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "target").write_text("before")
    write_file(make_link(tmp_path / "link", "there/target"), [b"after"])
    write_file(make_link(tmp_path / "dangling", "there/new"), [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "there" / "target").read_text() == "after"
    assert (tmp_path / "there" / "new").read_text() == "new"


@pytest.mark.parametrize("private", [False, True])
def test_existing_file_keeps_its_mode(private: bool, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before, and longer than what comes")
    path.chmod(0o640)
    write_file(str(path), [b"af", b"ter"], private=private)
    assert (path.read_text(), get_mode(path)) == ("after", 0o640)


def test_new_private_file_is_only_for_its_owner(tmp_path: Path) -> None:
    write_file(str(tmp_path / "private"), [b""], private=True)
    write_file(str(tmp_path / "public"), [b""])
    assert (get_mode(tmp_path / "private"), get_mode(tmp_path / "public")) == (0o600, 0o644)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_leaves_the_previous_content(
    step: str, failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    expected = InputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_file(str(path), [b"after"])
    assert os.listdir(tmp_path) == ["out"]
    assert path.read_text() == "before"


def test_interrupted_write_leaves_no_files(tmp_path: Path) -> None:
    """This also holds for processes in the background, which ignore SIGINT."""

    def endless() -> Iterator[bytes]:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            yield b"x"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_file(str(tmp_path / "out"), endless())
    finally:
        signal.signal(signal.SIGINT, before)
    assert os.listdir(tmp_path) == []


def test_dash_is_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stdout)
    stdout.write("first ")
    write_file("-", [b"\xff", b"\x00"])
    assert stdout.buffer.getvalue() == b"first \xff\x00"  # type: ignore[attr-defined]


@pytest.mark.parametrize("pair", [("-", "-"), ("out", "./out"), ("link", "out")])
def test_two_outputs_must_be_different_files(pair: tuple[str, str], in_folder: Path) -> None:
    (in_folder / "link").symlink_to("out")
    with pytest.raises(UsageError, match="two outputs would go to the same file"):
        validate_output_files(*pair)
    validate_output_files("out", None)


def test_snapshots_and_mappings_are_private(in_folder: Path) -> None:
    assert main(["snapshot", "save", "--demo", "-o", "s", "--anonymize", "--mapping", "names.json"]) == 0
    assert (get_mode(in_folder / "s"), get_mode(in_folder / "names.json")) == (0o600, 0o600)


def test_snapshot_on_stdout_is_the_only_output(in_folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["snapshot", "save", "--demo", "-o", "-"]) == 0
    (in_folder / "piped").write_bytes(capfdbinary.readouterr().out)
    assert main(["snapshot", "show", "piped"]) == 0


def test_mapping_on_stdout_is_the_only_output(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "save", "--demo", "--anonymize", "-o", "s", "--mapping", "-"]) == 0
    assert "shop" in json.loads(capsys.readouterr().out).values()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["snapshot", "save", "--demo", "-o", "/dev/null"], "error: /dev/null: cannot be written: not a regular file"),
        (["snapshot", "save", "--demo", "-o", "s", "--mapping", "m"], "error: --mapping: there are no pseudonyms"),
        (
            ["snapshot", "save", "--demo", "--anonymize", "-o", "s", "--mapping", "/dev/null"],
            "error: /dev/null: cannot be written: not a regular file",
        ),
        (["lint", "--demo", "--live", "--write-baseline", "/dev/null"], "error: "),
        (["lint", "-f", "pod.yaml", "--write-baseline", "/dev/null"], "error: /dev/null: cannot be written"),
    ],
)
def test_unwritable_output_is_reported_before_any_write(
    arguments: list[str], words: str, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_folder / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(words)
    assert os.listdir(in_folder) == ["pod.yaml"]
