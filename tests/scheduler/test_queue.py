"""The order of the queue and the back-off against upstream's own tables (plugins/queuesort, backend/queue; v1.36)."""

from __future__ import annotations

from plugin_cases import cases

from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.queue import backoff_duration


@cases("queuesort", "queuesort")
def test_order(case):
    first, second = (
        PrioritySort().sort_key(case[pod]["spec"]["priority"], case.get(f"{pod}QueueTime") or 0) for pod in ("p1", "p2")
    )
    assert (first < second) == case["want"]["less"]


@cases("queuesort", "backoff")
def test_backoff(case):
    found = backoff_duration(case["attempts"], case["initialBackoffNanos"], case["maxBackoffNanos"])
    assert found == case["want"]["backoffNanos"]
