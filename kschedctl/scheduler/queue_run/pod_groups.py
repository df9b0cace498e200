"""Pod groups in the queue: when one of its pods is popped, all that wait are taken with it, and tried together.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go, podGroupInfoForPod and submitPodGroupAlgorithmResult in
pkg/scheduler/schedule_one_podgroup.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    GroupTree,
    entity_key_of_pod_group,
    find_composite_tree,
)
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import GroupResults, HierarchyCycle
from kschedctl.scheduler.engine.pod_groups.of_members import preemptor_key
from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group, run_tree
from kschedctl.scheduler.engine.pod_groups.since_1_37 import LEFT_OVER_AT_ONCE, LIKE_ITS_PODS, find_validation_error
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, find_state, schedules_groups_together
from kschedctl.scheduler.engine.pod_groups.submission import (
    find_bound_members,
    find_failed_members,
    find_new_condition,
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
        self._scheduler, self._on = scheduler, schedules_groups_together(gates)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")

    @cached_property
    def members(self) -> frozenset[Position]:
        groups = self._scheduler.view.pods.by_group.values() if self._on else ()
        return frozenset(Position(position) for positions in groups for position in positions.tolist())

    def schedule(self, run: QueueReplay, popped: QueuedPod) -> None:
        key = group_key(run.exact.object(popped.position))
        assert key is not None
        tree = find_composite_tree(run.view, key)
        keys = [leaf.pod_group for leaf in tree.leaves] if tree else [key]
        queued = {of: _in_order(_taken(run, of, popped)) for of in keys}
        release = self._scheduler.gates.release
        infos = {pod.position: run.info(pod.position) for pods in queued.values() for pod in pods}
        refused = find_validation_error(tree.group if tree else find_pod_group(run.view, key), infos, run.view, release)
        if not refused:
            queued = {of: [pod for pod in pods if not _skipped(run, pod)] for of, pods in queued.items()}
        if not any(queued.values()):
            return
        attempt = _Attempt(run, key, queued, tree)
        if refused:
            attempt.submit(attempt.failed(refused), written=LIKE_ITS_PODS.at(release))
        else:
            attempt.submit(attempt.result(topology_aware=self.topology_aware, workload_aware=self.workload_aware))


def _in_order(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    return sorted(pods, key=lambda pod: (-pod.priority, pod.initial_attempt))


def _taken(run: QueueReplay, key: GroupKey, popped: QueuedPod) -> Iterator[QueuedPod]:
    """The pods of the group that the queue gives away, and the one that it gave already if it is of it."""
    waiting = [Position(position) for position in find_state(run.view, key).unscheduled.tolist()]
    own = [popped] if group_key(run.exact.object(popped.position)) == key else []
    others = (run.queue.pop_specific(position) for position in waiting if position != popped.position)
    return (pod for pod in (*own, *others) if pod is not None)


def _skipped(run: QueueReplay, pod: QueuedPod) -> bool:
    """A pod that is being deleted is not tried, and does not come back."""
    if run.info(pod.position).terminating:
        run.queue.done(pod.position)
        return True
    return False


class _Attempt:
    """One cycle of a group, or of a tree of them, from the pods that were taken to the record of it.

    ``queued``: those of each group, of a tree in the order in which its groups are tried; ``key``: that of the pod
    that was popped.
    """

    def __init__(
        self, run: QueueReplay, key: GroupKey, queued: Mapping[GroupKey, Sequence[QueuedPod]], tree: GroupTree | None
    ) -> None:
        self.run, self.key, self.queued, self.tree = run, key, queued, tree
        self.order = [pod.position for pods in queued.values() for pod in pods]

    def failed(self, why: str) -> GroupResults:
        """What all come to of which no pod is tried."""
        result = GroupResult(Status(Code.ERROR, (why,)), promised={} if self.tree else None)
        return dict.fromkeys(self._groups(), result)

    def result(self, *, topology_aware: bool, workload_aware: bool) -> GroupResults:
        """What trying them comes to."""
        framework, view = self._framework(), self.run.view
        infos = {position: self.run.info(position) for position in self.order}
        sampling = self.run.exact.sampling
        if self.tree is not None:
            waiting = {entity_key_of_pod_group(of): [pod.position for pod in pods] for of, pods in self.queued.items()}
            tree_cycle = HierarchyCycle(framework, view, self.tree, waiting, infos, sampling=sampling)
            return run_tree(tree_cycle, workload_aware=workload_aware)
        cycle = PodGroupCycle(framework, view, self.key, self.order, infos, topology_aware, sampling=sampling)
        result = cycle.run()
        if workload_aware and result.status.code is Code.UNSCHEDULABLE:
            result = preempt_for_group(cycle, result)
        return {entity_key_of_pod_group(self.key): result}

    def submit(self, results: GroupResults, *, written: bool = True) -> None:
        """Bind what is placed, and put the rest back; the evictions for members and group are under way meanwhile.

        ``written``: what came of it is written into the status of the group.
        """
        records = [self._record(of, results[entity_key_of_pod_group(of)], written=written) for of in self.queued]
        below = tuple(records) if self.tree else ()
        root = results[self.tree.key] if self.tree else records[0].result
        name = self.tree.pod_group if self.tree else self.key
        condition = None if self.tree else records[0].condition
        self.run.record.group = GroupRecord(name, tuple(self.order), root, condition, below)
        self._evict(root)
        for record in records:
            self._bind(record)

    def _groups(self) -> list[EntityKey]:
        return [node.key for node in self.tree.nodes] if self.tree else [entity_key_of_pod_group(self.key)]

    def _record(self, of: GroupKey, result: GroupResult, *, written: bool) -> GroupRecord:
        release, group = self.run.scheduler.gates.release, find_pod_group(self.run.view, of)
        condition = find_new_condition(result, group, release) if written else None
        return GroupRecord(of, tuple(pod.position for pod in self.queued[of]), result, condition)

    def _bind(self, record: GroupRecord) -> None:
        """Bind the pods of a group that are placed, and put the others back."""
        result = record.result
        bound, failed = find_bound_members(result), find_failed_members(result, record.order, self.run.view)
        for pod in self.queued[record.key]:
            if pod.position in bound:
                self.run.pods.bind(pod.position, bound[pod.position])
                self.run.queue.done(pod.position)
                self.run.record.bound[pod.position] = bound[pod.position]
                self._wait_for_others(pod.position)
            else:
                failure = failed[pod.position]
                why = Failed(failure.status.code, failure.message, failure.rejectors, failure.nominated)
                self.run.put_back(pod.position, why)
        if bound and LEFT_OVER_AT_ONCE.at(self.run.scheduler.gates.release):
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
            self.run.queue.activate(map(Position, find_state(view, self.key).unscheduled.tolist()))

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
            self.run.view.preempting.add(preemptor_key(pod, gates.enabled("WorkloadAwarePreemption")))
