"""Seconds and counts as people read them."""

from __future__ import annotations

from kschedctl.api.digits import digits

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def seconds_text(seconds: float) -> str:
    """Three digits, in a unit that suits.

    >>> seconds_text(0.0123456), seconds_text(2e-5), seconds_text(12.5), seconds_text(0), seconds_text(16384)
    ('12.3 ms', '20 µs', '12.5 s', '0 s', '16,384 s')
    """
    unit, name = next((each for each in UNITS if abs(seconds) >= each[0]), (1e-6, "µs") if seconds else UNITS[0])
    value = seconds / unit
    return f"{digits(value, 3)} {name}"


def number_of(count: float) -> str:
    """Counts of a rate are no whole numbers.

    >>> number_of(12345.0), number_of(0.25), number_of(3.7)
    ('12,345', '0.25', '3.7')
    """
    return f"{count:,.0f}" if count == int(count) else digits(count, 2)
