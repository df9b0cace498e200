"""Check the comparison of real rollouts with the replay, with arithmetic by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small import Json, build_node, build_pod, build_workload

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


def follow_rollout(objects: list[Json], *placements: RealPlacement, **options: Any) -> FollowedRollout:
    return replay_rollout(Cluster.from_objects(objects), placements, **options)


def get_only_placement(report: FollowedRollout) -> FollowedPlacement:
    (found,) = report.placements
    return found


def test_running_pods_are_replayed_as_of_their_binding() -> None:
    """Both pods run now. The first one had two empty nodes, the second one the node that the first left empty."""
    objects = [build_node("n1"), build_node("n2"), build_pod("a", "n2"), build_pod("b", "n1")]
    report = follow_rollout(objects, build_placement("a", "n2", 1), build_placement("b", "n1", 2))
    assert [each.best for each in report.placements] == [("n1", "n2"), ("n1",)]
    assert (report.agree, report.otherwise) == (2, 0)


def test_chosen_node_that_is_not_the_best() -> None:
    """A pod on n1 uses 2 of 4 CPUs, so the replay prefers n2.

    75 and 25 % of the CPU would then be free, and 97 and 95 % of memory, of which a pod counts with 200 MB of 8 GiB.
    """
    found = get_only_placement(
        follow_rollout(
            [build_node("n1"), build_node("n2"), build_pod("x", "n1", "2"), build_pod("a", "n1")],
            build_placement("a", "n1"),
        )
    )
    assert (found.outcome, found.best, found.feasible) == ("NotBest", ("n2",), 2)
    assert found.behind == sum(found.lost.values()) > 0
    assert found.lost["NodeResourcesFit"] == (75 + 97) // 2 - (25 + 95) // 2


def test_chosen_node_that_rejects_the_pod() -> None:
    found = get_only_placement(
        follow_rollout(
            [build_node("n1"), build_node("n2"), build_pod("x", "n1", "4"), build_pod("a", "n1")],
            build_placement("a", "n1"),
        )
    )
    assert (found.outcome, found.plugin, found.reasons) == ("NotFeasible", "NodeResourcesFit", ("Insufficient cpu",))
    assert found.feasible == 1


def test_bindings_that_cannot_be_replayed() -> None:
    objects = [build_node("n1"), build_pod("a"), build_pod("b", schedulerName="mine"), build_pod("c")]
    report = follow_rollout(
        objects,
        build_placement("a", "n1", 1, "mine"),
        build_placement("b", "n1", 2),
        build_placement("c", "gone", 3),
        build_placement("nobody", "n1", 4),
    )
    outcomes = [each.outcome for each in report.placements]
    assert outcomes == ["OtherScheduler", "OtherScheduler", "UnknownNode", "UnknownPod"]
    assert (report.agree, report.otherwise) == (0, 3)


def test_simultaneous_events_have_no_order() -> None:
    """``b`` got the emptier node before ``a`` took it. If the events were a second apart, this would be an error."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("x", "n1"),
        build_pod("a", "n2", "2"),
        build_pod("b", "n2"),
    ]
    report = follow_rollout(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 1.01))
    assert [(each.outcome, each.order) for each in report.placements] == [("AsReplayed", 0), ("AsReplayed", -1)]
    report = follow_rollout(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 2))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotBest"]


def test_overlapping_bindings_explain_a_choice() -> None:
    """``b`` fits before ``a``, which used more of n2 than ``x`` of n1. One second later, this would not explain it."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("x", "n1"),
        build_pod("a", "n2", "2"),
        build_pod("b", "n2"),
    ]
    found = follow_rollout(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 1.3)).placements[1]
    assert (found.outcome, found.overlapping) == ("NotBest", (OverlappingBinding("d/a", "n2", -300),))
    assert (
        follow_rollout(objects, build_placement("a", "n2", 1), build_placement("b", "n2", 2)).placements[1].overlapping
        == ()
    )


def test_later_bindings_explain_a_choice() -> None:
    """``b`` was placed beside ``y``, as in the replay once ``c`` used more of n1 than that."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("y", "n2"),
        build_pod("b", "n2"),
        build_pod("c", "n1", "2"),
        build_pod("d", "n1"),
    ]
    report = follow_rollout(
        objects, build_placement("b", "n2", 1), build_placement("c", "n1", 1.3), build_placement("d", "n1", 9)
    )
    assert report.placements[0].overlapping == (OverlappingBinding("d/c", "n1", 300),)
    assert [each.outcome for each in report.placements] == ["NotBest", "AsReplayed", "AsReplayed"]


def test_several_bindings_together_explain_a_choice() -> None:
    """Each of two pods took a CPU of n2. Only without both, it is better than n1."""
    taken = [build_pod("a1", "n2"), build_pod("a2", "n2")]
    objects = [build_node("n1"), build_node("n2"), build_pod("x", "n1", "500m"), *taken, build_pod("b", "n2")]
    report = follow_rollout(
        objects, build_placement("a1", "n2", 1), build_placement("a2", "n2", 1.2), build_placement("b", "n2", 1.5)
    )
    assert [each.pod for each in report.placements[2].overlapping] == ["d/a2", "d/a1"]


