"""The scheduler run forward: pods placed one after the other on a fork of the snapshot.

Pods of one kind ask the same of every node, so what their plugins said is kept for the kind: verdicts and scores that
no pod changes are computed once, those that depend on a node's own usage are refreshed for the nodes that changed
since, and the rest are asked again. The answer is that of a full cycle (scheduler/cycle.py) at every step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kschedctl.scheduler.cycle import Cycle, Filtering, FrameworkLike, PreFilterOutcome, run_cycle, run_pre_filter
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
)
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Snapshot

ROW_LOCAL = frozenset({"NodeResourcesFit", "NodeResourcesBalancedAllocation"})
"""Plugins whose answer for a node depends on that node's own resources and usage alone."""


@dataclass(frozen=True)
class Choice:
    """Where a pod goes: one of the ``tied`` rows that share the highest score; ``feasible`` counts all that fit."""

    row: int
    tied: Rows
    feasible: int


class Placements:
    """Places pods of a fork, ties broken by a seeded choice."""

    def __init__(self, view: Snapshot, seed: int = 0) -> None:
        self.view = view
        self._random = random.Random(seed)
        self._kinds: dict[tuple[int, int], _Kind] = {}

    def choose(self, framework: FrameworkLike, position: int) -> Choice | None:
        """Where the scheduler would put a pod now; None when it fits nowhere. Raises PluginError."""
        info = self.view.pods.infos[self.view.pods.info[position]]
        if self.view.nominated or self.view.pods.objects[position].status.nominated_node_name:
            return self._full_cycle(framework, PodInfo(self.stored(position), info.options))
        kind = self._kinds.get((id(framework), id(info)))
        if kind is None:
            kind = self._kinds[id(framework), id(info)] = _Kind(framework, info, self.view)
        return self._pick(*kind.rank())

    def cycle(self, framework: FrameworkLike, position: int) -> Cycle:
        """The full cycle of a pod as things are now, for its reasons and for what preemption could do."""
        info = self.view.pods.infos[self.view.pods.info[position]]
        return run_cycle(framework, PodInfo(self.stored(position), info.options), self.view)

    def stored(self, position: int) -> Any:
        """The pod as the API server holds it."""
        return self.view.stored(self.view.pods.objects[position])

    def _full_cycle(self, framework: FrameworkLike, info: PodInfo) -> Choice | None:
        cycle = run_cycle(framework, info, self.view)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        return self._pick(cycle.scores.best, len(cycle.feasible))

    def _pick(self, best: Rows, feasible: int) -> Choice | None:
        if not feasible:
            return None
        row = int(best[self._random.randrange(len(best))] if len(best) > 1 else best[0])
        return Choice(row, best, feasible)


