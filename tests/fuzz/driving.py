"""Run inputs in this process and judge exit code, traceback, form of the error, time and memory.

Each batch runs in a child process, so that one that hangs, is killed or never gives its memory back ends alone.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import NamedTuple

from corpus import Input, make

from kschedctl.cli.main import main

SECONDS, BYTES = 10, 1 << 30  # of CPU, so that a machine that is busy finds no faults
WAIT = 20 * SECONDS
MOST_BYTES = 2 * BYTES  # what there is at all: more ends in a MemoryError, not in a machine without memory
EXPECTED = {0, 1, 2, 3, 5}
LONGEST_ERROR = 5000  # characters
BATCH = 250


class Result(NamedTuple):
    """The result of running an input. ``fault`` is "" if the command behaved correctly."""

    number: int
    code: int
    seconds: float
    memory: int
    fault: str


class TooLongError(BaseException):
    """An input took more than SECONDS."""


def run_all(seed: str, numbers: Sequence[int], snapshot: bytes, command: str = "") -> Iterator[Result]:
    """Run the inputs with these numbers in child processes, and yield the result of each input in order.

    If a child process dies or hangs, the next inputs run in a new one.
    """
    left = list(numbers)
    while left:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_run_child, args=(seed, left[:BATCH], snapshot, command, theirs)
        )
        process.start()
        theirs.close()
        for number in left[:BATCH]:
            result = _receive_result(ours, number)
            left.pop(0)
            yield result
            if result.code < 0:  # the child did not live to tell
                process.kill()
                break
        process.join()


def _receive_result(connection: Connection, number: int) -> Result:
    """Return the child's result of an input, or a result with a fault if the child has died or hangs."""
    try:
        if connection.poll(WAIT):
            result: Result = connection.recv()
            return result
    except EOFError:
        return Result(number, -1, 0, 0, "the process was killed")
    return Result(number, -1, WAIT, 0, "hangs")


def _run_child(seed: str, numbers: Sequence[int], snapshot: bytes, command: str, connection: Connection) -> None:
    for number in numbers:
        connection.send(run(number, make(f"{seed}:{number}", snapshot, command)))


def run(number: int, given: Input) -> Result:
    """Run one input in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, _run_inside(folder), _limit_input():
        for name, data in given.files.items():
            Path(name).write_bytes(data)
        out, err = io.StringIO(), io.StringIO()
        sys.stdin = io.TextIOWrapper(io.BytesIO(given.stdin))
        before, began = _read_peak_memory(reset=True), process_time()
        fault, code = "", 0
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main(given.arguments)
        except TooLongError:
            fault = f"takes more than {SECONDS} s\n{traceback.format_exc()[-2000:]}"
        except BaseException:
            fault = f"leaves main:\n{traceback.format_exc()[-2000:]}"
        seconds = process_time() - began
        memory = max(_read_peak_memory() - before, 0)
    return Result(number, code, seconds, memory, fault or _find_fault(code, memory, out.getvalue(), err.getvalue()))


def _find_fault(code: int, memory: int, out: str, err: str) -> str:
    """Return the fault in a command's exit code, memory or output, or "" if there is none."""
    last = err.rstrip("\n").rpartition("\n")[2]
    if code not in EXPECTED:
        return f"exit code {code}: {err[-600:]}"
    if memory > BYTES:
        return f"takes {memory >> 20} MiB"
    if "Traceback" in err:
        return "prints a traceback"
    if code in (2, 3) and not last.startswith("error: "):
        return f"exit code {code} without an error as the last line: {last[:200]!r}"
    if len(last) > LONGEST_ERROR:
        return f"an error of {len(last)} characters: {last[:200]!r}"
    controls = [c for c in out + err if ord(c) < 32 and c not in "\n\t\r"]
    return f"prints control characters: {controls[:5]}" if controls else ""


@contextmanager
def _run_inside(folder: str) -> Iterator[None]:
    """Run the block in a folder, with a separate environment."""
    before, stdin = os.getcwd(), sys.stdin
    environment = {"HOME": folder, "KUBECONFIG": os.path.join(folder, "nope"), "COLUMNS": "100"}
    kept = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    os.chdir(folder)
    Path(".git").mkdir()  # settings are looked for no further up
    try:
        yield
    finally:
        os.chdir(before)
        sys.stdin = stdin
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@contextmanager
def _limit_input() -> Iterator[None]:
    """End an input after SECONDS, and limit its memory to MOST_BYTES."""

    def end(signum: int, frame: object) -> None:
        raise TooLongError

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if _LINUX else 0
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES, hard))
    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


_LINUX = sys.platform == "linux"


def _read_peak_memory(reset: bool = False) -> int:
    """Return the peak memory of this process in bytes since it was reset, if the system tells it."""
    if not _LINUX:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10
