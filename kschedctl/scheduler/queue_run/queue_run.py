"""The replay of the scheduling queue by full cycles while time stands still.

The effects of a cycle may return as events. Upstream: ScheduleOne in pkg/scheduler/schedule_one.go and
pkg/scheduler/eventhandlers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row, find_positions
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
from kschedctl.scheduler.engine.pod_groups.submission import PodGroupCondition
from kschedctl.scheduler.engine.queued_pod import Clock, QueuedPod
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.queue_run.exact_search import ExactSearch, Signer
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, IncomingPods, PodsOnNodes, list_lower_priority_nominees
from kschedctl.scheduler.queueing.queue_order import QueueOrder
from kschedctl.scheduler.queueing.queue_plugins import QueuePlugins
from kschedctl.scheduler.queueing.scheduling_loop import Failed, SchedulingLoop
from kschedctl.scheduler.queueing.scheduling_queue import QueueRules, SchedulingQueue
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTED, PREEMPTION_LOOP, PermitWait, PermitWaits
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey


@dataclass(frozen=True)
class GroupRecord:
    """The result of a group's cycle."""

    key: GroupKey
    order: tuple[Position, ...]
    result: GroupResult
    condition: PodGroupCondition | None
    """The condition written into the group's status, or None if it does not change."""
    below: tuple[GroupRecord, ...] = ()
    """The PodGroups below the root of a tree of groups."""


@dataclass
class CycleRecord:
    """The effects of one cycle."""

    popped: Position
    """The pod that was popped from the queue."""
    bound: dict[Position, Row] = field(default_factory=dict)
    """Pods bound in this cycle or after it, because they waited at Permit before, with their rows."""
    failed: dict[Position, Failed] = field(default_factory=dict)
    """Pods rejected in this cycle or after it, because they waited at Permit before."""
    victims: tuple[Position, ...] = ()
    """The pods that are preempted."""
    cleared: tuple[Position, ...] = ()
    """Pods whose nomination is cleared."""
    scheduled: Choice | None = None
    """The choice for a single pod that was placed."""
    waiting: dict[Position, Row] = field(default_factory=dict)
    """The popped pod with its row, if Permit plugins make it wait."""
    group: GroupRecord | None = None
    """The result of a pod-group cycle."""


class PodGroups(Protocol):
    """The pod groups of a cluster, whose members are tried together."""

    @property
    def members(self) -> Container[Position]:
        """The positions of the pods that belong to a group."""

    def schedule_group(self, run: QueueReplay, popped: QueuedPod) -> None:
        """Run the cycle of the group to which a popped pod belongs."""


