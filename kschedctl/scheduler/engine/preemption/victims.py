"""The pods that preemption may evict: how they are selected, and how a dry run removes them and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, Verdicts
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidates, Positions, rank_within_runs
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork

SORTED_AGAIN = ByVersion(
    "order in which preemption victims are listed",
    (("", False), ("1.30.7 1.31.3", True)),
    "#128307, backported by #128431 and #128434",
    bool_texts=("PodDisruptionBudget violations first, then by importance", "by importance only"),
)
NO_VICTIMS = "No preemption victims found for incoming pod"


class Selection(Protocol):
    """Upstream's SelectVictimsOnNode for all nodes at once."""

    filters_decide: bool
    """True if the Filter plugins alone decide which pods must go.

    Then `find_rejected_nodes` and `find_nodes_requiring_eviction` return None.
    """

    def find_potential_victims(self, nodes: Bools) -> Positions:
        """Return the evictable pods on the nodes of a mask (N,), sorted by node and then by importance."""

    def find_rejected_nodes(self, pods: Positions) -> tuple[str, Bools] | None:
        """Return a reason and a mask (N,) of the nodes that are rejected even if all of these pods (V,) go, or None."""

    def find_nodes_requiring_eviction(self, pods: Positions, is_gone: Bools) -> Bools | None:
        """Return a mask (N,) of the nodes that must evict the pod just put back after all, or None if no node must.

        `pods` are the victims (V,), and `is_gone` (V,) marks those that are evicted now.
        """

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield upstream's messages for nodes without evictable pods, each with its number of `rows`."""

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether victims are finally sorted by importance, rather than with PDB violations first."""


class DecidedByFilters(Selection, Protocol):
    """A selection whose victims follow from the Filter plugins alone."""

    def find_potential_victims_unsorted(self, nodes: Bools) -> Positions:
        """Return the positions of the evictable pods on the nodes of a mask (N,), in no particular order."""


class LowerPriority:
    """The selection of all pods with a lower priority, as in upstream's DefaultPreemption.

    It is valid until pods move.
    """

    filters_decide = True

    def __init__(self, view: Fork, priority: int) -> None:
        self.view, self.priority = view, priority

    def find_potential_victims(self, nodes: Bools) -> Positions:
        """Return the pods of lower priority on the nodes of a mask (N,), sorted by node and then by importance."""
        pods = self.find_potential_victims_unsorted(nodes)
        return pods[compute_importance_order(self.view, pods, self.view.arrivals.place[pods])]

    def find_potential_victims_unsorted(self, nodes: Bools) -> Positions:
        """Return the lower-priority pods on the nodes of a mask (N,), in no particular order."""
        pods = self._pods_of_lower_priority
        return pods[nodes[self.view.node[pods]]] if nodes.any() else pods[:0]

    @cached_property
    def _pods_of_lower_priority(self) -> Positions:
        """The lower-priority pods on all nodes, in no particular order."""
        pods = self.view.pods
        has_lower_priority = (pods.priority < self.priority)[pods.info]  # one comparison for all pods of a PodInfo
        return np.flatnonzero(has_lower_priority & (self.view.node >= 0))

    def find_rejected_nodes(self, pods: Positions) -> None:
        """Return None, since the filters alone reject nodes."""
        return

    def find_nodes_requiring_eviction(self, pods: Positions, is_gone: Bools) -> None:
        """Return None, since the filters alone decide which pods must go."""
        return

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield one message for all `rows` together, with their number."""
        yield NO_VICTIMS, len(rows)

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether victims are finally sorted by importance in this version."""
        return SORTED_AGAIN.at(release)


def compute_importance_order(view: Fork, pods: Positions, arrival_order: Positions) -> Positions:
    """Return the order that sorts the pods by node and, on each node, from the most to the least important.

    A pod with a higher priority is more important. Of equal priority, the pod that started earlier is more important. A
    pod that has not started counts as started now. Upstream reads the clock anew in each comparison, which puts such
    pods in reverse order. A pod created after the snapshot counts as started. Ties are broken by `arrival_order` (one
    entry per pod), in reverse for pods that have not started.
    """
    if not len(pods):
        return arrival_order
    start = view.pods.start[pods]
    tie_breaker = np.where(find_pods_never_started(view, pods), -arrival_order, arrival_order)
    return np.lexsort((tie_breaker, start, -view.pods.get_priorities(pods), view.node[pods]))


def find_pods_never_started(view: Fork, pods: Positions) -> Bools:
    """Return a mask over `pods` of the pods that have not started.

    Upstream compares the current time in place of their start. If time stands still, no pod is marked.
    """
    never_started: Bools = (view.pods.start[pods] == NO_TIME) & ~view.arrivals.arrived_later[pods]
    return never_started & view.time_passes


def find_interchangeable_pods(view: Fork, victim: Position, preemptor_priority: int) -> Positions:
    """Return the pods of the victim's node, the victim included, whose order in the dry run is arbitrary.

    These pods have the victim's priority and start time, by which upstream sorts with an unstable sort. Pods whose
    eviction violates a PDB are always put back before all other pods. Therefore, the order of two pods is arbitrary
    only if both may violate a PDB, or if neither has to.

    Upstream: MoreImportantPod in pkg/scheduler/util/utils.go, and SelectVictimsOnNode in
    pkg/scheduler/framework/plugins/defaultpreemption.
    """
    pods = view.pods
    on_node = np.array(view.pods_on(Row(int(view.node[victim]))), np.int64)
    priorities, starts = pods.get_priorities(on_node), pods.start[on_node]
    is_equal = (priorities == pods.get_priority(victim)) & (starts == pods.start[victim])
    budgets = get_budgets(view)
    if np.count_nonzero(is_equal) < 2 or not budgets.has_budgets:
        equal_pods: Positions = on_node[is_equal]
        return equal_pods

    # Evictable pods use up the disruptions that PDBs allow, the most important pods first.
    is_evictable = is_equal | (priorities < preemptor_priority)
    evictable_pods = on_node[is_evictable]
    sort_keys = np.stack((-priorities, starts))[:, is_evictable]
    _, importance = np.unique(sort_keys, axis=1, return_inverse=True)
    importance = importance.reshape(-1)  # some versions of numpy return it as a row
    may_violate, must_violate = budgets.find_possible_violations(evictable_pods, importance)

    # Leave out the pods that are certainly put back before or after the victim, since only one of both violates a PDB.
    is_victim = evictable_pods == victim
    may_both_violate = may_violate & may_violate[is_victim]
    may_both_be_spared = ~must_violate & ~must_violate[is_victim]
    is_interchangeable = is_equal[is_evictable] & (may_both_violate | may_both_be_spared)
    interchangeable: Positions = evictable_pods[is_interchangeable]
    return interchangeable


def find_pods_with_equal_neighbours(view: Fork, rows: Rows) -> Bools:
    """Return a mask (P,) of the pods on these nodes that share priority and start time with another pod of their node.

    All other pods of these nodes are interchangeable with no pod, see `find_interchangeable_pods`.
    """
    is_selected = np.zeros(len(view.nodes) + 1, np.bool_)  # the last entry stands for pods without a node, in row -1
    is_selected[rows] = True
    pods = np.flatnonzero(is_selected[view.node])
    columns = (view.node[pods], view.pods.get_priorities(pods), view.pods.start[pods])
    order = np.lexsort(columns)
    equals_next = np.ones(max(len(pods) - 1, 0), np.bool_)
    for column in columns:
        equals_next &= column[order][1:] == column[order][:-1]

    # Mark both pods of each pair of equal neighbours.
    mask = np.zeros(len(view.node), np.bool_)
    mask[pods[order][:-1][equals_next]] = True
    mask[pods[order][1:][equals_next]] = True
    return mask


GONE_TWICE = "no corresponding pod {} in pods of node {}"
"""Upstream's error for evicting a pod that is already gone."""


