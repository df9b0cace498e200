"""The pods of a simulation in the scheduling queue: who is tried when, and who is tried again after what.

A pod that is placed, and one that is evicted, is an event, which the plugins that refused the others hear of. When
nobody is left to try time passes: backoffs end, and after five minutes all are tried again, as long as something moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.queued_pod import Clock, QueuedPod
from kschedctl.scheduler.engine.rejectors import Rejectors
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework.events import ASSIGNED_POD, POD, ActionType, ChangedObject, ClusterEvent
from kschedctl.scheduler.queueing.queue_order import QueueOrder
from kschedctl.scheduler.queueing.queue_plugins import QueuePlugins
from kschedctl.scheduler.queueing.requeueing import QueueingStrategy, may_queue
from kschedctl.scheduler.queueing.scheduling_queue import (
    MAX_UNSCHEDULABLE_TIME,
    TIMEOUT,
    QueueRules,
    SchedulingQueue,
)
from kschedctl.scheduler.queueing.waiting_pods import PermitWaits
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.attempts import Attempts
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey

ADDED = ClusterEvent(ASSIGNED_POD, ActionType.ADD)
DELETED = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)


class QueuedPods:
    """Pods by their positions, worked off once.

    What refuses a pod that fits nowhere is mostly found when an event comes to which it matters: ``_unjudged`` are
    those to which none came, by the numbers of their infos. ``gangs``: those that wait on their nodes for each other;
    what happens meanwhile concerns them, too.
    """

    def __init__(self, attempts: Attempts, positions: Sequence[Position]) -> None:
        self.view, self._attempts, scheduler = attempts.view, attempts, attempts.scheduler
        self._rejectors = attempts.failures.rejectors
        self._groups = groups = attempts.gangs.together(attempts.queue(positions))
        """The pods of each group that wait, in order."""
        self.clock = Clock()
        self._advice = _AdviceOfAlikes(scheduler, attempts.placements, attempts.gangs.info)
        order = QueueOrder(scheduler.queue_sort, self.view)
        members = frozenset(member for group in groups.values() for member in group)
        rules = QueueRules.from_configuration(scheduler.configuration, scheduler.gates, members)
        self.queue = SchedulingQueue(self._advice, rules, self.clock, order)
        self.gangs, self.waits = attempts.gangs.one_by_one(positions), PermitWaits(self.view)
        queued = bool(self.gangs) or scheduler.queue_sort is not None
        self._new = [] if queued else attempts.queue(positions)[::-1]
        """Pods that were not tried yet, the next one last: they came before all that come back."""
        self._untried = (
            {position: QueuedPod(position, self._priority(position)) for position in positions} if queued else {}
        )
        """Pods that are in the queue like all others, as they may come after these."""
        for pod in self._untried.values():
            self.queue.add(pod)
        self.tried: dict[Position, QueuedPod] = {}
        """Pods that were tried in vain: while there is none, nobody has to be asked or told anything."""
        self._unjudged: dict[int, list[QueuedPod]] = {}
        self._judged: dict[Position, Rejectors | None] = {}
        """What refused them, where it is known all the same."""
        self._of_groups: list[tuple[QueuedPod, Rejectors, int]] = []
        """Pods of groups of which not enough fit since the latest move, what refused them, and when."""
        self._moved = self._moves()

    def pop(self) -> Position | None:
        """Return the next pod to try, or None if the passing of time changes nothing any more."""
        if not self.tried and self._new:
            self.queue.cycle += 1
            return self._new.pop()
        while self._new and self._new[-1] in self.tried:  # it was tried with others of its group
            self._new.pop()
        if self._new and not self._overtaken():
            self.queue.cycle += 1
            return self._new.pop()
        while (queued := self.queue.pop()) is None:
            if not self._time_passes():
                return None
        if queued.position not in self.gangs:
            self.done(queued.position)  # what happens to it until it is judged is not asked for
        return queued.position

    def add(self, position: Position) -> None:
        """Add a pod that was created while others wait; an earlier pod in its place is forgotten."""
        self.tried.pop(position, None)
        self._judged.pop(position, None)
        pod = self._untried[position] = QueuedPod(position, self._priority(position))
        self.queue.add(pod)

    def done(self, position: Position) -> None:
        """Record that a popped pod is bound or not tried."""
        self.queue.done(position)

    def moved_by(self, position: Position) -> str:
        """Return the label of the event after which a pod is tried again; empty the first time."""
        queued = self.tried.get(position)
        return queued.moved_by if queued else ""

    def refused(self, position: Position, rejectors: Rejectors | None) -> None:
        """Record that the pod fits nowhere now; `rejectors` is None if they may be determined later."""
        if rejectors and self.gangs:  # where the order changes while pods wait, it matters when each comes back
            self.failed(position, rejectors)
            return
        pod = self.known(position)
        pod.timestamp = self.clock.now()
        self._judged[position] = rejectors
        self._unjudged.setdefault(int(self.view.pods.info[position]), []).append(pod)

    def failed(self, position: Position, rejectors: Rejectors) -> None:
        """Put back a pod that these plugins rejected in its attempt."""
        self.queue.add_unschedulable(self.known(position), rejectors)

    def left(self, position: Position) -> Occurrence:
        """Return the event that a pod which waited at Permit left its node."""
        self._put_groups_back()
        return self._advice.left(position)

    def _progress(self) -> None:
        """Wake parked pods and record the move, after a pod came to a node or left it."""
        self.waits.unpark(self.queue)
        if self.view.gang_history:
            self.view.gang_history.note_move()

    def members(self, group: AnyGroupKey) -> list[Position]:
        """Return the waiting pods of a group and take them out of the queue."""
        members = self._groups[group]
        for member in members:
            self.known(member)
            self.queue.delete(member)
        return members

    def group_refused(
        self,
        group: AnyGroupKey,
        members: Mapping[Position, Rejectors],
        victims: Sequence[Position],
        again: Sequence[Position],
    ) -> None:
        """Not enough pods of a group fit now: these wait on, with what refused each; the victims left their nodes.

        ``again``: those that are tried again at once, since others of the group came to nodes.
        """
        self._groups[group] = list(members)
        self._of_groups += [(self.known(member), by, self.clock.now()) for member, by in members.items()]
        if again:
            self._put_groups_back()
            self.queue.activate(again)
        if victims:
            self.vacated(victims)

    def before(self, positions: Iterable[Position], victims: Iterable[Position]) -> None:
        """Judge the waiting pods that these moves may concern, while the state before the moves is known."""
        if not self._unjudged:
            return
        advice = self._advice
        for occurrence in [advice.came(position) for position in positions] + [
            advice.left(victim) for victim in victims
        ]:
            self._judge(occurrence)

    def _judge(self, occurrence: Occurrence) -> None:
        """Put pods that the event may wake into the queue, with the plugins that reject them now."""
        woken = self._advice.told(self._unjudged.keys(), occurrence)
        for pod in sorted((pod for number in woken for pod in self._unjudged.pop(number)), key=_refused_at):
            rejectors = self._judged[pod.position] or self._rejectors(pod.position)
            self.queue.add_unschedulable(pod, rejectors, pod.timestamp)

    def before_loss(self, position: Position) -> None:
        """Determine what rejects the pods that yield to this one, before its nomination is lost."""
        for pod in (pod for alike in self._unjudged.values() for pod in alike):
            if pod.priority <= self._priority(position):
                self._judged[pod.position] = self._judged[pod.position] or self._rejectors(pod.position)

    def after_losses(self, positions: Iterable[Position]) -> None:
        """Move waiting pods after nominations were lost, as if the nominated pods had left their nodes."""
        self._put_groups_back()
        for occurrence in filter(None, map(self._advice.promise_lost, positions)):
            self._judge(occurrence)
            self._tell(occurrence)

    def after(self, position: Position) -> None:
        """Move waiting pods after a pod came to a node."""
        if self.gangs:
            self._progress()
        self._put_groups_back()
        if self.queue.unschedulable or self.waits.pods:
            self._tell(self._advice.came(position))

    def vacated(self, victims: Sequence[Position]) -> None:
        """Move waiting pods after pods were evicted."""
        if victims and self.gangs:
            self._progress()
        self._put_groups_back()
        for victim in victims:
            self._tell(self._advice.left(victim))

    def _put_groups_back(self) -> None:
        """Put back the pods of groups that did not fit; before anything moved, trying them again is useless."""
        for pod, rejectors, refused_at in self._of_groups:
            self.queue.add_unschedulable(pod, rejectors, refused_at)
        self._of_groups = []

    def _overtaken(self) -> bool:
        """Return whether a pod that came back has a higher priority than all pods not tried yet."""
        first = self.queue.active.peek() if len(self.queue.active) else None
        return first is not None and first.priority > self._priority(self._new[-1])

    def known(self, position: Position) -> QueuedPod:
        if position not in self.tried:
            pod = self._untried.get(position) or QueuedPod(position, self._priority(position), attempts=1)
            self.tried[position] = pod
        return self.tried[position]

    def _priority(self, position: Position) -> int:
        return int(self.view.pods.priority[self.view.pods.info[position]])

    def _tell(self, occurrence: Occurrence) -> None:
        heard = any(
            self._advice.interested(rejector, occurrence.event) for rejector in self.queue.unschedulable.rejectors()
        )
        if heard or self.waits.pods:
            self.queue.move(occurrence)

    def _moves(self) -> int:
        """How often a pod came or went, those that wait for others aside."""
        return self._attempts.moves - len(self.waits.pods)

    def _time_passes(self) -> bool:
        """Whether somebody may be tried again then, before the first has waited on its node in vain."""
        end, waited, flush = self.queue.backoff.next_completion(), self.waits.first_end(), self._next_flush()
        first = min((time for time in (end, waited, flush) if time is not None), default=None)
        if first is None or first not in (end, flush):
            return False
        self.clock.time = max(self.clock.time, first)
        if first == end:
            self.queue.flush_backoff()
        else:
            self._flush_unschedulable()
        return True

    def _next_flush(self) -> int | None:
        """Return when pods that waited for long are tried, if something moved or a gang backed off meanwhile."""
        if not (self.queue.unschedulable or self._unjudged):
            return None
        soon, history = self.clock.time + MAX_UNSCHEDULABLE_TIME, self.view.gang_history
        if self._moved != self._moves():
            return soon
        returns = history.next_return() if history else None
        return None if returns is None else max(soon, returns + 1)

    def _flush_unschedulable(self) -> None:
        self._moved = self._moves()
        if self.view.gang_history:
            self.view.gang_history.flushed()
        self.queue.flush_unschedulable()
        for pod in (pod for alike in self._unjudged.values() for pod in alike):
            pod.moved_by, pod.flushed = TIMEOUT, True
            self.queue.active.add(pod)
        self._unjudged = {}


def _refused_at(pod: QueuedPod) -> int:
    return pod.timestamp


class _AdviceOfAlikes(QueuePlugins):
    """What plugins say of pods alike, and to pods alike that come and go, is found once.

    No plugin gates a pod but while evictions for it, not for one like it, are under way: ``own`` is its own info.
    """

    def __init__(self, scheduler: Scheduler, placements: Placements, own: Callable[[Position], PodInfo]) -> None:
        super().__init__(scheduler, placements.view, placements.arriving)
        self._own = QueuePlugins(scheduler, placements.view, own)
        self._came: dict[int, Occurrence] = {}
        self._left: dict[int, Occurrence] = {}
        self._lost: dict[int, Occurrence | None] = {}
        """What happens when a pod of an info comes to a node, leaves it, or waits for it no longer."""
        self._strategies: dict[tuple[int, Rejectors, int, bool], QueueingStrategy] = {}
        self._deaf: dict[int, set[int]] = {}
        """The infos to which what happens does not matter."""
        self._listening: dict[ClusterEvent, tuple[set[int], set[int]]] = {}
        self._told: dict[int, Occurrence] = {}
        """By their ids, which no other object gets as long as they are kept here."""

    def came(self, position: Position) -> Occurrence:
        """The event that a pod like this one came to a node."""
        number = int(self._view.pods.info[position])
        if number not in self._came:
            self._came[number] = Occurrence(ADDED, ChangedObject(POD, None, self._there(position)))
        return self._came[number]

    def left(self, position: Position) -> Occurrence:
        """The event that a pod like this one left a node."""
        number = int(self._view.pods.info[position])
        if number not in self._left:
            self._left[number] = Occurrence(DELETED, ChangedObject(POD, self._there(position), None))
        return self._left[number]

    def promise_lost(self, position: Position) -> Occurrence | None:
        """The event that it waits for a node no longer; None where the scheduler does not listen."""
        number = int(self._view.pods.info[position])
        if number not in self._lost:
            pod = self._info(position).pod
            waiting = replace(pod, status=replace(pod.status, nominated_node_name=self._view.nodes.names[0]))
            occurrences = self._scheduler.event_handlers.occurrences(ChangedObject(POD, waiting, None))
            self._lost[number] = next(iter(occurrences), None)
        return self._lost[number]

    def _there(self, position: Position) -> Pod:
        pod = self._info(position).pod
        return replace(pod, spec=replace(pod.spec, node_name=pod.spec.node_name or self._view.nodes.names[0]))

    def told(self, numbers: Set[int], occurrence: Occurrence) -> list[int]:
        """The infos of which the event could put pods back into the queue, whichever plugins refused them."""
        deaf, (known, listening) = self._deaf.setdefault(self._number(occurrence), set()), self._of(occurrence.event)
        listening.update(number for number in numbers - known if not self._is_spared(number, occurrence.event))
        known.update(numbers)
        asked = numbers & listening - deaf
        hearing = [number for number in asked if self._matters(number, occurrence)]
        deaf.update(asked - set(hearing))
        return sorted(hearing)

    def _of(self, event: ClusterEvent) -> tuple[set[int], set[int]]:
        """The infos of which is known whether such events may matter to them, and those to which they may."""
        return self._listening.setdefault(event, (set(), set()))

    def _is_spared(self, number: int, event: ClusterEvent) -> bool:
        info = self._view.pods.infos[number]
        return self._scheduler.registrations(info.spec.scheduler_name).skips_all(info, event, self._view)

    def _number(self, occurrence: Occurrence) -> int:
        self._told[id(occurrence)] = occurrence
        return id(occurrence)

    def _matters(self, number: int, occurrence: Occurrence) -> bool:
        info = self._view.pods.infos[number]
        if not _reaches(occurrence, info.priority):
            return False
        asked = self._scheduler.registrations(info.spec.scheduler_name)
        return may_queue(asked, info, occurrence, self._view)

    def gating_plugin(self, pod: QueuedPod) -> str:
        return self._own.gating_plugin(pod) if self._view.preempting else ""

    def hears(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        return super().hears(pod, occurrence) if pod.gating_plugin else _reaches(occurrence, pod.priority)

    def strategy(self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False) -> QueueingStrategy:
        key = int(self._view.pods.info[pod.position]), pod.rejectors, self._number(occurrence), in_flight
        if key not in self._strategies:
            self._strategies[key] = super().strategy(pod, occurrence, in_flight)
        return self._strategies[key]


def _reaches(occurrence: Occurrence, priority: int) -> bool:
    """Whether pods of this priority are told."""
    return occurrence.up_to_priority is None or priority <= occurrence.up_to_priority
