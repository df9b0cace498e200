"""The scheduling queue: pods to be tried now, pods that back off, and pods that wait for an event.

Upstream: PriorityQueue in pkg/scheduler/backend/queue/scheduling_queue.go and active_queue.go (v1.36). A pod is in at
most one queue, and in none while it is being tried. Nominated pods are in the fork (snapshot/fork.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple, Protocol

from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration
from kschedctl.scheduler.engine.diagnosis import Rejectors
from kschedctl.scheduler.engine.queued_pod import NANOSECONDS, Clock, QueuedPod
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework.events import ClusterEvent
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.queueing.backoff_queue import USUAL_BACKOFF, Backoff, BackoffQueue
from kschedctl.scheduler.queueing.queue_order import BY_PRIORITY, QueueOrder
from kschedctl.scheduler.queueing.queue_plugins import QueueingStrategy

ACTIVE, BACKOFF, UNSCHEDULABLE = "active", "backoff", "unschedulable"
MAX_UNSCHEDULABLE_TIME = 5 * 60 * NANOSECONDS
"""Pods that waited longer than this are tried again without any event."""
SKIP, AFTER_BACKOFF, IMMEDIATELY = QueueingStrategy
STRENGTH = {SKIP: 0, AFTER_BACKOFF: 1, IMMEDIATELY: 2}
"""The strength of each strategy. If several strategies apply, the strongest counts."""
FAILURE, TIMEOUT = "ScheduleAttemptFailure", "UnschedulableTimeout"
"""Labels of moves that no event causes."""
ACTIVATION_LASTS = ByVersion(
    "a pod that is activated during its own scheduling attempt is tried again", (("", False), ("1.32", True))
)
ACTIVATE = None
"""In place of an event: the pod is tried again no matter what rejected it. Upstream: EventForceActivate."""


class QueueAdvice(Protocol):
    """The answers of the profiles' plugins to the queue's questions."""

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        """Return the name of the plugin that keeps a pod out of the active queue, or "" if no plugin does.

        The pod's current gating plugin runs first.
        """

    def is_any_rejector_registered(self, rejectors: Rejectors, event: ClusterEvent) -> bool:
        """Return whether one of the plugins that rejected a pod registered for the event in some profile."""

    def is_any_plugin_registered(self, event: ClusterEvent) -> bool:
        """Return whether any plugin of any profile registered for this kind of event."""

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        """Return whether an event concerns the pod and, if the pod is gated, its gating plugin registered for it."""

    def choose_queueing_strategy(
        self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False
    ) -> QueueingStrategy:
        """Return what to do with a pod after an event, which came while the pod was tried if `in_flight`."""


class QueueRules(NamedTuple):
    """The settings of the queue."""

    backoff: Backoff = USUAL_BACKOFF
    by_hints: bool = True
    """Feature gate SchedulerQueueingHints."""
    in_groups: Container[Position] = frozenset()
    """Pods that are tried with their pod group. They come back after their backoff without any event."""
    activation_lasts: bool = True
    """True if a pod that is activated while it is being tried is tried again."""

    @classmethod
    def from_configuration(
        cls, configuration: SchedulerConfiguration, gates: FeatureGates, in_groups: Container[Position]
    ) -> QueueRules:
        """Read the settings of the queue from a configuration and the feature gates.

        `in_groups` are the pods that are tried with their pod group.
        """
        return cls(
            Backoff.from_configuration(configuration, gates),
            by_hints=gates.enabled("SchedulerQueueingHints"),
            in_groups=in_groups,
            activation_lasts=ACTIVATION_LASTS.at(gates.release),
        )


class UnschedulablePods:
    """The pods that wait for an event, grouped by the plugins that rejected them."""

    def __init__(self) -> None:
        self._by_rejectors: dict[Rejectors, dict[Position, QueuedPod]] = {}
        self._rejectors: dict[Position, Rejectors] = {}

    def __len__(self) -> int:
        return len(self._rejectors)

    def __contains__(self, position: Position) -> bool:
        return position in self._rejectors

    def __iter__(self) -> Iterator[QueuedPod]:
        return (self._by_rejectors[rejectors][position] for position, rejectors in self._rejectors.items())

    def get(self, position: Position) -> QueuedPod | None:
        """Return the pod at a position, or None."""
        rejectors = self._rejectors.get(position)
        return None if rejectors is None else self._by_rejectors[rejectors][position]

    def list_rejectors(self) -> list[Rejectors]:
        """Return the distinct sets of plugins that rejected some pod."""
        return list(self._by_rejectors)

    def find_rejected_by(self, rejectors: Rejectors) -> list[QueuedPod]:
        """Return the pods that exactly these plugins rejected."""
        return list(self._by_rejectors.get(rejectors, {}).values())

    def add(self, pod: QueuedPod) -> None:
        """Add a pod under the plugins that rejected it."""
        self._rejectors[pod.position] = pod.rejectors
        self._by_rejectors.setdefault(pod.rejectors, {})[pod.position] = pod

    def delete(self, position: Position) -> QueuedPod | None:
        """Remove and return the pod at a position, or return None if it is not among the unschedulable pods."""
        rejectors = self._rejectors.pop(position, None)
        if rejectors is None:
            return None
        pods = self._by_rejectors[rejectors]
        queued = pods.pop(position)
        if not pods:
            del self._by_rejectors[rejectors]
        return queued


class _InFlightEvent(NamedTuple):
    """An event that came while pods were being tried."""

    occurrence: Occurrence | None
    """The event, or ACTIVATE."""
    concerned_pod: Position | None = None
    """The only pod that the event concerns; None if it may concern all pods."""


class SchedulingQueue:
    """The queue of pods, which are identified by their positions."""

    def __init__(self, plugins: QueueAdvice, rules: QueueRules, clock: Clock, order: QueueOrder = BY_PRIORITY) -> None:
        self.plugins, self.rules, self.clock = plugins, rules, clock
        self.active = order.build_heap(order.get_sort_key)
        self.backoff = BackoffQueue(clock, rules.backoff, order)
        self.unschedulable = UnschedulablePods()
        self.cycle = 0
        """The number of pods that were popped."""
        self._latest_move_cycle = -1
        self._in_flight: dict[Position, int] = {}
        """The pods that are being tried, and how many of ``_in_flight_events`` had happened before."""
        self._in_flight_events: list[_InFlightEvent] = []

    # -- where pods are ------------------------------------------------------------------------------------------

    def get(self, position: Position) -> QueuedPod | None:
        """Return the waiting pod at a position, or None."""
        return self.active.get(position) or self.backoff.get(position) or self.unschedulable.get(position)

    def __iter__(self) -> Iterator[tuple[QueuedPod, str]]:
        """Yield all waiting pods, each with the name of its queue."""
        yield from ((pod, ACTIVE) for pod in self.active)
        yield from ((pod, BACKOFF) for pod in self.backoff)
        yield from ((pod, UNSCHEDULABLE) for pod in self.unschedulable)

    # -- pods come, are tried, and come back ---------------------------------------------------------------------

    def add(self, pod: QueuedPod) -> None:
        """Add a new pod."""
        pod.timestamp = self.clock.now()
        self._activate(pod)

    def pop(self) -> QueuedPod | None:
        """Remove and return the next pod to try, and start its attempt. Return None if no pod is ready.

        If the active queue is empty, some versions of kube-scheduler pop a pod that is still backing off.
        """
        queued = self.active.pop()
        if queued is None and self.rules.backoff.pops_early:
            queued = self.backoff.pop()
        if queued is not None:
            self._start_attempt(queued)
        return queued

    def pop_specific(self, position: Position) -> QueuedPod | None:
        """Remove and return a pod in order to try it together with another pod.

        A pod that backs off or waits for an event is activated first. Return None if the pod is gated or in no queue.
        """
        self._activate_waiting_pod(position)
        queued = self.active.delete(position)
        if queued is not None:
            self._start_attempt(queued)
        return queued

    def done(self, position: Position) -> None:
        """Record that a pod is no longer being tried.

        Once no pod is being tried, the events that arrived meanwhile are forgotten.
        """
        self._in_flight.pop(position, None)
        if not self._in_flight:
            self._in_flight_events = []

    def add_unschedulable_pod(self, pod: QueuedPod, rejectors: Rejectors, time: int | None = None) -> None:
        """Put back a pod that these plugins rejected, now or at an earlier `time`.

        If there are no rejectors, the attempt ended with an error. Events that came during the attempt decide whether
        the pod waits, backs off or becomes active. Upstream: AddUnschedulableIfNotPresent.
        """
        pod.rejectors = rejectors
        if rejectors.all:
            pod.unschedulable_count += 1
            pod.consecutive_errors = 0
        else:
            pod.consecutive_errors += 1
        pod.timestamp = self.clock.now() if time is None else time
        pod.backoff_expiration = None
        pod.flushed = False

        # Without hints, the pod backs off after an error, or if any event moved pods while it was tried.
        has_any_event_moved_pods = self._latest_move_cycle >= self.cycle
        if self.rules.by_hints:
            self._requeue(pod, self._find_strategy_after_in_flight_events(pod))
        elif has_any_event_moved_pods or not rejectors.all:
            self._back_off(pod)
        else:
            self.unschedulable.add(pod)
        self.done(pod.position)

    def delete(self, position: Position) -> QueuedPod | None:
        """Remove and return a pod that is gone, bound or kept out of the queue for a while.

        Return None if the pod is in no queue.
        """
        return self.active.delete(position) or self.backoff.delete(position) or self.unschedulable.delete(position)

    def restore(self, pod: QueuedPod) -> None:
        """Put back a pod that was kept out of the queue. The pod waits for an event or, after an error, backs off."""
        self._requeue(pod, SKIP if pod.rejectors.all else AFTER_BACKOFF)

    # -- what happens --------------------------------------------------------------------------------------------

    def update(self, position: Position, occurrence: Occurrence) -> None:
        """Requeue a pod after an update of its object, if the update may help the pod.

        If the pod is being tried, the update is considered when the pod comes back.
        """
        pod = self.unschedulable.get(position)
        if pod is not None:
            self._requeue(pod, self._find_strategy(pod, occurrence), occurrence.event.label)
        elif position in self._in_flight:
            self._in_flight_events.append(_InFlightEvent(occurrence, concerned_pod=position))

    def move(self, occurrence: Occurrence, excluded: Position | None = None) -> None:
        """Move the pods that an event may make schedulable. Upstream: MoveAllToActiveOrBackoffQueue.

        The `excluded` pod stays where it is, because the event is about it. An event for which no plugin registered
        moves no pods. For pods that are being tried, the event is considered when they come back.
        """
        if not self.plugins.is_any_plugin_registered(occurrence.event):
            return
        for rejectors in self.unschedulable.list_rejectors():
            if not self.plugins.is_any_rejector_registered(rejectors, occurrence.event):
                continue
            for pod in self.unschedulable.find_rejected_by(rejectors):
                if pod.position != excluded and self.plugins.is_concerned(pod, occurrence):
                    self._requeue(pod, self._find_strategy(pod, occurrence), occurrence.event.label)
        self._latest_move_cycle = self.cycle
        if self._in_flight:
            self._in_flight_events.append(_InFlightEvent(occurrence))

    def activate(self, positions: Iterable[Position]) -> None:
        """Move pods to the active queue, regardless of the plugins that rejected them.

        If a pod is being tried at the moment, some versions try it once more afterwards.
        """
        for position in positions:
            is_activated = self._activate_waiting_pod(position)
            if is_activated or not self.rules.activation_lasts:
                continue
            if position in self._in_flight:
                self._in_flight_events.append(_InFlightEvent(ACTIVATE, concerned_pod=position))
            self._latest_move_cycle = self.cycle  # read only by queues without hints

    def flush_backoff(self) -> None:
        """Move pods whose backoff is over to the active queue."""
        for pod in self.backoff.pop_pods_after_backoff():
            self._activate_after_backoff(pod)

    def flush_unschedulable_pods(self) -> None:
        """Requeue the pods that waited longer than MAX_UNSCHEDULABLE_TIME.

        Gated pods stay, since gating plugins only react to events.
        """
        now = self.clock.now()
        for pod in list(self.unschedulable):
            if not pod.gated and now - pod.timestamp > MAX_UNSCHEDULABLE_TIME:
                pod.flushed = True
                self._requeue(pod, AFTER_BACKOFF, TIMEOUT)

    # -- moving one pod ------------------------------------------------------------------------------------------

    def _start_attempt(self, pod: QueuedPod) -> None:
        """Record that a popped pod is being tried, and count the attempt and the scheduling cycle."""
        pod.attempts += 1
        self._in_flight[pod.position] = len(self._in_flight_events)  # the number of events before the attempt
        self.cycle += 1

    def _activate_waiting_pod(self, position: Position) -> bool:
        """Activate a pod that backs off or waits for an event, and return whether it is now active.

        Return False if the pod is gated or in neither of these queues.
        """
        pod = self.backoff.delete(position)
        if pod is not None:
            return self._activate_after_backoff(pod)
        pod = self.unschedulable.get(position)
        return pod is not None and self._activate(pod)

    def _find_strategy_after_in_flight_events(self, pod: QueuedPod) -> QueueingStrategy:
        """Return how to requeue a rejected pod, considering the events that arrived during its attempt.

        The event with the strongest strategy decides. Without any events, the pod is not requeued. A pod that failed
        with an error, or that belongs to a group, is always requeued after its backoff.
        """
        if not pod.rejectors.all or pod.position in self.rules.in_groups:
            return AFTER_BACKOFF
        if pod.position not in self._in_flight:
            return SKIP
        events_before_attempt = self._in_flight[pod.position]
        strongest = SKIP
        for event in self._in_flight_events[events_before_attempt:]:
            if event.concerned_pod in (None, pod.position):
                strategy = self._find_strategy(pod, event.occurrence, in_flight=True)
                strongest = max(strongest, strategy, key=STRENGTH.__getitem__)
        return strongest

    def _find_strategy(
        self, pod: QueuedPod, occurrence: Occurrence | None, *, in_flight: bool = False
    ) -> QueueingStrategy:
        """Return what to do with a pod after an event or, for ACTIVATE, after its activation.

        Upstream: isPodWorthRequeuing.
        """
        if occurrence is ACTIVATE or not pod.rejectors.all:
            return AFTER_BACKOFF
        return self.plugins.choose_queueing_strategy(pod, occurrence, in_flight)

    def _requeue(self, pod: QueuedPod, strategy: QueueingStrategy, label: str = FAILURE) -> None:
        """Put the pod into the queue that the strategy demands, and record the label of the event.

        With SKIP, the pod waits among the unschedulable pods, and no label is recorded. A pod whose backoff is over
        goes to the active queue.
        """
        if strategy is SKIP:
            self.unschedulable.add(pod)
            return
        pod.moved_by = label
        if strategy is AFTER_BACKOFF and self.backoff.is_backing_off(pod):
            self._back_off(pod)
        else:
            self._activate(pod)

    def _activate(self, pod: QueuedPod, *, checked: bool = False) -> bool:
        """Put the pod into the active queue unless a plugin gates it, and return whether it is there now.

        Set `checked` if the gating plugins have already allowed the pod. The time of its first entry becomes
        `initial_attempt`.
        """
        if not checked and self._park_if_gated(pod):
            return False
        self.unschedulable.delete(pod.position)
        pod.initial_attempt = pod.initial_attempt or self.clock.now()
        self.active.add(pod)
        return True

    def _activate_after_backoff(self, pod: QueuedPod) -> bool:
        """Put a pod that was in the backoff queue into the active queue unless a plugin gates it.

        Return whether the pod is now active. If pods may be popped from the backoff queue, `_back_off` has already run
        the gating plugins.
        """
        return self._activate(pod, checked=self.rules.backoff.pops_early)

    def _back_off(self, pod: QueuedPod) -> None:
        """Put the pod into the backoff queue unless a plugin gates it.

        The gates are checked only if pods may be popped from that queue.
        """
        if not self.rules.backoff.pops_early or not self._park_if_gated(pod):
            self.unschedulable.delete(pod.position)
            self.backoff.add(pod)

    def _park_if_gated(self, pod: QueuedPod) -> bool:
        """Run the PreEnqueue plugins for the pod, and return whether one of them gates it.

        A gated pod is moved to the unschedulable pods, where it waits for an event of the gating plugin. That plugin
        counts as one of its rejectors.
        """
        pod.gating_plugin = self.plugins.find_gating_plugin(pod)
        if not pod.gating_plugin:
            return False
        self.unschedulable.delete(pod.position)
        rejecting = pod.rejectors.unschedulable | {pod.gating_plugin}
        pod.rejectors = pod.rejectors._replace(unschedulable=rejecting)
        self.unschedulable.add(pod)
        return True
