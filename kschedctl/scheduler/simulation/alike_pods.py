"""What is known about pods alike while others are placed: verdicts and scores, kept up to date along the trail.

Pods that are alike ask the same of every node. How long an answer holds follows from what the plugin reads: what no pod
changes is computed once; what depends on a node's own row is shared with other pods
(scheduler/simulation/local_scores.py); the rest is asked again for each pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.engine.cycle import Filtering
from kschedctl.scheduler.engine.pre_filter import PreFilterOutcome, run_pre_filter
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import Sampling, SearchTerms
from kschedctl.scheduler.framework import (
    FilterPlugin,
    Plugin,
    PreFilterResult,
    PreScoreResult,
    Reads,
    ScorePlugin,
    offers,
    reads_of,
)
from kschedctl.scheduler.simulation.claim_answers import (
    ClaimAnswers,
    now_refused,
    reads_claims,
    refusing,
    rows_named,
)
from kschedctl.scheduler.simulation.grouped_ranking import AskedPlugins, FixedScores, GroupedRanking, RowAnswers
from kschedctl.scheduler.simulation.local_scores import NOWHERE, REFUSED, LocalScores, Prepare, preparing, union
from kschedctl.scheduler.simulation.ranked_groups import TiedRows
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.pod_info import PodInfo

RANKED_WHOLE = 4
"""From so many pods on the nodes are put in groups."""


class AlikePods:
    """Pods like ``info`` in one profile, counted on their nodes as those of ``local``. Arrays are (N,).

    ``always``: what is added to the local scores for good, REFUSED where such a pod can never be; None for nothing that
    makes a difference. ``claims``: what is said of the claims of such pods, None where they have none; which claims
    they are makes no difference. ``shared``: the one of equal columns that is kept. Raises PluginError.
    """

    def __init__(
        self,
        framework: FrameworkLike,
        info: PodInfo,
        local: LocalScores,
        claiming: bool = False,
        shared: Callable[[Scores], Scores] = lambda column: column,
    ) -> None:
        self.framework, self.info, self.local, self.view = framework, info, local, local.view
        self.claims = ClaimAnswers(framework, info, self.view) if claiming else None
        before = run_pre_filter(self._at("preFilter"), info, self.view)
        settled = {p.name for p in self._at("preFilter") if _holds(p, before.results.get(p.name)) is Reads.NODES}
        self.settled = PreFilterOutcome({name: result for name, result in before.results.items() if name in settled})
        self.hopeless = any(result.status.rejected for result in self.settled.results.values())
        self.always: Scores | None = None
        self.tied: Rows | TiedRows = NOWHERE
        self._ranked = 0
        self._ranking: GroupedRanking | None = None
        self._shared = shared
        if self.hopeless:  # what the other plugins need of a pod may be missing
            return
        asked = refusing(self._at("preFilter"), self._at("filter"))
        self.moving = [a for a in asked if _holds(a.plugin, before.results.get(a.plugin.name)) is Reads.PODS]
        base, self.fixed_scores, self.moving_scores = self._sort_scores()
        never = self._never(before)
        same = not never.any() and (base == base[:1]).all()
        self.always = None if same else shared(np.where(never, REFUSED, base))

    def rank(
        self, info: PodInfo, sampling: Sampling | None = None, nominated: Delta = NO_CHANGE
    ) -> tuple[Rows | TiedRows, int]:
        """The rows that share the highest score, and how many rows fit, also with the pods nominated ahead of this one.

        ``info`` is that of the pod, which may have other claims than the first of them. Raises PluginError.
        """
        if self.hopeless:
            return NOWHERE, 0
        self.local.bring_up(self.tied, alone=not (self.moving or self.moving_scores))
        ranking = self._in_groups()
        ranked = self._ranked_in(ranking, info, nominated) if ranking and not sampling else None
        if ranked:
            self.tied, fitting = ranked
            return ranked
        local = self.local.scores if self.always is None else self.local.scores + self.always
        moving = self.moving or self.fixed_scores or self.moving_scores or self.claims
        if not (sampling or moving):
            if nominated:
                local = self._yielding(local, nominated)
            fitting = int(np.count_nonzero(local >= 0))
            self.tied = (local == local.max()).nonzero()[0] if fitting else NOWHERE
            return self.tied, fitting
        rows, total = self._scored(local, info, ranking, sampling, nominated)
        if not len(rows):
            return rows, 0
        self.tied = rows[(total == total.max()).nonzero()[0]]
        return self.tied, len(rows)

    def _ranked_in(
        self, ranking: GroupedRanking, info: PodInfo, nominated: Delta
    ) -> tuple[Rows | TiedRows, int] | None:
        """The same by groups; None where all nodes have to be looked at."""
        refused: Bools | bool = False
        if nominated:
            if self.moving:  # what they say of nodes with the nominated pods on them depends on more
                return None
            refused = self.local.crowded(nominated, self.info.priority)
        if self.claims:
            refused = self.claims.refused(info, nominated) | refused
            if not self.claims.score_nothing(info):
                return None
        return ranking.rank(refused)

    def _in_groups(self) -> GroupedRanking | None:
        """The nodes in groups; None where they are to be looked at one by one. Raises PluginError."""
        if self.view.group_since is not None:  # then plugins count other pods
            return None
        if self.view.closed is not None:  # then pods of many kinds come in turn, and groups would be outdated each time
            return None
        self._ranked += 1
        if self._ranked == RANKED_WHOLE:
            self._ranking = GroupedRanking.of(self._asked)
        elif self._ranking:
            self._ranking = self._ranking.in_few_groups()
        return self._ranking

    @property
    def _asked(self) -> AskedPlugins:
        fixed = [FixedScores(plugin, state, raw, self._weight(plugin)) for plugin, state, raw in self.fixed_scores]
        scorers = [scorer for scorer, _ in self.moving_scores]
        return AskedPlugins(self.framework, self.info, self.local, self.always, fixed, self.moving, scorers)

    @cached_property
    def _answers(self) -> RowAnswers | None:
        """What is said of any rows, where nodes are not in groups. Raises PluginError."""
        return RowAnswers.of(self._asked)

    def totals(self, info: PodInfo) -> tuple[Rows, Scores]:
        """The rows that fit, and what such a pod scores there, less what all rows score. Raises PluginError."""
        if self.hopeless:
            return NOWHERE, np.zeros(0, np.int64)
        self.local.bring_up(NOWHERE)
        local = self.local.scores if self.always is None else self.local.scores + self.always
        return self._scored(local, info, self._in_groups())

    def _scored(
        self,
        local: Scores,
        info: PodInfo,
        ranking: GroupedRanking | None,
        sampling: Sampling | None = None,
        nominated: Delta = NO_CHANGE,
    ) -> tuple[Rows, Scores]:
        """The rows that fit, or are looked at, and their scores."""
        refused = local < 0
        answers = self._answers if self.view.closed is not None and self.view.group_since is None else None
        if ranking:
            ranking.bring_up()
        if ranking and not nominated:
            refused |= ranking.refused()
        elif answers and not nominated:
            fitting = (~refused).nonzero()[0]
            refused[fitting] = answers.refused(fitting)
        else:
            for asked in self.moving:
                refused |= now_refused(asked, asked.before(self.info, self.view), self.info, self.view, nominated)
        if self.claims:
            refused |= self.claims.refused(info, nominated)
        if nominated:
            refused |= self.local.crowded(nominated, self.info.priority)
        rows = self._left(refused, sampling)
        if not len(rows):
            return rows, np.zeros(0, np.int64)
        if ranking:
            total = local.take(rows) + ranking.added(rows)
        elif answers:
            total = local.take(rows) + answers.added(rows, np.ones(len(rows), np.int64))
        else:
            total = self._total(local, rows)
        if self.claims:
            self.claims.add_scores(total, info, rows)
        return rows, total

    def fitting(self) -> Bools | None:
        """(N,): where such pods fit now, if what is on a node decides of that node alone; else None."""
        if self.moving or self.claims:
            return None
        if self.hopeless:
            return np.zeros(len(self.view.nodes), np.bool_)
        self.local.bring_up(NOWHERE)
        scores = self.local.scores if self.always is None else self.local.scores + self.always
        return np.asarray(scores >= 0)

    def _yielding(self, local: Scores, nominated: Delta) -> Scores:
        """The scores, without the rows on which there is no room beside the pods nominated ahead."""
        crowded = self.local.crowded(nominated, self.info.priority)
        return np.where(crowded, REFUSED, local) if crowded.any() else local

    def settled_row(self, row: int, nominated: Delta) -> bool:
        """Whether such a pod fits on a row for certain, also with the pods nominated ahead of it."""
        if self.hopeless or self.moving or self.claims:
            return False
        if (self.always is not None and self.always[row] < 0) or not self.local.fits(row):
            return False
        here = nominated.node == row
        return not (nominated and here.any())

    @property
    def before(self) -> Mapping[str, PreFilterResult]:
        """By plugin, what the PreFilters that read claims said of the pod that was ranked last."""
        return self.claims.before if self.claims else {}

    def _left(self, refused: Bools, sampling: Sampling | None) -> Rows:
        """The rows to score."""
        if sampling:
            terms = SearchTerms.from_profile(self.framework.profile, self.framework.release)
            return np.sort(sampling.search(refused, np.flatnonzero(self.allowed), terms).feasible)
        return (~refused).nonzero()[0] if refused.any() else self.view.nodes.rows

    def _total(self, local: Scores, rows: Rows) -> Scores:
        total = local.copy() if rows is self.view.nodes.rows else local.take(rows)
        for fixed, state, raw in self.fixed_scores:
            total += self._weight(fixed) * fixed.normalize(state, raw[rows])
        for moving, prepare in self.moving_scores:
            before = prepare(self.info, self.view, rows)
            if not before.skip:
                scores = moving.score(self.info, self.view, before.state, rows)
                total += self._weight(moving) * moving.normalize(before.state, scores)
        return total

    def _at(self, point: str) -> list[Plugin]:
        """The plugins of an extension point, those aside of which ``claims`` takes care."""
        return [p for p in self.framework.plugins_at(point) if self.claims is None or not reads_claims(p, self.info)]

    # -- filters -------------------------------------------------------------------------------------------------

    def _lasting_filters(self, before: PreFilterOutcome) -> Iterator[FilterPlugin]:
        """The Filter plugins of which the verdict about such pods holds for good; not those that skip them."""
        for plugin in self._at("filter"):
            result = before.results.get(plugin.name)
            if offers(plugin, FilterPlugin) and _holds(plugin, result) is Reads.NODES:
                yield plugin

    @cached_property
    def allowed(self) -> Bools:
        """The nodes that the PreFilter results leave, as far as they hold for good."""
        allowed = np.ones(len(self.view.nodes), np.bool_)
        for result in self.settled.results.values():
            if result.node_names is not None:
                allowed &= rows_named(result.node_names, self.view)
        return allowed

    def _never(self, before: PreFilterOutcome) -> Bools:
        """The nodes that plugins refuse whatever pods there are."""
        never = ~self.allowed
        asked = {p.name for p in Filtering.from_framework(self.framework, self.settled, self.info, self.view).plugins}
        for plugin in self._lasting_filters(before):
            if plugin.name in asked:
                result = self.settled.results.get(plugin.name)
                never |= union(plugin, self.info, self.view, result.state if result else None)
        return never

    # -- scores --------------------------------------------------------------------------------------------------

    def _sort_scores(
        self,
    ) -> tuple[Scores, list[tuple[ScorePlugin, object, Scores]], list[tuple[ScorePlugin, Prepare]]]:
        """What score plugins add for good, those whose raw score never changes, and those to ask anew each time."""
        prepares = preparing(self.framework)
        everywhere = self.view.nodes.rows
        base = np.zeros(len(everywhere), np.int64)
        fixed, moving = [], []
        for plugin in self._at("score"):
            if reads_of(plugin) is Reads.OWN_ROW or not offers(plugin, ScorePlugin):
                continue
            before = prepares[plugin.name](self.info, self.view, everywhere)
            if _holds(plugin, before) is Reads.PODS:
                moving.append((plugin, prepares[plugin.name]))
            elif not before.skip:
                raw = plugin.score(self.info, self.view, before.state, everywhere)
                if (raw == raw[:1]).all():  # the same for any set of nodes
                    base += self._weight(plugin) * plugin.normalize(before.state, raw)
                else:
                    fixed.append((plugin, before.state, self._shared(raw)))
        return base, fixed, moving

    def _weight(self, plugin: Plugin) -> int:
        weight: int = self.framework.profile.weights[plugin.name]
        return weight


def _holds(plugin: Plugin, result: PreFilterResult | PreScoreResult | None) -> Reads:
    """How long a plugin's answer about such pods holds; what it says of a pod does not make it one of a node's row."""
    if reads_of(plugin) is Reads.OWN_ROW:
        return Reads.OWN_ROW
    return Reads.NODES if reads_of(plugin, result) is Reads.NODES else Reads.PODS
