"""Pods through the scheduling queue, one after the other, on a copy of the cluster.

Upstream: pkg/scheduler/schedule_one.go and the PrioritySort plugin (v1.36). A pod is bound as soon as it is placed, and
has started when the next is tried; a victim is gone as soon as it is preempted. Who preempted it is nominated for its
node, and tried again, as is a pod that fits nowhere, when the queue says so (scheduler/simulation/queued_pods.py);
others yield to it, but may come before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from kschedctl.api.arrays import Position, Row
from kschedctl.api.gangs import GangKey
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.permit import permit_refusal
from kschedctl.scheduler.engine.pod_groups.cycle import SEVERAL_SCHEDULERS
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.promises import takes_back
from kschedctl.scheduler.engine.rejectors import Rejectors, rejectors_of
from kschedctl.scheduler.engine.reserve import NOTHING_ASKED, release, reserve, reserving
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.framework import PluginError, PreFilterResult, ReservePlugin
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.fits_nowhere import KnownFailures
from kschedctl.scheduler.simulation.gang_members import GangMembers
from kschedctl.scheduler.simulation.gangs import NOT_PLACED, REFUSED, GangAttempt, Gangs
from kschedctl.scheduler.simulation.nominating import Preemptors, Promises, chosen_candidate
from kschedctl.scheduler.simulation.outcome import (
    ERROR,
    GATED,
    NOMINATED,
    NOT_RESPONSIBLE,
    NOT_TRIED,
    SCHEDULED,
    UNSCHEDULABLE,
    Outcome,
    Progress,
)
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.scheduler.simulation.profiles import ServingProfiles
from kschedctl.scheduler.simulation.queued_pods import QueuedPods, in_order
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey


class Simulation:
    """A fork of a scheduler's snapshot on which pods come and go. Positions are into ``view.pods``.

    ``seed`` decides ties; with ``sampling`` as many nodes are looked at as upstream does; without ``preemption`` nobody
    has to go. ``preempted``: somebody had. ``gone`` are the pods that went, and of which nobody waits for another node.
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
        self.scheduler = scheduler
        self.view = scheduler.view.fork() if view is None else view
        searches = sampling.begin(scheduler.configuration, len(self.view.nodes), seed) if sampling else None
        self.placements = Placements(self.view, seed, searches)
        self.budgets = budgets(self.view)
        self.promises = Promises(self.view)
        self.interrupted, self.preempted = False, False
        self.preemption = preemption
        self.gone: set[Position] = set()
        self.evicted_from: dict[Position, Row] = {}
        """The pods that were preempted, and the node from which each went last."""
        self._victims: dict[Position, tuple[Position, ...]] = {}
        """The pods that have no node yet, and those that went for them."""
        self.retried: dict[Position, list[str]] = {}
        """The pods that were tried again, and the label of the event before each time."""
        self._queue: QueuedPods | None = None
        self._members: GangMembers | None = None
        self._reserving: dict[int | None, list[ReservePlugin]] = {}
        self.unknown: dict[Unknown, None] = self.placements.unheard
        """What the pods tried so far lean on that was not read."""
        self.profiles = ServingProfiles(scheduler, self.view, self.unknown)
        self._preemptors = Preemptors(self.view)
        self.gangs = Gangs(scheduler, self.placements, self.bind)
        self.failures = KnownFailures(self.placements, self.gangs, self._framework)

    def run(self, positions: Iterable[Position]) -> list[Outcome]:
        """Schedule the pods in the order of the queue; their outcomes in the order in which they came about.

        Those that fit nowhere come last. When it is interrupted the rest was not tried, and ``interrupted`` is set.
        """
        return self.explained(self.schedule(positions))

    @without_garbage_collection()
    def schedule(self, positions: Iterable[Position], progress: Progress | None = None) -> list[Outcome]:
        """The same without the reasons of those that fit nowhere, which cost more than all the rest."""
        outcomes: list[Outcome] = []
        waiting = list(positions)
        verdict = UNSCHEDULABLE
        try:
            self._work_off(self._fill(waiting), outcomes, progress or (lambda _: None))
        except KeyboardInterrupt:
            self.interrupted, verdict = True, NOT_TRIED
        finally:
            self._close()
        done = {outcome.position for outcome in outcomes}
        left = [position for position in self.queue(waiting) if position not in done]
        return outcomes + [Outcome(position, verdict, victims=self._victims.get(position, ())) for position in left]

    def explained(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, with why pods fit nowhere as things are now, where it is not said."""
        return self.failures.explained(outcomes)

    def rejectors(self, position: Position) -> Rejectors:
        """The plugins that refuse a pod that fits nowhere now."""
        return self.failures.rejectors(position)

    def message(self, position: Position) -> str:
        """Why a pod fits nowhere now, as kube-scheduler says it."""
        return self.failures.message(position)

    def cycle(self, position: Position) -> Cycle:
        """The full cycle of a pod as things are now."""
        return self.placements.cycle(self._framework(position), position)

    def _fill(self, waiting: Sequence[Position]) -> QueuedPods:
        groups, gangs = self.gangs.together(self.queue(waiting)), self.gangs.one_by_one(waiting)
        self._queue = queue = QueuedPods(
            self.scheduler, self.placements, waiting, groups, gangs, moves=lambda: self.moves, rejectors=self.rejectors
        )
        self.promises.before_loss = queue.before_loss
        self._members = GangMembers(self, queue, waiting) if gangs else None
        return queue

    def _close(self) -> None:
        """Nobody waits in a queue any more, nor on a node."""
        if self._members:
            self._members.abandon()
            self.failures.left_for.update(self._members.reasons)
        self._queue, self._members, self.promises.before_loss = None, None, None

    def _work_off(self, queue: QueuedPods, found: list[Outcome], progress: Progress) -> None:
        """Try pod after pod, and those of a group together, until none is worth another try."""
        while (position := queue.pop()) is not None or (self._members and self._members.time_out()):
            if position is None:
                continue
            if queue.tried and (label := queue.moved_by(position)):
                self.retried.setdefault(position, []).append(label)
            outcomes = self._outcomes_of(queue, position)
            found += outcomes
            progress(len(outcomes))
            for outcome in (outcome for outcome in outcomes if queue.tried and outcome.row >= 0):
                queue.after(outcome.position)
            if self.promises.lost:
                self.failures.forget()
                queue.after_losses(self.promises.lost)
                self.promises.lost = []
            if self._members:
                self._members.stop_rounds()

    def _outcomes_of(self, queue: QueuedPods, position: Position) -> Sequence[Outcome]:
        """What came of the next pod, and those of its group; nothing of those that wait on.

        Pods that come may hide what refuses one that looks at others.
        """
        if self.gangs.any and (key := self.gangs.key(position)) is not None:
            in_gang = isinstance(key, GangKey)
            return self._members.attempt(position) if self._members and in_gang else self._group_outcomes(queue, key)
        single = self._attempt_alone(position)
        if single is None:
            hidden = queue.gangs or self.placements.looks_at_others(self._framework(position), position)
            queue.refused(position, self.rejectors(position) if hidden else None)
        return () if single is None or single.verdict == NOMINATED else (single,)

    def _group_outcomes(self, queue: QueuedPods, key: AnyGroupKey) -> list[Outcome]:
        """The pods of a group that wait, tried together; those that wait on come back when something moved."""
        members = queue.members(key)
        queue.before(members, ())
        outcomes, attempt = self._tried_together(members)
        victims: Sequence[Position] = tuple(chain(*attempt.victims.values()))
        if victims:
            queue.before((), victims)
            victims = self._make_room(victims, members[0])
        self.promises.of_group(attempt.failed, attempt.victims)
        for member, gone in attempt.victims.items():
            self._victims[member] = (
                *self._victims.get(member, ()),
                *(position for position in gone if position in victims),
            )
        done = {outcome.position for outcome in outcomes}
        left = {
            position: attempt.failed.get(position, REFUSED).rejectors for position in members if position not in done
        }
        queue.group_refused(key, left, victims, attempt.again)
        return outcomes

    @property
    def moves(self) -> int:
        """How often a pod came or went for good."""
        waiting = len(self._queue.waits.pods) if self._queue else 0
        return len(self.view.trail) - self.gangs.taken_back - waiting

    def queue(self, positions: Iterable[Position]) -> list[Position]:
        """In the order in which they are tried first."""
        return in_order(self.scheduler, self.view, list(positions))

    def attempt(self, position: Position) -> Outcome | None:
        """One pod, with preemption; None when it fits nowhere now."""
        if self.gangs.key(position) is not None:
            return next(iter(self._tried_together([position])[0]), None)
        return self._attempt_alone(position)

    def _attempt_alone(self, position: Position) -> Outcome | None:
        info = self.incoming(position)
        framework = self.profiles.of(info)
        if framework and self.failures.known(position):
            return None
        settled = self.settled(position, info, framework)
        if settled is not None or framework is None:
            return settled
        try:
            outcome = self._place(framework, position) or self._preempt(framework, position)
        except PluginError as error:
            return Outcome(position, ERROR, message=str(error))
        if outcome is None:
            self.failures.add(position)
        return outcome

    def _tried_together(self, members: Sequence[Position]) -> tuple[list[Outcome], GangAttempt]:
        """The pods of one group that wait; of those that wait on there is no outcome."""
        infos = {position: self.incoming(position) for position in members}
        settled = {position: self.settled(position, info, self.profiles.of(info)) for position, info in infos.items()}
        outcomes = [outcome for outcome in settled.values() if outcome is not None]
        left = [position for position in members if settled[position] is None]
        try:
            attempt = self._placed_together(left) if left else NOT_PLACED
        except PluginError as error:
            return [*outcomes, *(Outcome(position, ERROR, message=str(error)) for position in left)], NOT_PLACED
        for position, member in attempt.placed.items():
            victims = (*self.went_for(position), *attempt.victims.get(position, ()))
            outcomes.append(Outcome(position, SCHEDULED, member.row, member.tied, member.feasible, victims))
        return outcomes, attempt

    def _placed_together(self, members: Sequence[Position]) -> GangAttempt:
        """Where the members are now, if enough of them fit. Raises PluginError."""
        framework, key = self._framework(members[0]), self.gangs.key(members[0])
        names = {self._framework(member).profile.scheduler_name: None for member in members}
        if key is None or len(names) > 1:
            raise PluginError(SEVERAL_SCHEDULERS.format(*names))
        preempts = self.preemption and self._preemptors.any_below(self.gangs.priority(key, members))
        attempt = self.gangs.place(framework, key, members, alone=preempts and self.gangs.preempt_alone(key))
        if attempt.placed or not preempts:
            return attempt
        if self._queue:
            return self.gangs.preempting(framework, key, members)
        attempt = self.gangs.at_once(framework, key, members)
        if attempt.victims:
            self._make_room(tuple(chain(*attempt.victims.values())), members[0])
            for position, member in attempt.placed.items():
                self.bind(position, member.row)
        return attempt

    def bind(self, position: Position, row: Row, before: Mapping[str, PreFilterResult] = NOTHING_ASKED) -> None:
        """Put a pod on a node, with the volumes and devices that it gets there. Raises PluginError.

        ``before``: by plugin, what its PreFilter says of the pod now, as far as that is known.
        """
        pods, info = self.view.pods, self.placements.arriving(position)
        plugins = self._reserving.get(info.alike)
        if plugins is None:
            plugins = self._reserving[info.alike] = reserving(self._framework(position), info.spec)
        if plugins:
            like_others = info is self.incoming(position)
            pod = pods.objects[position] if like_others else info.pod
            reserve(plugins, info, pod, self.view, row, before=before)
        self.promises.keep(position)
        self.view.assume(position, row)

    def went_for(self, position: Position) -> tuple[Position, ...]:
        """Those that were preempted for a pod, which has come to its node."""
        return self._victims.pop(position, ())

    def _make_room(self, victims: Sequence[Position], preemptor: Position) -> Sequence[Position]:
        """Who is preempted goes at once; those that wait for others of their gang come back, and are not returned."""
        self.preempted = True
        if self._members:
            victims = self._members.preempted(victims, preemptor)
        if self.view.absent is not None:
            self.view.absent[list(victims)] = True
        self._preemptors.driven_away.update(victims)
        self.evicted_from.update((victim, Row(int(self.view.node[victim]))) for victim in victims)
        self.evict(victims)
        return victims

    def evict(self, positions: Sequence[Position]) -> None:
        """Take pods off their nodes for good; their devices are free again, their disruption budgets spent."""
        self.budgets.gone(positions)
        self.take_down(positions)

    def take_down(self, positions: Sequence[Position]) -> None:
        """The same by whoever owns the pods, which no budget restrains."""
        for position in positions:
            self.view.forget(position)
        self.release(positions)
        self.gone.update(positions)

    def release(self, positions: Sequence[Position]) -> None:
        """Give back what was reserved for pods that have no node any more."""
        pods = self.view.pods
        specs = [pods.infos[number].spec for number in {int(pods.info[position]) for position in positions}]
        profiles = map(self.scheduler.framework, self.scheduler.configuration.profiles)
        plugins = {p.name: p for framework in profiles if framework for p in reserving(framework, *specs)}
        if plugins:
            release(plugins.values(), self.view, positions)

    # -- one pod -------------------------------------------------------------------------------------------------

    def framework(self, position: Position) -> Framework | None:
        """The profile that serves a pod."""
        return self.profiles.of(self.incoming(position))

    def _framework(self, position: Position) -> Framework:
        framework = self.framework(position)
        if framework is None:
            raise KeyError(position)
        return framework

    def incoming(self, position: Position) -> PodInfo:
        """What a pod asks for when it comes."""
        return self.placements.incoming(int(self.view.pods.info[position]))

    def settled(self, position: Position, info: PodInfo, framework: Framework | None) -> Outcome | None:
        """The outcome of a pod that does not get as far as a scheduling cycle."""
        if framework is None:
            return Outcome(position, NOT_RESPONSIBLE, message=self.profiles.serving_none(info))
        gated = self.profiles.gated(framework, info)
        return Outcome(position, GATED, message=gated) if gated else None

    def _place(self, framework: Framework, position: Position) -> Outcome | None:
        """Put it on the best of the nodes that fit. Raises PluginError."""
        choice = self.placements.choose(framework, position)
        if choice is None:
            return None
        if refusal := permit_refusal(framework, choice.info, self.view, choice.row):
            return Outcome(position, UNSCHEDULABLE, message=refusal)
        if self._queue and self._queue.tried:
            self._queue.before((position,), ())
        self.bind(position, choice.row, choice.before)
        victims = self.went_for(position)
        return Outcome(position, SCHEDULED, choice.row, len(choice.tied), choice.feasible, victims)

    def _preempt(self, framework: Framework, position: Position) -> Outcome | None:
        """Make room by evicting pods, if that helps. Raises PluginError."""
        candidate, _ = self.hope(framework, position)
        if candidate is None:
            return None
        if queue := self._queue:
            rejectors = self.rejectors(position)
            self.nominate(position, candidate, lambda: queue.failed(position, rejectors))
            return Outcome(position, NOMINATED)
        self._make_room(candidate.victims, position)
        self.bind(position, candidate.row)
        return Outcome(position, SCHEDULED, candidate.row, victims=candidate.victims)

    def hope(self, framework: Framework, position: Position) -> tuple[Candidate | None, PostFilterOutcome | None]:
        """Whom evicting makes room, and what PostFilter said, None where it could not help. Raises PluginError."""
        info = self.incoming(position)
        if not self.preemption or info.spec.preemption_policy == "Never":
            return None, None
        eligible = self._preemptors.eligible(framework, position, info)
        if not eligible or not self._preemptors.any_victim(framework, info.priority):
            self.promises.give_up(position)
            return None, None
        cycle = self.placements.cycle(framework, position)
        outcome = run_post_filter(cycle)
        self.failures.add(position, rejectors_of(cycle))
        candidate = chosen_candidate(outcome, self.placements.random)
        if candidate is None and takes_back(outcome):
            self.promises.give_up(position)
        return candidate, outcome

    def nominate(self, position: Position, candidate: Candidate, put_back: Callable[[], None]) -> None:
        """The pod waits for the node on which room is made for it; upstream's prepareCandidate.

        ``put_back``: into the queue.
        """
        assert self._queue is not None
        self._queue.before((), candidate.victims)
        self.promises.make(position, candidate.row)
        put_back()
        gone = self._make_room(candidate.victims, position)
        self._victims[position] = (*self._victims.get(position, ()), *gone)
        self._queue.vacated(gone)
