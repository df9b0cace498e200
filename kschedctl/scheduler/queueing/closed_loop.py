"""What a scheduling cycle sets going comes back: nominations, bindings and evictions, each kind by name.

Upstream: pkg/scheduler/eventhandlers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.queueing.scheduling_loop import CycleRecord, Failed, SchedulingLoop
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTED, PREEMPTION_LOOP


def closed_loop(loop: SchedulingLoop) -> Iterator[CycleRecord]:
    """Cycles until no pod can be popped, or all that is left are pod groups that were tried as things are.

    These come back whatever happens, so that as time stands still it would go on for ever.
    """
    in_vain = 0
    while record := loop.schedule_one() or timed_out(loop):
        yield record
        in_vain = 0 if record.bound or record.victims else in_vain + 1
        if record.group is not None and in_vain > sum(1 for _ in loop.queue):
            break
        bring_back(loop, record)
    loop.unpark()


def timed_out(loop: SchedulingLoop) -> CycleRecord | None:
    """How the cycle of the first pod that waits for Permit in vain ends, or of all, once no other can be tried."""
    permit_wait = loop.waiting.time_out(loop.queue.clock)
    waited = [permit_wait] if permit_wait else loop.waiting.park()
    if not waited:
        return None
    record = CycleRecord(waited[0].pod.position)
    for waiting in waited:
        loop.settle(waiting, waiting.timed_out(), record)
    if not permit_wait:
        for waiting in waited:
            loop.queue.delete(waiting.pod.position)
    loop.queue.flush_backoff()
    return record


def bring_back(loop: SchedulingLoop, record: CycleRecord) -> None:
    """Let the scheduler see what the cycle did. Budgets stay as they are, as nobody counts the pods again."""
    waited = loop.waiting.preempted(record.victims, record.popped)
    gone = [victim for victim in record.victims if victim not in waited and loop.view.node[victim] != NO_ROW]
    if record.bound or gone:
        loop.unpark()
    nodes = loop.view.nodes.names
    promised = {p: f.nominated for p, f in record.failed.items() if f.nominated is not None}
    promised |= dict.fromkeys(record.cleared, NO_ROW)
    for position in _by_name(loop, promised):
        row = promised[position]
        _nominated(loop, position, nodes[row] if row != NO_ROW else "")
    for position in _by_name(loop, record.bound):
        old = loop.object(position)
        _changed(loop, position, replace(old, spec=replace(old.spec, node_name=nodes[record.bound[position]])))
        loop.queue.delete(position)
    for position in _by_name(loop, dict.fromkeys(record.victims)):
        if position in waited:
            loop.settle(waited[position], PREEMPTED, record)
        elif position in gone:  # others left in the cycle itself, with their gang
            loop.simulation.take_down([position])
            _changed(loop, position, None)
    for position in loop.waiting.stop_rounds(loop.queue, lambda waiting, why: loop.settle(waiting, why, record)):
        record.failed[position] = Failed(Code.ERROR, PREEMPTION_LOOP.message, nominated=None)


def _by_name(loop: SchedulingLoop, positions: Iterable[Position]) -> list[Position]:
    return sorted(positions, key=lambda position: loop.view.pods.objects[position].key)


def _nominated(loop: SchedulingLoop, position: Position, node: str) -> None:
    """The node that a pod was promised, or none any more, stands in its status now."""
    old = loop.object(position)
    if old.status.nominated_node_name == node:
        return
    if not node:
        loop.view.nominate(position, NO_ROW)
    _changed(loop, position, replace(old, status=replace(old.status, nominated_node_name=node)))


def _changed(loop: SchedulingLoop, position: Position, new: Pod | None) -> None:
    """The API server tells of a pod that was changed, or deleted."""
    change = ChangedObject(POD, loop.object(position), new)
    if new is not None:
        loop.replace(position, new)
    elif loop.view.absent is not None:
        loop.view.absent[position] = True
    for occurrence in loop.scheduler.event_handlers.occurrences(change):
        if occurrence.itself:
            loop.queue.update(position, occurrence)
        else:
            loop.queue.move(occurrence)
