"""Measure the replay of the Cluster Autoscaler's next loop on a big cluster, relative to a scheduling cycle.

    python tests/benchmarks/bench_autoscaling.py [--nodes 5000] [--pods 150000] [--groups 20] [--pending 1000]

Seconds of CPU after the cluster is loaded. ``cycles``: as many full scheduling cycles of one pod the same machine runs
in that time.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

from peak_memory import print_peak_memory

from kschedctl.autoscaling.cluster_autoscaler.scale_down import scale_down
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up
from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
NOW, BEFORE = "2026-06-01T12:00:00Z", "2026-05-31T12:00:00Z"
WORKLOADS = 100


def build_node(name: str, group: int) -> Json:
    """Build a node of a node group."""
    labels = {"kubernetes.io/hostname": name, "pool": f"g{group}", "topology.kubernetes.io/zone": f"z{group % 3}"}
    offers = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": BEFORE},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [ready]},
    }


def build_pod(number: int, on: str, cpu: int) -> Json:
    """Build a pod of a workload, on a node or pending."""
    owner = f"w{number % WORKLOADS}"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Running"} if on else {"phase": "Pending", "conditions": [refused]}
    requests = {"cpu": f"{cpu}m", "memory": "64Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-{number}",
            "namespace": "bench",
            "uid": f"p{number}",
            "labels": {"app": owner},
            "creationTimestamp": BEFORE,
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": status,
    }


def build_replica_set(number: int) -> Json:
    """Build the ReplicaSet of a workload."""
    name = f"w{number}"
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "bench", "uid": name},
        "spec": spec,
    }


def print_measurement(title: str, ask: Any, cycle: float) -> None:
    """Print the CPU seconds of a call, also in units of a scheduling cycle."""
    start = process_time()
    answer = ask()
    spent = process_time() - start
    print(f"{title:12} {spent:7.2f} s  {spent / cycle:9.0f} cycles  {answer}")


def main() -> None:
    """Measure scale-up and scale-down in a large cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--pending", type=int, default=1000)
    args = parser.parse_args()
    names = [f"n{i:05}" for i in range(args.nodes)]
    objects = [build_node(name, i % args.groups) for i, name in enumerate(names)]
    objects += [build_replica_set(i) for i in range(WORKLOADS)]
    objects += [build_pod(i, names[i % args.nodes], 100 + i % 400) for i in range(args.pods)]
    objects += [build_pod(args.pods + i, "", 12_000) for i in range(args.pending)]
    members = [names[g :: args.groups] for g in range(args.groups)]
    groups = [
        {"id": f"g{g}", "min": 0, "max": len(m) + 200, "target": len(m), "nodes": m} for g, m in enumerate(members)
    ]
    cluster = Cluster.from_objects(objects)
    scheduler = Scheduler(cluster)
    waiting = next(iter(cluster.unbound_pods()))
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    scheduler.run_cycle(framework, waiting)
    start = process_time()
    for _ in range(20):
        scheduler.run_cycle(framework, waiting)
    cycle = (process_time() - start) / 20
    print_measurement("scale up", lambda: f"{len(scale_up(cluster, groups, now=NOW).increases)} groups grow", cycle)
    low = {"scaleDownUtilizationThreshold": 1.0}
    print_measurement(
        "scale down", lambda: f"{len(scale_down(cluster, groups, low, now=NOW).unneeded)} unneeded", cycle
    )


if __name__ == "__main__":
    main()
    print_peak_memory()
