"""Check that ``explain`` and ``audit`` agree on a pod that fits now: overdue, crowded out, or about to be retried.

Upstream: a refused pod is tried again after five minutes, checked every 30 seconds, and a back-off of ten seconds at
most (flushUnschedulableEntitiesLeftover in pkg/scheduler/backend/queue/scheduling_queue.go, v1.36): 340 seconds.
"""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace
from small import build_budget
from small import build_pod as build_owned_pod
from test_pending_section import LONG_AGO, NOW, build_event, build_node, build_pod, set_creation_time, set_rejection

from kschedctl import Cluster, explain, pending
from kschedctl.cluster import Gap
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.render.brief import to_brief
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.scheduler import Scheduler


def list_advice(*documents: dict, now: str = NOW, name: str = "d/fits") -> list[str]:
    report = explain(Cluster.from_objects(documents), name, now=now)
    assert report.verdict == "Schedulable"
    return [each.text for each in report.advice]


@pytest.mark.parametrize(("last_refusal", "overdue"), [("2026-05-06T09:05:00Z", True), ("2026-05-06T09:08:00Z", False)])
def test_overdue_pod_is_not_said_to_be_retried(last_refusal: str, overdue: bool) -> None:
    """It was last rejected 420 or 240 seconds ago."""
    waits = set_rejection(set_creation_time(build_pod("fits")), LONG_AGO)
    (text,) = list_advice(build_node("n1"), waits, build_event("fits", last_refusal))
    assert ("has not been tried for 7 min" in text) == overdue
    assert ("(as of 2026-05-06; the files do not say when the cluster was read)" in text) == overdue
    assert ("retries the pod within" in text) == (not overdue)


def test_retry_time_is_unknown_without_events() -> None:
    """The condition has the time of the first refusal, so that nothing says when the scheduler last tried the pod."""
    (text,) = list_advice(build_node("n1"), set_rejection(set_creation_time(build_pod("fits")), LONG_AGO))
    assert "had been waiting for 12m as of 2026-05-06" in text
    assert "no event says when it was last tried" in text
    assert "retries the pod within" not in text


def test_advice_on_a_retry_is_not_certain_if_kinds_were_not_read() -> None:
    waits = set_rejection(set_creation_time(build_pod("fits")), LONG_AGO)
    cluster = Cluster.from_objects([build_node("n1"), waits])
    unread = dataclasses.replace(cluster, gaps={"Node": Gap("could not be read: forbidden")})
    for given, basis in ((cluster, ""), (unread, ", judged by the objects that were read")):
        (text,) = [advice.text for advice in explain(given, "d/fits", now=NOW).advice]
        assert text.startswith(f"The pod fits on a node now{basis}. It had been waiting")


def test_pod_crowded_out_by_older_pods_waits_for_room() -> None:
    """Two pods of 2 cores fill the node's 4 cores. The third pod fits only by itself."""
    pods = [set_rejection(set_creation_time(build_pod(f"p{number}", cpu="2")), LONG_AGO) for number in range(3)]
    (text,) = list_advice(build_node("n1"), *pods, name="d/p2")
    assert "waits until there is room for it and for the pods ahead of it" in text
    assert "retries the pod" not in text


def test_pod_that_fits_only_by_itself_names_its_rivals() -> None:
    """All forms name them, even without a status or creation time.

    Only two of the three pods of 2 cores get a node.
    """
    cluster = Cluster.from_objects([build_node("n1"), *(build_pod(f"p{number}", cpu="2") for number in range(3))])
    last = explain(cluster, "d/p2")
    assert last.rivals == ("d/p0", "d/p1")
    assert last.headline == "on n1, but d/p0 and d/p1 take the room first"
    assert "fits by itself, but d/p0 and d/p1 take the room first" in last.summary().warnings
    assert "d/p0 and d/p1 take the room first" in to_brief(last, Style())
    assert remedies(cluster, "d/p2").headline == last.headline
    assert explain(cluster, "d/p0").rivals == ()
    groups = {group.cause: group.pods for group in pending(cluster).groups}
    assert groups == {
        "a node fits now, each pod considered alone": ("d/p0", "d/p1"),
        "a node fits now, but other waiting pods take the room first": ("d/p2",),
    }


