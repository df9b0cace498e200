"""Check that commands that plan for manifests do not count the pods that the manifests replace."""

from __future__ import annotations

import pytest
from small import Json, build_node, build_replica, build_workload

from kschedctl import Cluster
from kschedctl.commands.consolidate import consolidate
from kschedctl.commands.make_room import make_room_for_manifests
from kschedctl.commands.remedies import find_manifest_remedies
from kschedctl.commands.simulate import simulate
from kschedctl.commands.size import size


def build_change(name: str = "web") -> Json:
    """Return a Deployment of two pods of two CPUs each, which together fill a node."""
    containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}]
    return build_workload("Deployment", name, {"replicas": 2}, {"containers": containers})


def build_cluster(*more: Json) -> Cluster:
    """Return a cluster whose only node runs two pods of 1.5 CPUs of the Deployment."""
    return Cluster.from_objects(
        [build_node("n1"), build_replica("a", "n1", "1.5"), build_replica("b", "n1", "1.5"), *more]
    )


@pytest.mark.parametrize("name", ["web", "other"])
def test_only_replaced_pods_leave_their_room(name: str) -> None:
    """The changed Deployment takes the room of its old pods. For another one, a second node is needed."""
    cluster, manifest = build_cluster(), build_change(name)
    replaces = name == "web"
    assert (simulate(cluster, [manifest]).unplaced == 0) is replaces

    fixes = find_manifest_remedies(cluster, [manifest])
    assert (fixes.waiting == 0) is replaces
    room = make_room_for_manifests(cluster, [manifest])
    assert room.fits is replaces
    assert not room.moves
    sizing = size(cluster, [manifest])
    assert (sizing.pods, sizing.nodes) == ((2, 1) if replaces else (4, 2))


@pytest.mark.parametrize("name", ["web", "other"])
def test_headroom_replaces_old_pods(name: str) -> None:
    report = consolidate(build_cluster(build_node("n2")), headroom_for=[build_change(name)])
    assert len(report.removable) == (name == "web")
