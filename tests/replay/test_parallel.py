"""Check that a command's workers end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import os, time
from pathlib import Path
from kschedctl.replay.parallel import Workers, run_tasks

def busy(folder, task):
    Path(folder, str(os.getpid())).touch()
    while True:
        sum(range(1000))

run_tasks(busy, {folder!r}, [1, 2, 3, 4], Workers(2))
"""
PATIENCE_SECONDS = 60


def is_alive(pid: int) -> bool:
    """Return whether the process exists and has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(condition: object) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signal_to_the_program_ends_its_workers(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(folder=str(tmp_path))], stderr=subprocess.PIPE)
    try:
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [int(file.name) for file in tmp_path.iterdir()]
        process.send_signal(number)
        process.wait(PATIENCE_SECONDS)
        assert wait_for(lambda: not any(map(is_alive, workers)))
    finally:
        process.kill()
