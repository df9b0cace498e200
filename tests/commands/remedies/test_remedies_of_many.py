"""Check which fixes are chosen for many pods, how many pods each helps, and that applying them confirms it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from applied import apply
from small import HOSTNAME, Json, build_node, build_pod, build_replica

from kschedctl import Cluster
from kschedctl.commands.remedies.pending_fixes import find_remedies_of_many
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.settling import UnexplainedSettling, settle

TEAM = {"key": "team", "value": "yes", "effect": "NoSchedule"}


def find_waiting_pods(documents: list[Json]) -> set[str]:
    return set(settle(Cluster.from_objects(documents)).waiting)


def answer(documents: list[Json]) -> tuple[list[tuple[str, int]], int, int]:
    keys = find_waiting_pods(documents)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here")
    assert (report.waiting, report.complete) == (len(keys), True)
    for chosen in report.chosen:
        documents = apply(chosen.remedy, documents)
    assert len(keys - find_waiting_pods(documents)) == report.cleared
    assert {key for left in report.left for key in left.pods} == find_waiting_pods(documents)
    return [(each.remedy.summary, len(each.clears)) for each in report.chosen], report.cleared, report.waiting


def test_each_choice_clears_the_most_remaining_pods() -> None:
    """Once n2 is uncordoned, it takes two of the replicas, then the pod that selects a role. One pod remains."""
    documents = [
        build_node("n1", "a", "1", "1", taints=[TEAM]),
        build_node("n2", cpu="2", unschedulable=True),
        build_pod("full", "n1"),
    ]
    documents[0]["metadata"]["labels"]["edge"] = "true"
    documents += [build_replica(f"r{i}") for i in range(3)]
    documents += [build_pod("lost", cpu="0", nodeSelector={"edge": "true", "pool": "p"})]
    chosen, cleared, waits = answer(documents)
    assert chosen == [
        ("Find out why node n2 is cordoned, then uncordon it, and label node n2 with edge=true", 3),
        ("Add a node like n2 (pool p)", 1),
    ]
    assert (cleared, waits) == (4, 4)


def test_change_of_a_template_applies_to_all_its_pods() -> None:
    documents = [build_node("n1", taints=[TEAM]), *(build_replica(f"r{i}") for i in range(3))]
    keys = find_waiting_pods(documents)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here")
    assert (report.waiting, report.cleared, report.left) == (3, 3, ())
    (chosen,) = report.chosen
    assert chosen.remedy.kinds == ("Tolerate",)
    assert {change["name"] for change in chosen.remedy.changes} == {"r0", "r1", "r2"}
    assert chosen.workloads == ("Deployment d/web",)
    assert answer(documents)[1] == 3


def test_as_many_nodes_as_the_pods_need() -> None:
    """Each node takes two pods, so the five waiting pods need three more nodes."""
    documents = [
        build_node("n1", cpu="2"),
        build_pod("a", "n1"),
        build_pod("b", "n1"),
        *(build_replica(f"r{i}") for i in range(5)),
    ]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 3 nodes like n1 (pool p)", 5)], 5, 5)
    report = find_remedies_of_many(Cluster.from_objects(documents), find_waiting_pods(documents), "here")
    made = [change["create"]["metadata"]["name"] for change in report.chosen[0].remedy.changes]
    assert report.chosen[0].remedy.opens == tuple(made) == ("n1-more-0", "n1-more-1", "n1-more-2")


def test_number_of_nodes_is_guessed_once() -> None:
    """A node takes both small pods or one large pod.

    Three nodes are added for the three large pods, and the small pods take one of them.
    """
    documents = [build_node("n1", cpu="2"), build_pod("a", "n1", cpu="2")]
    documents += [*(build_replica(f"r{i}") for i in range(2)), *(build_replica(f"s{i}", cpu="2") for i in range(3))]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 3 nodes like n1 (pool p)", 3)], 3, 5)


def test_no_more_nodes_than_the_pods_need() -> None:
    """The first new node takes only the large pod, but a second one takes all four small pods."""
    documents = [build_node("n1"), build_pod("full", "n1", cpu="4"), build_pod("large", cpu="3500m")]
    documents += [build_replica(f"s{i}", cpu="600m") for i in range(4)]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 2 nodes like n1 (pool p)", 5)], 5, 5)


def test_an_interrupted_simulation_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that it did not reach look as if they waited, or as if they did not."""
    documents = [build_node("n1", taints=[TEAM]), *(build_replica(f"r{i}") for i in range(3))]
    tried = UnexplainedSettling.settle

    def cut_short(cluster: Cluster, call_extender: object = None) -> UnexplainedSettling:
        after = tried(cluster)
        after.simulation.interrupted = True
        return after

    monkeypatch.setattr("kschedctl.commands.remedies.pending_fixes.UnexplainedSettling.settle", cut_short)
    report = find_remedies_of_many(Cluster.from_objects(documents), {"d/r0", "d/r1", "d/r2"}, "here")
    assert (report.chosen, report.cleared, report.interrupted, report.complete) == ((), 0, True, False)


