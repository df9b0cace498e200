"""Standard streams that may be closed, full or without a reader, and SIGTERM as the end of a command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kschedctl.errors import KschedctlError
from kschedctl.text.printable import printable

STDOUT = "standard output"
MAX_LINE_LENGTH = 2000
"""Longest line on stderr, because names in it can have millions of characters."""
_TAIL = 400


class OutputError(KschedctlError):
    """A failure to write to stdout."""


class _CheckedOutput:
    """Standard output that raises OutputError if writing fails, and BrokenPipeError if the reader is gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _CheckedOutput:
        """The binary buffer of the stream, with the same checks."""
        return _CheckedOutput(self._stream and self._stream.buffer)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return bool(self._stream and self._stream.isatty())

    def write(self, data: object) -> object:
        """Write data to the stream. Raises OutputError if the stream is closed or writing fails."""
        if self._stream is None:
            raise OutputError("closed", where=STDOUT)
        return self._call_stream_function(self._stream.write, data)

    def writelines(self, parts: Iterable[object]) -> None:
        """Write several parts to the stream."""
        for part in parts:
            self.write(part)

    def flush(self) -> None:
        """Flush the stream. Raises OutputError if writing fails."""
        if self._stream is not None:
            self._call_stream_function(self._stream.flush)

    def _call_stream_function(self, function: Callable[..., object], *arguments: object) -> object:
        """Call a function of the stream, converting any OSError but BrokenPipeError to an OutputError."""
        try:
            return function(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError((error.strerror or str(error)).lower(), where=STDOUT) from None


@contextmanager
def checked_streams() -> Iterator[None]:
    """Within the block, let stdout raise OutputError on failure, and let stdout and stderr accept all characters.

    Characters that an encoding does not have are written as escapes. If stderr is closed, it is replaced by the null
    device. Both streams are flushed at the end.
    """
    out: Any = sys.stdout
    err: Any = sys.stderr
    if err is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open to the end
    for stream in (out, err):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = _CheckedOutput(out)
    try:
        yield
    finally:
        sys.stdout = out
        _flush_or_discard_stream(out)
        _flush_or_discard_stream(sys.stderr)


def _flush_or_discard_stream(stream: Any) -> None:
    """Flush the stream. If that fails, point it at /dev/null so that the interpreter can flush it at exit."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_to_stderr(line: str) -> None:
    """Print a line to stderr, ignoring errors."""
    with suppress(OSError):
        print(shorten_line(line), file=sys.stderr)


def shorten_line(text: str) -> str:
    """Return the text without control characters, and without its middle if it is too long.

    >>> len(shorten_line("x" * 1_000_000))
    2000
    """
    if len(text) > MAX_LINE_LENGTH:
        text = f"{text[: MAX_LINE_LENGTH - _TAIL - 3]} … {text[-_TAIL:]}"
    return printable(text)


TERMINATED = 128 + signal.SIGTERM
"""Exit code of a program that SIGTERM ended, as shells report it."""


class _TerminatedError(BaseException):
    """SIGTERM was received. Not an Exception, so that no handler of errors swallows it."""


@contextmanager
def leave_on_sigterm() -> Iterator[None]:
    """Leave the block on SIGTERM, which Kubernetes and systemd send to stop a process.

    Outside the main thread, SIGTERM keeps its usual effect.
    """

    def raise_terminated(*_: object) -> None:
        raise _TerminatedError

    if threading.current_thread() is not threading.main_thread():  # only the main thread may install handlers
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    except _TerminatedError:
        return
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
