"""The pods that a dry run takes from all nodes and puts back, one of each node at a time."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, Verdicts
from kschedctl.scheduler.engine.preemption.candidates import Candidates, Positions, turn
from kschedctl.scheduler.engine.preemption.selection import Selection, by_importance
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork

GONE_TWICE = "no corresponding pod {} in pods of node {}"
"""What comes of evicting a pod once more, for another reason than before."""


class Judge(NamedTuple):
    """All plugins, on all nodes at once. ``known`` are their verdicts without a hypothesis."""

    filtering: Filtering
    known: Verdicts
    promising: Bools

    def refused(self, delta: Delta, rows: Rows) -> Bools:
        """(M,): which of the rows are refused under a hypothesis. Raises PluginError."""
        return ~self.filtering.judge(delta, self.known, self.promising).passing[rows]


class Victims:
    """The V pods that could be evicted. Per victim: ``pod`` position, ``node`` row, ``rank`` in which it is put back.

    Sorted by node; there first those that break a budget, each group by importance. ``removed`` and ``time`` are the
    state of the dry run: who is gone now, and when each last came or went. ``holds_port``: a host port that the
    incoming pod wants. ``uncounted``: no plugin wants it to go, and upstream forgets to count it among those that break
    a budget.
    """

    def __init__(self, view: Fork, pod: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.pod, self.violating, self.holds_port = view, pod, violating, holds_port
        self.node = view.node[pod]
        self.removed = np.ones(len(pod), np.bool_)
        self.uncounted = np.zeros(len(pod), np.bool_)

    @classmethod
    def of(cls, cycle: Cycle, pod: Positions, violating: Bools) -> Victims:
        """Victims from pods sorted by node, some ``violating`` (V,) a budget, as ``put_back_order`` has them."""
        return cls(cycle.view, pod, violating, _holders(cycle)[cycle.view.pods.info[pod]])

    @cached_property
    def rank(self) -> Positions:
        return turn(self.node)

    @cached_property
    def time(self) -> Positions:
        return np.arange(len(self.pod))

    def on(self, nodes: Bools) -> Victims:
        """The victims on the nodes (N,) alone, all of them gone."""
        here = nodes[self.node]
        return Victims(self.view, self.pod[here], self.violating[here], self.holds_port[here])

    def put_back(self, judge: Judge, selection: Selection) -> dict[int, str]:
        """Evict no more than has to go; row -> what went wrong there. Raises PluginError.

        ``selection``: whom else it wants to go.
        """
        failed: dict[int, str] = {}
        for step in range(int(self.rank.max(initial=-1)) + 1):
            back = np.flatnonzero(self.rank == step)
            self._come_back(back)
            rows: Rows = self.node[back].astype(np.int64)
            self._remove(back[judge.refused(self.delta(), rows)])
            exceeded = selection.exceeded(self.pod, self.removed)
            if exceeded is None:
                continue
            over = back[exceeded[rows]]
            for twice in over[self.removed[over]].tolist():
                failed.setdefault(int(self.node[twice]), self._gone_twice(twice))
            self._remove(over)
            self.uncounted[over] = True
        return failed

    def delta(self) -> Delta:
        """The pods that are gone, and in the order in which it happened all that became of the ports."""
        gone = np.flatnonzero(self.removed & ~self.holds_port)
        ports = np.flatnonzero(self.holds_port)
        ports = ports[np.argsort(self.time[ports])]
        back = ports[~self.removed[ports]]
        which = np.concatenate((gone, back, ports))
        sign = np.full(len(which), -1, np.int64)
        sign[len(gone) + len(back) :][~self.removed[ports]] = 1
        return Delta.of(self.node[which], self.view.pods.info[self.pod[which]], sign)

    def candidates(self, rows: Positions, sorted_again: bool) -> Candidates:
        """What is left to evict on each of the nodes, ``sorted_again`` the most important first whatever it breaks."""
        return self._candidates(rows, self._by_importance() if sorted_again and self.violating.any() else None)

    def _by_importance(self) -> Positions:
        """(V,): the order in which those stand that are left to evict."""
        nodes = len(self.view.nodes)
        violating = np.bincount(self.node, self.violating, nodes)
        mixed = (violating > 0) & (violating < np.bincount(self.node, minlength=nodes))
        order = np.arange(len(self.pod))
        anew = np.flatnonzero(self.removed & mixed[self.node])
        order[anew] = anew[by_importance(self.view, self.pod[anew], np.arange(len(anew)))]
        return order

    def _candidates(self, rows: Positions, order: Positions | None) -> Candidates:
        chosen = np.zeros(len(self.view.nodes), np.bool_)
        chosen[rows] = True
        left = self.removed & chosen[self.node]
        order = np.flatnonzero(left) if order is None else order[left]
        sizes = np.bincount(self.node[order], minlength=len(chosen))[rows]
        starts = np.append(0, np.cumsum(sizes))
        candidates = Candidates(rows, starts, self.pod[order], self.violating[order])
        return (
            candidates.counted(self.violating[order] & ~self.uncounted[order]) if self.uncounted.any() else candidates
        )

    def _come_back(self, which: Positions) -> None:
        self.removed[which] = False
        self._touch(which)

    def _remove(self, which: Positions) -> None:
        self.removed[which] = True
        self._touch(which)

    def _touch(self, which: Positions) -> None:
        self.time[which] = self.time.max() + 1 + np.arange(len(which))

    def _gone_twice(self, victim: int) -> str:
        """What upstream fails with when it evicts a pod that is gone already."""
        pod = self.view.pods.objects[self.pod[victim]]
        return GONE_TWICE.format(pod.metadata.name, self.view.nodes.names[self.node[victim]])


def put_back_order(view: Fork, pods: Positions, violating: Bools) -> Positions:
    """For pods sorted by node and importance: on each node those first that break a budget."""
    return np.lexsort((~violating, view.node[pods])) if violating.any() else np.arange(len(pods))


def _holders(cycle: Cycle) -> Bools:
    """(T,): the pods that hold a host port which the cycle's pod wants."""
    wanted = cycle.info.host_ports
    if not wanted:
        return np.zeros(len(cycle.view.pods.infos), np.bool_)
    return cycle.view.pods.where(lambda info: any(p.conflicts(mine) for p in info.host_ports for mine in wanted))
