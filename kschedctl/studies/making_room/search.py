"""The search for the fewest moves: iterative deepening over the nodes to empty and the pods that move away from them.

A plan for one pod empties one node of as many pods as it has to, each of which may itself need room elsewhere first. A
pod that is elsewhere may stand in the way, too, by affinity or spreading: its move comes first. Plans of one move are
tried before plans of two, and among those of a length the cheapest; whatever is found is played from the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, Rows
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import Reads, reads_of
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.making_room.movable import Movable
from kschedctl.studies.making_room.sets import SetsOnNodes
from kschedctl.studies.making_room.stage import Stage, play

Plan = tuple[Position, ...]


class OutOfTime(Exception):
    """There is no time left to search."""


@dataclass
class Search:
    """Looks for a plan with which ``wanted`` gets a node, on the ``stage`` as it is.

    ``eligible`` (N,): nodes that nothing but other pods keeps from taking it; ``helped`` (N,): those on which it fits
    without the pods that may move.

    ``accepts``: whether a plan that was played leaves nobody without a node. ``nodes`` (N,): those that may be touched.
    """

    stage: Stage
    wanted: Position
    movable: Movable
    nodes: Bools
    accepts: Callable[[Plan, Row], bool]
    until: float
    tried: int = 0
    judged: int = 0
    complete: bool = True
    helped: Bools | None = None
    eligible: Bools | None = None
    _homes: dict[int, Bools | None] = field(default_factory=dict)

    def run(self, most: int) -> Plan | None:
        """The shortest plan of up to so many moves."""
        try:
            for moves in range(1, most + 1):
                for plan in self._plans(self.stage, self.wanted, moves, (), frozenset()):
                    row = Row(int(self.stage.view.node[plan[-1]]))
                    self.tried += 1
                    if self.accepts(plan, row):
                        return plan
        except OutOfTime:
            self.complete = False
        return None

    def _plans(
        self, stage: Stage, wanted: Position, moves: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Plans of exactly so many more moves that seem to let a pod fit; ``spared``: nodes that take nobody now."""
        cycle = self._cycle(stage, wanted)
        if cycle is None or not cycle.considered.any():
            return
        among = self.nodes.copy()
        among[list(spared)] = False
        pods = self.movable.pods[~np.isin(self.movable.pods, (*before, wanted))]
        sets = SetsOnNodes(cycle, self.movable, pods, among)
        if self.helped is None:
            self.helped, self.eligible = sets.promising, _eligible(cycle)
        for here in range(moves, 0, -1):
            for chosen in sets.of(here):
                self._check_time()
                yield from self._emptying(stage, chosen, moves - here, before, spared)
            self.complete &= not sets.cut
        self.judged += sets.judged
        yield from self._out_of_the_way(stage, wanted, moves, before, spared, cycle)

    def _emptying(
        self, stage: Stage, chosen: Plan, more: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """A node emptied of these pods, with so many other moves for which they find room elsewhere."""
        row = Row(int(stage.view.node[chosen[0]]))
        if not more and not all(self._has_home(stage, position, row) for position in chosen):
            return
        emptied = spared | {row}
        for order in permutations(chosen):
            if (played := play(stage, order, emptied)) is not None:
                if not more:
                    yield (*before, *order)
                return
            if more:
                yield from self._with_room_first(stage, order, more, before, emptied)

    def _with_room_first(
        self, stage: Stage, order: Plan, more: int, before: Plan, emptied: frozenset[Row]
    ) -> Iterator[Plan]:
        """The first of the pods that finds no room is given some by all the other moves."""
        for place in range(len(order)):
            if (played := play(stage, order[:place], emptied)) is None:
                return
            if play(stage, order[: place + 1], emptied) is not None:
                continue
            ahead = (*before, *order[:place])
            without = played[0].without(order[place])
            for plan in self._plans(without, order[place], more, (*ahead, *order[place:]), emptied):
                moved = plan[len(ahead) + len(order) - place :]
                yield (*ahead, *moved, *order[place:])
            return

    def _out_of_the_way(
        self, stage: Stage, wanted: Position, moves: int, before: Plan, spared: frozenset[Row], cycle: Cycle
    ) -> Iterator[Plan]:
        """Pods that other nodes' answers depend on, moved first: those of the plugins that count pods anywhere."""
        for position in self._counted(stage.view, cycle, before):
            self._check_time()
            played = play(stage, (position,), spared)
            if played is None:
                continue
            after = played[0]
            if moves == 1:
                again = self._cycle(after, wanted)
                if again is not None and again.schedulable:
                    yield (*before, position)
            else:
                yield from self._plans(after, wanted, moves - 1, (*before, position), spared)

    def _counted(self, view: Fork, cycle: Cycle, before: Plan) -> list[Position]:
        """Movable pods that a plugin counts which refuses the pod for pods anywhere, the most readily moved first."""
        results = cycle.pre_filter.results
        refusing = [
            plugin
            for plugin in cycle.framework.at("filter")
            if reads_of(plugin, results.get(plugin.name)) is Reads.PODS
            and (verdict := cycle.filter.verdicts.get(plugin.name)) is not None
            and verdict.refused.any()
        ]
        if not refusing:
            return []
        counted = _interesting(view, cycle)
        pods = self.movable.pods[counted[view.pods.info[self.movable.pods]]]
        pods = pods[~np.isin(pods, before) & (view.node[pods] >= 0)]
        order = np.lexsort((pods, *(cost[pods] for cost in self._costs[::-1])))
        return [Position(position) for position in pods[order].tolist()]

    @property
    def _costs(self) -> tuple[Rows, Rows, Rows]:
        return self.movable.reluctance, self.movable.priority, self.movable.size

    def _has_home(self, stage: Stage, position: Position, row: Row) -> bool:
        """Whether some other node takes the pod as things are; also where that cannot be told of each node alone."""
        if stage is not self.stage:
            return True
        number = int(stage.view.pods.info[position])
        if number not in self._homes:
            simulation = stage.simulation()
            framework = simulation.framework(position)
            self._homes[number] = None if framework is None else simulation.placements.fitting(framework, position)
        homes = self._homes[number]
        return homes is None or bool(homes.sum() > homes[row])

    def _cycle(self, stage: Stage, position: Position) -> Cycle | None:
        simulation = stage.simulation()
        return None if simulation.framework(position) is None else simulation.cycle(position)

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime


def _eligible(cycle: Cycle) -> Bools:
    """(N,): the nodes that no plugin refuses which looks at nodes alone."""
    found = cycle.considered.copy()
    results = cycle.pre_filter.results
    for plugin in cycle.framework.at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is not None and reads_of(plugin, results.get(plugin.name)) is Reads.NODES:
            found &= ~verdict.refused
    return found


def _interesting(view: Fork, cycle: Cycle) -> Bools:
    """(T,): pods with anti-affinity of their own, and those that the pod's affinity or spreading selects."""
    info = cycle.info
    found = view.pods.where(lambda other: bool(other.required_anti_affinity))
    for term in (*info.required_anti_affinity, *info.required_affinity):
        found = found | view.pods.matching(term.selector, None)
    for counts in cycle.pre_filter.state_of(PodTopologySpread) or []:
        found = found | view.pods.matching(counts.constraint.selector, frozenset((info.namespace,)))
    return found
