"""The standard streams, of which any may be closed, full, or read by nobody any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kschedctl.errors import KschedctlError
from kschedctl.text.printable import printable

STDOUT = "standard output"
LONGEST = 2000
"""Characters of a line on stderr; names in it can have millions."""
_TAIL = 400


class OutputError(KschedctlError):
    """What was to be written to stdout cannot leave the program."""


class _Output:
    """Standard output, text or binary: what goes wrong with it is an OutputError, a reader that is gone apart."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _Output:
        return _Output(self._stream and self._stream.buffer)

    def isatty(self) -> bool:
        return bool(self._stream and self._stream.isatty())

    def write(self, data: object) -> object:
        if self._stream is None:
            raise OutputError("closed", where=STDOUT)
        return self._guarded(self._stream.write, data)

    def writelines(self, parts: Iterable[object]) -> None:
        for part in parts:
            self.write(part)

    def flush(self) -> None:
        if self._stream is not None:
            self._guarded(self._stream.flush)

    def _guarded(self, function: Callable[..., object], *arguments: object) -> object:
        try:
            return function(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError((error.strerror or str(error)).lower(), where=STDOUT) from None


@contextmanager
def ready() -> Iterator[None]:
    """The streams take whatever is written to them, and what cannot be written ends the program in order."""
    out: Any = sys.stdout
    err: Any = sys.stderr
    if err is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open to the end
    for stream in (out, err):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = _Output(out)
    try:
        yield
    finally:
        sys.stdout = out
        _let_go(out)
        _let_go(sys.stderr)


def _let_go(stream: Any) -> None:
    """Let the interpreter flush what is left into nothing when it ends, where it cannot be flushed now."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(line: str) -> None:
    """A line on stderr, as far as there is a stderr: the exit code says the rest."""
    with suppress(OSError):
        print(in_one_line(line), file=sys.stderr)


def in_one_line(text: str) -> str:
    """The text with nothing in it that a terminal would obey, and without the middle where it is too long.

    >>> len(in_one_line("x" * 1_000_000))
    2000
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - _TAIL - 3]} … {text[-_TAIL:]}"
    return printable(text)
