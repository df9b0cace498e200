"""Check NodeResourceTopologyMatch with a cache: later placements are deducted, and unread state makes answers
conditional."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_node_resource_topology_match import GPU, HALF, NAME, build_container, build_node, build_topology

from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.scheduler_plugins.node_resource_topology_match import DISCARDED
from kschedctl.scheduler.scheduler_plugins.numa_cache import (
    FREED,
    OverReserve,
    compute_fingerprint,
    has_exclusive_resources,
)
from kschedctl.scheduler.scheduler_plugins.numa_nodes import build_numa_list
from kschedctl.scheduler.scheduler_plugins.topology_match_args import NumaCacheArgs
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
OVER_RESERVE = {"cacheResyncPeriodSeconds": 5}
THREE = {"cpu": "3", "memory": "1Gi"}
SHARED = {"cpu": "2500m", "memory": "1Gi"}
CHANGED = "of a node do not match the pods that are there, and the scheduler's cache was not read"
OLDER = "may be older in the scheduler's cache"


def build_pod(name: str, requests: Json, on: str = "", limits: Json | None = None, **more: Any) -> Json:
    """Build a pod. ``more`` has its phase, scheduler and priority."""
    spec = {
        "containers": [build_container(requests, limits)],
        "schedulerName": more.get("scheduler", "default-scheduler"),
    }
    spec["priority"] = more.get("priority", 0)
    metadata = {"name": name, "namespace": "default"}
    status = {"phase": more.get("phase", "Running" if on else "Pending")}
    return {"kind": "Pod", "metadata": metadata, "spec": spec | ({"nodeName": on} if on else {}), "status": status}


def build_published_topology(
    *names: str, method: str = "", scope: str = "container", numa: tuple[Json, ...] = (HALF, HALF)
) -> Json:
    """Build the published topology of node a with the pods of these names."""
    found = build_topology("a", *numa, scope=scope)
    sign = compute_fingerprint(("default", name) for name in names)
    found["attributes"].append({"name": "nodeTopologyPodsFingerprint", "value": sign})
    if method:
        found["attributes"].append({"name": "nodeTopologyPodsFingerprintMethod", "value": method})
    return found


def build_cluster(*objects: Json, points: tuple[str, ...] = ("filter", "score", "reserve"), **args: Any) -> Cluster:
    plugins = {point: {"enabled": [{"name": NAME}]} for point in points}
    profile = {"plugins": plugins, "pluginConfig": [{"name": NAME, "args": args or OVER_RESERVE}]}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return Cluster.from_objects(
        [build_node("a"), *objects], config={**config, "profiles": [profile]}, other_builds=True
    )


def explain_web(*objects: Json, **args: Any) -> Json:
    found: Json = explain(build_cluster(*objects, **args), "default/web").to_dict()
    return found


def list_doubts(found: Json) -> list[tuple[str, str]]:
    return [(each["why"], each["affects"]) for each in found["unknown"]]


def list_placed_pods(*pods: Json, **args: Any) -> list[str]:
    """Return the pods that get node a with two NUMA nodes of 4 CPUs each."""
    simulation = Simulation(Scheduler(build_cluster(build_published_topology(), *pods, **args)))
    index = simulation.view.pods.index
    simulation.schedule([index[f"default/{each['metadata']['name']}"] for each in pods])
    return [name for name, position in index.items() if simulation.view.node[position] >= 0]


# -- what was placed since --------------------------------------------------------------------------------------------


def test_placed_pod_is_deducted_from_every_numa_node() -> None:
    """The first pod takes 3 of 4 CPUs of both NUMA nodes, because its own is unknown.

    Without a cache nothing is deducted.
    """
    two = build_pod("p1", THREE), build_pod("p2", THREE)
    assert list_placed_pods(*two) == ["default/p1"]
    assert list_placed_pods(*two, cacheResyncPeriodSeconds=0) == ["default/p1", "default/p2"]
    assert list_placed_pods(*two, discardReservedNodes=True, cacheResyncPeriodSeconds=5) == ["default/p1", "default/p2"]


def test_shared_resources_are_deducted_too() -> None:
    """The first pod is Burstable, so the kubelet gives it no exclusive CPUs."""
    assert list_placed_pods(build_pod("p1", SHARED, limits={}), build_pod("p2", SHARED)) == ["default/p1"]
    assert list_placed_pods(build_pod("p1", SHARED, limits={}), build_pod("p2", SHARED, limits={})) == [
        "default/p1",
        "default/p2",
    ]


def test_deducted_amounts_are_never_negative() -> None:
    """Upstream's UpdateNRT leaves 0 of an amount that is too small. There is enough memory."""
    small = {"cpu": "6", "memory": "1Gi"}
    shared = [build_pod(f"p{i}", small, limits={}) for i in range(3)]
    assert list_placed_pods(*shared, build_pod("p9", {"cpu": "1", "memory": "1Gi"})) == [
        f"default/p{i}" for i in range(3)
    ]


