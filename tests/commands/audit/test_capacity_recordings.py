"""Check packing and races of a recorded cluster (v1.36): twelve nodes whose workers have no CPU left."""

from __future__ import annotations

from collections import Counter

import pytest
from test_recordings import PENDING

from kschedctl.api.quantity import parse_milli_value
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing import build_packing_section
from kschedctl.commands.audit.races import build_races_section
from kschedctl.commands.drain import drain_nodes
from kschedctl.scheduler.scheduler import Scheduler

NODES = {d["metadata"]["name"]: d for d in PENDING["objects"] if d["kind"] == "Node"}
PODS = [d for d in PENDING["objects"] if d["kind"] == "Pod"]


@pytest.fixture(scope="module")
def audited() -> AuditedCluster:
    return AuditedCluster(Scheduler(Cluster.from_objects(PENDING["objects"])))


def count_free_cpu() -> Counter[str]:
    """Count the free millicores of each node, container by container. No pod requests more while it starts."""
    free = Counter({name: parse_milli_value(node["status"]["allocatable"]["cpu"]) for name, node in NODES.items()})
    for pod in PODS:
        for container in pod["spec"]["containers"]:
            cpu = container.get("resources", {}).get("requests", {}).get("cpu", "0")
            free[pod["spec"].get("nodeName", "")] -= parse_milli_value(cpu)
    return free


def test_free_and_stranded_amounts_add_up(audited: AuditedCluster) -> None:
    found, free = build_packing_section(audited), count_free_cpu()
    cpu = {pool.pool: next(each for each in pool.resources if each.resource == "cpu") for pool in found.pools}
    cordoned = {name for name, node in NODES.items() if node["spec"].get("unschedulable")}
    assert cpu["general"].free == sum(free[name] for name in NODES.keys() - cordoned if not name.startswith("gpu"))
    assert cpu["gpu"].free == free["gpu1"] + free["gpu2"]
    (stranded,) = found.stranded
    assert (stranded.reason, set(stranded.examples)) == ("Insufficient cpu", {"w8", "w9"})
    assert stranded.free["cpu"] == cpu["general"].stranded == free["w8"] + free["w9"]


def test_nominated_and_needed_nodes_are_kept(audited: AuditedCluster) -> None:
    """Two preempting pods wait for w8 and w9."""
    found = build_packing_section(audited)
    tried = {each.node for each in (*found.emptied, *found.kept)}
    assert tried | {"w8", "w9"} == {name for name, node in NODES.items() if not node["spec"].get("unschedulable")}
    assert found.emptied == ()
    kept_for_pods = {kept.node: kept.lets_run for kept in found.kept if kept.lets_run}
    fit_there = dict.fromkeys(("gpu1", "gpu2"), ("lab/p03-gpu", "lab/p30-combined"))
    assert kept_for_pods == {**fit_there, "w6": ("lab/p19-csi-limit",)}  # the pod selects w6
    assert drain_nodes(audited.cluster, ["gpu1"]).drained


def test_one_scheduler_places_pods(audited: AuditedCluster) -> None:
    found = build_races_section(audited)
    assert (found.state, found.rivals) == ("sound", ())
    assert found.races is not None
    assert found.races.results[0].nodes == 12
