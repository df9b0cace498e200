"""Which pods have to move so that these fit? The fewest moves, then the cheapest, each step replayed.

One pod after the other gets its plan, on top of the plans before it: the fewest moves for one pod, not always the fewest
for many. The whole plan is played from the beginning for several seeds, as nodes that are equally good are chosen from
by chance: with all that waits in the queue, nobody may be left without a node, and nobody preempted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.gangs import gangs_of
from kschedctl.api.labels import Selector, parse_selector
from kschedctl.api.ownership import owner_of
from kschedctl.api.resource_names import PODS
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.make_room import FragmentedResource, HeldPods, MakeRoom, Move, PlacedPod, SearchedPlans
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.pods import group_key
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.basics.unknown import of_simulation
from kschedctl.studies.making_room.movable import leaves_scratch, movable
from kschedctl.studies.making_room.search import Plan, Search
from kschedctl.studies.making_room.stage import Moved, Stage, play
from kschedctl.studies.packing.pools import Pools
from kschedctl.studies.remedies.fixes import kubectl
from kschedctl.studies.what_if.settling import all_outcomes, pending
from kschedctl.studies.what_if.shared_cluster import cluster_basis

SEEDS = 3
"""Plans are played so often, each time with other choices between nodes that are equally good."""


@dataclass(frozen=True)
class RoomWishes:
    """``keep``: pods with such labels stay where they are; ``pool``: only the nodes of this pool are touched; ``most``
    moves for a pod are tried, for at most so many ``seconds`` for all of them.
    """

    most: int = 3
    keep: str = ""
    pool: str = ""
    seconds: float = 60.0


def make_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    progress: Progress = UNSEEN,
) -> MakeRoom:
    """The moves that let pods of the cluster fit that wait, ``namespace/name``. Raises UsageError, InputError."""
    scheduler = Scheduler(cluster, call_extender)
    index = scheduler.view.pods.index
    wanted = [Position(index[key]) for key in dict.fromkeys(keys)]
    room = Room.of(scheduler, wanted, wishes, seed)
    done = progress.begin("Making room", len(wanted))
    try:
        for position in room.simulation.queue(wanted):
            if not room.make_for(position):
                break
            done(1)
    except KeyboardInterrupt:
        room.interrupted = True
    return room.report()


@dataclass
class Room:
    """The plan as it grows; ``start``: the cluster with all others that wait placed, as far as they fit.

    ``left``: those that wait on; ``fitting``: the pods that fit with the plan so far, ``emptied`` the nodes that were
    emptied for them.
    """

    start: Stage
    simulation: Simulation
    left: list[Position]
    nodes: Bools
    keep: Selector | None
    wishes: RoomWishes
    until: float
    plan: Plan = ()
    emptied: frozenset[Row] = frozenset()
    fitting: list[Position] = field(default_factory=list)
    wanted: Sequence[Position] = ()
    searches: list[Search] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    @classmethod
    def of(cls, scheduler: Scheduler, wanted: Sequence[Position], wishes: RoomWishes, seed: int) -> Room:
        """Raises UsageError for a pool that is not there."""
        simulation = Simulation(scheduler, seed=seed)
        others = [position for position in pending(simulation) if position not in wanted]
        outcomes = all_outcomes(simulation, simulation.schedule(others))
        if simulation.interrupted:
            raise KeyboardInterrupt
        left = [o.position for o in outcomes if o.row < 0 and simulation.view.node[o.position] < 0]
        left = [position for position in dict.fromkeys(left) if position not in simulation.gone]
        stage = Stage(scheduler, simulation.view, simulation.view.nodes.objects, seed=seed)
        keep = parse_selector(wishes.keep) if wishes.keep else None
        until = time.monotonic() + wishes.seconds
        return cls(stage, simulation, left, _of_pool(simulation, wishes.pool), keep, wishes, until, wanted=wanted)

    def make_for(self, position: Position) -> bool:
        """Let one more pod fit, by moves where it has to be; whether it does."""
        if self._holds((), self.emptied, position):
            self.fitting.append(position)
            return True
        stage = self._now()
        spared = {*self.wanted, *self.plan, *self._siblings(position)}
        found = movable(stage.simulation(), self.nodes, self.keep, spared)
        self.held = found.held
        search = Search(
            stage,
            position,
            found,
            self.nodes,
            lambda plan, row: self._holds(plan, self.emptied | {row}, position),
            self.until,
        )
        self.searches.append(search)
        more = search.run(self.wishes.most)
        if more is None:
            return False
        self.emptied |= {Row(int(stage.view.node[more[-1]]))}
        self.plan += more
        self.fitting.append(position)
        return True

    def _siblings(self, position: Position) -> list[Position]:
        """The pods of its own workload, which are not sent away for it."""
        view = self.start.view
        mine = owner_of(view.pods.objects[position])
        alike = view.pods.where(lambda info: owner_of(info.pod) == mine) & (mine.kind != "Pod")
        return [Position(each) for each in np.flatnonzero(alike[view.pods.info]).tolist()]

    def _now(self) -> Stage:
        """The cluster with the plan so far, and the pods on their nodes that fit with it."""
        played = play(self.start, self.plan, self.emptied)
        assert played is not None, "the plan was played before"
        stage = played[0].cordoning(frozenset())
        _in_turn(stage, self.fitting)
        return replace(stage, nodes=stage.view.nodes.objects)

    def _holds(self, more: Plan, emptied: frozenset[Row], position: Position) -> bool:
        """Whether with more moves one more pod fits, whatever chance decides, and all the others do."""
        return all(self.ends(replace(self.start, seed=self.start.seed + n), more, emptied, position) for n in range(SEEDS))

    def ends(self, start: Stage, more: Plan, emptied: frozenset[Row], position: Position | None = None) -> bool:
        """Whether it does under one seed."""
        played = play(start, (*self.plan, *more), emptied)
        if played is None:
            return False
        fitting = [*self.fitting, *([] if position is None else [position])]
        stage = played[0].cordoning(frozenset())
        if len(fitting) < len(self.wanted) and any(map(self._is_of_gang, fitting)):
            return _in_turn(stage, fitting) is not None
        rows = stage.placed([*self.left, *fitting])
        return rows is not None and all(stage.view.node[each] >= 0 for each in fitting)

    def _is_of_gang(self, position: Position) -> bool:
        pod = self.start.view.pods.objects[position]
        return bool(gangs_of(pod) or group_key(pod))

    # -- the report ------------------------------------------------------------------------------------------------

    def report(self) -> MakeRoom:
        view, pods = self.start.view, self.start.view.pods.objects
        played = play(self.start, self.plan, self.emptied)
        assert played is not None, "the plan was played before"
        stage = played[0].cordoning(frozenset())
        rows = {} if self.interrupted else stage.placed([*self.left, *self.fitting]) or {}
        missing = [pods[position].key for position in self.wanted if position not in self.fitting]
        simulation = stage.simulation()
        return MakeRoom(
            pods=tuple(pods[position].key for position in self.wanted),
            fits=not missing,
            moves=tuple(self._moves(played[1])),
            placed=tuple(
                PlacedPod(pods[position].key, view.nodes.names[rows[position]])
                for position in self.fitting
                if rows.get(position, -1) >= 0
            ),
            missing=tuple(missing),
            message=self._message(simulation, missing),
            preempts=self._preempts(),
            commands=tuple(self._commands(played[1])),
            fragmented=tuple(self._fragmented()) if self.searches else (),
            held=tuple(HeldPods(why, count) for why, count in sorted(self.held.items(), key=lambda item: -item[1])),
            searched=self._searched(),
            interrupted=self.interrupted,
            **cluster_basis(
                of_simulation(simulation, *([Dependency("PodDisruptionBudget", Effect.EITHER)] * bool(self.plan))),
                self.start.scheduler,
            ),
        )

    def _moves(self, moved: Sequence[Moved]) -> Iterator[Move]:
        view = self.start.view
        for position, source, target, tied in moved:
            pod = view.pods.objects[position]
            yield Move(
                pod=pod.key,
                workload=str(owner_of(pod)),
                source=view.nodes.names[source],
                target=view.nodes.names[target],
                tied=tied,
                priority=int(view.pods.priority[view.pods.info[position]]),
                budgets=self.simulation.budgets.selecting(position),
                loses="what is in its emptyDir volumes" if leaves_scratch(pod) else "",
            )

    def _commands(self, moved: Sequence[Moved]) -> Iterator[str]:
        """What is typed, one line after the other; each eviction is asked of the API server, which heeds budgets."""
        names, pods = self.start.view.nodes.names, self.start.view.pods.objects
        emptied = {names[row]: None for row in sorted(self.emptied)}
        yield from (kubectl.run("cordon", name) for name in emptied)
        cordoned = ""
        for position, source, _, _ in moved:
            name = names[source]
            if cordoned not in ("", name):
                yield kubectl.run("uncordon", cordoned)
                cordoned = ""
            if name not in emptied and not cordoned:
                cordoned = name
                yield kubectl.run("cordon", name)
            yield kubectl.evict(pods[position])
        yield from (kubectl.run("uncordon", name) for name in ([cordoned] if cordoned else []) + list(emptied))

    def _preempts(self) -> tuple[str, ...]:
        """Whom kube-scheduler would evict for the first pod that needs room, as it would not wait for the plan."""
        if not self.searches:
            return ()
        stage = replace(self.start, view=self.start.view.fork())
        outcome = stage.simulation().attempt(self.searches[0].wanted)
        pods = self.start.view.pods.objects
        return tuple(pods[victim].key for victim in outcome.victims) if outcome else ()

    def _message(self, simulation: Simulation, missing: Sequence[str]) -> str:
        """kube-scheduler's words for the first pod that fits nowhere with what could be moved."""
        if not missing:
            return ""
        position = self.start.view.pods.index[missing[0]]
        return simulation.message(Position(position)) if simulation.framework(Position(position)) else ""

    def _fragmented(self) -> Iterator[FragmentedResource]:
        """Resources of which there is enough in all, but on no single node that the pod may use at all."""
        search = self.searches[0]
        view, eligible = search.stage.view, search.eligible
        if eligible is None or not eligible.any():
            return
        wanted = view.requests[view.pods.info[search.wanted]]
        free = np.maximum(view.allocatable - view.requested, 0)[eligible]
        for name, column in view.resources.items():
            total, most = int(free[:, column].sum()), int(free[:, column].max())
            if name != PODS and most < wanted[column] <= total:
                yield FragmentedResource(name, int(wanted[column]), total, most, int((free[:, column] > 0).sum()))

    def _searched(self) -> SearchedPlans | None:
        if not self.searches:
            return None
        last = self.searches[-1]
        return SearchedPlans(
            max_moves=self.wishes.most,
            plans=sum(search.tried for search in self.searches),
            nodes=0 if last.helped is None else int(last.helped.sum()),
            movable=len(last.movable.pods),
            complete=all(search.complete for search in self.searches),
        )


def _of_pool(simulation: Simulation, pool: str) -> Bools:
    """(N,): the nodes of the pool, all where none is named. Raises UsageError."""
    pools = Pools.of(simulation.view)
    if not pool:
        return np.ones(len(pools.code), np.bool_)
    if pool not in pools.names:
        known = ", ".join(sorted(filter(None, pools.names)))
        raise UsageError(f'pool "{pool}" not found', hint=f"there are: {known}" if known else "no node is in a pool")
    chosen: Bools = pools.code == pools.names.index(pool)
    return chosen


def _in_turn(stage: Stage, positions: Sequence[Position]) -> list[Row] | None:
    """The nodes of pods that are placed one by one, each by itself; None where one fits nowhere."""
    rows = []
    simulation = stage.simulation()
    for position in positions:
        cycle = simulation.cycle(position)
        if not cycle.schedulable:
            return None
        row = Row(int(cycle.scores.best[0]))
        simulation.bind(position, row, cycle.pre_filter.results)
        rows.append(row)
    return rows
