"""The dry run for plugins that judge each node by its own pods alone; results stay valid until pods move on the
node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.scheduler.engine.cycle import Cycle, Filtering
from kschedctl.scheduler.engine.kept_victims import (
    DryRunState,
    Priorities,
    VictimCache,
    empty_dry_run_state,
    preemption_class,
)
from kschedctl.scheduler.engine.preemption.budgets import find_budgets
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.victims import DecidedByFilters, Selection, put_back_order
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import Reads
from kschedctl.snapshot.delta import Delta, find_run_starts
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import OwnRows


def is_decided_per_node(selection: Selection, filtering: Filtering) -> TypeGuard[DecidedByFilters]:
    """Return whether the verdict on a node with fewer pods depends only on that node's pods."""
    if not selection.filters_decide or has_backed_resources(filtering.info, filtering.view):
        return False
    return all(filtering.reads(plugin) is not Reads.PODS for plugin in filtering.plugins)


def dry_run_changed_nodes(
    cycle: Cycle, filtering: Filtering, potential: Bools, selection: DecidedByFilters
) -> DryRunState:
    """Return the result on the nodes (N,), trying only those without a cached result. Raises PluginError.

    If only the best candidates are asked for and some are found, nodes that cannot be better are left out.
    """
    view, cache, alike = cycle.view, cycle.victim_cache, preemption_class(cycle.info, cycle.view)
    nominated = view.nominated_against(cycle.info)
    cache_key = None if cache is None or alike is None else (cycle.framework.profile.scheduler_name, alike)
    cached = cache.find(cache_key) if cache and cache_key else None
    state = empty_dry_run_state(view, nominated) if cached is None else _still_valid(cached, view, nominated)
    trial = _Trial(filtering, nominated, selection)
    if cache and cycle.only_best_candidates and filtering.room_helps():
        state = _try_until_best(
            state, trial, potential, filtering.rejected_regardless_of_pods(cycle.filter.verdicts), cache
        )
    else:
        state = state.merge(trial.run(potential & ~state.tried))
    if cache and cache_key:
        cache.store(cache_key, state)
    return state


def _still_valid(cached: DryRunState, view: Fork, nominated: Delta) -> DryRunState:
    """Drop cached results for nodes that changed or whose PDB violations differ."""
    state = cached.for_unchanged_nodes(view, nominated)
    differs = find_budgets(view).find_violations(state.pods) != state.violating
    if not differs.any():
        return state
    unchanged = state.tried.copy()
    unchanged[state.node[differs]] = False
    return state.restrict_to(unchanged)


def _try_until_best(
    state: DryRunState, trial: _Trial, potential: Bools, rejected: Bools, cache: VictimCache
) -> DryRunState:
    """Try nodes until the best candidates are among them. `refused` (N,) are nodes that cannot be candidates.

    The candidates with the fewest PDB violations have none. Of two such nodes, the better one is that whose most
    important victim is less important, and whether the pod fits without all pods up to a priority shows how important
    it is. All nodes with pods whose eviction violates a PDB are tried.
    """
    guarded = trial.find_guarded(potential & ~state.tried)
    state = state.merge(trial.run(guarded))
    remaining = potential & ~state.tried & ~rejected
    enough = _find_lowest_victim_priority(state, trial, potential & ~rejected)
    if enough is not None:
        remaining &= state.beyond < enough
        fitting = trial.find_fitting(remaining, enough)
        return state.merge(trial.run(fitting)).with_insufficient_priority(enough, remaining & ~fitting)
    priorities = trial.find_priorities(remaining)
    while first := trial.find_first_fitting(remaining, priorities, cache.enough):
        cache.enough, fitting = first
        tried = trial.run(fitting)
        remaining &= ~fitting
        state = state.merge(tried).with_insufficient_priority(cache.enough, remaining)
        if tried.must_go.any():
            return state
        priorities = priorities[priorities > cache.enough]
    return state.merge(trial.run(potential & ~state.tried))


def _find_lowest_victim_priority(state: DryRunState, trial: _Trial, nodes: Bools) -> int | None:
    """Return the lowest "highest priority of a victim" among candidates in `nodes` without PDB violations, or None."""
    must_go = state.must_go & (state.fits & nodes)[state.node]
    breaking = np.zeros(len(nodes), np.bool_)
    breaking[state.node[must_go & state.violating]] = True
    must_go &= ~breaking[state.node]
    node, priority = state.node[must_go], trial.pod_priorities(state.pods[must_go])
    return int(priority[find_run_starts(node)].min()) if len(node) else None


