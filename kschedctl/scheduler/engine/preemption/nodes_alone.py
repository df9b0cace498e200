"""The dry run where each node is judged by its own pods alone: what it comes to holds until something moves there."""

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
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.selection import DecidedByFilters, Selection
from kschedctl.scheduler.engine.preemption.victims import put_back_order
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import Reads
from kschedctl.snapshot.delta import Delta, run_starts
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import OwnRows


def nodes_alone(selection: Selection, filtering: Filtering) -> TypeGuard[DecidedByFilters]:
    """Whether what is said of a node with fewer pods depends on its own pods alone."""
    if not selection.filters_decide or has_backed_resources(filtering.info, filtering.view):
        return False
    return all(filtering.reads(plugin) is not Reads.PODS for plugin in filtering.plugins)


def tried_alone(cycle: Cycle, filtering: Filtering, potential: Bools, selection: DecidedByFilters) -> DryRunState:
    """What a dry run comes to on the nodes (N,); only those are tried of which it is not known. Raises PluginError.

    Where only the best candidates are asked for, and some are found, those are left out that cannot be.
    """
    view, kept, alike = cycle.view, cycle.victim_cache, preemption_class(cycle.info, cycle.view)
    nominated = view.nominated_against(cycle.info)
    like = None if kept is None or alike is None else (cycle.framework.profile.scheduler_name, alike)
    known = kept.find(like) if kept and like else None
    state = empty_dry_run_state(view, nominated) if known is None else _what_holds(known, view, nominated)
    trial = _Trial(filtering, nominated, selection)
    if kept and cycle.only_best_candidates and filtering.room_helps():
        state = _until_best(state, trial, potential, filtering.rejected_regardless_of_pods(cycle.filter.verdicts), kept)
    else:
        state = state.merge(trial.on(potential & ~state.tried))
    if kept and like:
        kept.store(like, state)
    return state


def _what_holds(known: DryRunState, view: Fork, nominated: Delta) -> DryRunState:
    """What is known of the nodes that are what they were, as budgets allow now."""
    state = known.for_unchanged_nodes(view, nominated)
    otherwise = budgets(view).violations(state.pods) != state.violating
    if not otherwise.any():
        return state
    same = state.tried.copy()
    same[state.node[otherwise]] = False
    return state.restrict_to(same)


def _until_best(state: DryRunState, trial: _Trial, potential: Bools, refused: Bools, kept: VictimCache) -> DryRunState:
    """With nodes tried until the best candidates are among them. ``refused`` (N,): nodes that cannot be any.

    The fewest budgets are broken by nobody whose eviction breaks one; of two such nodes that is better on which the
    most important pod that has to go is less important. How important it is shows in whether the pod fits without all
    pods up to it. Nodes with pods whose eviction breaks a budget are all tried.
    """
    guarded = trial.guarded(potential & ~state.tried)
    state = state.merge(trial.on(guarded))
    left = potential & ~state.tried & ~refused
    enough = _least_important(state, trial, potential & ~refused)
    if enough is not None:
        left &= state.beyond < enough
        fitting = trial.fitting(left, enough)
        return state.merge(trial.on(fitting)).with_insufficient_priority(enough, left & ~fitting)
    priorities = trial.priorities(left)
    while found := trial.first_fitting(left, priorities, kept.enough):
        kept.enough, fitting = found
        tried = trial.on(fitting)
        left &= ~fitting
        state = state.merge(tried).with_insufficient_priority(kept.enough, left)
        if tried.must_go.any():
            return state
        priorities = priorities[priorities > kept.enough]
    return state.merge(trial.on(potential & ~state.tried))


def _least_important(state: DryRunState, trial: _Trial, nodes: Bools) -> int | None:
    """Of the nodes (N,) that are candidates and break no budget: the least priority that some pod has to have that goes
    from one; None where there is no such node."""
    going = state.must_go & (state.fits & nodes)[state.node]
    breaking = np.zeros(len(nodes), np.bool_)
    breaking[state.node[going & state.violating]] = True
    going &= ~breaking[state.node]
    node, priority = state.node[going], trial.priority_of(state.pods[going])
    return int(priority[run_starts(node)].min()) if len(node) else None