def test_answers_without_waiting_pods_or_without_fixes() -> None:
    report = find_remedies_of_many(Cluster.from_objects([build_node("n1")]), set(), "here")
    assert (report.waiting, report.cleared, report.chosen) == (0, 0, ())
    gated = build_pod("g", schedulingGates=[{"name": "example.com/wait"}])
    report = find_remedies_of_many(Cluster.from_objects([build_node("n1"), gated]), {"d/g"}, "here")
    assert (report.waiting, report.cleared, report.chosen) == (1, 0, ())
    assert [left.pods for left in report.left] == [("d/g",)]


def test_pods_beyond_the_limit_get_their_own_fix() -> None:
    """Only one change may be made. Uncordoning n2 helps two pods, and a toleration would help the third."""
    nodes = [
        build_node("n1", cpu="1", taints=[TEAM]),
        build_node("n2", cpu="4", unschedulable=True),
        build_node("n3", cpu="1"),
    ]
    only_n1 = build_pod("far", nodeSelector={HOSTNAME: "n1"})
    documents = [*nodes, build_replica("r0", cpu="2"), build_replica("r1", cpu="2"), only_n1, build_pod("fits")]
    keys = {"d/r0", "d/r1", "d/far", "d/fits"}
    criteria = RemedyCriteria(max_changes=1, smallest=True)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here", criteria)
    assert (report.waiting, report.cleared, report.fitting, report.ends_at_limit) == (3, 2, 1, True)
    assert report.build_headline_parts()[0].endswith("with this change; 1 more pending pod fits without a change")
    assert [(pods.pods, pods.alone) for pods in report.left] == [(("d/far",), "Tolerate the taint team=yes:NoSchedule")]
    page = RENDERERS["table"](report, Style(width=120))
    assert "Needs a separate fix: Tolerate the taint team=yes:NoSchedule" in page
    assert "At most 1 change was combined" in " ".join(page.split())


def test_fix_that_is_enough_for_only_some_of_the_pods_that_need_it_says_so() -> None:
    """Moving d/m leaves room for one of three pods that can only run on n1."""
    cordoned = build_node("n3", cpu="4", unschedulable=True)
    others = [build_replica(f"r{i}", cpu="2") for i in range(2)]
    bound = [build_pod(f"p{i}", cpu="2", nodeSelector={HOSTNAME: "n1"}) for i in range(3)]
    documents = [
        build_node("n1", cpu="2"),
        build_node("n2", cpu="1"),
        cordoned,
        build_pod("m", "n1", owner={"kind": "ReplicaSet", "name": "m"}),
        *others,
        *bound,
    ]
    criteria = RemedyCriteria(max_changes=1, smallest=True, by="operator")
    report = find_remedies_of_many(Cluster.from_objects(documents), find_waiting_pods(documents), "here", criteria)
    (uncordon,) = report.chosen
    assert uncordon.remedy.kinds == ("Uncordon",)
    assert [(pods.alone, pods.alone_clears, pods.alone_wanted) for pods in report.left] == [
        ("Move d/m from n1 to n2", 1, 3)
    ] * 3
    page = " ".join(RENDERERS["table"](report, Style(width=160)).split())
    assert "Move d/m from n1 to n2, which is enough for 1 of the 3 pods that need it" in page


def test_a_reservation_is_given_up_only_if_nothing_harmless_helps() -> None:
    """Without its taint, n1 takes three pods; a node like n2 takes one. Only one change may be made."""
    documents = [
        build_node("n1", taints=[TEAM]),
        build_node("n2", cpu="1"),
        build_pod("full", "n2"),
        *(build_pod(f"r{i}") for i in range(3)),
    ]
    criteria = RemedyCriteria(max_changes=1, smallest=True, by="operator")
    report = find_remedies_of_many(Cluster.from_objects(documents), {"d/r0", "d/r1", "d/r2"}, "here", criteria)
    assert [chosen.remedy.kinds for chosen in report.chosen] == [("AddNode",)]
    only_taint = replace(criteria, without=frozenset({"AddNode"}))
    report = find_remedies_of_many(Cluster.from_objects(documents), {"d/r0", "d/r1", "d/r2"}, "here", only_taint)
    (chosen,) = report.chosen
    assert (chosen.remedy.kinds, chosen.remedy.drawbacks) == (("RemoveTaint",), (RESERVATION,))
    brief = RENDERERS["brief"](report, Style(width=160))
    assert f"but {RESERVATION}" in brief


