"""What goes wrong with an expression: it cannot be compiled, it fails for a value, it costs too much."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_SUCH_OVERLOAD = "no such overload"
COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_DEEP = 20_000


class CompileError(ValueError):
    """An expression that cannot be evaluated at all; ``str()`` is one line or has place and source, as cel-go's."""


class CelError(ValueError):
    """An error value: ``||``, ``&&`` and ``?:`` can absorb it."""


class AbortedError(Exception):
    """Evaluation was stopped, which no operator absorbs."""


class CostLimitError(AbortedError):
    """Evaluation was stopped since it costs too much."""

    def __init__(self) -> None:
        super().__init__(COST_LIMIT_EXCEEDED)


def succeeds(read: Callable[..., object]) -> Callable[..., bool]:
    """Whether what raises a ValueError for wrong arguments takes these."""

    def accepts(*values: object) -> bool:
        try:
            read(*values)
        except ValueError:
            return False
        return True

    return accepts


def at_place(source: str, faults: list[tuple[int, str]]) -> CompileError:
    """Faults at offsets of the source, in the form of cel-go's messages."""
    shown = []
    for offset, message in sorted(faults, key=lambda fault: fault[0]):
        line = source.count("\n", 0, offset) + 1
        start = source.rfind("\n", 0, offset) + 1
        text = source[start:].partition("\n")[0].replace("\t", " ")
        column = offset - start
        shown.append(f"ERROR: <input>:{line}:{column + 1}: {message}\n | {text}\n | {'.' * column}^")
    return CompileError("compilation failed: " + "\n".join(shown))


@contextmanager
def deep_recursion(calls: int = _DEEP) -> Iterator[None]:
    """Room for so many nested calls, as many as before afterwards.

    By default for expressions that nest as deep as upstream allows: 250 levels of some ten Python calls each.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
