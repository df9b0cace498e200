"""Verdicts and scores of the plugins that only read a node's own row, kept up to date as pods move.

Pods with the same requests share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import has_backed_resources
from kschedctl.scheduler.framework import (
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PreFilterPlugin,
    PreScorePlugin,
    PreScoreResult,
    Reads,
    ScorePlugin,
    get_answer_dependency,
    offers,
    scores_with_pre_filter_state,
)
from kschedctl.scheduler.simulation.ranked_groups import TiedRows
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork, NodeView, OwnRows
from kschedctl.snapshot.pod_info import PodInfo

INFEASIBLE = -(2**61)
"""Score of an infeasible node. It stays below zero no matter which scores are added to it."""

LOOKAHEAD = 4
"""Number of further such pods for which the scores of a node are computed ahead."""
MANY_PODS = 12
"""Number of placed pods of a kind after which more are expected, so that all best nodes are computed ahead."""
MANY_NODES = 64
"""From this many nodes, pods whose scores depend on other pods are computed only one pod ahead."""
Prepare = Callable[[PodInfo, Any, Rows], PreScoreResult]
"""A function that prepares scoring the feasible rows, as PreScore does. Raises PluginError."""
NO_ROWS: Rows = np.empty(0, np.int64)


@dataclass
class NominationRejections:
    """Nodes that reject a pod because of the pods nominated there."""

    nominated: Delta
    """The nominated pods."""
    has_nominations: Bools
    """The nodes for which pods are nominated, (N,)."""
    rejected: Bools
    """The nodes that reject the pod, (N,)."""
    seen: int
    """Length of the trail when this was computed."""
    ahead: dict[int, list[bool]] = field(default_factory=dict)
    """By row, whether the node rejects the pod once 1, 2, … more such pods are placed there."""


class LocalScores:
    """Scores (N,) of all nodes for pods with the requests of `info`.

    Once such a pod is on a node, it counts there like the PodInfo with index `number`. `scores` are weighted and
    summed, and INFEASIBLE where the pod does not fit. `ahead` (N, LOOKAHEAD) is what `scores` will be after each of the
    next such pods comes to the node. Its entries before `step` are used up. `key` stands for the other arguments except
    `view`, for sharing scores between forks. Raises PluginError if a plugin fails.
    """

    def __init__(self, framework: FrameworkLike, info: PodInfo, number: int, view: Fork, key: Hashable) -> None:
        self.info, self.number, self.view = info, number, view
        self.demand_codes = view.pods.distinct.demand
        self.filters = _list_local_filters(framework, info, view)
        self._framework = framework
        nodes = len(view.nodes)
        self.scores = np.zeros(nodes, np.int64)
        self.ahead = np.zeros((nodes, LOOKAHEAD), np.int64)
        self.step = np.full(nodes, LOOKAHEAD, np.int8)
        self.placed = 0
        self.seen = len(view.trail)
        self._nomination_rejections: dict[int, NominationRejections] = {}
        self._requests_devices = has_backed_resources(info, view)
        self._replaced_count = view.objects.replaced_count
        shared_scores = self._get_or_compute_shared_scores(key)
        if shared_scores is None:
            shared_scores = self._compute_scores(view, view.nodes.rows)
        else:
            self.seen = 0  # nodes whose pods moved since then are brought up to date later
        self._store_scores(view.nodes.rows, shared_scores)

    def _get_or_compute_shared_scores(self, key: Hashable) -> Scores | None:
        """Return the nodes' scores before all moves in this fork, or None if forks cannot share them.

        Forks that leave out nodes of one parent share the scores under ``key``. These scores are computed once, for all
        nodes of the parent. Scores cannot be shared if the fork has no such parent, if pods have moved in the parent
        since, if nodes are closed, or if the pod requests devices.
        """
        view = self.view
        parent = view.part_of
        if parent is None or view.closed is not None or self._requests_devices:
            return None
        return parent.find_column(key, lambda whole_view: self._compute_scores(whole_view, whole_view.nodes.rows))

    @cached_property
    def scorers(self) -> list[tuple[Any, object, int]]:
        """The Score plugins that read only a node's own row, with their PreScore state and weight.

        The plugins are needed only if a node has room. Raises PluginError if a plugin fails.
        """
        return _list_local_scorers(self._framework, self.info, self.view)

    @property
    def is_up_to_date(self) -> bool:
        """True if no pod has moved since the last update."""
        return self.seen == len(self.view.trail)

    @property
    def is_outdated(self) -> bool:
        """True if devices that count as resources of nodes were allocated or freed since the scores were computed."""
        return self._requests_devices and self._replaced_count != self.view.objects.replaced_count

    def bring_up_to_date(self, tied: Rows | TiedRows, *, only_local: bool = True) -> None:
        """Update the scores of the nodes that pods joined or left since the last update.

        If the latest move placed a pod with the same requests as this object's pod, more such pods are expected. In
        this case, the scores that the nodes will have after the next placements are precomputed as well. `tied` are the
        nodes that shared the best score when the latest pod was placed. With `only_local`, these scores alone decide
        where the pods go, so more scores are precomputed.
        """
        trail = self.view.trail
        previously_seen = self.seen
        if previously_seen == len(trail):
            return
        self.seen = len(trail)
        is_single_move = self.seen - previously_seen == 1

        # The usual case: one pod with the same requests came to a node, and the node's new score was precomputed.
        row, moved_info, sign = trail.latest  # `sign` is 1 if the pod came to the row, and -1 if it left
        has_same_requests = self.demand_codes[moved_info] == self.demand_codes[self.number]
        has_like_pod_arrived = sign > 0 and has_same_requests
        if has_like_pod_arrived:
            self.placed += 1
        if has_like_pod_arrived and is_single_move and self._use_precomputed_score(row):
            return

        # Otherwise, compute the scores of all changed nodes, and future scores if more such pods are to be expected.
        changed_rows = trail.find_rows_since(previously_seen)
        if has_like_pod_arrived:
            next_rows = self._predict_next_rows(row, tied)
            pods_ahead = LOOKAHEAD if only_local or len(next_rows) < MANY_NODES else 1
            self._precompute_scores(changed_rows, next_rows, pods_ahead)
        else:
            self._store_scores(changed_rows, self._compute_scores(self.view, changed_rows))

    def fits(self, row: int) -> bool:
        """Return whether the pod fits on the node at one row now, even if the scores are not up to date."""
        if self.view.touched[row] <= self.seen:
            return bool(self.scores[row] >= 0)
        return not self._find_rejecting_rows(NO_CHANGE, OwnRows(self.view, np.array([row])))[0]

    def find_nodes_rejecting_for_nominated(self, nominated: Delta, priority: int) -> Bools:
        """Return a mask (N,) of the nodes that reject a pod of this priority because of pods nominated ahead of it.

        The mask is cached by priority. If pods have moved, it is updated for the nodes that pods joined or left. If
        ``nominated`` is another object than in the last call, the cached mask is replaced.
        """
        cached = self._nomination_rejections.get(priority)
        if cached is None or cached.nominated is not nominated:
            recomputed = self._recompute_nomination_rejections(nominated, cached)
            self._nomination_rejections[priority] = recomputed
            return recomputed.rejected

        # Update the cached mask for the moves of pods since it was computed
        trail_length = len(self.view.trail)
        new_moves = trail_length - cached.seen
        if new_moves == 1:
            self._update_nomination_rejections_after_move(cached, *self.view.trail.latest)
        elif new_moves:
            self._update_nomination_rejections_after_moves(cached)
        cached.seen = trail_length
        return cached.rejected

    def _recompute_nomination_rejections(
        self, nominated: Delta, previous: NominationRejections | None
    ) -> NominationRejections:
        """Compute which nodes reject the pod because of the nominated pods.

        A node keeps its answer from `previous` if its nominated pods are the same and no pod has joined or left it
        since.
        """
        has_nominations = np.zeros(len(self.view.nodes), np.bool_)
        has_nominations[nominated.node] = True
        rejected = np.zeros_like(has_nominations)
        to_compute = has_nominations
        if previous is not None:
            has_other_nominations = nominated.find_differing_nodes(previous.nominated, len(has_nominations))
            is_unchanged = ~has_other_nominations & (self.view.touched <= previous.seen)
            rejected = previous.rejected & has_nominations & is_unchanged
            to_compute = has_nominations & ~is_unchanged
        rows = np.flatnonzero(to_compute)
        rejected[rows] = self._find_rejecting_rows(nominated.restrict_to(rows), OwnRows(self.view, rows))
        return NominationRejections(nominated, has_nominations, rejected, len(self.view.trail))

    def _update_nomination_rejections_after_moves(self, rejections: NominationRejections) -> None:
        """Recompute the answers for the nodes that pods joined or left in several moves.

        Only nodes with nominated pods are recomputed. If there are any, all precomputed answers are dropped.
        """
        rows = np.flatnonzero(rejections.has_nominations & (self.view.touched > rejections.seen))
        if len(rows):
            rejections.rejected[rows] = self._find_rejecting_rows(
                rejections.nominated.restrict_to(rows), OwnRows(self.view, rows)
            )
            rejections.ahead.clear()

    def _update_nomination_rejections_after_move(
        self, rejections: NominationRejections, row: int, number: int, sign: int
    ) -> None:
        """Update the rejections after a pod joined the node in `row` (`sign` 1) or left it (-1).

        `number` is the number of the pod's PodInfo. If a pod with the same requests as this object's pod joined, the
        precomputed answer is used, if there is one. Otherwise, answers are precomputed again.
        """
        if not rejections.has_nominations[row]:
            return
        has_arrived = sign > 0 and self.demand_codes[number] == self.demand_codes[self.number]
        answers = rejections.ahead.pop(row, []) if has_arrived else []
        if not answers:
            answers = self._predict_rejections(rejections, row)
        rejections.rejected[row] = answers[0]
        rejections.ahead[row] = answers[1:]  # for the moves of more such pods

    def _predict_rejections(self, rejections: NominationRejections, row: int) -> list[bool]:
        """Return whether the node rejects the pod now, and after 1, 2, … LOOKAHEAD more such pods have joined it."""
        added_pods = np.arange(LOOKAHEAD + 1)
        rows = np.full(LOOKAHEAD + 1, row)

        # The node is judged once per entry of `added_pods`, as if it were several nodes (rows of OwnRows). The pods
        # nominated to it are the same each time, and are repeated for each of these rows.
        nominated_there = rejections.nominated.restrict_to(rows[:1])
        repeated = Delta(
            np.repeat(added_pods.astype(np.int32), len(nominated_there.node)),
            np.tile(nominated_there.info, LOOKAHEAD + 1),
            np.tile(nominated_there.sign, LOOKAHEAD + 1),
        )
        answers: list[bool] = self._find_rejecting_rows(
            repeated, OwnRows(self.view, rows, added_pods, self.number)
        ).tolist()
        return answers

    def _find_rejecting_rows(self, nominated: Delta, rows: OwnRows) -> Bools:
        """Return a mask over `rows` of the nodes that reject the pod if the nominated pods count as placed."""
        rejected = self._mask_closed_rows(rows.rows)
        for plugin, state in self.filters:
            rejected |= find_nodes_rejected_by_filter(plugin, self.info, rows, state, nominated)
        return rejected

    def _use_precomputed_score(self, row: int) -> bool:
        """Set the score of a row to the precomputed score, after a pod with these requests joined the row.

        Return False and change nothing if no score was precomputed, otherwise return True.
        """
        step = self.step[row]  # the place in `ahead` of the next score
        if step == LOOKAHEAD:  # no score is left
            return False
        self.scores[row] = self.ahead[row, step]
        self.step[row] = step + 1
        return True

    def _predict_next_rows(self, latest: int, tied: Rows | TiedRows) -> Rows:
        """Return the nodes on which the next pods with the same requests are likely to be placed.

        These are the latest node and, after MANY_PODS pods, all tied nodes whose next scores are not known yet.
        """
        if self.placed < MANY_PODS:
            return np.array([latest])
        rows = tied.unordered() if isinstance(tied, TiedRows) else tied
        has_no_next_score = self.step[rows] == LOOKAHEAD  # all precomputed scores are used up
        return np.append(rows[has_no_next_score], latest)

    def _precompute_scores(self, rows: Rows, next_rows: Rows, pods: int) -> None:
        """Compute and store the current scores of `rows`, and the future scores of `next_rows`.

        Future scores are computed for 1 to `pods` more pods with these requests on the node.
        """
        count = len(rows)
        added_pods = np.concatenate((np.zeros(count, np.int64), np.tile(np.arange(1, pods + 1), len(next_rows))))
        scores = self._compute_scores(self.view, np.concatenate((rows, np.repeat(next_rows, pods))), added_pods)
        self._store_scores(rows, scores[:count])
        # The scores fill the end of `ahead`, so that they are used up when the step reaches LOOKAHEAD.
        self.ahead[next_rows, LOOKAHEAD - pods :] = scores[count:].reshape(-1, pods)
        self.step[next_rows] = LOOKAHEAD - pods

    def _store_scores(self, rows: Rows, scores: Scores) -> None:
        """Store the current scores of these rows, and discard the scores that were computed ahead for them."""
        self.scores[rows] = scores
        self.step[rows] = LOOKAHEAD

    def _mask_closed_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the closed rows, which accept no more pods."""
        closed = self.view.closed
        if closed is None:
            return np.zeros(len(rows), np.bool_)
        return closed.mask[rows]

    def _compute_scores(self, view: Fork, rows: Rows, added_pods: Rows | None = None) -> Scores:
        """Return the scores of `rows` in the view, with INFEASIBLE for each row that rejects the pod or is closed.

        `added_pods` has the number of additional pods like this one that each row is assumed to have. None stands for
        no additional pods.
        """
        own_rows = OwnRows(view, rows, added_pods, self.number)
        rejected = self._mask_closed_rows(rows)
        for plugin, state in self.filters:
            rejected |= find_nodes_rejected_by_filter(plugin, self.info, own_rows, state)
        if rejected.all():
            return np.full(len(rows), INFEASIBLE, np.int64)
        total = np.zeros(len(rows), np.int64)
        all_rows = own_rows.nodes.rows
        for scorer, state, weight in self.scorers:
            scores = scorer.normalize(state, scorer.score(self.info, own_rows, state, all_rows))
            total += scores if weight == 1 else weight * scores
        total[rejected] = INFEASIBLE
        return total


