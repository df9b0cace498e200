"""The search for the fewest moves, by iterative deepening over nodes to empty and pods to move away from them.

A plan for one pod empties one node of as many pods as needed, and each of these may need room elsewhere first. A pod on
another node may be in the way as well, because of affinity or spreading, and then it moves first. Plans with one move
are tried before plans with two. Among plans of the same length, the search goes on for a plan that moves pods of less
reluctance, and then of lower priority. Every plan is replayed from the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, permutations
from math import perm

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, Rows
from kschedctl.commands.make_room.movable import MovablePods
from kschedctl.commands.make_room.rehearsal import Rehearsal, count_safe_moves, replay_plan
from kschedctl.commands.make_room.sets import SetsOnNodes, releases_resources_on_exit
from kschedctl.fixes.search import count_affordable_replays
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, run_pre_filter
from kschedctl.scheduler.framework import (
    CordonRejectingPlugin,
    Plugin,
    PluginError,
    Reads,
    counts_pods_elsewhere,
    get_answer_dependency,
    looks_at_own_pods,
    offers,
)
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork, OwnRows

Plan = tuple[Position, ...]
"""The pods to evict, in order."""
MAX_SEQUENCES = 1_000
"""All sequences of moves of one length are tried if there are at most this many."""
SEQUENCES_PER_TASK = 16
"""The number of move sequences that a worker judges at once. Many begin alike and share the replay of that part."""
SEARCH_BUDGET = 3000
"""The replays of a pod's cycle that the search for all pods may cost: several seconds, see `count_affordable_replays`.

