"""The scheduler at work on its queue: pods are popped, tried and put back, and what follows comes back as events.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go and pkg/scheduler/eventhandlers.go (v1.36). Time stands still,
one pod is tried after the other, and what a cycle sets going (bindings, nominations, evictions) is done when it is
over. In the open loop none of this is seen; in the closed one it comes back (closed_loop.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position, Row, positions_of
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import gang_plugin
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.engine.preemption.promises import takes_back
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.queued_pod import Clock, QueuedPod
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors, rejectors_of
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.plugins.default_preemption import evicted_later
from kschedctl.scheduler.queueing.backoff_queue import Backoff
from kschedctl.scheduler.queueing.pod_scheduling import PodScheduling, Scheduled
from kschedctl.scheduler.queueing.queue_order import QueueOrder
from kschedctl.scheduler.queueing.queue_plugins import QueuePlugins
from kschedctl.scheduler.queueing.scheduling_queue import ACTIVATION_LASTS, Rules, SchedulingQueue
from kschedctl.scheduler.queueing.signature import Signer
from kschedctl.scheduler.queueing.waiting_pods import PermitWait, PermitWaits
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.pod_info import PodInfo


class Failed(NamedTuple):
    """Why a pod was not bound.

    ``nominated``: the node that it was promised, NO_ROW when it is promised none any more; None: as before.
    """

    code: Code
    message: str
    rejectors: Rejectors = NONE
    nominated: Row | None = NO_ROW


@dataclass
class CycleRecord:
    """What one cycle did. ``victims`` are to go; ``cleared`` lose the node that they were promised.

    ``scheduled``: of a single pod that was placed. ``waiting``: that pod, where Permit plugins let it wait. Pods that
    waited before, and are bound or refused after the cycle, are among ``bound`` and ``failed`` too. ``group``: what a
    cycle of a pod group tells of it.
    """

    popped: Position
    bound: dict[Position, Row] = field(default_factory=dict)
    failed: dict[Position, Failed] = field(default_factory=dict)
    victims: tuple[Position, ...] = ()
    cleared: tuple[Position, ...] = ()
    scheduled: Scheduled | None = None
    waiting: dict[Position, Row] = field(default_factory=dict)
    group: Any = None


def _not_permitted(outcome: PermitOutcome) -> Failed:
    if outcome.status.rejected:
        return Failed(outcome.status.code, outcome.message, Rejectors(frozenset({outcome.plugin})))
    return Failed(Code.ERROR, outcome.message)


class PodGroups(Protocol):
    """The pod groups of a cluster, whose members are tried together."""

    @property
    def members(self) -> Container[Position]:
        """The pods that belong to one."""

    def schedule(self, loop: SchedulingLoop, popped: QueuedPod) -> CycleRecord:
        """The cycle of the group of a member that was popped."""


class SchedulingLoop:
    """One run over the pods of a cluster that wait for a node, on a fork of the scheduler's snapshot."""

    def __init__(self, scheduler: Scheduler, groups: PodGroups | None = None) -> None:
        self.scheduler, self.groups = scheduler, groups
        self.simulation = Simulation(scheduler)
        self.view = self.simulation.view
        self.view.time_passes = False
        gates, configuration = scheduler.gates, scheduler.configuration
        self.pods = PodScheduling(self.view, SampledFrom().begin(configuration, len(self.view.nodes)))
        backoff = Backoff.of(configuration, gates)
        members = groups.members if groups else frozenset[Position]()
        self.plugins = QueuePlugins(scheduler, self.view, self.info)
        lasts = ACTIVATION_LASTS.at(gates.release)
        rules = Rules(backoff, gates.enabled("SchedulerQueueingHints"), members, lasts)
        clock = Clock()
        self.view.gang_history = GangHistory(clock.now)
        self.queue = SchedulingQueue(self.plugins, rules, clock, QueueOrder(scheduler.queue_sort, self.view))
        self.waiting = PermitWaits(self.view)
        self._signers: dict[str, Signer] = {}
        self._objects: dict[Position, Pod] = {}

    def fill(self) -> None:
        """Put all pods that wait for a node into the queue, as they come in the order of the cluster.

        With gate GangScheduling each pod that comes may complete a group, whether or not it has a node.
        """
        groups = self.scheduler.gates.enabled("GangScheduling")
        chosen = np.ones(len(self.view.pods), np.bool_) if groups else self.view.node < 0
        absent = self.view.absent = chosen.copy() if groups else np.zeros(len(self.view.pods), np.bool_)
        for position in positions_of(chosen):
            absent[position] = False
            info = self.info(position)
            if not info.spec.node_name and self.framework(position) is not None:
                self.queue.add(QueuedPod(position, info.priority, signature=self.sign(info)))
            if groups and self.queue.unschedulable:
                for occurrence in self.scheduler.event_handlers.occurrences(ChangedObject(POD, None, info.pod)):
                    self.queue.move(occurrence)

    def open_loop(self) -> Iterator[CycleRecord]:
        """Cycles until the active queue is empty; nothing comes back."""
        while len(self.queue.active) and (record := self.schedule_one()):
            yield record

    def schedule_one(self) -> CycleRecord | None:
        """One cycle, of a pod or a group; None when no pod can be popped."""
        popped = self.queue.pop()
        if popped is None:
            return None
        in_group = self.groups is not None and popped.position in self.groups.members
        record = self.groups.schedule(self, popped) if self.groups and in_group else self.schedule_pod(popped)
        self.view.preempting.clear()
        for waiting, outcome in self.waiting.ask():
            self.settle(waiting, outcome, record)
        return record

    def schedule_pod(self, popped: QueuedPod) -> CycleRecord:
        """The cycle of a single pod."""
        position, record = popped.position, CycleRecord(popped.position)
        framework, info = self.framework(position), self.info(position)
        if framework is None or info.terminating:
            self.queue.done(position)
            return record
        try:
            scheduled = self.pods.schedule(framework, info, popped.signature, self.queue.cycle)
            if scheduled.row != NO_ROW:
                self.reserve(position, scheduled.row)
                self._permit(popped, framework, scheduled, record)
                return record
        except PluginError as error:
            self.fail(popped, Failed(Code.ERROR, str(error)), record)
            return record
        self._post_filter(popped, scheduled.cycle, record)
        return record

    # -- parts of a cycle ----------------------------------------------------------------------------------------

    def assume(self, position: Position, row: Row) -> None:
        """Reserve what a pod needs on a node, and take it to be there for good. Raises PluginError."""
        self.reserve(position, row)
        self.queue.done(position)

    def reserve(self, position: Position, row: Row) -> None:
        """The same of one that is still being tried. Raises PluginError."""
        self.simulation.bind(position, row)
        self.view.nominate(position, NO_ROW)

    def _permit(self, popped: QueuedPod, framework: Framework, scheduled: Scheduled, record: CycleRecord) -> None:
        """Whether the pod, which is on its node, is bound there, waits or has to leave."""
        info = self.info(popped.position)
        outcome = run_permit(framework, info, self.view, scheduled.row)
        placed = outcome.status.code in (Code.SUCCESS, Code.WAIT)
        if placed and (plugin := gang_plugin(framework)):
            siblings = plugin.permitted(info.pod, self.view, waits=plugin.name in outcome.waiting)
            self.queue.activate(siblings)
        if outcome.status.code is Code.WAIT:
            since, pending = self.queue.clock.now(), dict(outcome.waiting)
            self.waiting.pods[popped.position] = PermitWait(popped, framework, info, scheduled.row, pending, since)
            record.scheduled, record.waiting = scheduled, {popped.position: scheduled.row}
        elif outcome.status.code is Code.SUCCESS:
            self.queue.done(popped.position)
            record.scheduled, record.bound = scheduled, {popped.position: scheduled.row}
        else:
            self._leave(popped.position)
            self._unreserve(framework, info.pod, record)
            self.fail(popped, _not_permitted(outcome), record)

    def settle(self, waiting: PermitWait, outcome: PermitOutcome, record: CycleRecord) -> None:
        """A pod that waited is bound, or leaves its node, as if it were deleted there; upstream's bindingCycle."""
        position = waiting.pod.position
        if outcome.status.code is Code.SUCCESS:
            self.queue.done(position)
            record.bound[position] = waiting.row
            return
        self._leave(position)
        self._unreserve(waiting.framework, waiting.info.pod, record)
        there = self.object(position)
        there = replace(there, spec=replace(there.spec, node_name=self.view.nodes.names[waiting.row]))
        events = self.scheduler.event_handlers.occurrences(ChangedObject(POD, there, None))
        if not outcome.status.rejected:  # then it hears of that itself
            for event in events:
                self.queue.move(event)
        self.fail(waiting.pod, _not_permitted(outcome), record)
        for event in events if outcome.status.rejected else ():
            self.queue.move(event, besides=position)

    def _leave(self, position: Position) -> None:
        self.view.forget(position)
        self.simulation.release([position])

    def fail(self, pod: QueuedPod, failure: Failed, record: CycleRecord) -> None:
        """Put a pod back that was not placed; upstream's handleSchedulingFailure."""
        self.queue.add_unschedulable(pod, failure.rejectors)
        record.failed[pod.position] = failure._replace(rejectors=pod.rejectors)  # a plugin may gate it by now
        if failure.nominated is not None:
            self.view.nominate(pod.position, failure.nominated)

    def _post_filter(self, popped: QueuedPod, cycle: Cycle, record: CycleRecord) -> None:
        """What could be done for a pod that fits nowhere, and its failure."""
        if not len(self.view.nodes):
            self.fail(popped, Failed(Code.UNRESOLVABLE, NO_NODES), record)
            return
        outcome = run_post_filter(cycle)
        plugin = gang_plugin(cycle.framework)
        given_up = plugin.gives_up(cycle.info.pod, self.view) if plugin and plugin.name in outcome.results else ""
        if plugin and given_up:
            plugin.failed(cycle.info.pod, self.view, fits_nowhere=True)
        nominated = self._nominated(outcome)
        if nominated is not None and nominated != NO_ROW:
            record.victims = self._victims(outcome, nominated)
            record.cleared = self.less_urgent(nominated, popped.priority) if record.victims else ()
        if record.victims and evicted_later(outcome, self.scheduler.gates):
            self.view.preempting.add(self.view.pods.objects[popped.position].key)
        failure = Failed(Code.UNSCHEDULABLE, fit_error(cycle, outcome.message), rejectors_of(cycle), nominated)
        self.fail(popped, failure, record)
        if given_up:
            self._give_up(cycle.framework, cycle.info.pod, given_up, record)

    def _unreserve(self, framework: FrameworkLike, pod: Pod, record: CycleRecord) -> None:
        """A pod that left its node takes those of its gang that wait with it."""
        if plugin := gang_plugin(framework):
            plugin.failed(pod, self.view)
            self._give_up(framework, pod, plugin.after_another, record)

    def _give_up(self, framework: FrameworkLike, pod: Pod, reason: str, record: CycleRecord) -> None:
        """The pods of its gang that wait leave their nodes."""
        plugin = gang_plugin(framework)
        gang = plugin.gang(pod) if plugin else None
        if plugin is None or gang is None:
            return
        outcome = PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin.name)
        for waiting in self.waiting.given_up(gang):
            self.settle(waiting, outcome, record)

    def unpark(self) -> None:
        """Those that waited in vain while nothing happened hear of what does again."""
        self.waiting.progress(self.queue)

    def _nominated(self, outcome: PostFilterOutcome) -> Row | None:
        """The row that PostFilter nominated; NO_ROW when it took back what was promised, None when it left it."""
        names = [result.nominated_node for result in outcome.results.values() if result.nominated_node]
        if outcome.status.code is Code.SUCCESS and names:
            return Row(self.view.nodes.index[names[-1]])
        return NO_ROW if takes_back(outcome) else None

    def _victims(self, outcome: PostFilterOutcome, row: Row) -> tuple[Position, ...]:
        """The pods that preemption evicts on the row."""
        for result in outcome.results.values():
            if isinstance(result.report, Preemption) and result.report.allowed is not None:
                chosen = next(candidate for candidate in result.report.allowed.tied if candidate.row == row)
                return tuple(victim for victim in chosen.victims if not self.info(victim).terminating)
        return ()

    def less_urgent(self, row: Row, priority: int) -> tuple[Position, ...]:
        """The pods of lower priority that were promised a node, by their object."""
        rows, positions = self.view.nominations
        here = [Position(p) for p in positions[rows == row].tolist()]
        return tuple(p for p in here if self.info(p).priority < priority and self.object(p).status.nominated_node_name)

    # -- pods ----------------------------------------------------------------------------------------------------

    def framework(self, position: Position) -> Framework | None:
        return self.simulation.framework(position)

    def object(self, position: Position) -> Pod:
        """The pod as it is now."""
        if position not in self._objects:
            self._objects[position] = self.view.stored(self.view.pods.objects[position])
        return self._objects[position]

    def replace(self, position: Position, pod: Pod) -> None:
        """The pod changed."""
        self._objects[position] = pod

    def info(self, position: Position) -> PodInfo:
        """What scheduling reads of the very pod, as it is now."""
        info = self.simulation.placements.arriving(position)
        return PodInfo(self.object(position), info.options, info.number, info.alike)

    def sign(self, info: PodInfo) -> bytes | None:
        """The signature by which pods are told to be alike."""
        name = info.spec.scheduler_name
        if name not in self._signers:
            framework, extenders = self.scheduler.framework(name), bool(self.scheduler.configuration.extenders)
            assert framework is not None
            self._signers[name] = Signer(framework, self.scheduler.gates, extenders=extenders, view=self.view)
        return self._signers[name].sign(info)
