"""Golden cases of the real Kueue, and the comparison with our answers: see golden/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from golden_cases import iter_family_lines

FAMILIES = ("checks", "cohorts", "fairsharing", "flavors", "limits", "partial", "preemption", "strict", "tas")
_ORDERED = frozenset({"order", "cycles", "podSets", "domains", "levels", "values"})
"""Lists whose order is part of the answer."""

Json = dict[str, Any]


def iter_cases(family: str) -> Iterator[Json]:
    """Yield the cases of a family."""
    yield from map(json.loads, iter_family_lines(f"queueing/{family}"))


def normalize(value: Any, key: str = "") -> Any:
    """Return the value without empty parts. Lists are sorted unless their order has a meaning."""
    if isinstance(value, dict):
        items = {name: normalize(item, name) for name, item in value.items()}
        return {name: item for name, item in items.items() if item not in (None, False, "", 0, [], {})}
    if isinstance(value, list | tuple):
        normalized = [normalize(item) for item in value]
        return normalized if key in _ORDERED else sorted(normalized, key=lambda item: json.dumps(item, sort_keys=True))
    return value


def drop_path(document: Any, path: list[str | int]) -> None:
    """Remove the value at a path from the document, if it exists. An item of a list becomes None."""
    for key in path[:-1]:
        if not _has(document, key):
            return
        document = document[key]
    if isinstance(document, dict):
        document.pop(path[-1], None)
    elif _has(document, path[-1]):
        document[path[-1]] = None


def _has(document: Any, key: str | int) -> bool:
    """Return whether a dictionary or a list has an item at a key."""
    if isinstance(document, dict):
        return key in document
    return isinstance(document, list) and isinstance(key, int) and key < len(document)
