"""The backoff queue: pods that wait before they are tried again.

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
    "a rejected pod's backoff also grows with earlier attempts that ended with an error",
    (("", True), ("1.34", False)),
)
ORDERING_WINDOW = NANOSECONDS
"""Pods whose backoff ends within the same second are ordered as in the active queue."""


class Backoff(NamedTuple):
    """The backoff times of pods, in nanoseconds. The time doubles with each failure."""

    initial: int = 1 * NANOSECONDS
    """The time after the first failure."""
    longest: int = 10 * NANOSECONDS
    """The maximum time."""
    pops_early: bool = True
    """True if pods are popped before their backoff ends if the active queue is empty (SchedulerPopFromBackoffQ)."""
    counts_attempts: bool = False
    """True if every attempt counts as a failure; see COUNTS_ATTEMPTS."""

    @classmethod
    def from_configuration(cls, configuration: SchedulerConfiguration, gates: FeatureGates) -> Backoff:
        """Build the backoff with the configured times.

        The feature gates and the release decide when pods are popped and what counts as a failure.
        """
        return cls(
            configuration.pod_initial_backoff_seconds * NANOSECONDS,
            configuration.pod_max_backoff_seconds * NANOSECONDS,
            pops_early=gates.enabled("SchedulerPopFromBackoffQ"),
            counts_attempts=COUNTS_ATTEMPTS.at(gates.release),
        )

    def count_failures(self, pod: QueuedPod) -> int:
        """Return how many failures of the pod lengthen its backoff.

        In old versions, all attempts count. In newer versions, the latest consecutive errors count or, if there are
        none, the rejections.
        """
        if self.counts_attempts:
            return pod.attempts
        return pod.consecutive_errors or pod.unschedulable_count

    def compute_duration(self, failures: int) -> int:
        """Return how long a pod backs off after one or more failures, in nanoseconds.

        >>> [Backoff().compute_duration(failures) // NANOSECONDS for failures in (1, 2, 3, 4, 5, 6)]
        [1, 2, 4, 8, 10, 10]
        """
        return min(self.initial << min(failures - 1, 64), self.longest)

    def align_to_window(self, time: int) -> int:
        """Return the start of the ordering window that contains this time, or the time itself without windows."""
        return time // ORDERING_WINDOW * ORDERING_WINDOW if self.pops_early else time


USUAL_BACKOFF = Backoff()


class BackoffQueue:
    """The pods that back off. Pods that came back with errors are kept apart, and wait until their time is over."""

    def __init__(self, clock: Clock, backoff: Backoff = USUAL_BACKOFF, order: QueueOrder = BY_PRIORITY) -> None:
        self._clock, self.backoff, self._active = clock, backoff, order
        self._pods = (
            order.build_heap(self._build_sort_key) if backoff.pops_early else PodHeap(self.get_backoff_expiration)
        )
        self._errors = PodHeap(self.get_backoff_expiration)

    def __len__(self) -> int:
        return len(self._pods) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._pods
        yield from self._errors

    def get(self, position: Position) -> QueuedPod | None:
        """Return the pod at a position, or None if it does not back off."""
        return self._pods.get(position) or self._errors.get(position)

    def add(self, pod: QueuedPod) -> None:
        """Add a pod to the heap of rejected pods, or to a separate heap if it failed with an error."""
        if pod.rejectors.all:
            self._pods.add(pod)
        else:
            self._errors.add(pod)

    def delete(self, position: Position) -> QueuedPod | None:
        """Remove and return the pod at a position, or return None if it does not back off."""
        return self._pods.delete(position) or self._errors.delete(position)

    def pop(self) -> QueuedPod | None:
        """Remove and return the pod whose backoff ends first, even if it has not ended yet.

        Pods that failed with an error are never returned. Return None if there is no other pod.
        """
        return self._pods.pop()

    def pop_pods_after_backoff(self) -> list[QueuedPod]:
        """Remove and return all pods whose backoff is over."""
        return [pod for queue in (self._pods, self._errors) for pod in self._iter_pods_after_backoff(queue)]

    def find_next_completion(self) -> int | None:
        """Return the first time at which the backoff of some pod is over, or None if no pod backs off."""
        expirations = [self.get_backoff_expiration(pod) for pod in (self._pods.peek(), self._errors.peek()) if pod]
        # A pod also waits through the window in which its backoff ends.
        return min(expirations) + ORDERING_WINDOW if expirations else None

    def is_backing_off(self, pod: QueuedPod) -> bool:
        """Return whether the pod must still wait, including the window in which its backoff ends."""
        return self.get_backoff_expiration(pod) >= self.backoff.align_to_window(self._clock.now())

    def get_backoff_expiration(self, pod: QueuedPod) -> int:
        """Return the time at which the pod's backoff ends, or -1 if the pod does not back off.

        The time is computed once per failure and stored in the pod.
        """
        failures = self.backoff.count_failures(pod)
        if not failures or not self.backoff.longest:
            return -1
        if pod.backoff_expiration is None:
            ends = pod.timestamp + self.backoff.compute_duration(failures)
            pod.backoff_expiration = self.backoff.align_to_window(ends)
        return pod.backoff_expiration

    def _iter_pods_after_backoff(self, queue: PodHeap | ChangingHeap) -> Iterator[QueuedPod]:
        """Remove and yield the pods of one queue whose backoff is over."""
        while (first := queue.peek()) and not self.is_backing_off(first):
            queue.delete(first.position)
            yield first

    def _build_sort_key(self, pod: QueuedPod) -> tuple[int, object]:
        """Build a key that sorts pods by the end of their backoff, and then as in the active queue."""
        return self.get_backoff_expiration(pod), self._active.get_sort_key(pod)
