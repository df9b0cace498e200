"""Durations and timestamps: parsing, formatting, and their parts.

Upstream: github.com/google/cel-go/common/types/{duration,timestamp}.go and common/stdlib/standard.go (v0.26), with time
of Go's standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from kschedctl.cel.errors import CelError
from kschedctl.cel.library.operators import build_timestamp
from kschedctl.cel.values import INT_MAX, Duration, Timestamp, Value
from kschedctl.errors import InputError

_SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_TERM = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_TERM})+)")
_TERMS = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MAX_WHOLE_DIGITS = 40
"""Digits of a number that are parsed. So many exceed every valid duration, and int() rejects very long texts."""
_MAX_DECIMALS = 18
"""Decimals that are parsed. Even for hours, further decimals are less than a nanosecond."""
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,](?P<fraction>[0-9]+))?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})"
)
_OFFSET = re.compile(r"([+-]?[0-9]{1,9}):([+-]?[0-9]{1,9})")


def parse_duration(text: str) -> Duration:
    """Parse a duration such as ``1h30m`` or ``-1.5s``. Raises CelError if it is invalid or too long."""
    if not _DURATION.fullmatch(text):
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    negative = text.startswith("-")
    nanos = 0
    for whole, fraction, unit in _TERMS.findall(text.lstrip("+-")):
        nanos += int(whole[:_MAX_WHOLE_DIGITS] or "0") * _UNITS[unit]
        decimals = fraction[:_MAX_DECIMALS]
        nanos += int(decimals or "0") * _UNITS[unit] // 10 ** len(decimals)
    max_nanos = INT_MAX + 1 if negative else INT_MAX
    if nanos > max_nanos:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(-nanos if negative else nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Parse an RFC 3339 timestamp. Raises CelError for an invalid text."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        seconds = _parse_seconds(match)
        nanoseconds = (match["fraction"] or "")[:9].ljust(9, "0")
        offset = _parse_offset(match["zone"])
    except ValueError:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    return build_timestamp((seconds - offset) * _SECOND + int(nanoseconds), offset)


def _parse_seconds(match: re.Match[str]) -> int:
    """Return the seconds since 1970 of a matched timestamp, in its own time zone."""
    year_to_second = [int(match[i]) for i in range(1, 7)]
    moment = datetime(*year_to_second, tzinfo=UTC)  # type: ignore[arg-type,misc]
    return (moment - _EPOCH) // timedelta(seconds=1)


def _parse_offset(zone: str) -> int:
    """Parse ``Z`` or an offset such as ``-05:30`` to seconds. Raises ValueError if it is out of range."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 24 or minutes > 60:  # as in Go, the limits themselves are valid
        raise ValueError
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds


def convert_to_local_time(timestamp: Timestamp, zone: tzinfo = UTC) -> datetime:
    """Convert a timestamp to a time in a time zone, with microsecond precision.

    Raises CelError if the year is out of Python's range.
    """
    try:
        return (_EPOCH + timedelta(microseconds=timestamp.nanos // 1000)).astimezone(zone)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def format_timestamp(timestamp: Timestamp) -> str:
    """Format a timestamp as RFC 3339 in its original zone, with as many fraction digits as needed."""
    local_time = convert_to_local_time(timestamp, timezone(timedelta(seconds=timestamp.offset)))
    fraction = f".{timestamp.nanos % _SECOND:09d}".rstrip("0").rstrip(".")
    zone = "Z"
    if timestamp.offset:
        sign_and_digits = f"{local_time:%z}"  # such as +0530
        zone = f"{sign_and_digits[:3]}:{sign_and_digits[3:]}"
    return f"{local_time.year:04d}-{local_time:%m-%dT%H:%M:%S}{fraction}{zone}"


def _parse_zone(name: str) -> tzinfo:
    """Parse an IANA zone name such as ``Europe/Berlin``, or an offset such as ``-05:30``.

    Raises CelError for an unknown zone.
    """
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        if match is None:
            raise CelError(f'strconv.Atoi: parsing "{name}": invalid syntax')
        hours, minutes = int(match[1]), int(match[2])
        if name[0] == "-":  # the sign of the hours, which counts for the minutes too
            minutes = -minutes
        offset = timedelta(hours=hours, minutes=minutes)
        if abs(offset) >= timedelta(days=1):
            raise CelError(f"unknown time zone {name}")
        return timezone(offset)
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


_PARTS: Mapping[str, Callable[[datetime], int]] = {
    "getFullYear": lambda local_time: local_time.year,
    "getMonth": lambda local_time: local_time.month - 1,
    "getDayOfYear": lambda local_time: local_time.timetuple().tm_yday - 1,
    "getDate": lambda local_time: local_time.day,
    "getDayOfMonth": lambda local_time: local_time.day - 1,
    "getDayOfWeek": lambda local_time: (local_time.weekday() + 1) % 7,
    "getHours": lambda local_time: local_time.hour,
    "getMinutes": lambda local_time: local_time.minute,
    "getSeconds": lambda local_time: local_time.second,
    "getMilliseconds": lambda local_time: local_time.microsecond // 1000,
}


_UNIT_NANOS = {"getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND, "getMilliseconds": 10**6}


def _build_timestamp_part_getter(name: str) -> Callable[..., int]:
    """Build a function that returns a named part of a timestamp in a time zone, such as the year."""
    get_part = _PARTS[name]
    return lambda timestamp, zone="UTC": get_part(convert_to_local_time(timestamp, _parse_zone(zone)))


def _build_unit_getter(unit_nanos: int) -> Callable[[Duration], int]:
    """Build a function that returns a duration as a whole number of units, truncated towards zero.

    ``unit_nanos`` is the length of the unit in nanoseconds.
    """

    def count_units(duration: Duration) -> int:
        """Return the number of whole units."""
        units = abs(duration.nanos) // unit_nanos
        return -units if duration.nanos < 0 else units

    return count_units


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{f"{{timestamp}}.{name}() int": _build_timestamp_part_getter(name) for name in _PARTS},
    **{f"{{timestamp}}.{name}(string) int": _build_timestamp_part_getter(name) for name in _PARTS},
    **{f"{{duration}}.{name}() int": _build_unit_getter(unit) for name, unit in _UNIT_NANOS.items()},
}


def parse_go_duration(text: str, where: str) -> int:
    """Parse a duration such as ``1h30m`` to nanoseconds. Raises InputError, which names ``where`` as the place.

    >>> parse_go_duration("1m0.5s", "")
    60500000000
    """
    try:
        return parse_duration(text).nanos
    except CelError:
        raise InputError(f'"{text[:40]}" is not a duration', where=where, hint="write it as 1h30m or 90s") from None
