"""How many pods a simulation places in a second, case by case, and how long a zone sweep of a big cluster takes.

    python tests/benchmarks/bench_simulate.py [--nodes 1000 5000] [--pods 10000] [--cases plain spread ...]
    python tests/benchmarks/bench_simulate.py --fill     # kschedctl capacity until nodes are full
    python tests/benchmarks/bench_simulate.py --sweep    # every zone of a big cluster lost in turn
    python tests/benchmarks/bench_simulate.py --full     # the same where nodes are full of pods of 50 priorities
    python tests/benchmarks/bench_simulate.py --limits   # with ten ResourceQuotas and LimitRanges, and without

``pods/s`` is the simulation alone; ``process`` and ``memory`` are a whole run of the program, from reading the files to
the answer. As machines differ, ``cycles/s`` tells how many full scheduling cycles of the first pod the same machine
runs in a second, which is what a simulation without memory would do.
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

from peak_memory import print_peak

from kschedctl.cluster import Cluster
from kschedctl.commands.failures.losses import simulate_failures
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "gpu.example.com"
TEMPLATES = 50
PRIORITIES = 50
NOMINATED = 50


def node(i: int) -> Json:
    labels = {ZONE: f"zone-{i % 3}", HOSTNAME: f"node-{i:05}"}
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    metadata = {"name": f"node-{i:05}", "labels": labels, "uid": f"node-{i}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def deployment(name: str, replicas: int, cpu: int, **spec: Any) -> Json:
    requests = {"cpu": f"{cpu}m", "memory": "128Mi"}
    container = {"name": "c", "image": "web", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "bench"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": body}


def selector(name: str) -> Json:
    return {"matchLabels": {"app": name}}


def spread(name: str) -> Json:
    hard = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(name)}
    soft = {**hard, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [hard, soft]}


def apart(name: str) -> Json:
    term = {"topologyKey": HOSTNAME, "labelSelector": selector(name)}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(name: str) -> Json:
    term = {"topologyKey": ZONE, "labelSelector": selector(name)}
    weighted = {"weight": 10, "podAffinityTerm": term}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def alike(rules: Callable[[str], Json], count: int) -> Callable[[int, int], list[Json]]:
    """Manifests of ``count`` templates that share out the pods."""

    def make(pods: int, nodes: int) -> list[Json]:
        return [deployment(f"app-{i}", pods // count, 100 + i, **rules(f"app-{i}")) for i in range(count)]

    return make


def bare(count: int) -> Callable[[int, int], list[Json]]:
    """Pods of nobody, which nothing wants to spread, of ``count`` templates in turn."""

    def make(pods: int, nodes: int) -> list[Json]:
        specs = [deployment("app", 1, 100 + i)["spec"]["template"]["spec"] for i in range(count)]
        labels = [{"app": f"app-{i}"} for i in range(count)]
        return [pod(f"pod-{i:05}", labels[i % count], specs[i % count]) for i in range(pods)]

    return make


def pod(name: str, labels: Json, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "bench", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def anti(pods: int, nodes: int) -> list[Json]:
    """As many templates as it takes to have room for a pod a node of each."""
    count = -(-pods // nodes)
    return [deployment(f"app-{i}", pods // count, 100, **apart(f"app-{i}")) for i in range(count)]


def urgent(pods: int, nodes: int) -> list[Json]:
    """A few hundred pods that have to preempt, after many that have not."""
    few = max(pods // 50, 1)
    return [deployment("urgent", few, 31_000, priorityClassName="high"), deployment("plain", pods - few, 100)]


def with_devices(pods: int, nodes: int) -> list[Json]:
    """Pods of one deployment, each with a claim of its own for one device, which a CEL selector chooses."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return [deployment("app-0", pods, 100, resourceClaims=claims)]


