"""Measure the outlook on Kueue's queues, by the number of ClusterQueues.

    python tests/benchmarks/bench_kueue.py [--queues 50 200 1000] [--workloads 20] [--nodes 5]

``--workloads`` and ``--nodes`` are numbers for each ClusterQueue. Four Workloads of each queue hold quota. The queues
are in 50 cohorts below one root, each of them may reclaim quota from all others, and half of the requests do not fit
without preemption. ``ratio`` is the time for each try, compared with that of the first line of the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from peak_memory import print_peak_memory

from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.queues import queues
from kschedctl.kueue.installation import KueueInstallation
from kschedctl.kueue.outlook import start_replay

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CREATED, NOW = "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"
FLAVORS = ("a", "b")
COHORTS, HOLDERS = 50, 4


def main() -> None:
    """Print the CPU time of the start, of three cycles, and of the whole report for each number of queues."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--workloads", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=5)
    options = parser.parse_args()
    print(f"{'queues':>6} {'Workloads':>9} {'nodes':>6} {'start s':>8} {'cycles s':>8} {'ratio':>6} {'report s':>8}")
    baseline = 0.0
    for count in options.queues:
        cluster = Cluster.from_objects(list(iter_objects(count, count * options.workloads, count * options.nodes)))
        started = time.process_time()
        replay = start_replay(cluster, parse_microseconds(NOW), KueueInstallation())
        start = time.process_time() - started
        started, tries = time.process_time(), 0
        for _ in range(3):
            result = replay.run_cycle()
            tries += 0 if result is None else len(result.order)
            replay.settle()
        cycles = time.process_time() - started
        per_try = cycles / max(tries, 1)
        baseline = baseline or per_try
        started = time.process_time()
        report = queues(cluster, now=NOW)
        took = time.process_time() - started
        workloads, nodes = count * options.workloads, count * options.nodes
        ratio = per_try / baseline
        print(f"{count:6} {workloads:9} {nodes:6} {start:8.2f} {cycles:8.2f} {ratio:6.2f} {took:8.2f}   {report}")
        for doubt in report.doubts:
            print(f"       {doubt}")


def iter_objects(queue_count: int, workload_count: int, node_count: int) -> Iterator[Json]:
    """Yield ClusterQueues with their cohorts and flavors, Workloads of which some hold quota, and nodes."""
    for flavor in FLAVORS:
        yield build_object("ResourceFlavor", flavor, {"nodeLabels": {"pool": flavor}})
    for cohort in range(COHORTS):
        yield build_object("Cohort", f"co{cohort}", {"parentName": "root"})
    resources = [{"name": "cpu", "nominalQuota": "100"}, {"name": GPU, "nominalQuota": 16}]
    flavors = [{"name": flavor, "resources": resources} for flavor in FLAVORS]
    for number in range(queue_count):
        spec = {
            "namespaceSelector": {},
            "cohortName": f"co{number % COHORTS}",
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}],
        }
        yield build_object("ClusterQueue", f"q{number}", spec)
        yield build_object("LocalQueue", f"q{number}", {"clusterQueue": f"q{number}"}, "ai")
    for number in range(workload_count):
        yield build_workload(number, queue_count)
    for number in range(node_count):
        labels = {"pool": FLAVORS[number % 2], "kubernetes.io/hostname": f"n{number}"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": labels},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}},
        }


def build_workload(number: int, queue_count: int) -> Json:
    """Build a Workload. The first few of each queue hold quota."""
    queue, turn, pods = number % queue_count, number // queue_count, 1 + number % 4
    cpu, gpus = 1 + number % 4, 1 + turn % 8
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu), GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": f"q{queue}", "priority": number % 5, "podSets": [pod_set]}
    workload = build_object("Workload", f"w{number}", spec, "ai")
    if turn < HOLDERS:
        flavor = FLAVORS[turn % 2]
        usage = {"cpu": str(pods * cpu), GPU: str(pods * gpus)}
        assignment = {
            "name": "main",
            "count": pods,
            "flavors": dict.fromkeys(("cpu", GPU), flavor),
            "resourceUsage": usage,
        }
        workload["status"] = {
            "admission": {"clusterQueue": f"q{queue}", "podSetAssignments": [assignment]},
            "conditions": [
                {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": CREATED}
                for kind in ("QuotaReserved", "Admitted")
            ],
        }
    return workload


def build_object(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    """Build an object of Kueue."""
    metadata = {"name": name, "uid": f"{kind}-{namespace}-{name}", "creationTimestamp": CREATED}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    main()
    print_peak_memory()
