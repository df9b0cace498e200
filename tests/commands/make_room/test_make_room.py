"""Check that `make-room` finds the fewest moves, respects what must not move, and explains failure; values by hand."""

from __future__ import annotations

from itertools import count

import pytest
from control_plane import kubectl
from control_plane.running import run
from control_plane.store import Key
from control_plane.world import build_store
from interrupting import Interrupting
from small import HOSTNAME, Json, build_budget, build_node, build_pod, build_replica, build_workload

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room, make_room, search
from kschedctl.commands.make_room.report import FragmentedResource, MakeRoom, TerminatingRoom
from kschedctl.commands.make_room.room import WAITING, RoomCriteria
from kschedctl.errors import UsageError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

BATCH = {"kind": "ReplicaSet", "name": "batch"}
GPU = "nvidia.com/gpu"


def build_waiting_pod(cpu: str = "3", name: str = "new", **spec: object) -> Json:
    found = build_pod(name, "", cpu, BATCH, **spec)
    found["metadata"]["labels"] = {"app": "batch"}
    return found


def search_room(objects: list[Json], *names: str, **criteria: object) -> MakeRoom:
    keys = [f"d/{name}" for name in names or ("new",)]
    return find_room(Cluster.from_objects(objects), keys, RoomCriteria(**criteria))  # type: ignore[arg-type]


def list_moves(report: MakeRoom) -> list[tuple[str, str, str]]:
    return [(move.pod, move.source, move.target) for move in report.moves]


def add_gpus(made: Json, number: int) -> Json:
    """Add GPUs to the node or pod."""
    if made["kind"] == "Node":
        made["status"]["allocatable"][GPU] = str(number)
    else:
        for kind in ("requests", "limits"):
            made["spec"]["containers"][0]["resources"].setdefault(kind, {})[GPU] = str(number)
    return made


def test_pod_that_fits_needs_no_move() -> None:
    report = search_room([build_node("n1"), build_replica("a", "n1", "1"), build_waiting_pod("3")])
    assert (report.fits, report.moves, report.commands) == (True, (), ())
    assert report.placed[0].node == "n1"


def test_pods_that_a_quota_denies_are_named() -> None:
    """The quota has room for one more pod, and the Job wants three."""
    quota = {"kind": "ResourceQuota", "metadata": {"name": "cap", "namespace": "d"}, "spec": {"hard": {"pods": "1"}}}
    quota["status"] = {"hard": {"pods": "1"}, "used": {"pods": "0"}}
    job = {**build_workload("Job", "load", {"parallelism": 3, "completions": 3}), "apiVersion": "batch/v1"}
    report = make_room(Cluster.from_objects([build_node("n1"), quota]), [job])
    assert (report.pods, report.fits) == (("d/load-0",), True)
    text = "o room is made for pods of Job d/load that cannot be created: 2 of 3 pods"
    for output in ("table", "brief"):
        assert text in RENDERERS[output](report, Style(width=200))


def test_one_move_is_enough() -> None:
    """2 of 4 CPUs are free on both nodes, and 3 are needed. Either pod fits on the other's node."""
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_replica("a", "n1", "2"),
            build_replica("b", "n2", "2"),
            build_waiting_pod("3"),
        ]
    )
    assert list_moves(report) == [("d/a", "n1", "n2")]
    assert [(placed.pod, placed.node) for placed in report.placed] == [("d/new", "n1")]


