"""Check that recreated pods have the zone and region of their template, and not those of their old node."""

from __future__ import annotations

import pytest
from small import ZONE, Json, build_node, build_replica, build_workload

from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.failures import simulate_failures
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

REGION = "topology.kubernetes.io/region"
SELECTED_ZONE = {"labelSelector": {"matchLabels": {ZONE: "a"}}, "topologyKey": "kubernetes.io/hostname"}
REPELS_ZONE_A = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELECTED_ZONE]}}


def build_labelled_replica(name: str, node: str, zone: str, **spec: object) -> Json:
    """Build a pod of the Deployment d/web with the zone and region that admission copied from its node."""
    pod = build_replica(name, node, **spec)
    pod["metadata"]["labels"] |= {ZONE: zone, REGION: "r"}
    return pod


def build_template_owner(kind: str, name: str) -> Json:
    """Build a workload whose template sets the zone label to b."""
    workload = build_workload(kind, name)
    workload["metadata"]["namespace"] = "d"
    workload["spec"]["template"]["metadata"]["labels"][ZONE] = "b"
    return workload


def test_labels_of_the_old_node_are_dropped() -> None:
    cluster = Cluster.from_objects([build_node("n0", "a"), build_labelled_replica("w", "n0", "a")])
    recreated = recreate_pod(next(iter(cluster.pods)), cluster)
    assert recreated.metadata.labels == {"app": "web", "pod-template-hash": "5f"}
    assert (recreated.spec.node_name, recreated.metadata.uid) == ("", "uid-w")


@pytest.mark.parametrize(("kind", "name"), [("ReplicaSet", "web-5f"), ("Deployment", "web")])
def test_labels_of_the_template_stay(kind: str, name: str) -> None:
    """The template's zone b replaces zone a, with which admission overwrote it on the node."""
    objects = [build_node("n0", "a"), build_labelled_replica("w", "n0", "a"), build_template_owner(kind, name)]
    cluster = Cluster.from_objects(objects)
    recreated = recreate_pod(next(iter(cluster.pods)), cluster)
    assert recreated.metadata.labels == {"app": "web", "pod-template-hash": "5f", ZONE: "b"}


def test_template_of_another_workload_does_not_count() -> None:
    objects = [build_labelled_replica("w", "n0", "a"), build_template_owner("ReplicaSet", "other-5f")]
    cluster = Cluster.from_objects([build_node("n0", "a"), *objects])
    assert ZONE not in recreate_pod(next(iter(cluster.pods)), cluster).metadata.labels


def test_pod_without_a_node_keeps_its_labels() -> None:
    cluster = Cluster.from_objects([build_labelled_replica("w", "", "a")])
    assert recreate_pod(next(iter(cluster.pods)), cluster).metadata.labels[ZONE] == "a"


def test_recreated_pod_is_not_selected_by_its_old_zone() -> None:
    """The pod on n1 repels pods with the label zone=a, which the pod from zone a no longer has."""
    lost = build_labelled_replica("lost", "n0", "a")
    guard = build_labelled_replica("guard", "n1", "b", affinity=REPELS_ZONE_A)
    report = simulate_failures(Cluster.from_objects([build_node("n0", "a"), build_node("n1", "b"), lost, guard]))
    failure = next(failure for failure in report.failures if failure.name == "a")
    assert (failure.displaced, failure.unplaced) == (1, 0)


def test_pods_of_a_template_from_several_zones_share_what_is_computed_for_them() -> None:
    nodes = [build_node(f"n{zone}", zone) for zone in "ab"]
    pods = [build_labelled_replica(f"w{zone}", f"n{zone}", zone) for zone in "ab"]
    larger = build_labelled_replica("x", "nb", "b", cpu="2")
    simulation = Simulation(Scheduler(Cluster.from_objects([*nodes, *pods, larger])))
    find = simulation.view.pods.find_position
    infos = {
        name: simulation.get_shared_incoming_info(position)
        for name in ("wa", "wb", "x")
        if (position := find(f"d/{name}")) is not None
    }
    assert infos["wa"] is infos["wb"] is not infos["x"]