def _list_local_filters(framework: FrameworkLike, info: PodInfo, view: Fork) -> list[tuple[FilterPlugin, object]]:
    """Return the Filter plugins that read only a node's own row, with their PreFilter state.

    Plugins whose PreFilter skips or rejects the pod are left out.
    """
    pre_filters = framework.plugins_at("preFilter")
    pre_filter_results = {
        p.name: p.pre_filter(info, view) for p in pre_filters if _reads_own_row(p) and offers(p, PreFilterPlugin)
    }
    filters = []
    for plugin in framework.plugins_at("filter"):
        if not _reads_own_row(plugin) or not offers(plugin, FilterPlugin):
            continue
        result = pre_filter_results.get(plugin.name)
        if result is None or result.status.code is Code.SUCCESS:
            filters.append((plugin, result.state if result else None))
    return filters


def _list_local_scorers(framework: FrameworkLike, info: PodInfo, view: Fork) -> list[tuple[Any, object, int]]:
    """Return the Score plugins that read only a node's own row, with their PreScore state and weight.

    Plugins whose PreScore skips the pod are left out.
    """
    prepares = map_score_preparations(framework)
    scorers = []
    for plugin in framework.plugins_at("score"):
        if not _reads_own_row(plugin) or not offers(plugin, ScorePlugin):
            continue
        pre_score = prepares[plugin.name](info, view, view.nodes.rows)
        if not pre_score.skip:
            scorers.append((plugin, pre_score.state, framework.profile.weights[plugin.name]))
    return scorers


