"""Processor time and peak memory of ``capacity -f`` on a big cluster and of ``make-room -f`` on the demo.

    python tests/benchmarks/make_cluster.py DIR && kschedctl snapshot save -f DIR FILE
    python tests/benchmarks/bench_room.py FILE [--runs 3]

Each question is a whole process, as a user starts it, and the median of its runs is printed. The baselines run in turn
with it: ``capacity --max 1`` on the same snapshot, and a process that imports numpy. ``capacity`` fills the cluster
with a bare pod and with a Deployment of the same pod, whose replicas are spread by default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from peak_memory import print_peak_memory


class Usage(NamedTuple):
    """The resources that a process and its children used."""

    seconds: float
    """Processor time, user and system."""
    mebibytes: float
    """Peak memory of the largest process."""


MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
"""A small process that runs another one, and counts what that one and its workers used."""


def run_process(arguments: Sequence[str]) -> Usage:
    """Run Python with these arguments and return its usage. Raises RuntimeError if there is no answer."""
    command = [sys.executable, "-c", MEASURE, sys.executable, *arguments]
    measured = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    code, seconds, mebibytes = measured.stdout.split()
    if code not in {"0", "1", "5"}:
        raise RuntimeError(f"no answer: python {' '.join(arguments)}")
    return Usage(float(seconds), float(mebibytes))


def build_pod_spec(cpu: str, memory: str) -> dict[str, Any]:
    """Build the spec of a pod with these requests."""
    return {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}


def build_deployment(namespace: str, replicas: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Build a Deployment of these pods."""
    labels = {"app": "more"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "more", "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def print_question(name: str, question: Sequence[str], baseline: Sequence[str], runs: int) -> None:
    """Run a question and its baseline in turn, and print the medians and their ratio."""
    usages = []
    baselines = []
    for _ in range(runs):
        baselines.append(run_process(baseline))
        usages.append(run_process(question))
    seconds = median(usage.seconds for usage in usages)
    base_seconds = median(usage.seconds for usage in baselines)
    mebibytes = median(usage.mebibytes for usage in usages)
    print(
        f"{name:<32}{seconds:>8.1f} s{mebibytes:>8.0f} MiB{base_seconds:>8.2f} s baseline, "
        f"ratio {seconds / base_seconds:.1f}",
        flush=True,
    )


def main() -> None:
    """Measure each question beside its baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    small = build_pod_spec("100m", "128Mi")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "more", "namespace": "default"}, "spec": small}
    manifests = {
        "pod": pod,
        "deployment": build_deployment("default", 1, small),
        "six": build_deployment("shop", 6, build_pod_spec("1500m", "2Gi")),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.json") for name in manifests}
        for name, manifest in manifests.items():
            Path(files[name]).write_text(json.dumps(manifest))
        for name in ("pod", "deployment"):
            question = ["-m", "kschedctl", "capacity", "-f", files[name], "--snapshot", str(options.snapshot)]
            print_question(f"capacity, {name}", question, [*question, "--max", "1"], options.runs)
        question = ["-m", "kschedctl", "make-room", "-f", files["six"], "--demo", "--search-seconds", "200"]
        print_question("make-room, 6 pods, demo", question, ["-c", "import numpy"], options.runs)


if __name__ == "__main__":
    main()
    print_peak_memory()