@dataclass(frozen=True)
class _Trial:
    """A dry run on nodes (N,) whose result is unknown."""

    filtering: Filtering
    nominated: Delta
    selection: DecidedByFilters

    @property
    def view(self) -> Fork:
        return self.filtering.view

    def run(self, nodes: Bools) -> DryRunState:
        """Dry-run preemption on some nodes. Raises PluginError."""
        if not nodes.any():
            return empty_dry_run_state(self.view, self.nominated)
        pods = self.selection.find_potential(nodes)
        node, violating = self.view.node[pods], find_budgets(self.view).find_violations(pods)
        order = put_back_order(self.view, pods, violating)
        fits = self._find_fitting_without(pods)
        back = order[fits[node[order]]]
        gone = np.ones(len(pods), np.bool_)
        gone[back] = _find_required_victims(self.filtering, self.nominated, pods[back])
        state = empty_dry_run_state(self.view, self.nominated)
        return replace(state, tried=nodes, fits=fits, pods=pods, node=node, violating=violating, must_go=gone)

    def find_guarded(self, nodes: Bools) -> Bools:
        """Return which nodes have pods whose eviction violates a PDB, (N,)."""
        guarded, protecting = np.zeros(len(nodes), np.bool_), find_budgets(self.view)
        if protecting.any:
            pods = self.selection.find_potential_unsorted(nodes)  # how many are too many does not depend on their order
            guarded[self.view.node[pods[protecting.find_violations(pods)]]] = True
        return guarded

    def pod_priorities(self, pods: Positions) -> Priorities:
        """Return the priorities of pods, (V,)."""
        return self.view.pods.priority[self.view.pods.info[pods]]

    def find_priorities(self, nodes: Bools) -> Priorities:
        """Return the distinct priorities of evictable pods on the nodes, the lowest first."""
        return np.unique(self.pod_priorities(self.selection.find_potential_unsorted(nodes)))

    def find_fitting(self, nodes: Bools, priority: int) -> Bools:
        """Return the nodes where the pod fits without all pods up to a priority, (N,). Raises PluginError."""
        if not nodes.any():
            return nodes
        pods = self.selection.find_potential_unsorted(nodes)
        return self._find_fitting_without(pods[self.pod_priorities(pods) <= priority])

    def find_first_fitting(self, nodes: Bools, priorities: Priorities, guess: int) -> tuple[int, Bools] | None:
        """Return the lowest priority for which the pod fits on some node once all pods up to it are gone, and those
        nodes.

        None if there is no such priority. `guess` is tried first, then its neighbor. Raises PluginError.
        """
        found = None
        low, high, guessed = 0, len(priorities), 0
        at = min(int(np.searchsorted(priorities, guess)), high - 1)
        while low < high:
            fitting = self.find_fitting(nodes, int(priorities[at]))
            fits = bool(fitting.any())
            if fits:
                found, high = (int(priorities[at]), fitting), at
            else:
                low = at + 1
            guessed += 1
            beside = high - 1 if fits else low
            at = beside if guessed == 1 else (low + high) // 2
        return found

    def _find_fitting_without(self, pods: Positions) -> Bools:
        """Return the nodes of these pods where the pod fits without them, (N,). Raises PluginError."""
        fitting = np.zeros(len(self.view.nodes), np.bool_)
        if len(pods):
            by_node = np.argsort(self.view.node[pods], kind="stable")
            here = _PodsPerNode(self.filtering, self.nominated, pods[by_node])
            fitting[here.rows] = ~here.find_rejected(np.ones(len(pods), np.bool_))
        return fitting


def _find_required_victims(filtering: Filtering, nominated: Delta, pods: Positions) -> Bools:
    """Return which pods have to go when they are put back one by one on each node, in this order, (V,).

    The pods are sorted by node. Once most nodes are done, the others continue by themselves. Raises PluginError.
    """
    gone = np.ones(len(pods), np.bool_)
    remaining, step = np.arange(len(pods)), 0
    while len(remaining):
        own_pods = _PodsPerNode(filtering, nominated, pods[remaining])
        removed = gone[remaining]
        while 2 * np.count_nonzero(more := own_pods.sizes > step) > len(more):
            back = np.flatnonzero(own_pods.rank == step)
            removed[back] = False
            removed[back[own_pods.find_rejected(removed)[own_pods.place[back]]]] = True
            step += 1
        gone[remaining] = removed
        remaining = remaining[more[own_pods.place]]
    return gone


class _PodsPerNode:
    """Evictable pods (V,) on M nodes, sorted by node.

    `rows` (M,) are the nodes and `sizes` (M,) their numbers of pods. For each pod, `place` is the index of its node and
    `rank` the number of pods before it on the same node.
    """

    def __init__(self, filtering: Filtering, nominated: Delta, pods: Positions) -> None:
        self.filtering, self.view = filtering, filtering.view
        node = self.view.node[pods]
        starts = find_run_starts(node)
        self.rows: Rows = node[starts].astype(np.int64)
        self.sizes = np.diff(starts, append=len(pods))
        self.place = np.repeat(np.arange(len(starts), dtype=np.int32), self.sizes)
        self.rank = np.arange(len(pods)) - np.repeat(starts, self.sizes)
        self._info = self.view.pods.info[pods]
        self._minus = np.full(len(pods), -1, np.int64)
        self._nominated = nominated.restrict_to(self.rows)

    @cached_property
    def _own_rows(self) -> OwnRows:
        """The rows of the nodes."""
        return OwnRows(self.view, self.rows)

    def find_rejected(self, removed: Bools) -> Bools:
        """Return which nodes are rejected without the removed pods, (M,). Raises PluginError."""
        info = self._info[removed]
        without = Delta(self.place[removed], info, self._minus[: len(info)])
        rejected = self.filtering.rejected_rows(self._own_rows, without)
        if self._nominated:
            rejected |= self.filtering.rejected_rows(self._own_rows, without.then(self._nominated))
        return rejected