class _Kind:
    """What is known about pods of one kind in one profile. All arrays (N,)."""

    def __init__(self, framework: FrameworkLike, info: PodInfo, view: Snapshot) -> None:
        self.framework, self.info, self.view = framework, info, view
        before = run_pre_filter(framework.at("preFilter"), info, view)
        self.settled = self._settle(before)
        filters = Filtering.of(framework, self.settled, info, view).plugins
        self.local_filters = [plugin for plugin in filters if plugin.name in ROW_LOCAL]
        self.moving_filters = [(p, isinstance(p, PreFilterPlugin)) for p in self._moving_filters(before)]
        self.never = ~self._allowed(before)
        for plugin in filters:
            if getattr(plugin, "ignores_pods", False):
                self.never |= self._refused(plugin, view)
        self.refused = self.never.copy()
        self.base_total = np.zeros(len(view.nodes), np.int64)
        self.local_scores, self.fixed_scores, self.moving_scores = self._sort_scores(before)
        self.local_total = self.base_total.copy()
        self.seen = len(view.trail)
        self._refresh(np.arange(len(view.nodes)))

    def rank(self) -> tuple[Rows, int]:
        """The rows that share the highest score, and how many rows fit. Raises PluginError."""
        self._bring_up()
        refused = self.refused
        for plugin, prepares in self.moving_filters:
            refused = refused | self._now_refused(plugin, prepares)
        if not self.moving_scores and not self.fixed_scores:
            total = np.where(refused, -1, self.local_total)
            best = int(total.max(initial=-1))
            return (np.flatnonzero(total == best), int((~refused).sum())) if best >= 0 else (_NOWHERE, 0)
        rows = np.flatnonzero(~refused)
        if not len(rows):
            return rows, 0
        total = self.local_total[rows]
        for fixed, state, raw in self.fixed_scores:
            total = total + self._weight(fixed) * fixed.normalize(state, raw[rows])
        for moving, prepare in self.moving_scores:
            before = prepare.pre_score(self.info, self.view, rows) if prepare else PreScoreResult()
            if not before.skip:
                scores = moving.score(self.info, self.view, before.state, rows)
                total = total + self._weight(moving) * moving.normalize(before.state, scores)
        return rows[total == total.max()], len(rows)

    # -- filters -------------------------------------------------------------------------------------------------

    def _settle(self, before: PreFilterOutcome) -> PreFilterOutcome:
        """The PreFilter results of the plugins whose result holds for good."""
        holds = {p.name for p in self.framework.at("filter") if getattr(p, "ignores_pods", False)} | ROW_LOCAL
        return PreFilterOutcome({name: result for name, result in before.results.items() if name in holds})

    def _moving_filters(self, before: PreFilterOutcome) -> Iterator[FilterPlugin]:
        """The plugins to ask anew for each pod: those that look at other pods, less those that skip for good."""
        for plugin in self.framework.at("filter"):
            if isinstance(plugin, FilterPlugin) and plugin.name not in ROW_LOCAL:
                skips = plugin.name in before.results and before.results[plugin.name].status.code is Code.SKIP
                final = getattr(plugin, "ignores_pods", False) or (skips and getattr(plugin, "skips_for_good", False))
                if not final:
                    yield plugin

    def _allowed(self, before: PreFilterOutcome) -> Bools:
        """The nodes that the PreFilter results leave, as far as they hold for good."""
        results = self.settled.results.values()
        if any(result.status.rejected for result in results):
            return np.zeros(len(self.view.nodes), np.bool_)
        allowed = np.ones(len(self.view.nodes), np.bool_)
        for result in results:
            if result.node_names is not None:
                names = result.node_names
                allowed &= np.array([name in names for name in self.view.nodes.names], np.bool_)
        return allowed

    def _refused(self, plugin: FilterPlugin, view: Snapshot) -> Bools:
        result = self.settled.results.get(plugin.name)
        refused = np.zeros(len(view.nodes), np.bool_)
        for rejection in plugin.filter(self.info, view, result.state if result else None, NO_CHANGE):
            refused |= rejection.mask
        return refused

    def _now_refused(self, plugin: Any, prepares: bool) -> Bools | bool:
        state = None
        if prepares:
            result = plugin.pre_filter(self.info, self.view)
            if result.status.code is Code.SKIP:
                return False
            if result.status.rejected:
                return True
            state = result.state
        refused = np.zeros(len(self.view.nodes), np.bool_)
        for rejection in plugin.filter(self.info, self.view, state, NO_CHANGE):
            if rejection.code is Code.ERROR and rejection.mask.any():
                raise PluginError(f'running "{plugin.name}" filter plugin: {rejection.reason}')
            refused |= rejection.mask
        return refused

    # -- scores --------------------------------------------------------------------------------------------------

    def _sort_scores(
        self, before_filter: PreFilterOutcome
    ) -> tuple[
        list[tuple[ScorePlugin, Any]],
        list[tuple[ScorePlugin, Any, Scores]],
        list[tuple[ScorePlugin, PreScorePlugin | None]],
    ]:
        """The score plugins by what their raw score depends on: the node's usage, nothing that changes, or more."""
        prepares = {p.name: p for p in self.framework.at("preScore") if isinstance(p, PreScorePlugin)}
        everywhere = np.arange(len(self.view.nodes))
        local, fixed, moving = [], [], []
        for plugin in self.framework.at("score"):
            if not isinstance(plugin, ScorePlugin):
                continue
            prepare = prepares.get(plugin.name)
            before = prepare.pre_score(self.info, self.view, everywhere) if prepare else PreScoreResult()
            if plugin.name not in ROW_LOCAL and not self._holds(plugin, before_filter, before):
                moving.append((plugin, prepare))
                continue
            if before.skip:
                continue
            if plugin.name in ROW_LOCAL:
                local.append((plugin, before.state))
                continue
            raw = plugin.score(self.info, self.view, before.state, everywhere)
            if (raw == raw[:1]).all():  # the same for any set of nodes
                self.base_total += self._weight(plugin) * plugin.normalize(before.state, raw)
            else:
                fixed.append((plugin, before.state, raw))
        return local, fixed, moving

    def _holds(self, plugin: Plugin, before_filter: PreFilterOutcome, before: PreScoreResult) -> bool:
        """Whether the plugin's scores stay what they are, whatever becomes of other pods."""
        result = before_filter.results.get(plugin.name)
        skips = before.skip or (result is not None and result.status.code is Code.SKIP)
        return getattr(plugin, "ignores_pods", False) or (skips and getattr(plugin, "skips_for_good", False))

    def _weight(self, plugin: Plugin) -> int:
        weight: int = self.framework.profile.weights[plugin.name]
        return weight

    # -- following the trail -------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        trail = self.view.trail
        if self.seen < len(trail):
            rows = {move.row for move in trail[self.seen :]}
            self.seen = len(trail)
            self._refresh(np.array(sorted(rows)))

    def _refresh(self, rows: Rows) -> None:
        """Ask the plugins that look at a node's usage anew about these rows."""
        narrow = self.view.narrowed(rows)
        refused = self.never[rows]
        for plugin in self.local_filters:
            refused = refused | self._refused(plugin, narrow)
        self.refused[rows] = refused
        total = self.base_total[rows]
        everywhere = np.arange(len(rows))
        for score, state in self.local_scores:
            total = total + self._weight(score) * score.normalize(
                state, score.score(self.info, narrow, state, everywhere)
            )
        self.local_total[rows] = total


_NOWHERE = np.empty(0, np.int64)
