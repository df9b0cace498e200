"""Check cyclic dependencies: groups that share pods, pods with mutual affinity, and owners of each other.

No PodGroup names another one (scheduling.k8s.io/v1alpha2), nor does one of scheduler-plugins or Volcano: rings come of
pods that are of two groups. What the scheduler makes of them is read off podGroupSchedulingDefaultAlgorithm (v1.36) and
Coscheduling's Permit by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from group_clusters import GATES, build_node

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.wakes.changes_that_wake import find_wake_ups
from kschedctl.replay.run_queue import run_queue
from kschedctl.scheduler.engine.pod_groups.cycle import UNSCHEDULABLE_GROUP
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
LABEL = "scheduling.x-k8s.io/pod-group"
PLUGIN = {"name": "Coscheduling"}
COSCHEDULING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "queueSort": {"enabled": [PLUGIN], "disabled": [{"name": "*"}]},
                "multiPoint": {"enabled": [PLUGIN]},
            }
        }
    ],
}
WAITS = f"{UNSCHEDULABLE_GROUP}, one or more plugins asked to wait and no plugin rejected pod"


def build_pod_group(name: str, count: int, **meta: Any) -> Json:
    policy = {"gang": {"minCount": count}}
    metadata = {"name": name, "namespace": "a", **meta}
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    return {**kind, "metadata": metadata, "spec": {"schedulingPolicy": policy}}


def build_gang(name: str, count: int) -> Json:
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, "namespace": "a"}, "spec": {"minMember": count}}


def build_pod(name: str, group: str = "", of: str = "", *, app: str = "", beside: str = "", owner: str = "") -> Json:
    """Build a pod of a PodGroup and of a gang of scheduler-plugins, with required affinity to pods of another app."""
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    term = {"labelSelector": {"matchLabels": {"app": beside}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec |= {"affinity": required} if beside else {}
    labels = {**({LABEL: of} if of else {}), **({"app": app} if app else {})}
    metadata: Json = {"name": name, "namespace": "a", "labels": labels}
    if owner:
        metadata["ownerReferences"] = [build_owner_reference(owner)]
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def build_owner_reference(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}


def build_cluster(*objects: Json, config: Json | None = COSCHEDULING) -> Cluster:
    nodes = [build_node("n1", 4), build_node("n2", 4)]
    return Cluster.from_objects([*nodes, *objects], config=config, feature_gates=GATES, other_builds=True)


def get_bound_pods(found: Cluster) -> set[str]:
    """Return the pods that the queue binds."""
    run = run_queue(found, closed_loop=True).to_dict()
    everyone = {name for cycle in run["cycles"] for name in cycle.get("bound", ())}
    assert everyone | run["queueAfter"].keys() == {each.key for each in found.pods}
    return everyone


CROSSED = [
    build_pod_group("y", 2),
    build_pod_group("w", 2),
    build_gang("x", 2),
    build_gang("z", 2),
    build_pod("p1", "y", "x"),
    build_pod("p2", "y", "z"),
    build_pod("p3", "w", "z"),
    build_pod("p4", "w", "x"),
]


def test_groups_that_wait_for_each_other_are_never_bound() -> None:
    """The scheduler tries each PodGroup separately.

    Its pods wait for pods of the other group, and it gives up its nodes.
    """
    found = build_cluster(*CROSSED)
    assert get_bound_pods(found) == set()
    report = explain(found, "a/p1").to_dict()
    assert (report["verdict"], report["message"]) == ("Unschedulable", WAITS)
    first, *others = report["headline"].split(", ")
    assert first == "its gang y fits"
    assert sorted(report["podGroup"]["waitsFor"]) == ["a/x", "a/z"]
    assert report["podGroup"]["apart"] == ["a/w"]
    assert others[-1] == "whose pods wait for gang a/w: no pod is ever bound"


def test_two_pod_groups_in_one_gang() -> None:
    """The gang needs four pods at once, but the scheduler never tries more than two of them together."""
    objects = [build_pod_group("y", 2), build_pod_group("w", 2), build_gang("x", 4)]
    objects += [build_pod(f"{group}{i}", group, "x") for group in "yw" for i in range(2)]
    found = build_cluster(*objects)
    assert get_bound_pods(found) == set()
    told = explain(found, "a/w0").to_dict()["headline"]
    assert (
        told == "its gang w fits, but waits at Permit for gang a/x, whose pods wait for gang a/y: no pod is ever bound"
    )


def test_wakes_names_the_groups_for_which_the_gang_waits() -> None:
    scheduler = Scheduler(build_cluster(*CROSSED))
    told = find_wake_ups(scheduler, scheduler.view.build_stored_pod(scheduler.cluster.pod("a", "p1"))).headline
    assert told == "its gang x fits, but waits at Permit for gangs a/y and a/w"


@pytest.mark.parametrize(
    ("objects", "waits"),
    [
        ([build_pod_group("y", 2), build_gang("x", 2), build_pod("p1", "y", "x"), build_pod("p2", "y", "x")], False),
        (
            [
                build_pod_group("y", 2),
                build_gang("x", 2),
                build_pod("p1", "y", "x"),
                build_pod("p2", "y"),
                build_pod("p3", of="x"),
            ],
            True,
        ),
        ([build_pod_group("y", 1), build_gang("x", 1), build_pod("p1", "y", "x")], False),
    ],
    ids=["the same pods", "one pod in common", "one pod"],
)
def test_groups_that_share_pods_without_a_cycle(objects: list[Json], waits: bool) -> None:
    """All pods are bound in the end. A pod that is only in the gang may have to wait at Permit first."""
    found = build_cluster(*objects)
    assert get_bound_pods(found) == {each.key for each in found.pods}
    report = explain(found, "a/p1").to_dict()
    assert (report["headline"] == "its gang y fits, but waits at Permit for gang a/x") == waits
    assert (report["verdict"] == "Schedulable") != waits


@pytest.mark.parametrize("grouped", [True, False])
def test_pods_with_mutual_affinity(grouped: bool) -> None:
    """No node has the pod that the other pod requires, so neither is placed, with or without groups."""
    groups = [build_pod_group("left", 1), build_pod_group("right", 1)] if grouped else []
    names = ("left", "right") if grouped else ("", "")
    found = build_cluster(
        *groups,
        build_pod("l", names[0], app="l", beside="r"),
        build_pod("r", names[1], app="r", beside="l"),
        config=None,
    )
    assert get_bound_pods(found) == set()
    report = explain(found, "a/l").to_dict()
    assert report["verdict"] == "Unschedulable"
    assert report["filter"]["n1"].keys() == {"InterPodAffinity"}


@pytest.mark.parametrize("owners", [("p1", "p2"), ("p2", "p1"), ("p1", "p1")])
def test_pods_that_own_each_other_or_themselves(owners: tuple[str, str]) -> None:
    """The scheduler follows owner references only to the controller."""
    pods = [build_pod(f"p{i + 1}", "y", owner=owner) for i, owner in enumerate(owners)]
    found = build_cluster(build_pod_group("y", 2, ownerReferences=[build_owner_reference("p1")]), *pods, config=None)
    assert get_bound_pods(found) == {"a/p1", "a/p2"}


@pytest.mark.parametrize("config", [None, COSCHEDULING], ids=["default", "Coscheduling"])
def test_groups_without_pods(config: Json | None) -> None:
    """Groups without pods wait for no pod, and no pod waits for them."""
    found = build_cluster(build_pod_group("none", 3), build_gang("nobody", 3), build_pod("p"), config=config)
    assert get_bound_pods(found) == {"a/p"}
    assert explain(found, "a/p").to_dict()["podGroup"] is None
