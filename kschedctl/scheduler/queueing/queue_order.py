"""The order of the queue as a QueueSort plugin defines it, which may change while pods wait.

Upstream: pkg/scheduler/backend/heap/heap.go (v1.36) and Go's container/heap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.queued_pod import PodHeap, PodOrder, QueuedPod
from kschedctl.scheduler.framework import Plugin, QueueSortPlugin, offers
from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork


@runtime_checkable
class QueueOrderPlugin(Plugin, Protocol):
    """A QueueSort plugin whose order depends on the queue's data about a pod."""

    def build_queue_key(self, pod: QueuedPod, view: Fork) -> object:
        """Return the sort key of a pod. The pod with the smallest key is tried first."""


class ChangingHeap:
    """A heap of pods whose keys are recomputed in each comparison, as in Go's heap.

    A pod whose key changed stays in place until it is compared, so the first pod popped is not always the smallest.
    """

    def __init__(self, key: PodOrder) -> None:
        self._key = key
        self._heap: list[QueuedPod] = []
        self._pods: dict[Position, QueuedPod] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods in the order in which they were added."""
        return iter(self._pods.values())

    def get(self, position: Position) -> QueuedPod | None:
        """Return the pod at a position, or None if it is not in the heap."""
        return self._pods.get(position)

    def add(self, pod: QueuedPod) -> None:
        """Add a pod and move it up to its place."""
        self._pods[pod.position] = pod
        self._heap.append(pod)
        self._move_up(len(self._heap) - 1)

    def delete(self, position: Position) -> QueuedPod | None:
        """Remove and return the pod at a position, or return None if it is not in the heap."""
        pod = self._pods.pop(position, None)
        if pod is not None:
            self._remove_at(self._heap.index(pod))
        return pod

    def peek(self) -> QueuedPod | None:
        """Return the first pod without removing it, or None if the heap is empty."""
        return self._heap[0] if self._heap else None

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, or return None if the heap is empty."""
        return self.delete(self._heap[0].position) if self._heap else None

    def _remove_at(self, index: int) -> None:
        """Remove the pod at an index of the heap, as Go's heap.Remove does: the last pod takes its place."""
        last = len(self._heap) - 1
        self._swap(index, last)
        self._heap.pop()
        if index < last and not self._move_down(index):
            self._move_up(index)

    def _move_up(self, index: int) -> None:
        """Move the pod at an index up until it does not sort before its parent."""
        while index:
            parent = (index - 1) // 2
            if not self._is_less(index, parent):
                break
            self._swap(index, parent)
            index = parent

    def _move_down(self, start: int) -> bool:
        """Move the pod at an index down until no child sorts before it, and return whether it moved."""
        index = start
        while (child := 2 * index + 1) < len(self._heap):
            if child + 1 < len(self._heap) and self._is_less(child + 1, child):
                child += 1
            if not self._is_less(child, index):
                break
            self._swap(index, child)
            index = child
        return index > start

    def _is_less(self, left: int, right: int) -> bool:
        """Return whether the pod at index `left` sorts before the pod at index `right`."""
        return bool(self._key(self._heap[left]) < self._key(self._heap[right]))

    def _swap(self, left: int, right: int) -> None:
        """Exchange the pods at two indexes."""
        self._heap[left], self._heap[right] = self._heap[right], self._heap[left]


class QueueOrder:
    """The order of the queue by a QueueSort plugin, or by PrioritySort if `plugin` is None."""

    def __init__(self, plugin: QueueSortPlugin | None = None, view: Fork | None = None) -> None:
        self._plugin, self._view = plugin, view

    def build_heap(self, key: PodOrder) -> PodHeap | ChangingHeap:
        """Build an empty heap that suits this order."""
        return PodHeap(key) if self._plugin is None else ChangingHeap(key)

    def get_sort_key(self, pod: QueuedPod) -> object:
        """Return the key by which the queue sorts a pod in the current state.

        The key comes from the QueueSort plugin, or from PrioritySort if there is no such plugin. The pod's timestamp
        breaks ties, unless the plugin builds the whole key as a QueueOrderPlugin.
        """
        if self._plugin is None or self._view is None:
            return PrioritySort.sort_key(pod.priority, pod.timestamp)
        if offers(self._plugin, QueueOrderPlugin):
            return self._plugin.build_queue_key(pod, self._view)
        (key,) = self._plugin.sort_keys(self._view, [pod.position])
        return key, pod.timestamp


BY_PRIORITY = QueueOrder()


def sort_positions(scheduler: Scheduler, view: Fork, positions: Sequence[Position]) -> list[Position]:
    """Return the positions in the order in which the queue would try the pods.

    The order is that of the QueueSort plugin, or of PrioritySort if the profiles use it. The positions must be in order
    of arrival, which breaks ties.
    """
    if not positions:
        return []
    plugin = scheduler.queue_sort
    if plugin is None:  # the profiles use upstream's PrioritySort
        priorities = view.pods.get_priorities(list(positions)).tolist()
        keys: Sequence[Any] = [PrioritySort.sort_key(priority, turn) for turn, priority in enumerate(priorities)]
    else:
        keys = plugin.sort_keys(view, positions)
    turns_in_order = sorted(range(len(positions)), key=keys.__getitem__)
    return [positions[turn] for turn in turns_in_order]