The search is limited by replays instead of time, so that each machine finds the same plan.
"""
IMPROVEMENT_BUDGET = 2000
"""The replays that the search for a cheaper plan may cost once there is a plan."""


class SearchLimitError(Exception):
    """The limit of the search is reached: its replays are used up or its time has passed."""


class AcceptingNodes:
    """The nodes that may take pods in the state of a stage. The stage must not change meanwhile."""

    def __init__(self, stage: Rehearsal) -> None:
        self.stage = stage
        self._simulation = stage.build_simulation()
        self._nodes_by_info: dict[int, Bools | None] = {}

    def may_move(self, position: Position, row: Row) -> bool:
        """Return whether another node may take the pod while the node in this row is cordoned.

        The result is False only if every other node certainly rejects the pod. It is cached by PodInfo.
        """
        number = int(self.stage.view.pods.info[position])
        if number not in self._nodes_by_info:
            self._nodes_by_info[number] = self._find_accepting_nodes(position)
        accepting = self._nodes_by_info[number]
        if accepting is None:  # any node may accept the pod
            return True
        accepting_others = accepting.sum() - accepting[row]
        return bool(accepting_others > 0)

    def _find_accepting_nodes(self, position: Position) -> Bools | None:
        """Return the mask (N,) of the nodes that may accept the pod, or None if any node may.

        A node is excluded if a plugin rejects the pod because of the node itself or the pods on it. Any node may accept
        a pod that tolerates cordons or that releases resources of other nodes when it leaves. The same holds if a
        plugin fails or no profile serves the pod.
        """
        framework = self._simulation.find_framework(position)
        if framework is None or releases_resources_on_exit(self._simulation, position):
            return None
        view = self.stage.view
        info = self._simulation.get_shared_incoming_info(position)
        filters = framework.plugins_at("filter")
        if not any(offers(plugin, CordonRejectingPlugin) and plugin.rejects_cordoned(info) for plugin in filters):
            return None
        try:
            pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, view)
            filtering = Filtering.from_framework(framework, pre_filter, info, view)
            rejected = filtering.find_nodes_rejected_regardless_of_pods({})
            return ~(rejected | filtering.mask_rejected_rows(OwnRows(view, view.nodes.rows), NO_CHANGE))
        except PluginError:
            return None


@dataclass
class PlanSearch:
    """The search for a plan that lets the pod `wanted` fit."""

    stage: Rehearsal
    wanted: Position
    movable: MovablePods
    nodes: Bools
    """The mask (N,) of nodes that may be touched."""
    accept: Callable[[Sequence[Plan]], Iterator[bool]]
    """Yields, for each of several plans, whether it works."""
    max_replays: float
    """The number of replays of a pod's cycle that the search may cost; infinite if only time limits it."""
    deadline: float
    """The time at which the search ends at the latest, as `time.monotonic` tells it; infinite if there is none."""
    replays_per_plan: int = 1
    """The number of pods' cycles that are replayed to judge a plan."""
    workers: int = 1
    """The number of workers that judge plans."""
    advance: Callable[[int], None] = lambda number: None
    """Called for each plan that was judged."""
    tried: int = 0
    """The number of plans that were judged."""
    replays: int = 0
    """The number of replays of a pod's cycle so far."""
    limit_reached: bool = False
    """True if the search ended because its replays were used up or its time had passed."""
    interrupted: bool = False
    tried_all_sequences: bool = True
    """True if all sequences of moves were tried, where likely plans may not be enough."""
    depends_on_other_nodes: bool = False
    """True if a node is rejected because of pods on other nodes, and may accept the pod once these have moved."""
    lacks_held_resources: bool = False
    """True if what the pod lacks, such as devices, may be held by pods on other nodes."""
    best: Plan | None = None
    """The best plan so far."""
    may_have_sets: bool = False
    """True if the pod may fit on some node without as many of the pods there as are moved."""
    promising: Bools | None = None
    """The mask (N,) of nodes on which the pod fits without the movable pods."""
    eligible: Bools | None = None
    """The mask (N,) of nodes that only other pods keep from taking the pod."""
    eligible_except_devices: Bools | None = None
    """Like `eligible`, but ignoring which devices exist for the pod's claims."""

    def run(self, max_moves: int) -> Plan | None:
        """Search for the shortest plans of at most `max_moves` moves, and return the cheapest of these, or None.

        If the limit is reached or the user interrupts, the best plan so far is returned, and `limit_reached` or
        `interrupted` is set. Raises KeyboardInterrupt if the user interrupts before a plan was found.
        """
        try:
            for moves in range(1, max_moves + 1):
                self._search_plans_of_length(moves)
                if self.best is not None:
                    return self.best
        except SearchLimitError:
            self.limit_reached = True
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.interrupted = True
        return self.best

    def _search_plans_of_length(self, moves: int) -> None:
        """Judge the likely plans and then all sequences of moves of this length, and set `best` to the cheapest plan.

        Once a plan was found, only cheaper plans are considered, for a limited number of replays. The search ends at a
        plan that cannot be beaten. Raises SearchLimitError if the limit is reached.
        """
        promising_plans = self._iter_promising_plans(
            self.stage, self.wanted, moves, moved_before=(), spared=frozenset()
        )
        likely_plans = self._judge_plans(promising_plans, self.workers)
        all_plans = self._judge_plans(self._iter_all_sequences(moves), self.workers * SEQUENCES_PER_TASK)
        for plan, is_accepted in chain(likely_plans, all_plans):
            if self._is_no_better(plan):
                continue
            self.tried += 1
            if is_accepted:
                self.best = plan
                self._limit_further_replays()
            self.advance(1)
            if is_accepted and self._compute_cost(plan) == self._least_cost:
                return

    def _judge_plans(self, plans: Iterator[Plan], batch_size: int) -> Iterator[tuple[Plan, bool]]:
        """Yield each plan that may beat the best one so far, with a flag that says if it works.

        The first plan often works, so it is judged alone. The other plans are judged in batches of `batch_size`. The
        replays are counted. Raises SearchLimitError if the limit is reached.
        """
        size = 1
        while batch := list(islice(plans, size)):
            self._raise_if_limit_reached()
            cheaper_plans = [plan for plan in batch if not self._is_no_better(plan)]
            self.replays += self.replays_per_plan * len(cheaper_plans)
            # After an interruption, there may be fewer answers than plans.
            yield from zip(cheaper_plans, self.accept(cheaper_plans), strict=False)
            size = batch_size

    def _compute_cost(self, plan: Plan) -> tuple[int, int]:
        """Return the plan's cost, to compare plans: the highest reluctance and the highest priority of its pods."""
        pods = list(plan)
        return int(self.movable.reluctance[pods].max()), int(self.movable.priority[pods].max())

    @cached_property
    def _least_cost(self) -> tuple[int, int]:
        """The cost that no plan can beat."""
        return min(self._compute_cost((Position(position),)) for position in self.movable.pods.tolist())

    def _limit_further_replays(self) -> None:
        """Limit the replays that are spent on finding a plan that is cheaper than the best one."""
        affordable_replays = count_affordable_replays(IMPROVEMENT_BUDGET, nodes=len(self.stage.view.nodes))
        self.max_replays = min(self.max_replays, self.replays + affordable_replays)

    def _is_no_better(self, plan: Plan) -> bool:
        """Return whether the plan is not cheaper than the best plan.

        If so, no plan that begins with it is cheaper either. Return False if there is no best plan yet.
        """
        if self.best is None or not plan:
            return False
        return self._compute_cost(plan) >= self._compute_cost(self.best)

    @property
    def complete(self) -> bool:
        """True if the search cannot have missed a plan."""
        if self.limit_reached or self.interrupted:
            return False
        return self._is_hopeless or self.tried_all_sequences

    @property
    def _is_hopeless(self) -> bool:
        """True if the pod fits nowhere even without all movable pods, and their new nodes make no difference."""
        return self.promising is not None and not self.promising.any() and not self.depends_on_other_nodes

    def _iter_all_sequences(self, moves: int) -> Iterator[Plan]:
        """Yield all sequences of `moves` movable pods, including those that are unlikely to help.

        Nothing is yielded if there are more than MAX_SEQUENCES, which is recorded in `tried_all_sequences`. Nothing is
        yielded either if no sequence can help: the pod fits on no node even without the movable pods there, and it does
        not depend on pods elsewhere.
        """
        pods = [Position(position) for position in self.movable.pods.tolist()]
        if self._is_hopeless or not (self.may_have_sets or self.depends_on_other_nodes or self.lacks_held_resources):
            return
        if perm(len(pods), moves) > MAX_SEQUENCES:
            self.tried_all_sequences = False
            return
        yield from permutations(pods, moves)

    def _iter_promising_plans(
        self, stage: Rehearsal, wanted: Position, moves: int, moved_before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans that make `wanted` fit by `moves` further moves after the moves in `moved_before`.

        Some plans empty a node of enough pods. The others first move a pod that may keep `wanted` away from nodes other
        than its own, by anti-affinity or by resources that it holds. No pods leave the `spared` nodes. The first call
        also records what the pod's scheduling cycle shows.
        """
        cycle = self._run_cycle(stage, wanted)
        if cycle is None or not cycle.considered.any():
            return
        allowed_nodes = self.nodes.copy()
        allowed_nodes[list(spared)] = False
        pods = self.movable.pods[~np.isin(self.movable.pods, (*moved_before, wanted))]
        sets = SetsOnNodes(cycle, self.movable, pods, allowed_nodes)
        if self.promising is None:
            self._record_first_cycle(cycle, sets)
        if self._is_hopeless:
            return

        # Empty a node of enough pods, and use the remaining moves to make room for these.
        accepting_nodes = AcceptingNodes(stage)
        for set_size in range(moves, 0, -1):
            for pod_set in sets.iter_sufficient_sets(set_size):
                self._raise_if_limit_reached()
                self.may_have_sets = True
                if self._is_no_better(pod_set):
                    break
                yield from self._iter_plans_emptying_node(
                    accepting_nodes, pod_set, moves - set_size, moved_before, spared
                )
        self.may_have_sets |= sets.truncated

        # Move a pod on another node that keeps the pod away.
        for position in self._find_movable_pods_blocking_other_nodes(
            stage.view, cycle, moved_before, sets.held_elsewhere
        ):
            if not self._is_no_better((position,)):
                yield from self._iter_plans_after_move(stage, wanted, moves, (*moved_before, position), spared)

    def _record_first_cycle(self, cycle: Cycle, sets: SetsOnNodes) -> None:
        """Set the attributes that depend on the pod's first scheduling cycle.

        The attributes say which nodes are eligible, with and without DynamicResources, on which nodes the pod fits
        without the movable pods, and whether other nodes or held resources keep the pod away.
        """
        self.promising = sets.promising
        self.eligible_except_devices = _find_eligible_nodes(cycle, ignored_plugin=DynamicResources.name)
        self.eligible = _find_eligible_nodes(cycle) | (self.eligible_except_devices & self.promising)
        self.depends_on_other_nodes = depends_on_other_nodes(cycle) and sets.can_moves_elsewhere_help()
        self.lacks_held_resources = sets.lacks_held_resources

    def _iter_plans_emptying_node(
        self,
        accepting_nodes: AcceptingNodes,
        pod_set: Plan,
        further_moves: int,
        moved_before: Plan,
        spared: frozenset[Row],
    ) -> Iterator[Plan]:
        """Yield plans that move a set of pods off their node, in each order that may work.

        Before that, exactly `further_moves` moves of other pods make room for the set. Without further moves, at most
        one plan is yielded. The `spared` nodes and the emptied node are cordoned during the plan.
        """
        stage = accepting_nodes.stage
        row = Row(int(stage.view.node[pod_set[0]]))
        if not further_moves and not all(accepting_nodes.may_move(position, row) for position in pod_set):
            return
        emptied = spared | {row}
        for order in permutations(pod_set):
            safe_moves = count_safe_moves(stage, order, emptied) if accepting_nodes.may_move(order[0], row) else 0
            if safe_moves == len(order):
                # With further moves, this plan is too short: a shorter search has found it.
                if not further_moves:
                    yield (*moved_before, *order)
                return
            if further_moves:
                yield from self._iter_plans_unblocking_pod(
                    stage, order, further_moves, moved_before, emptied=emptied, safe_moves=safe_moves
                )

    def _iter_plans_unblocking_pod(
        self,
        stage: Rehearsal,
        order: Plan,
        further_moves: int,
        moved_before: Plan,
        *,
        emptied: frozenset[Row],
        safe_moves: int,
    ) -> Iterator[Plan]:
        """Yield plans that make room elsewhere for the first pod of `order` that cannot move yet.

        The first `safe_moves` pods of `order` can already move, and move first. Then `further_moves` moves make room
        for the next pod. The plan ends with the moves of this pod and of the pods after it, which are assumed to work.
        """
        safe_pods, last_pods = order[:safe_moves], order[safe_moves:]
        blocked_pod = last_pods[0]
        replayed = replay_plan(stage, safe_pods, emptied)
        if replayed is None:
            return
        stage_without_pod = replayed.stage.without_placement(blocked_pod)
        # The pods that move last are passed as moved before as well, so that they are not moved to make room.
        given_moves = (*moved_before, *safe_pods, *last_pods)
        for plan in self._iter_promising_plans(stage_without_pod, blocked_pod, further_moves, given_moves, emptied):
            inserted_moves = plan[len(given_moves) :]
            yield (*moved_before, *safe_pods, *inserted_moves, *last_pods)

    def _iter_plans_after_move(
        self, stage: Rehearsal, wanted: Position, moves: int, moved_before: Plan, spared: frozenset[Row]
    ) -> Iterator[Plan]:
        """Yield plans that first move the last pod of `moved_before`, because its place affects other nodes.

        `moves` is the number of moves including this one. If it is the only move, the plan is yielded only if the pod
        `wanted` then fits. Otherwise, the likely plans for the remaining moves follow. Nothing is yielded if the move
        is not safe.
        """
        self._raise_if_limit_reached()
        replayed = replay_plan(stage, moved_before[-1:], spared)
        if replayed is None:
            return
        if moves > 1:
            yield from self._iter_promising_plans(replayed.stage, wanted, moves - 1, moved_before, spared)
        else:
            cycle = self._run_cycle(replayed.stage, wanted)
            if cycle is not None and cycle.schedulable:
                yield moved_before

    def _find_movable_pods_blocking_other_nodes(
        self, view: Fork, cycle: Cycle, moved_before: Plan, held_elsewhere: Bools
    ) -> list[Position]:
        """Return the movable pods that can make plugins reject other nodes than their own, cheapest first.

        These are the pods that affinity or spreading counts, and the pods whose PodInfos are in the mask
        `held_elsewhere` (T,). Pods in `moved_before` are left out.
        """
        may_block_info = held_elsewhere
        if any(map(counts_pods_elsewhere, _find_pod_dependent_rejecters(cycle))):
            may_block_info = may_block_info | _find_interacting_pods(view, cycle)
        if not may_block_info.any():
            return []
        may_block_pod = may_block_info[view.pods.info[self.movable.pods]]
        pods = self.movable.pods[may_block_pod]
        is_still_placed = ~np.isin(pods, moved_before) & (view.node[pods] >= 0)
        pods = pods[is_still_placed]
        # lexsort compares the last key first: by the costs in their order, and then by position
        order = np.lexsort((pods, *(cost[pods] for cost in self._costs[::-1])))
        return [Position(position) for position in pods[order].tolist()]

    @property
    def _costs(self) -> tuple[Rows, Rows, Rows]:
        """The costs of moving each pod (P,), most important first."""
        return self.movable.reluctance, self.movable.priority, self.movable.size

    def _run_cycle(self, stage: Rehearsal, position: Position) -> Cycle | None:
        """Run a scheduling cycle for the pod in this state of the cluster, and count it as a replay.

        Return None if no profile serves the pod.
        """
        simulation = stage.build_simulation()
        if simulation.find_framework(position) is None:
            return None
        self.replays += 1
        return simulation.run_cycle(position)

    def _raise_if_limit_reached(self) -> None:
        """Raise SearchLimitError if the replays are used up or the time has passed."""
        if self.replays > self.max_replays or time.monotonic() > self.deadline:
            raise SearchLimitError


def _find_eligible_nodes(cycle: Cycle, ignored_plugin: str = "") -> Bools:
    """Return the mask (N,) of the nodes that pass every Filter plugin that looks only at nodes.

    The plugin `ignored_plugin` is skipped, unless the name is empty.
    """
    eligible = cycle.considered.copy()
    results = cycle.pre_filter.results
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is None or plugin.name == ignored_plugin:
            continue
        if get_answer_dependency(plugin, results.get(plugin.name)) is Reads.NODES:
            eligible &= ~verdict.rejected
    return eligible


def _find_pod_dependent_rejecters(cycle: Cycle) -> list[Plugin]:
    """Return the plugins that reject a node and whose verdicts depend on pods on any node."""
    verdicts, results = cycle.filter.verdicts, cycle.pre_filter.results
    rejecters: list[Plugin] = []
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = verdicts.get(plugin.name)
        has_rejected = verdict is not None and verdict.rejected.any()
        if has_rejected and get_answer_dependency(plugin, results.get(plugin.name)) is Reads.PODS:
            rejecters.append(plugin)
    return rejecters


def depends_on_other_nodes(cycle: Cycle) -> bool:
    """Return whether a node may be rejected because of pods on other nodes, or because of resources that they hold."""
    return not all(map(looks_at_own_pods, _find_pod_dependent_rejecters(cycle)))


def _find_interacting_pods(view: Fork, cycle: Cycle) -> Bools:
    """Return the mask (T,) of the PodInfos that affinity or spreading connects with the incoming pod.

    A PodInfo is connected if it has required anti-affinity of its own. It is also connected if a required term or a
    hard spread constraint of the incoming pod selects it.
    """
    info = cycle.info
    interacting = view.pods.where(lambda other: bool(other.required_anti_affinity))
    for term in (*info.required_anti_affinity, *info.required_affinity):
        interacting = interacting | view.pods.match_infos(term.selector, namespaces=None)
    for counts in cycle.pre_filter.find_state(PodTopologySpread) or []:
        interacting = interacting | view.pods.match_infos(
            counts.constraint.selector, namespaces=frozenset((info.namespace,))
        )
    return interacting
