"""How long plans take on a big cluster: nodes that could go, moves that make room, and what a descheduler does.

    python tests/benchmarks/make_cluster.py FOLDER
    python tests/benchmarks/bench_plans.py FOLDER [--seconds 180] [--cores 4 12] [--rounds 1]

Milliseconds of CPU for each node that consolidate tries within so many seconds; seconds of CPU for each pod that asks
for so many cores, and for the rounds of a descheduler that evicts at most 500 pods. ``cycles``: as many full scheduling
cycles of one pod the same machine runs in that time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time
from typing import Any

import kschedctl
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import decode
from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.consolidating.consolidate import ConsolidationWishes

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


def pod(cores: int) -> dict[str, Any]:
    requests = {"cpu": str(cores), "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"wants-{cores}", "namespace": "bench"},
        "spec": spec,
    }


def cycle_seconds(cluster: Cluster) -> float:
    """What one full cycle takes, the first aside."""
    scheduler = Scheduler(cluster)
    framework, some_pod = scheduler.framework("default-scheduler"), decode(pod(1))
    assert framework is not None
    assert isinstance(some_pod, Pod)
    scheduler.cycle(framework, some_pod)
    start = process_time()
    for _ in range(CYCLES):
        scheduler.cycle(framework, some_pod)
    return (process_time() - start) / CYCLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--cores", type=int, nargs="*", default=[4, 12])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    cluster = kschedctl.Cluster.from_paths(sorted(options.folder.glob("*.json")), assume_complete=True)
    cycle = cycle_seconds(cluster)
    start = process_time()
    plan = kschedctl.consolidate(cluster, ConsolidationWishes(seconds=options.seconds))
    spent = process_time() - start
    each = spent / max(plan.tried, 1)
    print(
        f"consolidate  {plan.tried:,} of {plan.candidates:,} nodes tried in {spent:.1f} s, {len(plan.removable):,} "
        f"could go: {1000 * each:.0f} ms a node, {each / cycle:.1f} cycles"
    )
    for cores in options.cores:
        start = process_time()
        room = kschedctl.make_room(cluster, [pod(cores)])
        spent = process_time() - start
        print(f"make-room    {cores} cores: {' '.join(room.first_line())}: {spent:.1f} s, {spent / cycle:.0f} cycles")
    start = process_time()
    balanced = kschedctl.rebalance(cluster, SPREADING, rounds=options.rounds)
    spent = process_time() - start
    print(f"rebalance    {' '.join(balanced.first_line())}: {spent:.1f} s, {spent / cycle:.0f} cycles")


if __name__ == "__main__":
    main()
