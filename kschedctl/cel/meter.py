"""A bound on the work of one evaluation beside upstream's cost, which takes no notice of what stands within values.

Upstream a list of lists of lists, each of them named and used twice, costs next to nothing to build, to compare or to
print, and never ends. Here such work is stopped like what costs too much.
"""

from __future__ import annotations

import threading

from kschedctl.cel.errors import CostLimitError

MAX_WORK = 1_500_000
"""Items looked at or copied, and blocks of CHARACTERS, in one evaluation."""
CHARACTERS = 32


class _Meter(threading.local):
    left = MAX_WORK


_METER = _Meter()


def begin() -> None:
    """Start to count anew."""
    _METER.left = MAX_WORK


def spent() -> int:
    """The work since then."""
    return MAX_WORK - _METER.left


def spend(count: int) -> None:
    """Count work. Raises CostLimitError."""
    _METER.left -= count
    if _METER.left < 0:
        raise CostLimitError
