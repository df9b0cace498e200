"""The search for the fewest moves: iterative deepening over the nodes to empty and the pods that move away from them.

A plan for one pod empties one node of as many pods as it has to, each of which may itself need room elsewhere first. A
pod that is elsewhere may stand in the way, too, by affinity or spreading: its move comes first. Plans of one move are
tried before plans of two; among those of a length the search goes on for one that moves pods of less reluctance, then
priority. Whatever is found is played from the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, permutations
from math import perm

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, Rows
from kschedctl.commands.make_room.giving_back import holds_something
from kschedctl.commands.make_room.movable import Movable
from kschedctl.commands.make_room.rehearsal import Rehearsal, play
from kschedctl.commands.make_room.sets import SetsOnNodes
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import Reads, reads_of
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

Plan = tuple[Position, ...]
MOST_SEQUENCES = 1_000
"""Where there are no more sequences of moves of a length, all are tried."""
IMPROVED_FOR = 10.0
"""For so many seconds a cheaper plan is looked for once there is one."""
COUNTING = frozenset((InterPodAffinity.name, PodTopologySpread.name))
"""The plugins that count pods on other nodes."""
OF_THE_NODE = frozenset((NodePorts.name, NodeVolumeLimits.name))
"""Plugins that look at the pods of the node alone, whatever else they read."""


class OutOfTimeError(Exception):
    """There is no time left to search."""


@dataclass
class PlanSearch:
    """Looks for a plan with which ``wanted`` gets a node, on the ``stage`` as it is.

    ``eligible`` (N,): nodes that nothing but other pods keeps from taking it; ``but_for_devices`` (N,): or what devices
    there are for its claims; ``helped`` (N,): those on which it fits without the pods that may move.

    ``accept``: of plans that were played, in order, whether each leaves nobody without a node; ``abreast``: how many it
    looks at together. ``nodes`` (N,): those that may be touched; ``done``: told of each plan that was looked at.
    ``may_have_sets``: whether there may be so many pods of a node as are moved without which it fits there;
    ``held_elsewhere``: what it lacks, such as devices, may be held by pods of other nodes.
    """

    stage: Rehearsal
    wanted: Position
    movable: Movable
    nodes: Bools
    accept: Callable[[Sequence[Plan]], Iterator[bool]]
    until: float
    abreast: int = 1
    done: Callable[[int], None] = lambda number: None
    tried: int = 0
    timed_out: bool = False
    interrupted: bool = False
    exhausted: bool = True
    depends_on_others: bool = False
    held_elsewhere: bool = False
    best: Plan | None = None
    may_have_sets: bool = False
    helped: Bools | None = None
    eligible: Bools | None = None
    but_for_devices: Bools | None = None
    _homes: dict[int, Bools | None] = field(default_factory=dict)

    def run(self, most: int) -> Plan | None:
        """The shortest plan of up to so many moves, and of these the cheapest that it came to until ``interrupted``."""
        try:
            for moves in range(1, most + 1):
                likely = self._plans(self.stage, self.wanted, moves, (), frozenset())
                for plan, accepted in chain(self._judged(likely), self._judged(self._all(moves))):
                    if self._is_no_better(plan):
                        continue
                    self.tried += 1
                    if accepted:
                        self.best, self.until = plan, min(self.until, time.monotonic() + IMPROVED_FOR)
                    self.done(1)
                    if accepted and self._cost(plan) == self._least_cost:
                        break
                if self.best is not None:
                    return self.best
        except OutOfTimeError:
            self.timed_out = True
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.interrupted = True
        return self.best

    def _judged(self, plans: Iterator[Plan]) -> Iterator[tuple[Plan, bool]]:
        """Plans, and whether they are accepted: the first by itself, as it often is, the others together."""
        number = 1
        while taken := list(islice(plans, number)):
            self._check_time()
            promising = [plan for plan in taken if not self._is_no_better(plan)]
            yield from zip(promising, self.accept(promising), strict=False)
            number = self.abreast

    def _cost(self, plan: Plan) -> tuple[int, int]:
        """How reluctantly its pods go, and the highest priority of them."""
        pods = list(plan)
        return int(self.movable.reluctance[pods].max()), int(self.movable.priority[pods].max())

    @cached_property
    def _least_cost(self) -> tuple[int, int]:
        """What no plan is cheaper than."""
        return min(self._cost((Position(position),)) for position in self.movable.pods.tolist())

    def _is_no_better(self, plan: Plan) -> bool:
        """Whether a plan, or its beginning, is not cheaper than the best one."""
        return self.best is not None and bool(plan) and self._cost(plan) >= self._cost(self.best)

    @property
    def complete(self) -> bool:
        """Whether it is certain that no plan was missed."""
        return not self.timed_out and not self.interrupted and (self._hopeless or self.exhausted)

    @property
    def _hopeless(self) -> bool:
        """Whether it fits nowhere without all pods that may move, and where these go makes no difference."""
        return self.helped is not None and not self.helped.any() and not self.depends_on_others

    def _all(self, moves: int) -> Iterator[Plan]:
        """All sequences of so many pods, where there are few: what was found before is what usually helps.

        None where no node has so many pods without which the pod fits, and where others are makes no difference.
        """
        pods = [Position(position) for position in self.movable.pods.tolist()]
        if self._hopeless or not (self.may_have_sets or self.depends_on_others or self.held_elsewhere):
            return
        if perm(len(pods), moves) > MOST_SEQUENCES:
            self.exhausted = False
            return
        yield from permutations(pods, moves)

    def _plans(
        self, stage: Rehearsal, wanted: Position, moves: int, before: Plan, spared: frozenset[Row]
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
            self.helped, self.but_for_devices = sets.promising, _eligible(cycle, but_for=DynamicResources.name)
            self.eligible = _eligible(cycle) | (self.but_for_devices & self.helped)
            self.depends_on_others, self.held_elsewhere = depends_on_others(cycle), bool(sets.giving)
        for here in range(moves, 0, -1):
            for chosen in sets.of(here):
                self._check_time()
                self.may_have_sets = True
                if self._is_no_better(chosen):
                    break
                yield from self._emptying(stage, chosen, moves - here, before, spared)
        self.may_have_sets |= sets.truncated
        for position in self._counted(stage.view, cycle, before, sets.held_elsewhere):
            if not self._is_no_better((position,)):
                yield from self._out_of_the_way(stage, wanted, moves, (*before, position), spared)

    def _emptying(
        self, stage: Rehearsal, chosen: Plan, more: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """A node emptied of these pods, with so many other moves for which they find room elsewhere."""
        row = Row(int(stage.view.node[chosen[0]]))
        if not more and not all(self._has_home(stage, position, row) for position in chosen):
            return
        emptied = spared | {row}
        for order in permutations(chosen):
            if play(stage, order, emptied) is not None:
                if not more:
                    yield (*before, *order)
                return
            if more:
                yield from self._with_room_first(stage, order, more, before, emptied)

    def _with_room_first(
        self, stage: Rehearsal, order: Plan, more: int, before: Plan, emptied: frozenset[Row]
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
        self, stage: Rehearsal, wanted: Position, moves: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """The last pod of those before, on which other nodes' answers depend, moved first, then the others."""
        self._check_time()
        played = play(stage, before[-1:], spared)
        if played is None:
            return
        if moves > 1:
            yield from self._plans(played[0], wanted, moves - 1, before, spared)
        elif (again := self._cycle(played[0], wanted)) is not None and again.schedulable:
            yield before

    def _counted(self, view: Fork, cycle: Cycle, before: Plan, held_elsewhere: Bools) -> list[Position]:
        """Movable pods that a plugin counts which refuses the pod for pods anywhere, the most readily moved first.

        Also those of the infos ``held_elsewhere`` (T,).
        """
        counted = held_elsewhere
        if _refusing(cycle) & COUNTING:
            counted = counted | _interesting(view, cycle)
        if not counted.any():
            return []
        pods = self.movable.pods[counted[view.pods.info[self.movable.pods]]]
        pods = pods[~np.isin(pods, before) & (view.node[pods] >= 0)]
        order = np.lexsort((pods, *(cost[pods] for cost in self._costs[::-1])))
        return [Position(position) for position in pods[order].tolist()]

    @property
    def _costs(self) -> tuple[Rows, Rows, Rows]:
        return self.movable.reluctance, self.movable.priority, self.movable.size

    def _has_home(self, stage: Rehearsal, position: Position, row: Row) -> bool:
        """Whether some other node takes the pod as things are; also where that cannot be told of each node alone."""
        if stage is not self.stage:
            return True
        number = int(stage.view.pods.info[position])
        if number not in self._homes:
            self._homes[number] = _homes(stage.simulation(), position)
        homes = self._homes[number]
        return homes is None or bool(homes.sum() > homes[row])

    def _cycle(self, stage: Rehearsal, position: Position) -> Cycle | None:
        simulation = stage.simulation()
        return None if simulation.framework(position) is None else simulation.cycle(position)

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTimeError


