"""The scheduler run forward: where it would put one pod after the other on a fork of the snapshot.

The answer is that of a full cycle (scheduler/cycle.py) at every step; what pods have in common that are alike is kept
(scheduler/simulation/alike_pods.py).
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row, Rows, Scores
from kschedctl.scheduler.engine import unsure_nominations
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.extenders.extender import any_interested
from kschedctl.scheduler.engine.kept_victims import VictimCache
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import PluginError, PreFilterResult
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, IncomingPods, Tied
from kschedctl.scheduler.simulation.alike_pods import AlikePods
from kschedctl.scheduler.simulation.local_scores import NO_ROWS, LocalScores
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.pod_info import PodInfo

ALIKE_KEPT = 1024
"""Of so many kinds of pods it is kept what is known, in each simulation."""
KINDS_KEPT = 32 * ALIKE_KEPT
"""The same where nodes are closed in turn: every kind comes again and again, and nothing large is kept of one."""
MADE_UP = "the best node is one that an extender made up: kube-scheduler binds the pod to a node that is not there"


class Placements(IncomingPods):
    """Places pods of a fork, ties broken by a seeded choice; with ``sampling`` on the nodes that upstream looks at.

    Extenders are asked about each pod by itself; ``unheard``: what the placements lean on that they did not answer.
    """

    def __init__(self, view: Fork, seed: int = 0, sampling: Sampling | None = None) -> None:
        super().__init__(view)
        self.sampling = sampling
        self.random = random.Random(seed)
        self._alike: dict[tuple[FrameworkLike, int | None], AlikePods] = {}
        self._locals: dict[tuple[FrameworkLike, int, bool], LocalScores] = {}
        self._columns: dict[bytes, Scores] = {}
        self._uses_claims: dict[int | None, bool] = {}
        self._asked: tuple[int, int, Cycle] | None = None
        self._kept_victims = VictimCache()
        self.unheard: dict[Unknown, None] = {}
        self._nominated = frozenset(view.snapshot.pods.nominations)
        self._unsure = len(view.unsure_nominations[0]) > 0

    def choose(self, framework: FrameworkLike, position: Position) -> Choice | None:
        """Where the scheduler would put a pod now; None when it fits nowhere. Raises PluginError."""
        choice = self._choose(framework, position)
        if choice and self._unsure and not any_interested(framework.extenders, choice.info.pod):
            unknowns = unsure_nominations.find_choice_doubts(choice.info, choice.row, framework, self.view)
            self.unheard.update(dict.fromkeys(unknowns))
        return choice

    def _choose(self, framework: FrameworkLike, position: Position) -> Choice | None:
        number, info = int(self.view.pods.info[position]), self.arriving(position)
        row = self.view.nominated_row(position)
        if any_interested(framework.extenders, info.pod) or (row == NO_ROW and position in self._nominated):
            return self._full_cycle(framework, position)
        try:
            alike = self._alike_pods(framework, info, number)
            if row != NO_ROW:
                still = alike.fits_for_certain(row, self.view.nominated_besides(position, info.priority))
                return Choice(info, row, np.array([row]), 1, {}) if still else self._full_cycle(framework, position)
            nominated = self.view.nominated_from(info.priority) if len(self.view.nominations[0]) else NO_CHANGE
            tied, feasible = alike.rank(info, self.sampling, nominated)
            return self._pick(info, tied, feasible, alike.claim_pre_filter_results)
        except PluginError:  # on a node that another plugin refuses it would not count
            return self._full_cycle(framework, position)

    def fitting(self, framework: FrameworkLike, position: Position) -> Bools | None:
        """(N,): where a pod fits now, if what is on a node decides of that node alone; else None."""
        try:
            return self._alike_pods(
                framework, self.arriving(position), int(self.view.pods.info[position])
            ).find_feasible_mask()
        except PluginError:
            return None

    def roomy(self, framework: FrameworkLike, position: Position) -> Bools:
        """(N,): where nothing refuses a pod that reads no more than the node's own row. Raises PluginError."""
        local = self._local(framework, self.arriving(position), int(self.view.pods.info[position]))
        local.update(NO_ROWS)
        return np.asarray(local.scores >= 0)

    def totals(self, framework: FrameworkLike, position: Position) -> tuple[Rows, Scores] | None:
        """Where a pod fits now and what it scores there, less what all nodes score; None where others decide, too.

        Those are extenders, and nodes that it is nominated for. Raises PluginError.
        """
        number, info = int(self.view.pods.info[position]), self.arriving(position)
        nominated = position in self._nominated or self.view.nominated_row(position) != NO_ROW
        if nominated or any_interested(framework.extenders, info.pod):
            return None
        return self._alike_pods(framework, info, number).score_feasible_rows(info)

    def likeness(self, framework: FrameworkLike, position: Position) -> Hashable:
        """Equal for pods of which the same is said as things are, the names of pods and claims aside."""
        if position in self._nominated or self.view.nominated_row(position) != NO_ROW:
            return (position,)
        number, info = int(self.view.pods.info[position]), self.arriving(position)
        if any_interested(framework.extenders, info.pod):
            return (position,)
        if not self._claiming(info):
            return number
        try:
            claims = self._alike_pods(framework, info, number).claims
            like = claims and claims.likeness(info)
        except PluginError:
            return number
        return number if like is None else (info.alike, like)

    def looks_at_others(self, framework: FrameworkLike, position: Position) -> bool:
        """Whether some plugin refuses such a pod a node for what is on others."""
        number, info = int(self.view.pods.info[position]), self.arriving(position)
        try:
            alike = self._alike_pods(framework, info, number)
        except PluginError:
            return True
        return not alike.hopeless and bool(alike.changing_filters)

    def cycle(self, framework: FrameworkLike, position: Position, sampling: Sampling | None = None) -> Cycle:
        """The full cycle of a pod as things are now, for its reasons and for what preemption could do.

        What extenders were asked in it is not asked again while nothing moves.
        """
        if self._asked and self._asked[:2] == (position, len(self.view.trail)):
            return self._asked[2]
        info = self.arriving(position)
        if self._nominated or len(self.view.nominations[0]):
            info = info.for_pod(self.waiting(position))
        closed = self.view.closed
        if closed and closed.cordoned:
            return run_cycle(framework, info, self.view.with_changes(self.view.cluster, closed.cordoned), sampling)
        return replace(run_cycle(framework, info, self.view, sampling), victim_cache=self._kept_victims)

    def _alike_pods(self, framework: FrameworkLike, info: PodInfo, number: int) -> AlikePods:
        """What is kept for pods that are like this one but for which claims they have."""
        key = framework, info.alike
        alike = self._alike.get(key)
        if alike is None or alike.local.is_outdated:
            drop_oldest_if_full(self._alike, ALIKE_KEPT if self.view.closed is None else KINDS_KEPT)
            local = self._local(framework, info, number)
            alike = self._alike[key] = AlikePods(framework, info, local, self._claiming(info), self._shared)
        return alike

    def _shared(self, column: Scores) -> Scores:
        """The first of equal columns (N,) instead of each: most kinds of pods may go to the same nodes."""
        return self._columns.setdefault(column.tobytes(), column)

    def _claiming(self, info: PodInfo) -> bool:
        claiming = self._uses_claims.get(info.alike)
        if claiming is None:
            claiming = self._uses_claims[info.alike] = uses_claims(info, self.view)
        return claiming

    def _local(self, framework: FrameworkLike, info: PodInfo, number: int) -> LocalScores:
        requests = int(self.view.pods.distinct.demand[number])
        key = (framework, requests, self.find_incoming(number) is self.view.pods.infos[number])
        local = self._locals.get(key)
        if local is None or local.is_outdated:
            drop_oldest_if_full(self._locals, ALIKE_KEPT)
            local = self._locals[key] = LocalScores(framework, info, number, self.view)
        return local

    def _full_cycle(self, framework: FrameworkLike, position: Position) -> Choice | None:
        cycle = self._own_cycle(framework, position)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        info = self.arriving(position)
        return self._pick(info, cycle.scores.best, len(cycle.passed.rows), cycle.pre_filter.results)

    def _own_cycle(self, framework: FrameworkLike, position: Position) -> Cycle:
        """The cycle in which a pod is placed, kept where extenders were asked."""
        cycle = self.cycle(framework, position, self.sampling)
        if cycle.consultation.extenders:
            self._asked = position, len(self.view.trail), cycle
            self.unheard.update(cycle.consultation.unknown)
        return cycle

    def _pick(self, info: PodInfo, best: Tied, feasible: int, before: Mapping[str, PreFilterResult]) -> Choice | None:
        if not feasible:
            return None
        row = int(best[self.random.randrange(len(best))] if len(best) > 1 else best[0])
        if row == NO_ROW:
            raise PluginError(MADE_UP)
        return Choice(info, Row(row), best, feasible, before)
