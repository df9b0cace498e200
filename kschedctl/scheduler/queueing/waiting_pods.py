"""Pods that wait at Permit on the node where they are assumed, before they are bound.

Upstream, a plugin may allow or reject a waiting pod at any time. Here, the plugins for which it waits run again
after each cycle. Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go, bindingCycle and
handleBindingCycleError in pkg/scheduler/schedule_one.go (v1.36).
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
MAX_ROUNDS = 10
"""Number of times a pod preempts waiting pods of a gang, with no binding or eviction in between, before the gang is
stopped.
"""
_LOOP_MESSAGE = (
    "preemption loop: pods of the gang that wait on Permit are preempted and retried until another is bound or evicted"
)
PREEMPTION_LOOP = PermitOutcome(Status(Code.ERROR, (_LOOP_MESSAGE,)))


@dataclass
class PermitWait:
    """A pod that waits at Permit on the node of `choice`."""

    pod: QueuedPod
    framework: Framework
    info: PodInfo
    choice: Choice
    pending: dict[str, int]
    """The plugins that have not allowed the pod yet, with their timeouts in seconds."""
    since: int
    """When the pod began to wait, in nanoseconds."""

    def find_timeout(self) -> tuple[int, str]:
        """Return when the pod's first timeout expires, and the plugin with that timeout."""
        return min((self.since + seconds * NANOSECONDS, plugin) for plugin, seconds in self.pending.items())

    @property
    def gang(self) -> GangKey | None:
        """The gang for which the pod waits, or None if it waits for another reason."""
        plugin = find_gang_plugin(self.framework)
        return plugin.find_gang(self.info.pod) if plugin else None

    def build_timeout_outcome(self) -> PermitOutcome:
        """Build the rejection by the plugin whose timeout expired first."""
        _, plugin = self.find_timeout()
        reason = TIMED_OUT.format(format_go_duration(self.pending[plugin]), plugin)
        return PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin)


class PermitWaits:
    """The pods that wait at Permit now, by position.

    A pod whose wait times out leaves its node, and it may come back and wait again forever. Therefore, a pod times out
    only once until some pod is bound or evicted. When no other pod can be tried, the waiting pods of gangs leave their
    nodes and are not tried until something happens. The same applies to a gang whose waiting pods are preempted again
    and again, mostly by its own members. Upstream, this never ends.
    """

    def __init__(self, view: Fork) -> None:
        self._view = view
        self._timed_out: set[Position] = set()
        self._parked: dict[Position, QueuedPod] = {}
        self._rounds: Counter[tuple[Position, GangKey]] = Counter()
        """The number of times that each pod preempted waiting pods of each gang."""
        self.pods: dict[Position, PermitWait] = {}

    def rerun_permit(self, gang: GangKey | None = None) -> Iterator[tuple[PermitWait, PermitOutcome]]:
        """Run Permit again for all waiting pods. Remove and yield the waits that end now, each with its outcome.

        Only plugins that have not allowed a pod yet run. The outcome is Success, a rejection or an error. If `gang` is
        given, Permit runs only for its pods.
        """
        for position, waiting in list(self.pods.items()):
            if gang is not None and waiting.gang != gang:
                continue
            row = waiting.choice.row
            pending = frozenset(waiting.pending)
            outcome = run_permit(waiting.framework, waiting.info, self._view, row, plugin_names=pending)
            waiting.pending = {plugin: waiting.pending[plugin] for plugin in outcome.waiting}
            if outcome.status.code is not Code.WAIT:
                yield self.pods.pop(position), outcome

    def find_first_timeout(self) -> int | None:
        """Return when the first wait times out, or None if no wait can time out."""
        timeouts = (waiting.find_timeout() for _, waiting in self._list_expiring())
        return min((time for time, _ in timeouts), default=None)

    def time_out(self, clock: Clock) -> PermitWait | None:
        """Advance the clock to the first timeout, and remove and return the wait that ends.

        The pod is recorded as timed out. Return None if no wait can time out.
        """
        timeouts = [(waiting.find_timeout(), position) for position, waiting in self._list_expiring()]
        if not timeouts:
            return None
        (end, _), position = min(timeouts)
        clock.time = max(clock.time, end)
        self._timed_out.add(position)
        return self.pods.pop(position)

    def remove_gang(self, gang: GangKey) -> list[PermitWait]:
        """Remove and return the waits of a gang's pods, because its plugin gives up.

        These pods are recorded as timed out. Waits of pods that have timed out before are kept.
        """
        positions = [position for position, waiting in self._list_expiring() if waiting.gang == gang]
        self._timed_out.update(positions)
        return [self.pods.pop(position) for position in positions]

    def _list_expiring(self) -> list[tuple[Position, PermitWait]]:
        """Return the positions and waits of the pods that have not timed out before."""
        return [(position, waiting) for position, waiting in self.pods.items() if position not in self._timed_out]

    def park_gangs(self, gang: GangKey | None = None) -> list[PermitWait]:
        """Remove and return the waits of one gang's pods, or of all gangs' pods if `gang` is None.

        These pods are parked: they stay out of the queue until `unpark` is called.
        """
        positions = []
        for position, waiting in self.pods.items():
            waiting_gang = waiting.gang
            if waiting_gang is not None and gang in (None, waiting_gang):
                positions.append(position)
        parked = [self.pods.pop(position) for position in positions]
        self._parked.update((waiting.pod.position, waiting.pod) for waiting in parked)
        return parked

    def unpark(self, queue: SchedulingQueue) -> None:
        """Put parked pods back into the queue after a pod was bound or evicted.

        All waits may time out again, and preemptions of gangs are counted from zero again.
        """
        parked = self._parked
        self._parked = {}
        self._timed_out.clear()
        self._rounds.clear()
        for pod in parked.values():
            queue.restore(pod)

    def remove_preempted_pods(self, victims: Iterable[Position], preemptor: Position) -> dict[Position, PermitWait]:
        """Remove the waits of the victims that wait at Permit, and return them by position.

        One preemption by `preemptor` is counted for each of their gangs. These pods leave their nodes as PREEMPTED and
        are tried again instead of being deleted. This method must be called before the first of them leaves.
        """
        waiting = {position: self.pods.pop(position) for position in victims if position in self.pods}
        self._rounds.update({(preemptor, victim.gang) for victim in waiting.values() if victim.gang})
        return waiting

    def stop_looping_gangs(
        self, queue: SchedulingQueue, leave: Callable[[PermitWait, PermitOutcome], None]
    ) -> list[Position]:
        """Stop gangs whose waiting pods are preempted again and again, and return the positions of their queued pods.

        `leave` is called to take each waiting pod off its node, and all pods of these gangs leave the queue. These pods
        are parked until `unpark` is called.
        """
        # Take the waiting pods off their nodes.
        gangs = dict.fromkeys(gang for (_preemptor, gang), rounds in self._rounds.items() if rounds == MAX_ROUNDS)
        parked: list[PermitWait] = []
        for gang in gangs:
            parked += self.park_gangs(gang)
        for waiting in parked:
            leave(waiting, PREEMPTED)

        # Take all pods of the gangs out of the queue, and forget the preemptions.
        removed: dict[Position, QueuedPod] = {}
        for gang in gangs:
            for position in map(Position, self._view.pods.positions_by_gang[gang].tolist()):
                pod = queue.delete(position)
                if pod is not None:
                    removed[position] = pod
        self._parked |= removed
        self._rounds = Counter(
            {(preemptor, gang): rounds for (preemptor, gang), rounds in self._rounds.items() if gang not in gangs}
        )
        return list(removed)
