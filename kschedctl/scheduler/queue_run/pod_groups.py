"""Pod groups in the queue: when one of its pods is popped, all that wait are taken with it, and tried together.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go, podGroupInfoForPod and submitPodGroupAlgorithmResult in
pkg/scheduler/schedule_one_podgroup.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.of_members import preempting_as
from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group
from kschedctl.scheduler.engine.pod_groups.since_1_37 import LEFT_OVER_AT_ONCE, LIKE_ITS_PODS, refused_before
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, placed_in_groups, state_of
from kschedctl.scheduler.engine.pod_groups.submission import (
    bound_members,
    failed_members,
    written_condition,
)
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.queue_run.queue_run import GroupRecord, QueueReplay
from kschedctl.scheduler.queueing.scheduling_loop import Failed
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pods import GroupKey, group_key


class QueuedPodGroups:
    """The pod groups of a scheduler's cluster; none without the gate."""

    def __init__(self, scheduler: Scheduler) -> None:
        gates = scheduler.gates
        self._scheduler, self._on = scheduler, placed_in_groups(gates)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")

    @cached_property
    def members(self) -> frozenset[Position]:
        groups = self._scheduler.view.pods.by_group.values() if self._on else ()
        return frozenset(Position(position) for positions in groups for position in positions.tolist())

    def schedule(self, run: QueueReplay, popped: QueuedPod) -> None:
        key = group_key(run.exact.object(popped.position))
        assert key is not None
        queued = sorted(_taken(run, key, popped), key=lambda pod: (-pod.priority, pod.initial_attempt))
        release = self._scheduler.gates.release
        infos = {pod.position: run.info(pod.position) for pod in queued}
        refused = refused_before(find_pod_group(run.view, key), infos, run.view, release)
        if not refused:
            queued = [pod for pod in queued if not _skipped(run, pod)]
        if queued:
            attempt = _Attempt(run, key, queued)
            if refused:
                result = GroupResult(Status(Code.ERROR, (refused,)))
                attempt.submit(result, written=LIKE_ITS_PODS.at(release))
            else:
                attempt.submit(attempt.result(topology_aware=self.topology_aware, workload_aware=self.workload_aware))


def _taken(run: QueueReplay, key: GroupKey, popped: QueuedPod) -> Iterator[QueuedPod]:
    """The pods of the group that the queue gives away."""
    waiting = [Position(position) for position in state_of(run.view, key).unscheduled.tolist()]
    others = (run.queue.pop_specific(position) for position in waiting if position != popped.position)
    return (pod for pod in (popped, *others) if pod is not None)


def _skipped(run: QueueReplay, pod: QueuedPod) -> bool:
    """A pod that is being deleted is not tried, and does not come back."""
    if run.info(pod.position).terminating:
        run.queue.done(pod.position)
        return True
    return False


class _Attempt:
    """One cycle of a group, from the pods that were taken to the record of it."""

    def __init__(self, run: QueueReplay, key: GroupKey, queued: Sequence[QueuedPod]) -> None:
        self.run, self.key, self.queued = run, key, queued
        self.order = [pod.position for pod in queued]

    def result(self, *, topology_aware: bool, workload_aware: bool) -> GroupResult:
        """What trying them comes to."""
        framework = self._framework()
        infos = {position: self.run.info(position) for position in self.order}
        sampling = self.run.exact.sampling
        cycle = PodGroupCycle(framework, self.run.view, self.key, self.order, infos, topology_aware, sampling=sampling)
        result = cycle.run()
        if workload_aware and result.status.code is Code.UNSCHEDULABLE:
            return preempt_for_group(cycle, result)
        return result

    def submit(self, result: GroupResult, *, written: bool = True) -> None:
        """Bind what is placed, and put the rest back; the evictions for members and group are under way meanwhile.

        ``written``: what came of it is written into the status of the group.
        """
        release, group = self.run.scheduler.gates.release, find_pod_group(self.run.view, self.key)
        condition = written_condition(result, group, release) if written else None
        self.run.record.group = GroupRecord(self.key, tuple(self.order), result, condition)
        self._evict(result)
        bound, failed = bound_members(result), failed_members(result, self.order, self.run.view)
        for pod in self.queued:
            if pod.position in bound:
                self.run.pods.bind(pod.position, bound[pod.position])
                self.run.queue.done(pod.position)
                self.run.record.bound[pod.position] = bound[pod.position]
                self._wait_for_others(pod.position)
            else:
                failure = failed[pod.position]
                why = Failed(failure.status.code, failure.message, failure.rejectors, failure.nominated)
                self.run.put_back(pod.position, why)
        if bound and LEFT_OVER_AT_ONCE.at(release):
            self.run.queue.activate(failed)

    def _framework(self) -> Framework:
        """The profile of all of them."""
        framework = self.run.pods.framework(self.order[0])
        assert framework is not None
        return framework

    def _wait_for_others(self, position: Position) -> None:
        """A pod that Permit lets wait has those tried again that have no node."""
        framework, view = self._framework(), self.run.view
        permit = run_permit(framework, self.run.info(position), view, int(view.node[position])).status
        if permit.code is Code.WAIT:
            self.run.queue.activate(map(Position, state_of(view, self.key).unscheduled.tolist()))

    def _evict(self, result: GroupResult) -> None:
        """Each member evicts for itself, also whom another evicts as well."""
        for member in result.members:
            if victims := self._staying(member.victims):
                self.run.preempt(member.position, victims, member.row)
                self._hold_back(member.position)
        if victims := self._staying(result.victims):
            self.run.record.victims += victims
            self._hold_back(self.order[0])

    def _staying(self, victims: Sequence[Position]) -> tuple[Position, ...]:
        """The victims that are not leaving already."""
        return tuple(victim for victim in victims if not self.run.info(victim).terminating)

    def _hold_back(self, position: Position) -> None:
        """The pod, or with workload-aware preemption its group, is not tried while victims are being evicted."""
        gates = self.run.scheduler.gates
        if gates.enabled("SchedulerAsyncPreemption"):
            pod = self.run.exact.object(position)
            self.run.view.preempting.add(preempting_as(pod, gates.enabled("WorkloadAwarePreemption")))
