"""`drain`: who moves where, what budgets hold back, who stays and who is lost."""

from __future__ import annotations

from small import Json, budget, node, pod, replica, spread

from kschedctl.cluster import Cluster
from kschedctl.reports.drain import Drain
from kschedctl.studies.drain import drain


def drained(objects: list[Json], *nodes: str) -> Drain:
    return drain(Cluster.from_objects(objects), nodes)


def test_pods_move_and_daemons_stay() -> None:
    daemon = pod("agent-n1", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    static = pod("etcd-n1", "n1", owner={"kind": "Node", "name": "n1"})
    report = drained([node("n1", cpu="8"), node("n2"), daemon, static, replica("r1", "n1"), replica("r2", "n1")], "n1")
    assert {(m.pod, m.source, m.target) for m in report.moved} == {("d/r1", "n1", "n2"), ("d/r2", "n1", "n2")}
    assert (report.staying, report.drained, report.safe) == (2, True, True)


def test_the_drained_node_takes_no_pod_back() -> None:
    report = drained([node("n1"), node("n2", cpu="500m"), replica("r1", "n1")], "n1")
    (group,) = report.unplaced
    assert group.pods == ("d/r1",)
    assert group.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")
    assert (report.drained, report.safe) == (True, False)


def test_a_cordoned_node_still_counts_for_spreading() -> None:
    """Zone a stays empty, so that zone b may hold no more than one pod more."""
    objects = [node("n1", "a"), node("n2", "b"), *(replica(f"r{i}", "n1", **spread()) for i in range(2))]
    report = drained(objects, "n1")
    assert len(report.moved) == 1
    assert "1 node(s) didn't match pod topology spread constraints" in report.unplaced[0].message


def test_a_budget_recovers_when_the_successor_runs() -> None:
    objects = [node("n1"), node("n2"), budget(1), *(replica(f"r{i}", "n1") for i in range(4))]
    report = drained(objects, "n1")
    assert len(report.moved) == 4
    assert not report.blocked


def test_a_budget_holds_back_what_has_no_successor() -> None:
    """Two of four fit elsewhere; the third waits for a node and spends the budget, the fourth may not go."""
    objects = [node("n1"), node("n2", cpu="2"), budget(1), *(replica(f"r{i}", "n1") for i in range(4))]
    report = drained(objects, "n1")
    assert (len(report.moved), sum(len(g.pods) for g in report.unplaced), len(report.blocked)) == (2, 1, 1)
    assert report.blocked[0].why == "PodDisruptionBudget d/b allows no disruption now"
    assert (report.drained, report.safe) == (False, False)


def test_unhealthy_pods_may_go_where_the_budget_says_so() -> None:
    sick = replica("r1", "n1")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    always = budget(0)
    always["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    assert len(drained([node("n1"), node("n2"), budget(0), sick], "n1").blocked) == 1
    assert len(drained([node("n1"), node("n2"), always, sick], "n1").moved) == 1


def test_two_budgets_are_one_too_many() -> None:
    second = budget(5)
    second["metadata"] = {"name": "c", "namespace": "d"}
    report = drained([node("n1"), node("n2"), budget(5), second, replica("r1", "n1")], "n1")
    assert "more than one PodDisruptionBudget" in report.blocked[0].why


def test_a_bare_pod_is_lost() -> None:
    report = drained([node("n1"), node("n2"), pod("alone", "n1")], "n1")
    assert (report.lost, report.moved) == (("d/alone",), ())


def test_moved_pods_preempt_on_other_nodes() -> None:
    objects = [node("n1"), node("n2"), replica("low", "n2", "3"), replica("high", "n1", "3", priority=10)]
    report = drained(objects, "n1")
    assert [(m.pod, m.target) for m in report.moved] == [("d/high", "n2")]
    assert [(e.pod, e.by) for e in report.evicted] == [("d/low", "d/high")]
    assert not report.safe


def test_nodes_are_drained_together() -> None:
    """n2 is cordoned from the beginning, so that nothing moves there first."""
    objects = [node("n1"), node("n2"), node("n3"), replica("r1", "n1"), replica("r2", "n2")]
    assert {m.target for m in drained(objects, "n1", "n2").moved} == {"n3"}
