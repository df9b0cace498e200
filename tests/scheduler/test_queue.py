"""Check the order of the queue against upstream's own table (plugins/queuesort; v1.36)."""

from __future__ import annotations

from plugin_cases import parametrize_cases

from kschedctl.scheduler.plugins.priority_sort import PrioritySort


@parametrize_cases("queuesort", "queuesort")
def test_order(case):
    first, second = (
        PrioritySort.sort_key(case[pod]["spec"]["priority"], case.get(f"{pod}QueueTime") or 0) for pod in ("p1", "p2")
    )
    assert (first < second) == case["want"]["less"]
