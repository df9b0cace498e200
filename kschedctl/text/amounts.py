"""Amounts, percentages and durations in sentences, with one unit and at most three digits."""

from __future__ import annotations

from kschedctl.text.counts import format_significant

GIB = 1 << 30
MIB = 1 << 20
SMALL_UNITS = ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB"))
"""Units of memory up to GiB, the largest first."""
SECONDS_PER_MINUTE = 60


def format_cpus(millicores: int) -> str:
    """Format an amount of CPU with at most three digits.

    >>> format_cpus(17_000), format_cpus(1000), format_cpus(250), format_cpus(12_345), format_cpus(1_234_567)
    ('17 CPUs', '1 CPU', '0.25 CPUs', '12.3 CPUs', '1,235 CPUs')
    """
    return _with_unit(millicores / 1000, "CPU", "CPUs")


def format_memory(amount: int) -> str:
    """Format an amount of memory in bytes with at most three digits, in GiB unless it is less.

    >>> format_memory(25_018_184_499), format_memory(2 << 40), format_memory(512 << 20), format_memory(0)
    ('23.3 GiB', '2,048 GiB', '512 MiB', '0 GiB')
    """
    for size, unit in SMALL_UNITS:
        if amount >= size:
            return _with_unit(amount / size, unit, unit)
    return f"{amount:,} bytes" if amount else "0 GiB"


def _with_unit(value: float, singular: str, plural: str) -> str:
    """Format a value with three digits, or all digits of its integer part, and its unit."""
    number = f"{value:,.0f}" if value >= 1000 else format_significant(value, 3)
    return f"{number} {singular if number == '1' else plural}"


def format_percentage(share: float) -> str:
    """Format a share as a percentage with one digit after the point.

    >>> format_percentage(0.6333), format_percentage(1)
    ('63.3%', '100.0%')
    """
    return f"{100 * share:.1f}%"


def format_duration(seconds: float) -> str:
    """Format a duration for a sentence, in whole minutes from one minute on.

    >>> format_duration(5460), format_duration(59), format_duration(60)
    ('91 min', '59 s', '1 min')
    """
    if seconds < SECONDS_PER_MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / SECONDS_PER_MINUTE:,.0f} min"
