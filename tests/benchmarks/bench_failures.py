"""The cost of `failures` on a big cluster, as so many times the cost of reading the cluster.

    python tests/benchmarks/bench_failures.py SNAPSHOT [--unit zones] [--runs 3]

`make_cluster.py` makes the cluster, and `kschedctl snapshot save` turns it into the snapshot. Each run is a process of
its own. The question is answered without further processes, so that its peak memory is that of all losses together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

READING = "import sys; from kschedctl.sources.archive_file import read_archive; read_archive(sys.argv[1])"
UNDECIDED = 5
"""The exit code for kinds that were not read."""


class Cost(NamedTuple):
    """The cost of a process."""

    seconds: float
    """CPU time of the process itself and of the kernel for it."""
    mebibytes: float
    """Peak memory."""


def measure_cost(arguments: Sequence[str]) -> Cost:
    """Run Python with these arguments and return the cost. Raises CalledProcessError if it fails."""
    process = subprocess.Popen((sys.executable, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, UNDECIDED):
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    """Print the median CPU time, the ratio to reading the cluster, and the peak memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snapshot")
    parser.add_argument("--unit", choices=("zones", "nodes", "pools"), default="zones")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    question = ("-m", "kschedctl", "failures", f"--{options.unit}", "--jobs", "1", "--snapshot", options.snapshot)
    readings = []
    answers = []
    for _ in range(options.runs):  # in pairs, since other processes slow both down
        readings.append(measure_cost(("-c", READING, options.snapshot)))
        answers.append(measure_cost(question))

    seconds = statistics.median(cost.seconds for cost in answers)
    ratio = seconds / statistics.median(cost.seconds for cost in readings)
    print(f"failures --{options.unit}: {seconds:,.1f} s CPU, {ratio:,.0f} times reading the cluster")
    print(f"at most {max(cost.mebibytes for cost in answers):,.0f} MiB")


if __name__ == "__main__":
    main()
