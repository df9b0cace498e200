"""The backoff queue: pods that are worth another try, but not at once.

Upstream: pkg/scheduler/backend/queue/backoff_queue.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration
from kschedctl.scheduler.engine.queued_pod import NANOSECONDS, Clock, PodHeap, QueuedPod
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.queueing.queue_order import BY_PRIORITY, ChangingHeap, QueueOrder

COUNTS_ATTEMPTS = ByVersion(
    "whether all attempts at a pod make it back off longer, also those that ended by errors long ago",
    (("", True), ("1.34", False)),
)
ORDERING_WINDOW = NANOSECONDS
"""Pods whose backoff ends within the same second are ordered as in the active queue."""


class Backoff(NamedTuple):
    """How long a pod backs off, in nanoseconds: ``initial`` after the first failure, twice as long after each further
    one, ``longest`` at the most. ``popped``: by gate SchedulerPopFromBackoffQ pods are taken from here when the active
    queue is empty. ``by_attempts``: as of COUNTS_ATTEMPTS.
    """

    initial: int = 1 * NANOSECONDS
    longest: int = 10 * NANOSECONDS
    popped: bool = True
    by_attempts: bool = False

    @classmethod
    def of(cls, configuration: SchedulerConfiguration, gates: FeatureGates) -> Backoff:
        return cls(
            configuration.pod_initial_backoff_seconds * NANOSECONDS,
            configuration.pod_max_backoff_seconds * NANOSECONDS,
            popped=gates.enabled("SchedulerPopFromBackoffQ"),
            by_attempts=COUNTS_ATTEMPTS.at(gates.release),
        )

    def failures(self, pod: QueuedPod) -> int:
        """How often a pod failed, as far as that counts: of errors the last ones in a row."""
        return pod.attempts if self.by_attempts else pod.consecutive_errors or pod.unschedulable_count

    def duration(self, failures: int) -> int:
        """After so many failures, 1 or more.

        >>> [Backoff().duration(failures) // NANOSECONDS for failures in (1, 2, 3, 4, 5, 6)]
        [1, 2, 4, 8, 10, 10]
        """
        return min(self.initial << min(failures - 1, 64), self.longest)

    def aligned(self, time: int) -> int:
        """The start of the ordering window."""
        return time // ORDERING_WINDOW * ORDERING_WINDOW if self.popped else time


USUAL_BACKOFF = Backoff()


class BackoffQueue:
    """Pods that back off, those that came back by errors apart: these wait until their time is over."""

    def __init__(self, clock: Clock, backoff: Backoff = USUAL_BACKOFF, order: QueueOrder = BY_PRIORITY) -> None:
        self._clock, self.backoff, self._active = clock, backoff, order
        self._pods = order.heap(self._order) if backoff.popped else PodHeap(self.expiration)
        self._errors = PodHeap(self.expiration)

    def __len__(self) -> int:
        return len(self._pods) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._pods
        yield from self._errors

    def get(self, position: Position) -> QueuedPod | None:
        return self._pods.get(position) or self._errors.get(position)

    def add(self, pod: QueuedPod) -> None:
        (self._pods if pod.rejectors.all else self._errors).add(pod)

    def delete(self, position: Position) -> QueuedPod | None:
        return self._pods.delete(position) or self._errors.delete(position)

    def pop(self) -> QueuedPod | None:
        """The one whose backoff ends first, whether or not it has; none of those that came back by errors."""
        return self._pods.pop()

    def pop_completed(self) -> list[QueuedPod]:
        """All whose backoff is over."""
        return [pod for queue in (self._pods, self._errors) for pod in self._completed(queue)]

    def next_completion(self) -> int | None:
        """The first moment at which some pod is done backing off."""
        first = [self.expiration(pod) for pod in (self._pods.peek(), self._errors.peek()) if pod]
        return min(first) + ORDERING_WINDOW if first else None

    def backing_off(self, pod: QueuedPod) -> bool:
        """Whether the pod must still wait, also in the window in which its time ends."""
        return self.expiration(pod) >= self.backoff.aligned(self._clock.now())

    def expiration(self, pod: QueuedPod) -> int:
        """When the pod's backoff ends; -1 for one that never failed, or when no pod backs off."""
        failures = self.backoff.failures(pod)
        if not failures or not self.backoff.longest:
            return -1
        if pod.backoff_expiration is None:
            ends = pod.timestamp + self.backoff.duration(failures)
            pod.backoff_expiration = self.backoff.aligned(ends)
        return pod.backoff_expiration

    def _completed(self, queue: PodHeap | ChangingHeap) -> Iterator[QueuedPod]:
        while (first := queue.peek()) and not self.backing_off(first):
            queue.delete(first.position)
            yield first

    def _order(self, pod: QueuedPod) -> tuple[int, object]:
        return self.expiration(pod), self._active.key(pod)
