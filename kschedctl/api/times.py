"""Timestamps as the API prints them, durations as people write them, and the age of an object in kubectl's format."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from kschedctl.errors import InputError

MINUTE, HOUR, DAY = 60, 3600, 86400
_MAX_SHOWN_LENGTH = 40
"""The number of characters of an invalid time or duration that messages show. Longer durations are invalid."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=65536)
def parse_microseconds(text: str) -> int:
    """Parse an RFC 3339 time into microseconds since 1970.

    The result fits an int64, because years have four digits. Raises InputError if the text is malformed or has no
    offset from UTC.

    >>> parse_microseconds("1970-01-01T00:00:01Z"), parse_microseconds("1970-01-01T01:00:00.5+01:00")
    (1000000, 500000)
    >>> parse_microseconds("0001-01-01T00:00:00+14:00")
    -62135647200000000
    """
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, TypeError):  # a TypeError means that the time has no offset
        raise InputError(
            f"{text[:_MAX_SHOWN_LENGTH]!r} is not a time", hint="RFC 3339, such as 2026-01-31T12:00:00Z"
        ) from None


def parse_nanoseconds(text: str) -> int:
    """Parse an RFC 3339 time into nanoseconds since 1970. Years before 1678 and after 2261 exceed an int64.

    Raises InputError.
    """
    return parse_microseconds(text) * 1000


def add_seconds(text: str, seconds: int) -> str:
    """Return the RFC 3339 time that is some seconds later, limited to the years 1 to 9999. Raises InputError.

    >>> add_seconds("2026-05-06T11:12:00+02:00", 30), add_seconds("9999-12-31T23:59:59Z", 30)
    ('2026-05-06T09:12:30Z', '9999-12-31T23:59:59Z')
    """
    microseconds = min(max(parse_microseconds(text) + seconds * 10**6, _FIRST), _LAST)
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")


def subtract_seconds(text: str, seconds: int) -> str:
    """Return the RFC 3339 time that is some seconds earlier, limited to the years 1 to 9999. Raises InputError.

    >>> subtract_seconds("2026-05-06T11:12:00+02:00", 30), subtract_seconds("0001-01-01T00:00:00Z", 30)
    ('2026-05-06T09:11:30Z', '0001-01-01T00:00:00Z')
    """
    return add_seconds(text, -seconds)


_FIRST, _LAST = parse_microseconds("0001-01-01T00:00:00Z"), parse_microseconds("9999-12-31T23:59:59Z")


def format_go_duration(seconds: int) -> str:
    """Format whole seconds as Go prints a duration.

    >>> format_go_duration(60), format_go_duration(3605), format_go_duration(-5)
    ('1m0s', '1h0m5s', '-5s')
    """
    minutes, remaining_seconds = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if seconds < 0 else ""
    if hours:
        return f"{sign}{hours}h{minutes}m{remaining_seconds}s"
    if minutes:
        return f"{sign}{minutes}m{remaining_seconds}s"
    return f"{sign}{remaining_seconds}s"


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
MAX_DURATION = 365 * 86400.0
"""The longest duration accepted, in seconds."""


def parse_duration(text: str) -> float:
    """Parse a duration such as ``1m30s`` into seconds. A bare number is in seconds.

    Raises InputError for another form or for more than a year.

    >>> parse_duration("1m30s"), parse_duration("250ms"), parse_duration("2")
    (90.0, 0.25, 2.0)
    """
    shown = text[:_MAX_SHOWN_LENGTH]
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text):
        seconds = float(text)
    elif len(text) <= _MAX_SHOWN_LENGTH and re.fullmatch(f"({_DURATION.pattern})+", text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    else:
        raise InputError(f'"{shown}" is not a duration', hint="such as 30s, 250ms or 2m")
    if seconds > MAX_DURATION:
        raise InputError(f'"{shown}" is too long', hint="at most a year")
    return seconds


def format_duration(seconds: float) -> str:
    """Format seconds as a short duration in minutes and seconds, or in milliseconds below a second.

    Durations below a minute have at most three significant digits. Long durations are in minutes as well, not in hours.

    >>> format_duration(0.25), format_duration(90), format_duration(120), format_duration(1.2345), format_duration(0)
    ('250ms', '1m30s', '2m', '1.23s', '0s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g}ms" if seconds else "0s"
    if seconds < 60:
        return f"{seconds:.3g}s"
    minutes, remaining_seconds = divmod(math.floor(seconds + 0.5), 60)
    return f"{minutes}m{remaining_seconds}s" if remaining_seconds else f"{minutes}m"


_YEAR = 365 * DAY
_AGE_STEPS = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * _YEAR, DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", DAY, "d"),
)
"""For ages below the first number of seconds: the unit, its letter, the smaller unit shown beside it, and that unit's
letter.
"""


def format_age(created: str | None, now: str) -> str:
    """Format the time between two RFC 3339 times as kubectl does.

    Return "" if a time is unknown or invalid, or if ``created`` is later than ``now``.

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
    return format_age_of_seconds(seconds) if seconds >= 0 else ""


def format_age_of_seconds(seconds: int) -> str:
    """Format a number of whole seconds as kubectl formats ages.

    >>> format_age_of_seconds(97200)
    '27h'
    """
    for limit, unit, letter, small_unit, small_letter in _AGE_STEPS:
        if seconds < limit:
            small_count = seconds % unit // small_unit if small_unit else 0
            small_part = f"{small_count}{small_letter}" if small_count else ""
            return f"{seconds // unit}{letter}{small_part}"
    return f"{seconds // _YEAR}y"
