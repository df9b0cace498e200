"""Times as the API prints them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from kschedctl.errors import InputError


@lru_cache(maxsize=65536)
def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time. Raises InputError.

    >>> nanoseconds("1970-01-01T00:00:01Z"), nanoseconds("1970-01-01T01:00:00.5+01:00")
    (1000000000, 500000000)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text[:40]!r} is not a time", hint="want RFC 3339, as 2026-01-31T12:00:00Z") from None
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000


def earlier(text: str, seconds: int) -> str:
    """The RFC 3339 time so many seconds before another one. Raises InputError.

    >>> earlier("2026-05-06T11:12:00+02:00", 30)
    '2026-05-06T09:11:30Z'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds(text) // 1000)
    return (moment - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def go_seconds(seconds: int) -> str:
    """Whole seconds as Go prints a duration.

    >>> go_seconds(60), go_seconds(3605), go_seconds(-5)
    ('1m0s', '1h0m5s', '-5s')
    """
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{'-' * (seconds < 0)}{parts}{rest}s"
