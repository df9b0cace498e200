"""Dry runs of preemption for plugins that judge each node by its own pods alone, so that results can be cached.

A cached result is valid for a node until pods move there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

import numpy as np

from kschedctl.api.arrays import Bools, Rows, find_distinct
from kschedctl.scheduler.engine.cycle import Cycle, Filtering
from kschedctl.scheduler.engine.dry_run_cache import (
    DryRunState,
    Priorities,
    VictimCache,
    build_empty_dry_run,
    get_dry_run_key,
)
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.victims import DecidedByFilters, Selection, compute_put_back_order
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import Reads
from kschedctl.snapshot.delta import Delta, find_run_starts
from kschedctl.snapshot.fork import Fork, OwnRows


def is_decided_per_node(selection: Selection, filtering: Filtering) -> TypeGuard[DecidedByFilters]:
    """Return whether the verdict on a node with fewer pods depends only on the pods of this node."""
    if not selection.filters_decide or has_backed_resources(filtering.info, filtering.view):
        return False
    return all(filtering.get_dependency(plugin) is not Reads.PODS for plugin in filtering.plugins)


def dry_run_changed_nodes(
    cycle: Cycle, filtering: Filtering, potential: Bools, selection: DecidedByFilters
) -> DryRunState:
    """Return the dry-run result for the potential nodes (N,), reusing cached results of unchanged nodes.

    If only the best candidates are needed, nodes that cannot beat the candidates found so far are not tried. Raises
    PluginError if a plugin fails.
    """
    view, cache = cycle.view, cycle.victim_cache
    pod_class = get_dry_run_key(cycle.info, view)
    nominated = view.build_nominated_delta_against(cycle.info)

    # Start with the cached results that are still valid.
    cache_key = None
    cached = None
    if cache is not None and pod_class is not None:
        cache_key = (cycle.framework.profile.scheduler_name, pod_class)
        cached = cache.find(cache_key)
    trial = _Trial(filtering, nominated, selection)
    state = trial.build_empty_dry_run() if cached is None else _select_valid_results(cached, view, nominated)

    # Try the other nodes, or only as many as the best candidates need. The best candidates are found by evicting more
    # and more pods, which must never make a plugin reject a node.
    if cache and cycle.only_best_candidates and filtering.can_evictions_only_help():
        rejected = filtering.find_nodes_rejected_regardless_of_pods(cycle.filter.verdicts)
        state = _try_until_best(state, trial, potential, rejected, cache)
    else:
        state = state.merge(trial.dry_run_nodes(potential & ~state.tried))
    if cache and cache_key:
        cache.store(cache_key, state)
    return state


def _select_valid_results(cached: DryRunState, view: Fork, nominated: Delta) -> DryRunState:
    """Return the cached results of nodes whose pods, nominations and PDB violations have not changed."""
    budgets = get_budgets(view)
    state = replace(cached.restrict_to_unchanged_nodes(view, nominated), budgets=budgets.statuses)

    # Find the nodes with a pod that a PDB with a changed status protects.
    has_changed_budget = budgets.find_infos_with_changed_budgets(cached.budgets)
    if not has_changed_budget.any():
        return state
    rows = view.node[has_changed_budget[view.pods.info]]
    is_concerned = np.zeros(len(view.nodes), np.bool_)
    is_concerned[rows[rows >= 0]] = True

    # Drop the results of the nodes whose violations differ now.
    to_check = is_concerned[state.rows]
    differs = budgets.find_violating_pods(state.pods[to_check]) != state.violating[to_check]
    unchanged = state.tried.copy()
    unchanged[state.rows[to_check][differs]] = False

    # On all nodes with such a pod, it is no longer certain that no eviction violates a PDB.
    state = replace(state, violates_nothing=state.violates_nothing & ~is_concerned)
    return state.restrict_to(unchanged) if differs.any() else state


def _try_until_best(
    state: DryRunState, trial: _Trial, potential: Bools, rejected: Bools, cache: VictimCache
) -> DryRunState:
    """Try potential nodes until the best candidates have been tried, and return `state` extended by the results.

    The best candidates have the fewest PDB violations and, among these, the most important victims of the lowest
    priority. All nodes with violations are tried. On the other nodes, dry runs that evict all pods up to a given
    priority find the lowest priority that suffices, which is stored in `cache`. Nodes in the mask `rejected` (N,)
    cannot be candidates. Raises PluginError if a plugin fails.
    """
    # Nodes whose pods violate PDBs are few, and are tried in any case.
    to_check = potential & ~state.tried & ~state.violates_nothing
    with_violations = trial.find_nodes_with_violations(to_check)
    state = replace(state, violates_nothing=state.violates_nothing | (to_check & ~with_violations))
    state = state.merge(trial.dry_run_nodes(with_violations))
    remaining = potential & ~state.tried & ~rejected

    # If a candidate is known, only nodes where evicting pods up to its priority is enough can be as good.
    best_priority = _find_lowest_top_victim_priority(state, trial, potential & ~rejected)
    if best_priority is not None:
        remaining &= state.insufficient_priority < best_priority
        fitting = trial.find_fitting_nodes(remaining, best_priority)
        state = state.merge(trial.dry_run_nodes(fitting))
        return state.with_insufficient_priority(best_priority, remaining & ~fitting)

    # Otherwise, raise the priority up to which pods are evicted until some node becomes a candidate.
    priorities = trial.list_distinct_priorities(remaining)
    while lowest := trial.find_lowest_sufficient_priority(remaining, priorities, cache.sufficient_priority):
        priority, fitting = lowest
        cache.sufficient_priority = priority  # the next search starts with this guess
        tried = trial.dry_run_nodes(fitting)
        remaining &= ~fitting
        state = state.merge(tried).with_insufficient_priority(priority, remaining)
        has_candidate = tried.must_go.any()
        if has_candidate:
            return state
        priorities = priorities[priorities > priority]
    return state.merge(trial.dry_run_nodes(potential & ~state.tried))


def _find_lowest_top_victim_priority(state: DryRunState, trial: _Trial, nodes: Bools) -> int | None:
    """Return the lowest priority among the most important victims of the candidates.

    Only candidates on `nodes` (N,) without PDB violations are considered. Return None if there is no such candidate.
    """
    is_candidate = state.fits & nodes
    is_victim = state.must_go & is_candidate[state.rows]
    violates_budget = np.zeros(len(nodes), np.bool_)
    violates_budget[state.rows[is_victim & state.violating]] = True
    is_victim &= ~violates_budget[state.rows]
    rows = state.rows[is_victim]
    if not len(rows):
        return None
    # The first victim of each node is its most important one.
    priorities = trial.view.pods.get_priorities(state.pods[is_victim])
    return int(priorities[find_run_starts(rows)].min())


@dataclass(frozen=True)
class _Trial:
    """A dry run on nodes without a cached result."""

    filtering: Filtering
    nominated: Delta
    selection: DecidedByFilters

    @property
    def view(self) -> Fork:
        """The fork in which the nodes are judged."""
        return self.filtering.view

    def build_empty_dry_run(self) -> DryRunState:
        """Build a dry-run result that covers no nodes."""
        return build_empty_dry_run(self.view, self.nominated, get_budgets(self.view).statuses)

    def dry_run_nodes(self, nodes: Bools) -> DryRunState:
        """Dry-run preemption on the nodes of a mask (N,), and return their results.

        Raises PluginError if a plugin fails.
        """
        if not nodes.any():
            return self.build_empty_dry_run()

        # Find the nodes on which the pod fits without the evictable pods.
        pods = self.selection.find_potential_victims(nodes)
        rows = self.view.node[pods]
        violating = get_budgets(self.view).find_violating_pods(pods)
        order = compute_put_back_order(self.view, pods, violating)
        fits = self._find_fitting_nodes_without(pods)

        # On these nodes, put the pods back one by one, in order. Pods on all other nodes must go.
        is_on_fitting_node = fits[rows]  # by pod
        put_back_indexes = order[is_on_fitting_node[order]]
        must_go = np.ones(len(pods), np.bool_)
        must_go[put_back_indexes] = _find_required_victims(self.filtering, self.nominated, pods[put_back_indexes])
        state = self.build_empty_dry_run()
        return replace(state, tried=nodes, fits=fits, pods=pods, rows=rows, violating=violating, must_go=must_go)

    def find_nodes_with_violations(self, nodes: Bools) -> Bools:
        """Return a mask (N,) of the nodes among `nodes` with a pod whose eviction violates a PDB."""
        guarded = np.zeros(len(nodes), np.bool_)
        budgets = get_budgets(self.view)
        if budgets.has_budgets:
            # The number of violations does not depend on the order of the pods.
            pods = self.selection.find_potential_victims_unsorted(nodes)
            violating_pods = pods[budgets.find_violating_pods(pods)]
            guarded[self.view.node[violating_pods]] = True
        return guarded

    def list_distinct_priorities(self, nodes: Bools) -> Priorities:
        """Return the distinct priorities of evictable pods on the nodes (N,), lowest first."""
        pods = self.view.pods
        infos = find_distinct(pods.info[self.selection.find_potential_victims_unsorted(nodes)], len(pods.infos))
        priorities = np.sort(pods.priority[infos])
        return priorities[find_run_starts(priorities)]

    def find_fitting_nodes(self, nodes: Bools, priority: int) -> Bools:
        """Return a mask (N,) of the nodes on which the pod fits once all pods up to a priority are evicted.

        Only nodes in the mask `nodes` that have such pods are considered. Raises PluginError if a plugin fails.
        """
        if not nodes.any():
            return nodes
        pods = self.selection.find_potential_victims_unsorted(nodes)
        return self._find_fitting_nodes_without(pods[self.view.pods.get_priorities(pods) <= priority])

    def find_lowest_sufficient_priority(
        self, nodes: Bools, priorities: Priorities, guess: int
    ) -> tuple[int, Bools] | None:
        """Find the lowest priority for which evicting all pods up to it makes room on some node.

        Return this priority and a mask (N,) of the nodes on which the pod then fits, or None if no priority suffices.
        The search starts at `guess` and its neighbor, and continues by bisection. Raises PluginError if a plugin fails.
        """
        best = None
        low = 0
        high = len(priorities)
        guessed_index = min(int(np.searchsorted(priorities, guess)), high - 1)
        index = guessed_index
        while low < high:
            priority = int(priorities[index])
            fitting = self.find_fitting_nodes(nodes, priority)
            if fitting.any():
                best = (priority, fitting)
                high = index
                neighbor = index - 1
            else:
                low = index + 1
                neighbor = index + 1
            # The second try is the guess's neighbor. If the guess was right, this try ends the search.
            index = neighbor if index == guessed_index else (low + high) // 2
        return best

    def _find_fitting_nodes_without(self, pods: Positions) -> Bools:
        """Return a mask (N,) of the nodes on which the pod fits once these pods are evicted.

        The mask is False for nodes that have none of these pods. Raises PluginError if a plugin fails.
        """
        fitting = np.zeros(len(self.view.nodes), np.bool_)
        if len(pods):
            by_node = np.argsort(self.view.node[pods], kind="stable")
            pods_per_node = _PodsPerNode(self.filtering, self.nominated, pods[by_node])
            all_pods_removed = np.ones(len(pods), np.bool_)
            fitting[pods_per_node.rows] = ~pods_per_node.find_rejected_nodes(all_pods_removed)
        return fitting


def _find_required_victims(filtering: Filtering, nominated: Delta, pods: Positions) -> Bools:
    """Return a mask over `pods` of the pods that have to be evicted, if pods are put back in this order.

    The pods must be sorted by node, and each node puts its pods back one by one. When most nodes are done, the arrays
    shrink to the unfinished nodes. Raises PluginError if a plugin fails.
    """
    is_required = np.ones(len(pods), np.bool_)
    pod_indexes = np.arange(len(pods))  # of the pods on unfinished nodes
    step = 0  # the rank of the pods that are put back next, one per node
    while len(pod_indexes):
        pods_per_node = _PodsPerNode(filtering, nominated, pods[pod_indexes])
        is_removed = is_required[pod_indexes]

        # Put back one pod on each node, and remove it again where the node is then rejected.
        is_unfinished = pods_per_node.sizes > step
        while 2 * np.count_nonzero(is_unfinished) > len(is_unfinished):
            put_back = np.flatnonzero(pods_per_node.rank == step)
            is_removed[put_back] = False
            rejected_nodes = pods_per_node.find_rejected_nodes(is_removed)
            is_in_the_way = rejected_nodes[pods_per_node.node_indexes[put_back]]
            is_removed[put_back[is_in_the_way]] = True
            step += 1
            is_unfinished = pods_per_node.sizes > step

        # Go on with the pods of the unfinished nodes only.
        is_required[pod_indexes] = is_removed
        is_on_unfinished_node = is_unfinished[pods_per_node.node_indexes]
        pod_indexes = pod_indexes[is_on_unfinished_node]
    return is_required


class _PodsPerNode:
    """The V evictable pods of M nodes, sorted by node.

    `rows` (M,) are the nodes, and `sizes` (M,) are their numbers of pods. For each pod, `node_indexes` (V,) has the
    index of its node in `rows`, and `rank` (V,) is the number of pods before it on the same node.
    """

    def __init__(self, filtering: Filtering, nominated: Delta, pods: Positions) -> None:
        self.filtering, self.view = filtering, filtering.view
        row_of_pod = self.view.node[pods]
        starts = find_run_starts(row_of_pod)
        self.rows: Rows = row_of_pod[starts].astype(np.int64)
        self.sizes = np.diff(starts, append=len(pods))
        self.node_indexes = np.repeat(np.arange(len(starts), dtype=np.int32), self.sizes)
        self.rank = np.arange(len(pods)) - np.repeat(starts, self.sizes)
        self._infos = self.view.pods.info[pods]
        self._departures = np.full(len(pods), -1, np.int64)
        """(V,) all -1, the sign of a removed pod in a Delta. `find_rejected_nodes` takes as many as it removes."""
        self._nominated = nominated.restrict_to(self.rows)

    @cached_property
    def _own_rows(self) -> OwnRows:
        """The nodes as rows that plugins can judge."""
        return OwnRows(self.view, self.rows)

    def find_rejected_nodes(self, removed: Bools) -> Bools:
        """Return a mask (M,) of the nodes that Filter plugins reject once the pods in the mask `removed` (V,) are gone.

        A node must pass both with and without the nominated pods. Raises PluginError if a plugin fails.
        """
        infos = self._infos[removed]
        removal = Delta(self.node_indexes[removed], infos, self._departures[: len(infos)])
        rejected = self.filtering.mask_rejected_rows(self._own_rows, removal)
        if self._nominated:
            rejected |= self.filtering.mask_rejected_rows(self._own_rows, removal.followed_by(self._nominated))
        return rejected
