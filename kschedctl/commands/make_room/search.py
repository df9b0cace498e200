"""The search for the fewest moves: iterative deepening over nodes to empty and pods that move away from them.

A plan for one pod empties one node of as many pods as needed, each of which may need room elsewhere first. A pod
elsewhere may be in the way, too, because of affinity or spreading; then its move comes first. Plans with one move are
tried before plans with two. Among those of one length the search goes on for one that moves pods of less reluctance,
then priority. Every plan is replayed from the beginning.
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
from kschedctl.commands.make_room.giving_back import has_holdings
from kschedctl.commands.make_room.movable import MovablePods
from kschedctl.commands.make_room.rehearsal import Rehearsal, play_plan
from kschedctl.commands.make_room.sets import SetsOnNodes
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import Reads, get_reads
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

Plan = tuple[Position, ...]
MAX_SEQUENCES = 1_000
"""If there are no more sequences of moves of one length, all are tried."""
IMPROVEMENT_SECONDS = 10.0
"""How long the search goes on for a cheaper plan once there is one."""
COUNTING_PLUGINS = frozenset((InterPodAffinity.name, PodTopologySpread.name))
"""Plugins that count pods on other nodes."""
NODE_LOCAL_PLUGINS = frozenset((NodePorts.name, NodeVolumeLimits.name))
"""Plugins that look only at the pods of the node, whatever else they read."""


class OutOfTimeError(Exception):
    """The time to search is over."""


@dataclass
class PlanSearch:
    """The search for a plan that gives ``wanted`` a node."""

    stage: Rehearsal
    wanted: Position
    movable: MovablePods
    nodes: Bools
    """The nodes that may be touched, (N,)."""
    accept: Callable[[Sequence[Plan]], Iterator[bool]]
    """For plans in order, whether each leaves no pod without a node."""
    until: float
    batch_size: int = 1
    """How many plans ``accept`` takes at once."""
    done: Callable[[int], None] = lambda number: None
    """Called for each plan that was judged."""
    tried: int = 0
    timed_out: bool = False
    interrupted: bool = False
    exhausted: bool = True
    depends_on_others: bool = False
    held_elsewhere: bool = False
    """Whether what the pod lacks, such as devices, may be held by pods of other nodes."""
    best: Plan | None = None
    may_have_sets: bool = False
    """Whether a node may have as many pods as are moved without which the pod fits there."""
    helped: Bools | None = None
    """Nodes on which the pod fits without the movable pods, (N,)."""
    eligible: Bools | None = None
    """Nodes that only other pods keep from taking the pod, (N,)."""
    eligible_except_devices: Bools | None = None
    """The same, ignoring which devices exist for its claims, (N,)."""
    _homes: dict[int, Bools | None] = field(default_factory=dict)

    def run(self, most: int) -> Plan | None:
        """Return the shortest plan of at most ``most`` moves, the cheapest found of that length, or None."""
        try:
            for moves in range(1, most + 1):
                likely = self._iter_plans(self.stage, self.wanted, moves, (), frozenset())
                for plan, accepted in chain(self._judge_plans(likely), self._judge_plans(self._iter_all_plans(moves))):
                    if self._is_no_better(plan):
                        continue
                    self.tried += 1
                    if accepted:
                        self.best, self.until = plan, min(self.until, time.monotonic() + IMPROVEMENT_SECONDS)
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

    def _judge_plans(self, plans: Iterator[Plan]) -> Iterator[tuple[Plan, bool]]:
        """Yield plans with whether they are accepted: the first alone, as it often is, then in batches."""
        number = 1
        while taken := list(islice(plans, number)):
            self._check_time()
            promising = [plan for plan in taken if not self._is_no_better(plan)]
            yield from zip(promising, self.accept(promising), strict=False)
            number = self.batch_size

    def _cost(self, plan: Plan) -> tuple[int, int]:
        """Return the highest reluctance and the highest priority of the plan's pods."""
        pods = list(plan)
        return int(self.movable.reluctance[pods].max()), int(self.movable.priority[pods].max())

    @cached_property
    def _least_cost(self) -> tuple[int, int]:
        """Return the cost that no plan can beat."""
        return min(self._cost((Position(position),)) for position in self.movable.pods.tolist())

    def _is_no_better(self, plan: Plan) -> bool:
        """Return whether a plan or its beginning is not cheaper than the best plan."""
        return self.best is not None and bool(plan) and self._cost(plan) >= self._cost(self.best)

    @property
    def complete(self) -> bool:
        """Return whether no plan can have been missed."""
        return not self.timed_out and not self.interrupted and (self._is_hopeless or self.exhausted)

    @property
    def _is_hopeless(self) -> bool:
        """Return whether the pod fits nowhere without all movable pods, and their new nodes make no difference."""
        return self.helped is not None and not self.helped.any() and not self.depends_on_others

    def _iter_all_plans(self, moves: int) -> Iterator[Plan]:
        """Yield all sequences of so many pods if there are few, in addition to the likely plans.

        Yield none if no node has so many pods without which the pod fits, and where other pods are makes no difference.
        """
        pods = [Position(position) for position in self.movable.pods.tolist()]
        if self._is_hopeless or not (self.may_have_sets or self.depends_on_others or self.held_elsewhere):
            return
        if perm(len(pods), moves) > MAX_SEQUENCES:
            self.exhausted = False
            return
        yield from permutations(pods, moves)

    def _iter_plans(
        self, stage: Rehearsal, wanted: Position, moves: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans of exactly ``moves`` more moves that seem to let a pod fit. ``spared`` nodes take no pods now."""
        cycle = self._cycle(stage, wanted)
        if cycle is None or not cycle.considered.any():
            return
        among = self.nodes.copy()
        among[list(spared)] = False
        pods = self.movable.pods[~np.isin(self.movable.pods, (*before, wanted))]
        sets = SetsOnNodes(cycle, self.movable, pods, among)
        if self.helped is None:
            self.helped, self.eligible_except_devices = (
                sets.promising,
                _find_eligible(cycle, but_for=DynamicResources.name),
            )
            self.eligible = _find_eligible(cycle) | (self.eligible_except_devices & self.helped)
            self.depends_on_others, self.held_elsewhere = depends_on_other_nodes(cycle), bool(sets.giving)
        for here in range(moves, 0, -1):
            for chosen in sets.iter_sufficient(here):
                self._check_time()
                self.may_have_sets = True
                if self._is_no_better(chosen):
                    break
                yield from self._iter_plans_emptying(stage, chosen, moves - here, before, spared)
        self.may_have_sets |= sets.truncated
        for position in self._find_counted_pods(stage.view, cycle, before, sets.held_elsewhere):
            if not self._is_no_better((position,)):
                yield from self._iter_plans_after_move(stage, wanted, moves, (*before, position), spared)

    def _iter_plans_emptying(
        self, stage: Rehearsal, chosen: Plan, more: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans that empty a node of the chosen pods, with ``more`` other moves that make room for them
        elsewhere.
        """
        row = Row(int(stage.view.node[chosen[0]]))
        if not more and not all(self._has_home(stage, position, row) for position in chosen):
            return
        emptied = spared | {row}
        for order in permutations(chosen):
            if play_plan(stage, order, emptied) is not None:
                if not more:
                    yield (*before, *order)
                return
            if more:
                yield from self._iter_plans_with_room_first(stage, order, more, before, emptied)

    def _iter_plans_with_room_first(
        self, stage: Rehearsal, order: Plan, more: int, before: Plan, emptied: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans that use all other moves to make room for the first pod that finds none."""
        for place in range(len(order)):
            if (played := play_plan(stage, order[:place], emptied)) is None:
                return
            if play_plan(stage, order[: place + 1], emptied) is not None:
                continue
            ahead = (*before, *order[:place])
            without = played[0].without_placement(order[place])
            for plan in self._iter_plans(without, order[place], more, (*ahead, *order[place:]), emptied):
                moved = plan[len(ahead) + len(order) - place :]
                yield (*ahead, *moved, *order[place:])
            return

    def _iter_plans_after_move(
        self, stage: Rehearsal, wanted: Position, moves: int, before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans that first move the last pod of ``before``, on which other nodes' verdicts depend."""
        self._check_time()
        played = play_plan(stage, before[-1:], spared)
        if played is None:
            return
        if moves > 1:
            yield from self._iter_plans(played[0], wanted, moves - 1, before, spared)
        elif (again := self._cycle(played[0], wanted)) is not None and again.schedulable:
            yield before

    def _find_counted_pods(self, view: Fork, cycle: Cycle, before: Plan, held_elsewhere: Bools) -> list[Position]:
        """Return movable pods that a rejecting plugin counts anywhere in the cluster, most readily moved first.

        Pods of the PodInfos ``held_elsewhere`` (T,) are included.
        """
        counted = held_elsewhere
        if _find_pod_dependent_rejecters(cycle) & COUNTING_PLUGINS:
            counted = counted | _find_interacting_pods(view, cycle)
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
        """Return whether another node takes the pod as things are, or that cannot be judged node by node."""
        if stage is not self.stage:
            return True
        number = int(stage.view.pods.info[position])
        if number not in self._homes:
            self._homes[number] = _find_homes(stage.build_simulation(), position)
        homes = self._homes[number]
        return homes is None or bool(homes.sum() > homes[row])

    def _cycle(self, stage: Rehearsal, position: Position) -> Cycle | None:
        simulation = stage.build_simulation()
        return None if simulation.framework(position) is None else simulation.run_cycle(position)

    def _check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTimeError


def _find_homes(simulation: Simulation, position: Position) -> Bools | None:
    """Return the nodes that take the pod as things are, (N,), or None if that cannot be judged."""
    framework = simulation.framework(position)
    if framework is None or has_holdings(simulation, position):
        return None
    return simulation.placements.find_feasible_mask(framework, position)


def _find_eligible(cycle: Cycle, but_for: str = "") -> Bools:
    """Return the nodes that no plugin rejects which looks at nodes alone, ignoring the plugin ``but_for``, (N,)."""
    eligible = cycle.considered.copy()
    results = cycle.pre_filter.results
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is None or plugin.name == but_for:
            continue
        if get_reads(plugin, results.get(plugin.name)) is Reads.NODES:
            eligible &= ~verdict.rejected
    return eligible


def _find_pod_dependent_rejecters(cycle: Cycle) -> set[str]:
    """Return the rejecting plugins that look at pods anywhere."""
    verdicts, results = cycle.filter.verdicts, cycle.pre_filter.results
    return {
        plugin.name
        for plugin in cycle.framework.plugins_at("filter")
        if get_reads(plugin, results.get(plugin.name)) is Reads.PODS
        and plugin.name in verdicts
        and verdicts[plugin.name].rejected.any()
    }


def depends_on_other_nodes(cycle: Cycle) -> bool:
    """Return whether a node is rejected because of pods, or their resources, on other nodes."""
    return bool(_find_pod_dependent_rejecters(cycle) - NODE_LOCAL_PLUGINS)


def _find_interacting_pods(view: Fork, cycle: Cycle) -> Bools:
    """Return PodInfos with anti-affinity, and those that the pod's affinity or spreading selects, (T,)."""
    info = cycle.info
    others = view.pods.where(lambda other: bool(other.required_anti_affinity))
    for term in (*info.required_anti_affinity, *info.required_affinity):
        others = others | view.pods.matching(term.selector, None)
    for counts in cycle.pre_filter.find_state(PodTopologySpread) or []:
        others = others | view.pods.matching(counts.constraint.selector, frozenset((info.namespace,)))
    return others
