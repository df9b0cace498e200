"""PrioritySort plugin: decides the order in which queued pods are tried."""

from __future__ import annotations

from kschedctl.scheduler.framework.declaration import DeclaredPlugin


class PrioritySort(DeclaredPlugin):
    """Plugin that orders the queue by descending priority, then by the time at which a pod entered the queue.

    Upstream: pkg/scheduler/framework/plugins/queuesort (v1.36).
    """

    name = "PrioritySort"
    points = ("queueSort",)

    @staticmethod
    def sort_key(priority: int, timestamp: float) -> tuple[int, float]:
        """Return a key that sorts pods in the order of scheduling, with `timestamp` in any unit.

        >>> key = PrioritySort.sort_key
        >>> sorted([key(0, 1.0), key(10, 3.0), key(10, 2.0)])
        [(-10, 2.0), (-10, 3.0), (0, 1.0)]
        """
        return -priority, timestamp
