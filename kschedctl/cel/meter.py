"""A limit on work that upstream's cost ignores because it happens inside values.

Upstream, a list of lists of lists, each named and used twice, costs next to nothing to build, compare or print, and
never ends. Here such work is stopped like an expression that costs too much.
"""

from __future__ import annotations

import threading

from kschedctl.cel.errors import CostLimitError

MAX_WORK = 1_500_000
"""The maximum work per evaluation: items that are read or copied, and blocks of CHARACTERS."""
CHARACTERS = 32


class _Meter(threading.local):
    """The remaining work of the current thread's evaluation."""

    left = MAX_WORK


_METER = _Meter()


def reset_work() -> None:
    """Start counting work from zero."""
    _METER.left = MAX_WORK


def get_work() -> int:
    """Return the work since the last reset."""
    return MAX_WORK - _METER.left


def spend_work(count: int) -> None:
    """Count work. Raises CostLimitError."""
    _METER.left -= count
    if _METER.left < 0:
        raise CostLimitError