def test_pending_pod_cannot_be_evicted() -> None:
    """d/w (1 CPU) is pending and would get n2, where 3 of 4 CPUs are free. It runs nowhere, so it cannot leave n2."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_pod("x", "n1", "2"),
        build_pod("y", "n2", "1"),
        build_replica("w", "", "1"),
        build_waiting_pod("3"),
    ]
    report = search_room(objects)
    assert [placed.node for placed in report.placed_first] == ["n2"]
    assert (report.fits, report.moves) == (False, ())
    assert (WAITING, 1) in [(held.why, held.pods) for held in report.held]


def test_node_is_uncordoned_only_once_the_evicted_pod_is_gone() -> None:
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_replica("a", "n1", "2"),
            build_replica("b", "n2", "2"),
            build_waiting_pod("3"),
        ]
    )
    *_, wait, wait_for_replacement, uncordon = report.commands
    assert wait == "kubectl wait -n d --for=delete pod/a --timeout=5m"
    assert wait_for_replacement == "kubectl rollout status -n d deployment/web --timeout=5m"
    assert uncordon == "kubectl uncordon n1"
    assert not report.moves[0].is_only_pod  # d/b is another replica


def test_kubectl_waits_for_the_replacement_of_a_single_replica() -> None:
    alone = build_replica("a-0", "n1", "2")
    alone["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "a", "controller": True}]
    report = search_room(
        [build_node("n1"), build_node("n2"), alone, build_pod("fixed", "n2", "2"), build_waiting_pod("3")]
    )
    assert list_moves(report) == [("d/a-0", "n1", "n2")]
    *_, wait_for_replacement, uncordon = report.commands
    assert wait_for_replacement == "kubectl rollout status -n d statefulset/a --timeout=5m"
    assert uncordon == "kubectl uncordon n1"
    outage = "StatefulSet d/a has no running pod until the replacement of d/a-0 runs"
    assert outage in report.to_short_fix().but


def test_replicas_that_take_the_room_first_are_named() -> None:
    """The move of a makes room for one pod of 3 CPUs, which the older one takes."""
    older, younger = build_waiting_pod("3", "older"), build_waiting_pod("3")
    older["metadata"]["creationTimestamp"] = "2026-11-20T10:00:00Z"
    younger["metadata"]["creationTimestamp"] = "2026-11-20T11:00:00Z"
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("a", "n1", "2"),
        build_replica("b", "n2", "2"),
        older,
        younger,
    ]
    report = search_room(objects)
    assert (report.fits, report.rivals) == (False, ("d/older",))
    sentence = "kube-scheduler first tries 1 other pod of the same workload, which takes the room: d/older"
    assert report.summary().warnings[-1].startswith(sentence)
    assert sentence in " ".join(RENDERERS["table"](report, Style()).split())
    assert len(list_moves(search_room(objects, "new", "older"))) == 1


def test_moves_do_not_help_a_pod_that_no_node_takes() -> None:
    report = search_room(
        [build_node("n1"), build_replica("a", "n1", "2"), build_waiting_pod("3", nodeSelector={"pool": "genral"})]
    )
    assert report.build_headline_parts() == ("No room can be made:", "d/new", "– no node takes it, whichever pods move")


def build_terminating_pod(name: str, node_name: str, cpu: str) -> Json:
    """Build a bare pod that is being deleted."""
    made = build_pod(name, node_name, cpu)
    made["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    return made


def test_room_of_terminating_pods_needs_no_moves() -> None:
    """A pod uses 3 of the 4 CPUs of n1. First no controller recreates it, then it is terminating."""
    assert search_room([build_node("n1"), build_pod("stays", "n1", "3"), build_waiting_pod()]).terminating_room is None
    report = search_room([build_node("n1"), build_terminating_pod("goes", "n1", "3"), build_waiting_pod()])
    assert report.terminating_room == TerminatingRoom(("n1",), ("d/goes",))
    line = "Nothing has to move: d/new – n1 takes it once 1 terminating pod leaves: d/goes"
    assert (report.fits, str(report), report.summary().headline) == (False, line, line)
    assert report.commands == ("kubectl wait -n d --for=delete pod/goes --timeout=5m",)
    assert report.commands[0] in RENDERERS["table"](report, Style())

    # A plan is still shown, as the second choice
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_terminating_pod("goes", "n1", "2"),
            build_replica("a", "n2", "2"),
            build_waiting_pod(),
        ]
    )
    assert list_moves(report) == [("d/a", "n2", "n1")]
    assert " – but it is enough to wait: n1 takes it once 1 terminating pod leaves: d/goes" in str(report)


def test_pods_that_take_the_room_of_terminating_pods_first_are_named() -> None:
    """The pod of higher priority may not preempt, so it waits as well."""
    first = build_waiting_pod(name="first", priority=10, preemptionPolicy="Never")
    report = search_room([build_node("n1"), build_terminating_pod("goes", "n1", "3"), first, build_waiting_pod()])
    assert report.terminating_room == TerminatingRoom(("n1",), ("d/goes",), ("d/first",))
    sentence = "d/first takes n1 first, once 1 terminating pod leaves: d/goes"
    assert str(report).startswith("No room can be made: d/new – ")
    assert str(report).endswith(f"; {sentence}")
    assert report.commands == ()


def test_preemptor_does_not_only_wait_for_terminating_pods() -> None:
    """Once the terminating pod is gone, 2 CPUs are free, and the pod of 3 CPUs evicts the other pod."""
    objects = [
        build_node("n1"),
        build_terminating_pod("goes", "n1", "2"),
        build_pod("stays", "n1", "2"),
        build_waiting_pod(priority=10),
    ]
    assert search_room(objects).terminating_room is None


def test_search_that_ran_out_of_time_proves_nothing() -> None:
    """Every form says so in its first line."""
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_replica("a", "n1", "2"),
            build_replica("b", "n2", "2"),
            build_waiting_pod("3"),
        ],
        seconds=0,
    )
    assert report.ended_at_limit
    assert (
        "the search stopped at its limit of 0 seconds" in RENDERERS["table"](report, Style(width=200)).splitlines()[0]
    )
    assert "the search stopped at its limit of 0 seconds" in report.summary().headline


def test_replays_and_not_the_time_limit_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is the same on a machine on which an hour passes between two looks at the clock."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("a", "n1", "2"),
        build_replica("b", "n2", "2"),
        build_waiting_pod("3"),
    ]
    expected = search_room(objects).to_dict()
    hours = count(step=3600)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    assert search_room(objects).to_dict() == expected
    assert expected["fits"]

    monkeypatch.setattr("kschedctl.commands.make_room.room.SEARCH_BUDGET", 0)
    limited = search_room(objects)
    assert (limited.fits, limited.ended_at_limit) == (False, True)
    assert "the search stopped at its limit of replays" in str(limited)


def test_pod_of_the_lowest_priority_moves() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("a", "n1", "2", priority=7),
        build_replica("b", "n2", "2", priority=3),
    ]
    assert list_moves(search_room([*objects, build_waiting_pod("3", priority=1)])) == [("d/b", "n2", "n1")]


def test_pod_without_a_budget_is_preferred() -> None:
    other = build_pod("b", "n2", "2", {"kind": "ReplicaSet", "name": "other"})
    other["metadata"]["labels"] = {"app": "other"}
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_budget(1),
        build_replica("a", "n1", "2"),
        other,
        build_waiting_pod("3"),
    ]
    assert list_moves(search_room(objects)) == [("d/b", "n2", "n1")]


def test_pod_moves_to_make_room_for_another_move() -> None:
    """a (3 CPUs) moves from n1 to n2 once y (2) moved from n2 to n3. z stays, as no controller recreates it."""
    owned = build_pod("a", "n1", "3", {"kind": "ReplicaSet", "name": "a"})
    moved = build_pod("y", "n2", "2", {"kind": "ReplicaSet", "name": "y"}, nodeSelector={"disk": "ssd"})
    nodes = [build_node("n1", cpu="4"), build_node("n2", cpu="4"), build_node("n3", cpu="2")]
    for each in nodes[1:]:
        each["metadata"]["labels"]["disk"] = "ssd"
    report = search_room([*nodes, owned, moved, build_pod("z", "n2", "1"), build_waiting_pod("4")])
    assert list_moves(report) == [("d/y", "n2", "n3"), ("d/a", "n1", "n2")]
    assert report.placed[0].node == "n1"


def build_cluster_with_two_plans(priority: int) -> list[Json]:
    """Build a cluster with two plans.

    Two pods of n1 go to n4 as they are. Or y leaves n3 for n4, so that b, which only fits on n3, leaves n2.
    """
    own = {"nodeSelector": {HOSTNAME: "n3"}}
    b = build_pod("b", "n2", "3", {"kind": "ReplicaSet", "name": "b"}, **own)
    y = build_pod("y", "n3", "2", {"kind": "ReplicaSet", "name": "y"})
    pair = [build_replica(name, "n1", "1", priority=priority) for name in ("a1", "a2")]
    nodes = [build_node("n1"), build_node("n2"), build_node("n3"), build_node("n4", cpu="2")]
    return [*nodes, b, y, build_pod("z", "n3", "1"), *pair, build_waiting_pod("4")]


@pytest.mark.parametrize("priority", [0, 5])
def test_cheaper_of_two_plans_of_two_moves(priority: int) -> None:
    found = {move.pod for move in search_room(build_cluster_with_two_plans(priority)).moves}
    assert found == ({"d/y", "d/b"} if priority else {"d/a1", "d/a2"})


def test_interrupted_search_keeps_its_plan() -> None:
    """The fifth plan is the first that holds, but it is not the cheapest."""
    report = find_room(Cluster.from_objects(build_cluster_with_two_plans(5)), ["d/new"], progress=Interrupting(5))
    assert (report.interrupted, report.fits) == (True, True)
    assert {move.pod for move in report.moves} == {"d/a1", "d/a2"}


def test_each_step_respects_the_budget() -> None:
    """Both pods have to leave n1. The budget allows one at a time, and recovers once the first one runs again."""
    pods = [build_replica("a", "n1", "2"), build_replica("b", "n1", "2"), build_waiting_pod("5")]
    objects = [build_node("n1", cpu="5"), build_node("n2"), build_budget(1), *pods]
    assert len(search_room(objects).moves) == 2
    objects[2] = build_budget(0)
    report = search_room(objects)
    assert not report.fits
    assert [(each.why, each.pods) for each in report.held] == [("their PodDisruptionBudget allows no disruption", 2)]


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (build_pod("a", "n1", "2"), "no controller recreates them"),
        (
            build_pod("a", "n1", "2", {"kind": "DaemonSet", "name": "a"}),
            "they belong to their node (DaemonSets, static pods)",
        ),
        (
            build_replica("a", "n1", "2", volumes=[{"name": "v", "hostPath": {"path": "/data"}}]),
            "they would leave files in hostPath volumes behind",
        ),
    ],
    ids=["bare", "daemon", "hostPath"],
)
def test_pods_that_would_be_lost_do_not_move(held: Json, why: str) -> None:
    report = search_room([build_node("n1"), build_node("n2", cpu="2"), held, build_waiting_pod("3")])
    assert (report.fits, report.moves) == (False, ())
    assert [(each.why, each.pods) for each in report.held] == [(why, 1)]


@pytest.mark.parametrize(("limit", "failed", "moves_it"), [(0, 0, False), (2, 1, True), (2, 2, False), (None, 5, True)])
def test_no_job_fails_by_a_move(limit: int | None, failed: int, moves_it: bool) -> None:
    """An evicted pod counts as failed. By default, six pods of a Job may fail."""
    spec = {} if limit is None else {"backoffLimit": limit}
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": spec, "status": {"failed": failed}}
    running = build_pod("a", "n1", "2", {"kind": "Job", "name": "j"})
    report = search_room([build_node("n1"), build_node("n2", cpu="2"), job, running, build_waiting_pod("3")])
    assert report.fits is moves_it
    held = [] if moves_it else [("their Job allows no more failed pods", 1)]
    assert [(group.why, group.pods) for group in report.held] == held


def test_annotation_keeps_a_pod_on_its_node() -> None:
    held = build_replica("a", "n1", "2")
    held["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    report = search_room([build_node("n1"), build_node("n2", cpu="2"), held, build_waiting_pod("3")])
    assert [each.why for each in report.held] == ["an annotation forbids evicting them"]


def test_siblings_of_the_pod_do_not_move() -> None:
    mine = build_pod("old", "n1", "2", BATCH)
    assert not search_room([build_node("n1"), build_node("n2", cpu="2"), mine, build_waiting_pod("3")]).fits


def test_labels_and_pools_restrict_moves() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("a", "n1", "2"),
        build_replica("b", "n2", "2"),
        build_waiting_pod("3"),
    ]
    assert not search_room(objects, keep="app=web").fits
    for each, pool in zip(objects, ("one", "two"), strict=False):
        each["metadata"]["labels"]["karpenter.sh/nodepool"] = pool
    assert list_moves(search_room(objects, pool="two")) == [("d/b", "n2", "n1")]
    with pytest.raises(UsageError, match='pool "three" not found'):
        search_room(objects, pool="three")


def test_fragmented_gpus_are_gathered() -> None:
    """Two of four GPUs are free on each node, and a pod with two GPUs moves to the other node."""
    nodes = [add_gpus(build_node(f"n{i}", cpu="64"), 4) for i in (1, 2)]
    running = [add_gpus(build_replica(f"r{i}", f"n{i}"), 2) for i in (1, 2)]
    report = search_room([*nodes, *running, add_gpus(build_waiting_pod("1"), 4)])
    assert report.fragmented == (FragmentedResource(GPU, requested=4, free=4, on_one=2, nodes=2),)
    assert len(report.moves) == 1
    shown = RENDERERS["table"](report, Style())
    assert (
        "Fragmented: the pod needs 4 nvidia.com/gpu, and 2 nodes together have 4 free, but at most 2 on one node"
        in shown
    )


def test_resource_is_fragmented_only_if_moves_can_gather_it() -> None:
    """Half of each node's 4 CPUs is free. No node has 4.5 CPUs, and a bare pod never moves."""
    nodes = [build_node("n1"), build_node("n2"), build_node("n3")]
    running = [build_replica(f"r{i}", f"n{i}", "2") for i in (1, 2, 3)]
    (fragmented,) = search_room([*nodes, *running, build_waiting_pod("4")]).fragmented
    assert (fragmented.resource, fragmented.on_one, fragmented.free) == ("cpu", 2000, 6000)
    assert search_room([*nodes, *running, build_waiting_pod("4500m")]).fragmented == ()
    bare = [build_pod(f"r{i}", f"n{i}", "2") for i in (1, 2, 3)]
    assert search_room([*nodes, *bare, build_waiting_pod("3")]).fragmented == ()