@dataclass(frozen=True)
class _Trial:
    """A dry run on nodes (N,) of which is not known what it comes to."""

    filtering: Filtering
    nominated: Delta
    selection: DecidedByFilters

    @property
    def view(self) -> Fork:
        return self.filtering.view

    def on(self, nodes: Bools) -> DryRunState:
        """What it comes to on some of them. Raises PluginError."""
        if not nodes.any():
            return empty_dry_run_state(self.view, self.nominated)
        pods = self.selection.potential(nodes)
        node, violating = self.view.node[pods], budgets(self.view).violations(pods)
        order = put_back_order(self.view, pods, violating)
        fits = self._fitting_without(pods)
        back = order[fits[node[order]]]
        gone = np.ones(len(pods), np.bool_)
        gone[back] = _had_to_go(self.filtering, self.nominated, pods[back])
        state = empty_dry_run_state(self.view, self.nominated)
        return replace(state, tried=nodes, fits=fits, pods=pods, node=node, violating=violating, must_go=gone)

    def guarded(self, nodes: Bools) -> Bools:
        """(N,): those of the nodes with pods whose eviction breaks a budget."""
        guarded, protecting = np.zeros(len(nodes), np.bool_), budgets(self.view)
        if protecting.any:
            pods = self.selection.somewhere(nodes)  # how many are too many does not depend on their order
            guarded[self.view.node[pods[protecting.violations(pods)]]] = True
        return guarded

    def priority_of(self, pods: Positions) -> Priorities:
        """(V,)"""
        return self.view.pods.priority[self.view.pods.info[pods]]

    def priorities(self, nodes: Bools) -> Priorities:
        """Those that pods have who may go from some of the nodes, the lowest first."""
        return np.unique(self.priority_of(self.selection.somewhere(nodes)))

    def fitting(self, nodes: Bools, priority: int) -> Bools:
        """(N,): on which of the nodes there is room without all pods up to a priority. Raises PluginError."""
        if not nodes.any():
            return nodes
        pods = self.selection.somewhere(nodes)
        return self._fitting_without(pods[self.priority_of(pods) <= priority])

    def first_fitting(self, nodes: Bools, priorities: Priorities, guess: int) -> tuple[int, Bools] | None:
        """The first of these priorities for which there is room on some of the nodes once all pods up to it are gone,
        and (N,) on which; None for none. Raises PluginError.

        ``guess`` is tried first, then the one beside it.
        """
        found = None
        low, high, guessed = 0, len(priorities), 0
        at = min(int(np.searchsorted(priorities, guess)), high - 1)
        while low < high:
            fitting = self.fitting(nodes, int(priorities[at]))
            fits = bool(fitting.any())
            if fits:
                found, high = (int(priorities[at]), fitting), at
            else:
                low = at + 1
            guessed += 1
            beside = high - 1 if fits else low
            at = beside if guessed == 1 else (low + high) // 2
        return found

    def _fitting_without(self, pods: Positions) -> Bools:
        """(N,): where there is room without these pods, of the nodes that they are on. Raises PluginError."""
        fitting = np.zeros(len(self.view.nodes), np.bool_)
        if len(pods):
            by_node = np.argsort(self.view.node[pods], kind="stable")
            here = _OwnPods(self.filtering, self.nominated, pods[by_node])
            fitting[here.rows] = ~here.refused(np.ones(len(pods), np.bool_))
        return fitting


def _had_to_go(filtering: Filtering, nominated: Delta, pods: Positions) -> Bools:
    """(V,): which pods have to go when they are put back one by one on each node, in this order. Raises PluginError.

    Sorted by node. Where most nodes are done the others go on by themselves.
    """
    gone = np.ones(len(pods), np.bool_)
    left, step = np.arange(len(pods)), 0
    while len(left):
        some = _OwnPods(filtering, nominated, pods[left])
        removed = gone[left]
        while 2 * np.count_nonzero(more := some.sizes > step) > len(more):
            back = np.flatnonzero(some.rank == step)
            removed[back] = False
            removed[back[some.refused(removed)[some.place[back]]]] = True
            step += 1
        gone[left] = removed
        left = left[more[some.place]]
    return gone


class _OwnPods:
    """Pods (V,) that may go from M nodes, sorted by these. ``rows`` (M,); ``sizes`` (M,): how many each node has.

    Of each pod ``place``: which of the nodes it is on; ``rank``: how many of the same node come before it.
    """

    def __init__(self, filtering: Filtering, nominated: Delta, pods: Positions) -> None:
        self.filtering, self.view = filtering, filtering.view
        node = self.view.node[pods]
        starts = run_starts(node)
        self.rows: Rows = node[starts].astype(np.int64)
        self.sizes = np.diff(starts, append=len(pods))
        self.place = np.repeat(np.arange(len(starts), dtype=np.int32), self.sizes)
        self.rank = np.arange(len(pods)) - np.repeat(starts, self.sizes)
        self._info = self.view.pods.info[pods]
        self._minus = np.full(len(pods), -1, np.int64)
        self._promised = nominated.on(self.rows)

    @cached_property
    def _here(self) -> OwnRows:
        return OwnRows(self.view, self.rows)

    def refused(self, removed: Bools) -> Bools:
        """(M,): which nodes are refused without these of the pods (V,). Raises PluginError."""
        info = self._info[removed]
        without = Delta(self.place[removed], info, self._minus[: len(info)])
        refused = self.filtering.rejected_rows(self._here, without)
        if self._promised:
            refused |= self.filtering.rejected_rows(self._here, without.then(self._promised))
        return refused
