"""Check that ``explain`` and ``audit`` agree on a pod that fits now: overdue, crowded out, or about to be retried.

Upstream: a refused pod is tried again after five minutes, checked every 30 seconds, and a back-off of ten seconds at
most (flushUnschedulableEntitiesLeftover in pkg/scheduler/backend/queue/scheduling_queue.go, v1.36): 340 seconds.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_pending_section import LONG_AGO, NOW, build_event, build_node, build_pod, set_creation_time, set_rejection

from kschedctl import Cluster, explain, pending
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.render.brief import to_brief
from kschedctl.render.page import Style
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
    assert "had waited for 12m by 2026-05-06" in text
    assert "no event says when it was last tried" in text
    assert "retries the pod within" not in text


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
