"""A queue worked off until nobody is worth another try: what a cycle sets going is done, and heard of, at once.

Upstream: ScheduleOne in pkg/scheduler/schedule_one.go (v1.36). A pod is bound as soon as it is placed, and has started
when the next is tried; a victim is gone as soon as it is preempted. Who preempted it waits for its node, and is tried
again when the queue says so, as is a pod that fits nowhere; others yield to it, but may come before it. Controllers
recreate victims while the loop runs if the simulation has a rule for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.pod_groups.gangs import GangPlugin
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.queueing.pods_on_nodes import Choice
from kschedctl.scheduler.queueing.scheduling_loop import Failed, SchedulingLoop
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTED, PREEMPTION_LOOP, PermitWait
from kschedctl.scheduler.simulation.attempts import Attempts
from kschedctl.scheduler.simulation.gangs import REFUSED
from kschedctl.scheduler.simulation.outcome import ERROR, SCHEDULED, Outcome, Progress, Recreation, RecreationRule
from kschedctl.scheduler.simulation.queued_pods import QueuedPods
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.pods import AnyGroupKey

MOST_EVICTIONS_OF_A_PAIR = 3
"""A pod that evicted the same pod so often preempts nobody any more: kube-scheduler would go on forever."""


class SettlingLoop(SchedulingLoop):
    """One run over the pods ``waiting``.

    ``outcomes``: what came of pods so far; a pod that was evicted and recreated has one for each time it was placed.
    ``recreation``: when controllers recreate victims; None: they do not while the loop runs. ``recreated``: the victims
    that wait, or waited, for another node. The view keeps who was evicted and, until the run ends, what became of gangs
    whose pods wait for each other.
    """

    def __init__(
        self,
        attempts: Attempts,
        waiting: Sequence[Position],
        outcomes: list[Outcome],
        recreation: RecreationRule | None = None,
    ) -> None:
        self.attempts, self.outcomes, self.recreation = attempts, outcomes, recreation
        self.recreated: dict[Position, None] = {}
        self._recreated_later: dict[Position, list[Position]] = {}
        """Preemptor -> the victims whose replacements are created after its next attempt."""
        self._evicted_by: Counter[tuple[Position, Position]] = Counter()
        self.line = QueuedPods(attempts, waiting)
        super().__init__(attempts, self.line.scheduling_queue, attempts.search, self.line.waits)
        attempts.search.members, attempts.nominations.before_loss = (
            self.line.gangs,
            self.line.judge_before_nomination_loss,
        )
        self._promised: set[Position] = set()
        if self.line.gangs:
            view = self.view
            view.gang_history = GangHistory(self.queue.clock)
            view.absent = np.zeros(len(view.pods), np.bool_) if view.absent is None else view.absent
            view.absent[waiting] = False

    def run(self, retried: dict[Position, list[str]], progress: Progress) -> None:
        """Try pod after pod, and those of a group together, until none is worth another try.

        ``retried``: the pods that are tried again, and the label of the event before each time.
        """
        line = self.line
        while (position := line.pop()) is not None or (line.gangs and self.time_out()) or self._create_remaining():
            if position is not None:
                if line.tried and (label := line.find_retry_label(position)):
                    retried.setdefault(position, []).append(label)
                progress(self._next(position))
            self._promises_lost()
            if line.gangs:
                self._stop_rounds()

    def _promises_lost(self) -> None:
        """Others hear of the pods that wait for nodes no longer."""
        nominations = self.pods.nominations
        if nominations.lost:
            self.attempts.failures.forget()
            self.line.move_after_nomination_losses(nominations.lost)
            nominations.lost = []

    def close(self) -> None:
        """Nobody waits in the queue any more, nor on a node."""
        if self.line.gangs:
            for waiting in self.waiting.park():
                self.pods.leave(waiting.pod.position)
            self.view.gang_history = None
        self.attempts.search.members, self.pods.nominations.before_loss = frozenset(), None

    def _stop_rounds(self) -> None:
        """Gangs whose pods preempt each other on and on are not tried for as long as nothing happens."""
        failure = Failed(Code.ERROR, PREEMPTION_LOOP.message)
        for position in self.waiting.stop_rounds(self.queue, self.settle):
            self.attempts.failures.said[position] = failure

    def _next(self, position: Position) -> int:
        """A pod that was popped, alone or with those of its group, and who hears of those that came to nodes.

        How many are done with.
        """
        known, later = len(self.outcomes), self._recreated_later.pop(position, ())
        self._cycle(position)
        self._create(later)
        new = self.outcomes[known:]
        for outcome in new if self.line.tried else ():
            if outcome.row >= 0:
                self.line.move_after_placement(outcome.position)
        return len(new)

    def _cycle(self, position: Position) -> None:
        """What comes of a pod that was popped, or with it of those of its group."""
        gangs, known = self.attempts.gangs, len(self.outcomes)
        gang = gangs.key(position) if gangs.any else None
        if gang is not None and not isinstance(gang, GangKey):
            self._group(gang)
            return
        framework = self.pods.framework(position)
        settled = self.attempts.find_outcome_without_cycle(position, framework)
        if settled is not None or framework is None:
            self.line.done(position)
            self.outcomes += [settled] if settled else []
            return
        self.attempt(position, framework)
        if gang is not None and self.outcomes[known:] and self.outcomes[-1].verdict == SCHEDULED:
            self.settle_waiting(gang)
            objects = self.view.pods.objects
            self.outcomes[known:] = sorted(self.outcomes[known:], key=lambda outcome: objects[outcome.position].key)

    def _group(self, key: AnyGroupKey) -> None:
        """The pods of a group that wait, tried together; those that wait on come back when something moved."""
        members = self.line.take_group(key)
        self.line.judge_before_moves(members, ())
        outcomes, attempt = self.attempts.try_group(members, queued=True)
        victims: Sequence[Position] = tuple(chain(*attempt.victims.values()))
        if victims:
            self.line.judge_before_moves((), victims)
            victims = self._make_room(victims, members[0])
        nominated = {position: failure.nominated for position, failure in attempt.failed.items()}
        self.pods.nominations.of_group(nominated, attempt.preempting)
        for member, gone in attempt.victims.items():
            self._went(member, [victim for victim in gone if victim in victims])
        done = {outcome.position for outcome in outcomes}
        left = {member: attempt.failed.get(member, REFUSED).rejectors for member in members if member not in done}
        self.line.record_group_rejection(key, left, victims, attempt.again)
        self._recreate(victims, members[0])
        self.outcomes += outcomes

    # -- what a cycle does ----------------------------------------------------------------------------------------

    def queued(self, position: Position) -> QueuedPod:
        return self.line.get_queued_pod(position)

    def prepare_moves(self, coming: Sequence[Position], leaving: Sequence[Position]) -> None:
        if self.line.gangs:
            self._promised.update(position for position in coming if self.view.nominated_row(position) != NO_ROW)
        self.line.judge_before_moves(coming, leaving)

    def record_bound(self, position: Position, choice: Choice) -> None:
        if self.line.gangs:
            self.line.done(position)
            self._promised.discard(position)
        victims = self.attempts.pop_victims(position)
        self.outcomes.append(Outcome(position, SCHEDULED, choice.row, len(choice.tied), choice.feasible, victims))

    def put_back(self, position: Position, failure: Failed) -> None:
        said = self.attempts.failures.said
        if failure.message:
            said[position] = failure
        else:
            said.pop(position, None)
        if failure.nominated is None or failure.nominated == NO_ROW or failure.rejectors is None:
            self.line.record_rejection(position, failure.rejectors)
        else:
            self.pods.nominations.make(position, failure.nominated)
            self.line.put_back(position, failure.rejectors)

    def record_error(self, position: Position, message: str) -> None:
        self.line.done(position)
        self.outcomes.append(Outcome(position, ERROR, message=message))

    def build_deletion_events(self, waiting: PermitWait) -> Sequence[Occurrence]:
        position = waiting.pod.position
        event = self.line.build_departure(position)
        if position in self._promised:
            self._promised.discard(position)
            self.pods.nominations.lose(position)
        return [event]

    def preempt(self, position: Position, victims: Sequence[Position], row: Row) -> None:
        self._promises_lost()
        gone = self._make_room(victims, position)
        self._went(position, gone)
        self.line.move_after_evictions(gone)
        self._recreate(gone, position)

    def select_waiting(self, seconds: Mapping[str, int], plugin: GangPlugin | None) -> dict[str, int]:
        """Pods wait for their gangs alone; other plugins are taken to allow them at once."""
        return {plugin.name: seconds[plugin.name]} if plugin and plugin.name in seconds else {}

    def _recreate(self, victims: Sequence[Position], preemptor: Position) -> None:
        """Let controllers recreate the victims, all but members of gangs.

        A pod that is recreated only once its predecessor is gone comes after the preemptor if there is no other victim
        and no other pod waits: then the deletion wakes the preemptor first. Else the pod can be back before the last
        victim is gone, or while others that the deletion woke are tried.
        """
        if self.recreation is None:
            return
        for victim in victims:
            when = Recreation.NEVER if self.attempts.gangs.key(victim) is not None else self.recreation(victim)
            only = when is Recreation.WHEN_GONE and len(victims) == 1
            if only and not self._others_wait(preemptor, victims):
                self._recreated_later.setdefault(preemptor, []).append(victim)
            elif when is not Recreation.NEVER:
                self._create((victim,))

    def _others_wait(self, preemptor: Position, victims: Sequence[Position]) -> bool:
        """Return whether pods besides the preemptor and its victims have no node and are not gone."""
        waiting = set(np.flatnonzero(self.view.node == NO_ROW).tolist())
        return bool(waiting - self.attempts.gone - {preemptor, *victims})

    def _create(self, positions: Iterable[Position]) -> None:
        """Add recreated pods to the queue."""
        for position in positions:
            self.attempts.gone.discard(position)
            self.attempts.failures.said.pop(position, None)
            if self.line.gangs and self.view.absent is not None:
                self.view.absent[position] = False
            self.recreated[position] = None
            self.line.add(position)

    def _create_remaining(self) -> bool:
        """Add the recreated pods whose preemptors are not tried again; return whether there were any."""
        remaining = [victim for victims in self._recreated_later.values() for victim in victims]
        self._recreated_later = {}
        self._create(remaining)
        return bool(remaining)

    def _went(self, position: Position, victims: Sequence[Position]) -> None:
        """Record who was evicted for a pod, which gives up if the same pods return again and again."""
        self.attempts.log_evictions(position, victims)
        self._evicted_by.update((position, victim) for victim in victims)
        if any(self._evicted_by[position, victim] >= MOST_EVICTIONS_OF_A_PAIR for victim in victims):
            self.attempts.search.preemptors.futile.add(position)
        self.attempts.victims[position] = (*self.attempts.victims.get(position, ()), *victims)

    def _make_room(self, victims: Sequence[Position], preemptor: Position) -> Sequence[Position]:
        """The victims that go; of those that wait on their nodes each leaves its own, by name, and is tried again.

        Others may have left before, with others of their gang.
        """
        if self.line.gangs:
            there = [victim for victim in victims if self.view.node[victim] != NO_ROW]
            waiting, objects = self.waiting.preempted(there, preemptor), self.view.pods.objects
            for position in sorted(waiting, key=lambda position: objects[position].key):
                self.settle(waiting[position], PREEMPTED)
            victims = [victim for victim in there if victim not in waiting]
        return self.attempts.evict_victims(victims)
