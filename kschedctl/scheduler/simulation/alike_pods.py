"""Cached filter verdicts and scores of identical pods, kept up to date while other pods are placed.

How long an answer is valid depends on what the plugin reads. An answer that no pod changes is computed once. An answer
that depends on a node's own row is shared with other pods (scheduler/simulation/local_scores.py). All other plugins are
asked again for each pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.engine.cycle import Filtering, PreFilterOutcome, run_pre_filter
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import Sampling, SearchTerms
from kschedctl.scheduler.framework import (
    FilterPlugin,
    Plugin,
    PodCountingScorePlugin,
    PreFilterResult,
    Reads,
    ScorePlugin,
    get_answer_dependency,
    offers,
)
from kschedctl.scheduler.simulation.claim_answers import (
    ClaimAnswers,
    find_rejected_nodes,
    get_answer_reads,
    list_changing_filters,
    list_plugins,
    mask_named_rows,
    select_lasting_results,
)
from kschedctl.scheduler.simulation.copy_ranking import CopyRanking
from kschedctl.scheduler.simulation.grouped_ranking import ConsultedPlugins, FixedScores, GroupedRanking, RowAnswers
from kschedctl.scheduler.simulation.local_scores import (
    INFEASIBLE,
    NO_ROWS,
    LocalScores,
    Prepare,
    find_nodes_rejected_by_filter,
    map_score_preparations,
)
from kschedctl.scheduler.simulation.ranked_groups import TiedRows
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.pod_info import PodInfo

GROUPING_THRESHOLD = 4
"""Number of identical pods from which nodes are ranked in groups, if it is unknown how many pods will come."""


Column = TypeVar("Column", Bools, Scores)


class ShareColumn(Protocol):
    """A function that returns the first column (N,) that is equal to a given one."""

    def __call__(self, column: Column, /) -> Column: ...


class _ScorePlugins(NamedTuple):
    """The Score plugins for pods identical to an example, by how often they have to run."""

    placement_independent_sum: Scores
    """The sum (N,) of the weighted scores that no placement of pods changes."""
    fixed: list[tuple[ScorePlugin, object, Scores]]
    """Plugins whose raw scores (N,) never change, each with its state and its raw scores."""
    changing: list[tuple[ScorePlugin, Prepare]]
    """Plugins to run for each pod, each with the function that prepares scoring."""


class AlikePods:
    """Cached answers for pods identical to `info` in one profile. Arrays are (N,), one entry per node.

    On their nodes, the pods count as the pods of `local` do. `shared` returns one column for equal columns, which saves
    memory. At least `expected` such pods are known to come. Raises PluginError if a plugin fails.
    """

    def __init__(
        self,
        framework: FrameworkLike,
        info: PodInfo,
        local: LocalScores,
        *,
        claiming: bool = False,
        shared: ShareColumn = lambda column: column,
        expected: int = 0,
    ) -> None:
        self.framework, self.info, self.local, self.view = framework, info, local, local.view
        self.claims = ClaimAnswers(framework, info, self.view) if claiming else None
        """The answers about claims, which may differ between the pods; None if the pods have no claims."""
        pre_filters = self._list_plugins("preFilter")
        pre_filter = run_pre_filter(pre_filters, info, self.view)
        self.lasting_pre_filter = PreFilterOutcome(select_lasting_results(pre_filters, pre_filter.results))
        self.hopeless = any(result.status.rejected for result in self.lasting_pre_filter.results.values())
        self._never_fits: Bools | None = None
        """The mask (N,) of the nodes where such a pod never fits, or None if there are none."""
        self.best_rows: Rows | TiedRows = NO_ROWS
        self._rank_count = 0
        self._rank_count_to_group = 1 if expected > GROUPING_THRESHOLD else GROUPING_THRESHOLD
        self._ranking: GroupedRanking | None = None
        self._share_column = shared
        if self.hopeless:  # other plugins may lack data about the pod that they need
            return
        self.changing_filters = list_changing_filters(pre_filters, self._list_plugins("filter"), pre_filter.results)
        never_fits = self._find_never_feasible_nodes(pre_filter)
        self._never_fits = shared(never_fits) if never_fits.any() else None

    def find_best_rows(
        self, info: PodInfo, sampling: Sampling | None = None, nominated: Delta = NO_CHANGE
    ) -> tuple[Rows | TiedRows, int]:
        """Return the rows that share the highest score, and the number of feasible rows.

        If no row is feasible, return no rows and 0. With `sampling`, only part of the nodes is searched. Pods in
        `nominated` count as placed on their nominated nodes. `info` is the PodInfo of the pod itself, because its
        claims may differ from those of the first identical pod.

        The best rows are kept for the next call. Raises PluginError if a plugin fails.
        """
        if self.hopeless:
            return NO_ROWS, 0
        if not sampling and self.local.is_up_to_date and not self.mask_possible_nodes().any():
            return NO_ROWS, 0  # without asking the Score plugins
        self.local.bring_up_to_date(self.best_rows, only_local=not (self.changing_filters or self.changing_scores))

        # The fastest way: judge one example of each group of equivalent nodes.
        ranking = self._get_grouped_ranking()
        ranked = self._find_best_rows_in_groups(ranking, info, nominated) if ranking and not sampling else None
        if ranked:
            self.best_rows, _feasible_count = ranked
            return ranked

        # The next best way: the local scores decide alone if no plugin looks at more than a node's own row.
        local = self._sum_local_and_independent_scores()
        needs_plugins = self.changing_filters or self.fixed_scores or self.changing_scores or self.claims
        if not sampling and not needs_plugins:
            return self._find_best_rows_by_local_scores(local, nominated)

        # The slowest way: run the other plugins on all nodes.
        rows, total = self._score_rows(local, info, ranking, sampling, nominated)
        if not len(rows):
            return rows, 0
        self.best_rows = rows[(total == total.max()).nonzero()[0]]
        return self.best_rows, len(rows)

    def _find_best_rows_by_local_scores(self, local: Scores, nominated: Delta) -> tuple[Rows, int]:
        """Return the rows with the highest local score, and the number of feasible rows. Keep the best rows.

        `local` has the scores (N,) of all nodes, which are negative for infeasible nodes. Pods in `nominated` count as
        placed.
        """
        if nominated:
            local = self._exclude_nodes_rejecting_for_nominated(local, nominated)
        feasible_count = int(np.count_nonzero(local >= 0))
        best_rows: Rows = (local == local.max()).nonzero()[0] if feasible_count else NO_ROWS
        self.best_rows = best_rows
        return best_rows, feasible_count

    def _find_best_rows_in_groups(
        self, ranking: GroupedRanking, info: PodInfo, nominated: Delta
    ) -> tuple[Rows | TiedRows, int] | None:
        """Return the rows with the highest score and the number of feasible rows, judging one example of each group.

        A group consists of equivalent nodes. Return None if every node has to be judged because of nominated pods or
        claims. Also return None if the nodes rejected for these reasons change so often that groups do not pay.
        """
        rejected: Bools | bool = False
        if nominated:
            if self.changing_filters:  # their verdicts with the nominated pods placed depend on other nodes
                return None
            rejected = self.local.find_nodes_rejecting_for_nominated(nominated, self.info.priority)
        if self.claims:
            rejected = self.claims.find_rejected_nodes(info, nominated) | rejected
            if not self.claims.are_scores_zero(info):
                return None
        return ranking.find_best_rows(rejected)

    def _get_grouped_ranking(self) -> GroupedRanking | None:
        """Return the ranking of nodes in groups, or None if nodes have to be judged one by one.

        Each call counts as one more placement of the identical pods. The ranking is built at the first call if many
        such pods are expected, and otherwise at the GROUPING_THRESHOLD-th. The ranking is dropped if there are too many
        groups. In the cycle of a pod group, and while nodes are closed one after another, calls do not count and return
        None. Raises PluginError if a plugin fails.
        """
        if self.view.group_since is not None:  # in the cycle of a pod group, plugins count other pods
            return None
        if self.view.closed is not None:  # many kinds of pods alternate, so groups would always be outdated
            return None
        self._rank_count += 1
        if self._rank_count == self._rank_count_to_group:
            self._ranking = GroupedRanking.from_plugins(self._consulted_plugins)
        elif self._ranking:
            self._ranking = self._ranking.drop_empty_groups()
        return self._ranking

    @property
    def _consulted_plugins(self) -> ConsultedPlugins:
        """The filters and scorers whose answers can change, with the raw scores of the scorers whose answers cannot."""
        fixed = [FixedScores(plugin, state, raw, self._get_weight(plugin)) for plugin, state, raw in self.fixed_scores]
        scorers = [scorer for scorer, _ in self.changing_scores]
        return ConsultedPlugins(
            self.framework,
            self.info,
            local=self.local,
            placement_independent_scores=self.placement_independent_scores,
            fixed=fixed,
            filters=self.changing_filters,
            scorers=scorers,
        )

    def build_copy_ranking(self) -> CopyRanking | None:
        """Build the ranking of all nodes for copies of one pod, which is updated after each copy.

        Return None if no node is feasible for reasons that last, or if the pods use claims, because copies may then get
        different answers. Also return None if nodes cannot be judged in groups: in the cycle of a pod group, while
        nodes are closed one after another, or if a plugin rules it out. Raises PluginError if a plugin fails.
        """
        is_in_cycle_of_pod_group = self.view.group_since is not None
        closes_nodes_in_turn = self.view.closed is not None
        if is_in_cycle_of_pod_group or closes_nodes_in_turn:
            return None  # `_get_grouped_ranking` gives the reasons
        if self.hopeless or self.claims:
            return None  # no node is feasible, or copies may get different answers

        self.local.bring_up_to_date(NO_ROWS)
        return CopyRanking.from_plugins(self._consulted_plugins)

    @cached_property
    def _row_answers(self) -> RowAnswers | None:
        """The answers about any rows, or None if a plugin cannot answer for single rows.

        These answers are used while nodes are not in groups. Raises PluginError if a plugin fails.
        """
        return RowAnswers.from_plugins(self._consulted_plugins)

    def score_feasible_rows(self, info: PodInfo) -> tuple[Rows, Scores]:
        """Return the feasible rows and the pod's total scores there.

        Plugins that score all rows equally are left out of the totals, because they do not change the order. Both
        arrays are empty if no node is feasible. Raises PluginError if a plugin fails.
        """
        if self.hopeless:
            return NO_ROWS, np.zeros(0, np.int64)
        self.local.bring_up_to_date(NO_ROWS)
        local = self._sum_local_and_independent_scores()
        return self._score_rows(local, info, self._get_grouped_ranking())

    def _score_rows(
        self,
        local: Scores,
        info: PodInfo,
        ranking: GroupedRanking | None,
        sampling: Sampling | None = None,
        nominated: Delta = NO_CHANGE,
    ) -> tuple[Rows, Scores]:
        """Return the feasible rows that the search visits, and their total scores.

        `local` (N,) holds the local scores, negative on infeasible rows. `ranking` has the groups of nodes, if nodes
        are grouped. With `sampling`, only part of the nodes is searched. The pods in `nominated` count as placed.
        Raises PluginError if a plugin fails.
        """
        # While nodes are closed one after another, groups do not pay, and rows are judged one by one.
        judges_rows = self.view.closed is not None and self.view.group_since is None
        answers = self._row_answers if judges_rows else None

        rejected = self._find_rejected_nodes(local, info, ranking, answers, nominated)
        rows = self._select_rows_to_score(rejected, sampling)
        if not len(rows):
            return rows, np.zeros(0, np.int64)
        if ranking:
            total = local.take(rows) + ranking.compute_added_scores(rows)
        elif answers:
            one_node_per_row = np.ones(len(rows), np.int64)
            total = local.take(rows) + answers.compute_added_scores(rows, one_node_per_row)
        else:
            total = self._sum_scores_of_all_plugins(local, rows)
        if self.claims:
            self.claims.add_scores(total, info, rows)
        return rows, total

    def _find_rejected_nodes(
        self,
        local: Scores,
        info: PodInfo,
        ranking: GroupedRanking | None,
        answers: RowAnswers | None,
        nominated: Delta,
    ) -> Bools:
        """Return a mask (N,) of the nodes that reject the pod, and bring `ranking` up to date.

        The groups of `ranking`, or else the `answers` about single rows, replace full runs of the plugins if no pods
        are `nominated`. The other arguments are those of `_score_rows`. Raises PluginError if a plugin fails.
        """
        # Reject nodes by groups or by single rows if possible, otherwise run every plugin on all nodes.
        rejected = local < 0  # local scores of infeasible nodes are negative
        if ranking:
            ranking.update()
        if ranking and not nominated:
            rejected |= ranking.find_rows_rejected_by_filters()
        elif answers and not nominated:
            fitting = (~rejected).nonzero()[0]
            rejected[fitting] = answers.mask_rejected_rows(fitting)
        else:
            for plugin in self.changing_filters:
                pre_filter_result = plugin.run_pre_filter(self.info, self.view)
                rejected |= find_rejected_nodes(plugin, pre_filter_result, self.info, self.view, nominated)
        if self.claims:
            rejected |= self.claims.find_rejected_nodes(info, nominated)
        if nominated:
            rejected |= self.local.find_nodes_rejecting_for_nominated(nominated, self.info.priority)
        return rejected

    def find_feasible_mask(self) -> Bools | None:
        """Return a mask (N,) of the nodes on which the identical pods fit now.

        Return None if the answer depends on pods on other nodes or on the pod's claims.
        """
        if self.hopeless:
            return np.zeros(len(self.view.nodes), np.bool_)
        if self.changing_filters or self.claims:
            return None
        self.local.bring_up_to_date(NO_ROWS)
        return self.mask_possible_nodes()

    def mask_possible_nodes(self) -> Bools:
        """Return a mask (N,) of the nodes on which the identical pods may fit.

        Only plugins that look at pods on other nodes may still reject them there.
        """
        fits_locally = self.local.scores >= 0
        return np.asarray(fits_locally if self._never_fits is None else fits_locally & ~self._never_fits)

    def are_all_nodes_rejected_for_good(self, info: PodInfo) -> bool:
        """Return whether all nodes reject the pod no matter which pods run where, as long as its claims do not change.

        `info` is the PodInfo of the pod itself. Raises PluginError if a plugin fails.
        """
        if self.hopeless:
            return True
        rejected = np.zeros(len(self.view.nodes), np.bool_)
        if self._never_fits is not None:
            rejected |= self._never_fits
        if self.claims:
            rejected |= self.claims.find_lastingly_rejected_nodes(info)
        return bool(rejected.all())

    def _exclude_nodes_rejecting_for_nominated(self, local: Scores, nominated: Delta) -> Scores:
        """Return the scores with INFEASIBLE on nodes that have no room besides the pods nominated ahead of the pod."""
        crowded = self.local.find_nodes_rejecting_for_nominated(nominated, self.info.priority)
        return np.where(crowded, INFEASIBLE, local) if crowded.any() else local

    def is_certain_to_fit(self, row: int, nominated: Delta) -> bool:
        """Return whether a quick check shows that each of the identical pods fits on the row.

        The result is False if they do not fit, or if the check cannot tell, for example because a pod in `nominated` is
        on the row. The caller then needs a full cycle.
        """
        if self.hopeless or self.changing_filters or self.claims:
            return False
        is_always_rejected = self._never_fits is not None and self._never_fits[row]
        if is_always_rejected or not self.local.fits(row):
            return False
        has_nominated_pods = bool(nominated) and bool((nominated.node == row).any())
        return not has_nominated_pods

    @property
    def claim_pre_filter_results(self) -> Mapping[str, PreFilterResult]:
        """The PreFilter results that read claims, for the pod that was ranked last, by plugin."""
        return self.claims.pre_filter_results if self.claims else {}

    def _select_rows_to_score(self, rejected: Bools, sampling: Sampling | None) -> Rows:
        """Return the rows that are not rejected, in ascending order.

        With `sampling`, return only the rows that the search visits, and advance its start.
        """
        if sampling:
            terms = SearchTerms.from_profile(self.framework.profile, self.framework.release)
            return np.sort(sampling.search_nodes(rejected, np.flatnonzero(self.allowed_nodes), terms).feasible)
        return (~rejected).nonzero()[0] if rejected.any() else self.view.nodes.rows

    def _sum_scores_of_all_plugins(self, local: Scores, rows: Rows) -> Scores:
        """Return the scores of the rows: their local scores plus the weighted scores of all other Score plugins."""
        are_all_rows = rows is self.view.nodes.rows
        total = local.copy() if are_all_rows else local.take(rows)

        # Raw scores that pods do not change were computed once for all nodes. Normalization depends on the rows.
        for plugin, state, raw in self.fixed_scores:
            total += self._get_weight(plugin) * plugin.normalize(state, raw[rows])

        # All other raw scores depend on the pods that run now.
        for plugin, prepare in self.changing_scores:
            pre_score = prepare(self.info, self.view, rows)
            if not pre_score.skip:
                scores = plugin.score(self.info, self.view, pre_score.state, rows)
                total += self._get_weight(plugin) * plugin.normalize(pre_score.state, scores)
        return total

    def _list_plugins(self, point: str) -> list[Plugin]:
        """Return the plugins of an extension point, without the plugins that `claims` runs."""
        return list_plugins(self.framework, point, self.info, reading_claims=self.claims is None)

    # -- filters -------------------------------------------------------------------------------------------------

    def _iter_constant_filters(self, pre_filter: PreFilterOutcome) -> Iterator[FilterPlugin]:
        """Yield the Filter plugins whose verdict about the identical pods never changes."""
        for plugin in self._list_plugins("filter"):
            # A plugin may declare an extension point that it does not implement
            if not offers(plugin, FilterPlugin):
                continue
            pre_filter_result = pre_filter.results.get(plugin.name)
            depends_only_on_nodes = get_answer_reads(plugin, pre_filter_result) is Reads.NODES
            if depends_only_on_nodes:
                yield plugin

    @cached_property
    def allowed_nodes(self) -> Bools:
        """A mask (N,) of the nodes that PreFilter results allow.

        PreFilter results that depend on other pods are left out.
        """
        allowed = np.ones(len(self.view.nodes), np.bool_)
        for result in self.lasting_pre_filter.results.values():
            if result.node_names is not None:
                allowed &= mask_named_rows(result.node_names, self.view)
        return allowed

    def _find_never_feasible_nodes(self, pre_filter: PreFilterOutcome) -> Bools:
        """Return a mask (N,) of the nodes that plugins reject no matter which pods run there.

        These are the nodes that PreFilter excludes for good, and the nodes rejected by a filter whose verdict never
        changes. `pre_filter` has the results of all PreFilter plugins, including those that other pods may change.
        """
        excluded_for_good = ~self.allowed_nodes

        # All results are needed to tell which filters' verdicts never change. Only lasting results decide whether such
        # a filter runs, since PreFilter can make it skip the pod, and with which state.
        lasting = self.lasting_pre_filter
        filtering = Filtering.from_framework(self.framework, lasting, self.info, self.view)
        running_filters = {plugin.name for plugin in filtering.plugins}

        rejected = excluded_for_good
        for plugin in self._iter_constant_filters(pre_filter):
            if plugin.name in running_filters:
                result = lasting.results.get(plugin.name)
                state = result.state if result else None
                rejected |= find_nodes_rejected_by_filter(plugin, self.info, self.view, state)
        return rejected

    # -- scores --------------------------------------------------------------------------------------------------

    @cached_property
    def _score_plugins(self) -> _ScorePlugins:
        """The Score plugins, which are needed only if a node may be feasible. Raises PluginError if a plugin fails."""
        return self._split_score_plugins()

    @property
    def fixed_scores(self) -> list[tuple[ScorePlugin, object, Scores]]:
        """Plugins whose raw scores (N,) never change, each with its state and its raw scores."""
        return self._score_plugins.fixed

    @property
    def changing_scores(self) -> list[tuple[ScorePlugin, Prepare]]:
        """Plugins to ask for each pod, each with the function that prepares scoring."""
        return self._score_plugins.changing

    @cached_property
    def placement_independent_scores(self) -> Scores | None:
        """The scores (N,) to add to the local scores, which no placement of pods changes.

        The scores are INFEASIBLE on nodes where the identical pods never fit. The property is None if the scores are
        equal on all nodes.
        """
        scores: Scores = self._score_plugins.placement_independent_sum
        if self._never_fits is not None:
            scores = np.where(self._never_fits, INFEASIBLE, scores)
            return self._share_column(scores)
        are_equal_on_all_nodes = (scores == scores[:1]).all()
        return None if are_equal_on_all_nodes else self._share_column(scores)

    def _sum_local_and_independent_scores(self) -> Scores:
        """Return the sum (N,) of the local scores and of the scores that no placement changes."""
        independent_scores = self.placement_independent_scores
        return self.local.scores if independent_scores is None else self.local.scores + independent_scores

    def _split_score_plugins(self) -> _ScorePlugins:
        """Split the Score plugins by how often they have to run for the identical pods.

        Scores that are equal on all nodes are added up once. Other scores that do not depend on pods are computed once,
        and only their normalization is repeated. The remaining plugins run each time. Plugins that read only a node's
        own row are left out, because `local` has their scores. Raises PluginError if a plugin fails.
        """
        prepares = map_score_preparations(self.framework)
        with_pre_score = {plugin.name for plugin in self.framework.plugins_at("preScore")}
        all_rows = self.view.nodes.rows
        placement_independent_sum = np.zeros(len(all_rows), np.int64)
        fixed = []
        changing: list[tuple[ScorePlugin, Prepare]] = []
        for plugin in self._list_plugins("score"):
            if get_answer_dependency(plugin) is Reads.OWN_ROW or not offers(plugin, ScorePlugin):
                continue
            prepare = prepares[plugin.name]
            if plugin.name in with_pre_score and offers(plugin, PodCountingScorePlugin):
                # The scores change with every pod, so only ask whether there will be any.
                if plugin.may_score(self.info, self.view):
                    changing.append((plugin, prepare))
                continue
            pre_score = prepare(self.info, self.view, all_rows)
            if get_answer_reads(plugin, pre_score) is Reads.PODS:
                changing.append((plugin, prepare))
            elif not pre_score.skip:
                raw = plugin.score(self.info, self.view, pre_score.state, all_rows)
                is_uniform = bool((raw == raw[:1]).all())
                if is_uniform:  # then normalized scores are equal for any set of nodes, too
                    placement_independent_sum += self._get_weight(plugin) * plugin.normalize(pre_score.state, raw)
                else:
                    fixed.append((plugin, pre_score.state, self._share_column(raw)))
        return _ScorePlugins(placement_independent_sum, fixed, changing)

    def _get_weight(self, plugin: Plugin) -> int:
        """Return the weight of a Score plugin in the profile."""
        weight: int = self.framework.profile.weights[plugin.name]
        return weight
