"""How far a replay of an autoscaler is, for those who wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

Begin = Callable[[str, int], Callable[[int], None]]
"""Something with so many parts begins; called with how many more are done."""


def unseen(what: str, total: int) -> Callable[[int], None]:
    """Nobody looks."""
    return lambda done: None


def each_told(begin: Begin, what: str, parts: list[T]) -> Iterator[T]:
    """The parts, each told of when it is done."""
    done = begin(what, len(parts))
    for part in parts:
        yield part
        done(1)
