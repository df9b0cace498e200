"""Progress of an autoscaler's replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

Begin = Callable[[str, int], Callable[[int], None]]
"""Begins a task of a number of parts, and returns a function to be called with how many more are done."""


def ignore_progress(what: str, total: int) -> Callable[[int], None]:
    """Begin a task whose progress nobody watches."""
    return lambda done: None


def iter_with_progress(begin: Begin, what: str, parts: list[T]) -> Iterator[T]:
    """Yield the parts, and report each as done after it was handled."""
    done = begin(what, len(parts))
    for part in parts:
        yield part
        done(1)
