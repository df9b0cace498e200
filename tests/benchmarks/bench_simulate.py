"""Measure how many pods per second a simulation places, case by case, and the loss of each zone of a big cluster.

    python tests/benchmarks/bench_simulate.py [--nodes 1000 5000] [--pods 10000] [--cases plain spread ...]
    python tests/benchmarks/bench_simulate.py --fill     # kschedctl capacity until nodes are full
    python tests/benchmarks/bench_simulate.py --sweep    # every zone of a big cluster lost in turn
    python tests/benchmarks/bench_simulate.py --full     # the same where nodes are full of pods of 50 priorities
    python tests/benchmarks/bench_simulate.py --limits   # with ten ResourceQuotas and LimitRanges, and without

``pods/s`` is the simulation alone, by CPU time; ``process`` and ``memory`` are a whole run of the program, from reading
the files to the answer. As machines differ, ``cycles/s`` tells how many full scheduling cycles of the first pod the
same machine runs in a second, which is what a simulation without memory would do. The pods of ``preemption`` and
``devices`` belong to Deployments, over which kube-scheduler spreads them by default: compare them with ``deployment``.
The pods of ``plain`` have no controller and are not spread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

from peak_memory import print_peak_memory

from kschedctl.cluster import Cluster
from kschedctl.commands.failures import simulate_failures
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "gpu.example.com"
TEMPLATES = 50
PRIORITIES = 50
NOMINATED = 50


def build_node(i: int) -> Json:
    """Build an empty node in one of three zones."""
    labels = {ZONE: f"zone-{i % 3}", HOSTNAME: f"node-{i:05}"}
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    metadata = {"name": f"node-{i:05}", "labels": labels, "uid": f"node-{i}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def build_deployment(name: str, replicas: int, cpu: int, **spec: Any) -> Json:
    """Build a Deployment whose pods request an amount of CPU; ``spec`` adds to their spec."""
    requests = {"cpu": f"{cpu}m", "memory": "128Mi"}
    container = {"name": "c", "image": "web", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "bench"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body}


def build_selector(name: str) -> Json:
    """Build a selector of the pods of an app."""
    return {"matchLabels": {"app": name}}


def build_zone_spread(name: str) -> Json:
    """Build spec fields that spread the pods of an app."""
    hard = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": build_selector(name),
    }
    soft = {**hard, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [hard, soft]}


def build_anti_affinity(name: str) -> Json:
    """Build spec fields that keep the pods of an app on different nodes."""
    term = {"topologyKey": HOSTNAME, "labelSelector": build_selector(name)}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def build_affinity(name: str) -> Json:
    """Build spec fields that prefer nodes near pods of an app."""
    term = {"topologyKey": ZONE, "labelSelector": build_selector(name)}
    weighted = {"weight": 10, "podAffinityTerm": term}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def make_deployments_builder(rules: Callable[[str], Json], count: int) -> Callable[[int, int], list[Json]]:
    """Return a function that builds ``count`` Deployments which share the pods evenly."""

    def make(pods: int, nodes: int) -> list[Json]:
        return [build_deployment(f"app-{i}", pods // count, 100 + i, **rules(f"app-{i}")) for i in range(count)]

    return make


def make_bare_pods_builder(count: int) -> Callable[[int, int], list[Json]]:
    """Return a function that builds pods without a controller, of ``count`` templates in turn."""

    def make(pods: int, nodes: int) -> list[Json]:
        specs = [build_deployment("app", 1, 100 + i)["spec"]["template"]["spec"] for i in range(count)]
        labels = [{"app": f"app-{i}"} for i in range(count)]
        return [build_pod(f"pod-{i:05}", labels[i % count], specs[i % count]) for i in range(pods)]

    return make


def build_pod(name: str, labels: Json, spec: Json) -> Json:
    """Build a pod with these labels and spec."""
    metadata = {"name": name, "namespace": "bench", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def build_anti_affine_deployments(pods: int, nodes: int) -> list[Json]:
    """Build as many templates as needed to have room for one pod per node of each."""
    count = -(-pods // nodes)
    return [build_deployment(f"app-{i}", pods // count, 100, **build_anti_affinity(f"app-{i}")) for i in range(count)]


def build_urgent_deployments(pods: int, nodes: int) -> list[Json]:
    """Build a few hundred pods that must preempt, after many that need not."""
    few = max(pods // 50, 1)
    return [
        build_deployment("urgent", few, 31_000, priorityClassName="high"),
        build_deployment("plain", pods - few, 100),
    ]


def build_device_deployment(pods: int, nodes: int) -> list[Json]:
    """Build a Deployment whose pods have a claim each, for one device that a CEL selector chooses."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return [build_deployment("app-0", pods, 100, resourceClaims=claims)]