def test_search_for_an_order_ends_if_nothing_explains_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods go to the fuller node, as if scores were reversed. After two pods, no further orders are tried."""
    monkeypatch.setattr("kschedctl.commands.simulate.rollout_replay.MAX_UNEXPLAINED", 2)
    names = [f"p{number}" for number in range(5)]
    objects = [build_node("n1", cpu="16"), build_node("n2", cpu="64"), *(build_pod(name, "n1") for name in names)]
    report = follow_rollout(
        objects, *(build_placement(name, "n1", 1 + number / 5) for number, name in enumerate(names))
    )
    assert [each.outcome for each in report.placements] == ["NotBest"] * 5
    ended = "the search for overlapping bindings ended after 2 placements that none explains"
    assert report.assumed == (ended,)


def test_later_pods_are_not_in_the_cluster_yet() -> None:
    """``late`` fills n1, but ``a`` was placed there before ``late`` was created."""
    late = build_pod("late", "n1", "3")
    late["metadata"]["creationTimestamp"] = "1970-01-01T00:00:09Z"
    report = follow_rollout(
        [build_node("n1"), build_node("n2", cpu="3"), late, build_pod("a", "n1", "2")], build_placement("a", "n1", 5)
    )
    assert get_only_placement(report).outcome == "AsReplayed"
    assert len(report.assumed) == 1


def test_pods_of_manifests_stand_for_the_pods_of_their_workload() -> None:
    web = build_workload("Deployment", spec={"replicas": 2})
    report = follow_rollout(
        [build_node("n1"), build_node("n2")],
        build_placement("web-6d4-x1", "n1", 1),
        build_placement("web-6d4-x2", "n2", 2),
        manifests=[web],
    )
    assert (report.agree, report.otherwise) == (2, 0)


def test_sampling_explains_a_choice_in_large_clusters() -> None:
    """100 of 200 nodes are enough, and the first 50 are better. One of the other nodes may be the best of a sample."""
    nodes = [build_node(f"n{i:03}", cpu="8" if i < 50 else "4") for i in range(200)]
    outcomes = {
        (name, start): get_only_placement(
            follow_rollout([*nodes, build_pod("a", name)], build_placement("a", name), sampling=sampling)
        ).outcome
        for name, start, sampling in (
            ("n120", None, None),
            ("n120", 60, SampledFrom(60)),
            ("n050", 60, SampledFrom(60)),
        )
    }
    assert outcomes == {("n120", None): "BestOfAPart", ("n120", 60): "AsReplayed", ("n050", 60): "NotLookedAt"}


def test_tried_orders_do_not_advance_the_sampling() -> None:
    """100 of 200 nodes are enough.

    ``z`` has the first half, and ``a`` the second half, where it got none of the best nodes.
    """
    nodes = [build_node(f"n{i:03}", cpu="8" if 100 <= i < 150 else "4") for i in range(200)]
    went = {"z": "n000", "a": "n160", "b": "n020"}
    placements = [build_placement(name, to, 1 + number / 20) for number, (name, to) in enumerate(went.items())]
    pods = [build_pod(name, to) for name, to in went.items()]
    report = follow_rollout([*nodes, *pods], *placements, sampling=SampledFrom(0))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotBest", "AsReplayed"]


def test_volume_attached_for_the_pod_is_not_counted_twice() -> None:
    """For NodeVolumeLimits, it would exist beside the pod's own volume, and the node accepts only one."""
    meta, created = {"name": "v"}, {"creationTimestamp": "1970-01-01T00:00:02Z"}
    driver = {"name": "d.example", "nodeID": "n1", "allocatable": {"count": 1}}
    csi = {"driver": "d.example", "volumeHandle": "v"}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": csi}
    claim = {"metadata": {"name": "c", "namespace": "d"}, "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]}}
    attached = {"attacher": "d.example", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [
        build_node("n1"),
        build_pod("a", "n1", volumes=volumes),
        {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [driver]}},
        {"kind": "PersistentVolume", "metadata": meta, "spec": {**spec, "claimRef": {"namespace": "d", "name": "c"}}},
        {"kind": "PersistentVolumeClaim", **claim, "status": {"phase": "Bound"}},
        {"kind": "VolumeAttachment", "metadata": {"name": "va", **created}, "spec": attached},
    ]
    objects[4]["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    assert get_only_placement(follow_rollout(objects, build_placement("a", "n1", 2.5))).outcome == "AsReplayed"
    assert get_only_placement(follow_rollout(objects, build_placement("a", "n1", 3.5))).plugin == "NodeVolumeLimits"


def test_later_pod_is_not_nominated_yet() -> None:
    waiting = build_pod("urgent", cpu="3", priority=9)
    waiting["metadata"]["creationTimestamp"] = "1970-01-01T00:00:05Z"
    waiting["status"] = {"nominatedNodeName": "n1"}
    objects = [build_node("n1"), waiting, build_pod("a", "n1", "2"), build_pod("b", "n1", "2")]
    report = follow_rollout(objects, build_placement("a", "n1", 4), build_placement("b", "n1", 6))
    assert [each.outcome for each in report.placements] == ["AsReplayed", "NotFeasible"]
