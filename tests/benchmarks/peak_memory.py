"""The peak memory of a benchmark, printed in its last line."""

from __future__ import annotations

import resource


def get_peak_mebibytes(who: int = resource.RUSAGE_SELF) -> float:
    """Return the peak memory of this process, or of the largest child process that it waited for."""
    return resource.getrusage(who).ru_maxrss / 1024


def print_peak_memory() -> None:
    """Print the peak memory of this process and of its largest child process."""
    started = get_peak_mebibytes(resource.RUSAGE_CHILDREN)
    more = f", {started:,.0f} MiB in a process that it started" if started else ""
    print(f"at most {get_peak_mebibytes():,.0f} MiB{more}")
