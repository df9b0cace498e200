"""Make room for one pod or gang after the other, each with the fewest and then the cheapest moves.

Pods that fit without moves come first. Each further pod gets a plan on top of the plans before. That is the fewest
moves for this pod, which need not be the fewest for all. Members of a gang get their plan together. A plan is replayed
from the beginning with several seeds, because chance decides between equally good nodes, and with waiting pods tried
before and after the replacements. In each replay every pod must get a node, and none may be preempted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, find_positions
from kschedctl.api.labels import Selector, SelectorError, parse_selector
from kschedctl.api.ownership import find_owner
from kschedctl.commands.make_room.movable import find_movable_pods
from kschedctl.commands.make_room.rehearsal import (
    PlanCourse,
    PlanReplays,
    PlayedMove,
    Rehearsal,
    add_terminating_pods,
    replay_plan,
)
from kschedctl.commands.make_room.search import SEARCH_BUDGET, Plan, PlanSearch
from kschedctl.errors import InputError
from kschedctl.fixes.search import count_affordable_replays
from kschedctl.replay.controllers.target_pod import find_groups_of_pod
from kschedctl.replay.parallel import WorkerPool
from kschedctl.replay.pools import Pools
from kschedctl.replay.settling import find_pods_still_pending, schedule_victims_until_stable
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

SEEDS = 3
"""The number of replays of a plan, each with other choices between equally good nodes."""
Unit = tuple[Position, ...]
"""Pods that get their nodes together: the members of a gang, or a single pod."""
NO_NODES = frozenset[Row]()
SAME_WORKLOAD = "they belong to the workload that needs the room"
WAITING = "they are pending, or are being preempted"


@dataclass(frozen=True)
class RoomCriteria:
    """The limits of the search."""

    max_moves: int = 3
    """The maximum number of moves per pod."""
    keep: str = ""
    """A label selector of pods that stay where they are."""
    pool: str = ""
    """The only pool whose nodes are touched."""
    seconds: float | None = None
    """The time limit for all pods. Without one, a number of replays limits the search, so that the plan does not depend
    on the machine.
    """


class PlanPart(NamedTuple):
    """The moves that make room for one unit."""

    moved: list[PlayedMove]
    emptied: frozenset[Row]
    """The nodes that stay cordoned until the moves are done."""
    targets: list[set[Row]]
    """The targets of each move over all replays."""


class ReplayedPlan(NamedTuple):
    """The result of replaying a plan."""

    stage: Rehearsal
    """The cluster after the plan."""
    moved: list[PlayedMove]
    rows: dict[Position, Row]
    """The nodes of the waiting pods, -1 for those without."""


class AdoptedPlan(NamedTuple):
    """The plan for a unit, which fits with it."""

    unit: Unit
    plan: Plan
    emptied: frozenset[Row]
    """The nodes that are cordoned meanwhile."""


class PlacedMembers(NamedTuple):
    """Some members of a unit that were placed after a plan."""

    stage: Rehearsal
    """The cluster with the members."""
    last_row: Row | None
    """The node of the last member, None if there are no members."""


class Draft(NamedTuple):
    """A plan that may let the members of a unit fit."""

    members: Unit
    moves: Plan
    emptied: frozenset[Row]
    whole: bool
    """True if the members are the whole unit."""


class PlanReplayKey(NamedTuple):
    """The inputs on which replays from one stage depend."""

    waiting: tuple[Position, ...]
    seed: int
    waiting_first: bool


class SampledReplaysKey(NamedTuple):
    """The inputs on which the replays of a plan under several outcomes of random choices depend.

    The counts stand for the stage and the waiting pods, which change only when a plan is adopted or a unit stays
    without nodes.
    """

    unit: Unit
    plan: Plan
    emptied: frozenset[Row]
    adopted_count: int
    """The number of plans that were adopted so far."""
    unplaced_count: int
    """The number of waiting pods that have no node so far."""


class DraftTask(NamedTuple):
    """Drafts to judge after the plans that were adopted so far."""

    taken: tuple[AdoptedPlan, ...]
    drafts: tuple[Draft, ...]


@dataclass
class RoomMaking:
    """The search for room, with the plans that were adopted so far.

    A plan consists of moves and of the nodes that it empties. The methods get these nodes as `emptied`, a set of rows.
    They stay cordoned while pods move, and are uncordoned afterwards.
    """

    stage: Rehearsal
    """The cluster with all other pods that fit, and after the adopted plans."""
    simulation: Simulation
    wanted: Sequence[Position]
    """The pods for which room is made."""
    unplaced: list[Position]
    """Other pods that still wait."""
    placed_first: Sequence[Position]
    """Other waiting pods that fit without moves, and got their nodes before the search."""
    preempted_first: Sequence[Position]
    """The pods that were preempted to place these pods, in order."""
    nodes: Bools
    """The mask (N,) of nodes that may be touched."""
    keep: Selector | None
    """Selects pods that do not move."""
    criteria: RoomCriteria
    before: Rehearsal
    """The cluster without any plan."""
    parts: list[PlanPart] = field(default_factory=list)
    """The moves of the adopted plans."""
    rows: dict[Position, Row] = field(default_factory=dict)
    """Pod -> its node, for the pods that fit so far."""
    also_placed: dict[Position, Row] = field(default_factory=dict)
    """Other waiting pod -> its node, for those that fit with the plans."""
    searches: list[PlanSearch] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    """Reason -> the number of pods that it keeps from moving."""
    interrupted: bool = False
    adopted: list[AdoptedPlan] = field(default_factory=list)
    """The adopted plans."""
    pool: WorkerPool[DraftTask, list[bool]] | None = None
    """Workers that judge drafts in parallel."""
    advance: Callable[[int], None] = lambda number: None
    """Called for each judged draft."""
    latest_key: SampledReplaysKey | None = None
    """The inputs on which `latest_replays` depend, None if there are none yet."""
    latest_replays: list[ReplayedPlan] = field(default_factory=list)
    """The replays of the latest plan, which are computed again if their key changes."""
    plan_replays: dict[PlanReplayKey, PlanReplays] = field(default_factory=dict)
    """The replays from `stage` while the latest unit waits, whose beginnings plans share."""

    @classmethod
    def after_scheduling_other_pods(
        cls, scheduler: Scheduler, wanted: Sequence[Position], criteria: RoomCriteria, seed: int
    ) -> RoomMaking:
        """Schedule the waiting pods that are not in `wanted`, and return the search for room for the `wanted` pods.

        The search starts from the cluster with those other pods. Raises UsageError or InputError if `criteria` has an
        invalid selector or pool, and KeyboardInterrupt if the user interrupts the scheduling.
        """
        keep = _parse_keep_selector(criteria.keep) if criteria.keep else None

        # Schedule all other pods.
        simulation = Simulation(scheduler, seed=seed)
        other_positions = [position for position in find_pods_still_pending(simulation) if position not in wanted]
        outcomes = schedule_victims_until_stable(simulation, simulation.schedule(other_positions))
        if simulation.interrupted:
            raise KeyboardInterrupt
        failed = dict.fromkeys(outcome.position for outcome in outcomes if not outcome.is_placed)
        unplaced = [
            position
            for position in failed
            if not simulation.view.has_node(position) and position not in simulation.gone
        ]
        stage = Rehearsal(scheduler, simulation.view, simulation.view.nodes.objects, seed=seed)
        nodes = Pools.from_view(simulation.view).select_nodes_in_pool(criteria.pool)
        return cls(
            stage.with_cordoned(NO_NODES),  # a copy, which adopted plans change, unlike `before`
            simulation,
            wanted=wanted,
            unplaced=unplaced,
            placed_first=[position for position in other_positions if simulation.view.has_node(position)],
            preempted_first=list(dict.fromkeys(eviction.victim for eviction in simulation.evictions)),
            nodes=nodes,
            keep=keep,
            criteria=criteria,
            before=stage,
        )

    def make_room(self) -> None:
        """Let as many gangs and single pods fit as possible, starting with those that need no moves.

        If a gang or pod does not fit, no gang or pod with an equal pod is tried. The search ends early if the user
        interrupts.
        """
        seconds = self.criteria.seconds
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        for unit in self._list_unplaced_units():
            self._adopt_plan_if_it_works(unit, plan=(), emptied=NO_NODES)
        hopeless_infos: set[int] = set()
        for unit in self._list_unplaced_units():
            infos = {int(self.before.view.pods.info[position]) for position in unit}
            fits = infos.isdisjoint(hopeless_infos) and self._make_room_for_unit(unit, deadline)
            if self.interrupted:
                return
            if not fits:
                hopeless_infos |= infos
                self.unplaced += unit

    def _list_unplaced_units(self) -> list[Unit]:
        """List the gangs and single pods that do not fit yet, each as a tuple of pods, in the order of the queue."""
        units: dict[object, list[Position]] = {}
        for position in self.simulation.sort_for_queue(self.wanted):
            if position not in self.rows:
                groups = find_groups_of_pod(self.before.view.pods.objects[position])
                unit_key = groups or position  # a pod without groups is a unit by itself
                units.setdefault(unit_key, []).append(position)
        return [tuple(unit) for unit in units.values()]

    def _make_room_for_unit(self, unit: Unit, deadline: float) -> bool:
        """Let one more gang or single pod fit, with moves if necessary, and return whether it fits.

        The plan is adopted if it works. No moves are searched if kube-scheduler does not try one of the pods at all,
        for example because it is gated. An interruption is recorded in `interrupted`.
        """
        if self._adopt_plan_if_it_works(unit, plan=(), emptied=NO_NODES):
            return True
        if any(find_reason_not_tried(self.stage.build_simulation(), position) for position in unit):
            return False

        # Extend the plan member by member until the whole unit fits.
        plan: Plan = ()
        emptied = NO_NODES
        for member_count in range(1, len(unit) + 1):
            members = unit[:member_count]
            is_last = member_count == len(unit)
            placed = self._place_gang_after_plan(members[:-1], plan, emptied)
            if placed is None:
                return False
            stage = placed.stage
            if placed.last_row is not None:
                emptied |= {placed.last_row}
            if self.accepts(Draft(members, moves=plan, emptied=emptied, whole=is_last)):
                continue

            search = self._register_search(stage, members, plan, emptied, deadline)
            further_moves = search.run(self.criteria.max_moves)
            self.interrupted |= search.interrupted
            if further_moves is None or (self.interrupted and not is_last):
                return False
            plan += further_moves
            emptied |= {_get_emptied_row(stage, further_moves)}
        return self._adopt_plan_if_it_works(unit, plan, emptied)

    def _register_search(
        self, stage: Rehearsal, members: Unit, plan: Plan, emptied: frozenset[Row], deadline: float
    ) -> PlanSearch:
        """Build a search for further moves after which the last of `members` fits along with the others.

        The moves come after those of `plan`, while the nodes `emptied` are cordoned. The search is added to `searches`,
        and `held` is set to the numbers of pods that may not move, by reason.
        """
        siblings = self._find_sibling_pods(members[-1])
        placed_by_replay = self._find_pods_placed_by_replay(stage)
        spared = {*self.wanted, *plan, *siblings, *placed_by_replay}
        movable = find_movable_pods(stage.build_simulation(), self.nodes, self.keep, spared)

        # Pods that the search spares may not move either
        sibling_rows = stage.view.node[siblings]
        other_pods_placed_by_replay = set(placed_by_replay) - {*self.wanted, *plan, *siblings}
        spared_count_by_reason = {
            SAME_WORKLOAD: int(np.count_nonzero((sibling_rows >= 0) & self.nodes[sibling_rows])),
            WAITING: len(other_pods_placed_by_replay),
        }
        self.held = movable.held | {reason: count for reason, count in spared_count_by_reason.items() if count}

        is_whole_unit = members[-1:] == self._get_last_pod_of_unit(members)

        def judge_plans(plans: Sequence[Plan]) -> Iterator[bool]:
            """Yield for each plan of further moves whether it works.

            The processes of the pool are used if there is a pool.
            """
            drafts = []
            for further_moves in plans:
                draft_emptied = emptied | {_get_emptied_row(stage, further_moves)}
                drafts.append(Draft(members, moves=(*plan, *further_moves), emptied=draft_emptied, whole=is_whole_unit))
            if self.pool is None or len(drafts) == 1:
                return map(self.accepts, drafts)
            return _judge_drafts_in_pool(self.pool, tuple(self.adopted), drafts)

        # Without a time limit, all searches share a number of replays
        max_replays = math.inf
        if self.criteria.seconds is None:
            affordable_replays = count_affordable_replays(SEARCH_BUDGET, len(self.nodes))
            max_replays = affordable_replays - sum(earlier.replays for earlier in self.searches)
        waiting_count = int(np.count_nonzero(self.before.view.node < 0))

        search = PlanSearch(
            stage,
            members[-1],
            movable=movable,
            nodes=self.nodes,
            accept=judge_plans,
            max_replays=max_replays,
            deadline=deadline,
            replays_per_plan=1 + waiting_count,
            workers=self.pool.size if self.pool else 1,
            advance=self.advance,
        )
        self.searches.append(search)
        return search

    def accepts(self, draft: Draft) -> bool:
        """Return whether the draft's members, a whole gang or some of its pods, fit after the draft's moves.

        The plan for a whole gang or a single pod has to work with several seeds and queue orders. A plan for some
        members of a gang is replayed only once.
        """
        if draft.whole:
            return bool(self._get_sampled_replays(draft.members, draft.moves, draft.emptied))
        return self._place_gang_after_plan(draft.members, draft.moves, draft.emptied) is not None

    def adopt_all(self, plans: Sequence[AdoptedPlan]) -> None:
        """Adopt the plans found by another process, in their order, so that this process reaches the same state."""
        for unit, plan, emptied in plans:
            self._adopt_plan_if_it_works(unit, plan, emptied)

    def _get_last_pod_of_unit(self, members: Unit) -> Unit:
        """Return the last pod of the gang that contains the members, as a tuple of one pod."""
        return next(unit[-1:] for unit in self._list_unplaced_units() if members[0] in unit)

    def _find_pods_placed_by_replay(self, stage: Rehearsal) -> list[Position]:
        """Return the pods that only the replay has placed on nodes whose pods may be moved, in order of position.

        These are waiting pods and pods that waiting pods preempt. They cannot be evicted from these nodes, because they
        do not run there. Pods that the adopted plans move are left out, because each move waits until the replacements
        of earlier moves run.
        """
        rows_in_snapshot = self.before.scheduler.view.node
        rows_before_plans = self.before.view.node[: len(rows_in_snapshot)]
        placed_before_plans = find_positions((rows_before_plans != rows_in_snapshot) & (rows_before_plans >= 0))
        placed_by_plans = self.also_placed
        rows = stage.view.node
        return [
            position
            for position in sorted({*placed_before_plans, *placed_by_plans})
            if rows[position] >= 0 and self.nodes[rows[position]]
        ]

    def _find_sibling_pods(self, position: Position) -> list[Position]:
        """Return all pods of the pod's workload, which are never evicted for the pod. A bare pod has no siblings."""
        view = self.before.view
        owner = find_owner(view.pods.objects[position])
        has_same_owner = view.pods.where(lambda info: find_owner(info.pod) == owner) & (owner.kind != "Pod")
        return [Position(position) for position in np.flatnonzero(has_same_owner[view.pods.info]).tolist()]

    def _place_gang_after_plan(self, members: Unit, plan: Plan, emptied: frozenset[Row]) -> PlacedMembers | None:
        """Replay a plan, and then place some members of a gang one by one. Other waiting pods are not scheduled.

        The result is None if a step of the plan is not safe or a member fits nowhere.
        """
        replayed = replay_plan(self.stage, plan, emptied)
        if replayed is None:
            return None
        stage = replayed.stage.with_cordoned(NO_NODES)  # no node stays cordoned after the plan
        row: Row | None = None
        simulation = stage.build_simulation()
        for position in members:
            cycle = simulation.run_cycle(position)
            if not cycle.schedulable:
                return None
            row = Row(int(cycle.scores.best[0]))
            simulation.bind(position, row, cycle.pre_filter.results)
        uncordoned_nodes = stage.view.nodes.objects  # what a further plan restores after its cordons
        return PlacedMembers(replace(stage, nodes=uncordoned_nodes), row)

    def _get_sampled_replays(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        """Return the replays of the plan for a gang or single pod under several outcomes of random choices.

        The list is empty if the plan fails in one of the replays. The latest result is reused if nothing has changed.
        """
        key = SampledReplaysKey(unit, plan, emptied, len(self.adopted), len(self.unplaced))
        if self.latest_key != key:
            self.latest_replays = self._compute_sampled_replays(unit, plan, emptied)
            self.latest_key = key
        return self.latest_replays

    def _compute_sampled_replays(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        """Replay a plan under several outcomes of random choices, and return the replays.

        If evicted pods may linger, the plan is also replayed with lingering pods, and these replays come last. The list
        is empty if the plan fails in one of the replays: a move is not safe, or a pod of the gang does not fit.
        """
        course = PlanCourse(self.stage, unit=unit, others=tuple(self.unplaced), plan=plan)
        replays = self._replay_course(course, emptied)
        if not replays:
            return []
        lingering_course = add_terminating_pods(course)
        if lingering_course is None:
            return replays
        lingering_replays = self._replay_course(lingering_course, emptied)
        if not lingering_replays:
            return []
        return replays + lingering_replays

    def _replay_course(self, course: PlanCourse, emptied: frozenset[Row]) -> list[ReplayedPlan]:
        """Replay a course with several seeds, and with waiting pods tried after and before the replacements.

        The list is empty if the plan fails in one of the replays.
        """
        replays = []
        queue_orders = (False, True) if course.plan else (False,)  # without moves, nothing wakes waiting pods
        for waiting_first in queue_orders:
            for number in range(SEEDS):
                replays_of_course = self._get_plan_replays(course, self.stage.seed + number, waiting_first)
                replay = _replay_course_once(course, emptied, replays_of_course)
                if replay is None:
                    return []
                replays.append(replay)
        return replays

    def _get_plan_replays(self, course: PlanCourse, seed: int, waiting_first: bool) -> PlanReplays:
        """Return the replays of plans that start from the course's stage with this seed.

        The replays are cached unless the course has a stage of its own. `waiting_first` says whether waiting pods are
        tried before the replacements of evicted pods.
        """
        key = PlanReplayKey((*course.others, *course.unit), seed, waiting_first)
        stage = replace(course.stage, waiting=key.waiting, seed=seed, waiting_first=waiting_first)
        if course.stage is not self.stage:  # a course with terminating pods has a stage of its own
            return PlanReplays(stage)
        if key not in self.plan_replays:
            # Replays for another unit or before an adopted plan are of no use any more.
            self.plan_replays = {old: cached for old, cached in self.plan_replays.items() if old.waiting == key.waiting}
            self.plan_replays[key] = PlanReplays(stage)
        return self.plan_replays[key]

    def _adopt_plan_if_it_works(self, unit: Unit, plan: Plan, emptied: frozenset[Row]) -> bool:
        """Adopt the plan if the gang or single pod gets nodes in all of its replays, and return whether it was adopted.

        The first replay decides the nodes of the pods, including other waiting pods that now fit.
        """
        replays = self._get_sampled_replays(unit, plan, emptied)
        if not replays:
            return False
        self.adopted.append(AdoptedPlan(unit, plan, emptied))
        self.stage = replays[0].stage
        self.plan_replays = {}  # they start from the previous stage

        rows = replays[0].rows
        self.rows |= {position: rows[position] for position in unit}
        self.also_placed |= {position: rows[position] for position in self.unplaced if rows[position] >= 0}
        self.unplaced = [position for position in self.unplaced if rows[position] < 0]
        if plan:
            self.parts.append(_build_plan_part(replays, emptied))
        return True


def _build_plan_part(replays: Sequence[ReplayedPlan], emptied: frozenset[Row]) -> PlanPart:
    """Build the part of an adopted plan, with the moves of the first replay and their targets in all replays.

    `emptied` has the nodes that stay cordoned until the moves are done.
    """
    replays_of_each_move = zip(*(replay.moved for replay in replays), strict=True)
    targets = [{move.target for move in moves} for moves in replays_of_each_move]
    return PlanPart(replays[0].moved, emptied, targets)


def _judge_drafts_in_pool(
    pool: WorkerPool[DraftTask, list[bool]], adopted: tuple[AdoptedPlan, ...], drafts: Sequence[Draft]
) -> Iterator[bool]:
    """Yield for each draft whether it works, in the order of the drafts.

    The workers of the pool each judge about the same number of drafts. The same worker judges drafts that empty the
    same nodes, because they share replays.
    """
    order = sorted(range(len(drafts)), key=lambda index: sorted(drafts[index].emptied))
    drafts_per_task = math.ceil(len(drafts) / pool.size)
    chunks = [order[start : start + drafts_per_task] for start in range(0, len(order), drafts_per_task)]
    answers: dict[int, bool] = {}
    tasks = [DraftTask(adopted, tuple(drafts[index] for index in chunk)) for chunk in chunks]
    for chunk, are_accepted in zip(chunks, pool.run(tasks), strict=True):
        answers.update(zip(chunk, are_accepted, strict=True))
    for index in range(len(drafts)):
        yield answers[index]


def _get_emptied_row(stage: Rehearsal, further_moves: Plan) -> Row:
    """Return the row of the last moved pod's node, which stays cordoned until it takes the waiting pod."""
    return Row(int(stage.view.node[further_moves[-1]]))


def _replay_course_once(course: PlanCourse, emptied: frozenset[Row], plan_replays: PlanReplays) -> ReplayedPlan | None:
    """Replay a plan for a gang or single pod once, and return the result.

    The `emptied` nodes stay cordoned while pods move. Afterwards, all nodes that the plan cordoned are uncordoned, and
    the pods that still wait are scheduled. `plan_replays` starts from the course's stage, with a seed and the unit as
    waiting pods. Return None if a move is not safe, or if a waiting pod would preempt other pods. Also return None if a
    pod of the gang gets no node. Other waiting pods need no node.
    """
    replayed = plan_replays.replay(course.plan, emptied)
    if replayed is None:
        return None
    uncordoned = replayed.stage.with_cordoned(NO_NODES)
    if not uncordoned.may_fit_all(course.unit):
        return None
    rows = uncordoned.place_all_waiting_pods()
    if rows is None:  # a waiting pod would preempt other pods
        return None
    lacks_node = any(rows[position] < 0 for position in course.unit)
    if lacks_node:
        return None
    stage = replace(uncordoned, seed=course.stage.seed, waiting=(), waiting_pods=None)
    return ReplayedPlan(stage, replayed.moves, rows)


def find_reason_not_tried(simulation: Simulation, position: Position) -> str:
    """Return the reason why kube-scheduler does not try the pod at all, such as a scheduling gate, or ""."""
    outcome = simulation.find_outcome_without_cycle(position, simulation.find_framework(position))
    return outcome.message if outcome else ""


def _parse_keep_selector(text: str) -> Selector:
    """Parse the label selector of --keep. Raises InputError that names the option if the selector is invalid."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise InputError(error.what, where=f"--keep {text}") from None
