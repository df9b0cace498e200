"""Scheduling attempts for single pods and for pod groups in a simulation, with the preemptions they cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.engine.permit import find_permit_rejection
from kschedctl.scheduler.engine.pod_groups.since_1_37 import SEVERAL_SCHEDULERS
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.victims import find_interchangeable_pods
from kschedctl.scheduler.engine.reserve import find_reserve_plugins
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
from kschedctl.scheduler.simulation.placement import NodeChooser, Placements
from kschedctl.scheduler.simulation.reused_answers import KnownFailures, ReusedAnswers
from kschedctl.snapshot.fork import Fork


class Attempts(PodsOnNodes):
    """A fork of a scheduler's snapshot on which pods are placed and evicted. Positions index `view.pods`.

    `seed` breaks ties. With `sampling`, only as many nodes are searched as upstream would search. Without `preemption`,
    no pod is evicted.
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
        self.failures = KnownFailures(self.placements, self.gangs, self.get_required_framework)
        self.search = ReusedAnswers(self.placements, self.gangs, self.nominations, self.failures)
        self.preemption = preemption
        self.evicted_from: dict[Position, Row] = {}
        """The node that each preempted pod left last."""
        self.evictions: list[Eviction] = []
        """All preemptions, in the order in which they happened."""
        self._interchangeable: dict[Position, Positions] = {}
        """For each preempted pod, the pods among which kube-scheduler chose it in an arbitrary order."""
        self._evicted: set[Position] = set()
        self.victims: dict[Position, tuple[Position, ...]] = {}
        """The pods that were preempted for each pod that has no node yet."""

    @property
    def preemption(self) -> bool:
        """True if pods may preempt others."""
        return self.search.preemption

    @preemption.setter
    def preemption(self, preemption: bool) -> None:
        """Allow or forbid preemption."""
        self.search.preemption = preemption

    def sort_for_queue(self, positions: Iterable[Position]) -> list[Position]:
        """Return the positions in the order in which the queue would pop them."""
        return sort_positions(self.scheduler, self.view, list(positions))

    def attempt_pod(self, position: Position) -> Outcome | None:
        """Try to schedule one pod, with preemption if necessary. Return None if it does not fit anywhere yet.

        A member of a gang is tried as a group of one pod. A gated pod, or a pod that no profile serves, gets its
        outcome without a cycle. A plugin's error is recorded in the outcome.
        """
        if self.gangs.find_group_key(position) is not None:
            outcomes, _ = self.try_group([position], queued=False)
            return outcomes[0] if outcomes else None
        framework = self.find_framework(position)
        outcome_without_cycle = self.find_outcome_without_cycle(position, framework)
        if outcome_without_cycle is not None or framework is None:
            return outcome_without_cycle
        try:
            return self._try_single_pod(position, framework)
        except PluginError as error:
            return Outcome(position, ERROR, message=str(error))

    def attempt_copies(self, positions: Iterable[Position]) -> Iterator[Outcome]:
        """Try copies of one pod one after another, and yield their outcomes until a copy gets no node.

        The outcomes are those of `attempt_pod`, except that a copy that does not fit anywhere is Unschedulable. Copies
        may differ in their claims. From the second copy on, answers that depend only on the pod are reused.
        """
        choose_node: NodeChooser | None = None
        for number, position in enumerate(positions):
            if number == 1:  # a single copy is not worth the preparation
                choose_node = self._build_node_chooser(position)
            choice = choose_node() if choose_node else None
            if choice is None:
                outcome = self.attempt_pod(position) or Outcome(position, UNSCHEDULABLE)
            else:
                self.view.assume(position, choice.row)
                outcome = Outcome(position, SCHEDULED, choice.row, tied=len(choice.tied), feasible=choice.feasible)
            yield outcome
            if outcome.row < 0:
                return

    def _build_node_chooser(self, position: Position) -> NodeChooser | None:
        """Return a function that chooses the node of the next copy of a pod from cached answers.

        Return None if each copy has to be tried in full: if no profile serves the copies, if they belong to a group, or
        if Permit or Reserve plugins look at them.
        """
        framework = self.find_framework(position)
        if framework is None or self.gangs.find_group_key(position) is not None:
            return None
        info = self.get_shared_incoming_info(position)
        if framework.plugins_at("permit") or find_reserve_plugins(framework, info.spec):
            return None
        return self.placements.build_node_chooser(framework, position)

    def _try_single_pod(self, position: Position, framework: Framework) -> Outcome | None:
        """Bind the pod to the best feasible node, evicting victims first if necessary.

        Return None if the pod fits nowhere, which is recorded for identical pods. A pod that Permit rejects on its node
        is Unschedulable. Raises PluginError if a plugin fails.
        """
        choice = self.search.find_node(position, framework)
        if choice is not None:
            if rejection := find_permit_rejection(framework, choice.info, self.view, choice.row):
                return Outcome(position, UNSCHEDULABLE, message=rejection)
            self.bind(position, choice.row, choice.claim_results)
            return Outcome(
                position,
                SCHEDULED,
                row=choice.row,
                tied=len(choice.tied),
                feasible=choice.feasible,
                victims=self.pop_victims(position),
            )

        # No node is feasible, so preempt.
        candidate, _ = self.search.find_preemption_candidate(position, framework)
        if candidate is None:
            self.failures.add(position)
            return None
        self.evict_victims(candidate.victims, position)
        self.log_evictions(position, candidate.victims)
        self.bind(position, candidate.row)
        return Outcome(position, SCHEDULED, row=candidate.row, victims=candidate.victims)

    def try_group(self, members: Sequence[Position], *, queued: bool) -> tuple[list[Outcome], GangAttempt]:
        """Try the waiting pods of one group together, and return the outcomes and the attempt.

        - Gated pods, and pods that no profile serves, get their outcomes first and are left out of the attempt.
        - A pod that keeps waiting has no outcome.
        - A plugin's error becomes the outcome of all tried pods.
        - With `queued`, victims are found but not evicted, and the pods are tried again once they are gone. Otherwise,
          victims are evicted, and the group is placed at once.
        """
        outcomes = []
        remaining = []
        for position in members:
            outcome = self.find_outcome_without_cycle(position, self.find_framework(position))
            if outcome is None:
                remaining.append(position)
            else:
                outcomes.append(outcome)

        try:
            attempt = self._place_group(remaining, queued=queued) if remaining else NOT_PLACED
        except PluginError as error:
            outcomes += (Outcome(position, ERROR, message=str(error)) for position in remaining)
            return outcomes, NOT_PLACED

        for position, member in attempt.placed.items():
            victims = (*self.pop_victims(position), *attempt.victims.get(position, ()))
            outcome = Outcome(
                position, SCHEDULED, row=member.row, tied=member.tied, feasible=member.feasible, victims=victims
            )
            outcomes.append(outcome)
        return outcomes, attempt

    def _place_group(self, members: Sequence[Position], *, queued: bool) -> GangAttempt:
        """Place the members together if enough of them fit, otherwise preempt for them.

        Preemption is tried only if it is enabled and a placed pod has a lower priority. With `queued`, victims are
        found but not evicted. Otherwise, they are evicted, and the members are bound at once. Raises PluginError if the
        members belong to several profiles or a plugin fails.
        """
        framework = self.get_required_framework(members[0])
        key = self.gangs.find_group_key(members[0])
        scheduler_names = dict.fromkeys(
            self.get_required_framework(member).profile.scheduler_name for member in members
        )
        if len(scheduler_names) > 1:
            raise PluginError(SEVERAL_SCHEDULERS.format(*scheduler_names))
        assert key is not None  # the members are the pods of a group

        # Try without preemption first.
        priority = self.gangs.find_preemption_priority(key, members)
        preempts = self.search.preemption and self.search.preemptors.has_placed_pod_of_lower_priority(priority)
        all_or_none = preempts and self.gangs.preempts_per_pod(key)
        attempt = self.gangs.place_members(framework, key, members, all_or_none=all_or_none)
        if attempt.placed or not preempts:
            return attempt

        # Preempt. In a queue, the members are tried again once their victims are gone.
        if queued:
            return self.gangs.bind_or_find_victims(framework, key, members)
        attempt = self.gangs.find_victims_and_placement(framework, key, members)
        if attempt.victims:
            self.evict_victims(tuple(chain(*attempt.victims.values())), members[0])
            for preemptor, victims in attempt.victims.items():
                self.log_evictions(preemptor, victims)
            for position, member in attempt.placed.items():
                self.bind(position, member.row)
        return attempt

    def pop_victims(self, position: Position) -> tuple[Position, ...]:
        """Return and forget the pods that were preempted for a pod that is bound now."""
        return self.victims.pop(position, ()) if self.victims else ()

    def evict_victims(self, victims: Sequence[Position], preemptor: Position) -> None:
        """Evict the victims immediately.

        The victims are counted as preempted and marked as absent. The nodes of the victims are recorded, and for each
        victim the pods that might have been evicted in its place.
        """
        # Record what can only be found while the victims are on their nodes.
        priority = self.view.pods.get_priority(preemptor)
        for victim in victims:
            self.evicted_from[victim] = Row(int(self.view.node[victim]))
            if self._has_stayed(victim):
                self._interchangeable[victim] = find_interchangeable_pods(self.view, victim, priority)

        # Evict the victims.
        self.preempted = True
        self.search.preemptors.preemption_counts.update(victims)
        if self.view.absent is not None:
            self.view.absent[list(victims)] = True
        self.evict(victims)

    def log_evictions(self, preemptor: Position, victims: Iterable[Position]) -> None:
        """Add an entry to `evictions` for each of the preemptor's victims, which have just left their nodes.

        The entry also names the pods that kube-scheduler might equally well have evicted.
        """
        for victim in victims:
            row = self.evicted_from[victim]
            self.evictions.append(Eviction(victim, row, preemptor, self._find_equal_victims(victim, row, preemptor)))
            self._evicted.add(victim)

    def _find_equal_victims(self, victim: Position, row: Row, preemptor: Position) -> tuple[Position, ...]:
        """Return the pods that kube-scheduler might equally well have evicted from the node instead of the victim.

        These pods are still on the node, and evicting any one of them frees enough of every resource. Pods that were
        placed in this simulation have no known start time, so they are left out. If the victim is such a pod, return
        ().
        """
        if victim in self._evicted or victim not in self._interchangeable:
            return ()
        view = self.view
        interchangeable = self._interchangeable[victim].tolist()
        candidates = np.array([position for position in interchangeable if self._has_stayed(position)], np.int64)

        # The victim would then still be on the node, so its requests are not free.
        requested = view.get_requests(preemptor)
        free = view.allocatable[row] - view.requested[row] - view.get_requests(victim)
        suffices = (free + view.get_requests(candidates) >= requested) | (requested == 0)
        tied: list[Position] = candidates[suffices.all(axis=1)].tolist()
        return tuple(tied)

    def _has_stayed(self, position: Position) -> bool:
        """Return whether the pod is on the node that it had in the snapshot, and has never been preempted."""
        initial_rows = self.scheduler.view.node
        is_created_later = position >= len(initial_rows)
        if position in self._evicted or is_created_later:
            return False
        return bool(initial_rows[position] == self.view.node[position])

    def find_outcome_without_cycle(self, position: Position, framework: Framework | None) -> Outcome | None:
        """Return the outcome of a pod that is gated or that no profile serves.

        Return None for any other pod, whose outcome a scheduling cycle has to determine.
        """
        info = self.get_shared_incoming_info(position)
        if framework is None:
            return Outcome(position, NOT_RESPONSIBLE, message=self.profiles.format_not_served(info))
        gate_message = self.profiles.find_gate_message(framework, info)
        return Outcome(position, GATED, message=gate_message) if gate_message else None
