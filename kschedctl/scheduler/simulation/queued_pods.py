"""The pods of a simulation in the scheduling queue: who is tried when, and who is tried again after what.

A pod that is placed, and one that is evicted, is an event, which the plugins that refused the others hear of. When
nobody is left to try time passes: backoffs end, and after five minutes all are tried again, as long as something moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.queueing.backoff_queue import Backoff
from kschedctl.scheduler.queueing.event_handlers import Occurrence
from kschedctl.scheduler.queueing.events import ASSIGNED_POD, POD, ActionType, ChangedObject, ClusterEvent
from kschedctl.scheduler.queueing.queue_plugins import QueuePlugins
from kschedctl.scheduler.queueing.queued_pod import NANOSECONDS, Clock, QueuedPod
from kschedctl.scheduler.queueing.rejectors import Rejectors
from kschedctl.scheduler.queueing.requeueing import QueueingStrategy, strategy
from kschedctl.scheduler.queueing.scheduling_queue import LONGEST_UNSCHEDULABLE, TIMEOUT, Rules, SchedulingQueue
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import AnyGroupKey

ADDED = ClusterEvent(ASSIGNED_POD, ActionType.ADD)
DELETED = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
GROUPED = Rejectors(frozenset({"GangScheduling"}))
"""Which plugins refuse the pods of a group makes no difference to when they come back."""


class QueuedPods:
    """Pods by their positions, worked off once.

    What refuses a pod that fits nowhere is found when an event comes to which it matters: ``_unjudged`` are those of
    which it is not known, by the numbers of their infos. ``groups``: the pods of each group that wait, in order;
    ``moves`` counts how often a pod came to a node or left one.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        placements: Placements,
        positions: Sequence[Position],
        groups: dict[AnyGroupKey, list[Position]],
        moves: Callable[[], int],
    ) -> None:
        self.view, self._groups, self._moves = placements.view, groups, moves
        configuration, gates = scheduler.configuration, scheduler.gates
        backoff = Backoff(
            configuration.pod_initial_backoff_seconds * NANOSECONDS,
            configuration.pod_max_backoff_seconds * NANOSECONDS,
            popped=gates.enabled("SchedulerPopFromBackoffQ"),
        )
        self._clock = Clock()
        self._advice = _AdviceOfAlikes(scheduler, placements)
        members = frozenset(member for group in groups.values() for member in group)
        rules = Rules(backoff, gates.enabled("SchedulerQueueingHints"), members)
        self._queue = SchedulingQueue(self._advice, rules, self._clock)
        self._new = in_order(scheduler, self.view, positions)[::-1]
        """Pods that were not tried yet, the next one last: they came before all that come back."""
        self.tried: dict[Position, QueuedPod] = {}
        """Those that were, in vain: while there is none, nobody has to be asked or told anything."""
        self._unjudged: dict[int, list[QueuedPod]] = {}
        self._of_groups: list[QueuedPod] = []
        """Pods of groups of which not enough fit since the latest move."""
        self._moved = moves()

    def pop(self) -> Position | None:
        """The next to try; None when time changes nothing any more."""
        if not self.tried and self._new:
            self._queue.cycle += 1
            return self._new.pop()
        while self._new and self._new[-1] in self.tried:  # it was tried with others of its group
            self._new.pop()
        if self._new and not self._overtaken():
            self._queue.cycle += 1
            return self._new.pop()
        while (found := self._queue.pop()) is None:
            if not self._time_passes():
                return None
        self._queue.done(found.position)  # what happens to it until it is judged is not asked for
        return found.position

    def moved_by(self, position: Position) -> str:
        """The label of the event after which a pod is tried again; empty the first time."""
        found = self.tried.get(position)
        return found.moved_by if found else ""

    def refused(self, position: Position) -> None:
        """The pod fits nowhere now."""
        pod = self._known(position)
        pod.timestamp = self._clock.now()
        self._unjudged.setdefault(int(self.view.pods.info[position]), []).append(pod)

    def nominated(self, position: Position, rejectors: Rejectors, victims: Iterable[Position]) -> None:
        """The pod fits nowhere, but the victims left a node for it: it is among those that hear of that."""
        self._queue.add_unschedulable(self._known(position), rejectors)
        for victim in victims:
            self._tell(DELETED, victim)

    def members(self, group: AnyGroupKey) -> list[Position]:
        """The pods of a group that wait; none of them is in the queue any more."""
        found = self._groups[group]
        for member in found:
            self._known(member)
            self._queue.delete(member)
        return found

    def group_refused(self, group: AnyGroupKey, members: list[Position]) -> None:
        """Not enough pods of a group fit now: these wait on."""
        self._groups[group] = members
        self._of_groups += map(self._known, members)

    def before(
        self, positions: Iterable[Position], victims: Iterable[Position], rejectors: Callable[[Position], Rejectors]
    ) -> None:
        """Pods will come to nodes, and victims leave theirs: whom this may concern is judged as things are."""
        if not self._unjudged:
            return
        for event, about in [(ADDED, each) for each in positions] + [(DELETED, each) for each in victims]:
            told = self._advice.told(self._unjudged.keys(), event, about)
            for pod in sorted((pod for number in told for pod in self._unjudged.pop(number)), key=_refused_at):
                refused_at = pod.timestamp
                self._queue.add_unschedulable(pod, rejectors(pod.position))
                pod.timestamp = refused_at

    def after(self, position: Position, victims: Iterable[Position]) -> None:
        """The pod came to a node, and the victims left theirs; groups come back by backoff, whatever happened."""
        for pod in self._of_groups:
            self._queue.add_unschedulable(pod, GROUPED)
        self._of_groups = []
        if self._queue.unschedulable:
            for victim in victims:
                self._tell(DELETED, victim)
            self._tell(ADDED, position)

    def _overtaken(self) -> bool:
        """Whether a pod that came back is more urgent than all that were not tried yet."""
        first = self._queue.active.peek() if len(self._queue.active) else None
        return first is not None and first.priority > self._priority(self._new[-1])

    def _known(self, position: Position) -> QueuedPod:
        if position not in self.tried:
            self.tried[position] = QueuedPod(position, self._priority(position), attempts=1)
        return self.tried[position]

    def _priority(self, position: Position) -> int:
        return int(self.view.pods.priority[self.view.pods.info[position]])

    def _tell(self, event: ClusterEvent, position: Position) -> None:
        if any(self._advice.interested(each, event) for each in self._queue.unschedulable.rejectors()):
            self._queue.move(self._advice.occurrence(event, position))

    def _time_passes(self) -> bool:
        """Whether somebody may be tried again then."""
        end = self._queue.backoff.next_completion()
        if end is not None:
            self._clock.time = max(self._clock.time, end)
            self._queue.flush_backoff()
            return True
        if self._moved == self._moves() or not (self._queue.unschedulable or self._unjudged):
            return False
        self._moved = self._moves()
        self._clock.time += LONGEST_UNSCHEDULABLE
        self._queue.flush_unschedulable()
        for pod in (pod for alike in self._unjudged.values() for pod in alike):
            pod.moved_by, pod.flushed = TIMEOUT, True
            self._queue.active.add(pod)
        self._unjudged = {}
        return True