class Judge(NamedTuple):
    """All filters, applied to all nodes at once."""

    filtering: Filtering
    known: Verdicts
    """The filters' verdicts without a hypothesis."""
    promising: Bools
    """(N,): the nodes that matter."""

    def mask_rejected_rows(self, delta: Delta, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rows that the filters reject after the hypothetical change.

        Raises PluginError if a plugin fails.
        """
        return ~self.filtering.run_filters(delta, self.known, self.promising).passing[rows]


class Victims:
    """The evictable pods of a dry run, sorted by node and then in the order in which they are put back.

    There are V victims, and all arrays are (V,). On each node, PDB violations come first, and then importance decides.
    `positions` are the positions of the victims, and `rows` are the rows of their nodes. `rank` is the step in which
    each victim is put back. `removed` marks victims that are currently gone, and `time` is when each victim last left
    or came back. `holds_port` marks victims with a host port that the incoming pod wants. `uncounted` marks victims
    that must go although no filter requires it. Upstream forgets to count their PDB violations.
    """

    def __init__(self, view: Fork, positions: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.positions, self.violating, self.holds_port = view, positions, violating, holds_port
        self.rows = view.node[positions]
        self.removed = np.ones(len(positions), np.bool_)
        self.uncounted = np.zeros(len(positions), np.bool_)

    @classmethod
    def from_pods(cls, cycle: Cycle, positions: Positions, violating: Bools) -> Victims:
        """Build the victims of a cycle from pods that `compute_put_back_order` has sorted."""
        infos = cycle.view.pods.info[positions]
        return cls(cycle.view, positions, violating, holds_port=_find_port_holders(cycle)[infos])

    @cached_property
    def rank(self) -> Positions:
        """The step in which each victim is put back."""
        return rank_within_runs(self.rows)

    @cached_property
    def time(self) -> Positions:
        """The time at which each victim was last removed or put back."""
        return np.arange(len(self.positions))

    def restrict_to(self, nodes: Bools) -> Victims:
        """Return the victims on these nodes (N,), all of them removed."""
        is_chosen = nodes[self.rows]
        return Victims(self.view, self.positions[is_chosen], self.violating[is_chosen], self.holds_port[is_chosen])

    def put_back(self, judge: Judge, selection: Selection) -> dict[int, str]:
        """Put back the victims that need not be evicted. Return upstream's errors, keyed by the row of the node.

        Each step puts back one victim per node, and evicts it again if a filter then rejects the node or if `selection`
        demands it. PDB violations of victims that `selection` demands are not counted. A victim that both a filter and
        `selection` evict is removed twice, which is an error on this node, as in upstream. Raises PluginError if a
        plugin fails.
        """
        errors_by_row: dict[int, str] = {}
        for step in range(int(self.rank.max(initial=-1)) + 1):
            # Evict a restored pod again if a filter then rejects its node.
            step_victims = np.flatnonzero(self.rank == step)
            self._restore(step_victims)
            rows: Rows = self.rows[step_victims].astype(np.int64)
            is_rejected = judge.mask_rejected_rows(self.build_delta(), rows)
            self._remove(step_victims[is_rejected])

            # Evict the restored pod as well if the selection demands it, for example because of a quota.
            demanding_nodes = selection.find_nodes_requiring_eviction(self.positions, self.removed)
            if demanding_nodes is None:
                continue
            is_demanded = demanding_nodes[rows]
            for victim in step_victims[is_rejected & is_demanded].tolist():
                errors_by_row.setdefault(int(self.rows[victim]), self._format_gone_twice(victim))
            demanded_victims = step_victims[is_demanded]
            self._remove(demanded_victims)
            self.uncounted[demanded_victims] = True
        return errors_by_row

    def build_delta(self) -> Delta:
        """Build the hypothetical change in which the removed pods are gone.

        Host ports may be freed and taken several times, so their changes are listed in the order in which they
        happened. A restored pod with a port first leaves and then comes back.
        """
        removed = np.flatnonzero(self.removed & ~self.holds_port)
        with_port = np.flatnonzero(self.holds_port)
        with_port = with_port[np.argsort(self.time[with_port])]
        restored_with_port = with_port[~self.removed[with_port]]

        # The pods that leave, followed by the latest change of each pod with a port: it has left or come back.
        leaving = np.concatenate((removed, restored_with_port))
        latest_changes = np.where(self.removed[with_port], -1, 1)
        changed = np.concatenate((leaving, with_port))
        sign = np.concatenate((np.full(len(leaving), -1, np.int64), latest_changes))
        return Delta.from_changes(self.rows[changed], self.view.pods.info[self.positions[changed]], sign)

    def build_candidates(self, rows: Positions, *, by_importance: bool) -> Candidates:
        """Build the candidates on these rows from the remaining victims.

        With `by_importance`, victims are sorted by importance only, and PDB violations do not matter.
        """
        order = self._compute_importance_order() if by_importance and self.violating.any() else None
        return self._build_candidates_in_order(rows, order)

    def _compute_importance_order(self) -> Positions:
        """Return an order of all victims in which the removed victims of each node are sorted by importance.

        The victims that were put back stay where they are. A node needs sorting only if some but not all of its victims
        violate PDBs. The victims of all other nodes are sorted by importance already.
        """
        nodes = len(self.view.nodes)
        violating_counts = np.bincount(self.rows, self.violating, nodes)
        victim_counts = np.bincount(self.rows, minlength=nodes)
        is_mixed = (violating_counts > 0) & (violating_counts < victim_counts)
        order = np.arange(len(self.positions))
        to_sort = np.flatnonzero(self.removed & is_mixed[self.rows])
        order[to_sort] = to_sort[compute_importance_order(self.view, self.positions[to_sort], np.arange(len(to_sort)))]
        return order

    def _build_candidates_in_order(self, rows: Positions, order: Positions | None) -> Candidates:
        """Build the candidates on `rows`, whose victims are the pods that are still removed.

        Victims are listed in `order` (one index per pod) or, if it is None, in their stored order. PDB violations of
        `uncounted` victims are not counted.
        """
        is_chosen = np.zeros(len(self.view.nodes), np.bool_)
        is_chosen[rows] = True
        still_removed = self.removed & is_chosen[self.rows]
        # `order` only swaps removed victims of one node, so the mask selects the same victims in both orders.
        order = np.flatnonzero(still_removed) if order is None else order[still_removed]
        sizes = np.bincount(self.rows[order], minlength=len(is_chosen))[rows]
        starts = np.append(0, np.cumsum(sizes))
        candidates = Candidates(rows, starts, self.positions[order], self.violating[order])
        if not self.uncounted.any():
            return candidates
        return candidates.with_counted_violations(self.violating[order] & ~self.uncounted[order])

    def _restore(self, victims: Positions) -> None:
        """Put victims back on their nodes."""
        self.removed[victims] = False
        self._record_change_time(victims)

    def _remove(self, victims: Positions) -> None:
        """Remove victims from their nodes."""
        self.removed[victims] = True
        self._record_change_time(victims)

    def _record_change_time(self, victims: Positions) -> None:
        """Record that these victims came or went now."""
        self.time[victims] = self.time.max() + 1 + np.arange(len(victims))

    def _format_gone_twice(self, victim: int) -> str:
        """Return upstream's error for evicting a pod that is already gone."""
        position, row = self.positions[victim], self.rows[victim]
        return GONE_TWICE.format(self.view.pods.objects[position].metadata.name, self.view.nodes.names[row])


def compute_put_back_order(view: Fork, pods: Positions, violating: Bools) -> Positions:
    """Return the order in which a dry run puts back pods.

    The pods are already sorted by node and importance. On each node, pods whose eviction violates a PDB come first.
    """
    return np.lexsort((~violating, view.node[pods])) if violating.any() else np.arange(len(pods))


def _find_port_holders(cycle: Cycle) -> Bools:
    """Return a mask over the PodInfos that have a host port in conflict with the incoming pod's ports."""
    wanted_ports = cycle.info.host_ports
    if not wanted_ports:
        return np.zeros(len(cycle.view.pods.infos), np.bool_)
    return cycle.view.pods.mask_with_host_port(lambda port: any(port.conflicts_with(wanted) for wanted in wanted_ports))
