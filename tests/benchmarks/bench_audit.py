"""Measure ``audit`` on a big cluster, section by section, after the cluster was read.

    python tests/benchmarks/make_cluster.py DIR
    python tests/benchmarks/bench_audit.py DIR [--pending 1000] [--distinct 1000] [--section NAME]

The aim: all sections of 5,000 nodes, 150,000 pods and 1,000 pending ones within 30 s, what sections share included.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from peak_memory import get_peak_mebibytes

from kschedctl.cluster import Cluster, convert_document
from kschedctl.commands.audit import OPTIONAL_SECTIONS, REQUIRED_INPUTS, SECTIONS
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import Cluster as Read

NOW = "2026-08-01T00:00:00Z"
AIM_SECONDS = 30
SORTS: tuple[dict[str, Any], ...] = (
    {},
    {"nodeSelector": {"example.com/pool": "general"}},
    {"nodeSelector": {"example.com/pool": "genral"}},
    {"tolerations": [{"operator": "Exists"}]},
    {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
    {"topologySpreadConstraints": "zone"},
    {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
    {"schedulerName": "other"},
)
"""Parts of a pending pod's spec that differ between shapes."""
ZONE = "topology.kubernetes.io/zone"


def build_pending_pod(number: int, distinct: int) -> dict[str, Any]:
    """Build a pending pod of one of ``distinct`` shapes. One in five fits on some node."""
    sort = number % distinct
    spec = dict(SORTS[sort % len(SORTS)])
    labels = {"app": f"a{sort % 50}"}
    if "topologySpreadConstraints" in spec:
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": labels}}]
    cores = 1 if sort % 5 == 0 else 40
    requests = {"cpu": f"{1000 * cores + sort}m", "memory": "1Gi"}
    spec["containers"] = [{"name": "c", "image": "c", "resources": {"requests": requests}}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    created = f"2026-07-31T{number % 24:02}:00:00Z"
    metadata = {"name": f"w{number}", "namespace": f"team-{sort % 20}", "labels": labels, "creationTimestamp": created}
    status = {"phase": "Pending", "conditions": [condition]}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def add_pending_pods(cluster: Cluster, number: int, distinct: int) -> Cluster:
    """Return the cluster with additional pending pods."""
    return cluster.with_objects(
        {"Pod": [convert_document(build_pending_pod(each, distinct)) for each in range(number)]}
    )


def iter_timed_sections(audited: AuditedCluster, names: list[str]) -> Iterator[tuple[str, float, float]]:
    """Yield each section with its processor seconds and wall seconds, after the work that all sections share."""
    steps = {"(the view)": lambda: audited.scheduler.view.requested, "(the replay)": lambda: audited.replay}
    asked = [
        name
        for name in SECTIONS
        if (name in names or (not names and (name not in OPTIONAL_SECTIONS or OPTIONAL_SECTIONS[name](audited))))
        and (name not in REQUIRED_INPUTS or REQUIRED_INPUTS[name].is_given(audited))
    ]
    for name, step in (steps | {name: lambda name=name: SECTIONS[name](audited) for name in asked}).items():
        clock, cpu = time.perf_counter(), time.process_time()
        found = step()
        yield name, time.process_time() - cpu, time.perf_counter() - clock
        if hasattr(found, "headline"):
            print(f"    {found.headline[:100]}; {len(json.dumps(found.to_dict())) // 1024:,} KiB of JSON")


def main() -> None:
    """Print the time of each section of an audit, and the peak memory."""
    parser = argparse.ArgumentParser(description="Time of audit on a big cluster.")
    parser.add_argument("folder", help="what make_cluster.py wrote")
    parser.add_argument("--pending", type=int, default=1000)
    parser.add_argument("--distinct", type=int, default=1000, help="so many sorts of pending pods")
    parser.add_argument("--section", action="append", default=[], help="only these; repeatable")
    options = parser.parse_args()
    start = time.perf_counter()
    read = Read.from_paths([options.folder], assume_complete=True)
    cluster = add_pending_pods(read, options.pending, options.distinct)
    print(f"read in {time.perf_counter() - start:.1f} s: {cluster!r}")
    total = 0.0
    for name, cpu, clock in iter_timed_sections(AuditedCluster(Scheduler(replace(cluster)), NOW), options.section):
        total += cpu
        print(f"{name:14} {cpu:7.2f} s of a processor, {clock:7.2f} s", flush=True)
    peak = get_peak_mebibytes()
    print(f"{'all':14} {total:7.2f} s of a processor, the aim is {AIM_SECONDS} s; {peak:,.0f} MiB at the peak")


if __name__ == "__main__":
    main()