def test_no_plan_is_tried_if_every_node_is_certain_to_reject_the_pod() -> None:
    """The pod needs one of two hosts, which pods that stay fill. One of these hosts has a pod that it avoids."""
    term = {"labelSelector": {"matchLabels": {"app": "batch"}}, "topologyKey": HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [build_node("d1", cpu="2"), build_node("d2", cpu="2"), build_node("n1", cpu="32")]
    for node in nodes[:2]:
        node["metadata"]["labels"]["role"] = "db"
    replica = build_waiting_pod("1500m", "first")
    replica["spec"]["nodeName"] = "d1"
    staying = build_pod("s", "d2", "1500m")
    others = [build_replica(f"r{i}", "n1", "1") for i in range(20)]
    wanted = build_waiting_pod("1", affinity=apart, nodeSelector={"role": "db"})
    report = search_room([*nodes, replica, staying, *others, wanted])
    assert report.searched is not None
    assert (report.searched.plans, report.searched.complete) == (0, True)
    assert report.build_headline_parts()[0] == "No room can be made:"
    assert report.fragmented == ()


def test_several_pods_get_room() -> None:
    """Each of two pods needs 3 of 4 CPUs.

    Two nodes have 2 CPUs in use, and the third node takes both of their pods.
    """
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_replica("a", "n1", "2"),
        build_replica("b", "n2", "2"),
    ]
    taken = build_pod("c", "n3", "0", {"kind": "ReplicaSet", "name": "c"})
    report = search_room(
        [*objects, taken, build_waiting_pod("3", "new"), build_waiting_pod("4", "more")], "new", "more"
    )
    assert report.fits
    assert {placed.pod for placed in report.placed} == {"d/new", "d/more"}
    assert len({placed.node for placed in report.placed}) == 2


