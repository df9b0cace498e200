"""The age of an object in kubectl's format.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go, HumanDuration (v1.36).
"""

from __future__ import annotations

from kschedctl.api.times import parse_nanoseconds
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
"""For ages below the first number of seconds: the unit, its letter, the smaller unit shown beside it, and that unit's
letter.
"""


def format_age(created: str | None, now: str) -> str:
    """Format the time between two RFC 3339 times. Return "" if one is unknown or ``created`` is after ``now``.

    >>> format_age("2026-01-01T00:00:00Z", "2026-01-01T00:05:30Z")
    '5m30s'
    >>> format_age("2026-01-01T00:00:00Z", "2026-01-04T04:10:00Z")
    '3d4h'
    """
    if not created or not now:
        return ""
    try:
        seconds = (parse_nanoseconds(now) - parse_nanoseconds(created)) // 10**9
    except InputError:
        return ""
    if seconds < 0:
        return ""
    for limit, unit, letter, small_unit, small_letter in STEPS:
        if seconds < limit:
            small_count = seconds % unit // small_unit if small_unit else 0
            return f"{seconds // unit}{letter}" + (f"{small_count}{small_letter}" if small_count else "")
    return f"{seconds // YEAR}y"
