"""Simulation: pods go through the scheduling queue on a copy of the cluster until no pod is worth another attempt.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go (v1.36). A pod is bound as soon as it is placed, and has started
when the next pod is tried. A victim is gone as soon as it is preempted. The preemptor waits with its nomination and is
tried again when the queue says so, like a pod that fits nowhere. Other pods yield to it, but may be tried before it.
Controllers recreate victims while the loop runs if the simulation has a rule for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import Rejectors
from kschedctl.scheduler.engine.pod_groups.gangs import GangPlugin
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.queueing.pods_on_nodes import Choice
from kschedctl.scheduler.queueing.scheduling_loop import PREEMPTION_LOOP_FAILURE, Failed, SchedulingLoop
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTED, PermitWait
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.attempts import Attempts
from kschedctl.scheduler.simulation.gangs import UNFIT_MEMBER
from kschedctl.scheduler.simulation.outcome import (
    ERROR,
    NOT_TRIED,
    SCHEDULED,
    UNSCHEDULABLE,
    Outcome,
    Progress,
    Recreation,
    RecreationRule,
    StopRule,
)
from kschedctl.scheduler.simulation.queued_pods import QueuedPods
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.pods import AnyGroupKey


class Simulation(Attempts):
    """A fork of a scheduler's snapshot on which pods are scheduled one by one or in the order of the queue."""

    def __init__(
        self,
        scheduler: Scheduler,
        view: Fork | None = None,
        *,
        seed: int = 0,
        sampling: SampledFrom | None = None,
        preemption: bool = True,
        recreation: RecreationRule | None = None,
    ) -> None:
        super().__init__(scheduler, view, seed=seed, sampling=sampling, preemption=preemption)
        self.recreation = recreation
        self.interrupted = False
        self.retried: dict[Position, list[str]] = {}

    def run(self, positions: Iterable[Position]) -> list[Outcome]:
        """Schedule the pods in the order of the queue, and return their outcomes in the order in which they arose.

        Pods that fit nowhere come last, each with kube-scheduler's message. After a KeyboardInterrupt, `interrupted` is
        True and the remaining pods were not tried.
        """
        return self.explain(self.schedule(positions))

    @without_garbage_collection()
    def schedule(
        self, positions: Iterable[Position], progress: Progress | None = None, stop_rule: StopRule | None = None
    ) -> list[Outcome]:
        """Schedule the pods like `run`, but without messages for pods that fit nowhere.

        These messages take most of the time. The pods without a final outcome come last. These pods are Unschedulable,
        or NOT_TRIED if the user interrupts, which also sets `interrupted`. Pods are NOT_TRIED, too, if `stop_rule` ends
        the run before they are tried. `progress` is called with the number of new outcomes after each attempt.
        """
        outcomes: list[Outcome] = []
        waiting = list(positions)
        self.placements.announce_pods(waiting)
        unplaced_verdict = UNSCHEDULABLE
        loop = SettlingLoop(self, waiting, outcomes, self.recreation)
        try:
            loop.run(self.retried, progress or (lambda _: None), stop_rule)
        except KeyboardInterrupt:
            self.interrupted = True
            unplaced_verdict = NOT_TRIED
        finally:
            loop.close()

        all_pods = dict.fromkeys((*waiting, *loop.recreated))
        untried = loop.queued_pods.untried
        unplaced = []
        for position in self._list_pods_without_final_outcome(all_pods, outcomes, loop.recreated):
            verdict = NOT_TRIED if position in untried else unplaced_verdict
            unplaced.append(Outcome(position, verdict, victims=self.victims.get(position, ())))
        return outcomes + unplaced

    def _list_pods_without_final_outcome(
        self, positions: Iterable[Position], outcomes: Sequence[Outcome], recreated: Iterable[Position]
    ) -> list[Position]:
        """Return the pods without a final outcome, in the order of the queue.

        A placement is not final if the pod was evicted afterwards, is among the `recreated` pods, and has no node now.
        Every other outcome is final.
        """
        unplaced_again = {position for position in recreated if not self.view.has_node(position)}
        with_final_outcome = set()
        for outcome in outcomes:
            was_placed = outcome.row >= 0
            lost_placement = was_placed and outcome.position in unplaced_again
            if not lost_placement:
                with_final_outcome.add(outcome.position)
        return [position for position in self.sort_for_queue(positions) if position not in with_final_outcome]

    def schedule_or_raise_interrupt(
        self, positions: Iterable[Position], progress: Progress | None = None
    ) -> list[Outcome]:
        """Schedule the pods like `schedule`, but raise KeyboardInterrupt if the user interrupts."""
        outcomes = self.schedule(positions, progress)
        if self.interrupted:
            raise KeyboardInterrupt
        return outcomes

    def explain(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Return the outcomes with a message for every pod that fits nowhere in the current state."""
        return self.failures.explain_outcomes(outcomes)

    def find_rejectors(self, position: Position) -> Rejectors:
        """Return the plugins that reject a pod which fits nowhere in the current state."""
        return self.failures.find_rejectors(position)

    def build_message(self, position: Position) -> str:
        """Return kube-scheduler's message for a pod that fits nowhere in the current state."""
        return self.failures.build_message(position)

    def run_cycle(self, position: Position) -> Cycle:
        """Run the full scheduling cycle of a pod in the current state."""
        return self.placements.run_cycle(self.get_required_framework(position), position)


MAX_EVICTIONS_PER_PAIR = 3
"""Number of evictions of the same pod after which a pod preempts no more. kube-scheduler would go on forever."""


class SettlingLoop(SchedulingLoop):
    """One run of the scheduling loop over the pods in `waiting`.

    Meanwhile, the view records the evicted pods and the history of gangs whose pods wait for each other.
    """

    def __init__(
        self,
        attempts: Attempts,
        waiting: Sequence[Position],
        outcomes: list[Outcome],
        recreation: RecreationRule | None = None,
    ) -> None:
        self.attempts = attempts
        self.outcomes = outcomes
        """The outcomes so far. A pod that was evicted and recreated has one for each time it was placed."""
        self.recreation = recreation
        """When controllers recreate victims, or None if they do not while the loop runs."""
        self.recreated: dict[Position, None] = {}
        """The victims that wait or waited for another node."""
        self._recreated_later: dict[Position, list[Position]] = {}
        """Preemptor -> the victims whose replacements are created after its next attempt."""
        self._evicted_by: Counter[tuple[Position, Position]] = Counter()
        self.queued_pods = QueuedPods(attempts, waiting)
        super().__init__(attempts, self.queued_pods.scheduling_queue, attempts.search, self.queued_pods.waits)
        attempts.search.gang_pods = self.queued_pods.gangs
        attempts.nominations.before_loss = self.queued_pods.determine_rejectors_before_nomination_loss
        self._nominated_before: set[Position] = set()
        if self.queued_pods.gangs:
            view = self.view
            view.gang_history = GangHistory(self.queue.clock)
            view.absent = np.zeros(len(view.pods), np.bool_) if view.absent is None else view.absent
            view.absent[waiting] = False

    def run(self, retried: dict[Position, list[str]], progress: Progress, stop_rule: StopRule | None = None) -> None:
        """Try pods and groups until none is worth another attempt, or until `stop_rule` returns True.

        If no pod is ready, a wait at Permit times out, or pods that wait for their preemptor are recreated. `retried`
        collects the labels of the events before each pod's retries. `progress` is called with the number of new
        outcomes after each pod.
        """
        queued_pods = self.queued_pods
        while True:
            untried = queued_pods.untried_count
            if stop_rule is not None and untried and stop_rule(untried, queued_pods.tried.keys()):
                return
            position = queued_pods.pop()
            if position is not None:
                label = queued_pods.find_retry_label(position) if queued_pods.tried else ""
                if label:
                    retried.setdefault(position, []).append(label)
                progress(self._try_pod_and_wake_others(position))
            else:
                # No pod is ready: let a wait at Permit time out, or create pods that wait for their preemptor.
                has_timed_out = bool(queued_pods.gangs) and self.time_out()
                if not has_timed_out and not self._recreate_remaining_pods():
                    return
            self._wake_after_lost_nominations()
            if queued_pods.gangs:
                self._stop_gang_rounds()

    def _wake_after_lost_nominations(self) -> None:
        """Wake waiting pods after other pods lost their nominations, and forget these losses."""
        nominations = self.pods.nominations
        if nominations.lost:
            self.attempts.failures.forget()
            self.queued_pods.wake_after_nomination_losses(nominations.lost)
            nominations.lost = []

    def close(self) -> None:
        """Undo what the loop set up in the view and in the attempts.

        If there are gangs, pods that wait at Permit are taken off their nodes, and the view forgets the history of the
        gangs.
        """
        if self.queued_pods.gangs:
            for waiting in self.waiting.park_gangs():
                self.pods.take_back(waiting.pod.position)
            self.view.gang_history = None

        # The attempts outlive the loop and must not use its gangs or call its queue
        self.attempts.search.gang_pods = frozenset()
        self.pods.nominations.before_loss = None

    def _stop_gang_rounds(self) -> None:
        """Stop gangs whose pods preempt each other forever, and record this as the failure of their pods."""
        for position in self.waiting.stop_looping_gangs(self.queue, self.end_wait):
            self.attempts.failures.permit_failures[position] = PREEMPTION_LOOP_FAILURE

    def _try_pod_and_wake_others(self, position: Position) -> int:
        """Try a popped pod, wake the pods affected by its placement, and return the number of new outcomes.

        Victims whose recreation has to wait for this attempt of their preemptor are recreated here.
        """
        outcome_count = len(self.outcomes)
        replacements = self._recreated_later.pop(position, ())
        self._try_popped_pod(position)
        self._requeue_recreated_pods(replacements)
        new_outcomes = self.outcomes[outcome_count:]
        if self.queued_pods.tried:  # only pods that were tried can be woken
            for outcome in new_outcomes:
                if outcome.row >= 0:
                    self.queued_pods.wake_after_placement(outcome.position)
        return len(new_outcomes)

    def _try_popped_pod(self, position: Position) -> None:
        """Try a popped pod, alone or with its group, and record the outcomes.

        A gated pod, or a pod that no profile serves, gets its outcome without a cycle. If the pod completes its gang,
        the waiting pods of the gang are bound, and the new outcomes are sorted by the names of the pods.
        """
        gangs = self.attempts.gangs
        gang = gangs.find_group_key(position) if gangs.has_groups else None
        if gang is not None and not isinstance(gang, GangKey):
            self._try_group(gang)
            return

        framework = self.pods.find_framework(position)
        outcome_without_cycle = self.attempts.find_outcome_without_cycle(position, framework)
        if outcome_without_cycle is not None:
            self.queued_pods.done(position)
            self.outcomes.append(outcome_without_cycle)
            return
        assert framework is not None
        outcome_count = len(self.outcomes)
        self.attempt_pod(position, framework)

        # A pod that completes its gang releases the others, whose outcomes are sorted by name.
        is_scheduled = len(self.outcomes) > outcome_count and self.outcomes[-1].verdict == SCHEDULED
        if gang is not None and is_scheduled:
            self.end_completed_waits(gang)
            objects = self.view.pods.objects
            new_outcomes = self.outcomes[outcome_count:]
            self.outcomes[outcome_count:] = sorted(new_outcomes, key=lambda outcome: objects[outcome.position].key)

    def _try_group(self, key: AnyGroupKey) -> None:
        """Try the waiting pods of a group together, evict their victims, and record the outcomes.

        Pods that keep waiting are put back into the queue after the next move.
        """
        members = self.queued_pods.take_group_members(key)
        self.queued_pods.determine_rejectors_before_moves(members, leaving=())
        outcomes, attempt = self.attempts.try_group(members, queued=True)

        # Evict the victims, and nominate the members.
        victims: Sequence[Position] = tuple(chain(*attempt.victims.values()))
        if victims:
            self.queued_pods.determine_rejectors_before_moves(arriving=(), leaving=victims)
            victims = self._evict_victims(victims, members[0])
        nominated = {position: failure.nominated for position, failure in attempt.failed.items()}
        self.pods.nominations.nominate_group(nominated, attempt.nominated_rows)
        for member, member_victims in attempt.victims.items():
            self._record_evictions(member, [victim for victim in member_victims if victim in victims])

        # Put back the members without an outcome.
        finished = {outcome.position for outcome in outcomes}
        still_waiting = {
            member: attempt.failed.get(member, UNFIT_MEMBER).rejectors for member in members if member not in finished
        }
        self.queued_pods.record_group_rejection(key, still_waiting, victims, attempt.retried_at_once)
        self._recreate_victims(victims, members[0])
        self.outcomes += outcomes

    # -- what a cycle does ----------------------------------------------------------------------------------------

    def get_queued_pod(self, position: Position) -> QueuedPod:
        """Return the queue entry of a pod that is being tried, and record the pod as tried."""
        return self.queued_pods.record_as_tried(position)

    def prepare_moves(self, coming: Sequence[Position], leaving: Sequence[Position]) -> None:
        """Determine which plugins reject the waiting pods that the moves may wake.

        If there are gangs, also record which of the coming pods are nominated, because they lose their nomination.
        """
        if self.queued_pods.gangs:
            self._nominated_before.update(
                position for position in coming if self.view.get_nominated_row(position) != NO_ROW
            )
        self.queued_pods.determine_rejectors_before_moves(coming, leaving)

    def record_bound_pod(self, position: Position, choice: Choice) -> None:
        """Record the outcome of a pod that is bound to the chosen node, with the victims that were evicted for it.

        If there are gangs, the pod also leaves the replayed scheduling queue.
        """
        if self.queued_pods.gangs:
            # With gangs, a queue is replayed. A bound pod is no longer in flight there, and cannot lose its nomination.
            self.queued_pods.done(position)
            self._nominated_before.discard(position)
        victims = self.attempts.pop_victims(position)
        self.outcomes.append(
            Outcome(
                position, SCHEDULED, row=choice.row, tied=len(choice.tied), feasible=choice.feasible, victims=victims
            )
        )

    def put_back(self, position: Position, failure: Failed) -> None:
        """Put a rejected pod back into the queue, and nominate it if preemption found a node for it.

        Only a failure at Permit has a message. Such a failure is stored for the pod until the pod fails otherwise.
        """
        permit_failures = self.attempts.failures.permit_failures
        if failure.message:
            permit_failures[position] = failure
        else:
            permit_failures.pop(position, None)

        # A pod whose victims make room on a node waits with its nomination for that node.
        nominated_row = NO_ROW if failure.nominated is None else failure.nominated
        if nominated_row == NO_ROW or failure.rejectors is None:
            self.queued_pods.record_rejection(position, failure.rejectors)
        else:
            self.pods.nominations.nominate(position, nominated_row)
            self.queued_pods.put_back(position, failure.rejectors)

    def record_error(self, position: Position, message: str) -> None:
        """Record the outcome of a pod whose cycle ended with an error. The pod is not tried again."""
        self.queued_pods.done(position)
        self.outcomes.append(Outcome(position, ERROR, message=message))

    def build_deletion_events(self, waiting: PermitWait) -> Sequence[Occurrence]:
        """Return the event that the pod left its node. If the pod was nominated before, record the loss."""
        position = waiting.pod.position
        event = self.queued_pods.build_departure_event(position)
        if position in self._nominated_before:
            self._nominated_before.discard(position)
            self.pods.nominations.record_loss(position)
        return [event]

    def preempt(self, position: Position, victims: Sequence[Position], row: Row) -> None:
        """Evict victims for a pod, wake the pods that the evictions may help, and let controllers recreate the victims.

        Nominations that were lost before are processed first. `row`, the node of the victims, is not needed here.
        """
        self._wake_after_lost_nominations()
        evicted = self._evict_victims(victims, position)
        self._record_evictions(position, evicted)
        self.queued_pods.wake_after_evictions(evicted)
        self._recreate_victims(evicted, position)

    def select_pending_plugins(self, seconds: Mapping[str, int], plugin: GangPlugin | None) -> dict[str, int]:
        """Return the wait of the gang's plugin only.

        All other Permit plugins are assumed to allow the pod at once.
        """
        return {plugin.name: seconds[plugin.name]} if plugin and plugin.name in seconds else {}

    def _recreate_victims(self, victims: Sequence[Position], preemptor: Position) -> None:
        """Let controllers recreate the victims, except members of gangs. Without a rule for recreation, do nothing.

        The deletion of a single victim wakes its preemptor before a controller that waits for the deletion can act. If
        no other pod waits, such a victim is recreated after the preemptor's next attempt. All other victims with a
        controller are recreated now, because they can be back before the last victim is gone, or while other woken pods
        are tried.
        """
        if self.recreation is None:
            return
        for victim in victims:
            if self.attempts.gangs.find_group_key(victim) is not None:
                continue
            when = self.recreation(victim)
            sole_victim = when is Recreation.WHEN_GONE and len(victims) == 1
            if sole_victim and not self._are_other_pods_waiting(preemptor, victims):
                self._recreated_later.setdefault(preemptor, []).append(victim)
            elif when is not Recreation.NEVER:
                self._requeue_recreated_pods((victim,))

    def _are_other_pods_waiting(self, preemptor: Position, victims: Sequence[Position]) -> bool:
        """Return whether any existing pods other than the preemptor and its victims wait for a node."""
        waiting = set(np.flatnonzero(self.view.node == NO_ROW).tolist())
        return bool(waiting - self.attempts.gone - {preemptor, *victims})

    def _requeue_recreated_pods(self, positions: Iterable[Position]) -> None:
        """Add recreated pods to the queue as pods that exist again, forgetting their earlier failures."""
        for position in positions:
            self.attempts.gone.discard(position)
            self.attempts.failures.permit_failures.pop(position, None)
            # Only plugins that count the members of gangs ask which pods exist
            if self.queued_pods.gangs and self.view.absent is not None:
                self.view.absent[position] = False
            self.recreated[position] = None
            self.queued_pods.add(position)

    def _recreate_remaining_pods(self) -> bool:
        """Create the pods that wait for an attempt of their preemptor, and return whether there were any."""
        remaining = list(chain.from_iterable(self._recreated_later.values()))
        self._recreated_later = {}
        self._requeue_recreated_pods(remaining)
        return bool(remaining)

    def _record_evictions(self, position: Position, victims: Sequence[Position]) -> None:
        """Record the victims of a pod.

        If the pod has evicted the same victim MAX_EVICTIONS_PER_PAIR times, it may no longer preempt.
        """
        self.attempts.log_evictions(position, victims)
        self._evicted_by.update((position, victim) for victim in victims)
        if any(self._evicted_by[position, victim] >= MAX_EVICTIONS_PER_PAIR for victim in victims):
            self.attempts.search.preemptors.futile.add(position)
        self.attempts.victims[position] = (*self.attempts.victims.get(position, ()), *victims)

    def _evict_victims(self, victims: Sequence[Position], preemptor: Position) -> Sequence[Position]:
        """Evict the victims, and return the victims that were bound to nodes.

        Victims that wait at Permit leave their nodes in the order of their names and return to the queue. Victims that
        have already left with their gang are skipped.
        """
        if self.queued_pods.gangs:
            placed = [victim for victim in victims if self.view.node[victim] != NO_ROW]
            ended_waits = self.waiting.remove_preempted_pods(placed, preemptor)
            objects = self.view.pods.objects
            for position in sorted(ended_waits, key=lambda position: objects[position].key):
                self.end_wait(ended_waits[position], PREEMPTED)
            victims = [victim for victim in placed if victim not in ended_waits]
        self.attempts.evict_victims(victims, preemptor)
        return victims