RESERVATION = "pods that do not tolerate the taint may run on the node, too"


def test_a_larger_node_is_added_only_for_pods_that_need_it() -> None:
    """Small pods ahead in the queue take a node of 13 CPUs, so that the large pod, which needs it, still waits."""
    small = [build_pod(f"s{i}", cpu="4", priority=10) for i in range(3)]
    documents = [build_node("n1"), build_pod("full", "n1", cpu="4", priority=10), *small, build_pod("large", cpu="13")]
    chosen, cleared, waits = answer(documents)
    assert (chosen, cleared, waits) == ([("Add 3 nodes like n1 (pool p)", 3)], 3, 4)
    report = find_remedies_of_many(Cluster.from_objects(documents), find_waiting_pods(documents), "here")
    (large,) = report.left
    assert (large.pods, large.alone, large.alone_is_taken) == (("d/large",), LARGER, True)
    assert f"Needs a separate fix: {LARGER}, but other waiting pods take its room first" in RENDERERS["table"](
        report, Style(width=160)
    )

    # Without the small pods, and with two large ones, two such nodes are added.
    documents = [
        build_node("n1"),
        build_pod("full", "n1", cpu="4"),
        *(build_replica(f"l{i}", cpu="13") for i in range(2)),
    ]
    assert answer(documents) == ([("Add 2 nodes like n1 (pool p) but with 13 CPUs each", 2)], 2, 2)


LARGER = "Add a node like n1 (pool p) but with 13 CPUs"


def test_plan_does_not_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock runs much faster finds the same plan.

    Only the outer time limit stops the search, and the first line says so.
    """
    documents = [build_node("n1", cpu="2"), build_pod("a", "n1", cpu="2"), build_node("n2", unschedulable=True)]
    documents += [build_replica(f"r{i}") for i in range(9)]
    cluster, keys = Cluster.from_objects(documents), {f"d/r{i}" for i in range(9)}
    report = find_remedies_of_many(cluster, keys, "here")
    assert (len(report.chosen), report.stopped_after) == (1, 0)
    clock = count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    assert find_remedies_of_many(cluster, keys, "here") == report
    stopped = find_remedies_of_many(cluster, keys, "here", RemedyCriteria(smallest=True, seconds=2))
    assert (stopped.complete, stopped.stopped_after) == (False, 2)
    assert "the search was stopped after 2 s" in stopped.build_headline_parts()[0]


def test_limit_of_simulations_ends_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [build_node("n1", cpu="2"), build_pod("a", "n1", cpu="2"), *(build_replica(f"r{i}") for i in range(5))]
    cluster, keys = Cluster.from_objects(documents), find_waiting_pods(documents)
    monkeypatch.setattr("kschedctl.commands.remedies.pending_fixes.SIMULATION_BUDGET", 12)
    report = find_remedies_of_many(cluster, keys, "here", RemedyCriteria(max_changes=1, smallest=True))
    assert (report.complete, report.stopped_after) == (False, 0)
    monkeypatch.setattr("kschedctl.commands.remedies.pending_fixes.SEARCH_BUDGET", 0)
    report = find_remedies_of_many(cluster, keys, "here")
    assert (report.complete, report.chosen) == (False, ())


def test_causes_of_waiting_pods_name_only_existing_nodes() -> None:
    """The three added nodes do not exist yet."""
    documents = [build_node("n1", cpu="2"), build_pod("a", "n1", cpu="2"), *(build_replica(f"r{i}") for i in range(5))]
    documents.append(build_pod("lost", nodeSelector={HOSTNAME: "n9"}))
    keys = find_waiting_pods(documents)
    criteria = RemedyCriteria(max_changes=1, smallest=True)
    report = find_remedies_of_many(Cluster.from_objects(documents), keys, "here", criteria)
    (lost,) = report.left
    assert (lost.pods, lost.message.split(" ")[0]) == (("d/lost",), "0/1")


def test_pods_that_end_with_their_failed_job_do_not_wait() -> None:
    """The urgent pod evicts a pod of the Job, which allows no failed pods, so that j-b is no longer needed."""
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {"backoffLimit": 0}}
    owner = {"kind": "Job", "name": "j", "apiVersion": "batch/v1"}
    pods = [build_pod("j-a", "n1", "3", owner, priority=-10), build_pod("j-b", "", "9", owner, priority=-10)]
    documents = [build_node("n1"), job, *pods, build_pod("urgent", cpu="3", priority=10), build_pod("large", cpu="5")]
    cluster = Cluster.from_objects(documents)
    assert set(settle(cluster).waiting) == {"d/large"}
    assert UnexplainedSettling.settle(cluster).waiting == {"d/large"}
    report = find_remedies_of_many(cluster, {"d/j-b", "d/large"}, "here")
    assert report.waiting == 1
