"""Pod groups in the replay of the queue: a popped pod is tried together with all waiting pods of its group.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go, podGroupInfoForPod and submitPodGroupAlgorithmResult in
pkg/scheduler/schedule_one_podgroup.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.cycle import NO_GROUP_NOMINATIONS, GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    GroupTree,
    build_pod_group_key,
    find_composite_tree,
)
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import GroupResults, HierarchyCycle
from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group, run_tree_cycle
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    LEFT_OVER_AT_ONCE,
    REPORTS_VIOLATIONS,
    find_validation_error,
)
from kschedctl.scheduler.engine.pod_groups.state import find_group_state, find_pod_group, schedules_groups_together
from kschedctl.scheduler.engine.pod_groups.submission import (
    find_bound_members,
    find_failed_members,
    find_new_condition,
)
from kschedctl.scheduler.engine.pod_groups.victims import get_preemptor_key
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.queue_run.queue_run import GroupRecord, QueueReplay
from kschedctl.scheduler.queueing.scheduling_loop import Failed
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pods import GroupKey, get_group_key


class QueuedPodGroups:
    """The pod groups of a scheduler's cluster. It has none if the feature gate is off."""

    def __init__(self, scheduler: Scheduler) -> None:
        gates = scheduler.gates
        self._scheduler = scheduler
        self._is_enabled = schedules_groups_together(gates)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")

    @cached_property
    def members(self) -> frozenset[Position]:
        """The positions of the pods that belong to a pod group."""
        groups = self._scheduler.view.pods.positions_by_group.values() if self._is_enabled else ()
        return frozenset(Position(position) for positions in groups for position in positions.tolist())

    def schedule_group(self, run: QueueReplay, popped: QueuedPod) -> None:
        """Try the popped pod with the waiting pods of its group or tree of groups, and apply the result.

        If the group is invalid, all its pods fail without a cycle. Otherwise, terminating pods are dropped from the
        queue. If no pods remain, nothing is tried.
        """
        # Pop the waiting pods of all groups.
        key = get_group_key(run.exact.get_pod(popped.position))
        assert key is not None
        tree = find_composite_tree(run.view, key)
        keys = [leaf.pod_group for leaf in tree.leaves] if tree else [key]
        queued = {group: _sort_by_priority(_pop_group_members(run, group, popped)) for group in keys}

        # Validate the group. Only pods of a valid group are dropped because they terminate.
        release = self._scheduler.gates.release
        infos = {pod.position: run.build_info(pod.position) for pod in chain.from_iterable(queued.values())}
        group_object = tree.group if tree else find_pod_group(run.view, key)
        error = find_validation_error(group_object, infos, run.view, release)
        if not error:
            queued = {group: _drop_terminating_pods(run, pods) for group, pods in queued.items()}
        if not any(queued.values()):
            return

        # Try the pods, or let all of them fail.
        attempt = _GroupAttempt(run, key, queued, tree)
        if error:
            failed_results = attempt.build_failed_results(error)
            attempt.apply_results(failed_results, writes_condition=REPORTS_VIOLATIONS.at(release))
        else:
            results = attempt.run_cycle(topology_aware=self.topology_aware, workload_aware=self.workload_aware)
            attempt.apply_results(results)


