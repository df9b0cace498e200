"""The dry run of preemption on all nodes at once: which pods would have to go, node by node, and which node is best.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption (v1.36). Upstream
clones a node, removes its lower-priority pods and puts them back one by one; here step k puts back the k-th victim
of every node, and one vectorised pass over the plugins judges them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.columns import NO_TIME
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.cycle import Cycle, Filtering, FilterOutcome
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.preemption.budgets import budgets
from kschedctl.scheduler.preemption.candidates import Candidates, Positions, turn
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork


@dataclass(frozen=True)
class DryRun:
    """What the dry run found: candidates in node order, and why the other rows that were tried do not help.

    ``empty`` (N,): no pod there has a lower priority. ``hopeless`` (N,): refused even without those pods, as
    ``without`` says.
    """

    candidates: Candidates
    empty: Bools
    hopeless: Bools
    without: FilterOutcome

    def reason_counts(self, kept: bool = True) -> Counter[str]:
        """How many nodes preemption does not help, by reason; the nodes that were not tried share one.

        ``kept``: candidates count as helped. Where none is wanted they are like nodes that were not tried.
        """
        counts = self.without.reason_counts(self.hopeless)
        counts[NO_VICTIMS] += int(self.empty.sum())
        counts[NOT_HELPFUL] += int((~self.empty & ~self.hopeless).sum()) - len(self.candidates) * kept
        return +counts

    def errors(self, names: Sequence[str]) -> tuple[str, ...]:
        """What went wrong on nodes, named by ``names``, each text once, in node order."""
        found: list[tuple[int, str]] = []
        for plugin, verdict, mine in self.without.reported():
            for rejection in verdict.rejections if verdict.failed.any() else ():
                if rejection.code is Code.ERROR:
                    text = f'running "{plugin}" filter plugin: {rejection.reason}'
                    found += ((row, text) for row in np.flatnonzero(rejection.mask & mine & self.hopeless).tolist())
        nobody = self.candidates.row[self.candidates.sizes == 0].tolist()
        found += ((row, f'expected at least one victim pod on node "{names[row]}"') for row in nobody)
        return tuple(dict.fromkeys(text for _, text in sorted(found)))


SORTED_AGAIN = ByVersion(
    "whether victims are sorted again by importance, not those first that break a budget",
    (("", False), ("1.30.7 1.31.3", True)),
    "#128307, brought back by #128431 and #128434",
)
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def dry_run(cycle: Cycle, potential: Bools) -> DryRun:
    """Try to make room on each of the nodes (N,). Raises PluginError."""
    victims = _Victims.of(cycle, potential)
    occupied = np.zeros(len(potential), np.bool_)
    occupied[victims.node] = True
    filtering = Filtering.of(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
    without = filtering.judge(victims.delta(), cycle.filter.verdicts, potential & occupied)
    promising = potential & occupied & without.passing
    victims = victims.on(promising)
    for step in range(int(victims.rank.max(initial=-1)) + 1):
        back = np.flatnonzero(victims.rank == step)
        victims.put_back(back)
        refused = ~filtering.judge(victims.delta(), cycle.filter.verdicts, promising).passing
        victims.remove(back[refused[victims.node[back]]])
    rows, again = np.flatnonzero(promising), SORTED_AGAIN.at(cycle.framework.release)
    found = victims.sorted_again(rows) if again else victims.candidates(rows, np.arange(len(victims.pod)))
    return DryRun(found, potential & ~occupied, potential & occupied & ~without.passing, without)


class _Victims:
    """The V pods that could be evicted. Per victim: ``pod`` position, ``node`` row, ``rank`` in which it is put back.

    Sorted by node. ``removed`` and ``time`` are the state of the dry run: who is gone now, and when each last came or
    went. ``holds_port``: a host port that the incoming pod wants.
    """

    def __init__(self, view: Fork, pod: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.pod, self.violating, self.holds_port = view, pod, violating, holds_port
        self.node = view.node[pod]
        self.info = view.pods.info[pod]
        self.rank = turn(self.node)
        self.removed = np.ones(len(pod), np.bool_)
        self.time = np.arange(len(pod))

    @classmethod
    def of(cls, cycle: Cycle, nodes: Bools) -> _Victims:
        """The pods of lower priority on the nodes: those that violate a PDB before others, each group by importance."""
        view = cycle.view
        pods = view.pods
        lower = pods.priority[pods.info] < cycle.info.priority
        pod = np.flatnonzero(lower & (view.node >= 0) & nodes[view.node])
        pod = pod[_importance(view, pod, view.arrivals.place[pod])]
        violating = budgets(view).violations(pod)
        order = np.lexsort((~violating, view.node[pod]))
        pod, violating = pod[order], violating[order]
        return cls(view, pod, violating, _holders(cycle)[pods.info[pod]])

    def on(self, nodes: Bools) -> _Victims:
        """Those on the nodes (N,) alone, all of them gone."""
        here = nodes[self.node]
        return _Victims(self.view, self.pod[here], self.violating[here], self.holds_port[here])

    def put_back(self, which: Positions) -> None:
        self.removed[which] = False
        self._touch(which)

    def remove(self, which: Positions) -> None:
        self.removed[which] = True
        self._touch(which)

    def delta(self) -> Delta:
        """The pods that are gone, and in the order in which it happened all that became of the ports."""
        gone = np.flatnonzero(self.removed & ~self.holds_port)
        ports = np.flatnonzero(self.holds_port)
        ports = ports[np.argsort(self.time[ports])]
        back = ports[~self.removed[ports]]
        which = np.concatenate((gone, back, ports))
        sign = np.full(len(which), -1, np.int64)
        sign[len(gone) + len(back) :][~self.removed[ports]] = 1
        return Delta.of(self.node[which], self.info[which], sign)

    def sorted_again(self, rows: Positions) -> Candidates:
        """What is left to evict on each of the nodes, the most important first."""
        nodes = len(self.view.nodes)
        violating = np.bincount(self.node, self.violating, nodes)
        mixed = (violating > 0) & (violating < np.bincount(self.node, minlength=nodes))
        order = np.arange(len(self.pod))
        anew = np.flatnonzero(self.removed & mixed[self.node])
        order[anew] = anew[_importance(self.view, self.pod[anew], np.arange(len(anew)))]
        return self.candidates(rows, order)

    def candidates(self, rows: Positions, order: Positions) -> Candidates:
        """What is left to evict on each of the nodes, in an order (V,) that goes from node to node."""
        order = order[self.removed]
        starts = np.searchsorted(self.node[order], np.append(rows, len(self.view.nodes)))
        return Candidates(rows, starts, self.pod[order], self.violating[order])

    def _touch(self, which: Positions) -> None:
        self.time[which] = self.time.max() + 1 + np.arange(len(which))


def _holders(cycle: Cycle) -> Bools:
    """(T,): the pods that hold a host port which the cycle's pod wants."""
    wanted = cycle.info.host_ports
    if not wanted:
        return np.zeros(len(cycle.view.pods.infos), np.bool_)
    return cycle.view.pods.where(lambda info: any(p.conflicts(mine) for p in info.host_ports for mine in wanted))


def _importance(view: Fork, pods: Positions, came: Positions) -> Positions:
    """The order within each node: higher priority first, then the longer running; those not started yet come last.

    Upstream takes the present for the start of a pod without one, anew at each comparison, so that such pods end up
    in reverse order, unless time stands still. Who came since the snapshot has started by now: of these, and of all
    that are equal, those go first that ``came`` (V,) last.
    """
    if not len(pods):
        return came
    start = view.pods.start[pods]
    never_started = (start == NO_TIME) & ~view.arrivals.came[pods]
    late = np.where(never_started & view.time_passes, -came, came)
    return np.lexsort((late, start, -view.pods.priority[view.pods.info[pods]], view.node[pods]))
