"""The scheduler at work: a pod is tried, and comes to a node, waits there for others, or is put back.

Upstream: schedulingCycle, bindingCycle, handleBindingCycleError and handleSchedulingFailure in
pkg/scheduler/schedule_one.go (v1.36). One pod is tried after the other, and what a cycle sets going is done when it is
over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import GangPlugin, find_gang_plugin
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS, Rejectors
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, PodsOnNodes
from kschedctl.scheduler.queueing.scheduling_queue import SchedulingQueue
from kschedctl.scheduler.queueing.waiting_pods import PermitWait, PermitWaits
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.pod_info import PodInfo


class Failed(NamedTuple):
    """Why a pod was not bound; empty, and None, where that is not looked for before somebody has to know.

    ``nominated``: the node that it is promised, NO_ROW when it is promised none any more; None: as before.
    """

    code: Code
    message: str = ""
    rejectors: Rejectors | None = NO_REJECTORS
    nominated: Row | None = NO_ROW


class Hope(NamedTuple):
    """What comes of a pod that fits nowhere: it is put back as ``failure`` says, and ``victims`` make room for it.

    ``asked``: the PostFilter plugins that were. ``later``: the victims go while others are tried.
    """

    failure: Failed
    victims: Sequence[Position] = ()
    asked: Container[str] = ()
    later: bool = False

    @property
    def row(self) -> Row:
        """The node on which room is made, NO_ROW for none."""
        return NO_ROW if self.failure.nominated is None else self.failure.nominated


class NodeFinder(Protocol):
    """Finds nodes for pods: by full cycles, or from answers that are kept."""

    def info(self, position: Position) -> PodInfo:
        """What scheduling reads of the very pod, as it is now."""

    def find(self, position: Position, framework: Framework) -> Choice | None:
        """The node for a pod; None when it fits nowhere. Raises PluginError."""

    def hope(self, position: Position, framework: Framework) -> Hope:
        """What could be done for a pod for which no node was found just now. Raises PluginError."""


class SchedulingLoop(ABC):
    """One run over pods that wait for a node. ``search`` finds nodes; whoever derives decides when others hear of what
    happens, and how time passes.
    """

    def __init__(self, pods: PodsOnNodes, queue: SchedulingQueue, search: NodeFinder, waiting: PermitWaits) -> None:
        self.pods, self.view, self.queue, self.search, self.waiting = pods, pods.view, queue, search, waiting

    # -- what the ways of time do ---------------------------------------------------------------------------------

    @abstractmethod
    def queued(self, position: Position) -> QueuedPod:
        """What the queue knows of a pod that is being tried."""

    @abstractmethod
    def before(self, coming: Sequence[Position], leaving: Sequence[Position]) -> None:
        """Pods will come to nodes, and others leave theirs."""

    @abstractmethod
    def bound(self, position: Position, choice: Choice) -> None:
        """A pod is on its node for good."""

    @abstractmethod
    def put_back(self, position: Position, failure: Failed) -> None:
        """A pod that was refused waits on; upstream's handleSchedulingFailure."""

    @abstractmethod
    def broke(self, position: Position, message: str) -> None:
        """The cycle of a pod ended by an error of a plugin."""

    @abstractmethod
    def deleted(self, waiting: PermitWait) -> Sequence[Occurrence]:
        """The events of a pod that waited and left its node, as if it were deleted there."""

    @abstractmethod
    def preempt(self, position: Position, victims: Sequence[Position], row: Row) -> None:
        """Room is made for a pod on the node that it was nominated for."""

    def holding(self, seconds: Mapping[str, int], plugin: GangPlugin | None) -> dict[str, int]:
        """The plugins for which a pod waits, and how long, of those that would let it."""
        return dict(seconds)

    # -- a pod's cycle --------------------------------------------------------------------------------------------

    def attempt(self, position: Position, framework: Framework) -> None:
        """The scheduling cycle of a pod by itself."""
        try:
            choice = self.search.find(position, framework)
            if choice is None:
                self._fits_nowhere(position, framework)
                return
            self.before((position,), ())
            self.pods.bind(position, choice.row, choice.before)
            if not framework.plugins_at("permit") or self._permitted(position, framework, choice):
                self.bound(position, choice)
        except PluginError as error:
            self.broke(position, str(error))

    def _permitted(self, position: Position, framework: Framework, choice: Choice) -> bool:
        """Whether a pod that is on its node is bound there, and does not have to wait, or leave. Raises PluginError."""
        info = self.search.info(position)
        outcome = run_permit(framework, info, self.view, choice.row)
        plugin = find_gang_plugin(framework)
        if outcome.status.code not in (Code.SUCCESS, Code.WAIT):
            self._leave(position, framework, info.pod)
            if not outcome.status.rejected:
                raise PluginError(outcome.message)
            self.put_back(position, _not_permitted(outcome))
            return False
        if plugin:
            siblings = plugin.permitted(info.pod, self.view, waits=plugin.name in outcome.waiting)
            self.queue.activate(siblings)
        pending = self.holding(outcome.waiting, plugin)
        if pending:
            now = self.queue.clock.now()
            self.waiting.pods[position] = PermitWait(self.queued(position), framework, info, choice, pending, now)
        return not pending

    def settle(self, waiting: PermitWait, outcome: PermitOutcome) -> None:
        """A pod that waited is bound, or leaves its node."""
        position = waiting.pod.position
        if outcome.status.code is Code.SUCCESS:
            self.bound(position, waiting.choice)
            return
        self.before((), (position,))
        self._leave(position, waiting.framework, waiting.info.pod)
        events, rejected = self.deleted(waiting), outcome.status.rejected
        for event in () if rejected else events:  # then it hears of that itself
            self.queue.move(event)
        self.put_back(position, _not_permitted(outcome))
        for event in events if rejected else ():
            self.queue.move(event, besides=position)

    def ask(self, gang: GangKey | None = None) -> None:
        """Let go the pods that need not wait any longer; with ``gang`` only its pods are asked about."""
        for waiting, outcome in self.waiting.ask(gang):
            self.settle(waiting, outcome)

    def time_out(self) -> list[Position]:
        """The first pod that has waited in vain leaves its node, or all do, once no other can be tried."""
        first = self.waiting.time_out(self.queue.clock)
        waited = [first] if first else self.waiting.park()
        for waiting in waited:
            self.settle(waiting, waiting.timed_out())
        if not first:
            for waiting in waited:
                self.queue.delete(waiting.pod.position)
        self.queue.flush_backoff()
        return [waiting.pod.position for waiting in waited]

    def _fits_nowhere(self, position: Position, framework: Framework) -> None:
        """What could be done for a pod, and its failure; where its gang gives up for that, those that wait leave."""
        hope = self.search.hope(position, framework)
        plugin, pod, given_up = find_gang_plugin(framework), None, ""
        if plugin and plugin.name in hope.asked:
            pod = self.search.info(position).pod
            given_up = plugin.gives_up(pod, self.view)
            if given_up:
                plugin.failed(pod, self.view, fits_nowhere=True)
        if hope.later:
            self.view.preempting.add(self.view.pods.objects[position].key)
        if hope.victims:
            self.before((), hope.victims)
        self.put_back(position, hope.failure)
        if pod and given_up:
            self._give_up(framework, pod, given_up)
        self.view.preempting.clear()
        if hope.row != NO_ROW:
            self.preempt(position, hope.victims, hope.row)

    def _leave(self, position: Position, framework: Framework, pod: Pod) -> None:
        """A pod leaves its node, and takes those of its gang that wait with it."""
        self.pods.leave(position)
        if plugin := find_gang_plugin(framework):
            plugin.failed(pod, self.view)
            self._give_up(framework, pod, plugin.after_another)

    def _give_up(self, framework: Framework, pod: Pod, reason: str) -> None:
        """The pods of its gang that wait leave their nodes."""
        plugin = find_gang_plugin(framework)
        gang = plugin.gang(pod) if plugin else None
        if plugin is None or gang is None:
            return
        outcome = PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin.name)
        for waiting in self.waiting.given_up(gang):
            self.settle(waiting, outcome)


def _not_permitted(outcome: PermitOutcome) -> Failed:
    if outcome.status.rejected:
        return Failed(outcome.status.code, outcome.message, Rejectors(frozenset({outcome.plugin})))
    return Failed(Code.ERROR, outcome.message)