CASES: dict[str, Callable[[int, int], list[Json]]] = {
    "plain": make_bare_pods_builder(1),
    "nominated": make_bare_pods_builder(1),
    "templates": make_bare_pods_builder(TEMPLATES),
    "deployment": make_deployments_builder(lambda name: {}, 1),
    "devices": build_device_deployment,
    "deployments": make_deployments_builder(lambda name: {}, TEMPLATES),
    "spread": make_deployments_builder(build_zone_spread, 1),
    "spread-templates": make_deployments_builder(build_zone_spread, TEMPLATES),
    "anti-affinity": build_anti_affine_deployments,
    "affinity": make_deployments_builder(build_affinity, 1),
    "preemption": build_urgent_deployments,
}


def build_cluster_objects(case: str, nodes: int) -> list[Json]:
    """Build the cluster of a case.

    Its nodes are empty, have eight devices each, or have a large pod of low priority each.
    """
    found = [build_node(i) for i in range(nodes)]
    if case == "nominated":
        found += [build_nominated_pod(i, f"node-{i:05}") for i in range(NOMINATED)]
    if case == "devices":
        found += [build_device_class(), build_claim_template(), *map(build_device_slice, range(nodes))]
    if case == "preemption":
        found.append({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
        found += [build_running_pod(i, f"node-{i:05}", "2") for i in range(nodes)]
    return found


def build_device_class() -> Json:
    """Build the DeviceClass of the devices."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}


def build_claim_template() -> Json:
    """Build a claim template that does not match the first device of each node."""
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "large"'}}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": "gpu", "namespace": "bench"}, "spec": spec}


def build_device_slice(i: int) -> Json:
    """Build the ResourceSlice of a node with eight devices."""
    name = f"node-{i:05}"
    models = ["small"] + ["large"] * 7
    found = [{"name": f"gpu-{k}", "attributes": {"model": {"string": model}}} for k, model in enumerate(models)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": found}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{i:05}"}, "spec": spec}


def build_nominated_pod(i: int, node_name: str) -> Json:
    """Build a pod that waits until its victims have left the node."""
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "30", "memory": "256Mi"}}}
    waiting = build_pod(f"urgent-{i}", {"app": "urgent"}, {"priority": 1000, "containers": [container]})
    return waiting | {"status": {"phase": "Pending", "nominatedNodeName": node_name}}


def build_running_pod(i: int, node_name: str, cpu: str, app: str = "low") -> Json:
    """Build a running pod of low priority."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}
    metadata = {"name": f"{app}-{i}", "namespace": "bench", "labels": {"app": app}, "ownerReferences": [owner]}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    metadata["uid"] = f"{app}-{i}"
    spec = {"nodeName": node_name, "priority": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def measure_case(case: str, nodes: int, pods: int) -> str:
    """Run a case and return its line of the table."""
    from kschedctl.commands.simulate import prepare_simulation  # noqa: PLC0415 - only the library is measured elsewhere

    manifests = CASES[case](pods, nodes)
    shared = prepare_simulation(Cluster.from_objects(build_cluster_objects(case, nodes)), manifests)
    simulation = Simulation(shared.scheduler)
    positions = [simulation.view.pods.index[key] for key in shared.workload_by_pod]
    start = process_time()
    outcomes = simulation.run(positions)
    seconds = process_time() - start
    placed = sum(outcome.row >= 0 for outcome in outcomes)
    evicted = sum(len(outcome.victims) for outcome in outcomes)
    cycles = measure_cycle_rate(shared.scheduler, positions[0])
    seconds_, mebibytes = measure_process(["simulate"], build_cluster_objects(case, nodes), manifests)
    return (
        f"{case:<18}{nodes:>6}{len(positions):>8}{placed:>8}{evicted:>8}{len(positions) / seconds:>10,.0f}"
        f"{seconds / len(positions) * 1e6:>9,.0f}{cycles:>10,.0f}{seconds_:>8.1f} s{mebibytes:>8.0f} MiB"
    )


def measure_cycle_rate(scheduler: Scheduler, position: int) -> float:
    """Return how many full cycles run per second, each on its own."""
    view = scheduler.view.fork()
    info = view.pods.infos[view.pods.info[position]]
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    start, number = process_time(), 20
    for _ in range(number):
        run_cycle(framework, info, view)
    return number / (process_time() - start)


WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
if subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode not in (0, 1, 5):
    sys.exit("it gave no answer")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A small program that runs another, because a child of this process would be reported with its peak memory."""


def measure_process(command: list[str], cluster: list[Json], manifests: list[Json]) -> tuple[float, float]:
    """Return the seconds and the peak MiB of a run of the program."""
    with tempfile.TemporaryDirectory() as folder:
        for name, items in (("cluster.json", cluster), ("manifests.json", manifests)):
            (Path(folder) / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        files = [part for name in ("cluster.json", "manifests.json") for part in ("-f", f"{folder}/{name}")]
        program = [sys.executable, "-m", "kschedctl", *command, *files, "-o", "json"]
        found = subprocess.run([sys.executable, "-c", WATCH, *program], check=True, capture_output=True, text=True)
        seconds, kibibytes = found.stdout.split()
        return float(seconds), int(kibibytes) / 1024


def measure_filling(nodes: int) -> str:
    """Place pods of 2.4 cores until nodes of 32 cores are full, as cluster-capacity does."""
    requests = {"cpu": "2400m", "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": requests}}]}
    cluster = [build_node(i) for i in range(nodes)]
    seconds, mebibytes = measure_process(["capacity"], cluster, [build_pod("small", {}, spec)])
    return f"capacity, {nodes:,} nodes, {13 * nodes:,} pods: {seconds:.1f} s, {mebibytes:.0f} MiB, the whole process"


def measure_zone_sweep(nodes: int, pods: int) -> str:
    """Lose every zone in turn in a cluster with the pods of 400 workloads."""
    found = [build_node(i) for i in range(nodes)]
    found += [build_running_pod(i, f"node-{i % nodes:05}", "2", f"app-{i % 400}") for i in range(pods)]
    cluster = Cluster.from_objects(found)
    start = perf_counter()
    report = simulate_failures(cluster)
    seconds = perf_counter() - start
    displaced = sum(failure.displaced for failure in report.failures)
    return f"zone sweep, {nodes:,} nodes, {pods:,} pods: {displaced:,} pods placed anew in {seconds:.1f} s"


def measure_full_zone_sweep(nodes: int) -> str:
    """Lose every zone in turn while all nodes are full, so that lost pods must preempt."""
    chance = Random(0)
    found = [build_node(i) for i in range(nodes)]
    for number in range(4 * nodes):
        workload = chance.randrange(400)
        low = build_running_pod(number, f"node-{number % nodes:05}", "8", f"app-{workload}")
        found.append({**low, "spec": {**low["spec"], "priority": workload % PRIORITIES * 10}})
    cluster = Cluster.from_objects(found)
    start = process_time()
    report = simulate_failures(cluster)
    seconds = process_time() - start
    displaced, evicted = (sum(getattr(f, name) for f in report.failures) for name in ("displaced", "evicted"))
    return (
        f"zone sweep, {nodes:,} full nodes, {4 * nodes:,} pods: {displaced:,} pods displaced, {evicted:,} evicted in "
        f"{seconds:.1f} s of CPU time"
    )


LIMITS = 10
LIMITED = ("plain", "templates", "deployment", "deployments")


def build_limits() -> list[Json]:
    """Build ten quotas and ten LimitRanges that deny nothing and set no requests."""
    hard = {"pods": "1000000", "requests.cpu": "1000000", "requests.memory": "1000Ti"}
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    bounds = [{"type": "Container", "max": {"cpu": "64", "memory": "1Ti"}, "min": {"cpu": "1m", "memory": "1Mi"}}]
    found = []
    for i in range(LIMITS):
        metadata = {"name": f"limit-{i}", "namespace": "bench"}
        found.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status})
        found.append({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": bounds}})
    return found


def measure_limits(case: str, nodes: int, pods: int, rounds: int = 3) -> str:
    """Compare simulations with and without limits, run in turn, by their least CPU time."""
    from kschedctl.commands.simulate import simulate  # noqa: PLC0415 - as above

    manifests, around = CASES[case](pods, nodes), build_cluster_objects(case, nodes)
    clusters = [Cluster.from_objects([*around, *more]) for more in ([], build_limits())]
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds):
        for found, cluster in zip(seconds, clusters, strict=True):
            start = process_time()
            report = simulate(cluster, manifests)
            found.append(process_time() - start)
            assert not report.not_created
    without, limited = map(min, seconds)
    return f"{case:<18}{nodes:>6}{pods:>8}{without:>9.2f} s without{limited:>9.2f} s with{without / limited:>7.2f}"


def main() -> None:
    """Print the table of cases, or a single measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--fill", action="store_true", help="only the filling of nodes")
    parser.add_argument("--sweep", action="store_true", help="only the zone sweep over 5,000 nodes and 50,000 pods")
    parser.add_argument("--full", action="store_true", help="only the zone sweep of 5,000 full nodes")
    parser.add_argument("--limits", action="store_true", help="only with quotas and LimitRanges, and without")
    arguments = parser.parse_args()
    if arguments.limits:
        for case in LIMITED:
            print(measure_limits(case, arguments.nodes[0], arguments.pods), flush=True)
        return
    if arguments.sweep:
        print(measure_zone_sweep(5000, 50_000))
        return
    if arguments.full:
        print(measure_full_zone_sweep(5000))
        return
    if arguments.fill:
        for nodes in arguments.nodes:
            print(measure_filling(nodes), flush=True)
        return
    print(
        f"{'case':<18}{'nodes':>6}{'pods':>8}{'placed':>8}{'evicted':>8}{'pods/s':>10}{'us/pod':>9}{'cycles/s':>10}{'process':>10}{'memory':>12}"
    )
    for case in arguments.cases:
        for nodes in arguments.nodes:
            print(measure_case(case, nodes, arguments.pods), flush=True)


if __name__ == "__main__":
    main()
    print_peak_memory()