def map_score_preparations(framework: FrameworkLike) -> Mapping[str, Prepare]:
    """Return, by plugin name, the function that prepares each Score plugin.

    This is the plugin's PreScore. For a plugin that scores with the state of its PreFilter, it is a function that runs
    PreFilter. For all other plugins, it is a function that prepares nothing.
    """
    preparations: dict[str, Prepare] = {}
    for plugin in framework.plugins_at("score"):
        preparations[plugin.name] = _prepare_nothing
    for plugin in framework.plugins_at("preFilter"):
        if scores_with_pre_filter_state(plugin) and offers(plugin, PreFilterPlugin):
            preparations[plugin.name] = partial(_prepare_by_pre_filter, plugin)
    for plugin in framework.plugins_at("preScore"):
        if offers(plugin, PreScorePlugin):
            preparations[plugin.name] = plugin.pre_score
    return preparations


def _prepare_by_pre_filter(plugin: PreFilterPlugin, info: PodInfo, view: Any, rows: Rows) -> PreScoreResult:
    """Prepare scoring by the plugin's PreFilter, whose state its Score uses."""
    result = plugin.pre_filter(info, view)
    return PreScoreResult(result.state, reads=result.reads)


def _prepare_nothing(info: PodInfo, view: object, rows: Rows) -> PreScoreResult:
    """Return an empty preparation, for a plugin that scores without one."""
    return PreScoreResult()


def _reads_own_row(plugin: Plugin) -> bool:
    """Return whether the plugin reads nothing but a node's own row."""
    return get_answer_dependency(plugin) is Reads.OWN_ROW


def find_nodes_rejected_by_filter(
    plugin: Any, info: PodInfo, view: NodeView, state: object, delta: Delta = NO_CHANGE
) -> Bools:
    """Return a mask (N,) of the nodes that a Filter plugin rejects if the pods in `delta` are added or removed.

    Raises PluginError if the plugin fails on a node.
    """
    rejected = np.zeros(len(view.nodes), np.bool_)
    for rejection in plugin.filter(info, view, state, delta):
        if rejection.code is Code.ERROR and rejection.mask.any():
            raise PluginError(f'running "{plugin.name}" filter plugin: {rejection.reason}')
        rejected |= rejection.mask
    return rejected
