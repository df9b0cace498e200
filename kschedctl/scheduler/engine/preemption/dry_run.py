"""The dry run of preemption on all nodes at once: which pods would have to go, node by node, and which node is best.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption (v1.36). Upstream
clones a node, removes its lower-priority pods and puts them back one by one; here step k puts back the k-th victim
of every node, and one vectorised pass over the plugins judges them all. Where all plugins look at nodes one by one, a
simulation does that only on nodes that changed since the latest dry run for a pod that requests the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, FilterOutcome
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.candidates import Candidates
from kschedctl.scheduler.engine.preemption.nodes_alone import nodes_alone, tried_alone
from kschedctl.scheduler.engine.preemption.selection import NO_VICTIMS, DecidedByFilters, Selection
from kschedctl.scheduler.engine.preemption.victims import Judge, Victims, put_back_order
from kschedctl.scheduler.framework import Code

NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class DryRun:
    """What the dry run found: candidates in node order, and why the other rows that were tried do not help.

    ``empty`` (N,): no pod may go there. ``hopeless`` (N,): refused even without those that may, as ``without`` says,
    which is asked for by ``judge`` before anything moves. ``refused``: how many nodes the selection refuses even then,
    by its reason. ``failed``: row -> what went wrong while pods were put back.
    """

    candidates: Candidates
    empty: Bools
    refused: Mapping[str, int]
    hopeless: Bools
    judge: Callable[[], FilterOutcome]
    failed: Mapping[int, str]

    @cached_property
    def without(self) -> FilterOutcome:
        return self.judge()

    def reason_counts(self, kept: bool = True) -> Counter[str]:
        """How many nodes preemption does not help, by reason; the nodes that were not tried share one.

        ``kept``: candidates count as helped. Where none is wanted they are like nodes that were not tried.
        """
        counts = Counter(self.refused) + Counter(self.failed.values())
        if self.hopeless.any():
            counts += self.without.reason_counts(self.hopeless)
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
        for plugin, verdict, mine in self.without.iter_reported() if self.hopeless.any() else ():
            for rejection in verdict.rejections if verdict.failed.any() else ():
                if rejection.code is Code.ERROR:
                    text = f'running "{plugin}" filter plugin: {rejection.reason}'
                    by_row += ((row, text) for row in np.flatnonzero(rejection.mask & mine & self.hopeless).tolist())
        nobody = self.candidates.row[self.candidates.sizes == 0].tolist()
        by_row += ((row, f'expected at least one victim pod on node "{names[row]}"') for row in nobody)
        return tuple(dict.fromkeys(text for _, text in sorted(by_row)))


def dry_run(cycle: Cycle, potential: Bools, selection: Selection) -> DryRun:
    """Try to make room on each of the nodes (N,). Raises PluginError."""
    filtering = Filtering.from_framework(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
    if nodes_alone(selection, filtering):
        return _each_alone(cycle, filtering, potential, selection)
    pods = selection.potential(potential)
    violating = budgets(cycle.view).violations(pods)
    order = put_back_order(cycle.view, pods, violating)
    victims = Victims.of(cycle, pods[order], violating[order])
    occupied = np.zeros(len(potential), np.bool_)
    occupied[victims.node] = True
    without = filtering.judge(victims.delta(), cycle.filter.verdicts, potential & occupied)
    promising = potential & occupied & without.passing
    exceeded: dict[str, int] = {}
    if refusal := selection.refused(victims.pod):
        reason, refused = refusal
        exceeded[reason] = int((promising & refused).sum())
        promising = promising & ~refused
    victims = victims.on(promising)
    failed = victims.put_back(Judge(filtering, cycle.filter.verdicts, promising), selection)
    rows = np.flatnonzero(promising)
    rows = rows[~np.isin(rows, list(failed))] if failed else rows
    candidates = victims.candidates(rows, selection.sorted_again(cycle.framework.release))
    hopeless = potential & occupied & ~without.passing
    return DryRun(candidates, potential & ~occupied, exceeded, hopeless, lambda: without, failed)


def _each_alone(cycle: Cycle, filtering: Filtering, potential: Bools, selection: DecidedByFilters) -> DryRun:
    """The same where nodes are judged by their own pods alone: most are what they were. Raises PluginError."""
    view = cycle.view
    state = tried_alone(cycle, filtering, potential, selection)
    occupied = np.zeros(len(potential), np.bool_)
    occupied[state.node] = True
    known = potential & state.tried
    promising = known & occupied & state.fits & ~filtering.rejected_regardless_of_pods(cycle.filter.verdicts)
    kept = state.restrict_to(promising)
    order = put_back_order(view, kept.pods, kept.violating)
    victims = Victims.of(cycle, kept.pods[order], kept.violating[order])
    victims.removed = kept.must_go[order]
    candidates = victims.candidates(np.flatnonzero(promising), selection.sorted_again(cycle.framework.release))

    def judge() -> FilterOutcome:
        everybody = Victims.of(cycle, state.pods, state.violating).on(potential)
        return filtering.judge(everybody.delta(), cycle.filter.verdicts, potential & occupied)

    return DryRun(candidates, known & ~occupied, {}, known & occupied & ~promising, judge, {})
