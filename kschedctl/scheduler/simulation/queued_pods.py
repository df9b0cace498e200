"""The pods of a simulation in the scheduling queue: the pod that is tried next, and the pods that an event wakes.

Placing or evicting a pod is an event for the plugins that rejected other pods. When no pod is ready, time passes:
backoffs end, and after five minutes all pods are tried again, as long as something moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.diagnosis import Rejectors
from kschedctl.scheduler.engine.queued_pod import Clock, QueuedPod
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework.events import ASSIGNED_POD, POD, ActionType, ChangedObject, ClusterEvent
from kschedctl.scheduler.queueing.queue_order import QueueOrder
from kschedctl.scheduler.queueing.queue_plugins import QueueingStrategy, QueuePlugins, may_requeue
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
    """The scheduling queue of a simulation. A pod leaves it once it is placed or cannot be placed.

    If a pod fits nowhere, the plugins that reject it are determined only when an event comes that may matter to the
    pod.
    """

    def __init__(self, attempts: Attempts, positions: Sequence[Position]) -> None:
        self.view, self._attempts, scheduler = attempts.view, attempts, attempts.scheduler
        self._find_rejectors = attempts.failures.find_rejectors
        self._group_members = groups = attempts.gangs.group_pods_for_queue(attempts.sort_for_queue(positions))
        """The pods of each group that wait, in order."""
        self.clock = Clock()
        self._advice = _SharedQueuePlugins(scheduler, attempts.placements, attempts.gangs.build_own_info)
        order = QueueOrder(scheduler.queue_sort, self.view)
        members = frozenset(member for group in groups.values() for member in group)
        rules = QueueRules.from_configuration(scheduler.configuration, scheduler.gates, members)
        self.scheduling_queue = SchedulingQueue(self._advice, rules, self.clock, order)
        self.gangs = attempts.gangs.find_gang_pods(positions)
        self.waits = PermitWaits(self.view)
        queued = bool(self.gangs) or scheduler.queue_sort is not None
        self._new = [] if queued else attempts.sort_for_queue(positions)[::-1]
        """Pods that were not tried yet, the next one last. They were created before all pods that come back."""
        self._untried = (
            {position: QueuedPod(position, self.view.pods.get_priority(position)) for position in positions}
            if queued
            else {}
        )
        """Untried pods that are in the scheduling queue like all others, because retried pods may precede them."""
        for pod in self._untried.values():
            self.scheduling_queue.add(pod)
        self.tried: dict[Position, QueuedPod] = {}
        """Pods that were tried in vain. Until there are some, no event needs to be handled."""
        self._unwoken: dict[int, list[QueuedPod]] = {}
        """The rejected pods that no relevant event has reached yet, by the number of their PodInfo."""
        self._unwoken_additions = 0
        """The number of times that a PodInfo was added to `_unwoken`."""
        self._rejectors_by_position: dict[Position, Rejectors | None] = {}
        """The rejectors of each pod in `_unwoken`, or None if they were not determined yet."""
        self._rejected_members: list[tuple[QueuedPod, Rejectors, int]] = []
        """Group members that did not fit since the latest move, with their rejectors and the time of the rejection."""
        self._moves_at_flush = self._count_moves()

    def pop(self) -> Position | None:
        """Remove and return the next pod to try, letting time pass until one is ready.

        Pods that were not tried yet come in their order, unless a retry of higher priority is ready. Return None if no
        pod would ever become ready.
        """
        # Without retries, the untried pods come in their order.
        if not self.tried and self._new:
            return self._pop_untried()

        # With retries, an untried pod comes unless it was tried with its group already or a retry precedes it.
        while self._new and self._new[-1] in self.tried:
            self._new.pop()
        if self._new and not self._has_retry_of_higher_priority():
            return self._pop_untried()

        # Otherwise the scheduling queue decides.
        while (queued := self.scheduling_queue.pop()) is None:
            if not self._advance_time():
                return None
        if queued.position not in self.gangs:
            self.done(queued.position)  # its rejectors are determined later, so events until then do not count
        return queued.position

    def _pop_untried(self) -> Position:
        """Remove and return the next pod that was not tried yet, which starts a cycle of the scheduling queue."""
        self.scheduling_queue.cycle += 1
        return self._new.pop()

    @property
    def untried_count(self) -> int:
        """The number of pods that were not tried yet, or 0 if retried pods may precede some of them."""
        return len(self._new)

    @property
    def untried(self) -> frozenset[Position]:
        """The pods that `untried_count` counts."""
        return frozenset(self._new)

    def add(self, position: Position) -> None:
        """Add a pod that is created while other pods are waiting.

        The new pod replaces any earlier pod at its position.
        """
        self.tried.pop(position, None)
        self._rejectors_by_position.pop(position, None)
        pod = self._untried[position] = QueuedPod(position, self.view.pods.get_priority(position))
        self.scheduling_queue.add(pod)

    def done(self, position: Position) -> None:
        """Record that a popped pod is no longer in flight, because it was bound or will not be tried."""
        self.scheduling_queue.done(position)

    def find_retry_label(self, position: Position) -> str:
        """Return the label of the event after which a pod is tried again, or "" for the first attempt."""
        queued = self.tried.get(position)
        return queued.moved_by if queued else ""

    def record_rejection(self, position: Position, rejectors: Rejectors | None) -> None:
        """Record that the pod fits nowhere now, because `rejectors` reject it.

        If `rejectors` is None, the plugins are determined when an event needs them. If there are gangs, a pod with
        known rejectors returns to the scheduling queue at once, since its place in the queue matters then.
        """
        if rejectors and self.gangs:
            self.put_back(position, rejectors)
            return
        pod = self.record_as_tried(position)
        pod.timestamp = self.clock.now()
        self._rejectors_by_position[position] = rejectors
        number = self.view.pods.get_info_number(position)
        if number not in self._unwoken:
            self._unwoken[number] = []
            self._unwoken_additions += 1
        self._unwoken[number].append(pod)

    def put_back(self, position: Position, rejectors: Rejectors) -> None:
        """Put a tried pod back into the scheduling queue as unschedulable, rejected by these plugins."""
        self.scheduling_queue.add_unschedulable_pod(self.record_as_tried(position), rejectors)

    def build_departure_event(self, position: Position) -> Occurrence:
        """Build the event that a pod that waited at Permit left its node.

        Group members that did not fit are put back first, so that the event reaches them.
        """
        self._put_groups_back()
        return self._advice.build_departure_event(position)

    def _record_move(self) -> None:
        """Record that a pod joined a node or left it, and wake parked pods."""
        self.waits.unpark(self.scheduling_queue)
        if self.view.gang_history:
            self.view.gang_history.record_move()

    def take_group_members(self, group: AnyGroupKey) -> list[Position]:
        """Take the waiting pods of a group out of the queue, record them as tried, and return them."""
        members = self._group_members[group]
        for member in members:
            self.record_as_tried(member)
            self.scheduling_queue.delete(member)
        return members

    def record_group_rejection(
        self,
        group: AnyGroupKey,
        members: Mapping[Position, Rejectors],
        victims: Sequence[Position],
        retried_at_once: Sequence[Position],
    ) -> None:
        """Record that too few pods of a group fit now.

        `members` are the pods that keep waiting, each with the plugins that rejected it. The `victims` have left their
        nodes, which wakes waiting pods. The pods in `retried_at_once` go directly to the active queue, because other
        members of the group were placed.
        """
        self._group_members[group] = list(members)
        self._rejected_members += [
            (self.record_as_tried(member), rejectors, self.clock.now()) for member, rejectors in members.items()
        ]
        if retried_at_once:
            # The pods must be in the scheduling queue before they can be activated. Without pods to retry, they are put
            # back once a pod moves, since only then can an event wake them.
            self._put_groups_back()
            self.scheduling_queue.activate(retried_at_once)
        if victims:
            self.wake_after_evictions(victims)

    def determine_rejectors_before_moves(self, arriving: Iterable[Position], leaving: Iterable[Position]) -> None:
        """Determine which plugins reject the waiting pods that upcoming moves may wake.

        After the pods in `arriving` and `leaving` have moved, the plugins might answer differently. The woken pods are
        put into the scheduling queue.
        """
        if not self._unwoken:
            return
        occurrences = [self._advice.build_arrival_event(position) for position in arriving]
        occurrences += [self._advice.build_departure_event(position) for position in leaving]
        for occurrence in occurrences:
            self._queue_woken_pods(occurrence)

    def _queue_woken_pods(self, occurrence: Occurrence) -> None:
        """Add the waiting pods that an event may wake to the queue's unschedulable pods, those that failed first first.

        Each comes with the plugins that reject it, as recorded or as of now. Pods that an earlier event put there are
        skipped.
        """
        woken_pods: list[QueuedPod] = []
        woken_infos = self._advice.find_woken_infos(self._unwoken.keys(), self._unwoken_additions, occurrence)
        for info_number in woken_infos:
            woken_pods += self._unwoken.pop(info_number)
        for pod in sorted(woken_pods, key=_get_timestamp):
            rejectors = self._rejectors_by_position[pod.position] or self._find_rejectors(pod.position)
            self.scheduling_queue.add_unschedulable_pod(pod, rejectors, pod.timestamp)

    def determine_rejectors_before_nomination_loss(self, position: Position) -> None:
        """Determine the unknown rejectors of all pods with at most this pod's priority.

        This must be called before the pod loses its nomination. The nomination takes up room only for pods of at most
        its priority, so their rejectors may change afterwards.
        """
        priority = self.view.pods.get_priority(position)
        for pod in chain.from_iterable(self._unwoken.values()):
            if pod.priority <= priority and not self._rejectors_by_position[pod.position]:
                self._rejectors_by_position[pod.position] = self._find_rejectors(pod.position)

    def wake_after_nomination_losses(self, positions: Iterable[Position]) -> None:
        """Wake waiting pods after nominations were lost, as if the nominated pods had left their nodes.

        Group members that did not fit go back into the scheduling queue first.
        """
        self._put_groups_back()
        for position in positions:
            occurrence = self._advice.find_nomination_loss_event(position)
            if occurrence is not None:
                self._queue_woken_pods(occurrence)
                self._deliver_event(occurrence)

    def wake_after_placement(self, position: Position) -> None:
        """Wake waiting pods after a pod was placed on a node.

        Group members that did not fit go back into the scheduling queue first. If there are gangs, parked pods go back
        as well.
        """
        if self.gangs:
            self._record_move()
        self._put_groups_back()
        if self.scheduling_queue.unschedulable or self.waits.pods:
            self._deliver_event(self._advice.build_arrival_event(position))

    def wake_after_evictions(self, victims: Sequence[Position]) -> None:
        """Wake waiting pods after the victims were evicted.

        Group members that did not fit go back into the scheduling queue first. If there are gangs, parked pods go back
        as well, unless there are no victims.
        """
        if victims and self.gangs:
            self._record_move()
        self._put_groups_back()
        for victim in victims:
            self._deliver_event(self._advice.build_departure_event(victim))

    def _put_groups_back(self) -> None:
        """Put the group members that did not fit back into the scheduling queue, because a pod has moved."""
        for pod, rejectors, rejected_at in self._rejected_members:
            self.scheduling_queue.add_unschedulable_pod(pod, rejectors, rejected_at)
        self._rejected_members = []

    def _has_retry_of_higher_priority(self) -> bool:
        """Return whether a pod that came back is ready and has a higher priority than the next untried pod."""
        first = self.scheduling_queue.active.peek() if len(self.scheduling_queue.active) else None
        return first is not None and first.priority > self.view.pods.get_priority(self._new[-1])

    def record_as_tried(self, position: Position) -> QueuedPod:
        """Record that a pod has been tried, and return its queue entry, which is created if needed."""
        if position not in self.tried:
            pod = self._untried.get(position) or QueuedPod(position, self.view.pods.get_priority(position), attempts=1)
            self.tried[position] = pod
        return self.tried[position]

    def _deliver_event(self, occurrence: Occurrence) -> None:
        """Move waiting pods in the scheduling queue after an event.

        Do nothing unless a plugin that rejected a pod registered for the event or a pod waits at Permit.
        """
        is_interesting = any(
            self._advice.is_any_rejector_registered(rejector, occurrence.event)
            for rejector in self.scheduling_queue.unschedulable.list_rejectors()
        )
        # A pod that waits at Permit considers the event if it comes back.
        if is_interesting or self.waits.pods:
            self.scheduling_queue.move(occurrence)

    def _count_moves(self) -> int:
        """Return how often a pod was placed or left its node, not counting pods that wait at Permit."""
        return self._attempts.move_count - len(self.waits.pods)

    def _advance_time(self) -> bool:
        """Advance the clock to the next end of a backoff or flush, and put pods back into the active queue.

        If nothing is due, or if a pod that waits at Permit times out first, leave the clock unchanged and return False.
        """
        backoff_end = self.scheduling_queue.backoff.find_next_completion()
        permit_timeout = self.waits.find_first_timeout()
        flush = self._find_next_flush()
        due_times = [time for time in (backoff_end, permit_timeout, flush) if time is not None]
        first = min(due_times, default=None)
        # At the same time, a backoff comes before a flush, and both come before a Permit timeout.
        is_permit_timeout_first = first not in (backoff_end, flush)
        if first is None or is_permit_timeout_first:
            return False

        self.clock.time = max(self.clock.time, first)
        if first == backoff_end:
            self.scheduling_queue.flush_backoff()
        else:
            self._flush_unschedulable_pods()
        return True

    def _find_next_flush(self) -> int | None:
        """Return the time of the next flush of unschedulable pods, or None if a flush would change nothing.

        A flush changes nothing if no pod waits, or if nothing has moved since the last flush and no gang's backoff
        ends.
        """
        is_any_pod_waiting = bool(self.scheduling_queue.unschedulable or self._unwoken)
        if not is_any_pod_waiting:
            return None
        # The clock stands still while pods are tried, so it still shows when the waiting pods were rejected
        flush_time = self.clock.time + MAX_UNSCHEDULABLE_TIME
        has_moved = self._moves_at_flush != self._count_moves()
        if has_moved:
            return flush_time
        # Without a move since the last flush, only the end of a gang's backoff can change an answer.
        history = self.view.gang_history
        backoff_end = history.find_next_return() if history else None
        if backoff_end is None:
            return None
        first_second_after_backoff = backoff_end + 1  # a backoff lasts through the second of its end
        return max(flush_time, first_second_after_backoff)

    def _flush_unschedulable_pods(self) -> None:
        """Put all pods that waited for MAX_UNSCHEDULABLE_TIME back into the active queue.

        Pods whose rejectors are not determined yet return as well.
        """
        self._moves_at_flush = self._count_moves()
        if self.view.gang_history:
            self.view.gang_history.forget_ended_backoffs()
        self.scheduling_queue.flush_unschedulable_pods()
        for pod in chain.from_iterable(self._unwoken.values()):
            pod.moved_by, pod.flushed = TIMEOUT, True
            self.scheduling_queue.active.add(pod)
        self._unwoken = {}


def _get_timestamp(pod: QueuedPod) -> int:
    """Return when the pod last entered the queue."""
    return pod.timestamp


@dataclass
class _Listeners:
    """The PodInfos, by number, to which one kind of event may matter."""

    checked: set[int] = field(default_factory=set)
    """The PodInfos that were checked."""
    affected: set[int] = field(default_factory=set)
    """The checked PodInfos to which such events may matter."""


class _SharedQueuePlugins(QueuePlugins):
    """Queue plugins whose answers are shared by identical pods and by events of identical pods.

    Gates are checked with an unshared PodInfo of the pod, which `own` returns. A pod is gated only while its evictions
    are under way.
    """

    def __init__(self, scheduler: Scheduler, placements: Placements, own: Callable[[Position], PodInfo]) -> None:
        super().__init__(scheduler, placements.view, placements.build_arriving_info)
        self._unshared = QueuePlugins(scheduler, placements.view, own)
        self._arrivals: dict[int, Occurrence] = {}
        """The event that a pod of this PodInfo was placed on a node."""
        self._departures: dict[int, Occurrence] = {}
        """The event that a pod of this PodInfo left a node."""
        self._nomination_losses: dict[int, Occurrence | None] = {}
        """The event that a pod of this PodInfo lost its nomination."""
        self._strategies: dict[tuple[int, Rejectors, int, bool], QueueingStrategy] = {}
        self._unaffected: dict[int, set[int]] = {}
        """By the id of an event, the numbers of the PodInfos to which it does not matter."""
        self._additions_at_event: dict[int, int] = {}
        """Id of an event -> the `additions` at the last call for this event."""
        self._listeners: dict[ClusterEvent, _Listeners] = {}
        """The PodInfos to which such events may matter, by event."""
        self._seen_events: dict[int, Occurrence] = {}
        """Events by their ids. Keeping the events alive keeps their ids unique."""

    def build_arrival_event(self, position: Position) -> Occurrence:
        """Return the event that a pod like this one was placed on a node. Identical pods share the event."""
        number = self._view.pods.get_info_number(position)
        if number not in self._arrivals:
            self._arrivals[number] = Occurrence(
                ADDED, ChangedObject(POD, old=None, new=self._build_placed_pod(position))
            )
        return self._arrivals[number]

    def build_departure_event(self, position: Position) -> Occurrence:
        """Return the event that a pod like this one was deleted from a node. Identical pods share the event."""
        number = self._view.pods.get_info_number(position)
        if number not in self._departures:
            self._departures[number] = Occurrence(
                DELETED, ChangedObject(POD, self._build_placed_pod(position), new=None)
            )
        return self._departures[number]

    def find_nomination_loss_event(self, position: Position) -> Occurrence | None:
        """Return the event that a pod like this one lost its nomination, or None if the scheduler ignores this event.

        Identical pods share the event. The event does not depend on the node, so it names the first node.
        """
        number = self._view.pods.get_info_number(position)
        if number not in self._nomination_losses:
            pod = self._get_info(position).pod
            waiting = replace(pod, status=replace(pod.status, nominated_node_name=self._view.nodes.names[0]))
            occurrences = self._scheduler.event_handlers.list_occurrences(ChangedObject(POD, waiting, new=None))
            self._nomination_losses[number] = next(iter(occurrences), None)
        return self._nomination_losses[number]

    def _build_placed_pod(self, position: Position) -> Pod:
        """Build the pod with a node name. A pod without a node gets the first node.

        No plugin depends on which node it is.
        """
        pod = self._get_info(position).pod
        return replace(pod, spec=replace(pod.spec, node_name=pod.spec.node_name or self._view.nodes.names[0]))

    def find_woken_infos(self, info_numbers: Set[int], additions: int, occurrence: Occurrence) -> list[int]:
        """Return the numbers of the PodInfos whose pods the event may put back into the queue, in ascending order.

        A PodInfo is returned if any plugin would requeue its pods, no matter which plugins rejected them. The caller
        removes the returned numbers from `info_numbers`. `additions` counts all numbers that the caller has added so
        far. If the count is unchanged, the same event can wake nothing new.
        """
        # The last call for this very event returned all woken numbers, so only numbers added since can be woken.
        event_id = self._get_event_id(occurrence)
        if self._additions_at_event.get(event_id) == additions:
            return []
        self._additions_at_event[event_id] = additions

        listening = info_numbers & self._check_and_find_affected_infos(info_numbers, occurrence.event)
        unaffected = self._unaffected.setdefault(event_id, set())
        unchecked = listening - unaffected
        woken = {number for number in unchecked if self._may_wake(number, occurrence)}
        unaffected |= unchecked - woken
        return sorted(woken)

    def _check_and_find_affected_infos(self, info_numbers: Set[int], event: ClusterEvent) -> Set[int]:
        """Return the numbers of all PodInfos that events of this kind may affect, from this and earlier calls.

        Numbers in `info_numbers` that no earlier call checked for this kind of event are checked now. A PodInfo is
        affected unless the queueing hints of all plugins skip it.
        """
        listeners = self._listeners.setdefault(event, _Listeners())
        for number in info_numbers - listeners.checked:
            if not self._do_all_hints_skip(number, event):
                listeners.affected.add(number)
        listeners.checked.update(info_numbers)
        return listeners.affected

    def _do_all_hints_skip(self, number: int, event: ClusterEvent) -> bool:
        """Return whether the queueing hints of all plugins skip pods of this PodInfo after events of this kind."""
        info = self._view.pods.infos[number]
        return self._scheduler.get_registrations(info.spec.scheduler_name).do_all_hints_skip(info, event, self._view)

    def _get_event_id(self, occurrence: Occurrence) -> int:
        """Return the id of the event object, and keep the object alive so that its id remains unique."""
        self._seen_events[id(occurrence)] = occurrence
        return id(occurrence)

    def _may_wake(self, number: int, occurrence: Occurrence) -> bool:
        """Return whether the event may put the pods of this PodInfo, given by its number, back into the queue.

        The event may not if it reaches only pods of a lower priority. Otherwise, it may if some plugin registered for
        the event and its queueing hint, if it has one, may queue the pods.
        """
        info = self._view.pods.infos[number]
        if not _reaches_priority(occurrence, info.priority):
            return False
        registrations = self._scheduler.get_registrations(info.spec.scheduler_name)
        return may_requeue(registrations, info, occurrence, self._view)

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        """Return the name of the plugin that gates the pod, or "" if the pod is not gated.

        Pods are gated only while victims are being evicted.
        """
        return self._unshared.find_gating_plugin(pod) if self._view.preempting else ""

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        """Return whether an event concerns the pod. If the pod is not gated, only its priority is checked here."""
        if pod.gating_plugin:
            return super().is_concerned(pod, occurrence)
        return _reaches_priority(occurrence, pod.priority)

    def choose_queueing_strategy(
        self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False
    ) -> QueueingStrategy:
        """Return what to do with the pod after an event, from a cache for identical pods.

        With `in_flight`, the event came while the pod was being tried.
        """
        number = self._view.pods.get_info_number(pod.position)
        key = (number, pod.rejectors, self._get_event_id(occurrence), in_flight)
        if key not in self._strategies:
            self._strategies[key] = super().choose_queueing_strategy(pod, occurrence, in_flight)
        return self._strategies[key]


def _reaches_priority(occurrence: Occurrence, priority: int) -> bool:
    """Return whether the event is delivered to pods of this priority."""
    return occurrence.up_to_priority is None or priority <= occurrence.up_to_priority
