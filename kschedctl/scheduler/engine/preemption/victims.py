"""The pods that preemption may evict: how they are selected, and how a dry run removes them and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, Verdicts
from kschedctl.scheduler.engine.preemption.candidates import Candidates, Positions, rank_within_runs
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork

SORTED_AGAIN = ByVersion(
    "whether victims are sorted again by importance, not those first that break a budget",
    (("", False), ("1.30.7 1.31.3", True)),
    "#128307, brought back by #128431 and #128434",
)
NO_VICTIMS = "No preemption victims found for incoming pod"


class Selection(Protocol):
    """Upstream's SelectVictimsOnNode for all nodes at once."""

    filters_decide: bool
    """Whether the victims follow from the Filter plugins alone; then `refused` and `exceeded` return None."""

    def find_potential(self, nodes: Bools) -> Positions:
        """Return the evictable pods on these nodes (N,), sorted by node and then by importance, (V,)."""

    def find_rejected(self, pods: Positions) -> tuple[str, Bools] | None:
        """Return a reason and the nodes (N,) that it rejects even without all of these pods (V,), or None."""

    def find_exceeded(self, pods: Positions, gone: Bools) -> Bools | None:
        """Return the nodes where the pod just put back has to go all the same, given the pods that are `gone` (V,)."""

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield upstream's messages for nodes without evictable pods, and the number of these rows for each."""

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether victims are finally sorted by importance, instead of PDB violations first."""


class DecidedByFilters(Selection, Protocol):
    """A selection whose victims follow from the Filter plugins alone."""

    def find_potential_unsorted(self, nodes: Bools) -> Positions:
        """Return the evictable pods on these nodes (N,), in any order, (V,)."""


class LowerPriority:
    """Selection of all pods with a lower priority; upstream's DefaultPreemption."""

    filters_decide = True

    def __init__(self, view: Fork, priority: int) -> None:
        self.view, self.priority = view, priority

    def find_potential(self, nodes: Bools) -> Positions:
        pods = self.find_potential_unsorted(nodes)
        return pods[sort_by_importance(self.view, pods, self.view.arrivals.place[pods])]

    def find_potential_unsorted(self, nodes: Bools) -> Positions:
        view, pods = self.view, self.view.pods
        here = np.flatnonzero(np.append(nodes, False)[view.node])  # -1 is nowhere
        found: Positions = here[pods.priority[pods.info[here]] < self.priority]
        return found

    def find_rejected(self, pods: Positions) -> None:
        return None

    def find_exceeded(self, pods: Positions, gone: Bools) -> None:
        return None

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        yield NO_VICTIMS, len(rows)

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        return SORTED_AGAIN.at(release)


def sort_by_importance(view: Fork, pods: Positions, arrival_order: Positions) -> Positions:
    """Return the order of pods within each node: higher priority first, then the longer running.

    Upstream takes the present as the start of a pod that has not started, anew in each comparison, so that such pods
    end up in reverse order unless time stands still. Pods that came since the snapshot have started by now; among
    these, and among equals, those that `came` (V,) last go first.
    """
    if not len(pods):
        return arrival_order
    start = view.pods.start[pods]
    late = np.where(find_never_started(view, pods), -arrival_order, arrival_order)
    return np.lexsort((late, start, -view.pods.priority[view.pods.info[pods]], view.node[pods]))


def find_never_started(view: Fork, pods: Positions) -> Bools:
    """Return the pods that each comparison takes to have started just then, (V,)."""
    never_started: Bools = (view.pods.start[pods] == NO_TIME) & ~view.arrivals.came[pods]
    return never_started & view.time_passes


GONE_TWICE = "no corresponding pod {} in pods of node {}"
"""Upstream's error when it evicts a pod that is gone already."""


class Judge(NamedTuple):
    """All filters, applied to all nodes at once."""

    filtering: Filtering
    known: Verdicts
    """The filters' verdicts without a hypothesis."""
    promising: Bools
    """(N,): the nodes that matter."""

    def find_rejected(self, delta: Delta, rows: Rows) -> Bools:
        """Return which of the rows are rejected under a hypothesis, (M,). Raises PluginError."""
        return ~self.filtering.judge(delta, self.known, self.promising).passing[rows]