def _refused_at(pod: QueuedPod) -> int:
    return pod.timestamp


def in_order(scheduler: Scheduler, view: Fork, positions: Sequence[Position]) -> list[Position]:
    """In the order of the profiles' QueueSort, all of which have the same; the positions are given as the pods came."""
    if not positions:
        return []
    plugin = scheduler.queue_sort
    if plugin is None:
        priority = view.pods.priority[view.pods.info[list(positions)]].tolist()
        keys: Sequence[Any] = [PrioritySort.sort_key(each, time) for time, each in enumerate(priority)]
    else:
        keys = plugin.sort_keys(view, positions)
    return [positions[time] for time in sorted(range(len(positions)), key=keys.__getitem__)]


class _AdviceOfAlikes(QueuePlugins):
    """What plugins say of pods alike, and to pods alike that come and go, is found once. No plugin gates a pod."""

    def __init__(self, scheduler: Scheduler, placements: Placements) -> None:
        super().__init__(scheduler, placements.view, placements.arriving)
        self._occurrences: dict[tuple[ClusterEvent, int], Occurrence] = {}
        self._strategies: dict[tuple[int, Rejectors, int], QueueingStrategy] = {}
        self._deaf: dict[tuple[ClusterEvent, int], set[int]] = {}
        """The infos to which an event about a pod of an info does not matter."""

    def occurrence(self, event: ClusterEvent, position: Position) -> Occurrence:
        """That a pod like this one came to a node, or left it."""
        key = event, int(self._view.pods.info[position])
        if key not in self._occurrences:
            pod = self._info(position).pod
            there = replace(pod, spec=replace(pod.spec, node_name=pod.spec.node_name or self._view.nodes.names[0]))
            old, new = (None, there) if event is ADDED else (there, None)
            self._occurrences[key] = Occurrence(event, ChangedObject(POD, old, new))
        return self._occurrences[key]

    def told(self, numbers: Set[int], event: ClusterEvent, position: Position) -> list[int]:
        """The infos of which the event could put pods back into the queue, whichever plugins refused them."""
        deaf = self._deaf.setdefault((event, int(self._view.pods.info[position])), set())
        hearing = [number for number in numbers - deaf if self._matters(number, self.occurrence(event, position))]
        deaf.update(numbers - set(hearing))
        return sorted(hearing)

    def _matters(self, number: int, occurrence: Occurrence) -> bool:
        info = self._view.pods.infos[number]
        asked = self._scheduler.registrations(info.spec.scheduler_name)
        anyone = Rejectors(frozenset(asked.by_plugin))
        return strategy(asked, anyone, info, occurrence, self._view) is not QueueingStrategy.SKIP

    def gating_plugin(self, pod: QueuedPod) -> str:
        return ""

    def hears(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        return True

    def strategy(self, pod: QueuedPod, occurrence: Occurrence) -> QueueingStrategy:
        key = int(self._view.pods.info[pod.position]), pod.rejectors, id(occurrence)
        if key not in self._strategies:
            self._strategies[key] = super().strategy(pod, occurrence)
        return self._strategies[key]
