"""Measure how far node sets are above the lower bound, on random instances with and without constraints.

    python tests/benchmarks/bench_sizes.py [--instances 50] [--seconds 60] [--families small large constrained]

Of ``small`` pods, of ``large`` ones of up to a node's size, and of small ones that are ``constrained``: spread across
zones, or up to six of a workload apart from each other, beside a daemon on each node. How many are within 5 % of what
their requests need at least, and of that or what replays of all cheaper sets add to it; the mean and the largest gap;
seconds of CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Any, NamedTuple

import kschedctl
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.snapshot.nodes import HOSTNAME, ZONE

Json = dict[str, Any]
CLOSE = 0.05
MOST_APART = 6


class Sizes(NamedTuple):
    """Requests of pods, and the number of pods of a workload."""

    cpu: tuple[float, ...]
    mebibytes: tuple[int, ...]
    replicas: tuple[int, int]


SMALL = Sizes((0.1, 0.2, 0.25, 0.4), (128, 256, 512, 1024), (10, 40))
LARGE = Sizes((0.5, 1, 1.5, 2, 3, 4), (1024, 2048, 4096, 6144, 8192), (5, 20))


def build_small_workloads(random: Random) -> list[Json]:
    """Build pods with small requests."""
    return list(iter_pods(random, SMALL))


def build_large_workloads(random: Random) -> list[Json]:
    """Build pods with large requests."""
    return list(iter_pods(random, LARGE))


def build_constrained_workloads(random: Random) -> list[Json]:
    """Build pods of which a third spread over zones and a third allow one pod per node."""
    some: list[Json] = [build_daemon_set()]
    for pod in iter_pods(random, SMALL):
        workload, number = map(int, pod["metadata"]["name"][1:].split("-"))
        selector = {"labelSelector": {"matchLabels": pod["metadata"]["labels"]}}
        if workload % 3 == 0:
            spread = {**selector, "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            pod["spec"]["topologySpreadConstraints"] = [spread]
        elif workload % 3 == 1:
            apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{**selector, "topologyKey": HOSTNAME}]}
            pod["spec"]["affinity"] = {"podAntiAffinity": apart}
        if workload % 3 != 1 or number < MOST_APART:
            some.append(pod)
    return some


FAMILIES: dict[str, Callable[[Random], list[Json]]] = {
    "small": build_small_workloads,
    "large": build_large_workloads,
    "constrained": build_constrained_workloads,
}


def iter_pods(random: Random, sizes: Sizes) -> Iterator[Json]:
    """Yield the pods of several workloads with random requests."""
    for workload in range(random.randint(5, 10)):
        cpu, memory = random.choice(sizes.cpu), random.choice(sizes.mebibytes)
        requests = {"cpu": f"{int(cpu * 1000)}m", "memory": f"{memory}Mi"}
        for number in range(random.randint(*sizes.replicas)):
            meta = {"name": f"p{workload}-{number}", "namespace": "default", "labels": {"app": f"w{workload}"}}
            meta["ownerReferences"] = [build_owner(f"w{workload}")]
            spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}]}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def build_owner(name: str) -> Json:
    """Build the reference to the ReplicaSet of a workload."""
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}


def build_daemon_set() -> Json:
    """Build a DaemonSet with small requests."""
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": spec,
    }


def iter_instance_types(random: Random) -> Iterator[Json]:
    """Yield three instance types with different memory shares and prices, in two zones."""
    for cores in (4, 8, 16):
        hour, share = round(cores * random.uniform(0.045, 0.055), 4), random.choice((2, 4, 8))
        required = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
        zones = [[required, {"key": ZONE, "operator": "In", "values": [zone]}] for zone in "ab"]
        yield {
            "name": f"t{cores}",
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": str(cores), "memory": f"{cores * share}Gi", "pods": "110"},
            "overhead": {"cpu": "0", "memory": "0"},
            "offerings": [{"Price": hour, "Available": True, "Requirements": zone} for zone in zones],
        }


def measure_family(family: str, instances: int, seconds: float) -> None:
    """Print how far sizing is above the lower bounds for random clusters of a family."""
    by_requests, by_replays, homeless, start = list[float](), list[float](), 0, process_time()
    for seed in range(instances):
        random = Random(seed)
        sold = list(iter_instance_types(random))
        cluster = kschedctl.Cluster.from_objects(FAMILIES[family](random), assume_complete=True)
        report = kschedctl.size(cluster, criteria=SizingCriteria(seconds=seconds), instance_types=sold)
        assert report.price is not None
        by_requests.append(report.price / report.bound - 1)
        by_replays.append(report.price / report.proven - 1)
        homeless += report.homeless
    spent = process_time() - start
    for name, gaps in (("requests", by_requests), ("replays", by_replays)):
        within, mean = sum(gap <= CLOSE for gap in gaps), sum(gaps) / len(gaps)
        print(
            f"{family:12} by {name:9} {within} of {instances} within 5 %, mean {100 * mean:.1f} %, "
            f"largest {100 * max(gaps):.1f} %"
        )
    print(f"{family:12} {spent:.0f} s of CPU, {homeless} pods without a node")


def main() -> None:
    """Measure sizing for each family of clusters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--families", nargs="*", choices=list(FAMILIES), default=list(FAMILIES))
    options = parser.parse_args()
    for family in options.families:
        measure_family(family, options.instances, options.seconds)


if __name__ == "__main__":
    main()
