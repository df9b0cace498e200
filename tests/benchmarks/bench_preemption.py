"""Measure the dry run of preemption on a big cluster, relative to one that goes node by node.

    python tests/benchmarks/bench_preemption.py [--nodes 5000] [--pods 30] [--sample 10] [--repeat 5]

The cluster is built in memory: nodes in four zones, each full of pods of lower priority from 400 workloads, some of
them under PodDisruptionBudgets. The naive dry run replays one node with its pods at a time; it is timed on a sample of
the nodes and extrapolated to all. Both must agree on the sample. Most of the naive time goes into the snapshots of
lone nodes, one for each answer.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from peak_memory import print_peak_memory

from kschedctl.api import objects as api
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, run_pre_filter
from kschedctl.scheduler.engine.preemption.dry_run import dry_run
from kschedctl.scheduler.engine.preemption.victims import LowerPriority
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "scheduler" / "preemption")]
from naive_preemption import Victims, get_priority, select_victims

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WORKLOADS = 400
CORES = 32


def build_cluster(nodes: int, pods_a_node: int, seed: int = 0) -> Cluster:
    """Build a cluster of full nodes, whose pods share all cores."""
    chance = random.Random(seed)
    found = [_build_node(f"node-{i:05}", f"zone-{i % 4}") for i in range(nodes)]
    cpu = CORES * 1000 // pods_a_node
    pods = [
        _build_pod(f"pod-{i}-{k}", chance.randrange(WORKLOADS), chance, cpu, node.metadata.name)
        for i, node in enumerate(found)
        for k in range(pods_a_node)
    ]
    budgets = [_build_budget(workload, chance.randrange(3)) for workload in range(0, WORKLOADS, 20)]
    return Cluster.of({"Node": found, "Pod": pods, "PodDisruptionBudget": budgets})


def _build_node(name: str, zone: str) -> api.Node:
    """Build a node in a zone."""
    labels = {HOSTNAME: name, ZONE: zone}
    allocatable: api.Resources = {"cpu": str(CORES), "memory": "128Gi", "pods": "110"}
    return api.Node(metadata=api.ObjectMeta(name=name, labels=labels), status=api.NodeStatus(allocatable=allocatable))


def _build_pod(name: str, workload: int, chance: random.Random, cpu: int, node_name: str) -> api.Pod:
    """Build a running pod of a workload. Some workloads have a host port."""
    ports = (api.ContainerPort(container_port=8080, host_port=9000 + workload % 100),) if workload % 4 == 0 else ()
    requests: api.Resources = {"cpu": f"{cpu}m", "memory": f"{256 + workload % 8 * 128}Mi"}
    container = api.Container(name="c", resources=api.ResourceRequirements(requests=requests), ports=ports)
    return api.Pod(
        metadata=api.PodMeta(name=name, namespace="bench", labels={"app": f"app-{workload}"}),
        spec=api.PodSpec(containers=(container,), node_name=node_name, priority=workload % 10 * 10),
        status=api.PodStatus(start_time=f"2026-01-{chance.randrange(1, 29):02}T{chance.randrange(24):02}:00:00Z"),
    )


def _build_budget(workload: int, allowed: int) -> api.PodDisruptionBudget:
    """Build the PodDisruptionBudget of a workload."""
    selector = api.LabelSelector(match_labels={"app": f"app-{workload}"})
    return api.PodDisruptionBudget(
        metadata=api.ObjectMeta(name=f"budget-{workload}", namespace="bench"),
        spec=api.PodDisruptionBudgetSpec(selector=selector),
        status=api.PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def build_preemptor(**spec: Any) -> api.Pod:
    """Build a pod of high priority that requests six cores.

    ``spec`` adds to its spec, and ``port`` is a host port.
    """
    ports = tuple(api.ContainerPort(container_port=8080, host_port=port) for port in spec.pop("ports", ()))
    requests: api.Resources = {"cpu": "6", "memory": "8Gi"}
    container = api.Container(name="c", resources=api.ResourceRequirements(requests=requests), ports=ports)
    return api.Pod(
        metadata=api.PodMeta(name="pending", namespace="bench", labels={"app": "app-1"}),
        spec=api.PodSpec(containers=(container,), priority=1_000, **spec),
    )


def build_spreading_fields() -> dict[str, Any]:
    """Build spec fields that spread over zones and keep away from one of the workloads."""
    own, other = (api.LabelSelector(match_labels={"app": name}) for name in ("app-1", "app-3"))
    spread = api.TopologySpreadConstraint(
        max_skew=1000, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=own
    )
    apart = api.PodAffinity((api.PodAffinityTerm(label_selector=other, topology_key=HOSTNAME),))
    return {"topology_spread_constraints": (spread,), "affinity": api.Affinity(pod_anti_affinity=apart)}


SCENARIOS: dict[str, dict[str, Any]] = {
    "cpu and memory": {},
    "and a host port": {"ports": (9008,)},
    "and spread, anti-affinity": build_spreading_fields(),
}


class LoneNode:
    """A node with its pods as a separate cluster, which is replayed again for each answer."""

    def __init__(self, cycle: Cycle, row: int) -> None:
        self.cycle, self.pods = cycle, [cycle.view.pods.objects[p] for p in cycle.view.pods_on(row)]
        self.cluster = Cluster.of({"Node": [cycle.view.nodes.objects[row]]})

    def remove(self, pod: api.Pod) -> None:
        self.pods.remove(pod)

    def add(self, pod: api.Pod) -> None:
        self.pods.append(pod)

    def fits(self) -> bool:
        """Return whether the pod fits on the node without the removed pods."""
        view = Fork.from_cluster(replace(self.cluster, pods=tuple(self.pods)), self.cycle.view.settings)
        pre_filter = run_pre_filter(self.cycle.framework.plugins_at("preFilter"), self.cycle.info, view)
        return bool(
            Filtering.from_framework(self.cycle.framework, pre_filter, self.cycle.info, view).run_filters().passing[0]
        )


def dry_run_naively(cycle: Cycle, row: int) -> Victims | str:
    """Dry-run preemption on one node, pod by pod."""
    node = LoneNode(cycle, row)
    budgets = cycle.view.cluster.pod_disruption_budgets
    return select_victims(node, list(node.pods), get_priority(cycle.info.pod), budgets)


def dry_run_together(cycle: Cycle) -> dict[int, Victims]:
    """Dry-run preemption on all nodes together."""
    selection = LowerPriority(cycle.view, cycle.info.priority)
    found = dry_run(cycle, np.ones(len(cycle.view.nodes), np.bool_), selection)
    pods = cycle.view.pods.objects
    return {c.row: Victims([pods[p].key for p in c.victims], c.pdb_violations) for c in found.candidates}


def measure_fastest(action: Callable[[], object], repeat: int) -> float:
    """Return the seconds of the fastest of several runs."""
    times = []
    for _ in range(repeat):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare preemption on all nodes together with preemption node by node."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 5000), ("pods", 30), ("sample", 10), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    scheduler = Scheduler(build_cluster(options.nodes, options.pods))
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    print(f"{options.nodes} nodes with {options.pods} pods of lower priority each")
    for name, spec in SCENARIOS.items():
        cycle = scheduler.run_cycle(framework, scheduler.view.build_stored_pod(build_preemptor(**spec)))
        assert not cycle.schedulable
        found = dry_run_together(cycle)
        everywhere = np.ones(options.nodes, np.bool_)
        fast = measure_fastest(
            partial(dry_run, cycle, everywhere, LowerPriority(cycle.view, cycle.info.priority)), options.repeat
        )
        victims = sum(len(each.keys) for each in found.values())
        print(f"{name:28} {fast * 1000:8.0f} ms  {len(found)} candidates, {victims} victims")
        if spec.get("topology_spread_constraints"):
            continue  # spreading looks at all nodes, a lone node cannot
        rows = np.linspace(0, options.nodes - 1, options.sample).astype(int).tolist()
        start = perf_counter()
        answers = {row: dry_run_naively(cycle, row) for row in rows}
        slow = (perf_counter() - start) / len(rows) * options.nodes
        assert answers == {row: found[row] for row in rows}
        print(f"{'  node by node':28} {slow * 1000:8.0f} ms  from {len(rows)} nodes, {slow / fast:.0f} times as long")


if __name__ == "__main__":
    main()
    print_peak_memory()