NIC = "vendor.com/nic"


@pytest.mark.parametrize(
    ("numa", "containers", "left"),
    [
        (
            ({"cpu": "20", "memory": "32Gi"}, {"cpu": "20", "memory": "32Gi", NIC: "8"}),
            ({"cpu": "16", "memory": "4Gi", NIC: "2"}, {"cpu": "2", "memory": "2Gi"}),
            {"cpu": [2_000, 2_000], "memory": [26 << 30, 26 << 30], NIC: [-1, 6]},
        ),
        (
            ({"cpu": "30", "memory": "60Gi"}, {"cpu": "30", "memory": "60Gi"}),
            ({"cpu": "8", "memory": "16Gi"},),
            {"cpu": [22_000, 22_000], "memory": [44 << 30, 44 << 30]},
        ),
    ],
    ids=["TestResourceStoreUpdate", "TestGetCachedNRTCopyReserve"],
)
def test_upstreams_tables_of_reserved_pods(numa: tuple[Json, ...], containers: tuple[Json, ...], left: Json) -> None:
    """The tables are store_test.go and overreserve_test.go. -1 means that a NUMA node lacks the resource."""
    reserved = build_pod("web", containers[0])
    reserved["spec"]["containers"] = [build_container(each) for each in containers]
    machine = {"kind": "Node", "metadata": {"name": "b"}, "status": {"allocatable": dict.fromkeys(numa[1], "1000Gi")}}
    found = build_cluster(build_topology("b", *numa), {**machine, "spec": {}}, reserved)
    view = Scheduler(found).view.fork()
    view.assume(view.pods.index["default/web"], view.nodes.index["b"])
    columns = build_numa_list(found.node_resource_topologies, view.nodes.index)
    taken = columns.subtract(OverReserve(NAME, NumaCacheArgs()).sum_reserved_requests(view))
    assert {name: taken.get_available_amounts(name)[view.nodes.index["b"]].tolist() for name in left} == left


# -- what was published ----------------------------------------------------------------------------------------------


def test_topology_of_the_current_pods() -> None:
    """The verdict is certain, but the best node may depend on older topologies."""
    there = build_pod("old", THREE, "a"), build_pod("done", THREE, "a", phase="Succeeded")
    found = explain_web(build_published_topology("old", "done"), *there, build_pod("web", THREE))
    assert (found["verdict"], list_doubts(found), found["undecided"]) == ("Schedulable", [(OLDER, "scores")], False)


@pytest.mark.parametrize("numa", [(HALF,), ({"cpu": "1", "memory": "4Gi"},)])
def test_topology_of_other_pods(numa: tuple[Json, ...]) -> None:
    found = explain_web(
        build_published_topology("gone", numa=numa), build_pod("old", THREE, "a"), build_pod("web", THREE)
    )
    assert list_doubts(found) == [(CHANGED, "verdict")]
    assert found["undecided"]