def test_anti_affinity_across_a_zone() -> None:
    """A full node of zone a has a pod that the new pod avoids.

    It moves to zone b, since only the new pod tolerates the taint of the empty node.
    """
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [build_node("n1", "a", cpu="1"), build_node("n3", "b", cpu="2"), build_replica("r", "n1", "1")]
    objects.append(build_node("n2", "a", taints=[{"key": "own", "effect": "NoSchedule"}]))
    stays = build_pod("s", "n3", "1")
    stays["metadata"]["labels"] = {"app": "other"}
    only = {"nodeSelector": {HOSTNAME: "n2"}, "tolerations": [{"operator": "Exists"}]}
    report = search_room([*objects, stays, build_waiting_pod("4", affinity=apart, **only)])
    assert list_moves(report) == [("d/r", "n1", "n3")]


def test_answer_says_if_it_is_certain_that_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 CPUs fit on no node of 4. 3 would fit without a, which no other node takes, if all plans were tried."""
    report = search_room([build_node("n1"), build_replica("a", "n1", "2"), build_waiting_pod("8")])
    assert report.build_headline_parts()[0] == "No room can be made:"
    assert report.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    objects = [build_node("n1"), build_node("n2", cpu="1"), build_replica("a", "n1", "2"), build_waiting_pod("3")]
    assert search_room(objects).build_headline_parts()[0] == "No room can be made:"
    monkeypatch.setattr(search, "MAX_SEQUENCES", 0)
    report = search_room(objects)
    assert report.searched is not None
    assert not report.searched.complete
    assert report.build_headline_parts()[0] == "No room found yet for"
    objects = [
        build_node("n1"),
        build_node("n2"),
        *(build_replica(name, "n1", "1") for name in "abc"),
        build_waiting_pod("4"),
        build_pod("z", "n2", "1"),
    ]
    report = search_room(objects, max_moves=2)
    assert (
        " ".join(report.build_headline_parts())
        == "No room can be made: d/new – no plan of up to 2 moves makes room for it, and "
        "--max-moves 3 tries plans with more moves"
    )
    assert search_room(objects, max_moves=3).build_headline_parts()[0] == "Moving 3 pods makes room for"
    report = search_room(objects, max_moves=1)
    assert " ".join(report.build_headline_parts()) == (
        "No room can be made: d/new – no single move makes room for it, and --max-moves 3 tries plans with more moves"
    )


def test_room_that_takes_more_moves_than_are_tried() -> None:
    """Four pods of 1 CPU would have to leave the node."""
    running = [build_replica(name, "n1", "1") for name in "abcd"]
    others = [
        build_node("n2", cpu="5"),
        build_pod("y", "n2", "2"),
        build_node("n3", cpu="3"),
        build_pod("z", "n3", "2"),
    ]
    report = search_room([build_node("n1", cpu="4"), *others, *running, build_waiting_pod("4")])
    assert " ".join(report.build_headline_parts()).endswith(
        "makes room for it, and plans with more moves are not tried"
    )
    assert "without all of them, the pod would fit on 1 node" in RENDERERS["table"](report, Style(width=200))


def test_rivals_do_not_take_the_room() -> None:
    """The other pod has a higher priority and the same size, and would take the room that is made."""
    objects = [build_node("n1"), build_node("n2", cpu="2"), build_replica("a", "n1", "2"), build_waiting_pod("3")]
    assert list_moves(search_room(objects)) == [("d/a", "n1", "n2")]
    other = build_pod("first", "", "3", {"kind": "ReplicaSet", "name": "first"}, priority=5, preemptionPolicy="Never")
    assert not search_room([*objects, other]).fits


def test_waiting_pods_may_take_the_room_of_a_step() -> None:
    """As above, y (2 CPUs) would move from n2 to n3, and a (3) from n1 to n2.

    Another pod waits for 2 CPUs on n2. It is retried as soon as n2 is uncordoned, before a is evicted, and then a fits
    nowhere.
    """
    owned = build_pod("a", "n1", "3", {"kind": "ReplicaSet", "name": "a"})
    moved = build_pod("y", "n2", "2", {"kind": "ReplicaSet", "name": "y"}, nodeSelector={"disk": "ssd"})
    nodes = [build_node("n1"), build_node("n2"), build_node("n3", cpu="2")]
    for each in nodes[1:]:
        each["metadata"]["labels"]["disk"] = "ssd"
    objects = [*nodes, owned, moved, build_pod("z", "n2", "1"), build_waiting_pod("4")]
    assert list_moves(search_room(objects)) == [("d/y", "n2", "n3"), ("d/a", "n1", "n2")]
    for priority in (-5, 5):
        other = {"nodeSelector": {HOSTNAME: "n2"}, "preemptionPolicy": "Never", "priority": priority}
        assert not search_room(
            [*objects, build_pod("other", "", "2", {"kind": "ReplicaSet", "name": "other"}, **other)]
        ).fits


def test_cordoned_node_stays_cordoned() -> None:
    """y moves from a cordoned node to n3, so that new, which tolerates the cordon, fits there."""
    moved = build_pod("y", "n2", "2", {"kind": "ReplicaSet", "name": "y"})
    objects = [build_node("n2", unschedulable=True), build_node("n3", cpu="2"), moved]
    anywhere = {"tolerations": [{"operator": "Exists"}]}
    report = search_room([*objects, build_waiting_pod("4", **anywhere)])
    assert list_moves(report) == [("d/y", "n2", "n3")]
    assert [command.split()[0] for command in report.commands] == ["printf", "kubectl", "echo"]  # no node is cordoned


def test_commands_on_a_control_plane() -> None:
    """The plan is carried out step by step, with controllers and the scheduler in between, until the pod runs."""
    a, b = (
        build_replica("web-5f-a", "n1", "2"),
        build_pod("other-5f-b", "n1", "1", {"kind": "ReplicaSet", "name": "other-5f"}),
    )
    b["metadata"]["labels"] = {"app": "other", "pod-template-hash": "5f"}
    new = build_pod("batch-5f-new", "", "4", {"kind": "ReplicaSet", "name": "batch-5f"})
    new["metadata"]["labels"] = {"app": "batch", "pod-template-hash": "5f"}
    objects = [build_node("n1"), build_node("n2", cpu="2"), build_node("n3", cpu="1"), a, b, new]
    report = search_room(objects, "batch-5f-new")
    assert len(report.moves) == 2
    store = build_store(objects, "d/batch-5f-new")
    for command in report.commands:
        kubectl.run(store, command)
        run(store)
        pending = [pod for pod in store.of_kind("Pod") if not pod["spec"].get("nodeName")]
        assert [pod["metadata"]["labels"]["app"] for pod in pending] in ([], ["batch"])
    where = {pod["metadata"]["labels"]["app"]: pod["spec"].get("nodeName") for pod in store.of_kind("Pod")}
    assert where == {"batch": "n1", "web": "n2", "other": "n3"}
    assert not store.objects[Key("Node", "", "n1")]["spec"].get("unschedulable")


def build_gang_member(name: str) -> Json:
    """Build a pod of a gang that requests 4 CPUs."""
    found = build_waiting_pod("4", name)
    found["metadata"]["labels"] = {"app": "batch", "scheduling.x-k8s.io/pod-group": "gang"}
    return found


def test_gang_gets_room_as_a_whole_or_not_at_all() -> None:
    """n3 takes one member as it is.

    The other one gets n1 once a has moved to n2, since n3 is reserved for the first. Three members need 12 CPUs, and 13
    - 2 - 2 - 1 are free.
    """
    nodes = [build_node("n1"), build_node("n2"), build_node("n3", cpu="5")]
    objects = [*nodes, build_replica("a", "n1", "2"), build_replica("b", "n2", "2"), build_pod("z", "n3", "1")]
    report = search_room([*objects, build_gang_member("m1"), build_gang_member("m2")], "m1", "m2")
    assert (report.fits, len(report.moves)) == (True, 1)
    assert {placed.node for placed in report.placed} > {"n3"}
    assert sum("uncordon" in command for command in report.commands) == 2
    report = search_room([*objects, *(build_gang_member(f"m{number}") for number in (1, 2, 3))], "m1", "m2", "m3")
    assert (report.fits, report.moves, report.placed) == (False, (), ())
    assert report.build_headline_parts() == (
        "No room can be made:",
        "d/m1, d/m2, d/m3",
        "– the 3 pods need 12 CPUs, with only 8 free on the 3 nodes that they may use; "
        "with 2 more nodes like n3, all of them fit without moves",
    )


def test_plan_so_far_is_shown_if_other_pods_find_no_room() -> None:
    objects = [build_node("n1"), build_node("n2"), build_replica("a", "n1", "2"), build_replica("b", "n2", "2")]
    report = search_room([*objects, build_waiting_pod("3", "new"), build_waiting_pod("4", "more")], "new", "more")
    assert (report.fits, len(report.moves), report.missing) == (False, 1, ("d/more",))
    assert "These moves make room for only some of the pods." in RENDERERS["table"](report, Style())


def test_shortage_is_no_fragmentation() -> None:
    """Both nodes have 2 free CPUs, and 6 are needed. Moving a to n2 makes room only for the first pod."""
    objects = [build_node("n1"), build_node("n2"), build_replica("a", "n1", "2"), build_replica("b", "n2", "2")]
    report = search_room(
        [*objects, build_waiting_pod("3", "first"), build_waiting_pod("3", "second")], "first", "second"
    )
    (shortage,) = report.shortages
    assert (shortage.resource, shortage.needed, shortage.free, shortage.freed_by_moves) == ("cpu", 6000, 4000, 0)
    assert (report.fragmented, report.ended_at_limit, report.undecided) == ((), False, False)
    assert [placed.pod for placed in report.placed] == ["d/first"]
    assert report.build_headline_parts() == (
        "No room can be made:",
        "d/second",
        "– the 2 pods need 6 CPUs, with only 4 free on the 2 nodes that they may use; "
        "with 2 more nodes like n1, all of them fit without moves",
    )


@pytest.mark.parametrize(
    ("spec", "freed"), [({}, 4000), ({"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]}, 2000)]
)
def test_pods_that_may_leave_for_other_nodes_count_as_gone(spec: Json, freed: int) -> None:
    """Both pods tolerate the taint of n3, which the new pods do not. A pod with a hostPath volume does not move."""
    tainted = build_node("n3", taints=[{"key": "k", "effect": "NoSchedule"}])
    tolerant = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    pods = [build_replica("a", "n1", "2", **tolerant), build_replica("b", "n2", "2", **tolerant, **spec)]
    objects = [build_node("n1"), build_node("n2"), tainted, *pods]
    assert search_room(
        [*objects, build_waiting_pod("4", "first"), build_waiting_pod("4", "second")], "first", "second"
    ).fits is (freed == 4000)

    names = ("first", "second", "third")
    report = search_room([*objects, *(build_waiting_pod("3", name) for name in names)], *names)
    (shortage,) = report.shortages
    assert (shortage.needed, shortage.free, shortage.freed_by_moves, shortage.nodes) == (9000, 4000, freed, 2)


@pytest.mark.parametrize(("priority", "count"), [(-5, 1), (0, 2)])
def test_pods_of_lower_priority_do_not_take_the_new_nodes_first(priority: int, count: int) -> None:
    """The other pod fits on n1, but prefers an empty new node, on which the new pod (3 CPUs) then does not fit."""
    other = build_pod("other", "", "2", {"kind": "ReplicaSet", "name": "other"}, priority=priority)
    running = [build_replica("a", "n1", "2"), build_replica("b", "n2", "2")]
    report = search_room([build_node("n1"), build_node("n2"), *running, other, build_waiting_pod("3", priority=0)])
    assert report.new_nodes is not None
    assert (report.new_nodes.like, report.new_nodes.count, report.new_nodes.enough) == (("n1",), count, True)
    assert report.build_headline_parts()[2].startswith(
        "– it needs 3 CPUs, with only 2 free on the 2 nodes that it may use after 1 other waiting pod gets its node; "
    )


def test_new_nodes_are_not_proposed_for_pods_that_name_their_node() -> None:
    names = ("first", "second")
    pinned = [build_waiting_pod("3", name, nodeSelector={HOSTNAME: "n1"}) for name in names]
    report = search_room([build_node("n1"), build_node("n2"), build_replica("a", "n1", "2"), *pinned], *names)
    assert [(shortage.nodes, shortage.pods) for shortage in report.shortages] == [(1, 2)]
    assert report.new_nodes is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"schedulerName": "volcano"}, 'no scheduler profile is named "volcano" (profiles: default-scheduler)'),
        ({"schedulingGates": [{"name": "hold"}]}, "waiting for scheduling gates: [hold]"),
    ],
    ids=["another scheduler's", "gated"],
)
def test_no_move_helps_a_pod_that_is_not_scheduled(spec: Json, message: str) -> None:
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_replica("a", "n1", "2"),
            build_replica("b", "n2", "2"),
            build_waiting_pod("3", **spec),
        ]
    )
    assert (report.fits, report.moves, report.searched, report.message) == (False, (), None, message)


def test_pod_without_room_does_not_prevent_room_for_others() -> None:
    """huge (9 CPUs) has a higher priority and fits on no node. The room of 3 of 4 CPUs does not depend on it."""
    pods = [
        build_replica("a", "n1", "2"),
        build_replica("b", "n2", "2"),
        build_waiting_pod("9", "huge", priority=9),
        build_waiting_pod("3"),
    ]
    report = search_room([build_node("n1"), build_node("n2"), *pods], "huge", "new")
    assert (report.fits, report.missing) == (False, ("d/huge",))
    assert [(placed.pod, placed.node) for placed in report.placed] == [("d/new", "n1")]


def test_first_pod_of_the_queue_keeps_its_room() -> None:
    """b cannot move, so only n1 can be emptied. Each pod needs all of it, and the first in the queue gets it.

    Neither of them may preempt a or b.
    """
    wants = [build_waiting_pod("4", "first", priority=9), build_waiting_pod("4", "second", priority=8)]
    running = [build_replica("a", "n1", "2", priority=9), build_replica("b", "n2", "2", priority=9)]
    report = search_room([build_node("n1"), build_node("n2"), *running, *wants], "first", "second")
    assert [placed.pod for placed in report.placed] == ["d/first"]
    assert report.missing == ("d/second",)


def test_rivals_that_take_the_room_first_are_named() -> None:
    """Both pods need 2 CPUs of n1. The rival comes first, so a and b have to move from n1 to n2 and n3."""
    nodes = [build_node("n1"), build_node("n2", cpu="2"), build_node("n3", cpu="2")]
    there = [build_replica("a", "n1", "2"), build_replica("b", "n1", "2")]
    own = {"nodeSelector": {HOSTNAME: "n1"}}
    report = search_room(
        [*nodes, *there, build_waiting_pod("2", "rival", priority=0, **own), build_waiting_pod("2", **own)]
    )
    assert (report.fits, len(report.moves)) == (True, 2)
    assert [(placed.pod, placed.node) for placed in report.also_placed] == [("d/rival", "n1")]
    page = RENDERERS["table"](report, Style())
    assert "Other waiting pods that get a node" in page


def test_siblings_stay_and_are_named() -> None:
    """r has anti-affinity to itself by hostname, and one of its pods is on either node."""
    apart = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
    there = [build_replica("a", "n1", **spec), build_replica("b", "n2", **spec)]
    report = search_room([build_node("n1"), build_node("n2"), *there, build_replica("new", "", **spec)])
    assert (report.fits, report.moves) == (False, ())
    assert [(held.why, held.pods) for held in report.held] == [("they belong to the workload that needs the room", 2)]


def test_pod_that_asks_not_to_be_evicted_moves_last() -> None:
    """b has a higher priority, but moves rather than a, whose annotation asks to stay. Without b, a moves."""
    a, b = build_replica("a", "n1", "2"), build_replica("b", "n2", "2", priority=3)
    a["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
    assert list_moves(search_room([build_node("n1"), build_node("n2"), a, b, build_waiting_pod("3")])) == [
        ("d/b", "n2", "n1")
    ]
    b["metadata"].pop("ownerReferences")
    assert list_moves(search_room([build_node("n1"), build_node("n2"), a, b, build_waiting_pod("3")])) == [
        ("d/a", "n1", "n2")
    ]


def test_pods_of_two_budgets_stay_for_that_reason() -> None:
    """eviction.go answers 500 for such a pod, whatever the budgets allow."""
    second = build_budget(5)
    second["metadata"]["name"] = "c"
    report = search_room(
        [
            build_node("n1"),
            build_node("n2"),
            build_budget(5),
            second,
            build_replica("a", "n1", "2"),
            build_replica("b", "n2", "2"),
            build_waiting_pod("3"),
        ]
    )
    assert (report.fits, report.moves) == (False, ())
    assert [(held.why, held.pods) for held in report.held] == [
        ("more than one PodDisruptionBudget selects them, which the eviction API does not support", 2)
    ]


def test_moves_of_pods_with_a_higher_priority_are_warned_about() -> None:
    """Only a can move. The waiting pod has a lower priority."""
    objects = [build_node("n1"), build_node("n2", cpu="2"), build_replica("a", "n1", "2", priority=5)]
    report = search_room([*objects, build_waiting_pod("4")])
    assert report.outranking == ("d/a",)
    text = "d/a has to move, although of a higher priority than the pod that needs room"
    for output in ("table", "brief"):
        assert text in RENDERERS[output](report, Style(width=200))
    assert search_room([*objects, build_waiting_pod("4", priority=5)]).outranking == ()
