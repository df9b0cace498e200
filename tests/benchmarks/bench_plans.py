"""Measure plans on a big cluster: consolidation, sizing, make-room and rebalancing.

    python tests/benchmarks/make_cluster.py FOLDER
    python tests/benchmarks/bench_plans.py FOLDER [--seconds 180] [--jobs 2] [--cores 20 22 25] [--rounds 1] [--size 60]
    python tests/benchmarks/bench_plans.py FOLDER --consolidate [--seconds 180] [--jobs 2]

Milliseconds of CPU for each node that consolidate tries within so many seconds, with ``--jobs`` also the seconds that
pass with so many processes; seconds of CPU for each pod that asks for so many cores (in that cluster one, two and three
pods move for them), and for the rounds of a descheduler that evicts at most 500 pods. ``cycles``: as many full
scheduling cycles of one pod the same machine runs in that time. ``--consolidate`` ends after the first of these.
``--size`` sizes alone, for so many seconds, from a catalogue of 50 types, by NodePools and without: how far from the
bound the set is (20,000 pods: a cluster of ``--nodes 700 --pods 20000``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from peak_memory import print_peak_memory

import kschedctl
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import decode_workload
from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate.plan import ConsolidationCriteria
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.replay.parallel import Workers
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.nodes import ZONE

CYCLES = 20
PLUGINS = {
    "PodLifeTime": {"maxPodLifeTimeSeconds": 86400},
    "RemoveDuplicates": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
    "LowNodeUtilization": {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 3, "memory": 3},
        "targetThresholds": {"cpu": 3, "memory": 3},
        "evictionLimits": {"node": 5},
    },
}
SPREADING = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "maxNoOfPodsToEvictTotal": 500,
    "profiles": [
        {
            "name": "spreading",
            "pluginConfig": [{"name": name, "args": args} for name, args in PLUGINS.items()],
            "plugins": {
                "deschedule": {"enabled": list(PLUGINS)[:1]},
                "balance": {"enabled": list(PLUGINS)[1:]},
            },
        }
    ],
}


ZONES = tuple(f"eu-west-1{letter}" for letter in "abcd")


def build_catalogue() -> Iterator[dict[str, Any]]:
    """Build 50 instance types.

    These are 45 types of three families and generations in five sizes, and 5 with GPUs or much memory.
    """
    for family, ratio, price in (("c", 2, 0.0425), ("m", 4, 0.05), ("r", 8, 0.066)):
        for generation in (5, 6, 7):
            for cores in (2, 4, 8, 16, 32):
                hour = round(price * cores * (1 + 0.03 * (7 - generation)), 4)
                spot = round(0.4 * hour, 4) if family == "m" else None
                yield build_instance_type(
                    f"{family}{generation}.{cores}", cores, cores * ratio, 0, hour=hour, spot=spot
                )
    for cores, memory, gpus, hour in ((8, 64, 1, 1.0), (32, 256, 4, 3.6), (64, 512, 8, 7.0)):
        yield build_instance_type(f"g.{gpus}", cores, memory, gpus, hour=hour)
    yield build_instance_type("x.32", 32, 512, 0, hour=3.2)
    yield build_instance_type("x.64", 64, 1024, 0, hour=6.4)


def build_instance_type(
    name: str, cores: int, gibibytes: int, gpus: int, *, hour: float, spot: float | None = None
) -> dict[str, Any]:
    """Build an instance type in four zones, on demand and maybe as spot, in the form of kwok's instance_types.json."""
    resources = {"cpu": str(cores), "memory": f"{gibibytes}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    offerings = (*iter_offerings("on-demand", hour), *(iter_offerings("spot", spot) if spot else ()))
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": resources | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
        "overhead": {"cpu": "100m", "memory": "500Mi"},
        "offerings": list(offerings),
    }


def iter_offerings(capacity: str, hour: float) -> Iterator[dict[str, Any]]:
    """Yield the offerings of a capacity type in all zones."""
    for zone in ZONES:
        of_type = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]}
        requirements = [of_type, {"key": ZONE, "operator": "In", "values": [zone]}]
        yield {"Price": hour, "Available": True, "Requirements": requirements}


