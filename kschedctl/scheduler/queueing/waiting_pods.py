"""Pods that Permit plugins let wait, on the node that they are taken to be on, before they are bound.

Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go; bindingCycle and handleBindingCycleError in
pkg/scheduler/schedule_one.go (v1.36). There a plugin allows a waiting pod, or rejects it, when it pleases; here those
that asked it to wait are asked anew after each cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kschedctl.api.arrays import Position
from kschedctl.api.gangs import GangKey
from kschedctl.api.times import format_go_duration
from kschedctl.scheduler.engine.permit import TIMED_OUT, PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.queued_pod import NANOSECONDS, Clock, QueuedPod
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.queueing.pods_on_nodes import Choice
from kschedctl.scheduler.queueing.scheduling_queue import SchedulingQueue
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

PREEMPTED = PermitOutcome(Status(Code.ERROR, ("waiting on permit for pod: preempted",)))
MOST_ROUNDS = 10
"""How often a pod preempts waiting pods of a gang, while none is bound or evicted, before the gang goes round."""
_LOOPS = (
    "preemption loop: pods of the gang that wait on Permit are preempted and retried until another is bound or evicted"
)
PREEMPTION_LOOP = PermitOutcome(Status(Code.ERROR, (_LOOPS,)))


@dataclass
class PermitWait:
    """A pod on the node of ``choice``; ``pending``: the plugins that have not allowed it yet, and how many seconds each
    waits.

    ``since``: when it began to wait, in nanoseconds.
    """

    pod: QueuedPod
    framework: Framework
    info: PodInfo
    choice: Choice
    pending: dict[str, int]
    since: int

    def end(self) -> tuple[int, str]:
        """When it will have waited in vain, and for which plugin."""
        return min((self.since + seconds * NANOSECONDS, plugin) for plugin, seconds in self.pending.items())

    @property
    def gang(self) -> GangKey | None:
        plugin = find_gang_plugin(self.framework)
        return plugin.gang(self.info.pod) if plugin else None

    def timed_out(self) -> PermitOutcome:
        """What the first plugin says that waited for too long."""
        _, plugin = self.end()
        reason = TIMED_OUT.format(format_go_duration(self.pending[plugin]), plugin)
        return PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin)


class PermitWaits:
    """The pods that wait on Permit now, by position.

    Who waited in vain leaves, and may come back and wait again; but once only, until some pod is bound or evicted, as
    it would go on for ever else. Who would do so again stays where it is; pods of a gang leave, too, when nobody else
    can be tried, and are not tried for as long. Nor are those of a gang that goes round, as kube-scheduler's would:
    somebody, mostly one of them, preempts those that wait again and again.
    """

    def __init__(self, view: Fork) -> None:
        self._view = view
        self._in_vain: set[Position] = set()
        self._parked: dict[Position, QueuedPod] = {}
        self._rounds: Counter[tuple[Position, GangKey]] = Counter()
        """How often a pod preempted pods of a gang that waited."""
        self.pods: dict[Position, PermitWait] = {}

    def ask(self, gang: GangKey | None = None) -> Iterator[tuple[PermitWait, PermitOutcome]]:
        """The waits that end now, each with Success, the refusal or the error of a plugin.

        ``gang``: only its pods are asked about.
        """
        for position, waiting in list(self.pods.items()):
            if gang is not None and waiting.gang != gang:
                continue
            row, pending = waiting.choice.row, frozenset(waiting.pending)
            outcome = run_permit(waiting.framework, waiting.info, self._view, row, pending)
            waiting.pending = {plugin: waiting.pending[plugin] for plugin in outcome.waiting}
            if outcome.status.code is not Code.WAIT:
                yield self.pods.pop(position), outcome

    def first_end(self) -> int | None:
        """When the first will have waited in vain; None where none will."""
        return min((waiting.end()[0] for _, waiting in self._leaving()), default=None)

    def time_out(self, clock: Clock) -> PermitWait | None:
        """The first that will have waited in vain, at the time when it has; None where none will."""
        ends = [(*waiting.end(), position) for position, waiting in self._leaving()]
        if not ends:
            return None
        end, _, position = min(ends)
        clock.time = max(clock.time, end)
        self._in_vain.add(position)
        return self.pods.pop(position)

    def given_up(self, gang: GangKey) -> list[PermitWait]:
        """The waits of a gang that end when its plugin gives it up."""
        chosen = [position for position, waiting in self._leaving() if waiting.gang == gang]
        self._in_vain.update(chosen)
        return [self.pods.pop(position) for position in chosen]

    def _leaving(self) -> list[tuple[Position, PermitWait]]:
        return [(position, waiting) for position, waiting in self.pods.items() if position not in self._in_vain]

    def park(self, gang: GangKey | None = None) -> list[PermitWait]:
        """All pods of gangs, as nobody else can be tried. They are not tried either, until something happens.

        ``gang``: only its pods.
        """
        chosen = [p for p, waiting in self.pods.items() if waiting.gang is not None and gang in (None, waiting.gang)]
        parked = [self.pods.pop(position) for position in chosen]
        self._parked.update((permit_wait.pod.position, permit_wait.pod) for permit_wait in parked)
        return parked

    def unpark(self, queue: SchedulingQueue) -> None:
        """Some pod was bound or evicted: those that had left for as long as nothing happens are put back."""
        parked, self._parked = self._parked, {}
        self._in_vain.clear()
        self._rounds.clear()
        for pod in parked.values():
            queue.restore(pod)

    def preempted(self, victims: Iterable[Position], by: Position) -> dict[Position, PermitWait]:
        """The waits of victims, all of which are told before the first leaves.

        They leave as PREEMPTED, and are tried again, rather than deleted.
        """
        waiting = {position: self.pods.pop(position) for position in victims if position in self.pods}
        self._rounds.update({(by, victim.gang) for victim in waiting.values() if victim.gang})
        return waiting

    def stop_rounds(self, queue: SchedulingQueue, leave: Callable[[PermitWait, PermitOutcome], None]) -> list[Position]:
        """The pods of gangs that go round from now on: they leave their nodes, by ``leave``, and the queue."""
        gangs = dict.fromkeys(gang for (_, gang), times in self._rounds.items() if times == MOST_ROUNDS)
        for waiting in [waiting for gang in gangs for waiting in self.park(gang)]:
            leave(waiting, PREEMPTED)
        members = [Position(position) for gang in gangs for position in self._view.pods.by_gang[gang].tolist()]
        out = {position: pod for position in members if (pod := queue.delete(position))}
        self._parked |= out
        self._rounds = Counter({key: times for key, times in self._rounds.items() if key[1] not in gangs})
        return list(out)
