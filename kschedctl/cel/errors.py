"""Errors of expressions: they cannot be compiled, fail for a value, or cost too much."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_SUCH_OVERLOAD = "no such overload"
COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_DEEP = 20_000


class CompileError(ValueError):
    """An expression that cannot be evaluated at all. ``str()`` is one line or has place and source, like cel-go's."""


class CelError(ValueError):
    """An error value, which ``||``, ``&&`` and ``?:`` can absorb."""


class AbortedError(Exception):
    """An evaluation was stopped, which no operator absorbs."""


class CostLimitError(AbortedError):
    """An evaluation was stopped because it costs too much."""

    def __init__(self) -> None:
        super().__init__(COST_LIMIT_EXCEEDED)


def accepts_values_of(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a predicate that is true if ``read`` accepts the values without a ValueError."""

    def accepts(*values: object) -> bool:
        try:
            read(*values)
        except ValueError:
            return False
        return True

    return accepts


def build_compile_error(source: str, faults: list[tuple[int, str]]) -> CompileError:
    """Build the error for messages at offsets of the source, in the form of cel-go's messages."""
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
    """Allow that many nested calls within the block.

    The default suits expressions that nest as deep as upstream allows: 250 levels of some ten Python calls each.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
