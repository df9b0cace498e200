"""Go's sort of up to twelve elements, for naive loops whose comparison is not an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def sort_by_insertion(items: Sequence[Item], less: Callable[[Item, Item], bool]) -> list[Item]:
    """Return the items sorted by insertion, as Go sorts short slices."""
    found = list(items)
    for i in range(1, len(found)):
        for j in range(i, 0, -1):
            if not less(found[j], found[j - 1]):
                break
            found[j], found[j - 1] = found[j - 1], found[j]
    return found
