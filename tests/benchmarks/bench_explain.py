"""Measure time and memory of ``explain`` on a big cluster, relative to ``json.load`` of the same files.

    python tests/benchmarks/make_cluster.py DIR
    python tests/benchmarks/bench_explain.py DIR

The aims: a quarter of the time and of the memory of ``json.load`` for the whole process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from peak_memory import print_peak_memory

PLAIN, SPREAD = "bench/pending-plain", "bench/pending-spread-affinity"
JSON_LOAD = "import glob, json, sys; kept = [json.load(open(p)) for p in sorted(glob.glob(sys.argv[1] + '/*.json'))]"
READ = "import sys; from kschedctl.sources.read import read_paths; read_paths(sys.argv[1:])"
SNAPSHOT = (
    "import sys, kschedctl; from kschedctl.scheduler.scheduler import Scheduler\n"
    "Scheduler(kschedctl.Cluster.from_paths(sys.argv[1:])).view.requested"
)
ENGINE = f"""
import sys, time, kschedctl
from kschedctl.scheduler.scheduler import Scheduler
scheduler = Scheduler(kschedctl.Cluster.from_paths(sys.argv[1:]))
pods = {{pod.key: pod for pod in scheduler.cluster.pods if not pod.spec.node_name}}
for key in ({PLAIN!r}, {SPREAD!r}):
    pod = scheduler.view.build_stored_pod(pods[key])
    for run in ("first", "again"):
        start = time.perf_counter()
        scheduler.run_cycle(scheduler.find_framework(pod.spec.scheduler_name), pod)
        print(f"  one cycle, {{key}}, {{run}}: {{1000 * (time.perf_counter() - start):.1f}} ms", flush=True)
"""


class Usage(NamedTuple):
    """The resource usage of a whole process: wall seconds, CPU seconds, and MiB at the peak."""

    wall: float
    cpu: float
    memory: float


def run_python(arguments: Sequence[str], show: bool = False) -> Usage:
    """Run Python with these arguments and return its resource usage. Raises RuntimeError if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=None if show else subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError(f"failed: python {arguments}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def print_usage(name: str, usage: Usage, base: Usage | None = None) -> None:
    """Print a line about a run, with its difference to a base run if there is one."""
    line = f"{name:24}{usage.wall:8.2f} s {usage.cpu:8.2f} s cpu {usage.memory:8.0f} MiB"
    if base is not None:
        line += f"   {usage.wall / base.wall:6.1%} of the time, {usage.memory / base.memory:6.1%} of the memory"
    print(line, flush=True)


def run_repeatedly(arguments: Sequence[str], runs: int) -> Usage:
    """Return the resource usage of the fastest of several runs."""
    return min(run_python(arguments) for _ in range(runs))


def main() -> None:
    """Print time and memory of explain, beside those of its parts."""
    parser = argparse.ArgumentParser(description="Time and memory of explain on a big cluster.")
    parser.add_argument("folder", help="what make_cluster.py wrote")
    parser.add_argument("--runs", type=int, default=1, help="take the fastest of so many runs")
    options = parser.parse_args()
    folder, runs = options.folder, options.runs
    namespace, name = PLAIN.split("/")
    explain = ["-m", "kschedctl", "explain", "-n", namespace, name, "-f", folder]
    base = run_repeatedly(["-c", JSON_LOAD, folder], runs)
    print_usage("json.load", base)
    print_usage("read", run_repeatedly(["-c", READ, folder], runs), base)
    print_usage("read and snapshot", run_repeatedly(["-c", SNAPSHOT, folder], runs), base)
    print_usage("explain", run_repeatedly(explain, runs), base)
    run_python(["-c", ENGINE, folder], show=True)
    nothing = run_repeatedly(["-c", "pass"], 5)
    print_usage("python -c pass", nothing)
    print_usage("--help", run_repeatedly(["-m", "kschedctl", "--help"], 5), nothing)
    print_usage("explain --demo", run_repeatedly(["-m", "kschedctl", "explain", "--demo", "-A"], 5), nothing)


if __name__ == "__main__":
    main()
    print_peak_memory()
