"""Check that fixes hold while all other pods wait, and that fixes for a few pods equal those for all."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import small
from command_line import Run, Write
from held_fixes import HeldFixes
from waiting_73 import explain_waiting_pod
from waiting_worlds import Json, build_waiting_world

from kschedctl import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.remedies.pending_fixes import find_remedies_of_many
from kschedctl.fixes import queue_replay
from kschedctl.fixes.ranking import QueueResult
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.render.fixes import describe_fix_effect


def test_first_fixes_hold_in_random_clusters() -> None:
    """95 % of the first fixes without rivals hold, and 90 % of the pods with fixes have one that does.

    Pods that are too large for every node are exempt from the second rule, since smaller pods take the nodes that they
    need.
    """
    held, too_large = HeldFixes(), []
    for seed in range(50):
        documents, waiting = build_waiting_world(seed)
        helpless = len(held.helpless)
        held.judge(documents, Random(seed).sample(waiting, 4), most=1)
        too_large += [key for key in held.helpless[helpless:] if get_requests(documents, key)["cpu"] == "5"]
    assert len(held.helped) >= 30
    assert len(held.broken) <= 0.05 * len(held.promised), held.broken
    assert len(held.helpless) - len(too_large) <= 0.1 * len(held.helped), held.helpless


def get_requests(documents: list[Json], key: str) -> Json:
    """Return the requests of the pod with this key."""
    namespace, _, name = key.partition("/")
    (spec,) = (
        document["spec"]
        for document in documents
        if document["kind"] == "Pod" and document["metadata"].items() >= {"name": name, "namespace": namespace}.items()
    )
    requests: Json = spec["containers"][0]["resources"]["requests"]
    return requests


def build_huge_world() -> list[Json]:
    """Build a cluster with a full node, six waiting pods of 2 CPUs, and behind them one of 12 CPUs."""
    waiting = [small.build_pod(f"w{i}", cpu="2", priority=10) for i in range(6)]
    return [
        small.build_node("n1"),
        small.build_pod("full", "n1", cpu="4", priority=10),
        *waiting,
        small.build_pod("huge", cpu="12"),
    ]


def test_large_nodes_are_not_added_for_small_pods() -> None:
    """Six nodes of 12 CPUs would hold, since each small pod takes one; 72 CPUs for 24 are no fix."""
    for fix in explain(Cluster.from_objects(build_huge_world()), "d/huge", remedies=True).remedies:
        assert "nodes like n1 (pool p) but with" not in fix.summary
    (larger, *_) = (fix for fix in explain(Cluster.from_objects(build_huge_world()), "d/huge", remedies=True).remedies)
    assert larger.holds is False or larger.summary.startswith("Add a node like n1 (pool p) but with")


def test_larger_node_has_room_for_the_pods_ahead() -> None:
    """With 5 CPUs, the pods ahead take the node. With 7, they and the large pod fit."""
    ahead = [small.build_pod(f"w{i}", priority=10) for i in range(2)]
    documents = [
        small.build_node("n1"),
        small.build_pod("full", "n1", cpu="4", priority=10),
        *ahead,
        small.build_pod("large", cpu="5"),
    ]
    fixes = explain(Cluster.from_objects(documents), "d/large", remedies=True).remedies
    larger = next(fix for fix in fixes if fix.kinds == ("AddNode",))
    assert (larger.summary, larger.holds) == (
        "Add a node like n1 (pool p) but with 7 CPUs, enough for 2 pods ahead in the queue as well",
        True,
    )


def test_fix_fails_if_only_others_taking_the_room_make_the_pod_preempt() -> None:
    """Node n2 has room for one pod. Pod first takes it, so that pod second evicts pod low on the same node."""
    documents = [
        small.build_node("n1"),
        small.build_pod("high", "n1", cpu="4", priority=30),
        small.build_node("n2", cpu="2", unschedulable=True),
        small.build_pod("low", "n2"),
        small.build_pod("first", priority=20, nodeSelector={"kubernetes.io/hostname": "n2"}),
        small.build_pod("second", priority=10),
    ]
    report = explain(Cluster.from_objects(documents), "d/second", remedies=True)
    uncordon = next(fix for fix in report.remedies if fix.kinds == ("Uncordon",))
    assert (uncordon.holds, uncordon.rivals) == (False, ("d/first",))
    assert (uncordon.preemption_node, uncordon.preemption_victims) == ("n2", ("d/low",))


def test_fix_fails_if_the_pod_preempts_on_a_node_that_the_fix_does_not_open() -> None:
    """Pod first takes the room on n2, so that pod second evicts pod low on n1, as it would without the fix."""
    documents = [
        small.build_node("n1"),
        small.build_pod("high", "n1", cpu="3", priority=30),
        small.build_pod("low", "n1"),
        small.build_node("n2", cpu="1", unschedulable=True),
        small.build_pod("first", priority=20, nodeSelector={"kubernetes.io/hostname": "n2"}),
        small.build_pod("second", priority=10),
    ]
    cluster = Cluster.from_objects(documents)
    uncordon = next(fix for fix in explain(cluster, "d/second", remedies=True).remedies if fix.kinds == ("Uncordon",))
    assert (uncordon.holds, uncordon.rivals) == (False, ("d/first",))
    assert (uncordon.preemption_node, uncordon.preemption_victims) == ("n1", ("d/low",))
    assert uncordon.drawbacks[0] == (
        "d/first would be scheduled first, and this pod would get n1 only by evicting d/low"
    )

    # Pod first gets the node that the fix opens, without evicting others.
    uncordon = next(fix for fix in explain(cluster, "d/first", remedies=True).remedies if fix.kinds == ("Uncordon",))
    assert (uncordon.holds, uncordon.preemption_node) == (True, "")


def build_world_with_pod_that_fits(**spec: Any) -> list[Json]:
    """Build two nodes with one free CPU each, a pod of 2 CPUs that waits, and a newer pod of 1 CPU that fits now."""
    return [
        small.build_node("n1"),
        small.build_pod("full-1", "n1", cpu="2", priority=10),
        small.build_replica("movable", "n1", priority=10),
        small.build_node("n2"),
        small.build_pod("full-2", "n2", cpu="3", priority=10),
        small.build_pod("large", cpu="2", priority=10),
        small.build_pod("small", priority=10, **spec),
    ]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_fix_that_needs_room_of_a_pod_that_fits_now_does_not_hold(node: str) -> None:
    """Pod large is ahead of pod small in the queue, but pod small has its node before anybody moves a pod.

    On n1 pod small takes the rest of the room that pod large needs, and on n2 the room for the moved pod.
    """
    documents = build_world_with_pod_that_fits(nodeSelector={"kubernetes.io/hostname": node})
    fixes = explain(Cluster.from_objects(documents), "d/large", remedies=True).remedies
    move = next(fix for fix in fixes if fix.summary == "Move d/movable from n1 to n2")
    assert (move.holds, move.rivals) == (False, ("d/small",))
    report = find_remedies_of_many(Cluster.from_objects(documents), ["d/large"], "all")
    assert not any("Move" in chosen.remedy.summary for chosen in report.chosen)


def test_room_of_a_new_node_is_not_lost_to_a_pod_that_fits_now() -> None:
    """Pod small is ahead in the queue, but runs on n1 or n2 before the new node is there for pod large."""
    *others, large, little = build_world_with_pod_that_fits()
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    little["spec"]["priority"] = 20
    fixes = explain(Cluster.from_objects([*others, large, little]), "d/large", remedies=True).remedies
    adding = next(fix for fix in fixes if fix.kinds == ("AddNode",))
    assert (adding.holds, adding.summary) == (True, "Add a node like n1 (pool p)")


def test_fix_names_the_node_that_the_pod_gets_behind_others() -> None:
    """Pod first takes n2, so that pod third evicts pod low on n1 and leaves room there for pod second."""
    documents = [
        small.build_node("n1"),
        small.build_pod("high", "n1", cpu="2500m", priority=30),
        small.build_replica("low", "n1", cpu="1500m"),
        small.build_node("n2", cpu="1", unschedulable=True),
        small.build_pod("first", priority=20),
        small.build_pod("third", priority=15, nodeSelector={"kubernetes.io/hostname": "n1"}),
        small.build_pod("second", cpu="500m"),
    ]
    fixes = explain(Cluster.from_objects(documents), "d/second", remedies=True).remedies
    uncordon = next(fix for fix in fixes if fix.kinds == ("Uncordon",))
    assert (uncordon.holds, uncordon.opens, uncordon.other_node) == (True, ("n2",), "n1")
    assert describe_fix_effect(uncordon) == "the pod gets n1, since d/first takes n2 first"
    assert uncordon.to_short_fix().nodes == ("n1",)


def test_higher_priority_holds_on_any_of_equally_good_nodes() -> None:
    """The named node is the one on which the named victim runs."""
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 10,
    }
    node_by_pod = {f"low-{i}": f"n{i}" for i in range(12)}
    for waiting in ("a", "b", "c", "d"):
        documents = [
            priority_class,
            *map(small.build_node, node_by_pod.values()),
            *(small.build_replica(pod, node, cpu="4") for pod, node in node_by_pod.items()),
            small.build_pod("large", cpu="50"),
            small.build_pod(waiting, cpu="3"),
        ]
        fixes = explain(Cluster.from_objects(documents), f"d/{waiting}", remedies=True).remedies
        (fix,) = (fix for fix in fixes if fix.kinds == ("UsePriorityClass",))
        (victim,) = fix.victims
        assert (fix.holds, fix.opens) == (True, (node_by_pod[victim.removeprefix("d/")],))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[RemedyTrial]:
    """Compare each replay of a fix with the replay of all waiting pods, and return the list of compared trials."""
    run_with_fix, compared = queue_replay.replay_queue_with_fix, []

    def compare(trial: RemedyTrial) -> QueueResult:
        result = run_with_fix(trial)
        with monkeypatch.context() as patch:
            patch.setattr(queue_replay, "find_nodes_with_new_room", lambda *_: None)
            full = run_with_fix(trial)
        compared.append(trial)
        assert (result.holds, result.waiting_siblings) == (full.holds, full.waiting_siblings)
        for field in ("rivals", "ahead", "also_places"):
            assert {*getattr(result, field)} == {*getattr(full, field)}
        return result

    monkeypatch.setattr(queue_replay, "replay_queue_with_fix", compare)
    return compared


def test_trying_only_the_affected_pods_gives_the_same_fixes(compared: list[RemedyTrial]) -> None:
    for seed in range(1000, 1014):
        documents, waiting = build_waiting_world(seed)
        explain(Cluster.from_objects(documents), Random(seed).choice(waiting), remedies=True)
    assert len(compared) > 17


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        ("pend/cpu-prio-6bbc4d9bc5-rlr8n", "UsePriorityClass"),
        ("pend/dra-noclass", "OtherDeviceClass"),
        ("pend/pvc-nocap", "CreateVolume"),
    ],
)
def test_so_it_does_if_pods_are_evicted_or_other_objects_edited(
    pod: str, kind: str, compared: list[RemedyTrial]
) -> None:
    """These are pods of a recorded cluster on which 73 pods wait."""
    explain_waiting_pod.__wrapped__(pod)  # not from the cache
    assert any(fix.kind == kind for trial in compared for fix in trial.changes)


@pytest.mark.parametrize(
    ("cpu", "spec", "nodes"),
    [
        ("3", {}, 4),  # one pod per node
        ("2", {}, 2),  # two pods per node
        ("3", small.build_spread(), 1),  # more nodes in one zone would not be enough
    ],
)
def test_enough_nodes_are_added_for_all_pending_pods_of_a_workload(
    run: Run, write: Write, cpu: str, spec: Json, nodes: int
) -> None:
    full_nodes = [small.build_node("n1"), small.build_node("n2", "b")]
    busy = [small.build_pod(f"busy-{name}", name, cpu="4") for name in ("n1", "n2")]
    for pod in busy:
        pod["metadata"]["labels"] = {"app": "other"}
    waiting = [small.build_replica(f"web-5f-{i}", cpu=cpu, **spec) for i in range(4)]
    path = write(*full_nodes, *busy, *waiting)

    def count_added_nodes(*target: str) -> int:
        """Return how many nodes the first fix that adds nodes adds."""
        fixes = json.loads(run("remedies", *target, "-n", "d", "-f", path, "-o", "json").out)["remedies"]
        summary = next(fix["summary"] for fix in fixes if fix["kinds"] == ["AddNode"])
        _, number, *_ = summary.split()
        return 1 if number == "a" else int(number)

    assert count_added_nodes("deployment/web") == nodes
    assert count_added_nodes("web-5f-0") == 1
