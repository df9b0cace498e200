"""The scheduling loop: a pod is tried, and is bound, waits at Permit for other pods, or is put back.

Upstream: schedulingCycle, bindingCycle, handleBindingCycleError and handleSchedulingFailure in
pkg/scheduler/schedule_one.go (v1.36). Pods are tried one after the other, and whatever a cycle starts is complete when
the cycle ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import GangPlugin, find_gang_plugin
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, PodsOnNodes
from kschedctl.scheduler.queueing.scheduling_queue import SchedulingQueue
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTION_LOOP, PermitWait, PermitWaits
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.pod_info import PodInfo


class Failed(NamedTuple):
    """The reason why a pod was not bound. Its message and rejectors may be left out until someone needs them."""

    code: Code
    message: str = ""
    rejectors: Rejectors | None = NO_REJECTORS
    nominated: Row | None = NO_ROW
    """The nominated row, NO_ROW if the nomination is cleared, or None if it stays as it was."""


PREEMPTION_LOOP_FAILURE = Failed(Code.ERROR, PREEMPTION_LOOP.message)
"""The failure of pods that left their nodes because the pods of their gang preempt each other forever."""


class PostFilterEffect(NamedTuple):
    """The effect of PostFilter on a pod without feasible nodes: its failure and its victims."""

    failure: Failed
    """The failure with which the pod is put back."""
    victims: Sequence[Position] = ()
    """The pods that are preempted for it."""
    plugins_run: Container[str] = ()
    """The PostFilter plugins that were run."""
    evicts_later: bool = False
    """True if the victims leave while other pods are tried."""

    @property
    def row(self) -> Row:
        """The row on which victims make room, or NO_ROW."""
        return NO_ROW if self.failure.nominated is None else self.failure.nominated


class _GivenUpGang(NamedTuple):
    """A gang whose waiting pods have to leave their nodes, because a pod of the gang fits on no node."""

    pod: Pod
    reason: str


class NodeFinder(Protocol):
    """A way to find nodes for pods, by full cycles or from cached answers."""

    def build_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of the pod in its current state."""

    def find_node(self, position: Position, framework: Framework) -> Choice | None:
        """Return the node for a pod, or None if no node is feasible. Raises PluginError if a plugin fails."""

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """Return the effect of PostFilter on a pod for which `find_node` just returned None.

        Raises PluginError if a plugin fails.
        """