def test_topologies_are_compared_with_the_pods_of_their_node() -> None:
    """b has two pods, one with exclusive devices, and only b publishes these. c has no pods, d no topology, and the pod
    that e published is gone."""
    device = {GPU: "1"}
    shared = (
        build_pod("shared", {"cpu": "1"}, "b", {}),
        build_pod("device", device, "b"),
        build_pod("device-d", device, "d"),
    )
    there = (build_pod("one", THREE, "a"), *shared, build_pod("other", THREE, "e", scheduler="another"))

    def about(name: str, *names: str, numa: Json = HALF) -> Json:
        method = "with-exclusive-resources"
        found = build_published_topology(*names, method=method if name == "b" else "", numa=(numa,))
        return {**found, "metadata": {"name": name}}

    topologies = [about("a", "one"), about("b", "device", numa={**HALF, **device}), about("c"), about("e", "gone")]
    found = build_cluster(*(build_node(name) for name in "bcde"), *there, *topologies)
    view = Scheduler(found).view
    differ, foreign = OverReserve(NAME, NumaCacheArgs()).compare_published_pods(view)
    rows = [view.nodes.index[name] for name in "abcde"]
    assert differ[rows].tolist() == foreign[rows].tolist() == [False, False, False, False, True]


def test_topology_without_a_fingerprint() -> None:
    assert list_doubts(explain_web(build_topology("a", HALF), build_pod("web", THREE))) == [(CHANGED, "verdict")]


def test_pods_without_requests_are_certain() -> None:
    assert list_doubts(explain_web(build_topology("a", HALF), build_pod("web", {}))) == []


@pytest.mark.parametrize(
    ("mode", "phase", "same"),
    [
        ("Dedicated", "Running", True),
        ("Dedicated", "Failed", True),
        ("Dedicated", "Pending", False),
        ("Shared", "Running", True),
        ("Shared", "Failed", False),
    ],
)
def test_informer_mode_determines_the_known_pods(mode: str, phase: str, same: bool) -> None:
    there = build_pod("old", THREE, "a", phase=phase)
    found = explain_web(
        build_published_topology("old"), there, build_pod("web", THREE), cache={"informerMode": mode}, **OVER_RESERVE
    )
    assert list_doubts(found) == [(OLDER, "scores") if same else (CHANGED, "verdict")]


@pytest.mark.parametrize(
    ("requests", "limits", "exclusive"),
    [(THREE, None, True), (SHARED, None, True), ({"cpu": "3"}, {}, False), ({}, {}, False)],
)
def test_fingerprints_of_pods_with_exclusive_resources(requests: Json, limits: Json | None, exclusive: bool) -> None:
    """Whole CPUs and memory are exclusive to a Guaranteed pod. The method is published, or configured."""
    there = build_pod("old", requests, "a", limits)
    about = ["old"] if exclusive else []
    detected = explain_web(
        build_published_topology(*about, method="with-exclusive-resources"), there, build_pod("web", THREE)
    )
    settings = {"resyncMethod": "OnlyExclusiveResources"}
    configured = explain_web(
        build_published_topology(*about), there, build_pod("web", THREE), cache=settings, **OVER_RESERVE
    )
    assert list_doubts(detected) == list_doubts(configured) == [(OLDER, "scores")]
    other = explain_web(
        build_published_topology(*about), there, build_pod("web", THREE), cache={"resyncMethod": "All"}, **OVER_RESERVE
    )
    assert list_doubts(other) == [(OLDER, "scores") if exclusive else (CHANGED, "verdict")]


FPGA = "veryfast.io/fpga"
CORES, CORES_AND_DEVICE = {"cpu": "4", "memory": "2Gi"}, {"cpu": "8", "memory": "16Gi", FPGA: "1"}


