"""Pods of gangs of other projects in a simulation: they are tried one by one, and wait on their nodes for each other.

Upstream: WaitOnPermit and bindingCycle in pkg/scheduler/schedule_one.go (v1.36), as in
kschedctl/scheduler/queueing/scheduling_loop.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import GangPlugin, gang_plugin
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors
from kschedctl.scheduler.framework import Code, PluginError, PreFilterResult, Status
from kschedctl.scheduler.plugins.default_preemption import evicted_later
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTED, PREEMPTION_LOOP, PermitWait
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.gangs import Gangs, PlacedMember
from kschedctl.scheduler.simulation.nominating import Promises
from kschedctl.scheduler.simulation.outcome import ERROR, SCHEDULED, Outcome
from kschedctl.scheduler.simulation.placement import Choice, Placements
from kschedctl.scheduler.simulation.queued_pods import QueuedPods
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.pod_info import PodInfo


class Attempts(Protocol):
    """What a simulation does for pods alone, too.

    ``bind`` puts a pod on its node, ``release`` gives back what pods took there; the others say what Simulation says.
    """

    gangs: Gangs
    placements: Placements
    promises: Promises

    def framework(self, position: Position) -> Framework | None: ...
    def incoming(self, position: Position) -> PodInfo: ...
    def settled(self, position: Position, info: PodInfo, framework: Framework | None) -> Outcome | None: ...
    def rejectors(self, position: Position) -> Rejectors: ...
    def hope(self, framework: Framework, position: Position) -> tuple[Candidate | None, PostFilterOutcome | None]: ...
    def nominate(self, position: Position, candidate: Candidate, put_back: Callable[[], None]) -> None: ...
    def bind(self, position: Position, row: Row, before: Mapping[str, PreFilterResult]) -> None: ...
    def release(self, positions: Sequence[Position]) -> None: ...
    def went_for(self, position: Position) -> tuple[Position, ...]: ...


class GangMembers:
    """Those of one queue, in which the pods ``waiting`` are; ``reasons``: why those that were on a node left it last.

    The view keeps who was evicted and, until they are abandoned, what became of gangs.
    """

    def __init__(self, simulation: Attempts, queue: QueuedPods, waiting: Sequence[Position]) -> None:
        view = queue.view
        view.gang_history = GangHistory(queue.clock.now)
        view.absent = np.zeros(len(view.pods), np.bool_) if view.absent is None else view.absent
        view.absent[waiting] = False
        self._simulation, self._queue = simulation, queue
        self._gangs, self._promises = simulation.gangs, simulation.promises
        self._there: dict[Position, PlacedMember] = {}
        self._promised: set[Position] = set()
        self.reasons: dict[Position, PermitOutcome] = {}

    def attempt(self, position: Position) -> Sequence[Outcome]:
        """What came of a pod and, when it completes its gang, of those that wait for it; nothing of those that wait."""
        simulation = self._simulation
        framework = simulation.framework(position)
        settled = simulation.settled(position, simulation.incoming(position), framework)
        if settled is not None or framework is None:
            self._queue.done(position)
            return () if settled is None else (settled,)
        try:
            choice = simulation.placements.choose(framework, position)
            bound = self._came(framework, position, choice) if choice else self._in_vain(framework, position)
        except PluginError as error:
            self._queue.done(position)
            return (Outcome(position, ERROR, message=str(error)),)
        return [self._outcome(each, there) for each, there in bound.items()]

    def _outcome(self, position: Position, there: PlacedMember) -> Outcome:
        victims = self._simulation.went_for(position)
        return Outcome(position, SCHEDULED, there.row, there.tied, there.feasible, victims)

    def _came(self, framework: Framework, position: Position, choice: Choice) -> dict[Position, PlacedMember]:
        """Put a pod on its node: which pods are bound now, by name; none where it waits, or is refused there.

        Raises PluginError.
        """
        view, plugin = self._queue.view, _plugin(framework)
        self._queue.before((position,), ())
        if view.nominated_row(position) != NO_ROW:
            self._promised.add(position)
        self._simulation.bind(position, choice.row, choice.before)
        info = self._gangs.info(position)
        outcome = run_permit(framework, info, view, choice.row)
        if outcome.status.code not in (Code.SUCCESS, Code.WAIT):
            self._refused(framework, position, outcome)
            return {}
        pending = {plugin.name: outcome.waiting[plugin.name]} if plugin.name in outcome.waiting else {}
        self._queue.activate(plugin.permitted(info.pod, view, waits=bool(pending)))
        self._there[position] = PlacedMember(choice.row, len(choice.tied), choice.feasible, bool(pending))
        if pending:
            self._queue.hold(position, framework, info, choice.row, pending)
            return {}
        gang = plugin.gang(info.pod)
        complete = [waiting.pod.position for waiting, _ in self._queue.waits.ask(gang)]
        return self._bound([position, *complete])

    def _bound(self, positions: list[Position]) -> dict[Position, PlacedMember]:
        objects = self._queue.view.pods.objects
        for position in positions:
            self._queue.done(position)
            self._promised.discard(position)
        return {each: self._there.pop(each) for each in sorted(positions, key=lambda each: objects[each].key)}

    def _in_vain(self, framework: Framework, position: Position) -> dict[Position, PlacedMember]:
        """The pod fits nowhere, and may preempt; where its gang gives up for that, those that wait leave.

        Raises PluginError.
        """
        simulation = self._simulation
        rejectors = simulation.rejectors(position)
        candidate, asked = simulation.hope(framework, position)
        reason = self._reason(framework, position, asked)
        put_back = partial(self._put_back, framework, position, rejectors, reason)
        if candidate is None or asked is None:
            put_back()
            return {}
        if evicted_later(asked, self._gangs.scheduler.gates):
            self._queue.view.preempting.add(self._queue.view.pods.objects[position].key)
        simulation.nominate(position, candidate, put_back)
        return {}

    def _reason(self, framework: Framework, position: Position, asked: PostFilterOutcome | None) -> str:
        """Why others have to leave, as PostFilter has it, of which ``asked`` tells; None where it could not help."""
        view, plugin = self._queue.view, _plugin(framework)
        if asked is None:
            reached = any(each.name == plugin.name for each in framework.at("postFilter")) and len(view.nodes) > 0
        else:
            reached = plugin.name in asked.results
        return plugin.gives_up(self._gangs.info(position).pod, view) if reached else ""

    def _put_back(self, framework: Framework, position: Position, rejectors: Rejectors, reason: str) -> None:
        pod = self._gangs.info(position).pod
        if reason:
            _plugin(framework).failed(pod, self._queue.view, fits_nowhere=True)
        self._queue.failed(position, rejectors)
        if reason:
            self._give_up(framework, pod, reason)
        self._queue.view.preempting.clear()

    def preempted(self, victims: Sequence[Position], by: Position) -> list[Position]:
        """Of those that have to make room the ones that wait leave, by name, and are tried again.

        The others are to go, but for those that left already, with others of their gang.
        """
        victims = [victim for victim in victims if self._queue.view.node[victim] != NO_ROW]
        waiting, objects = self._queue.waits.preempted(victims, by), self._queue.view.pods.objects
        for position in sorted(waiting, key=lambda each: objects[each].key):
            self._leave(waiting[position], PREEMPTED)
        return [victim for victim in victims if victim not in waiting]

    def stop_rounds(self) -> None:
        """Gangs that go round are not tried any more."""
        self._queue.stop_rounds(self._leave)

    def time_out(self) -> bool:
        """The first that has waited for too long leaves, or in the end all that wait; whether somebody did."""
        waits = self._queue.waits
        permit_wait = waits.time_out(self._queue.clock)
        waited = [permit_wait] if permit_wait else waits.park()
        for waiting in waited:
            self._leave(waiting, waiting.timed_out())
        if not permit_wait:
            for waiting in waited:
                self._queue.park(waiting.pod.position)
        self._queue.flush_backoff()
        return bool(waited)

    def abandon(self) -> None:
        """All that still wait leave."""
        self.reasons |= dict.fromkeys(self._queue.waits.going_round, PREEMPTION_LOOP)
        for waiting in self._queue.waits.park():
            self._take_off(waiting.pod.position)
        self._queue.view.gang_history = None

    def _give_up(self, framework: FrameworkLike, pod: Pod, reason: str) -> None:
        """The pods of its gang that wait leave their nodes."""
        plugin = _plugin(framework)
        gang = plugin.gang(pod)
        outcome = PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin.name)
        for waiting in self._queue.waits.given_up(gang) if gang else ():
            self._leave(waiting, outcome)

    def _leave(self, waiting: PermitWait, outcome: PermitOutcome) -> None:
        position = waiting.pod.position
        self._queue.before((), (position,))
        self._take_off(position)
        self._unreserve(waiting.framework, waiting.info.pod)
        self.reasons[position] = outcome
        rejected = outcome.status.rejected
        self._queue.left(position, Rejectors(frozenset((outcome.plugin,))) if rejected else NONE)
        if position in self._promised:
            self._promised.discard(position)
            self._promises.lose(position)

    def _refused(self, framework: Framework, position: Position, outcome: PermitOutcome) -> None:
        """Permit refuses the pod on its node. Raises PluginError where it fails."""
        self._take_off(position)
        self._unreserve(framework, self._gangs.info(position).pod)
        if not outcome.status.rejected:
            raise PluginError(outcome.message)
        self.reasons[position] = outcome
        self._queue.failed(position, Rejectors(frozenset((outcome.plugin,))))

    def _take_off(self, position: Position) -> None:
        self._queue.view.forget(position)
        self._simulation.release([position])
        self._there.pop(position, None)
        self._gangs.taken_back += 2

    def _unreserve(self, framework: FrameworkLike, pod: Pod) -> None:
        """A pod that left its node takes those of its gang that wait with it."""
        plugin = _plugin(framework)
        plugin.failed(pod, self._queue.view)
        self._give_up(framework, pod, plugin.after_another)


def _plugin(framework: FrameworkLike) -> GangPlugin:
    found = gang_plugin(framework)
    assert found is not None  # else nobody waits
    return found
