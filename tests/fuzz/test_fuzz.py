"""Run the fuzzing script for a short time, and check that it finds planted failures."""

from __future__ import annotations

import sys
from pathlib import Path

import driving
import pytest
from corpus import Input, make
from fuzz import build_sound_snapshot, fuzz_inputs

from kschedctl.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are those of Linux")


def test_wrong_input_causes_no_crash() -> None:
    """No input ends with exit code 4 or a traceback, or takes 10 s or 1 GiB."""
    faults = [result for result in fuzz_inputs("ci", range(120)) if result.fault]
    assert faults == []


def test_same_seed_gives_the_same_input() -> None:
    snapshot = build_sound_snapshot()
    assert make("1:7", snapshot) == make("1:7", snapshot)
    assert len({tuple(make(f"1:{i}", snapshot).arguments) for i in range(50)}) > 25


def build_raising_function(error: BaseException) -> object:
    def fail(*_: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (KeyError("x"), "exit code 4"),
        (SystemExit(1), "leaves main"),
        (driving.TooLongError(), "takes more than"),
    ],
)
def test_faults_are_found(monkeypatch: pytest.MonkeyPatch, error: BaseException, found: str) -> None:
    monkeypatch.setattr(main, "load_command", build_raising_function(error))
    assert driving.run(0, Input(["explain", "-A", "--demo"])).fault.startswith(found)


def test_excessive_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "BYTES", 1 << 20)
    node = b"apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {b: %s}}" % (b"x" * (8 << 20))
    assert "MiB" in driving.run(0, Input(["explain", "-f", "c.yaml"], {"c.yaml": node})).fault


def test_files_are_removed_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert driving.run(0, Input(["lint", "m.yaml"], {"m.yaml": b"kind: Pod"})).fault == ""
    assert list(tmp_path.iterdir()) == []
