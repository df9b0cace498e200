"""Measure the replay of Karpenter's next rounds, relative to decoding the objects.

    python tests/benchmarks/bench_karpenter.py [--pending 1000] [--types 700] [--pools 10] [--nodes 5000] [--pods 50000]

Seconds of CPU after the cluster is loaded; ``loads``: as many times the same machine loads the cluster in that time.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

from peak_memory import print_peak_memory

import kschedctl

Json = dict[str, Any]
NOW, BEFORE = "2026-06-01T12:00:00Z", "2026-05-31T12:00:00Z"
ZONES = ("zone-a", "zone-b", "zone-c")
WORKLOADS = 50
FAMILIES = "cmrt"


def build_instance_type(number: int) -> Json:
    """Build an instance type with offerings in all zones, on demand and as spot."""
    cpus = 2 ** (1 + number % 6)
    price = cpus * (0.04 + number % 13 / 1000)
    offerings = [
        {
            "Price": price * (0.35 if capacity_type == "spot" else 1) * (1 + at / 50),
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
        }
        for at, zone in enumerate(ZONES)
        for capacity_type in ("spot", "on-demand")
    ]
    return {
        "name": format_type_name(number),
        "architecture": "arm64" if number % 5 == 0 else "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpus), "memory": f"{cpus * (2 + number % 4)}Gi", "pods": "110"},
        "offerings": offerings,
    }


def format_type_name(number: int) -> str:
    """Return the name of an instance type."""
    return f"{FAMILIES[number % len(FAMILIES)]}{number // 6}.{2 ** (number % 6)}xlarge"


def build_node_pool(number: int) -> Json:
    """Build a NodePool for one architecture."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64" if number % 2 else "amd64"]},
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    spec = {"weight": 100 - number, "template": template, "disruption": disruption, "limits": {"cpu": "100000"}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": f"pool-{number}", "creationTimestamp": BEFORE},
        "spec": spec,
    }


def build_node_and_claim(number: int) -> list[Json]:
    """Build a node with its NodeClaim."""
    name = f"n{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": ZONES[number % 3],
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "pool-0",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": format_type_name(3),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    offers = {"cpu": "15900m", "memory": "79Gi", "pods": "110"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": BEFORE}
        for kind in ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
    ]
    meta = {"name": name, "labels": labels, "creationTimestamp": BEFORE}
    ready = {"conditions": conditions[3:4], "capacity": offers, "allocatable": offers}
    claim = {"providerID": name, "nodeName": name, "conditions": conditions, "capacity": offers, "allocatable": offers}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"providerID": name}, "status": ready},
        {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta, "status": claim},
    ]


def build_pod(number: int, on: str, cpu: int) -> Json:
    """Build a pod of a workload, on a node or pending. Some workloads spread over zones."""
    owner = f"w{number % WORKLOADS}"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    spec: Json = {
        "nodeName": on,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "1Gi"}}}],
    }
    if number % WORKLOADS < 10:
        selector = {"matchLabels": {"app": owner}}
        spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{owner}-{number}",
            "namespace": "bench",
            "uid": f"p{number:07}",
            "labels": {"app": owner},
            "creationTimestamp": BEFORE,
            "ownerReferences": [reference],
        },
        "spec": spec,
        "status": {"phase": "Running"} if on else {"phase": "Pending", "conditions": [refused]},
    }


def print_measurement(title: str, ask: Any, load: float) -> None:
    """Print the CPU seconds of a call, also in units of the time to load the cluster."""
    start = process_time()
    answer = ask()
    spent = process_time() - start
    print(f"{title:12} {spent:7.2f} s  {spent / load:7.1f} loads  {answer}")


def main() -> None:
    """Measure provisioning and disruption in a large cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("pending", 1000), ("types", 700), ("pools", 10), ("nodes", 5000), ("pods", 50_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=("provision", "disrupt"))
    args = parser.parse_args()
    types = [build_instance_type(number) for number in range(args.types)]
    pools = [build_node_pool(number) for number in range(args.pools)]
    if args.only != "disrupt":
        waiting = [build_pod(number, "", 500 + number % 7 * 250) for number in range(args.pending)]
        start = process_time()
        cluster = kschedctl.Cluster.from_objects([*pools, *waiting])
        load = process_time() - start
        print_measurement(
            "provision", lambda: kschedctl.provision(cluster, types, now=NOW).build_headline_parts()[0], load
        )
    if args.only != "provision":
        machines = [each for number in range(args.nodes) for each in build_node_and_claim(number)]
        names = [f"n{number:05}" for number in range(args.nodes)]
        cpu = 15_000 * args.nodes // args.pods  # so that nearly all of it is requested
        running = [build_pod(number, names[number % args.nodes], cpu) for number in range(args.pods)]
        start = process_time()
        full = kschedctl.Cluster.from_objects([*pools, *machines, *running])
        load = process_time() - start
        print_measurement("disrupt", lambda: kschedctl.disrupt(full, types, now=NOW).build_headline_parts()[0], load)


if __name__ == "__main__":
    main()
    print_peak_memory()
