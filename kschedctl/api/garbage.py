"""What makes many objects and no cycles need not look for cycles meanwhile: that would take a third of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection(lasting: bool = False) -> Iterator[None]:
    """The collector of cycles is off within the block; ``lasting``: nor does it look later at what there is by then, as
    modules last as long as the process."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            gc.enable()