CASES: dict[str, Callable[[int, int], list[Json]]] = {
    "plain": bare(1),
    "nominated": bare(1),
    "templates": bare(TEMPLATES),
    "deployment": alike(lambda name: {}, 1),
    "devices": with_devices,
    "deployments": alike(lambda name: {}, TEMPLATES),
    "spread": alike(spread, 1),
    "spread-templates": alike(spread, TEMPLATES),
    "anti-affinity": anti,
    "affinity": alike(near, 1),
    "preemption": urgent,
}


def objects(case: str, nodes: int) -> list[Json]:
    """The cluster of a case: empty nodes, with eight devices each, or with a large pod of low priority each.

    For "nominated" 50 pods are nominated for a node each, which all others must yield to.
    """
    found = [node(i) for i in range(nodes)]
    if case == "nominated":
        found += [nominated(i, f"node-{i:05}") for i in range(NOMINATED)]
    if case == "devices":
        found += [device_class(), claim_template(), *map(devices, range(nodes))]
    if case == "preemption":
        found.append({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
        found += [running(i, f"node-{i:05}", "2") for i in range(nodes)]
    return found


def device_class() -> Json:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}


def claim_template() -> Json:
    """The first device of each node is of another model than the claims want."""
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "large"'}}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": "gpu", "namespace": "bench"}, "spec": spec}


def devices(i: int) -> Json:
    name = f"node-{i:05}"
    models = ["small"] + ["large"] * 7
    found = [{"name": f"gpu-{k}", "attributes": {"model": {"string": model}}} for k, model in enumerate(models)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": found}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{i:05}"}, "spec": spec}


def nominated(i: int, node_name: str) -> Json:
    """A pod that waits for its victims to leave the node."""
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "30", "memory": "256Mi"}}}
    waiting = pod(f"urgent-{i}", {"app": "urgent"}, {"priority": 1000, "containers": [container]})
    return waiting | {"status": {"phase": "Pending", "nominatedNodeName": node_name}}


def running(i: int, node_name: str, cpu: str, app: str = "low") -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": True}
    metadata = {"name": f"{app}-{i}", "namespace": "bench", "labels": {"app": app}, "ownerReferences": [owner]}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    metadata["uid"] = f"{app}-{i}"
    spec = {"nodeName": node_name, "priority": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def measure(case: str, nodes: int, pods: int) -> str:
    """One line of the table."""
    from kschedctl.commands.simulate import prepare_simulation  # noqa: PLC0415 - only the library is measured elsewhere

    manifests = CASES[case](pods, nodes)
    shared = prepare_simulation(Cluster.from_objects(objects(case, nodes)), manifests)
    simulation = Simulation(shared.scheduler)
    positions = [simulation.view.pods.index[key] for key in shared.workloads]
    start = perf_counter()
    outcomes = simulation.run(positions)
    seconds = perf_counter() - start
    placed = sum(outcome.row >= 0 for outcome in outcomes)
    evicted = sum(len(outcome.victims) for outcome in outcomes)
    cycles = baseline(shared.scheduler, positions[0])
    seconds_, mebibytes = whole_process(["simulate"], objects(case, nodes), manifests)
    return (
        f"{case:<18}{nodes:>6}{len(positions):>8}{placed:>8}{evicted:>8}{len(positions) / seconds:>10,.0f}"
        f"{seconds / len(positions) * 1e6:>9,.0f}{cycles:>10,.0f}{seconds_:>8.1f} s{mebibytes:>8.0f} MiB"
    )


def baseline(scheduler: Scheduler, position: int) -> float:
    """Full cycles a second, each on its own."""
    view = scheduler.view.fork()
    info = view.pods.infos[view.pods.info[position]]
    framework = scheduler.framework("default-scheduler")
    assert framework is not None
    start, number = perf_counter(), 20
    for _ in range(number):
        run_cycle(framework, info, view)
    return number / (perf_counter() - start)


WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
if subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode not in (0, 1, 5):
    sys.exit("it gave no answer")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A small process that runs another: one that this one starts would be said to need as much memory as this one has."""


def whole_process(command: list[str], cluster: list[Json], manifests: list[Json]) -> tuple[float, float]:
    """Seconds from the start of the program to its end, and the most memory that it had, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        for name, items in (("cluster.json", cluster), ("manifests.json", manifests)):
            (Path(folder) / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        files = [part for name in ("cluster.json", "manifests.json") for part in ("-f", f"{folder}/{name}")]
        program = [sys.executable, "-m", "kschedctl", *command, *files, "-o", "json"]
        found = subprocess.run([sys.executable, "-c", WATCH, *program], check=True, capture_output=True, text=True)
        seconds, kibibytes = found.stdout.split()
        return float(seconds), int(kibibytes) / 1024


def fill(nodes: int) -> str:
    """Pods of 2.4 cores until nodes of 32 are full: what cluster-capacity does, too."""
    requests = {"cpu": "2400m", "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": requests}}]}
    cluster = [node(i) for i in range(nodes)]
    seconds, mebibytes = whole_process(["capacity"], cluster, [pod("small", {}, spec)])
    return f"capacity, {nodes:,} nodes, {13 * nodes:,} pods: {seconds:.1f} s, {mebibytes:.0f} MiB, the whole process"


