"""The most memory that a benchmark had, printed by each in its last line."""

from __future__ import annotations

import resource


def mebibytes(who: int = resource.RUSAGE_SELF) -> float:
    """Of this process, or of the largest of those that it waited for, by what the system counts in KiB."""
    return resource.getrusage(who).ru_maxrss / 1024


def print_peak() -> None:
    """Of this process, and of the largest that it started and waited for."""
    started = mebibytes(resource.RUSAGE_CHILDREN)
    more = f", {started:,.0f} MiB in a process that it started" if started else ""
    print(f"at most {mebibytes():,.0f} MiB{more}")
