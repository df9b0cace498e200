"""Check that drains, plans and moves say what evictions interrupt, although controllers recreate the pods."""

from __future__ import annotations

import re

import pytest
from small import Json, build_budget, build_node, build_pod, build_replica

from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate import find_removable_nodes
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.make_room import make_room
from kschedctl.commands.remedies import remedies
from kschedctl.commands.whatif import whatif
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

JOB_OWNER = {"kind": "Job", "name": "run"}
JOB = {"kind": "Job", "metadata": {"name": "run", "namespace": "d"}, "spec": {"backoffLimit": 6}}


def build_budget_with_minimum(desired_healthy: int) -> Json:
    """Build a PodDisruptionBudget of the workload that allows one disruption now."""
    budget_object = build_budget(1)
    budget_object["status"] |= {"desiredHealthy": desired_healthy, "currentHealthy": desired_healthy + 1}
    return budget_object


@pytest.mark.parametrize(
    ("others", "outages"),
    [
        ([], ("Deployment d/web",)),
        ([build_replica("r2", "n1")], ("Deployment d/web",)),
        ([build_replica("r2", "n2")], ()),
        ([build_replica("r2")], ("Deployment d/web",)),
        ([build_replica("r2", "n1"), build_budget_with_minimum(1)], ()),
        ([build_replica("r2", "n1"), build_budget_with_minimum(0)], ("Deployment d/web",)),
    ],
)
def test_workload_has_an_outage_if_no_other_pod_runs(others: list[Json], outages: tuple[str, ...]) -> None:
    """A pending pod is no running one, and a budget that requires a healthy pod keeps one."""
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), build_replica("r1", "n1"), *others])
    report = drain_nodes(cluster, ["n1"])
    assert report.outages == outages
    for style in ("table", "brief"):
        text = " ".join(RENDERERS[style](report, Style()).split())
        assert ("without a running pod until" in text) is bool(outages)


@pytest.mark.parametrize(
    ("objects", "verdict", "answer"),
    [
        ([build_replica("r1", "n1"), build_replica("r2", "n2")], "Safe", "n1 is safe to drain"),
        (
            [build_replica("r1", "n1", terminationGracePeriodSeconds=7200), build_replica("r2", "n2")],
            "Safe",
            "n1 is safe to drain",
        ),
        (
            [build_replica("r1", "n1")],
            "Drained",
            "n1 can be drained, but this leaves Deployment d/web without a running pod for a while",
        ),
        (
            [JOB, build_pod("run-1", "n1", owner=JOB_OWNER)],
            "Drained",
            "n1 can be drained, but this restarts 1 Job pod from the beginning",
        ),
        (
            [build_replica("r1", "n1", volumes=[{"name": "v", "emptyDir": {}}])],
            "Drained",
            "n1 can be drained, but this leaves Deployment d/web without a running pod for a while and deletes "
            "emptyDir data",
        ),
    ],
)
def test_first_line_names_what_evictions_harm(objects: list[Json], verdict: str, answer: str) -> None:
    """A drain after which every pod gets another node is not called safe if it harms pods, but no CI gate fails."""
    report = drain_nodes(Cluster.from_objects([build_node("n1"), build_node("n2"), *objects]), ["n1"])
    assert report.safe
    summary = report.summary()
    assert (summary.verdict, re.split("[:;]", summary.headline)[0]) == (verdict, answer)
    for form in ("table", "brief", "markdown"):
        text = " ".join(RENDERERS[form](report, Style(width=45)).replace("*", "").split())
        assert text.startswith((f"{answer}:", f"{answer};"))


def test_daemon_sets_bare_pods_and_jobs_have_no_outage() -> None:
    daemon = build_pod("agent", "n1", owner={"kind": "DaemonSet", "name": "agent"})
    objects = [
        build_node("n1"),
        build_node("n2"),
        daemon,
        build_pod("bare", "n1"),
        JOB,
        build_pod("run-1", "n1", owner=JOB_OWNER),
    ]
    report = drain_nodes(Cluster.from_objects(objects), ["n1"])
    assert (report.outages, report.starting_over) == ((), ("d/run-1",))
    assert "ends d/run-1, whose Job starts it again from the beginning" in report.summary().warnings


def test_lost_pod_does_not_start_over() -> None:
    job = {**JOB, "spec": {"backoffLimit": 0}}
    report = drain_nodes(
        Cluster.from_objects([build_node("n1"), build_node("n2"), job, build_pod("run-1", "n1", owner=JOB_OWNER)]),
        ["n1"],
    )
    assert (report.lost, report.starting_over) == (("d/run-1",), ())


