"""Check which new nodes drains and failures propose for pods that fit nowhere else."""

from __future__ import annotations

from typing import Any

from small import Json, build_node, build_pod

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.replay.scenarios import load_scenario

ZONE = "topology.kubernetes.io/zone"
FULL, WEB = {"kind": "ReplicaSet", "name": "full"}, {"kind": "ReplicaSet", "name": "web"}


def build_zonal_pod(name: str, node_name: str, zone: str) -> Json:
    return build_pod(name, node_name, "3", {"kind": "ReplicaSet", "name": f"web-{zone}"}, nodeSelector={ZONE: zone})


def build_cluster(*more: Json) -> Cluster:
    """Build two zones with a full node each, and a node each that runs a pod that needs the zone."""
    full = [build_pod(f"full-{zone}", f"{zone}2", "4", FULL) for zone in "ab"]
    nodes = [build_node(f"{zone}{number}", zone) for zone in "ab" for number in (1, 2)]
    return Cluster.from_objects(
        [*nodes, *full, build_zonal_pod("wa", "a1", "a"), build_zonal_pod("wb", "b1", "b"), *more]
    )


def list_additions(scenario: Any) -> dict[str, int]:
    """Return the number of added nodes of a scenario, by the node that they are like."""
    additions = (step["addNodes"] for step in scenario["steps"] if "addNodes" in step)
    return {addition["like"]: addition["count"] for addition in additions}


def test_a_drain_in_several_zones_proposes_nodes_in_each_of_them() -> None:
    cluster = build_cluster()
    report = kschedctl.drain(cluster, ["a1", "b1"])
    assert len(report.unplaced) == 2
    assert list_additions(report.remedy) == {"a1": 1, "b1": 1}
    assert report.remedy is not None
    after = kschedctl.whatif(cluster, load_scenario(report.remedy))
    assert {change.change for change in after.changes} == {"Moved"}


def test_each_zone_gets_as_many_nodes_as_its_pods_need() -> None:
    cluster = build_cluster(build_node("b3", "b"), build_zonal_pod("wb2", "b3", "b"))
    assert list_additions(kschedctl.drain(cluster, ["a1", "b1", "b3"]).remedy) == {"a1": 1, "b1": 2}


def test_one_kind_of_node_is_proposed_if_it_is_enough() -> None:
    objects = [build_node("a1"), build_node("b1", "b"), build_pod("p", "a1", "3", WEB), build_pod("q", "b1", "3", WEB)]
    assert list(list_additions(kschedctl.drain(Cluster.from_objects(objects), ["a1", "b1"]).remedy)) == ["a1"]


def test_nothing_is_proposed_if_no_node_accepts_some_of_the_pods() -> None:
    """The node lost the label that its pod selects."""
    unmatched = build_pod("old", "a1", "500m", {"kind": "ReplicaSet", "name": "old"}, nodeSelector={"disk": "gone"})
    assert kschedctl.drain(build_cluster(unmatched), ["a1", "b1"]).remedy is None
