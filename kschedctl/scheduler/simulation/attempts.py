"""Attempts at single pods and at groups of pods in a simulation, with the preemptions that they cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.engine.permit import find_permit_rejection
from kschedctl.scheduler.engine.pod_groups.since_1_37 import SEVERAL_SCHEDULERS
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.queueing.pods_on_nodes import PodsOnNodes
from kschedctl.scheduler.queueing.queue_order import sort_positions
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.gangs import NOT_PLACED, GangAttempt, Gangs
from kschedctl.scheduler.simulation.outcome import (
    ERROR,
    GATED,
    NOT_RESPONSIBLE,
    SCHEDULED,
    UNSCHEDULABLE,
    Eviction,
    Outcome,
)
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.scheduler.simulation.reused_answers import KnownFailures, ReusedAnswers
from kschedctl.snapshot.fork import Fork


class Attempts(PodsOnNodes):
    """A fork of a scheduler's snapshot on which pods come and go. Positions are into ``view.pods``.

    ``seed`` decides ties; with ``sampling`` as many nodes are looked at as upstream does; without ``preemption`` nobody
    has to go. ``evicted_from``: the pods that were preempted, and the node from which each went last.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        view: Fork | None = None,
        *,
        seed: int = 0,
        sampling: SampledFrom | None = None,
        preemption: bool = True,
    ) -> None:
        view = scheduler.view.fork() if view is None else view
        searches = sampling.start_sampling(scheduler.configuration, len(view.nodes), seed) if sampling else None
        self.placements = Placements(view, seed, searches)
        super().__init__(scheduler, self.placements, self.placements.unheard)
        self.gangs = Gangs(self.placements, self)
        self.failures = KnownFailures(self.placements, self.gangs, self.require_framework)
        self.search = ReusedAnswers(self.placements, self.gangs, self.nominations, self.failures)
        self.preemption = preemption
        self.evicted_from: dict[Position, Row] = {}
        self.evictions: list[Eviction] = []
        """All preemptions, in the order in which they happened."""
        self._evicted: set[Position] = set()
        self.victims: dict[Position, tuple[Position, ...]] = {}
        """The pods that have no node yet, and those that went for them."""

    @property
    def preemption(self) -> bool:
        """Whether pods may preempt others."""
        return self.search.preemption

    @preemption.setter
    def preemption(self, preemption: bool) -> None:
        self.search.preemption = preemption

    def queue(self, positions: Iterable[Position]) -> list[Position]:
        """Return the positions in the order in which they are tried first."""
        return sort_positions(self.scheduler, self.view, list(positions))

    def attempt(self, position: Position) -> Outcome | None:
        """Try one pod, with preemption; return None if it fits nowhere now."""
        if self.gangs.key(position) is not None:
            return next(iter(self.tried_together([position], queued=False)[0]), None)
        framework = self.framework(position)
        settled = self.settled(position, framework)
        if settled is not None or framework is None:
            return settled
        try:
            return self._try_to_place(position, framework)
        except PluginError as error:
            return Outcome(position, ERROR, message=str(error))

    def _try_to_place(self, position: Position, framework: Framework) -> Outcome | None:
        """Put the pod on the best feasible node, or preempt for it if that helps at once. Raises PluginError."""
        choice = self.search.find(position, framework)
        if choice is not None:
            if refusal := find_permit_rejection(framework, choice.info, self.view, choice.row):
                return Outcome(position, UNSCHEDULABLE, message=refusal)
            self.bind(position, choice.row, choice.before)
            return Outcome(position, SCHEDULED, choice.row, len(choice.tied), choice.feasible, self.went_for(position))
        candidate, _ = self.search.candidate(position, framework)
        if candidate is None:
            self.failures.add(position)
            return None
        self.make_room(candidate.victims)
        self.log_evictions(position, candidate.victims)
        self.bind(position, candidate.row)
        return Outcome(position, SCHEDULED, candidate.row, victims=candidate.victims)

    def tried_together(self, members: Sequence[Position], *, queued: bool) -> tuple[list[Outcome], GangAttempt]:
        """The pods of one group that wait; of those that wait on there is no outcome.

        ``queued``: they are tried again once room is made for them; else that happens at once.
        """
        settled = {position: self.settled(position, self.framework(position)) for position in members}
        outcomes = [outcome for outcome in settled.values() if outcome is not None]
        left = [position for position in members if settled[position] is None]
        try:
            attempt = self._try_group(left, queued) if left else NOT_PLACED
        except PluginError as error:
            return [*outcomes, *(Outcome(position, ERROR, message=str(error)) for position in left)], NOT_PLACED
        for position, member in attempt.placed.items():
            victims = (*self.went_for(position), *attempt.victims.get(position, ()))
            outcomes.append(Outcome(position, SCHEDULED, member.row, member.tied, member.feasible, victims))
        return outcomes, attempt

    def _try_group(self, members: Sequence[Position], queued: bool) -> GangAttempt:
        """Try the members together, and return where they are if enough of them fit. Raises PluginError."""
        framework, key = self.require_framework(members[0]), self.gangs.key(members[0])
        names = {self.require_framework(member).profile.scheduler_name: None for member in members}
        if key is None or len(names) > 1:
            raise PluginError(SEVERAL_SCHEDULERS.format(*names))
        preempts = self.search.preemption and self.search.preemptors.any_below(self.gangs.priority(key, members))
        attempt = self.gangs.place(framework, key, members, alone=preempts and self.gangs.preempt_alone(key))
        if attempt.placed or not preempts:
            return attempt
        if queued:
            return self.gangs.preempting(framework, key, members)
        attempt = self.gangs.at_once(framework, key, members)
        if attempt.victims:
            self.make_room(tuple(chain(*attempt.victims.values())))
            for preemptor, victims in attempt.victims.items():
                self.log_evictions(preemptor, victims)
            for position, member in attempt.placed.items():
                self.bind(position, member.row)
        return attempt

    def went_for(self, position: Position) -> tuple[Position, ...]:
        """Return the victims that were preempted for a pod which has come to its node."""
        return self.victims.pop(position, ()) if self.victims else ()

    def make_room(self, victims: Sequence[Position]) -> Sequence[Position]:
        """Evict the victims at once, and return them."""
        self.preempted = True
        if self.view.absent is not None:
            self.view.absent[list(victims)] = True
        self.search.preemptors.driven_away.update(victims)
        self.evicted_from.update((victim, Row(int(self.view.node[victim]))) for victim in victims)
        self.evict(victims)
        return victims

    def log_evictions(self, preemptor: Position, victims: Iterable[Position]) -> None:
        """Record the victims, which left their nodes just now, as evicted for the preemptor."""
        for victim in victims:
            row = self.evicted_from[victim]
            self.evictions.append(Eviction(victim, row, preemptor, self._tied_with(victim, row, preemptor)))
            self._evicted.add(victim)

    def _tied_with(self, victim: Position, row: Row, preemptor: Position) -> tuple[Position, ...]:
        """Return the pods still on the node that equal the victim in priority and start, and could go in its place.

        Upstream's order of such pods is that of an unstable sort: MoreImportantPod in pkg/scheduler/util/utils.go. They
        have to leave enough of all resources. Pods that came to their nodes in this simulation are left out, as their
        start is not known.
        """
        view, pods, before = self.view, self.view.pods, self.scheduler.view.node

        def stayed(position: Position) -> bool:
            return position not in self._evicted and position < len(before) and before[position] == row

        if not stayed(victim):
            return ()
        here = np.array(list(filter(stayed, view.pods_on(row))), np.int64)
        same = pods.priority[pods.info[here]] == pods.priority[pods.info[victim]]
        here = here[same & (pods.start[here] == pods.start[victim])]
        need = view.requests[pods.info[preemptor]]
        free = view.allocatable[row] - view.requested[row] - view.requests[pods.info[victim]]
        enough = (free + view.requests[pods.info[here]] >= need) | (need == 0)
        tied: list[Position] = here[enough.all(axis=1)].tolist()
        return tuple(tied)

    def settled(self, position: Position, framework: Framework | None) -> Outcome | None:
        """Return the outcome of a pod that does not reach a scheduling cycle, or None."""
        info = self.incoming(position)
        if framework is None:
            return Outcome(position, NOT_RESPONSIBLE, message=self.profiles.format_not_served(info))
        gated = self.profiles.find_gate_message(framework, info)
        return Outcome(position, GATED, message=gated) if gated else None
