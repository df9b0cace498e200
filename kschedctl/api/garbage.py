"""Control of Python's cyclic garbage collector during bulk work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNGEST_GENERATION = 0
"""The objects that were built since the last collection."""
OBJECTS_PER_COLLECTION = 5_000
"""The number of new objects after which the youngest generation is collected. Python's default is 700."""


def collect_garbage_less_often() -> None:
    """Let cyclic garbage collection wait for more new objects, because few of the program's objects form cycles."""
    _, *other_thresholds = gc.get_threshold()
    gc.set_threshold(OBJECTS_PER_COLLECTION, *other_thresholds)


@contextmanager
def collect_garbage_at_end() -> Iterator[None]:
    """Pause cyclic garbage collection within the block, and collect once at its end.

    Only objects that were built within the block are examined.
    """
    gc.collect(YOUNGEST_GENERATION)
    with without_garbage_collection():
        yield
        gc.collect(YOUNGEST_GENERATION)


@contextmanager
def without_garbage_collection(freezes_objects: bool = False) -> Iterator[None]:
    """Pause cyclic garbage collection within the block.

    Decoding many objects creates no cycles, but collection would take a third of the time. If ``freezes_objects`` is
    true, all objects that exist at the end of the block, such as imported modules, are exempt from later collections.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freezes_objects:
            gc.freeze()
        if enabled:
            gc.enable()
