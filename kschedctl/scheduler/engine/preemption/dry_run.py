"""The dry run of preemption on all nodes at once: the victims on each node.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption (v1.36). Upstream
clones a node, removes its lower-priority pods and puts them back one by one. Here, step k puts back the k-th victim of
every node, and one vectorized pass over the plugins judges them all. If no plugin looks at other nodes, results are
cached and only nodes that changed are tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, FilterOutcome
from kschedctl.scheduler.engine.dry_run_cache import DryRunState
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidates
from kschedctl.scheduler.engine.preemption.dry_run_per_node import dry_run_changed_nodes, is_decided_per_node
from kschedctl.scheduler.engine.preemption.victims import (
    NO_VICTIMS,
    DecidedByFilters,
    Judge,
    Selection,
    Victims,
    compute_put_back_order,
)
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.delta import find_run_starts
from kschedctl.snapshot.fork import Fork

NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run: the candidates in node order, and the reasons why other nodes do not help."""

    candidates: Candidates
    without_evictable_pods: Bools
    """(N,): nodes without evictable pods."""
    rejected_by_selection: Mapping[str, int]
    """Reason of the selection -> number of nodes that it rejects even without the evictable pods."""
    rejected_by_filters: Bools
    """(N,): nodes that filters reject even without the evictable pods."""
    filter_without_victims: Callable[[], FilterOutcome]
    """Computes `outcome_without_victims`. It must be called before any pod moves."""
    put_back_errors: Mapping[int, str]
    """Row -> the error that occurred while pods were put back."""

    @cached_property
    def outcome_without_victims(self) -> FilterOutcome:
        """The filters' answers without the evictable pods."""
        return self.filter_without_victims()

    def count_unhelpful_nodes(self, candidates_wanted: bool = True) -> Counter[str]:
        """Count the nodes on which preemption does not help, by reason.

        Nodes that were not tried share one reason. If `candidates_wanted` is False, candidates count as nodes that were
        not tried.
        """
        node_counts = Counter(self.rejected_by_selection) + Counter(self.put_back_errors.values())
        if self.rejected_by_filters.any():
            node_counts += self.outcome_without_victims.count_nodes_by_reason(self.rejected_by_filters)
        node_counts[NO_VICTIMS] += int(self.without_evictable_pods.sum())

        # No node is in two of these groups. Nodes in none of these groups were not tried.
        decided_count = int((self.without_evictable_pods | self.rejected_by_filters).sum())
        decided_count += sum(self.rejected_by_selection.values()) + len(self.put_back_errors)
        if candidates_wanted:
            decided_count += len(self.candidates)
        node_counts[NOT_HELPFUL] += len(self.without_evictable_pods) - decided_count
        return +node_counts  # without reasons that no node has

    def count_nodes_for_message(self, selection: Selection, *, candidates_wanted: bool) -> Counter[str]:
        """Count the nodes on which preemption does not help, by the reason in upstream's message.

        `selection` provides the reason for nodes without evictable pods.
        """
        counts = self.count_unhelpful_nodes(candidates_wanted=candidates_wanted)
        del counts[NO_VICTIMS]
        return counts + Counter(dict(selection.iter_no_victims_messages(np.flatnonzero(self.without_evictable_pods))))

    def collect_error_messages(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the distinct errors in node order. `names` are the names of all nodes.

        An error comes from putting pods back or from a filter, or it says that a candidate has no victims.
        """
        by_row: list[tuple[int, str]] = list(self.put_back_errors.items())
        if self.rejected_by_filters.any():
            by_row += self._iter_filter_errors()
        rows_without_victims = self.candidates.row[self.candidates.sizes == 0].tolist()
        by_row += ((row, f'expected at least one victim pod on node "{names[row]}"') for row in rows_without_victims)
        return tuple(dict.fromkeys(message for _, message in sorted(by_row)))

    def _iter_filter_errors(self) -> Iterator[tuple[int, str]]:
        """Yield the row and message of each error that a filter reports once the evictable pods are removed.

        Only nodes that the filters reject even then are considered.
        """
        for plugin, verdict, reported in self.outcome_without_victims.iter_reported_verdicts():
            for rejection in verdict.rejections:
                if rejection.code is Code.ERROR:
                    message = f'running "{plugin}" filter plugin: {rejection.reason}'
                    for row in np.flatnonzero(rejection.mask & reported & self.rejected_by_filters).tolist():
                        yield row, message


def dry_run(cycle: Cycle, potential: Bools, selection: Selection) -> DryRun:
    """Find, on each of the potential nodes (N,), victims whose eviction makes room for the pod.

    On each node, all evictable pods are removed first. Each of them is put back if the pod then still fits. If every
    filter judges a node by the node's own pods, cached results of earlier dry runs are reused. Raises PluginError if a
    plugin fails.
    """
    filtering = Filtering.from_framework(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
    if is_decided_per_node(selection, filtering):
        return _dry_run_per_node(cycle, filtering, potential, selection)

    # Judge all nodes without their evictable pods. Only selections with rules of their own need these pods in order.
    if _is_decided_by_filters(selection):
        evictable = selection.find_potential_victims_unsorted(potential)
    else:
        evictable = selection.find_potential_victims(potential)
    victims = Victims.from_pods(cycle, evictable, np.zeros(len(evictable), np.bool_))
    has_victims = np.zeros(len(potential), np.bool_)
    has_victims[victims.rows] = True
    without_victims = filtering.run_filters(victims.build_delta(), cycle.filter.verdicts, potential & has_victims)
    promising = potential & has_victims & without_victims.passing

    # The selection may reject further nodes.
    rejected_by_selection: dict[str, int] = {}
    if rejection := selection.find_rejected_nodes(victims.positions):
        reason, rejected = rejection
        rejected_by_selection[reason] = int((promising & rejected).sum())
        promising = promising & ~rejected

    # On the remaining nodes, which are often few, put back the victims that need not be evicted.
    if _is_decided_by_filters(selection):
        pods = selection.find_potential_victims(promising)
    else:
        pods = evictable[promising[cycle.view.node[evictable]]]
    violating = get_budgets(cycle.view).find_violating_pods(pods)
    order = compute_put_back_order(cycle.view, pods, violating)
    victims = Victims.from_pods(cycle, pods[order], violating[order])
    put_back_errors = victims.put_back(Judge(filtering, cycle.filter.verdicts, promising), selection)

    # Nodes on which this failed are no candidates.
    candidate_rows = np.flatnonzero(promising)
    if put_back_errors:
        candidate_rows = candidate_rows[~np.isin(candidate_rows, list(put_back_errors))]
    by_importance = selection.sorts_by_importance(cycle.framework.release)
    return DryRun(
        victims.build_candidates(candidate_rows, by_importance=by_importance),
        without_evictable_pods=potential & ~has_victims,
        rejected_by_selection=rejected_by_selection,
        rejected_by_filters=potential & has_victims & ~without_victims.passing,
        filter_without_victims=lambda: without_victims,
        put_back_errors=put_back_errors,
    )


def _is_decided_by_filters(selection: Selection) -> TypeGuard[DecidedByFilters]:
    """Return whether the Filter plugins alone decide which pods must go."""
    return selection.filters_decide


def _dry_run_per_node(cycle: Cycle, filtering: Filtering, potential: Bools, selection: DecidedByFilters) -> DryRun:
    """Dry-run preemption node by node, reusing cached results for unchanged nodes.

    This is valid only if no filter looks at other nodes. Raises PluginError if a plugin fails.
    """
    # Find the nodes that become feasible if pods are evicted.
    state = dry_run_changed_nodes(cycle, filtering, potential, selection)
    has_victims = np.zeros(len(potential), np.bool_)
    has_victims[state.rows] = True
    tried = potential & state.tried
    rejected = filtering.find_nodes_rejected_regardless_of_pods(cycle.filter.verdicts)
    promising = tried & has_victims & state.fits & ~rejected

    # Build the candidates from their pods that have to go.
    candidate_nodes = _find_best_nodes(cycle.view, state, promising) if cycle.only_best_candidates else promising
    promising_state = state.restrict_to(candidate_nodes)
    order = compute_put_back_order(cycle.view, promising_state.pods, promising_state.violating)
    victims = Victims.from_pods(cycle, promising_state.pods[order], promising_state.violating[order])
    victims.removed = promising_state.must_go[order]  # all other pods have been put back
    by_importance = selection.sorts_by_importance(cycle.framework.release)
    candidates = victims.build_candidates(np.flatnonzero(candidate_nodes), by_importance=by_importance)

    def filter_without_victims() -> FilterOutcome:
        """Run the filters on all nodes without their evictable pods."""
        all_victims = Victims.from_pods(cycle, state.pods, state.violating).restrict_to(potential)
        return filtering.run_filters(all_victims.build_delta(), cycle.filter.verdicts, potential & has_victims)

    return DryRun(
        candidates,
        without_evictable_pods=tried & ~has_victims,
        rejected_by_selection={},
        rejected_by_filters=tried & has_victims & ~promising,
        filter_without_victims=filter_without_victims,
        put_back_errors={},
    )


def _find_best_nodes(view: Fork, state: DryRunState, nodes: Bools) -> Bools:
    """Return a mask (N,) of the best nodes by the first two criteria.

    Among the nodes in the mask `nodes` (N,), these have the fewest PDB violations and then the lowest priority of the
    most important victim. Nodes without victims are not candidates. If all nodes are without victims, return `nodes`.
    """
    is_victim = state.must_go & nodes[state.rows]
    rows = state.rows[is_victim]
    if not len(rows):
        return nodes
    starts = find_run_starts(rows)  # the index of each node's first victim
    violations = np.add.reduceat(state.violating[is_victim], starts, dtype=np.int64)
    priorities = np.maximum.reduceat(view.pods.get_priorities(state.pods[is_victim]), starts)
    fewest_violations = violations == violations.min()
    is_best = fewest_violations & (priorities == priorities[fewest_violations].min())
    best_nodes = np.zeros(len(nodes), np.bool_)
    best_nodes[rows[starts[is_best]]] = True
    return best_nodes