@pytest.mark.parametrize(
    ("kind", "resources", "published_devices", "exclusive"),
    [
        ("container", {FPGA: "1"}, {FPGA}, True),
        ("container", {FPGA: "1"}, set(), False),
        ("container", CORES, set(), True),
        ("none", {}, {FPGA}, False),
        ("init", CORES, {FPGA}, False),
        ("sidecar", CORES, {FPGA}, True),
        ("init", {FPGA: "1"}, {FPGA}, False),
        ("sidecar", {FPGA: "1"}, {FPGA}, True),
        ("container", CORES_AND_DEVICE, {FPGA}, True),
        ("container", {"cpu": "8", FPGA: "1"}, {FPGA}, True),
        ("container", {"cpu": "8"}, {FPGA}, False),
    ],
)
def test_exclusive_table(kind: str, resources: Json, published_devices: set[str], exclusive: bool) -> None:
    """The table is resourcerequests/exclusive_test.go.

    Limits equal requests, and without memory no pod is Guaranteed.
    """
    found = build_pod("web", resources)
    spec = found["spec"]
    only = spec.pop("containers")
    if kind != "none":
        spec["containers" if kind == "container" else "initContainers"] = only
    if kind == "sidecar":
        only[0]["restartPolicy"] = "Always"
    assert has_exclusive_resources(msgspec.convert(found, Pod), frozenset(published_devices)) == exclusive


def test_pods_of_other_schedulers_exclude_their_node() -> None:
    foreign = build_pod("old", THREE, "a", scheduler="another")
    found = explain_web(build_published_topology("gone"), foreign, build_pod("web", THREE))
    assert found["filter"]["a"][NAME]["reasons"] == ["invalid node topology data"]
    assert found["filter"]["a"][NAME]["code"] == "Unschedulable"
    assert explain_web(build_published_topology("old"), foreign, build_pod("web", THREE))["verdict"] == "Schedulable"


@pytest.mark.parametrize(
    ("mode", "requests", "refused"),
    [
        ("None", THREE, False),
        ("All", {"cpu": "1"}, True),
        ("OnlyExclusiveResources", THREE, True),
        ("OnlyExclusiveResources", {"cpu": "1"}, False),
    ],
)
def test_detection_mode_determines_foreign_pods(mode: str, requests: Json, refused: bool) -> None:
    foreign = build_pod("old", requests, "a", {} if requests != THREE else None, scheduler="another")
    settings = {"foreignPodsDetect": mode}
    found = explain_web(
        build_published_topology("gone"), foreign, build_pod("web", THREE), cache=settings, **OVER_RESERVE
    )
    assert (NAME in found["filter"].get("a", {})) == refused


def test_pending_gangs_are_uncertain_with_discarded_nodes() -> None:
    member = build_pod("member", THREE)
    member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "gang"}
    discard = {"discardReservedNodes": True}
    assert list_doubts(explain_web(build_topology("a", HALF), build_pod("web", THREE), **discard)) == []
    found = list_doubts(explain_web(build_topology("a", HALF), build_pod("web", THREE), member, **discard))
    assert found == [(DISCARDED, "verdict")]


# -- what is named ---------------------------------------------------------------------------------------------------


PREEMPTS = {"preemptionMode": "Enabled"}


@pytest.mark.parametrize(
    ("args", "priority", "named"),
    [
        (PREEMPTS, 5, False),
        ({**PREEMPTS, "discardReservedNodes": True, **OVER_RESERVE}, 5, False),
        ({**PREEMPTS, **OVER_RESERVE}, 5, True),
        ({**PREEMPTS, **OVER_RESERVE}, 0, False),
        (OVER_RESERVE, 5, False),
    ],
)
def test_freed_resources_are_uncertain_if_placements_are_published(args: Json, priority: int, named: bool) -> None:
    """This holds only for victims of lower priority, and only if the NUMA nodes of containers are published."""
    placements = {
        "name": "topology.node.k8s.io/numaplacement-metadata",
        "value": "npv0v001::ve=leb89::cc=1::nn=2::bn=0",
    }
    about, there = build_published_topology("old"), build_pod("old", THREE, "a")
    big = build_pod("web", {"cpu": "5", "memory": "1Gi"}, priority=priority)
    untold = explain_web(about, there, big, **args)
    assert (FREED, "verdict") not in list_doubts(untold)
    told = explain_web({**about, "attributes": [*about["attributes"], placements]}, there, big, **args)
    assert ((FREED, "verdict") in list_doubts(told)) == named
    assert untold["notReplayed"] == told["notReplayed"] == []
