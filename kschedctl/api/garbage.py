"""What makes many objects and no cycles need not look for cycles meanwhile: that would take a third of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """The collector of cycles is off within the block. What was made there counts as old, and is not looked through."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else what is frozen would become old, too
                gc.freeze()
                gc.unfreeze()
            gc.enable()
