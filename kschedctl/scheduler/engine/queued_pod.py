"""What the scheduling queue knows of a pod, and heaps of such pods.

Upstream: QueuedPodInfo in pkg/scheduler/framework/types.go and pkg/scheduler/backend/heap (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors

NANOSECONDS = 10**9
"""Times are in nanoseconds of a clock that starts at 0."""


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod that waits, or is being tried.

    ``timestamp``: when it entered the queue last; ``initial_attempt``: when it could be tried for the first time, 0
    until then; ``attempts``: how often it was popped; ``unschedulable_count`` and ``consecutive_errors`` decide how
    long it backs off. ``rejectors`` refused it; ``gating_plugin`` is one of them, whose PreEnqueue keeps the pod from
    being tried. ``signature``: equal for pods that would get the same answers, None where that is not known.
    ``flushed``: it is tried again since it had waited for so long. ``moved_by``: the label of the event that put it
    back into the queue last.
    """

    position: Position
    priority: int
    timestamp: int = 0
    initial_attempt: int = 0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    rejectors: Rejectors = NONE
    gating_plugin: str = ""
    backoff_expiration: int | None = None
    signature: bytes | None = None
    flushed: bool = False
    moved_by: str = ""

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)


PodOrder = Callable[[QueuedPod], Any]
"""The key of a pod: the smallest is popped first."""


class Clock:
    """A time that stands still but for one nanosecond at each look, so that what comes later is later."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        self.time += 1
        return self.time


class PodHeap:
    """Pods by a key, the smallest of which is popped first. A pod's key must not change while it is in there."""

    def __init__(self, key: PodOrder) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, Position]] = []
        self._pods: dict[Position, tuple[int, QueuedPod]] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        """In the order in which they were added."""
        return (pod for _, pod in self._pods.values())

    def get(self, position: Position) -> QueuedPod | None:
        pod = self._pods.get(position)
        return pod and pod[1]

    def add(self, pod: QueuedPod) -> None:
        self._added += 1
        self._pods[pod.position] = self._added, pod
        heappush(self._heap, (self._key(pod), self._added, pod.position))

    def delete(self, position: Position) -> QueuedPod | None:
        pod = self._pods.pop(position, None)
        return pod and pod[1]

    def peek(self) -> QueuedPod | None:
        while self._heap:
            _, number, position = self._heap[0]
            pod = self._pods.get(position)
            if pod and pod[0] == number:
                return pod[1]
            heappop(self._heap)
        return None

    def pop(self) -> QueuedPod | None:
        queued = self.peek()
        return queued and self.delete(queued.position)
