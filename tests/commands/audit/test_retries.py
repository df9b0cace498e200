"""Check that ``explain`` and ``audit`` agree on a pod that fits now: overdue, crowded out, or about to be retried.

Upstream: a refused pod is tried again after five minutes, checked every 30 seconds, and a back-off of ten seconds at
most (flushUnschedulableEntitiesLeftover in pkg/scheduler/backend/queue/scheduling_queue.go, v1.36): 340 seconds.
"""

from __future__ import annotations

import pytest
from test_pending_section import LONG_AGO, NOW, created, event, node, pod, refused

from kschedctl import Cluster, explain


def advice(*documents: dict, now: str = NOW, name: str = "d/fits") -> list[str]:
    report = explain(Cluster.from_objects(documents), name, now=now)
    assert report.verdict == "Schedulable"
    return [each.text for each in report.advice]


@pytest.mark.parametrize(("last_refusal", "overdue"), [("2026-05-06T09:05:00Z", True), ("2026-05-06T09:08:00Z", False)])
def test_a_pod_left_alone_for_too_long_is_not_said_to_be_tried_again(last_refusal: str, overdue: bool) -> None:
    """Last refused 420 or 240 seconds ago."""
    waits = refused(created(pod("fits")), LONG_AGO)
    (text,) = advice(node("n1"), waits, event("fits", last_refusal))
    assert ("has not been tried for 7 min" in text) == overdue
    assert ("retries the pod within" in text) == (not overdue)


def test_a_pod_without_events_is_not_said_to_be_tried_within_five_minutes_of_its_last_refusal() -> None:
    """The condition has the time of the first refusal, so that nothing says when the scheduler last tried the pod."""
    (text,) = advice(node("n1"), refused(created(pod("fits")), LONG_AGO))
    assert "has waited for" in text
    assert "no event says when it was last tried" in text
    assert "retries the pod within" not in text


def test_a_pod_that_older_ones_leave_no_room_is_said_to_wait_for_room() -> None:
    """Two pods of 2 cores take the node's 4; the third fits only by itself."""
    pods = [refused(created(pod(f"p{number}", cpu="2")), LONG_AGO) for number in range(3)]
    (text,) = advice(node("n1"), *pods, name="d/p2")
    assert "not together with the pods ahead of it" in text
    assert "retries the pod" not in text
