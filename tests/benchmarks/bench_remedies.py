"""Measure the search for fixes on a big cluster, relative to one replay of the pod's cycle.

    python tests/benchmarks/bench_remedies.py [--nodes 5000] [--pods 30] [--most 3] [--pending 1000]

The cluster is built in memory: nodes in four zones and three pools, one of them tainted, with pods of 400 Deployments
that leave some room on each node. Each pod that is asked about fits nowhere, for another reason. In the end many pods
of 20 Deployments wait, half for a label that no node has, half for more cpu than is free: all are asked about at once.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from peak_memory import print_peak_memory

from kschedctl.api import objects as api
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.remedies.pending_fixes import find_remedies_of_many
from kschedctl.commands.remedies.report import RemediesOfMany
from kschedctl.fixes.proposals import iter_fixes_at_node, iter_node_independent_fixes
from kschedctl.fixes.search import RemedyCriteria, RemedySearch
from kschedctl.fixes.trial.trials import Trials
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.settling import settle
from kschedctl.scheduler.scheduler import Scheduler

ZONE, HOSTNAME, POOL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "pool"
WORKLOADS = 400


def build_cluster(nodes: int, pods_a_node: int, seed: int = 0) -> Cluster:
    """Build a cluster of three node pools with pods of many workloads."""
    chance = random.Random(seed)
    found = [_build_node(i) for i in range(nodes)]
    pods = [_build_pod(i, chance, found[i % nodes].metadata.name) for i in range(nodes * pods_a_node)]
    classes = [api.PriorityClass(metadata=api.ObjectMeta(name="high"), value=1000)]
    return Cluster.of({"Node": found, "Pod": pods, "PriorityClass": classes})


def _build_node(number: int) -> api.Node:
    """Build a node of one of three pools."""
    name, pool = f"node-{number:05}", "abc"[number % 3]
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 4}", POOL: pool}
    taints = (api.Taint("team", "data", "NoSchedule"),) if pool == "c" else ()
    allocatable: api.Resources = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    meta = api.ObjectMeta(name=name, labels=labels)
    return api.Node(meta, api.NodeSpec(taints=taints), api.NodeStatus(allocatable=allocatable))


def _build_pod(number: int, chance: random.Random, node: str) -> api.Pod:
    """Build a running pod of a random workload."""
    app = f"app-{chance.randrange(WORKLOADS)}"
    owner = api.OwnerReference(kind="ReplicaSet", name=f"{app}-5f", controller=True)
    labels = {"app": app, "pod-template-hash": "5f"}
    meta = api.PodMeta(name=f"pod-{number:06}", namespace="bench", labels=labels, owner_references=(owner,))
    cpu = f"{chance.choice((500, 900, 1100))}m"
    return api.Pod(meta, api.PodSpec(containers=(_build_container(cpu, "2Gi"),), node_name=node, priority=0))


def _build_container(cpu: str, memory: str) -> api.Container:
    """Build a container with these requests."""
    return api.Container(name="c", resources=api.ResourceRequirements(requests={"cpu": cpu, "memory": memory}))


def build_pending_pod(cpu: str = "1", memory: str = "1Gi", **spec: Any) -> api.Pod:
    """Build a pod that was not created yet."""
    meta = api.PodMeta(name="asked", namespace="bench", labels={"app": "app-1"})
    return api.Pod(meta, api.PodSpec(containers=(_build_container(cpu, memory),), **spec))


def build_constraint_fields() -> dict[str, Any]:
    """Build spec fields that spread over zones, keep away from one workload, and require one that does not exist."""
    own, other, none = (api.LabelSelector(match_labels={"app": name}) for name in ("app-1", "app-3", "app-none"))
    even = api.TopologySpreadConstraint(1, ZONE, "DoNotSchedule", own, min_domains=5)
    near = api.PodAffinity((api.PodAffinityTerm(none, topology_key=ZONE),))
    apart = api.PodAffinity((api.PodAffinityTerm(other, topology_key=HOSTNAME),))
    return {"topology_spread_constraints": (even,), "affinity": api.Affinity(None, near, apart)}


CASES: Mapping[str, Callable[[], api.Pod]] = {
    "more cpu than a node has": lambda: build_pending_pod("40"),
    "no room for cpu and memory": lambda: build_pending_pod("12", "90Gi"),
    "a typo in the selector": lambda: build_pending_pod(node_selector={"Pool": "a"}),
    "no such pool, too much cpu": lambda: build_pending_pod("40", node_selector={POOL: "gpu"}),
    "spread, near, apart": lambda: build_pending_pod(**build_constraint_fields()),
    "an extended resource": lambda: api.Pod(
        build_pending_pod().metadata,
        api.PodSpec(containers=(api.Container(name="c", resources=api.ResourceRequirements({"x.com/gpu": "1"})),)),
    ),
}


def build_waiting_pods(number: int) -> list[api.Pod]:
    """Build pods of 20 Deployments that fit nowhere."""
    found = []
    for i in range(number):
        app = f"late-{i % 20}"
        owner = api.OwnerReference(kind="ReplicaSet", name=f"{app}-5f", controller=True)
        labels = {"app": app, "pod-template-hash": "5f"}
        meta = api.PodMeta(f"late-{i:05}", "bench", f"uid-{i}", labels=labels, owner_references=(owner,))
        more = build_pending_pod(node_selector={POOL: f"q{i % 20}"}) if i % 2 else build_pending_pod(f"{14 + i % 20}")
        found.append(api.Pod(meta, more.spec))
    return found


def measure_many_pods(cluster: Cluster, number: int) -> None:
    """Find fixes for all pending pods together, compared with a simulation of the queue."""
    late = build_waiting_pods(number)
    both = add_or_replace_pods(cluster, late)
    one = min(measure_cpu_seconds(partial(settle, both)) for _ in range(2))
    report: list[RemediesOfMany] = []
    took = measure_cpu_seconds(lambda: report.append(find_remedies_of_many(both, {pod.key for pod in late}, "here")))
    found, rest = report[0], "" if report[0].complete else ", not all tried"
    print(f"{number} pending pods{'':16} one simulation {one * 1000:6.0f} ms of CPU")
    print(f"  {took * 1000:8.0f} ms, {took / one:.0f} times as long, {found.cleared} of {found.waiting} cleared{rest}")
    print_queue_search(both, late, one)


def print_queue_search(cluster: Cluster, waiting: Sequence[api.Pod], one: float) -> None:
    """Print the time to find the first fixes of a pod while others wait, in units of a simulation of the queue."""
    for pod in waiting[:2]:
        took = measure_cpu_seconds(partial(explain, cluster, pod.key, remedies=True))
        print(f"first fixes of {pod.key:11} {took * 1000:8.0f} ms of CPU, {took / one:.0f} times one simulation")


def measure_cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of this process, which other processes of the machine hardly change."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measure_seconds(action: Callable[[], object]) -> float:
    """Return the wall seconds of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the search for fixes per case and number of changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 5000), ("pods", 30), ("most", 3), ("pending", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    cluster = build_cluster(options.nodes, options.pods)
    scheduler = Scheduler(cluster)
    print(f"{options.nodes} nodes, {options.nodes * options.pods} pods; sets of up to so many changes")
    for name, make in CASES.items():
        assert not Trials(scheduler, make()).base.works
        replays = [measure_seconds(partial(Trials, scheduler, make())) for _ in range(5)]
        print(f"{name:28} one replay {min(replays) * 1000:6.1f} ms")
        for most in range(1, options.most + 1):
            trials = Trials(scheduler, make())
            search = RemedySearch(trials, iter_fixes_at_node, iter_node_independent_fixes, RemedyCriteria(most))
            took = measure_seconds(search.run)
            rest = "" if search.is_exhaustive else ", not all tried"
            times = f"{took * 1000:8.0f} ms, {took / min(replays):6.0f} times as long, {trials.replayed} replays"
            print(f"  {most}: {times}, {len(search.working_trials)} found{rest}")
    measure_many_pods(cluster, options.pending)


if __name__ == "__main__":
    main()
    print_peak_memory()
