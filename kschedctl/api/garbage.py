"""Control of Python's cyclic garbage collector during bulk work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection(lasting: bool = False) -> Iterator[None]:
    """Pause cyclic garbage collection within the block.

    Decoding many objects creates no cycles, and collecting meanwhile would take a third of the time. If ``lasting``,
    the collector also ignores everything that exists at the end of the block from then on, such as imported modules.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            gc.enable()
