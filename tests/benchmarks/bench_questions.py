"""Measure whole processes that answer common questions about a big cluster from a snapshot.

    python tests/benchmarks/make_cluster.py DIR
    python tests/benchmarks/bench_questions.py DIR [--runs 3] [--only NAME …] [--update]

Prints CPU seconds, peak memory, and the ratio to a process that only reads the snapshot (`snapshot show`), in the same
run. Each figure is the median of the runs. With `--update`, the table in `kschedctl help speed` is replaced.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

TOPIC = Path(__file__).parents[2] / "kschedctl" / "cli" / "topics" / "speed.md"
HEADER = ("| Command | CPU time | Peak memory | CPU time, as a multiple of reading the snapshot |", "|---|---|---|---|")
COMMON_POD = {"cpu": "500m", "memory": "1Gi"}
WIDE_POD = {"cpu": "900m", "memory": "256Mi"}


class Usage(NamedTuple):
    """The resource usage of a process."""

    cpu_seconds: float
    peak_mebibytes: float


def measure(arguments: list[str]) -> Usage:
    """Run kschedctl with these arguments. Raises RuntimeError for usage errors and bugs."""
    command = [sys.executable, "-m", "kschedctl", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1, 5):
        raise RuntimeError(f"failed: kschedctl {' '.join(arguments)}")
    return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def measure_median(arguments: list[str], runs: int) -> Usage:
    """Return the medians of several runs of kschedctl."""
    usages = [measure(arguments) for _ in range(runs)]
    return Usage(median(usage.cpu_seconds for usage in usages), median(usage.peak_mebibytes for usage in usages))


def write_deployment(path: Path, namespace: str, replicas: int, requests: dict[str, str]) -> str:
    """Write a Deployment and return its path."""
    requested = ", ".join(f"{name}: {amount}" for name, amount in requests.items())
    path.write_text(
        f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: more, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: more}}}}
  template:
    metadata: {{labels: {{app: more}}}}
    spec:
      containers: [{{name: c, image: nginx, resources: {{requests: {{{requested}}}}}}}]
"""
    )
    return str(path)


def build_questions(folder: Path, snapshot: str) -> dict[str, list[str]]:
    """Return the arguments of each question, by name."""
    of_cluster = ["--snapshot", snapshot]
    common = write_deployment(folder / "common.yaml", "default", 1, COMMON_POD)
    wide = write_deployment(folder / "wide.yaml", "shop", 6, WIDE_POD)
    return {
        "explain POD": ["explain", "bench/pending-plain", *of_cluster],
        "explain POD, with fixes": ["explain", "bench/pending-cpu", *of_cluster],
        "explain -A": ["explain", "-A", *of_cluster],
        "remedies -A": ["remedies", "-A", *of_cluster],
        "lint": ["lint", *of_cluster],
        "audit": ["audit", *of_cluster],
        "capacity -f": ["capacity", "-f", common, *of_cluster],
        "failures --zones": ["failures", "--zones", *of_cluster],
        "failures --nodes": ["failures", "--nodes", *of_cluster],
        "make-room -f, 6 pods, demo": ["make-room", "-f", wide, "--demo", "--search-seconds", "300"],
    }


def replace_table(rows: list[str]) -> None:
    """Replace the table below this benchmark's header in the topic."""
    lines = TOPIC.read_text().splitlines()
    start = lines.index(HEADER[0])
    end = next((n for n in range(start, len(lines)) if not lines[n].startswith("|")), len(lines))
    lines[start:end] = [*HEADER, *rows]
    TOPIC.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print the table of questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="what make_cluster.py wrote")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names of questions, such as 'explain -A'")
    parser.add_argument("--update", action="store_true", help="replace the table in `kschedctl help speed`")
    options = parser.parse_args()
    if options.update and options.only:
        parser.error("--update needs all questions")

    with tempfile.TemporaryDirectory() as folder:
        snapshot = str(Path(folder, "cluster.ksnap"))
        measure(["snapshot", "save", "-f", options.directory, "-o", snapshot])
        reading = measure_median(["snapshot", "show", snapshot], options.runs)
        print(*HEADER, sep="\n", flush=True)
        rows = []
        for name, arguments in build_questions(Path(folder), snapshot).items():
            if options.only and name not in options.only:
                continue
            usage = measure_median(arguments, options.runs)
            ratio = usage.cpu_seconds / reading.cpu_seconds
            command, comma, details = name.partition(",")
            label = f"`{command}`{comma}{details}"
            rows.append(f"| {label} | {usage.cpu_seconds:.1f} s | {usage.peak_mebibytes:,.0f} MiB | {ratio:.1f} |")
            print(rows[-1], flush=True)
    if options.update:
        replace_table(rows)


if __name__ == "__main__":
    main()
