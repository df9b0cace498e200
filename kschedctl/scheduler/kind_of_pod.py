"""What is known about pods of one kind while others are placed: verdicts and scores, kept up to date along the trail.

Pods of one kind ask the same of every node. What no pod changes is computed once; what depends on a node's own usage is
computed anew for the nodes that changed, where it is not known ahead; the rest is asked again for each pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kschedctl.scheduler.cycle import Filtering, FrameworkLike, PreFilterOutcome, run_pre_filter
from kschedctl.scheduler.framework import (
    Bools,
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PreFilterPlugin,
    PreScorePlugin,
    PreScoreResult,
    Rows,
    ScorePlugin,
    Scores,
    offers,
)
from kschedctl.scheduler.sampling import Sampling
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Snapshot

ROW_LOCAL = frozenset({"NodeResourcesFit", "NodeResourcesBalancedAllocation"})
"""Plugins whose answer for a node depends on that node's own resources and usage alone."""

REFUSED = -1
"""In place of a score."""

AHEAD = 4
"""How many pods more of the kind are looked at when a node is computed."""
PODS_OF_MANY = 48
"""A kind of which so many pods were placed is taken to have many more: all nodes that are best now are computed."""
_NOWHERE = np.empty(0, np.int64)


class KindOfPod:
    """Pods like ``info`` in one profile, counted on their nodes as kind ``number``. All arrays are (N,).

    ``local``: the scores that are known, REFUSED where the pod does not fit. ``ahead`` (N, AHEAD): what ``local`` will
    be when the next pods of this kind come to the node, the entries before ``step`` being past. Raises PluginError.
    """

    def __init__(self, framework: FrameworkLike, info: PodInfo, number: int, view: Snapshot) -> None:
        self.framework, self.info, self.number, self.view = framework, info, number, view
        nodes = len(view.nodes)
        before = run_pre_filter(framework.at("preFilter"), info, view)
        self.settled = self._settle(before)
        self.hopeless = any(result.status.rejected for result in self.settled.results.values())
        filters = Filtering.of(framework, self.settled, info, view).plugins
        self.local_filters = [plugin for plugin in filters if plugin.name in ROW_LOCAL]
        self.moving_filters = [(p, offers(p, PreFilterPlugin)) for p in self._moving_filters(before)]
        self.allowed = self._allowed()
        self.never = ~self.allowed
        for plugin in filters:
            if getattr(plugin, "ignores_pods", False):
                self.never |= self._refused(plugin, view)
        self.base = np.zeros(nodes, np.int64)
        self.local_scores, self.fixed_scores, self.moving_scores = self._sort_scores(before)
        self.local, self.ahead = np.zeros(nodes, np.int64), np.zeros((nodes, AHEAD), np.int64)
        self.step = np.full(nodes, AHEAD, np.int8)
        self.fitting = nodes
        self.tied, self.placed = _NOWHERE, 0
        self.seen = len(view.trail)
        self._refresh(np.arange(nodes), _NOWHERE)

    def rank(self, sampling: Sampling | None = None) -> tuple[Rows, int]:
        """The rows that share the highest score, and how many rows fit. Raises PluginError."""
        if self.hopeless:
            return _NOWHERE, 0
        self._bring_up()
        if not (sampling or self.moving_filters or self.fixed_scores or self.moving_scores):
            return self._top(self.local), self.fitting
        refused = self.local < 0
        for plugin, prepares in self.moving_filters:
            refused |= self._now_refused(plugin, prepares)
        if sampling:
            rows = self._sample(refused, sampling)
        else:
            rows = np.flatnonzero(~refused) if refused.any() else self.view.nodes.rows
        if not len(rows):
            return rows, 0
        total = self.local[rows]
        for fixed, state, raw in self.fixed_scores:
            total += self._weight(fixed) * fixed.normalize(state, raw[rows])
        for moving, prepare in self.moving_scores:
            before = prepare.pre_score(self.info, self.view, rows) if prepare else PreScoreResult()
            if not before.skip:
                scores = moving.score(self.info, self.view, before.state, rows)
                total += self._weight(moving) * moving.normalize(before.state, scores)
        self.tied = rows[np.flatnonzero(total == total.max())]
        return self.tied, len(rows)

    def _top(self, total: Scores) -> Rows:
        best = int(total.max(initial=REFUSED))
        self.tied = np.flatnonzero(total == best) if best > REFUSED else _NOWHERE
        return self.tied

    def _sample(self, refused: Bools, sampling: Sampling) -> Rows:
        percentage = self.framework.profile.percentage_of_nodes_to_score
        return sampling.sample(refused, np.flatnonzero(self.allowed), percentage, bool(self.framework.at("score")))

    # -- filters -------------------------------------------------------------------------------------------------

    def _settle(self, before: PreFilterOutcome) -> PreFilterOutcome:
        """The PreFilter results of the plugins whose result holds for good."""
        holds = {p.name for p in self.framework.at("filter") if getattr(p, "ignores_pods", False)} | ROW_LOCAL
        return PreFilterOutcome({name: result for name, result in before.results.items() if name in holds})

    def _moving_filters(self, before: PreFilterOutcome) -> Iterator[FilterPlugin]:
        """The plugins to ask anew for each pod: those that look at other pods, less those that skip for good."""
        for plugin in self.framework.at("filter"):
            if not offers(plugin, FilterPlugin) or plugin.name in ROW_LOCAL:
                continue
            if not getattr(plugin, "ignores_pods", False) and not _skipped_for_good(plugin, before):
                yield plugin

    def _allowed(self) -> Bools:
        """The nodes that the PreFilter results leave, as far as they hold for good."""
        allowed = np.ones(len(self.view.nodes), np.bool_)
        for result in self.settled.results.values():
            if result.node_names is not None:
                allowed &= self._named(result.node_names)
        return allowed

    def _named(self, names: frozenset[str]) -> Bools:
        found = np.zeros(len(self.view.nodes), np.bool_)
        found[[self.view.nodes.index[name] for name in names if name in self.view.nodes.index]] = True
        return found

    def _refused(self, plugin: FilterPlugin, view: Snapshot) -> Bools:
        result = self.settled.results.get(plugin.name)
        return _union(plugin, self.info, view, result.state if result else None)

    def _now_refused(self, plugin: Any, prepares: bool) -> Bools | bool:
        state, elsewhere = None, None
        if prepares:
            result = plugin.pre_filter(self.info, self.view)
            if result.status.code is Code.SKIP:
                return False
            if result.status.rejected:
                return True
            state = result.state
            elsewhere = None if result.node_names is None else ~self._named(result.node_names)
        refused = _union(plugin, self.info, self.view, state)
        return refused if elsewhere is None else refused | elsewhere

    # -- scores --------------------------------------------------------------------------------------------------

    def _sort_scores(
        self, before_filter: PreFilterOutcome
    ) -> tuple[
        list[tuple[ScorePlugin, Any]],
        list[tuple[ScorePlugin, Any, Scores]],
        list[tuple[ScorePlugin, PreScorePlugin | None]],
    ]:
        """The score plugins by what their raw score depends on: the node's usage, nothing that changes, or more."""
        prepares = {p.name: p for p in self.framework.at("preScore") if offers(p, PreScorePlugin)}
        everywhere = np.arange(len(self.view.nodes))
        local, fixed, moving = [], [], []
        for plugin in self.framework.at("score"):
            if not offers(plugin, ScorePlugin):
                continue
            prepare = prepares.get(plugin.name)
            before = prepare.pre_score(self.info, self.view, everywhere) if prepare else PreScoreResult()
            if before.for_good:
                continue
            holds = getattr(plugin, "ignores_pods", False) or (not prepare and _skipped_for_good(plugin, before_filter))
            if plugin.name not in ROW_LOCAL and not holds:
                moving.append((plugin, prepare))
                continue
            if before.skip:
                continue
            if plugin.name in ROW_LOCAL:
                local.append((plugin, before.state))
                continue
            raw = plugin.score(self.info, self.view, before.state, everywhere)
            if (raw == raw[:1]).all():  # the same for any set of nodes
                self.base += self._weight(plugin) * plugin.normalize(before.state, raw)
            else:
                fixed.append((plugin, before.state, raw))
        return local, fixed, moving

    def _weight(self, plugin: Plugin) -> int:
        weight: int = self.framework.profile.weights[plugin.name]
        return weight

    # -- following the trail -------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        """Take in what moved: a pod of this kind that came is known ahead, all other changed rows are computed."""
        trail, seen = self.view.trail, self.seen
        if seen == len(trail):
            return
        self.seen = len(trail)
        row, number, sign = trail[-1]
        own = number == self.number and sign > 0
        self.placed += own
        if own and self.seen - seen == 1 and self._step(row):
            return
        self._refresh(np.flatnonzero(self.view.touched > seen), self._next(row) if own else _NOWHERE)

    def _step(self, row: int) -> bool:
        """Take in a pod of this kind that came to a row; False when that was not computed ahead."""
        step = self.step[row]
        if step == AHEAD:
            return False
        score = self.ahead[row, step]
        self.fitting -= bool(score < 0 <= self.local[row])
        self.local[row], self.step[row] = score, step + 1
        return True

    def _next(self, latest: int) -> Rows:
        """The rows where pods of this kind may come next: the latest again, or one of those that were as good."""
        if self.placed < PODS_OF_MANY:
            return np.array([latest])
        return np.append(self.tied[self.step[self.tied] == AHEAD], latest)

    def _refresh(self, rows: Rows, coming: Rows) -> None:
        """Ask the plugins that look at a node's usage: about ``rows`` now, about ``coming`` with pods more."""
        if not len(coming):
            self._set(rows, self._local(rows, None))
            return
        count = len(rows)
        more = np.concatenate((np.zeros(count, np.int64), np.tile(np.arange(1, AHEAD + 1), len(coming))))
        found = self._local(np.concatenate((rows, np.repeat(coming, AHEAD))), more)
        self._set(rows, found[:count])
        self.ahead[coming], self.step[coming] = found[count:].reshape(-1, AHEAD), 0

    def _set(self, rows: Rows, scores: Scores) -> None:
        self.fitting += int(np.count_nonzero(scores >= 0) - np.count_nonzero(self.local[rows] >= 0))
        self.local[rows], self.step[rows] = scores, AHEAD

    def _local(self, rows: Rows, more: Rows | None) -> Scores:
        narrow = self.view.narrowed(rows, more, self.number)
        refused = self.never[rows]
        for plugin in self.local_filters:
            refused = refused | self._refused(plugin, narrow)
        total = self.base[rows]
        everywhere = np.arange(len(rows))
        for score, state in self.local_scores:
            scores = score.score(self.info, narrow, state, everywhere)
            total += self._weight(score) * score.normalize(state, scores)
        total[refused] = REFUSED
        return total


def _skipped_for_good(plugin: Plugin, before: PreFilterOutcome) -> bool:
    return plugin.name in before.results and before.results[plugin.name].for_good


def _union(plugin: FilterPlugin, info: PodInfo, view: Snapshot, state: Any) -> Bools:
    """The nodes that a plugin refuses. Raises PluginError when it fails on one."""
    refused = np.zeros(len(view.nodes), np.bool_)
    for rejection in plugin.filter(info, view, state, NO_CHANGE):
        if rejection.code is Code.ERROR and rejection.mask.any():
            raise PluginError(f'running "{plugin.name}" filter plugin: {rejection.reason}')
        refused |= rejection.mask
    return refused