class Victims:
    """The V evictable pods, sorted by node; on each node those that violate a PDB first, then by importance.

    Per victim: `pod` is its position, `node` its row and `rank` the step in which it is put back. `removed` tells
    whether it is gone now, and `time` when it last came or went. `holds_port` marks pods with a host port that the
    incoming pod wants. `uncounted` marks victims that no filter wants to go; upstream forgets to count their PDB
    violations.
    """

    def __init__(self, view: Fork, pod: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.pod, self.violating, self.holds_port = view, pod, violating, holds_port
        self.node = view.node[pod]
        self.removed = np.ones(len(pod), np.bool_)
        self.uncounted = np.zeros(len(pod), np.bool_)

    @classmethod
    def from_pods(cls, cycle: Cycle, pod: Positions, violating: Bools) -> Victims:
        """Build the victims of a cycle from pods in the order of `put_back_order`."""
        return cls(cycle.view, pod, violating, _find_port_holders(cycle)[cycle.view.pods.info[pod]])

    @cached_property
    def rank(self) -> Positions:
        """(V,): the step in which each victim is put back."""
        return rank_within_runs(self.node)

    @cached_property
    def time(self) -> Positions:
        """(V,): when each victim last came or went."""
        return np.arange(len(self.pod))

    def restrict_to(self, nodes: Bools) -> Victims:
        """Return the victims on these nodes (N,), all of them removed."""
        here = nodes[self.node]
        return Victims(self.view, self.pod[here], self.violating[here], self.holds_port[here])

    def put_back(self, judge: Judge, selection: Selection) -> dict[int, str]:
        """Put back all victims that do not have to go; return row -> error. Raises PluginError.

        `selection` may want further victims to go.
        """
        failed: dict[int, str] = {}
        for step in range(int(self.rank.max(initial=-1)) + 1):
            back = np.flatnonzero(self.rank == step)
            self._restore(back)
            rows: Rows = self.node[back].astype(np.int64)
            self._remove(back[judge.find_rejected(self.build_delta(), rows)])
            exceeded = selection.find_exceeded(self.pod, self.removed)
            if exceeded is None:
                continue
            over = back[exceeded[rows]]
            for already_gone in over[self.removed[over]].tolist():
                failed.setdefault(int(self.node[already_gone]), self._format_gone_twice(already_gone))
            self._remove(over)
            self.uncounted[over] = True
        return failed

    def build_delta(self) -> Delta:
        """Build the hypothesis: the removed pods, and the changes of host ports in the order in which they happened."""
        gone = np.flatnonzero(self.removed & ~self.holds_port)
        ports = np.flatnonzero(self.holds_port)
        ports = ports[np.argsort(self.time[ports])]
        back = ports[~self.removed[ports]]
        which = np.concatenate((gone, back, ports))
        sign = np.full(len(which), -1, np.int64)
        sign[len(gone) + len(back) :][~self.removed[ports]] = 1
        return Delta.from_changes(self.node[which], self.view.pods.info[self.pod[which]], sign)

    def build_candidates(self, rows: Positions, by_importance: bool) -> Candidates:
        """Build the candidates from the remaining victims on each of the nodes.

        `sort_by_importance`: sort them by importance, whatever PDBs they violate.
        """
        return self._build_candidates(
            rows, self._order_by_importance() if by_importance and self.violating.any() else None
        )

    def _order_by_importance(self) -> Positions:
        """Return the order of the remaining victims by importance, (V,)."""
        nodes = len(self.view.nodes)
        violating = np.bincount(self.node, self.violating, nodes)
        mixed = (violating > 0) & (violating < np.bincount(self.node, minlength=nodes))
        order = np.arange(len(self.pod))
        anew = np.flatnonzero(self.removed & mixed[self.node])
        order[anew] = anew[sort_by_importance(self.view, self.pod[anew], np.arange(len(anew)))]
        return order

    def _build_candidates(self, rows: Positions, order: Positions | None) -> Candidates:
        """Build the candidates on the rows, with victims in the given order."""
        chosen = np.zeros(len(self.view.nodes), np.bool_)
        chosen[rows] = True
        remaining = self.removed & chosen[self.node]
        order = np.flatnonzero(remaining) if order is None else order[remaining]
        sizes = np.bincount(self.node[order], minlength=len(chosen))[rows]
        starts = np.append(0, np.cumsum(sizes))
        candidates = Candidates(rows, starts, self.pod[order], self.violating[order])
        return (
            candidates.with_counted_violations(self.violating[order] & ~self.uncounted[order])
            if self.uncounted.any()
            else candidates
        )

    def _restore(self, victims: Positions) -> None:
        """Put victims back."""
        self.removed[victims] = False
        self._stamp(victims)

    def _remove(self, victims: Positions) -> None:
        """Remove victims."""
        self.removed[victims] = True
        self._stamp(victims)

    def _stamp(self, victims: Positions) -> None:
        """Set the time of the latest change of victims."""
        self.time[victims] = self.time.max() + 1 + np.arange(len(victims))

    def _format_gone_twice(self, victim: int) -> str:
        """Return upstream's error for evicting a pod that is gone already."""
        pod = self.view.pods.objects[self.pod[victim]]
        return GONE_TWICE.format(pod.metadata.name, self.view.nodes.names[self.node[victim]])


def put_back_order(view: Fork, pods: Positions, violating: Bools) -> Positions:
    """Return the order for pods sorted by node and importance in which PDB violations come first on each node."""
    return np.lexsort((~violating, view.node[pods])) if violating.any() else np.arange(len(pods))


def _find_port_holders(cycle: Cycle) -> Bools:
    """Return the distinct pods with a host port that the cycle's pod wants, (T,)."""
    wanted = cycle.info.host_ports
    if not wanted:
        return np.zeros(len(cycle.view.pods.infos), np.bool_)
    return cycle.view.pods.where(lambda info: any(p.conflicts(mine) for p in info.host_ports for mine in wanted))
