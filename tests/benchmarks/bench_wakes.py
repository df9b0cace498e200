"""Measure ``wakes``: the effect of one event on many pending pods, after the cluster was read.

    python tests/benchmarks/bench_wakes.py [--nodes 5000] [--pods 1000] [--distinct 1000]

The aim: one event for 1,000 pods at 5,000 nodes within 2 s of a processor, the attempts that tell who refused each pod
included.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

from peak_memory import print_peak_memory

import kschedctl
from kschedctl.commands.wakes.changes import parse_changes
from kschedctl.commands.wakes.many import replay_changes_for_pods
from kschedctl.scheduler.scheduler import Scheduler

Object = dict[str, Any]
ZONES = ("a", "b", "c")
EVENTS: dict[str, Object] = {
    "a node is added": {
        "kind": "Node",
        "metadata": {"name": "new", "labels": {"kubernetes.io/hostname": "new", "zone": "a", "pool": "p0"}},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
    },
    "a pod is deleted": {
        "action": "Delete",
        "old": {
            "kind": "Pod",
            "metadata": {"name": "gone", "namespace": "default", "labels": {"app": "a1"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        },
    },
}


def build_node(number: int) -> Object:
    """Build a node of one of ten pools in one of three zones."""
    labels = {"kubernetes.io/hostname": f"n{number}", "zone": ZONES[number % 3], "pool": f"p{number % 10}"}
    taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if number % 7 == 0 else []
    return {
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def build_pending_pod(number: int, distinct: int) -> Object:
    """Build a pending pod of one of ``distinct`` shapes, which no node has room for."""
    sort = number % distinct
    rng = random.Random(sort)
    spec: Object = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{9000 + sort}m", "memory": "1Gi"}}}],
        "nodeSelector": {"pool": f"p{rng.randrange(10)}"} if rng.random() < 0.5 else {},
    }
    selector = {"matchLabels": {"app": f"a{rng.randrange(20)}"}}
    if rng.random() < 0.3:
        term = {"labelSelector": selector, "topologyKey": "zone"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if rng.random() < 0.3:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [spread]
    labels = {"app": f"a{rng.randrange(20)}"}
    return {"kind": "Pod", "metadata": {"name": f"w{number}", "namespace": "default", "labels": labels}, "spec": spec}


def build_running_pod(number: int, nodes: int) -> Object:
    """Build a pod that runs on a node."""
    labels = {"app": f"a{number % 20}"}
    requests = {"cpu": "1", "memory": "2Gi"}
    spec = {"nodeName": f"n{number % nodes}", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return {"kind": "Pod", "metadata": {"name": f"r{number}", "namespace": "default", "labels": labels}, "spec": spec}


def main() -> None:
    """Print the time to find the pods that an event wakes."""
    parser = argparse.ArgumentParser(description="Time of wakes for one event.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--distinct", type=int, default=1000, help="so many sorts of pods")
    parser.add_argument("--running", type=int, default=20_000)
    options = parser.parse_args()
    objects = [build_node(number) for number in range(options.nodes)]
    objects += [build_running_pod(number, options.nodes) for number in range(options.running)]
    objects += [build_pending_pod(number, options.distinct) for number in range(options.pods)]
    cluster = kschedctl.Cluster.from_objects(objects)
    for name, event in EVENTS.items():
        start = time.process_time()
        scheduler = Scheduler(cluster)
        changes = parse_changes([event], scheduler.view)
        ready = time.process_time()
        report = replay_changes_for_pods(scheduler, list(cluster.unbound_pods()), changes, "")
        took, woken = time.process_time() - ready, sum(answer.moved for answer in report.answers)
        print(f"{name:18} {woken:5} of {options.pods} pods woken: {took:.2f} s, the view {ready - start:.2f} s")


if __name__ == "__main__":
    main()
    print_peak_memory()