def build_node_pools() -> Iterator[dict[str, Any]]:
    """Build the pools of ``make_cluster.py``, each with a family of the catalogue, its label and taints."""
    families = (("general", "m", ""), ("compute", "c", ""), ("memory", "rx", ""), ("spot", "m", "example.com/spot"))
    for name, family, taint in (*families, ("gpu", "g", "nvidia.com/gpu")):
        types = [sold["name"] for sold in build_catalogue() if sold["name"][0] in family]
        capacity = "spot" if name == "spot" else "on-demand"
        required = {"node.kubernetes.io/instance-type": types, "karpenter.sh/capacity-type": [capacity]}
        requirements = [{"key": key, "operator": "In", "values": values} for key, values in required.items()]
        taints = [{"key": taint, "value": "true", "effect": "NoSchedule"}] if taint else []
        reference = {"group": "example.com", "kind": "NodeClass", "name": "default"}
        spec = {"requirements": requirements, "taints": taints, "nodeClassRef": reference}
        template = {"metadata": {"labels": {"example.com/pool": name}}, "spec": spec}
        meta = {"name": name}
        yield {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": meta, "spec": {"template": template}}


def print_sizing(cluster: Cluster, seconds: float) -> None:
    """Print the node sets that sizing finds within a time, with and without pools."""
    for what, pools in (("pools", list(build_node_pools())), ("types", [])):
        start, began = process_time(), monotonic()
        criteria = SizingCriteria(seconds=seconds)
        report = kschedctl.size(cluster, pools, criteria, instance_types=list(build_catalogue()))
        spent = f"{process_time() - start:.1f} s of CPU, {monotonic() - began:.1f} s in all"
        print(
            f"size         {what}: {' '.join(report.build_headline_parts())}; {len(report.alternatives)} sets: {spent}"
        )


def print_consolidation(cluster: Cluster, seconds: float, jobs: int, cycle: float) -> None:
    """Print how many nodes consolidation tries within a time, and the time per node."""
    start, began = process_time(), monotonic()
    plan = kschedctl.consolidate(cluster, ConsolidationCriteria(seconds=seconds), workers=Workers(jobs))
    spent, passed = process_time() - start, monotonic() - began
    each = spent / max(plan.tried, 1)
    print(
        f"consolidate  {plan.tried:,} of {plan.candidates:,} nodes in {spent:.1f} s of CPU, {passed:.1f} s in all "
        f"by {jobs}, {len(plan.removable):,} could go: {1000 * each:.0f} ms a node, {each / cycle:.1f} cycles",
        flush=True,
    )


def build_pod(cores: int) -> dict[str, Any]:
    """Build a pod that requests this many cores."""
    requests = {"cpu": str(cores), "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"wants-{cores}", "namespace": "bench"},
        "spec": spec,
    }


def measure_cycle(cluster: Cluster) -> float:
    """Return the seconds of one full scheduling cycle, apart from the first one."""
    scheduler = Scheduler(cluster)
    framework, some_pod = scheduler.find_framework("default-scheduler"), decode_workload(build_pod(1))
    assert framework is not None
    assert isinstance(some_pod, Pod)
    scheduler.run_cycle(framework, some_pod)
    start = process_time()
    for _ in range(CYCLES):
        scheduler.run_cycle(framework, some_pod)
    return (process_time() - start) / CYCLES


def main() -> None:
    """Measure sizing, consolidation, making room and rebalancing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", type=int, nargs="*", default=[20, 22, 25])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--consolidate", action="store_true")
    parser.add_argument("--size", type=float, default=0)
    options = parser.parse_args()
    cluster = kschedctl.Cluster.from_paths(sorted(options.folder.glob("*.json")), assume_complete=True)
    if options.size:
        print_sizing(cluster, options.size)
        return
    cycle = measure_cycle(cluster)
    for jobs in (1, *((options.jobs,) if options.jobs > 1 else ())):
        print_consolidation(cluster, options.seconds, jobs, cycle)
    if options.consolidate:
        return
    for cores in options.cores:
        start = process_time()
        room = kschedctl.make_room(cluster, [build_pod(cores)])
        spent = process_time() - start
        answer = " ".join(room.build_headline_parts())
        print(f"make-room    {cores} cores: {answer}: {spent:.1f} s, {spent / cycle:.0f} cycles")
    start = process_time()
    balanced = kschedctl.rebalance(cluster, SPREADING, rounds=options.rounds)
    spent = process_time() - start
    print(f"rebalance    {' '.join(balanced.build_headline_parts())}: {spent:.1f} s, {spent / cycle:.0f} cycles")


if __name__ == "__main__":
    main()
    print_peak_memory()