def _homes(simulation: Simulation, position: Position) -> Bools | None:
    """(N,): the nodes that take a pod as things are; None where that cannot be told."""
    framework = simulation.framework(position)
    if framework is None or holds_something(simulation, position):
        return None
    return simulation.placements.fitting(framework, position)


def _eligible(cycle: Cycle, but_for: str = "") -> Bools:
    """(N,): the nodes that no plugin refuses which looks at nodes alone, whatever ``but_for`` one of them says."""
    eligible = cycle.considered.copy()
    results = cycle.pre_filter.results
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is None or plugin.name == but_for:
            continue
        if reads_of(plugin, results.get(plugin.name)) is Reads.NODES:
            eligible &= ~verdict.rejected
    return eligible


def _refusing(cycle: Cycle) -> set[str]:
    """The plugins that refuse a node and look at pods anywhere."""
    verdicts, results = cycle.filter.verdicts, cycle.pre_filter.results
    return {
        plugin.name
        for plugin in cycle.framework.plugins_at("filter")
        if reads_of(plugin, results.get(plugin.name)) is Reads.PODS
        and plugin.name in verdicts
        and verdicts[plugin.name].rejected.any()
    }


def depends_on_others(cycle: Cycle) -> bool:
    """Whether a node is refused for pods, or what they use, elsewhere."""
    return bool(_refusing(cycle) - OF_THE_NODE)


def _interesting(view: Fork, cycle: Cycle) -> Bools:
    """(T,): pods with anti-affinity of their own, and those that the pod's affinity or spreading selects."""
    info = cycle.info
    others = view.pods.where(lambda other: bool(other.required_anti_affinity))
    for term in (*info.required_anti_affinity, *info.required_affinity):
        others = others | view.pods.matching(term.selector, None)
    for counts in cycle.pre_filter.find_state(PodTopologySpread) or []:
        others = others | view.pods.matching(counts.constraint.selector, frozenset((info.namespace,)))
    return others
