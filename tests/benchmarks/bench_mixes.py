"""Measure simulations of the pod mixes of kube-scheduler's own benchmark, relative to plain pods.

    python tests/benchmarks/bench_mixes.py [--rounds 3]

The mixes are those of test/integration/scheduler_perf in the Kubernetes repository: SchedulingBasic, PreemptionAsync
and SchedulingWithResourceClaimTemplate. ``share`` is the rate of a mix divided by the rate of SchedulingBasic.
``kube-scheduler`` is the same quotient of the rates that kube-scheduler must reach in its own CI (``threshold`` in
performance-config.yaml), which differ by a few percent from release to release.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from time import process_time
from typing import NamedTuple

from bench_simulate import (
    Json,
    build_claim_template,
    build_device_class,
    build_device_slice,
    build_node,
    build_pod,
    build_running_pod,
)
from peak_memory import print_peak_memory

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.scheduler.simulation.simulation import Simulation


class Mix(NamedTuple):
    """A workload of scheduler_perf."""

    name: str
    threshold: int
    """The pods per second that kube-scheduler must schedule."""
    cluster: Sequence[Json]
    pods: Sequence[Json]
    """The pods to schedule, in the order of their creation."""


def build_small_node(i: int) -> Json:
    """Build a node with 4 CPUs and 32 GiB, as scheduler_perf does."""
    node = build_node(i)
    return node | {"status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}}}


def build_requesting_pod(name: str, cpu: str, **spec: object) -> Json:
    """Build a pod without a controller that requests CPU and 500 MiB; ``spec`` adds to its spec."""
    container = {"name": "pause", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}
    return build_pod(name, {}, {"containers": [container], **spec})


def build_plain_mix() -> Mix:
    """Build SchedulingBasic, 5000Nodes_10000Pods."""
    pods = [build_requesting_pod(f"pod-{i:05}", "100m") for i in range(10_000)]
    return Mix("SchedulingBasic", 680, [build_small_node(i) for i in range(5000)], pods)


def build_preemption_mix() -> Mix:
    """Build PreemptionAsync, 5000Nodes: five pods that must preempt come each second, beside 570 that need not."""
    plain_per_preemptor = 114
    nodes = [build_small_node(i) for i in range(5000)]
    low = [build_running_pod(i, f"node-{i // 4:05}", "900m") for i in range(4 * len(nodes))]
    pods = []
    for i in range(5000):
        if i % plain_per_preemptor == 0:
            pods.append(build_requesting_pod(f"urgent-{i:05}", "3", priorityClassName="high"))
        pods.append(build_requesting_pod(f"pod-{i:05}", "100m"))
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    return Mix("PreemptionAsync", 570, [*nodes, *low, high], pods)


def build_device_mix() -> Mix:
    """Build SchedulingWithResourceClaimTemplate, 5000pods_500nodes: a device for each pod."""
    nodes = [build_small_node(i) for i in range(500)]
    devices = [build_device_slice(i) for i in range(len(nodes))]
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    pods = [build_requesting_pod(f"pod-{i:05}", "100m", resourceClaims=claims) for i in range(2500)]
    cluster = [*nodes, build_device_class(), build_claim_template(), *devices]
    return Mix("SchedulingWithResourceClaimTemplate", 56, cluster, pods)


def measure_rate(mix: Mix) -> float:
    """Return how many pods of the mix are simulated per second of CPU time."""
    prepared = prepare_simulation(Cluster.from_objects(mix.cluster), mix.pods)
    simulation = Simulation(prepared.scheduler)
    positions = [simulation.view.pods.index[key] for key in prepared.workload_by_pod]
    start = process_time()
    outcomes = simulation.run(positions)
    seconds = process_time() - start
    assert all(outcome.row >= 0 for outcome in outcomes)
    return len(positions) / seconds


def main() -> None:
    """Print the share of each mix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    mixes = [build_plain_mix(), build_preemption_mix(), build_device_mix()]
    rates = [[measure_rate(mix) for mix in mixes] for _ in range(arguments.rounds)]
    print(f"{'mix':<38}{'pods/s':>10}{'share':>8}{'kube-scheduler':>16}")
    for i, mix in enumerate(mixes):
        rate = median(row[i] for row in rates)
        share = median(row[i] / row[0] for row in rates)
        print(f"{mix.name:<38}{rate:>10,.0f}{share:>8.2f}{mix.threshold / mixes[0].threshold:>16.2f}")


if __name__ == "__main__":
    main()
    print_peak_memory()
