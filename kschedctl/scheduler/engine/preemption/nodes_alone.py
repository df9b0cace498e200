"""The dry run where each node is judged by its own pods alone: what it comes to holds until something moves there."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.scheduler.engine.cycle import Cycle, Filtering
from kschedctl.scheduler.engine.kept_victims import DryRunState, likeness
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.selection import Selection
from kschedctl.scheduler.engine.preemption.victims import put_back_order
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import Reads
from kschedctl.snapshot.delta import Delta, run_starts
from kschedctl.snapshot.own_rows import OwnRows


def nodes_alone(filtering: Filtering, selection: Selection) -> bool:
    """Whether what is said of a node with fewer pods depends on its own pods alone."""
    if not selection.filters_decide or has_backed_resources(filtering.info, filtering.view):
        return False
    return all(filtering.reads(plugin) is not Reads.PODS for plugin in filtering.plugins)


def tried_alone(cycle: Cycle, filtering: Filtering, potential: Bools, selection: Selection) -> DryRunState:
    """What a dry run comes to on the nodes (N,); only those are tried of which it is not known. Raises PluginError."""
    view, kept, alike = cycle.view, cycle.kept_victims, likeness(cycle.info, cycle.view)
    nominated = view.nominated_against(cycle.info)
    if kept is None or alike is None:
        return _tried(filtering, nominated, potential, selection)
    like = (cycle.framework.profile.scheduler_name, alike)
    known = kept.latest(like)
    if known is None:
        state = _tried(filtering, nominated, potential, selection)
    else:
        holds = known.holds(view, nominated)
        known = known.on(holds)
        otherwise = budgets(view).violations(known.pods) != known.violating
        if otherwise.any():
            holds[known.node[otherwise]] = False
            known = known.on(holds)
        state = known.joined(_tried(filtering, nominated, potential & ~holds, selection))
    kept.keep(like, state)
    return state


def _tried(filtering: Filtering, nominated: Delta, nodes: Bools, selection: Selection) -> DryRunState:
    """A dry run on some nodes (N,). Raises PluginError."""
    view = filtering.view
    pods = selection.potential(nodes)
    violating = budgets(view).violations(pods)
    order = put_back_order(view, pods, violating)
    node, fits = view.node[pods], np.zeros(len(nodes), np.bool_)
    everybody = _OwnPods(filtering, nominated, pods)
    fits[everybody.rows] = ~everybody.refused(np.ones(len(pods), np.bool_))
    back = order[fits[node[order]]]
    gone = np.ones(len(pods), np.bool_)
    gone[back] = _had_to_go(filtering, nominated, pods[back])
    return DryRunState(len(view.trail), nominated, nodes, fits, pods, node, violating, gone)


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
        refused = self.filtering.refused_alone(self._here, without)
        if self._promised:
            refused |= self.filtering.refused_alone(self._here, without.then(self._promised))
        return refused
