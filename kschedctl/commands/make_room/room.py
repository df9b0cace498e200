"""Room that is made for one pod after the other, by the fewest moves, then the cheapest, each step replayed.

What fits as it is comes first. Then each pod gets its plan on top of the plans before it: the fewest moves for one pod,
not always the fewest for many; the members of a gang get theirs together. A plan is played from its beginning for
several seeds, as chance decides between nodes that are equally good, with those that wait tried before the pods that
are made again, and after them: nobody may be left without a node, and nobody preempted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.labels import Selector, SelectorError, parse_selector
from kschedctl.api.ownership import find_owner
from kschedctl.commands.make_room.lingering import PlanCourse, lingering_course
from kschedctl.commands.make_room.movable import movable
from kschedctl.commands.make_room.rehearsal import PlayedMove, Rehearsal, play
from kschedctl.commands.make_room.search import Plan, PlanSearch
from kschedctl.errors import InputError
from kschedctl.replay.controllers.target_pod import find_groups
from kschedctl.replay.parallel import WorkerPool
from kschedctl.replay.pools import Pools
from kschedctl.replay.settling import find_pending, schedule_victims
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

SEEDS = 3
"""Plans are played so often, each time with other choices between nodes that are equally good."""
Unit = tuple[Position, ...]
"""Pods that get their nodes together: the members of a gang, or one pod."""
NOWHERE = frozenset[Row]()
SIBLINGS = "they are of its own workload"


@dataclass(frozen=True)
class RoomWishes:
    """``keep``: pods with such labels stay where they are; ``pool``: only the nodes of this pool are touched; ``most``
    moves for a pod are tried, for at most so many ``seconds`` for all of them.
    """

    most: int = 3
    keep: str = ""
    pool: str = ""
    seconds: float = 10.0


class PlanPart(NamedTuple):
    """A part of the plan: the moves, the nodes that are cordoned until they are over, and where each pod went in any
    replay.
    """

    moved: list[PlayedMove]
    emptied: frozenset[Row]
    targets: list[set[Row]]


class ReplayedPlan(NamedTuple):
    """The cluster after a plan, its moves, and where all went that waited, -1 for nowhere."""

    stage: Rehearsal
    moved: list[PlayedMove]
    rows: dict[Position, Row]


class PlanTaken(NamedTuple):
    """A unit that fits by now, its moves, and the nodes that are cordoned meanwhile."""

    unit: Unit
    plan: Plan
    emptied: frozenset[Row]


class Draft(NamedTuple):
    """Moves that may let the members fit, all of their unit if ``whole``."""

    members: Unit
    moves: Plan
    emptied: frozenset[Row]
    whole: bool


class DraftTask(NamedTuple):
    """A draft to judge, after the plans that were taken."""

    taken: tuple[PlanTaken, ...]
    draft: Draft


@dataclass
class RoomMaking:
    """The plan as it grows; ``stage``: the cluster with all others placed that fit, and with the ``parts`` so far.

    ``taken``: what it is made of; ``hands``: who judges drafts side by side; ``done``: told of each that was judged;
    ``latest``: the replays of the last one. ``left``: others that wait on; ``rows``: the pods that fit by now, and
    where; ``besides``: others that do with the plan. ``keep``: who does not move; ``nodes`` (N,): those that may be
    touched; ``before``: the cluster without any plan.
    """

    stage: Rehearsal
    simulation: Simulation
    wanted: Sequence[Position]
    left: list[Position]
    nodes: Bools
    keep: Selector | None
    wishes: RoomWishes
    before: Rehearsal
    parts: list[PlanPart] = field(default_factory=list)
    rows: dict[Position, Row] = field(default_factory=dict)
    besides: dict[Position, Row] = field(default_factory=dict)
    searches: list[PlanSearch] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    taken: list[PlanTaken] = field(default_factory=list)
    hands: WorkerPool[DraftTask, bool] | None = None
    done: Callable[[int], None] = lambda number: None
    latest: dict[object, list[ReplayedPlan]] = field(default_factory=dict)

    @classmethod
    def of(cls, scheduler: Scheduler, wanted: Sequence[Position], wishes: RoomWishes, seed: int) -> RoomMaking:
        """Raises UsageError for a pool that is not there, InputError for a selector."""
        keep = _selector(wishes.keep) if wishes.keep else None
        simulation = Simulation(scheduler, seed=seed)
        others = [position for position in find_pending(simulation) if position not in wanted]
        outcomes = schedule_victims(simulation, simulation.schedule(others))
        if simulation.interrupted:
            raise KeyboardInterrupt
        waiting = dict.fromkeys(outcome.position for outcome in outcomes if outcome.row < 0)
        left = [p for p in waiting if simulation.view.node[p] < 0 and p not in simulation.gone]
        stage = Rehearsal(scheduler, simulation.view, simulation.view.nodes.objects, seed=seed)
        nodes = Pools.of(simulation.view).nodes_in(wishes.pool)
        return cls(stage.cordoning(NOWHERE), simulation, wanted, left, nodes, keep, wishes, stage)

    def make(self) -> None:
        """Let as many fit as do, first those that need no move."""
        until = time.monotonic() + self.wishes.seconds
        for unit in self._units():
            self._advance(unit, (), NOWHERE)
        hopeless = set[int]()
        for unit in self._units():
            infos = {int(self.before.view.pods.info[position]) for position in unit}
            fits = infos.isdisjoint(hopeless) and self._make_for(unit, until)
            if self.interrupted:
                return
            if not fits:
                hopeless |= infos
                self.left += unit

    def _units(self) -> list[Unit]:
        """The pods that do not fit yet, in the order of the queue, gangs together."""
        units: dict[object, list[Position]] = {}
        for position in self.simulation.queue(self.wanted):
            if position not in self.rows:
                groups = find_groups(self.before.view.pods.objects[position])
                units.setdefault(groups or position, []).append(position)
        return [tuple(unit) for unit in units.values()]

    def _make_for(self, unit: Unit, until: float) -> bool:
        """Let one more unit fit, by moves where it has to be; whether it does."""
        if self._advance(unit, (), NOWHERE):
            return True
        if any(never_tried(self.stage.simulation(), position) for position in unit):
            return False
        plan, emptied = Plan(), NOWHERE
        for number in range(1, len(unit) + 1):
            members = unit[:number]
            now, row = self._with(members[:-1], plan, emptied)
            if now is None:
                return False
            if row is not None:
                emptied |= {row}
            if number < len(unit) and self._with(members, plan, emptied)[0] is not None:
                continue
            if number == len(unit) and self._holds(unit, plan, emptied):
                break
            search = self._search(now, members, plan, emptied, until)
            more = search.run(self.wishes.most)
            self.interrupted |= search.interrupted
            if more is None or (self.interrupted and number < len(unit)):
                return False
            plan, emptied = plan + more, emptied | {Row(int(now.view.node[more[-1]]))}
        return self._advance(unit, plan, emptied)

    def _search(self, now: Rehearsal, members: Unit, plan: Plan, emptied: frozenset[Row], until: float) -> PlanSearch:
        """For the last of the members, beside the others."""
        siblings = self._siblings(members[-1])
        may_move = movable(now.simulation(), self.nodes, self.keep, {*self.wanted, *plan, *siblings})
        rows = now.view.node[siblings]
        own = int(np.count_nonzero((rows >= 0) & self.nodes[rows]))
        self.held = may_move.held | ({SIBLINGS: own} if own else {})
        whole = members[-1:] == self._last_of(members)

        def accept(several: Sequence[Plan]) -> Iterator[bool]:
            rows = [Row(int(now.view.node[more[-1]])) for more in several]
            drafts = [
                Draft(members, (*plan, *more), emptied | {row}, whole) for more, row in zip(several, rows, strict=True)
            ]
            if self.hands is None or len(drafts) == 1:
                return map(self.accepts, drafts)
            return self.hands.run([DraftTask(tuple(self.taken), draft) for draft in drafts])

        abreast = self.hands.size if self.hands else 1
        search = PlanSearch(now, members[-1], may_move, self.nodes, accept, until, abreast, self.done)
        self.searches.append(search)
        return search

    def accepts(self, draft: Draft) -> bool:
        """Whether the members fit with the moves."""
        if draft.whole:
            return self._holds(draft.members, draft.moves, draft.emptied)
        return self._with(draft.members, draft.moves, draft.emptied)[0] is not None

    def follow(self, taken: Sequence[PlanTaken]) -> None:
        """Take plans that were found elsewhere."""
        for unit, plan, emptied in taken:
            self._advance(unit, plan, emptied)

    def _last_of(self, members: Unit) -> Unit:
        """The last pod of the unit that they are of."""
        return next(unit[-1:] for unit in self._units() if members[0] in unit)

    def _siblings(self, position: Position) -> list[Position]:
        """The pods of its own workload, which are not sent away for it."""
        view = self.before.view
        mine = find_owner(view.pods.objects[position])
        alike = view.pods.where(lambda info: find_owner(info.pod) == mine) & (mine.kind != "Pod")
        return [Position(position) for position in np.flatnonzero(alike[view.pods.info]).tolist()]

    def _with(self, members: Unit, plan: Plan, emptied: frozenset[Row]) -> tuple[Rehearsal | None, Row | None]:
        """The cluster with a plan, and members of a gang on their nodes, each by itself; the node of the last of them.

        None where one fits nowhere.
        """
        played = play(self.stage, plan, emptied)
        if played is None:
            return None, None
        stage, row = played[0].cordoning(NOWHERE), None
        simulation = stage.simulation()
        for position in members:
            cycle = simulation.cycle(position)
            if not cycle.schedulable:
                return None, None
            row = Row(int(cycle.scores.best[0]))
            simulation.bind(position, row, cycle.pre_filter.results)
        return replace(stage, nodes=stage.view.nodes.objects), row

    def _holds(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> bool:
        """Whether all of the unit fit with a plan, whatever chance and the queue decide."""
        return bool(self._replays(unit, plan, emptied))

    def _replays(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        """The plan played with several seeds, in both orders of the queue; none where one of them leaves out a pod.

        The same with pods that linger comes last. What was asked for last is kept.
        """
        asked = unit, plan, emptied, len(self.taken), len(self.left)
        if asked not in self.latest:
            self.latest = {asked: self._new_replays(unit, plan, emptied)}
        return self.latest[asked]

    def _new_replays(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        course = PlanCourse(self.stage, unit, tuple(self.left), plan)
        replays = self._played(course, emptied)
        if replays and (lingering := lingering_course(course)) is not None:
            others = self._played(lingering, emptied)
            return replays + others if others else []
        return replays

    def _played(self, course: PlanCourse, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        replays = []
        for first in (False, True) if course.plan else (False,):
            for number in range(SEEDS):
                replay = _replayed(course, emptied, self.stage.seed + number, first=first)
                if replay is None:
                    return []
                replays.append(replay)
        return replays

    def _advance(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> bool:
        """Take the plan, if it holds."""
        replays = self._replays(unit, plan, emptied)
        if not replays:
            return False
        self.stage, moved, rows = replays[0]
        self.rows |= {position: rows[position] for position in unit}
        self.besides |= {position: rows[position] for position in self.left if rows[position] >= 0}
        self.left = [position for position in self.left if rows[position] < 0]
        self.taken.append(PlanTaken(unit, plan, emptied))
        if plan:
            targets = [
                {move.target for move in moves} for moves in zip(*(replay.moved for replay in replays), strict=True)
            ]
            self.parts.append(PlanPart(moved, emptied, targets))
        return True


def _replayed(course: PlanCourse, emptied: frozenset[Row], seed: int, *, first: bool) -> ReplayedPlan | None:
    """The cluster with a plan, all that waits in the queue; None where one of the unit does not fit."""
    stage, unit, others, plan = course
    played = play(replace(stage, seed=seed, waiting=(*others, *unit), first=first), plan, emptied)
    if played is None:
        return None
    then = played[0].cordoning(NOWHERE)
    rows = then.placed()
    if rows is None or any(rows[position] < 0 for position in unit):
        return None
    return ReplayedPlan(replace(then, seed=stage.seed, waiting=()), played[1], rows)


def never_tried(simulation: Simulation, position: Position) -> str:
    """Why kube-scheduler never looks for a node for a pod as it is; empty where it does."""
    outcome = simulation.settled(position, simulation.framework(position))
    return outcome.message if outcome else ""


def _selector(text: str) -> Selector:
    """Raises InputError."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise InputError(error.what, where=f"--keep {text}") from None