class QueueReplay(SchedulingLoop):
    """A run over the pods of a cluster that wait for a node, on a fork of the scheduler's snapshot.

    In the open loop, the scheduler sees no effects of a cycle: neither bindings nor nominations nor evictions. In the
    closed loop, all of them return as events, each kind sorted by name. `record` has the effects of the current cycle.
    """

    def __init__(self, scheduler: Scheduler, groups: PodGroups | None = None) -> None:
        self.scheduler, self.groups, gates = scheduler, groups, scheduler.gates
        view = scheduler.view.fork()
        view.time_passes = False
        pods = PodsOnNodes(scheduler, IncomingPods(view), {})
        self.plugins = QueuePlugins(scheduler, view, self.build_info)
        clock = Clock()
        view.gang_history = GangHistory(clock)
        rules = QueueRules.from_configuration(
            scheduler.configuration, gates, groups.members if groups else frozenset[Position]()
        )
        queue = SchedulingQueue(self.plugins, rules, clock, QueueOrder(scheduler.queue_sort, view))
        self._queued: dict[Position, QueuedPod] = {}
        self.exact = ExactSearch(pods, queue, self._queued)
        super().__init__(pods, queue, self.exact, PermitWaits(view))
        self._signers: dict[str, Signer] = {}
        self.record = CycleRecord(Position(NO_ROW))

    def fill_queue(self) -> None:
        """Put all pods that wait for a node and have a profile into the queue, in the order of the cluster.

        With the feature gate GangScheduling, all pods arrive one after another, including pods that have a node. Each
        arrival may complete a group, in which case its event moves waiting pods. Pods that have not arrived are absent
        until then.
        """
        has_gang_scheduling = self.scheduler.gates.enabled("GangScheduling")
        pod_count = len(self.view.pods)

        # Let no pod exist until it arrives if groups wait for their pods.
        if has_gang_scheduling:
            is_arriving = np.ones(pod_count, np.bool_)
            absent = np.ones(pod_count, np.bool_)
        else:
            is_arriving = self.view.node < 0
            absent = np.zeros(pod_count, np.bool_)
        self.view.absent = absent

        for position in find_positions(is_arriving):
            absent[position] = False  # also in the view, which has the same array
            info = self.build_info(position)
            if not info.spec.node_name and self.pods.find_framework(position):
                pod = QueuedPod(position, info.priority, signature=self._sign_pod(info))
                self._queued[position] = pod
                self.queue.add(pod)
            if has_gang_scheduling and self.queue.unschedulable:
                arrival = ChangedObject(POD, old=None, new=info.pod)
                for occurrence in self.scheduler.event_handlers.list_occurrences(arrival):
                    self.queue.move(occurrence)

    def replay_open_loop(self) -> Iterator[CycleRecord]:
        """Yield the records of cycles until no pod is ready, without applying the cycles' effects."""
        while len(self.queue.active):
            record = self.schedule_one()
            if record is None:
                return
            yield record

    def replay_closed_loop(self) -> Iterator[CycleRecord]:
        """Yield the records of cycles and apply their effects, until no pod can be popped.

        If no pod can be popped but pods wait at Permit, they time out next. Pod groups always return to the queue, so
        the loop also ends once every remaining pod has been tried without success. The effects of that last cycle are
        not applied. At the end, parked pods return to the queue.
        """
        cycles_in_vain = 0
        while record := self.schedule_one() or self.time_out_waiting_pods():
            yield record
            cycles_in_vain = 0 if record.bound or record.victims else cycles_in_vain + 1
            waiting_pods = sum(1 for _ in self.queue)
            # More cycles in vain than pods: each pod has been tried since the last success
            if record.group is not None and cycles_in_vain > waiting_pods:
                break
            self.apply_effects(record)
        self.waiting.unpark(self.queue)

    def schedule_one(self) -> CycleRecord | None:
        """Run one cycle of a pod or a group and return its record, or None if no pod can be popped.

        A pod that no profile schedules, or that is being deleted, leaves the queue without a cycle, and the record is
        empty. Pods that need not wait at Permit any longer after the cycle are bound or put back.
        """
        popped = self.queue.pop()
        if popped is None:
            return None

        # Try the pod, alone or with its group.
        position = popped.position
        record = CycleRecord(position)
        self.record = record
        framework = self.pods.find_framework(position)
        if self.groups is not None and position in self.groups.members:
            self.groups.schedule_group(self, popped)
        elif framework is None or self.build_info(position).terminating:
            self.queue.done(position)
        else:
            self.attempt_pod(position, framework)
        self.view.preempting.clear()  # it gates only the pods that this cycle puts back

        # Record whether it waits at Permit, and end the waits that it completes.
        if waiting := self.waiting.pods.get(position):
            record.scheduled = waiting.choice
            record.waiting = {position: waiting.choice.row}
        self.end_completed_waits()
        return record

    def time_out_waiting_pods(self) -> CycleRecord | None:
        """Take the pods that waited too long at Permit off their nodes, and return a record of the failed attempts.

        The first of these pods counts as the popped pod. Return None if no pod waited too long.
        """
        record = self.record = CycleRecord(Position(NO_ROW))
        timed_out = self.time_out()  # puts the pods back, which adds their failures to `self.record`
        if not timed_out:
            return None
        record.popped = timed_out[0]
        return record

    def build_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of a pod in its current state."""
        return self.exact.build_info(position)

    def _sign_pod(self, info: PodInfo) -> bytes | None:
        """Return the pod's signature, or None if the pod has none.

        The scheduler treats pods with equal signatures alike. Each profile's signer is built once and reused.
        """
        name = info.spec.scheduler_name
        if name not in self._signers:
            framework = self.scheduler.find_framework(name)
            has_extenders = bool(self.scheduler.configuration.extenders)
            assert framework is not None
            self._signers[name] = Signer(framework, self.scheduler.gates, extenders=has_extenders, view=self.view)
        return self._signers[name].sign(info)

    # -- what a cycle does ----------------------------------------------------------------------------------------

    def get_queued_pod(self, position: Position) -> QueuedPod:
        """Return the queue entry of a pod that is being tried."""
        return self._queued[position]

    def prepare_moves(self, coming: Sequence[Position], leaving: Sequence[Position]) -> None:
        """Do nothing, because each pod's rejectors are determined in its own cycle."""

    def record_bound_pod(self, position: Position, choice: Choice) -> None:
        """Record that a pod is bound to the chosen node.

        For the pod of the current cycle, the choice is recorded too.
        """
        self.queue.done(position)
        self.record.bound[position] = choice.row
        if position == self.record.popped:
            self.record.scheduled = choice

    def put_back(self, position: Position, failure: Failed) -> None:
        """Put a rejected pod back into the queue, and record its failure and its nomination.

        If the failure has no nomination, the pod keeps its current one.
        """
        pod = self._queued[position]
        self.queue.add_unschedulable_pod(pod, failure.rejectors or NO_REJECTORS)
        # A plugin may have gated the pod meanwhile.
        self.record.failed[position] = failure._replace(rejectors=pod.rejectors)
        if failure.nominated is not None:
            self.view.nominate(position, failure.nominated)

    def record_error(self, position: Position, message: str) -> None:
        """Put a pod whose cycle ended with an error back into the queue."""
        self.put_back(position, Failed(Code.ERROR, message))

    def preempt(self, position: Position, victims: Sequence[Position], row: Row) -> None:
        """Record the victims, and the pods of lower priority that lose their nomination for the node.

        If there are no victims, no pod loses its nomination.
        """
        if victims:
            self.record.victims += tuple(victims)
            self.record.cleared += self.list_nominated_of_lower_priority(row, self._queued[position].priority)

    def list_nominated_of_lower_priority(self, row: Row, priority: int) -> tuple[Position, ...]:
        """Return the pods of lower priority whose status nominates this node.

        Pods whose nomination only the scheduler knows, not yet the API server, are left out.
        """
        nominated = list_lower_priority_nominees(self.view, row, priority)
        return tuple(position for position in nominated if self.exact.get_pod(position).status.nominated_node_name)

    def build_deletion_events(self, waiting: PermitWait) -> Sequence[Occurrence]:
        """Build the events of a pod that leaves the node on which it waited at Permit."""
        pod = self.exact.get_pod(waiting.pod.position)
        pod = replace(pod, spec=replace(pod.spec, node_name=self.view.nodes.names[waiting.choice.row]))
        return list(self.scheduler.event_handlers.list_occurrences(ChangedObject(POD, pod, new=None)))

    # -- what comes back ------------------------------------------------------------------------------------------

    def apply_effects(self, record: CycleRecord) -> None:
        """Apply a cycle's nominations, bindings and deletions, each kind sorted by name, and deliver their events.

        PDBs stay unchanged, because no controller recounts their pods. Gangs whose pods would preempt each other
        forever are stopped, and their failures are added to the record.
        """
        ended_waits = self.waiting.remove_preempted_pods(record.victims, record.popped)
        evicted = [
            victim for victim in record.victims if victim not in ended_waits and self.view.node[victim] != NO_ROW
        ]
        if record.bound or evicted:
            self.waiting.unpark(self.queue)

        # Nominations, bindings and deletions, in this order. Waits that end here add failures to the record.
        failed_in_cycle = dict(record.failed)
        self._apply_nominations(failed_in_cycle, record.cleared)
        self._apply_bindings(record.bound)
        for position in self._sort_by_name(dict.fromkeys(record.victims)):
            if position in ended_waits:
                self.end_wait(ended_waits[position], PREEMPTED)
            elif position in evicted:  # other victims left during the cycle, together with their gang
                self.pods.remove([position])
                self._apply_change(position, new=None)

        self._stop_looping_gangs(record)

        # The nominations of pods that failed after the cycle were not written yet.
        failed_later = {
            position: failure for position, failure in record.failed.items() if position not in failed_in_cycle
        }
        self._apply_nominations(failed_later)

    def _sort_by_name(self, positions: Iterable[Position]) -> list[Position]:
        """Return the positions sorted by the keys of their pods."""
        return sorted(positions, key=lambda position: self.view.pods.objects[position].key)

    def _stop_looping_gangs(self, record: CycleRecord) -> None:
        """Stop gangs whose pods preempt each other in a loop, and add the failures of their pods to the record."""
        for position in self.waiting.stop_looping_gangs(self.queue, self.end_wait):
            failure = record.failed.get(position, Failed(Code.ERROR, nominated=None))
            record.failed[position] = failure._replace(code=Code.ERROR, message=PREEMPTION_LOOP.message)

    def _apply_nominations(self, failed: Mapping[Position, Failed], cleared: Iterable[Position] = ()) -> None:
        """Write the nominations of failed pods into their status, and remove the nominations of the `cleared` pods.

        A pod whose failure has no nomination keeps its current nomination.
        """
        rows = {position: failure.nominated for position, failure in failed.items() if failure.nominated is not None}
        rows |= dict.fromkeys(cleared, NO_ROW)
        for position in self._sort_by_name(rows):
            row = rows[position]
            self._set_nominated_node(position, "" if row == NO_ROW else self.view.nodes.names[row])

    def _set_nominated_node(self, position: Position, node: str) -> None:
        """Write a nominated node, or an empty name, into the pod's status, and deliver the events of this change.

        Nothing happens if the status already has this name.
        """
        old = self.exact.get_pod(position)
        if old.status.nominated_node_name == node:
            return
        if not node:
            self.view.nominate(position, NO_ROW)
        self._apply_change(position, replace(old, status=replace(old.status, nominated_node_name=node)))

    def _apply_bindings(self, bound: Mapping[Position, Row]) -> None:
        """Write the node of each bound pod into the pod's spec, sorted by name, and deliver the events.

        The bound pods also leave the queue.
        """
        for position in self._sort_by_name(bound):
            old = self.exact.get_pod(position)
            node_name = self.view.nodes.names[bound[position]]
            self._apply_change(position, replace(old, spec=replace(old.spec, node_name=node_name)))
            self.queue.delete(position)

    def _apply_change(self, position: Position, new: Pod | None) -> None:
        """Replace the pod with `new`, or delete it if `new` is None, and deliver the events of this change."""
        change = ChangedObject(POD, self.exact.get_pod(position), new)
        if new is not None:
            self.exact.replace_pod(position, new)
        elif self.view.absent is not None:
            # A deleted pod is not tried again, so its state stays as it was. Only its group must no longer count it.
            self.view.absent[position] = True
        for occurrence in self.scheduler.event_handlers.list_occurrences(change):
            if occurrence.itself:
                self.queue.update(position, occurrence)
            else:
                self.queue.move(occurrence)
