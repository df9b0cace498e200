"""Errors of expressions: they cannot be compiled, fail for a value, or cost too much."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter

NO_SUCH_OVERLOAD = "no such overload"
COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_DEFAULT_CALLS = 20_000


class CompileError(ValueError):
    """An error for an expression that cannot be evaluated at all.

    Its text is one line, or has position and source like messages of cel-go.
    """


class CelError(ValueError):
    """An error value, which ``||``, ``&&`` and ``?:`` can absorb."""


class AbortedError(Exception):
    """An error that stops an evaluation. No operator absorbs it."""


class CostLimitError(AbortedError):
    """An error that stops an evaluation because it costs too much."""

    def __init__(self) -> None:
        super().__init__(COST_LIMIT_EXCEEDED)


def build_validity_predicate(parse: Callable[..., object]) -> Callable[..., bool]:
    """Build a predicate that returns whether ``parse`` accepts its arguments without a ValueError."""

    def accepts(*values: object) -> bool:
        """Return whether the values are accepted."""
        try:
            parse(*values)
        except ValueError:
            return False
        return True

    return accepts


def build_compile_error(source: str, messages_at_offsets: list[tuple[int, str]]) -> CompileError:
    """Build the error from messages at offsets in the source, formatted as cel-go formats them."""
    lines = []
    for offset, message in sorted(messages_at_offsets, key=itemgetter(0)):
        line = source.count("\n", 0, offset) + 1
        start = source.rfind("\n", 0, offset) + 1
        text = source[start:].partition("\n")[0].replace("\t", " ")
        column = offset - start
        lines.append(f"ERROR: <input>:{line}:{column + 1}: {message}\n | {text}\n | {'.' * column}^")
    return CompileError("compilation failed: " + "\n".join(lines))


@contextmanager
def allow_deep_recursion(calls: int = _DEFAULT_CALLS) -> Iterator[None]:
    """Allow at least ``calls`` nested Python calls within the block.

    The default suits expressions that are nested as deep as upstream allows: 250 levels of about ten Python calls each.
    """
    old_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old_limit, calls))
    try:
        yield
    finally:
        sys.setrecursionlimit(old_limit)