def sweep(nodes: int, pods: int) -> str:
    """Every zone lost in turn, in a cluster whose pods come from 400 workloads."""
    found = [node(i) for i in range(nodes)]
    found += [running(i, f"node-{i % nodes:05}", "2", f"app-{i % 400}") for i in range(pods)]
    cluster = Cluster.from_objects(found)
    start = perf_counter()
    report = simulate_failures(cluster)
    seconds = perf_counter() - start
    displaced = sum(failure.displaced for failure in report.failures)
    return f"zone sweep, {nodes:,} nodes, {pods:,} pods: {displaced:,} pods placed anew in {seconds:.1f} s"


def full_sweep(nodes: int) -> str:
    """Every zone lost in turn where all nodes are full: what comes back has to preempt."""
    chance = Random(0)
    found = [node(i) for i in range(nodes)]
    for number in range(4 * nodes):
        workload = chance.randrange(400)
        low = running(number, f"node-{number % nodes:05}", "8", f"app-{workload}")
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


def limits() -> list[Json]:
    """Ten quotas and as many LimitRanges that refuse nothing, and give no requests to those that have some."""
    hard = {"pods": "1000000", "requests.cpu": "1000000", "requests.memory": "1000Ti"}
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    bounds = [{"type": "Container", "max": {"cpu": "64", "memory": "1Ti"}, "min": {"cpu": "1m", "memory": "1Mi"}}]
    found = []
    for i in range(LIMITS):
        metadata = {"name": f"limit-{i}", "namespace": "bench"}
        found.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status})
        found.append({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": bounds}})
    return found


def with_limits(case: str, nodes: int, pods: int, rounds: int = 3) -> str:
    """A simulation in the library with limits and without, in turn: the least processor time of several of each."""
    from kschedctl.commands.simulate import simulate  # noqa: PLC0415 - as above

    manifests, around = CASES[case](pods, nodes), objects(case, nodes)
    clusters = [Cluster.from_objects([*around, *more]) for more in ([], limits())]
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
            print(with_limits(case, arguments.nodes[0], arguments.pods), flush=True)
        return
    if arguments.sweep:
        print(sweep(5000, 50_000))
        return
    if arguments.full:
        print(full_sweep(5000))
        return
    if arguments.fill:
        for nodes in arguments.nodes:
            print(fill(nodes), flush=True)
        return
    print(
        f"{'case':<18}{'nodes':>6}{'pods':>8}{'placed':>8}{'evicted':>8}{'pods/s':>10}{'us/pod':>9}{'cycles/s':>10}{'process':>10}{'memory':>12}"
    )
    for case in arguments.cases:
        for nodes in arguments.nodes:
            print(measure(case, nodes, arguments.pods), flush=True)


if __name__ == "__main__":
    main()
    print_peak()
