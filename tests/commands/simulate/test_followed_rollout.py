"""Check the comparison of real rollouts with the replay, with arithmetic by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small import Json, node, pod, workload

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate.following_report import FollowedPlacement, FollowedRollout, OverlappingBinding
from kschedctl.commands.simulate.rollout_replay import RealPlacement, replay_rollout
from kschedctl.scheduler.engine.sampling import SampledFrom

SECOND = 10**9


def build_placement(
    name: str, node_name: str, second: float = 0, scheduler: str = "default-scheduler"
) -> RealPlacement:
    """Build a placement at a second."""
    return RealPlacement(int(second * SECOND), f"second {second}", f"d/{name}", node_name, scheduler)


def followed(objects: list[Json], *placements: RealPlacement, **options: Any) -> FollowedRollout:
    return replay_rollout(Cluster.from_objects(objects), placements, **options)


def one(report: FollowedRollout) -> FollowedPlacement:
    (found,) = report.placements
    return found


def test_a_pod_that_runs_is_tried_as_it_was_then() -> None:
    """Both run now; the first of them had two empty nodes, the second the one that the first left empty."""
    objects = [node("n1"), node("n2"), pod("a", "n2"), pod("b", "n1")]
    report = followed(objects, build_placement("a", "n2", 1), build_placement("b", "n1", 2))
    assert [each.best for each in report.placements] == [("n1", "n2"), ("n1",)]
    assert (report.agree, report.otherwise) == (2, 0)


def test_a_node_that_is_not_the_best() -> None:
    """n1 has a pod of 2 of its 4 cpus: the replay prefers n2.

    Of cpu 75 and 25 % are free then, of memory, where a pod counts with 200 MB of 8 GiB, 97 and 95 %.
    """
    found = one(followed([node("n1"), node("n2"), pod("x", "n1", "2"), pod("a", "n1")], build_placement("a", "n1")))
    assert (found.outcome, found.best, found.feasible) == ("NotBest", ("n2",), 2)
    assert found.behind == sum(found.lost.values()) > 0
    assert found.lost["NodeResourcesFit"] == (75 + 97) // 2 - (25 + 95) // 2


def test_a_node_that_refuses_the_pod() -> None:
    found = one(followed([node("n1"), node("n2"), pod("x", "n1", "4"), pod("a", "n1")], build_placement("a", "n1")))
    assert (found.outcome, found.plugin, found.reasons) == ("NotFeasible", "NodeResourcesFit", ("Insufficient cpu",))
    assert found.feasible == 1


def test_what_is_not_the_replayed_scheduler_s() -> None:
    objects = [node("n1"), pod("a"), pod("b", schedulerName="mine"), pod("c")]
    report = followed(
        objects,
        build_placement("a", "n1", 1, "mine"),
        build_placement("b", "n1", 2),
        build_placement("c", "gone", 3),
        build_placement("nobody", "n1", 4),
    )
    outcomes = [each.outcome for each in report.placements]
    assert outcomes == ["OtherScheduler", "OtherScheduler", "UnknownNode", "UnknownPod"]
    assert (report.agree, report.otherwise) == (0, 3)


def test_events_of_the_same_moment_have_no_order() -> None:
    """``b`` went to the emptier node before ``a`` took it; a second apart that would be otherwise."""
    objects = [node("n1"), node("n2"), pod("x", "n1"), pod("a", "n2", "2"), pod("b", "n2")]
    report = followed(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 1.01))
    assert [(each.outcome, each.order) for each in report.placements] == [("AsReplayed", 0), ("AsReplayed", -1)]
    report = followed(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 2))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotBest"]


def test_bindings_that_overlap_are_named_where_they_explain_it() -> None:
    """``b`` fits the moment before ``a``, which took more of n2 than ``x`` of n1; a second later it is no sign."""
    objects = [node("n1"), node("n2"), pod("x", "n1"), pod("a", "n2", "2"), pod("b", "n2")]
    found = followed(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 1.3)).placements[1]
    assert (found.outcome, found.overlapping) == ("NotBest", (OverlappingBinding("d/a", "n2", -300),))
    assert (
        followed(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 2)).placements[1].overlapping == ()
    )


def test_so_are_those_that_were_bound_later() -> None:
    """``b`` went beside ``y``: as the replay has it, once ``c`` took more of n1 than that."""
    objects = [node("n1"), node("n2"), pod("y", "n2"), pod("b", "n2"), pod("c", "n1", "2"), pod("d", "n1")]
    report = followed(
        objects, build_placement("b", "n2", 1), build_placement("c", "n1", 1.3), build_placement("d", "n1", 9)
    )
    assert report.placements[0].overlapping == (OverlappingBinding("d/c", "n1", 300),)
    assert [each.outcome for each in report.placements] == ["NotBest", "AsReplayed", "AsReplayed"]


def test_several_may_be_needed_together() -> None:
    """Each of two pods took a cpu of n2: only without both it is better than n1."""
    taken = [pod("a1", "n2"), pod("a2", "n2")]
    objects = [node("n1"), node("n2"), pod("x", "n1", "500m"), *taken, pod("b", "n2")]
    report = followed(
        objects, build_placement("a1", "n2", 1), build_placement("a2", "n2", 1.2), build_placement("b", "n2", 1.5)
    )
    assert [each.pod for each in report.placements[2].overlapping] == ["d/a2", "d/a1"]


def test_where_nothing_explains_it_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """All go to the fuller node, as if scores were turned round; after two nobody looks for the order any more."""
    monkeypatch.setattr("kschedctl.commands.simulate.rollout_replay.MAX_UNEXPLAINED", 2)
    names = [f"p{number}" for number in range(5)]
    objects = [node("n1", cpu="16"), node("n2", cpu="64"), *(pod(name, "n1") for name in names)]
    report = followed(objects, *(build_placement(name, "n1", 1 + number / 5) for number, name in enumerate(names)))
    assert [each.outcome for each in report.placements] == ["NotBest"] * 5
    ended = "the search for overlapping bindings ended after 2 placements that none explains"
    assert report.assumed == (ended,)


def test_pods_that_came_later_are_not_there_yet() -> None:
    """``late`` fills n1, where ``a`` went before it was created."""
    late = pod("late", "n1", "3")
    late["metadata"]["creationTimestamp"] = "1970-01-01T00:00:09Z"
    report = followed([node("n1"), node("n2", cpu="3"), late, pod("a", "n1", "2")], build_placement("a", "n1", 5))
    assert one(report).outcome == "AsReplayed"
    assert len(report.assumed) == 1


def test_pods_of_manifests_stand_for_those_of_their_workload() -> None:
    web = workload("Deployment", spec={"replicas": 2})
    report = followed(
        [node("n1"), node("n2")],
        build_placement("web-6d4-x1", "n1", 1),
        build_placement("web-6d4-x2", "n2", 2),
        manifests=[web],
    )
    assert (report.agree, report.otherwise) == (2, 0)


def test_in_large_clusters_a_part_of_the_nodes_decides() -> None:
    """200 nodes, 100 are enough, and the first 50 are better: one of the others may be the best of a part."""
    nodes = [node(f"n{i:03}", cpu="8" if i < 50 else "4") for i in range(200)]
    outcomes = {
        (name, start): one(followed([*nodes, pod("a", name)], build_placement("a", name), sampling=sampling)).outcome
        for name, start, sampling in (
            ("n120", None, None),
            ("n120", 60, SampledFrom(60)),
            ("n050", 60, SampledFrom(60)),
        )
    }
    assert outcomes == {("n120", None): "BestOfAPart", ("n120", 60): "AsReplayed", ("n050", 60): "NotLookedAt"}


def test_other_orders_that_are_tried_move_no_search() -> None:
    """Of 200 nodes 100 are enough: ``z`` has the first half, ``a`` the second, where it went to none of the best."""
    nodes = [node(f"n{i:03}", cpu="8" if 100 <= i < 150 else "4") for i in range(200)]
    went = {"z": "n000", "a": "n160", "b": "n020"}
    placements = [build_placement(name, to, 1 + number / 20) for number, (name, to) in enumerate(went.items())]
    pods = [pod(name, to) for name, to in went.items()]
    report = followed([*nodes, *pods], *placements, sampling=SampledFrom(0))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotBest", "AsReplayed"]


def test_a_volume_that_was_attached_for_the_pod_counts_with_it() -> None:
    """To NodeVolumeLimits it would be there beside the pod's own, and the node takes only one."""
    meta, created = {"name": "v"}, {"creationTimestamp": "1970-01-01T00:00:02Z"}
    driver = {"name": "d.example", "nodeID": "n1", "allocatable": {"count": 1}}
    csi = {"driver": "d.example", "volumeHandle": "v"}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": csi}
    claim = {"metadata": {"name": "c", "namespace": "d"}, "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]}}
    attached = {"attacher": "d.example", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [
        node("n1"),
        pod("a", "n1", volumes=volumes),
        {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [driver]}},
        {"kind": "PersistentVolume", "metadata": meta, "spec": {**spec, "claimRef": {"namespace": "d", "name": "c"}}},
        {"kind": "PersistentVolumeClaim", **claim, "status": {"phase": "Bound"}},
        {"kind": "VolumeAttachment", "metadata": {"name": "va", **created}, "spec": attached},
    ]
    objects[4]["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    assert one(followed(objects, build_placement("a", "n1", 2.5))).outcome == "AsReplayed"
    assert one(followed(objects, build_placement("a", "n1", 3.5))).plugin == "NodeVolumeLimits"


def test_a_pod_that_came_later_was_promised_nothing_yet() -> None:
    waiting = pod("urgent", cpu="3", priority=9)
    waiting["metadata"]["creationTimestamp"] = "1970-01-01T00:00:05Z"
    waiting["status"] = {"nominatedNodeName": "n1"}
    objects = [node("n1"), waiting, pod("a", "n1", "2"), pod("b", "n1", "2")]
    report = followed(objects, build_placement("a", "n1", 4), build_placement("b", "n1", 6))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotFeasible"]