def test_pod_whose_room_is_taken_names_the_node_that_it_gets_by_preempting() -> None:
    """The node has room for one of the two pods. The second one evicts pod low."""
    pods = [build_pod(f"p{number}", cpu="2", priority=10) for number in range(2)]
    cluster = Cluster.from_objects([build_node("n1"), build_pod("low", "n1", cpu="2"), *pods])
    second = explain(cluster, "d/p1")
    assert (second.rivals, second.node_after_rivals, second.victims_after_rivals) == (("d/p0",), "n1", ("d/low",))
    outcome = "d/p0 takes the room first, so the pod will get n1 by preempting d/low"
    assert second.headline == f"on n1, but {outcome}"
    assert f"fits by itself, but {outcome}" in second.summary().warnings
    (text,) = [each.text for each in second.advice]
    assert text.startswith("It will get n1 by preempting d/low. ")
    assert remedies(cluster, "d/p1").headline == second.headline
    assert outcome in " ".join(RENDERERS["table"](pending(cluster), Style(width=200)).split())

    first = explain(cluster, "d/p0")
    assert (first.rivals, first.node_after_rivals) == ((), "")


def test_violated_budgets_and_failed_jobs_are_named_if_a_pod_preempts_behind_its_rivals() -> None:
    """Pod low of a Job without retries is evicted, although the PodDisruptionBudget allows no disruption."""
    pods = [build_pod(f"p{number}", cpu="2", priority=10) for number in range(2)]
    job = {"kind": "Job", "metadata": {"name": "run", "namespace": "d"}, "spec": {"backoffLimit": 0}}
    low = build_owned_pod("low", "n1", "2", {"kind": "Job", "name": "run", "apiVersion": "batch/v1"})
    low["metadata"]["labels"] = {"app": "low"}
    cluster = Cluster.from_objects([build_node("n1"), job, low, build_budget(0, "low"), *pods])
    report = explain(cluster, "d/p1")
    harms = "violates PodDisruptionBudget d/b; Job d/run fails, which ends its 1 pod"
    assert report.headline.endswith(f"so the pod will get n1 by preempting d/low ({harms})")
    assert any(harms in warning for warning in report.summary().warnings)


def build_two_nodes() -> list[dict]:
    """Build a node with 1 free core, a full one where pod urgent evicts pod low, and two pods that request 1 core."""
    return [
        build_node("n1"),
        build_pod("full", "n1", cpu="3", priority=10),
        build_node("n2"),
        build_pod("low", "n2", cpu="4"),
        build_pod("urgent", cpu="3", priority=20, nodeSelector={"kubernetes.io/hostname": "n2"}),
        build_pod("p0", priority=10, nodeSelector={"kubernetes.io/hostname": "n1"}),
        build_pod("p1", priority=5),
    ]


def test_pod_whose_room_is_taken_names_the_node_on_which_others_make_room() -> None:
    """Pod p0 takes the free core of n1. Pod p1 gets the core of n2 that pod urgent leaves free."""
    report = explain(Cluster.from_objects(build_two_nodes()), "d/p1")
    assert (report.rivals, report.node_after_rivals, report.victims_after_rivals) == (("d/p0",), "n2", ())
    assert report.headline == "on n1, but d/p0 takes the room first, so the pod will get n2"
    assert [each.text for each in report.advice] == ["It will get n2 once the pods ahead of it are scheduled"]


def test_pod_has_no_rivals_if_others_make_room_for_them_elsewhere() -> None:
    """Pod p0 prefers n2, where pod urgent leaves room, so that p1 gets n1."""
    prefers_n2 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": prefers_n2}]}
    documents = build_two_nodes()
    documents[-2] = build_pod("p0", priority=10, affinity={"nodeAffinity": affinity})
    report = explain(Cluster.from_objects(documents), "d/p1")
    assert (report.rivals, report.node_after_rivals, report.headline) == ((), "", "on n1")
    assert "room first" not in RENDERERS["table"](pending(Cluster.from_objects(documents)), Style(width=200))
    assert "AwaitRoom" not in {each.kind for each in report.advice}


def test_pod_of_higher_priority_takes_the_room_of_an_older_pod() -> None:
    urgent = build_pod("urgent", cpu="3", priority=10)
    cluster = Cluster.from_objects(
        [build_node("n1"), set_creation_time(build_pod("old", cpu="3")), set_creation_time(urgent, NOW)]
    )
    assert explain(cluster, "d/old").rivals == ("d/urgent",)
    assert explain(cluster, "d/urgent").rivals == ()


def test_an_assumed_change_of_a_pod_has_no_rivals_of_the_unchanged_pod() -> None:
    cluster = Cluster.from_objects([build_node("n1"), *(build_pod(f"p{number}", cpu="2") for number in range(3))])
    scheduler = Scheduler(cluster)
    stored = cluster.pod("d", "p2")
    assert stored is not None
    stored = scheduler.view.build_stored_pod(stored)
    urgent = replace(stored, spec=replace(stored.spec, priority=5))
    assert find_pod_remedies(TargetPod(scheduler, urgent)).headline == "on n1"
