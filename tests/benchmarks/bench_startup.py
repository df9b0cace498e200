"""Measure the CPU time of small commands, relative to importing numpy, all in processes of their own.

    python tests/benchmarks/bench_startup.py [--pairs 15]

The aims: 0.5 of it for ``--help``, 2.5 of it for ``explain`` of a pod of the demo, also of one that needs fixes. Each
command runs once before, which compiles its modules; then the pairs take turns, and ratios are medians of those of each
pair. numpy starts a thread for each core, which kschedctl does not let it; the second ratio is to a numpy that starts
none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from peak_memory import print_peak_memory

NUMPY = ("-c", "import numpy")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
POD = "shop/web-6d4cf56db6-h8s2k"
"""A pod that fits, so that no fixes are searched."""
REJECTED_POD = "shop/checkout-7d9f6c5b8-x2x4q"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure_cpu_seconds(arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> float:
    """Return the CPU seconds of Python with these arguments. Raises RuntimeError if it fails."""
    environment = {**ENVIRONMENT, **(settings or {})}
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError(f"failed: python {arguments}")
    return used.ru_utime + used.ru_stime


def compare_with_numpy(command: Sequence[str], pairs: int) -> str:
    """Return a line that compares the CPU time of a command with an import of numpy."""
    arguments = ("-m", "kschedctl", *command)
    measure_cpu_seconds(arguments)
    runs = [
        (measure_cpu_seconds(arguments), measure_cpu_seconds(NUMPY), measure_cpu_seconds(NUMPY, ONE_THREAD))
        for _ in range(pairs)
    ]
    seconds, ratio, ratio_of_one = (
        median(values)
        for values in (
            [took for took, _, _ in runs],
            [took / numpy for took, numpy, _ in runs],
            [took / numpy for took, _, numpy in runs],
        )
    )
    return f"{1000 * seconds:6.0f} ms cpu  {ratio:5.2f} of numpy  {ratio_of_one:5.2f} of numpy without threads"


def main() -> None:
    """Print the start-up time of several commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder, "demo.ksnap"))
        measure_cpu_seconds(("-m", "kschedctl", "snapshot", "save", "--demo", "-o", saved))
        for title, command in {
            "--help": ("--help",),
            "explain --demo": ("explain", "--demo"),
            "explain -A --demo": ("explain", "-A", "--demo"),
            "explain POD --demo": ("explain", POD, "--demo"),
            "with fixes, --demo": ("explain", REJECTED_POD, "--demo"),
            "explain POD --snapshot": ("explain", POD, "--snapshot", saved),
        }.items():
            print(f"{title:24}{compare_with_numpy(command, pairs)}", flush=True)


if __name__ == "__main__":
    main()
    print_peak_memory()
