"""How old something is, as kubectl tells it.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go, HumanDuration (v1.36).
"""

from __future__ import annotations

from kschedctl.api.times import nanoseconds
from kschedctl.errors import InputError

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY
STEPS = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)
"""Up to so many seconds: the unit and its letter, and the smaller unit that is told besides."""


def age(created: str | None, now: str) -> str:
    """The time between two RFC 3339 times; empty where one is not known, or comes after now.

    >>> age("2026-01-01T00:00:00Z", "2026-01-01T00:05:30Z"), age("2026-01-01T00:00:00Z", "2026-01-04T04:10:00Z")
    ('5m30s', '3d4h')
    """
    if not created or not now:
        return ""
    try:
        seconds = (nanoseconds(now) - nanoseconds(created)) // 10**9
    except InputError:
        return ""
    if seconds < 0:
        return ""
    for limit, unit, letter, smaller, small in STEPS:
        if seconds < limit:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{small}" if rest else "")
    return f"{seconds // YEAR}y"