class SchedulingLoop(ABC):
    """A run over pods that wait for a node. Subclasses decide when events are seen and how time passes."""

    def __init__(self, pods: PodsOnNodes, queue: SchedulingQueue, search: NodeFinder, waiting: PermitWaits) -> None:
        self.pods, self.view, self.queue, self.search, self.waiting = pods, pods.view, queue, search, waiting

    # -- what subclasses define -----------------------------------------------------------------------------------

    @abstractmethod
    def get_queued_pod(self, position: Position) -> QueuedPod:
        """Return the queue entry of a pod that is being tried."""

    @abstractmethod
    def prepare_moves(self, coming: Sequence[Position], leaving: Sequence[Position]) -> None:
        """Prepare for moves that are about to happen: pods that come to nodes and pods that leave their nodes."""

    @abstractmethod
    def record_bound_pod(self, position: Position, choice: Choice) -> None:
        """Record that a pod is bound to the chosen node."""

    @abstractmethod
    def put_back(self, position: Position, failure: Failed) -> None:
        """Put a rejected pod back into the queue. Upstream: handleSchedulingFailure."""

    @abstractmethod
    def record_error(self, position: Position, message: str) -> None:
        """Record that a plugin's error ended the cycle of a pod."""

    @abstractmethod
    def build_deletion_events(self, waiting: PermitWait) -> Sequence[Occurrence]:
        """Build the events of a pod that leaves the node on which it waited at Permit."""

    @abstractmethod
    def preempt(self, position: Position, victims: Sequence[Position], row: Row) -> None:
        """Evict victims for a pod on its nominated node."""

    def select_pending_plugins(self, seconds: Mapping[str, int], plugin: GangPlugin | None) -> dict[str, int]:
        """Return the plugins for which the pod waits at Permit, with their timeouts in seconds.

        `seconds` has all plugins that make the pod wait. `plugin` is the plugin of its gang, or None.
        """
        return dict(seconds)

    # -- a pod's cycle --------------------------------------------------------------------------------------------

    def attempt_pod(self, position: Position, framework: Framework) -> None:
        """Run one pod's scheduling cycle. Afterwards, the pod is bound, waiting at Permit, or back in the queue.

        A pod without a feasible node may preempt. A plugin's error is recorded instead of raised.
        """
        try:
            choice = self.search.find_node(position, framework)
            if choice is None:
                self._put_back_and_preempt(position, framework)
                return
            self.prepare_moves(coming=(position,), leaving=())
            self.pods.bind(position, choice.row, choice.claim_results)
            if not framework.plugins_at("permit") or self._run_permit(position, framework, choice):
                self.record_bound_pod(position, choice)
        except PluginError as error:
            self.record_error(position, str(error))

    def _run_permit(self, position: Position, framework: Framework, choice: Choice) -> bool:
        """Run Permit for a pod on its node, and return whether it can be bound now.

        Otherwise, the pod waits at Permit, or it leaves the node and is put back into the queue. If the plugin of the
        pod's gang asks for other pods of the gang, they are activated. Raises PluginError if a plugin fails.
        """
        info = self.search.build_info(position)
        outcome = run_permit(framework, info, self.view, choice.row)
        if outcome.status.code not in (Code.SUCCESS, Code.WAIT):
            self._take_pod_off_node(position, framework, info.pod)
            if not outcome.status.rejected:
                raise PluginError(outcome.message)
            self.put_back(position, _build_permit_failure(outcome))
            return False

        # The plugin of a gang may have other pods of the gang tried at once.
        gang_plugin = find_gang_plugin(framework)
        if gang_plugin:
            siblings = gang_plugin.handle_permit_result(info.pod, self.view, waits=gang_plugin.name in outcome.waiting)
            self.queue.activate(siblings)

        # Wait for the plugins that have not allowed the pod yet.
        pending = self.select_pending_plugins(outcome.waiting, gang_plugin)
        if not pending:
            return True
        self.waiting.pods[position] = PermitWait(
            self.get_queued_pod(position),
            framework,
            info=info,
            choice=choice,
            pending=pending,
            since=self.queue.clock.now(),
        )
        return False

    def end_wait(self, waiting: PermitWait, outcome: PermitOutcome) -> None:
        """End a pod's wait at Permit: bind it if `outcome` is Success, otherwise take it off its node and put it back.

        If the pod leaves its node, the deletion events may move other pods.
        """
        position = waiting.pod.position
        if outcome.status.code is Code.SUCCESS:
            self.record_bound_pod(position, waiting.choice)
            return
        self.prepare_moves(coming=(), leaving=(position,))
        self._take_pod_off_node(position, waiting.framework, waiting.info.pod)
        events = self.build_deletion_events(waiting)
        if outcome.status.rejected:
            self.put_back(position, _build_permit_failure(outcome))
            for event in events:
                self.queue.move(event, excluded=position)
        else:  # after an error, the events reach the pod itself, too
            for event in events:
                self.queue.move(event)
            self.put_back(position, _build_permit_failure(outcome))

    def end_completed_waits(self, gang: GangKey | None = None) -> None:
        """Run Permit again, and bind or put back the pods that no longer need to wait.

        With `gang`, only its pods are considered.
        """
        for waiting, outcome in self.waiting.rerun_permit(gang):
            self.end_wait(waiting, outcome)

    def time_out(self) -> list[Position]:
        """Let the next wait at Permit time out, and return the pods that left their nodes.

        The clock advances to the timeout, and pods whose backoff is then over become active. If no pod can time out,
        all waiting pods of gangs leave their nodes, because no other pod can be tried. These pods stay out of the queue
        until a pod is bound or evicted.
        """
        timed_out = self.waiting.time_out(self.queue.clock)  # advances the clock
        ended = self.waiting.park_gangs() if timed_out is None else [timed_out]
        for waiting in ended:
            self.end_wait(waiting, waiting.build_timeout_outcome())

        # Ending the waits has put the pods back into the queue. Parked pods stay out of it until they are unparked.
        if timed_out is None:
            for waiting in ended:
                self.queue.delete(waiting.pod.position)
        self.queue.flush_backoff()
        return [waiting.pod.position for waiting in ended]

    def _put_back_and_preempt(self, position: Position, framework: Framework) -> None:
        """Run PostFilter for a pod without feasible nodes, put the pod back, and preempt its victims.

        If the victims are evicted asynchronously, the pod is gated while it is put back. If the plugin of the pod's
        gang gives up, the gang's waiting pods leave their nodes.
        """
        effect = self.search.run_post_filter(position, framework)
        given_up = self._find_gang_to_give_up(position, framework, effect)

        # While its victims are being evicted, the pod is gated: DefaultPreemption's PreEnqueue reads `preempting`.
        if effect.evicts_later:
            self.view.preempting.add(self.view.pods.objects[position].key)
        if effect.victims:
            self.prepare_moves(coming=(), leaving=effect.victims)
        self.put_back(position, effect.failure)
        if given_up:
            self._release_gang(framework, given_up.pod, given_up.reason)
        self.view.preempting.clear()
        if effect.row != NO_ROW:
            self.preempt(position, effect.victims, effect.row)

    def _take_pod_off_node(self, position: Position, framework: Framework, pod: Pod) -> None:
        """Take a pod off its node.

        If the pod belongs to a gang, record the gang's failure and end the waits of its other pods at Permit.
        """
        self.pods.take_back(position)
        if plugin := find_gang_plugin(framework):
            plugin.record_failure(pod, self.view)
            self._release_gang(framework, pod, plugin.sibling_rejection_reason)

    def _find_gang_to_give_up(
        self, position: Position, framework: Framework, effect: PostFilterEffect
    ) -> _GivenUpGang | None:
        """Return the pod's gang if its plugin gives up the gang's waiting pods, and record the gang's failure.

        The plugin gives up in its PostFilter, for a pod without feasible nodes. Return None if PostFilter did not run
        or the pods keep waiting.
        """
        plugin = find_gang_plugin(framework)
        if plugin is None or plugin.name not in effect.plugins_run:
            return None
        pod = self.search.build_info(position).pod
        reason = plugin.find_reason_to_give_up(pod, self.view)
        if not reason:
            return None
        plugin.record_failure(pod, self.view, fits_nowhere=True)
        return _GivenUpGang(pod, reason)

    def _release_gang(self, framework: Framework, pod: Pod, reason: str) -> None:
        """Take the waiting pods of a pod's gang off their nodes, and put them back with this reason.

        If the pod has no gang, do nothing.
        """
        plugin = find_gang_plugin(framework)
        gang = plugin.find_gang(pod) if plugin else None
        if plugin is None or gang is None:
            return
        outcome = PermitOutcome(Status(Code.UNSCHEDULABLE, (reason,)), plugin.name)
        for waiting in self.waiting.remove_gang(gang):
            self.end_wait(waiting, outcome)


def _build_permit_failure(outcome: PermitOutcome) -> Failed:
    """Build the failure of a pod that Permit rejected or for which Permit failed."""
    if outcome.status.rejected:
        return Failed(outcome.status.code, outcome.message, Rejectors(frozenset({outcome.plugin})))
    return Failed(Code.ERROR, outcome.message)
