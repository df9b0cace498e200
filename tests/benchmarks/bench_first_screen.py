"""Measure the first steps of a new user: lines to the cause and the first command, summaries, and the installation."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from make_cluster import write_cluster
from peak_memory import print_peak_memory

import kschedctl
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

ROOT = Path(__file__).parents[2]
AFTER_CAUSE = ("  - ", "Best fix:", "How to", "kube-scheduler:", "What to do", "the only pending pod")


def run_and_split_lines(arguments: Sequence[str], columns: int) -> list[str]:
    """Return the lines that a command prints. Raises RuntimeError if it fails."""
    environment = {**os.environ, "COLUMNS": str(columns)}
    command = [sys.executable, "-m", "kschedctl", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"failed: {' '.join(arguments)}: {done.stderr}")
    return done.stdout.splitlines()


def count_cause_lines(lines: Sequence[str]) -> int:
    """Count the lines of the verdict and its cause."""
    return next(at for at, line in enumerate(lines) if not line or line.startswith(AFTER_CAUSE))


def find_command_line(lines: Sequence[str]) -> int:
    """Return the number of the first line with a command to type."""
    return next(at for at, line in enumerate(lines, 1) if line.startswith(("  kubectl ", "  kschedctl ", "more: ")))


def print_screens() -> None:
    """Print a line for each pending pod of the demo cluster."""
    print(f"{'pod':34}{'cause':>7}{'command':>9}{'brief':>7}   (lines; 80, 80 and 45 columns)")
    for pod in run_and_split_lines(["explain", "-A", "--demo", "-o", "name"], 80):
        full = run_and_split_lines(["explain", pod, "--demo"], 80)
        brief = run_and_split_lines(["explain", pod, "--demo", "--brief"], 45)
        print(f"{pod:34}{count_cause_lines(full):7}{find_command_line(full):9}{len(brief):7}")


def measure_longest_summary(cluster: kschedctl.Cluster) -> int:
    """Return the size of the longest summary of ten pending pods, as ``-o json --summary`` prints it."""
    pods = [pod.key for pod in cluster.unbound_pods()][:10]
    summaries = (kschedctl.explain(cluster, pod).summary() for pod in pods)
    return max(len(RENDERERS["json"](summary, Style()).encode()) for summary in summaries)


def measure_installation() -> float:
    """Return the megabytes that pip installs for kschedctl, in a separate folder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = next(Path(folder).glob("bin/python"))
        packages = next(Path(folder).glob("lib/python*/site-packages"))
        empty = _measure_folder(packages)
        subprocess.run([str(python), "-m", "pip", "install", "-q", str(ROOT)], check=True)
        return (_measure_folder(packages) - empty) / 1e6


def _measure_folder(folder: Path) -> int:
    """Return the size of a folder in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Print the lengths of first screens, summaries and README, and the size of an installation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--install", action="store_true")
    options = parser.parse_args()
    print_screens()
    demo = kschedctl.Cluster.from_paths([ROOT / "kschedctl/demo/cluster.json"])
    print(f"summary, {len(demo.nodes):,} nodes: {measure_longest_summary(demo):,} bytes")
    with tempfile.TemporaryDirectory() as folder:
        write_cluster(Path(folder), options.nodes, options.pods)
        big = kschedctl.Cluster.from_paths([Path(folder)])
        print(f"summary, {len(big.nodes):,} nodes: {measure_longest_summary(big):,} bytes")
    print(f"README: {len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines())} lines")
    if options.install:
        print(f"base installation: {measure_installation():.0f} MB")


if __name__ == "__main__":
    main()
    print_peak_memory()
