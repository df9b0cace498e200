"""Progress of an autoscaler's replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

Begin = Callable[[str, int], Callable[[int], None]]
"""A function that begins a task, given its title and number of parts, and returns a function that reports done
parts.
"""


def ignore_progress(title: str, total: int) -> Callable[[int], None]:
    """Begin a task without reporting its progress."""
    return lambda done: None


def iter_with_progress(begin: Begin, title: str, parts: list[T]) -> Iterator[T]:
    """Yield the parts of a task, and report each part as done once the caller asks for the next one."""
    done = begin(title, len(parts))
    for part in parts:
        yield part
        done(1)
