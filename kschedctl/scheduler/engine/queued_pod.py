"""Pods in the scheduling queue, and heaps of them.

Upstream: QueuedPodInfo in pkg/scheduler/framework/types.go and pkg/scheduler/backend/heap (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors

NANOSECONDS = 10**9
"""Nanoseconds in a second. Times are nanoseconds of a clock that starts at 0."""


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod that waits in the queue or is being scheduled."""

    position: Position
    priority: int
    timestamp: int = 0
    """When it last entered the queue."""
    initial_attempt: int = 0
    """When the pod could first be tried, or 0 before that."""
    attempts: int = 0
    """The number of times that it was popped from the queue to be scheduled."""
    unschedulable_count: int = 0
    """Number of rejections, which determines the backoff."""
    consecutive_errors: int = 0
    """Number of errors in a row, which determines the backoff."""
    rejectors: Rejectors = NO_REJECTORS
    """The plugins that rejected it."""
    gating_plugin: str = ""
    """The plugin whose PreEnqueue keeps the pod out of the active queue. It is also one of `rejectors`."""
    backoff_expiration: int | None = None
    signature: bytes | None = None
    """A signature that is equal for pods with the same answers, or None if it is unknown."""
    flushed: bool = False
    """True if it is tried again because it waited too long."""
    moved_by: str = ""
    """Label of the event that last moved it back to the queue."""

    @property
    def gated(self) -> bool:
        """True if a PreEnqueue plugin keeps it out of the active queue."""
        return bool(self.gating_plugin)


PodOrder = Callable[[QueuedPod], Any]
"""Returns the sort key of a pod. The pod with the smallest key is popped first."""


class Clock:
    """A clock that advances by one nanosecond at each reading, so that a later event always has a later time."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        """Advance the clock by a nanosecond and return the new time."""
        self.time += 1
        return self.time


class PodHeap:
    """A heap of queued pods. A pod's key must not change while the pod is in the heap."""

    def __init__(self, key: PodOrder) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, Position]] = []
        """(sort key, number, position) of each addition. Entries whose number is outdated are skipped."""
        self._pods: dict[Position, tuple[int, QueuedPod]] = {}
        """Position -> the number of the latest addition, and the pod."""
        self._added = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods in the order in which they were added."""
        return (pod for _, pod in self._pods.values())

    def get(self, position: Position) -> QueuedPod | None:
        """Return the pod at a position, or None if it is not in the heap."""
        if position not in self._pods:
            return None
        _, pod = self._pods[position]
        return pod

    def add(self, pod: QueuedPod) -> None:
        """Add a pod, or replace the pod at the same position."""
        self._added += 1
        self._pods[pod.position] = self._added, pod
        heappush(self._heap, (self._key(pod), self._added, pod.position))

    def delete(self, position: Position) -> QueuedPod | None:
        """Remove and return the pod at a position, or return None if it is not in the heap.

        Its heap entry stays until `peek` reaches and drops the entry.
        """
        if position not in self._pods:
            return None
        _, pod = self._pods.pop(position)
        return pod

    def peek(self) -> QueuedPod | None:
        """Return the first pod without removing it, or None if the heap is empty."""
        while self._heap:
            _, number, position = self._heap[0]
            if position in self._pods:
                latest_number, pod = self._pods[position]
                if number == latest_number:
                    return pod
            heappop(self._heap)  # the pod was deleted or added again
        return None

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, or return None if the heap is empty."""
        pod = self.peek()
        return None if pod is None else self.delete(pod.position)
