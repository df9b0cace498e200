"""Plans for one pod after the other, each with the fewest and then cheapest moves, every step replayed.

Pods that fit without moves come first. Each further pod gets a plan on top of the plans before: the fewest moves for
one pod, which are not always the fewest for all. Members of a gang get theirs together. A plan is replayed from the
beginning with several seeds, since chance decides between equally good nodes, and with waiting pods tried before and
after the replacements: no pod may be left without a node, and none may be preempted.
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
from kschedctl.commands.make_room.movable import find_movable
from kschedctl.commands.make_room.rehearsal import PlanCourse, PlayedMove, Rehearsal, add_terminating_pods, play_plan
from kschedctl.commands.make_room.search import Plan, PlanSearch
from kschedctl.errors import InputError
from kschedctl.replay.controllers.target_pod import find_groups
from kschedctl.replay.parallel import WorkerPool
from kschedctl.replay.pools import Pools
from kschedctl.replay.settling import find_pending, schedule_victims
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

SEEDS = 3
"""The number of replays of a plan, each with other choices between equally good nodes."""
Unit = tuple[Position, ...]
"""Pods that get their nodes together: the members of a gang, or one pod."""
NOWHERE = frozenset[Row]()
SIBLINGS = "they are of its own workload"


@dataclass(frozen=True)
class RoomWishes:
    """The limits of the search."""

    most: int = 3
    """The maximum number of moves per pod."""
    keep: str = ""
    """A label selector of pods that stay where they are."""
    pool: str = ""
    """The only pool whose nodes are touched."""
    seconds: float = 10.0
    """The time limit for all pods."""


class PlanPart(NamedTuple):
    """The moves made for one unit."""

    moved: list[PlayedMove]
    emptied: frozenset[Row]
    """The nodes that stay cordoned until the moves are done."""
    targets: list[set[Row]]
    """Where each pod went in any replay."""


class ReplayedPlan(NamedTuple):
    """The cluster after a plan, its moves, and where the waiting pods went, -1 for nowhere."""

    stage: Rehearsal
    moved: list[PlayedMove]
    rows: dict[Position, Row]


class AdoptedPlan(NamedTuple):
    """A unit that now fits, its moves, and the nodes cordoned meanwhile."""

    unit: Unit
    plan: Plan
    emptied: frozenset[Row]


class Draft(NamedTuple):
    """Moves that may let the members of a unit fit."""

    members: Unit
    moves: Plan
    emptied: frozenset[Row]
    whole: bool
    """Whether the members are the whole unit."""


class DraftTask(NamedTuple):
    """A draft to judge after the plans adopted so far."""

    taken: tuple[AdoptedPlan, ...]
    draft: Draft


@dataclass
class RoomMaking:
    """The plan as it grows."""

    stage: Rehearsal
    """The cluster with all other placeable pods and the ``parts`` so far."""
    simulation: Simulation
    wanted: Sequence[Position]
    left: list[Position]
    """Other pods that still wait."""
    nodes: Bools
    """The nodes that may be touched, (N,)."""
    keep: Selector | None
    """Selects pods that do not move."""
    wishes: RoomWishes
    before: Rehearsal
    """The cluster without any plan."""
    parts: list[PlanPart] = field(default_factory=list)
    rows: dict[Position, Row] = field(default_factory=dict)
    """The nodes of the pods that fit so far."""
    besides: dict[Position, Row] = field(default_factory=dict)
    """The nodes of other waiting pods that fit with the plan."""
    searches: list[PlanSearch] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    adopted: list[AdoptedPlan] = field(default_factory=list)
    """The plans that make up the parts."""
    crew: WorkerPool[DraftTask, bool] | None = None
    """Workers that judge drafts side by side."""
    done: Callable[[int], None] = lambda number: None
    """Called for each judged draft."""
    latest: dict[object, list[ReplayedPlan]] = field(default_factory=dict)
    """The replays of the latest plan."""

    @classmethod
    def start(cls, scheduler: Scheduler, wanted: Sequence[Position], wishes: RoomWishes, seed: int) -> RoomMaking:
        """Place all other pods and prepare the search. Raises UsageError for an unknown pool, InputError for a
        selector.
        """
        keep = _parse_keep(wishes.keep) if wishes.keep else None
        simulation = Simulation(scheduler, seed=seed)
        others = [position for position in find_pending(simulation) if position not in wanted]
        outcomes = schedule_victims(simulation, simulation.schedule(others))
        if simulation.interrupted:
            raise KeyboardInterrupt
        waiting = dict.fromkeys(outcome.position for outcome in outcomes if outcome.row < 0)
        left = [p for p in waiting if simulation.view.node[p] < 0 and p not in simulation.gone]
        stage = Rehearsal(scheduler, simulation.view, simulation.view.nodes.objects, seed=seed)
        nodes = Pools.of(simulation.view).nodes_in(wishes.pool)
        return cls(stage.with_cordoned(NOWHERE), simulation, wanted, left, nodes, keep, wishes, stage)

    def make(self) -> None:
        """Let as many pods fit as possible, those that need no move first."""
        until = time.monotonic() + self.wishes.seconds
        for unit in self._list_units():
            self._adopt_if_it_holds(unit, (), NOWHERE)
        hopeless = set[int]()
        for unit in self._list_units():
            infos = {int(self.before.view.pods.info[position]) for position in unit}
            fits = infos.isdisjoint(hopeless) and self._make_room_for(unit, until)
            if self.interrupted:
                return
            if not fits:
                hopeless |= infos
                self.left += unit

    def _list_units(self) -> list[Unit]:
        """Return the pods that do not fit yet in the queue's order, gangs together."""
        units: dict[object, list[Position]] = {}
        for position in self.simulation.sort_for_queue(self.wanted):
            if position not in self.rows:
                groups = find_groups(self.before.view.pods.objects[position])
                units.setdefault(groups or position, []).append(position)
        return [tuple(unit) for unit in units.values()]

    def _make_room_for(self, unit: Unit, until: float) -> bool:
        """Let one more unit fit, with moves if needed. Return whether that succeeded."""
        if self._adopt_if_it_holds(unit, (), NOWHERE):
            return True
        if any(find_gate(self.stage.build_simulation(), position) for position in unit):
            return False
        plan, emptied = Plan(), NOWHERE
        for number in range(1, len(unit) + 1):
            members = unit[:number]
            now, row = self._place_members(members[:-1], plan, emptied)
            if now is None:
                return False
            if row is not None:
                emptied |= {row}
            if number < len(unit) and self._place_members(members, plan, emptied)[0] is not None:
                continue
            if number == len(unit) and self._holds(unit, plan, emptied):
                break
            search = self._build_search(now, members, plan, emptied, until)
            more = search.run(self.wishes.most)
            self.interrupted |= search.interrupted
            if more is None or (self.interrupted and number < len(unit)):
                return False
            plan, emptied = plan + more, emptied | {Row(int(now.view.node[more[-1]]))}
        return self._adopt_if_it_holds(unit, plan, emptied)

    def _build_search(
        self, now: Rehearsal, members: Unit, plan: Plan, emptied: frozenset[Row], until: float
    ) -> PlanSearch:
        """Build the search for the last of the members beside the others."""
        siblings = self._find_siblings(members[-1])
        may_move = find_movable(now.build_simulation(), self.nodes, self.keep, {*self.wanted, *plan, *siblings})
        rows = now.view.node[siblings]
        own = int(np.count_nonzero((rows >= 0) & self.nodes[rows]))
        self.held = may_move.held | ({SIBLINGS: own} if own else {})
        whole = members[-1:] == self._last_pod_of(members)

        def accept(several: Sequence[Plan]) -> Iterator[bool]:
            rows = [Row(int(now.view.node[more[-1]])) for more in several]
            drafts = [
                Draft(members, (*plan, *more), emptied | {row}, whole) for more, row in zip(several, rows, strict=True)
            ]
            if self.crew is None or len(drafts) == 1:
                return map(self.accepts, drafts)
            return self.crew.run([DraftTask(tuple(self.adopted), draft) for draft in drafts])

        abreast = self.crew.size if self.crew else 1
        search = PlanSearch(now, members[-1], may_move, self.nodes, accept, until, abreast, self.done)
        self.searches.append(search)
        return search

    def accepts(self, draft: Draft) -> bool:
        """Return whether the members fit with the moves."""
        if draft.whole:
            return self._holds(draft.members, draft.moves, draft.emptied)
        return self._place_members(draft.members, draft.moves, draft.emptied)[0] is not None

    def adopt(self, taken: Sequence[AdoptedPlan]) -> None:
        """Adopt plans that were found elsewhere."""
        for unit, plan, emptied in taken:
            self._adopt_if_it_holds(unit, plan, emptied)

    def _last_pod_of(self, members: Unit) -> Unit:
        """Return the last pod of the unit that contains the members."""
        return next(unit[-1:] for unit in self._list_units() if members[0] in unit)

    def _find_siblings(self, position: Position) -> list[Position]:
        """Return the pods of the same workload, which are not evicted for it."""
        view = self.before.view
        mine = find_owner(view.pods.objects[position])
        alike = view.pods.where(lambda info: find_owner(info.pod) == mine) & (mine.kind != "Pod")
        return [Position(position) for position in np.flatnonzero(alike[view.pods.info]).tolist()]

    def _place_members(self, members: Unit, plan: Plan, emptied: frozenset[Row]) -> tuple[Rehearsal | None, Row | None]:
        """Return the cluster with a plan and some members of a gang placed one by one, and the node of the last one.

        Return None for the cluster if one of them fits nowhere.
        """
        played = play_plan(self.stage, plan, emptied)
        if played is None:
            return None, None
        stage, row = played[0].with_cordoned(NOWHERE), None
        simulation = stage.build_simulation()
        for position in members:
            cycle = simulation.run_cycle(position)
            if not cycle.schedulable:
                return None, None
            row = Row(int(cycle.scores.best[0]))
            simulation.bind(position, row, cycle.pre_filter.results)
        return replace(stage, nodes=stage.view.nodes.objects), row

    def _holds(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> bool:
        """Return whether the whole unit fits with a plan, whatever chance and the queue decide."""
        return bool(self._replay_plan(unit, plan, emptied))

    def _replay_plan(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        """Return replays with several seeds and both queue orders, or none if one of them leaves out a pod.

        Replays with lingering pods come last. The latest result is cached.
        """
        key = unit, plan, emptied, len(self.adopted), len(self.left)
        if key not in self.latest:
            self.latest = {key: self._replay_anew(unit, plan, emptied)}
        return self.latest[key]

    def _replay_anew(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        course = PlanCourse(self.stage, unit, tuple(self.left), plan)
        replays = self._replay_course(course, emptied)
        if replays and (lingering := add_terminating_pods(course)) is not None:
            others = self._replay_course(lingering, emptied)
            return replays + others if others else []
        return replays

    def _replay_course(self, course: PlanCourse, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        replays = []
        for first in (False, True) if course.plan else (False,):
            for number in range(SEEDS):
                replay = _replay_once(course, emptied, self.stage.seed + number, first=first)
                if replay is None:
                    return []
                replays.append(replay)
        return replays

    def _adopt_if_it_holds(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> bool:
        """Adopt the plan if it holds."""
        replays = self._replay_plan(unit, plan, emptied)
        if not replays:
            return False
        self.stage, moved, rows = replays[0]
        self.rows |= {position: rows[position] for position in unit}
        self.besides |= {position: rows[position] for position in self.left if rows[position] >= 0}
        self.left = [position for position in self.left if rows[position] < 0]
        self.adopted.append(AdoptedPlan(unit, plan, emptied))
        if plan:
            targets = [
                {move.target for move in moves} for moves in zip(*(replay.moved for replay in replays), strict=True)
            ]
            self.parts.append(PlanPart(moved, emptied, targets))
        return True


def _replay_once(course: PlanCourse, emptied: frozenset[Row], seed: int, *, first: bool) -> ReplayedPlan | None:
    """Replay a plan with all waiting pods in the queue. Return None if a pod of the unit does not fit."""
    stage, unit, others, plan = course
    played = play_plan(replace(stage, seed=seed, waiting=(*others, *unit), waiting_first=first), plan, emptied)
    if played is None:
        return None
    then = played[0].with_cordoned(NOWHERE)
    rows = then.place_waiting()
    if rows is None or any(rows[position] < 0 for position in unit):
        return None
    return ReplayedPlan(replace(then, seed=stage.seed, waiting=()), played[1], rows)


def find_gate(simulation: Simulation, position: Position) -> str:
    """Return why kube-scheduler does not look for a node for the pod at all, or ""."""
    outcome = simulation.find_outcome_without_cycle(position, simulation.framework(position))
    return outcome.message if outcome else ""


def _parse_keep(text: str) -> Selector:
    """Parse --keep. Raises InputError."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise InputError(error.what, where=f"--keep {text}") from None
