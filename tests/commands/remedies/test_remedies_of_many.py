"""Check which fixes are chosen for many pods, how many pods each helps, and that applying them confirms it."""

from __future__ import annotations

import pytest
from applied import apply
from small import HOSTNAME, Json, node, pod, replica

from kschedctl import Cluster
from kschedctl.commands.remedies.pending_fixes import find_remedies_of_many
from kschedctl.fixes.search import RemedyWishes
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.settling import UnexplainedSettling, settle

TEAM = {"key": "team", "value": "yes", "effect": "NoSchedule"}


def waiting(documents: list[Json]) -> set[str]:
    return set(settle(Cluster.from_objects(documents)).waiting)


def answer(documents: list[Json]) -> tuple[list[tuple[str, int]], int, int]:
    keys = waiting(documents)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here")
    assert (report.waiting, report.complete) == (len(keys), True)
    for chosen in report.chosen:
        documents = apply(chosen.remedy, documents)
    assert len(keys - waiting(documents)) == report.cleared
    assert {key for left in report.left for key in left.pods} == waiting(documents)
    return [(each.remedy.summary, len(each.clears)) for each in report.chosen], report.cleared, report.waiting


def test_each_time_what_clears_most_of_the_rest() -> None:
    """n2 takes two of the replicas once it is uncordoned, then the pod that wants a role; one is left."""
    documents = [node("n1", "a", "1", "1", taints=[TEAM]), node("n2", cpu="2", unschedulable=True), pod("full", "n1")]
    documents[0]["metadata"]["labels"]["edge"] = "true"
    documents += [replica(f"r{i}") for i in range(3)]
    documents += [pod("lost", cpu="0", nodeSelector={"edge": "true", "pool": "p"})]
    chosen, cleared, waits = answer(documents)
    assert chosen == [
        ("Uncordon node n2, after finding out why it is cordoned, and label node n2 with edge=true", 3),
        ("Add a node like n2 (pool p)", 1),
    ]
    assert (cleared, waits) == (4, 4)


def test_what_the_author_changes_is_changed_for_all_pods_alike() -> None:
    documents = [node("n1", taints=[TEAM]), *(replica(f"r{i}") for i in range(3))]
    keys = waiting(documents)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here")
    assert (report.waiting, report.cleared, report.left) == (3, 3, ())
    (chosen,) = report.chosen
    assert chosen.remedy.kinds == ("Tolerate",)
    assert {change["name"] for change in chosen.remedy.changes} == {"r0", "r1", "r2"}
    assert chosen.workloads == ("Deployment d/web",)
    assert answer(documents)[1] == 3


def test_as_many_nodes_as_the_pods_need() -> None:
    """Each node takes two; the five that wait need three more."""
    documents = [node("n1", cpu="2"), pod("a", "n1"), pod("b", "n1"), *(replica(f"r{i}") for i in range(5))]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 3 nodes like n1 (pool p)", 5)], 5, 5)
    report = find_remedies_of_many(Cluster.from_objects(documents), waiting(documents), "here")
    made = [change["create"]["metadata"]["name"] for change in report.chosen[0].remedy.changes]
    assert report.chosen[0].remedy.opens == tuple(made) == ("n1-more-0", "n1-more-1", "n1-more-2")


def test_how_many_nodes_are_needed_is_guessed_once() -> None:
    """A node takes both small pods or a large one. Of three that would do for small ones, small ones take two."""
    documents = [node("n1", cpu="2"), pod("a", "n1", cpu="2")]
    documents += [*(replica(f"r{i}") for i in range(2)), *(replica(f"s{i}", cpu="2") for i in range(3))]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 3 nodes like n1 (pool p)", 3)], 3, 5)


def test_an_interrupted_simulation_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that it did not come to look as if they waited, or as if they did not."""
    documents = [node("n1", taints=[TEAM]), *(replica(f"r{i}") for i in range(3))]
    tried = UnexplainedSettling.settle

    def cut_short(cluster: Cluster, call_extender: object = None) -> UnexplainedSettling:
        after = tried(cluster)
        after.simulation.interrupted = True
        return after

    monkeypatch.setattr("kschedctl.commands.remedies.pending_fixes.UnexplainedSettling.settle", cut_short)
    report = find_remedies_of_many(Cluster.from_objects(documents), {"d/r0", "d/r1", "d/r2"}, "here")
    assert (report.chosen, report.cleared, report.interrupted, report.complete) == ((), 0, True, False)


def test_nothing_waits_or_nothing_helps() -> None:
    report = find_remedies_of_many(Cluster.from_objects([node("n1")]), set(), "here")
    assert (report.waiting, report.cleared, report.chosen) == (0, 0, ())
    gated = pod("g", schedulingGates=[{"name": "example.com/wait"}])
    report = find_remedies_of_many(Cluster.from_objects([node("n1"), gated]), {"d/g"}, "here")
    assert (report.waiting, report.cleared, report.chosen) == (1, 0, ())
    assert [left.pods for left in report.left] == [("d/g",)]


def test_pods_that_the_limit_leaves_waiting_are_told_their_own_fix() -> None:
    """A single change may be made: uncordoning n2 helps two pods, and a toleration would help the third."""
    nodes = [node("n1", cpu="1", taints=[TEAM]), node("n2", cpu="4", unschedulable=True), node("n3", cpu="1")]
    only_n1 = pod("far", nodeSelector={HOSTNAME: "n1"})
    documents = [*nodes, replica("r0", cpu="2"), replica("r1", cpu="2"), only_n1, pod("fits")]
    keys = {"d/r0", "d/r1", "d/far", "d/fits"}
    wishes = RemedyWishes(max_changes=1, smallest=True)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here", wishes)
    assert (report.waiting, report.cleared, report.fitting, report.ends_at_limit) == (3, 2, 1, True)
    assert report.build_first_line()[0].endswith("with this change; 1 other pending pod fits already")
    assert [(pods.pods, pods.alone) for pods in report.left] == [(("d/far",), "Tolerate the taint team=yes:NoSchedule")]
    page = RENDERERS["table"](report, Style(width=120))
    assert "Fix for this workload only: Tolerate the taint team=yes:NoSchedule" in page
    assert "at most 1 change together" in page
