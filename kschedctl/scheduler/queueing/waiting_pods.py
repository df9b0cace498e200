"""Pods that Permit plugins let wait, on the node that they are taken to be on, before they are bound.

Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go; bindingCycle and handleBindingCycleError in
pkg/scheduler/schedule_one.go (v1.36). There a plugin allows a waiting pod, or rejects it, when it pleases; here those
that asked it to wait are asked anew after each cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kschedctl.api.arrays import Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.api.times import go_seconds
from kschedctl.scheduler.cycle import FrameworkLike
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.permit import TIMED_OUT, PermitOutcome, run_permit
from kschedctl.scheduler.pod_groups.gangs import gang_plugin
from kschedctl.scheduler.queueing.queued_pod import NANOSECONDS, Clock, QueuedPod
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

PREEMPTED = "waiting on permit for pod: preempted"


@dataclass
class PermitWait:
    """A pod on its row; ``pending``: the plugins that have not allowed it yet, and how many seconds each waits.

    ``since``: when it began to wait, in nanoseconds.
    """

    pod: QueuedPod
    framework: Framework
    info: PodInfo
    row: Row
    pending: dict[str, int]
    since: int

    def end(self) -> tuple[int, str]:
        """When it will have waited in vain, and for which plugin."""
        return min((self.since + seconds * NANOSECONDS, plugin) for plugin, seconds in self.pending.items())


class PermitWaits:
    """Those that wait now, by position. Who waited in vain once does not do so again: time would never end."""

    def __init__(self, view: Fork) -> None:
        self._view = view
        self._in_vain: set[Position] = set()
        self.pods: dict[Position, PermitWait] = {}

    def ask(self) -> Iterator[tuple[PermitWait, PermitOutcome]]:
        """Those that need not wait any longer, each with Success, the refusal or the error of a plugin."""
        for position, waiting in list(self.pods.items()):
            outcome = run_permit(waiting.framework, waiting.info, self._view, waiting.row, frozenset(waiting.pending))
            waiting.pending = {plugin: waiting.pending[plugin] for plugin in outcome.waiting}
            if outcome.status.code is not Code.WAIT:
                yield self.pods.pop(position), outcome

    def time_out(self, clock: Clock) -> tuple[PermitWait, PermitOutcome] | None:
        """The first that will have waited in vain, at the time when it has; None where none will."""
        ends = [(*waiting.end(), position) for position, waiting in self.pods.items() if position not in self._in_vain]
        if not ends:
            return None
        end, plugin, position = min(ends)
        clock.time = max(clock.time, end)
        self._in_vain.add(position)
        waiting = self.pods.pop(position)
        reason = TIMED_OUT.format(go_seconds(waiting.pending[plugin]), plugin)
        return waiting, PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin)

    def given_up(self, framework: FrameworkLike, gang: GangKey) -> list[PermitWait]:
        """Those of a gang that leave when its plugin gives it up; who did so once before waits on."""
        plugin = gang_plugin(framework)
        of_gang = [position for position, each in self.pods.items() if plugin and plugin.gang(each.info.pod) == gang]
        chosen = [position for position in of_gang if position not in self._in_vain]
        self._in_vain.update(chosen)
        return [self.pods.pop(position) for position in chosen]

    def preempted(self, position: Position) -> tuple[PermitWait, PermitOutcome]:
        """One that has to make room: it is tried again, rather than deleted."""
        return self.pods.pop(position), PermitOutcome(Status(Code.ERROR, (PREEMPTED,)))
