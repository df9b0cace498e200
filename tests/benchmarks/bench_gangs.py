"""Measure the placement of whole pod groups in a big simulated cluster.

    python tests/benchmarks/bench_gangs.py [--nodes 5000] [--gangs 1000] [--pods 8] [--cpu 2]

With more ``--cpu`` a pod, or fewer nodes, some gangs do not fit: each of them is tried, and taken back.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from peak_memory import print_peak_memory

from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
GATES = {"GenericWorkload": True, "GangScheduling": True}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def build_node(i: int) -> Json:
    """Build an empty node in one of three zones."""
    labels = {ZONE: f"zone-{i % 3}", HOSTNAME: f"node-{i:05}"}
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": f"node-{i:05}", "labels": labels},
        "status": {"allocatable": allocatable},
    }


def build_gang(number: int, pods: int, cpu: int) -> Iterator[Json]:
    """Build a PodGroup and its pods, which must all fit."""
    name = f"gang-{number:05}"
    metadata, policy = {"name": name, "namespace": "bench"}, {"gang": {"minCount": pods}}
    version = "scheduling.k8s.io/v1alpha2"
    yield {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}}
    container = {"name": "c", "image": "train", "resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}}}
    spec = {"containers": [container], "schedulingGroup": {"podGroupName": name}}
    for i in range(pods):
        own = {"name": f"{name}-{i}", "namespace": "bench", "uid": f"{name}-{i}", "labels": {"job": name}}
        yield {"kind": "Pod", "metadata": own, "spec": spec}


def main() -> None:
    """Measure a simulation of gangs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, usual in (("nodes", 5000), ("gangs", 1000), ("pods", 8), ("cpu", 2)):
        parser.add_argument(f"--{option}", type=int, default=usual)
    wanted = parser.parse_args()
    objects = [build_node(i) for i in range(wanted.nodes)]
    for number in range(wanted.gangs):
        objects += build_gang(number, wanted.pods, wanted.cpu)
    cluster = Cluster.from_objects(objects, feature_gates=GATES)
    start = perf_counter()
    simulation = Simulation(Scheduler(cluster))
    outcomes = simulation.schedule(range(len(simulation.view.pods)))
    took = perf_counter() - start
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"{wanted.gangs} gangs of {wanted.pods} on {wanted.nodes} nodes: {took:.2f} s, {dict(counts)}")


if __name__ == "__main__":
    main()
    print_peak_memory()
