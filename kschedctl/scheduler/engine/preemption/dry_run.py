"""The dry run of preemption on all nodes at once: which pods would have to go, node by node, and which node is best.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption (v1.36). Upstream
clones a node, removes its lower-priority pods and puts them back one by one; here step k puts back the k-th victim
of every node, and one vectorised pass over the plugins judges them all. In a simulation that is done only for nodes
that changed since the latest dry run for a pod alike, where all plugins look at nodes one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, FilterOutcome, Verdicts
from kschedctl.scheduler.engine.kept_victims import DryRunState
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidates, Positions, turn
from kschedctl.scheduler.engine.preemption.selection import NO_VICTIMS, Selection, by_importance
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import Code, Reads
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import OwnRows

NOT_HELPFUL = "Preemption is not helpful for scheduling"
GONE_TWICE = "no corresponding pod {} in pods of node {}"
"""What comes of evicting a pod once more, for another reason than before."""


@dataclass(frozen=True)
class DryRun:
    """What the dry run found: candidates in node order, and why the other rows that were tried do not help.

    ``empty`` (N,): no pod may go there. ``hopeless`` (N,): refused even without those that may, as ``without`` says;
    ``refused``: how many nodes the selection refuses even then, by its reason. ``failed``: row -> what went wrong while
    pods were put back.
    """

    candidates: Candidates
    empty: Bools
    refused: Mapping[str, int]
    hopeless: Bools
    without: FilterOutcome
    failed: Mapping[int, str]

    def reason_counts(self, kept: bool = True) -> Counter[str]:
        """How many nodes preemption does not help, by reason; the nodes that were not tried share one.

        ``kept``: candidates count as helped. Where none is wanted they are like nodes that were not tried.
        """
        counts = self.without.reason_counts(self.hopeless) + Counter(self.refused) + Counter(self.failed.values())
        counts[NO_VICTIMS] += int(self.empty.sum())
        left = int((~self.empty & ~self.hopeless).sum()) - sum(self.refused.values()) - len(self.failed)
        counts[NOT_HELPFUL] += left - len(self.candidates) * kept
        return +counts

    def told_counts(self, selection: Selection, kept: bool) -> Counter[str]:
        """How many nodes each reason stands against, in the very words of upstream's message."""
        counts = self.reason_counts(kept)
        del counts[NO_VICTIMS]
        return counts + Counter(dict(selection.nobody(np.flatnonzero(self.empty))))

    def errors(self, names: Sequence[str]) -> tuple[str, ...]:
        """What went wrong on nodes, named by ``names``, each text once, in node order."""
        by_row: list[tuple[int, str]] = list(self.failed.items())
        for plugin, verdict, mine in self.without.reported():
            for rejection in verdict.rejections if verdict.failed.any() else ():
                if rejection.code is Code.ERROR:
                    text = f'running "{plugin}" filter plugin: {rejection.reason}'
                    by_row += ((row, text) for row in np.flatnonzero(rejection.mask & mine & self.hopeless).tolist())
        nobody = self.candidates.row[self.candidates.sizes == 0].tolist()
        by_row += ((row, f'expected at least one victim pod on node "{names[row]}"') for row in nobody)
        return tuple(dict.fromkeys(text for _, text in sorted(by_row)))


