"""PrioritySort: which of the waiting pods is tried first."""

from __future__ import annotations

from kschedctl.scheduler.framework.declaration import DeclaredPlugin


class PrioritySort(DeclaredPlugin):
    """Orders the queue by priority, the highest first; among equals by the time at which a pod entered the queue.

    Upstream: pkg/scheduler/framework/plugins/queuesort (v1.36).
    """

    name = "PrioritySort"
    points = ("queueSort",)

    @staticmethod
    def sort_key(priority: int, timestamp: float) -> tuple[int, float]:
        """Smaller is tried earlier; ``timestamp`` in any unit, the same for all pods.

        >>> key = PrioritySort.sort_key
        >>> sorted([key(0, 1.0), key(10, 3.0), key(10, 2.0)])
        [(-10, 2.0), (-10, 3.0), (0, 1.0)]
        """
        return -priority, timestamp
