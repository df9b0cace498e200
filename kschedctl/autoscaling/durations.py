"""Durations in Go's notation."""

from __future__ import annotations

from kschedctl.cel.errors import CelError
from kschedctl.cel.library.times import parse_duration
from kschedctl.errors import InputError


def parse_go_duration(text: str, where: str) -> int:
    """Parse a duration such as ``1h30m`` to nanoseconds. Raises InputError, which names ``where`` as the place.

    >>> parse_go_duration("1m0.5s", "")
    60500000000
    """
    try:
        return parse_duration(text).nanos
    except CelError:
        raise InputError(f'"{text[:40]}" is not a duration', where=where, hint="write it as 1h30m or 90s") from None