@pytest.mark.parametrize(("grace", "slow"), [(300, {}), (301, {"d/r1": 301}), (7200, {"d/r1": 7200})])
def test_long_grace_periods_are_named(grace: int, slow: dict[str, int]) -> None:
    r1 = build_replica("r1", "n1", terminationGracePeriodSeconds=grace)
    report = drain_nodes(
        Cluster.from_objects([build_node("n1"), build_node("n2"), r1, build_replica("r2", "n2")]), ["n1"]
    )
    assert report.slow_pods == slow
    if grace == 7200:
        text = "waits up to 120 min for d/r1 to end, because of its terminationGracePeriodSeconds"
        assert text in report.summary().warnings


def test_plans_and_moves_name_the_outage() -> None:
    """Pod big needs the whole node n1, which only the move of r1 to n2 frees. Without it, n1 or n2 can be removed."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1", "2"),
        build_pod("o", "n2", "1", {"kind": "ReplicaSet", "name": "o"}),
    ]
    plan = find_removable_nodes(Cluster.from_objects(objects))
    assert "without a running pod" in plan.summary().fixes[0].but
    cluster = Cluster.from_objects([*objects, build_pod("big", cpu="4", nodeSelector={"kubernetes.io/hostname": "n1"})])
    (fix,) = remedies(cluster, "d/big", RemedyCriteria(only=frozenset({"MovePod"}))).remedies
    assert "Deployment d/web has no running pod until the replacement runs" in fix.costs[0].text
    (move,) = make_room(cluster, "d/big").moves
    assert move.outage_sentence == "Deployment d/web has no running pod until the replacement of d/r1 runs"


def test_move_names_lost_work_and_the_wish_to_stay() -> None:
    running = build_pod("run-1", "n1", "2", JOB_OWNER, terminationGracePeriodSeconds=600)
    objects = [build_node("n1"), build_node("n2"), JOB, running]
    big = build_pod("big", cpu="4", nodeSelector={"kubernetes.io/hostname": "n1"})
    (fix,) = remedies(
        Cluster.from_objects([*objects, big]), "d/big", RemedyCriteria(only=frozenset({"MovePod"}))
    ).remedies
    assert fix.costs[0].text == (
        "evicts d/run-1, which its Job starts again from the beginning; it may take 10 min to end"
    )
    (move,) = make_room(Cluster.from_objects([*objects, big]), "d/big").moves
    assert (move.loses, move.is_only_pod) == ("its progress, since its Job starts it again", False)

    running["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    (fix,) = remedies(
        Cluster.from_objects([*objects, big]), "d/big", RemedyCriteria(only=frozenset({"MovePod"}))
    ).remedies
    assert "whose annotations ask not to be evicted" in fix.costs[0].text


def test_what_if_names_what_its_drains_harm() -> None:
    """The drain of n2 interrupts the workload that the drain of n1 moved there once more, which is named once."""
    scratch = build_replica("r1", "n1", volumes=[{"name": "v", "emptyDir": {}}])
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), build_node("n3", cpu="1"), scratch])
    steps = [{"drain": {"nodes": [name]}} for name in ("n1", "n2")]
    report = whatif(cluster, {"steps": steps})
    assert (report.loses_data, report.outages) == (("d/r1",), ("Deployment d/web",))
    for form in ("table", "brief", "markdown"):
        text = " ".join(RENDERERS[form](report, Style(width=300)).replace("*", "").split())
        assert "Draining leaves Deployment d/web without a running pod until its replacement runs" in text
        assert "Draining deletes the emptyDir data of d/r1" in text
    harmless = whatif(Cluster.from_objects([build_node("n1"), build_node("n2")]), {"steps": steps[:1]})
    assert harmless.describe_eviction_harms() == ()


def test_pods_that_are_already_terminating_cause_no_outage() -> None:
    """Their replacement is pending already, and the drain changes nothing about it."""
    ending = build_replica("r1", "n1")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    job_pod = build_pod("run-1", "n1", owner=JOB_OWNER)
    job_pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = [build_node("n1"), build_node("n2"), JOB, ending, job_pod, build_replica("r2")]
    report = drain_nodes(Cluster.from_objects(objects), ["n1"])
    assert (report.outages, report.starting_over) == ((), ())