def _sort_by_priority(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    """Return the pods sorted by priority, highest first, then by the time of their first attempt."""
    return sorted(pods, key=lambda pod: (-pod.priority, pod.initial_attempt))


def _pop_group_members(run: QueueReplay, key: GroupKey, popped: QueuedPod) -> Iterator[QueuedPod]:
    """Take the pods of a group that are tried now out of the queue, and yield them.

    These are the popped pod, if it belongs to the group, and all waiting pods of the group that may be popped.
    """
    if get_group_key(run.exact.get_pod(popped.position)) == key:
        yield popped
    for position in find_group_state(run.view, key).unscheduled.tolist():
        if position != popped.position:
            pod = run.queue.pop_specific(Position(position))
            if pod is not None:
                yield pod


def _drop_terminating_pods(run: QueueReplay, pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    """Take terminating pods off the queue, and return the other pods."""
    remaining = []
    for pod in pods:
        if run.build_info(pod.position).terminating:
            run.queue.done(pod.position)
        else:
            remaining.append(pod)
    return remaining


class _GroupAttempt:
    """One cycle of a group or a tree of groups, from the popped pods to the record of the cycle.

    `queued` has the popped pods by group, in the order in which groups are tried. `key` is the group of the pod that
    was popped first.
    """

    def __init__(
        self, run: QueueReplay, key: GroupKey, queued: Mapping[GroupKey, Sequence[QueuedPod]], tree: GroupTree | None
    ) -> None:
        self.run, self.key, self.queued, self.tree = run, key, queued, tree
        self.order = [pod.position for pods in queued.values() for pod in pods]

    def build_failed_results(self, error: str) -> GroupResults:
        """Build one error result for every group of the tree, or for the single group. No pod is tried."""
        # Trees exist only since v1.37, in which groups have nominations.
        nominated_rows = NO_GROUP_NOMINATIONS if self.tree else None
        result = GroupResult(Status(Code.ERROR, (error,)), nominated_rows=nominated_rows)
        return dict.fromkeys(self._list_keys(), result)

    def run_cycle(self, *, topology_aware: bool, workload_aware: bool) -> GroupResults:
        """Run the cycle of the group or tree of groups, and return the results by group.

        If the group does not fit and `workload_aware` is set, the group preempts as a whole. `topology_aware` is
        ignored for a tree of groups, which is always placed by topology.
        """
        framework = self._get_framework()
        view = self.run.view
        infos = {position: self.run.build_info(position) for position in self.order}
        sampling = self.run.exact.sampling

        # A tree of groups has a cycle of its own.
        if self.tree is not None:
            waiting = {
                build_pod_group_key(group): [pod.position for pod in pods] for group, pods in self.queued.items()
            }
            tree_cycle = HierarchyCycle(framework, view, self.tree, waiting=waiting, infos=infos, sampling=sampling)
            return run_tree_cycle(tree_cycle, workload_aware=workload_aware)

        cycle = PodGroupCycle(
            framework,
            view,
            key=self.key,
            members=self.order,
            infos=infos,
            topology_aware=topology_aware,
            sampling=sampling,
        )
        result = cycle.run()
        if workload_aware and result.status.code is Code.UNSCHEDULABLE:
            result = preempt_for_group(cycle, result)
        return {build_pod_group_key(self.key): result}

    def apply_results(self, results: GroupResults, *, writes_condition: bool = True) -> None:
        """Apply the results: bind the placed pods, preempt victims, and put all other pods back.

        The effects are added to the run's record. With `writes_condition`, the result is written as a condition into
        the status of the group.
        """
        # Record the result of each group, and of the root of a tree.
        records = [
            self._build_group_record(group, results[build_pod_group_key(group)], writes_condition=writes_condition)
            for group in self.queued
        ]
        if self.tree:
            root_record = GroupRecord(
                key=self.tree.pod_group,
                order=tuple(self.order),
                result=results[self.tree.key],
                condition=None,
                below=tuple(records),
            )
        else:
            (root_record,) = records  # without a tree, the attempt has a single group
        self.run.record.group = root_record

        # Apply the results.
        self._preempt_victims(root_record.result)
        for record in records:
            self._bind_or_requeue_members(record)

    def _list_keys(self) -> list[EntityKey]:
        """Return the keys of the whole tree, including its CompositePodGroups, or of the single group."""
        return [subtree.key for subtree in self.tree.subtrees] if self.tree else [build_pod_group_key(self.key)]

    def _build_group_record(self, key: GroupKey, result: GroupResult, *, writes_condition: bool) -> GroupRecord:
        """Build the record of one group's result, including the condition if `writes_condition`."""
        release = self.run.scheduler.gates.release
        group = find_pod_group(self.run.view, key)
        condition = find_new_condition(result, group, release) if writes_condition else None
        order = tuple(pod.position for pod in self.queued[key])
        return GroupRecord(key=key, order=order, result=result, condition=condition)

    def _bind_or_requeue_members(self, record: GroupRecord) -> None:
        """Bind the placed pods of a group, and put its other pods back into the queue.

        If a bound pod waits at Permit, the group's unscheduled pods move to the active queue. Since 1.37, the pods put
        back move there as soon as one pod of the group is bound.
        """
        result = record.result
        bound = find_bound_members(result)
        failed = find_failed_members(result, record.order, self.run.view)
        for pod in self.queued[record.key]:
            if pod.position in bound:
                self.run.pods.bind(pod.position, bound[pod.position])
                self.run.queue.done(pod.position)
                self.run.record.bound[pod.position] = bound[pod.position]
                self._activate_members_awaited_by(pod.position)
            else:
                failure = failed[pod.position]
                failed_pod = Failed(failure.status.code, failure.message, failure.rejectors, failure.nominated)
                self.run.put_back(pod.position, failed_pod)

        if bound and LEFT_OVER_AT_ONCE.at(self.run.scheduler.gates.release):
            self.run.queue.activate(failed)

    def _get_framework(self) -> Framework:
        """Return the profile that schedules the pods.

        All pods of a group have the same profile, and it must exist.
        """
        framework = self.run.pods.find_framework(self.order[0])
        assert framework is not None
        return framework

    def _activate_members_awaited_by(self, position: Position) -> None:
        """Move the group's pods without a node to the active queue, if this placed pod waits for them.

        Permit is run to find out whether the pod waits.
        """
        framework = self._get_framework()
        view = self.run.view
        permit = run_permit(framework, self.run.build_info(position), view, int(view.node[position])).status
        if permit.code is Code.WAIT:
            self.run.queue.activate(map(Position, find_group_state(view, self.key).unscheduled.tolist()))

    def _preempt_victims(self, result: GroupResult) -> None:
        """Preempt the victims of each member, record the victims of the group as a whole, and gate the preemptors.

        Pods that are already being deleted are left out. Members may share victims.
        """
        for member in result.members:
            victims_of_member = self._exclude_terminating_victims(member.victims)
            if victims_of_member:
                self.run.preempt(member.position, victims_of_member, member.row)
                self._gate_preemptor(member.position)

        # These victims belong to no single member or node, so no other pod loses its nomination for a node to them.
        victims_of_group = self._exclude_terminating_victims(result.victims)
        if victims_of_group:
            self.run.record.victims += victims_of_group
            any_member, *_ = self.order  # each member stands for the group, which is the preemptor
            self._gate_preemptor(any_member)

    def _exclude_terminating_victims(self, victims: Sequence[Position]) -> tuple[Position, ...]:
        """Return the victims that are not already being deleted."""
        return tuple(victim for victim in victims if not self.run.build_info(victim).terminating)

    def _gate_preemptor(self, position: Position) -> None:
        """Keep a preemptor out of the queue while its victims are evicted asynchronously.

        Without the feature gate SchedulerAsyncPreemption, nothing is done. With workload-aware preemption, the
        preemptor is the pod's group if it has one.
        """
        gates = self.run.scheduler.gates
        if gates.enabled("SchedulerAsyncPreemption"):
            pod = self.run.exact.get_pod(position)
            self.run.view.preempting.add(
                get_preemptor_key(pod, workload_aware=gates.enabled("WorkloadAwarePreemption"))
            )