def dry_run(cycle: Cycle, potential: Bools, selection: Selection) -> DryRun:
    """Try to make room on each of the nodes (N,). Raises PluginError."""
    victims = _Victims.of(cycle, selection.potential(potential))
    occupied = np.zeros(len(potential), np.bool_)
    occupied[victims.node] = True
    filtering = Filtering.of(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
    without = filtering.judge(victims.delta(), cycle.filter.verdicts, potential & occupied)
    promising = potential & occupied & without.passing
    exceeded: dict[str, int] = {}
    if refusal := selection.refused(victims.pod):
        reason, refused = refusal
        exceeded[reason] = int((promising & refused).sum())
        promising = promising & ~refused
    victims = victims.on(promising)
    if nodes_alone(filtering, selection):
        failed: dict[int, str] = {}
        _put_back_where_changed(victims, filtering, cycle, promising)
    else:
        failed = _put_back(victims, JudgedOnAll(filtering, cycle.filter.verdicts, promising), selection)
    rows, again = np.flatnonzero(promising), selection.sorted_again(cycle.framework.release)
    rows = rows[~np.isin(rows, list(failed))] if failed else rows
    candidates = victims.sorted_again(rows) if again else victims.candidates(rows, np.arange(len(victims.pod)))
    return DryRun(candidates, potential & ~occupied, exceeded, potential & occupied & ~without.passing, without, failed)


def nodes_alone(filtering: Filtering, selection: Selection) -> bool:
    """Whether what is said of a node with fewer pods depends on its own pods alone."""
    if not selection.filters_decide or has_backed_resources(filtering.info, filtering.view):
        return False
    return all(filtering.reads(plugin) is not Reads.PODS for plugin in filtering.plugins)


def _put_back_where_changed(victims: _Victims, filtering: Filtering, cycle: Cycle, promising: Bools) -> None:
    """Evict no more than has to go, on nodes on which that is not known. Raises PluginError."""
    view, kept, number = cycle.view, cycle.kept_victims, cycle.info.number
    nominated = view.nominated_against(cycle.info)
    if kept is None or number is None:
        _put_back(victims, JudgedAlone(filtering, nominated), None)
        return
    alike = cycle.framework.profile.scheduler_name, number
    same = np.zeros_like(promising)
    if known := kept.latest(alike):
        same = known.holds(view, promising, nominated, victims.pod, victims.violating)
        victims.removed = known.had_to_go(view, victims.pod)
    changed = victims.on(promising & ~same)
    _put_back(changed, JudgedAlone(filtering, nominated), None)
    victims.removed[~same[victims.node]] = changed.removed
    violating, gone = victims.pod[victims.violating], victims.pod[victims.removed]
    kept.keep(alike, DryRunState(len(view.trail), promising, nominated, violating, gone))


class RefusingNodes(Protocol):
    """How the nodes with fewer pods are judged."""

    def refused(self, delta: Delta, rows: Rows) -> Bools:
        """(M,): which of the rows are refused under a hypothesis. Raises PluginError."""


class JudgedOnAll(NamedTuple):
    """By all plugins, on all nodes at once. ``known`` are the verdicts without a hypothesis."""

    filtering: Filtering
    known: Verdicts
    promising: Bools

    def refused(self, delta: Delta, rows: Rows) -> Bools:
        return ~self.filtering.judge(delta, self.known, self.promising).passing[rows]


class JudgedAlone(NamedTuple):
    """By the plugins that look at what is on a node, on few nodes; the others do not refuse these."""

    filtering: Filtering
    nominated: Delta

    def refused(self, delta: Delta, rows: Rows) -> Bools:
        here, hypothesis = OwnRows(self.filtering.view, rows), delta.on(rows)
        refused = self.filtering.refused_alone(here, hypothesis)
        if promised := self.nominated.on(rows):
            refused |= self.filtering.refused_alone(here, hypothesis.then(promised))
        return refused


def _put_back(victims: _Victims, judged: RefusingNodes, selection: Selection | None) -> dict[int, str]:
    """Evict no more than has to go; row -> what went wrong there. Raises PluginError.

    ``selection``: whom else it wants to go, None for nobody.
    """
    failed: dict[int, str] = {}
    for step in range(int(victims.rank.max(initial=-1)) + 1):
        back = np.flatnonzero(victims.rank == step)
        victims.put_back(back)
        rows: Rows = victims.node[back].astype(np.int64)
        victims.remove(back[judged.refused(victims.delta(), rows)])
        exceeded = selection.exceeded(victims.pod, victims.removed) if selection else None
        if exceeded is None:
            continue
        over = back[exceeded[rows]]
        for twice in over[victims.removed[over]].tolist():
            failed.setdefault(int(victims.node[twice]), victims.gone_twice(twice))
        victims.remove(over)
        victims.uncounted[over] = True
    return failed


class _Victims:
    """The V pods that could be evicted. Per victim: ``pod`` position, ``node`` row, ``rank`` in which it is put back.

    Sorted by node. ``removed`` and ``time`` are the state of the dry run: who is gone now, and when each last came or
    went. ``holds_port``: a host port that the incoming pod wants. ``uncounted``: no plugin wants it to go, and upstream
    forgets to count it among those that break a budget.
    """

    def __init__(self, view: Fork, pod: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.pod, self.violating, self.holds_port = view, pod, violating, holds_port
        self.node = view.node[pod]
        self.info = view.pods.info[pod]
        self.rank = turn(self.node)
        self.removed = np.ones(len(pod), np.bool_)
        self.uncounted = np.zeros(len(pod), np.bool_)
        self.time = np.arange(len(pod))

    @classmethod
    def of(cls, cycle: Cycle, pod: Positions) -> _Victims:
        """Victims from pods sorted by node and importance: first those that violate a PDB, each group by importance."""
        view = cycle.view
        violating = budgets(view).violations(pod)
        order = np.lexsort((~violating, view.node[pod]))
        pod, violating = pod[order], violating[order]
        return cls(view, pod, violating, _holders(cycle)[view.pods.info[pod]])

    def on(self, nodes: Bools) -> _Victims:
        """The victims on the nodes (N,) alone, all of them gone."""
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
        if not self.violating.any():
            return self.candidates(rows, np.arange(len(self.pod)))
        nodes = len(self.view.nodes)
        violating = np.bincount(self.node, self.violating, nodes)
        mixed = (violating > 0) & (violating < np.bincount(self.node, minlength=nodes))
        order = np.arange(len(self.pod))
        anew = np.flatnonzero(self.removed & mixed[self.node])
        order[anew] = anew[by_importance(self.view, self.pod[anew], np.arange(len(anew)))]
        return self.candidates(rows, order)

    def candidates(self, rows: Positions, order: Positions) -> Candidates:
        """What is left to evict on each of the nodes, in an order (V,) that goes from node to node."""
        chosen = np.zeros(len(self.view.nodes), np.bool_)
        chosen[rows] = True
        order = order[self.removed & chosen[self.node]]
        sizes = np.bincount(self.node[order], minlength=len(chosen))[rows]
        starts = np.append(0, np.cumsum(sizes))
        candidates = Candidates(rows, starts, self.pod[order], self.violating[order])
        return (
            candidates.counted(self.violating[order] & ~self.uncounted[order]) if self.uncounted.any() else candidates
        )

    def gone_twice(self, victim: int) -> str:
        """What upstream fails with when it evicts a pod that is gone already."""
        pod = self.view.pods.objects[self.pod[victim]]
        return GONE_TWICE.format(pod.metadata.name, self.view.nodes.names[self.node[victim]])

    def _touch(self, which: Positions) -> None:
        self.time[which] = self.time.max() + 1 + np.arange(len(which))


def _holders(cycle: Cycle) -> Bools:
    """(T,): the pods that hold a host port which the cycle's pod wants."""
    wanted = cycle.info.host_ports
    if not wanted:
        return np.zeros(len(cycle.view.pods.infos), np.bool_)
    return cycle.view.pods.where(lambda info: any(p.conflicts(mine) for p in info.host_ports for mine in wanted))
