"""What the plugins that read no more than a node's own row say of every node, kept up to date along the trail.

Pods that request the same share it, whatever else they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
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
    offers,
    reads_of,
    scores_with_pre_filter_state,
)
from kschedctl.scheduler.simulation.ranked_groups import TiedRows
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView, OwnRows
from kschedctl.snapshot.pod_info import PodInfo

REFUSED = -(2**61)
"""In place of a score: stays below zero whatever scores are added to it."""

AHEAD = 4
"""How many such pods more are looked at when a node is computed."""
PODS_OF_MANY = 12
"""Where so many such pods were placed there are taken to be many more: all nodes that are best now are computed."""
NODES_OF_MANY = 64
"""Where pods that others draw or drive away have so many nodes, each is looked at with one such pod more."""
Prepare = Callable[[PodInfo, Any, Rows], PreScoreResult]
"""What scoring the feasible rows needs, as PreScore says it. Raises PluginError."""
NOWHERE: Rows = np.empty(0, np.int64)


@dataclass
class Crowded:
    """Where (N,) a pod is ``refused`` with the pods ``nominated`` there; ``seen``: how long the trail was.

    ``promised`` (N,): the nodes for which any is; ``ahead``: of some, what is said once ever more such pods are there.
    """

    nominated: Delta
    promised: Bools
    refused: Bools
    seen: int
    ahead: dict[int, list[bool]] = field(default_factory=dict)


class LocalScores:
    """For pods that request what ``info`` does and count on their nodes as info ``number`` does. Arrays are (N,).

    ``scores``: weighted and added up, REFUSED where the pod does not fit. ``ahead`` (N, AHEAD): what ``scores`` will be
    when the next such pods come to the node, the entries before ``step`` being past. Raises PluginError.
    """

    def __init__(self, framework: FrameworkLike, info: PodInfo, number: int, view: Fork) -> None:
        self.info, self.number, self.view = info, number, view
        self.alike = view.pods.distinct.demand
        self.filters = _filters(framework, info, view)
        self.scorers = _scorers(framework, info, view)
        nodes = len(view.nodes)
        self.scores, self.ahead = np.zeros(nodes, np.int64), np.zeros((nodes, AHEAD), np.int64)
        self.step = np.full(nodes, AHEAD, np.int8)
        self.placed = 0
        self.seen = len(view.trail)
        self._crowded: dict[int, Crowded] = {}
        self._devices = has_backed_resources(info, view)
        self._replaced = view.objects.replaced
        self._set(view.nodes.rows, self._compute(view.nodes.rows))

    @property
    def outdated(self) -> bool:
        """Devices that count as resources of nodes were taken or freed."""
        return self._devices and self._replaced != self.view.objects.replaced

    def bring_up(self, tied: Rows | TiedRows, alone: bool = True) -> None:
        """Take in what moved: such a pod that came is known ahead, all other changed nodes are computed.

        ``tied`` are the nodes that were best when such a pod was placed, which the next may go to; ``alone``: where
        other pods are makes no difference to it.
        """
        trail, seen = self.view.trail, self.seen
        if seen == len(trail):
            return
        self.seen = len(trail)
        row, number, sign = trail.latest
        came = sign > 0 and self.alike[number] == self.alike[self.number]
        self.placed += came
        if came and self.seen - seen == 1 and self._step(row):
            return
        rows = trail.rows_since(seen)
        if came:
            coming = self._next(row, tied)
            self._compute_ahead(rows, coming, AHEAD if alone or len(coming) < NODES_OF_MANY else 1)
        else:
            self._set(rows, self._compute(rows))

    def fits(self, row: int) -> bool:
        """Whether such a pod fits on one row now, whatever else moved."""
        if self.view.touched[row] <= self.seen:
            return bool(self.scores[row] >= 0)
        return not self._refused_beside(NO_CHANGE, OwnRows(self.view, np.array([row])))[0]

    def crowded(self, nominated: Delta, priority: int) -> Bools:
        """(N,): where a pod of this priority is refused as other pods are nominated ahead of it."""
        known, now = self._crowded.get(priority), len(self.view.trail)
        if known is None or known.nominated is not nominated:
            known = self._crowded[priority] = self._newly_crowded(nominated, known)
        elif known.seen != now:
            if now - known.seen == 1:
                self._take_in(known, *self.view.trail.latest)
            elif len(rows := np.flatnonzero(known.promised & (self.view.touched > known.seen))):
                known.refused[rows] = self._refused_beside(known.nominated.restrict_to(rows), OwnRows(self.view, rows))
                known.ahead.clear()
            known.seen = now
        return known.refused

    def _newly_crowded(self, nominated: Delta, before: Crowded | None) -> Crowded:
        """Others are nominated than before: only where they differ, or where pods came or left, it is asked anew."""
        promised = np.zeros(len(self.view.nodes), np.bool_)
        promised[nominated.node] = True
        refused, asked = np.zeros_like(promised), promised
        if before is not None:
            same = ~nominated.find_differing(before.nominated, len(promised)) & (self.view.touched <= before.seen)
            refused, asked = before.refused & promised & same, promised & ~same
        rows = np.flatnonzero(asked)
        refused[rows] = self._refused_beside(nominated.restrict_to(rows), OwnRows(self.view, rows))
        return Crowded(nominated, promised, refused, len(self.view.trail))

    def _take_in(self, known: Crowded, row: int, number: int, sign: int) -> None:
        """A pod came to a node or left it: such a pod as was looked at ahead, or one that makes it another question."""
        if not known.promised[row]:
            return
        came = sign > 0 and self.alike[number] == self.alike[self.number]
        ahead = known.ahead.pop(row, []) if came else []
        if not ahead:
            more, rows = np.arange(AHEAD + 1), np.full(AHEAD + 1, row)
            there = known.nominated.restrict_to(rows[:1])
            here = np.repeat(more.astype(np.int32), len(there.node))
            repeated = Delta(here, np.tile(there.info, AHEAD + 1), np.tile(there.sign, AHEAD + 1))
            ahead = self._refused_beside(repeated, OwnRows(self.view, rows, more, self.number)).tolist()
        known.refused[row], *known.ahead[row] = ahead

    def _refused_beside(self, nominated: Delta, rows: OwnRows) -> Bools:
        """(M,): whether such a pod is refused on ``rows``, each with the pods that are nominated there."""
        refused = self._closed(rows.rows)
        for plugin, state in self.filters:
            refused |= union(plugin, self.info, rows, state, nominated)
        return refused

    def _step(self, row: int) -> bool:
        """Take in such a pod that came to a node; False when that was not computed ahead."""
        step = self.step[row]
        if step == AHEAD:
            return False
        self.scores[row], self.step[row] = self.ahead[row, step], step + 1
        return True

    def _next(self, latest: int, tied: Rows | TiedRows) -> Rows:
        """The nodes where such pods may come next: the latest again, or one of those that were as good."""
        if self.placed < PODS_OF_MANY:
            return np.array([latest])
        rows = tied.unordered() if isinstance(tied, TiedRows) else tied
        return np.append(rows[self.step[rows] == AHEAD], latest)

    def _compute_ahead(self, rows: Rows, coming: Rows, pods: int) -> None:
        """Ask about ``rows`` now, about ``coming`` with so many pods more."""
        count = len(rows)
        more = np.concatenate((np.zeros(count, np.int64), np.tile(np.arange(1, pods + 1), len(coming))))
        scores = self._compute(np.concatenate((rows, np.repeat(coming, pods))), more)
        self._set(rows, scores[:count])
        self.ahead[coming, AHEAD - pods :] = scores[count:].reshape(-1, pods)
        self.step[coming] = AHEAD - pods

    def _set(self, rows: Rows, scores: Scores) -> None:
        self.scores[rows], self.step[rows] = scores, AHEAD

    def _closed(self, rows: Rows) -> Bools:
        """(M,): the rows that take no more pods."""
        closed = self.view.closed
        return np.zeros(len(rows), np.bool_) if closed is None else closed.mask[rows]

    def _compute(self, rows: Rows, more: Rows | None = None) -> Scores:
        narrow = OwnRows(self.view, rows, more, self.number)
        refused = self._closed(rows)
        for plugin, state in self.filters:
            refused |= union(plugin, self.info, narrow, state)
        total, here = np.zeros(len(rows), np.int64), narrow.nodes.rows
        for scorer, state, weight in self.scorers:
            scores = scorer.normalize(state, scorer.score(self.info, narrow, state, here))
            total += scores if weight == 1 else weight * scores
        total[refused] = REFUSED
        return total


def _filters(framework: FrameworkLike, info: PodInfo, view: Fork) -> list[tuple[FilterPlugin, object]]:
    """The plugins with what their PreFilter leaves them; without those whose PreFilter skips the pod."""
    points = framework.plugins_at("preFilter")
    before = {p.name: p.pre_filter(info, view) for p in points if _reads_own_row(p) and offers(p, PreFilterPlugin)}
    filters = []
    for plugin in framework.plugins_at("filter"):
        if not _reads_own_row(plugin) or not offers(plugin, FilterPlugin):
            continue
        result = before.get(plugin.name)
        if result is None or result.status.code is Code.SUCCESS:
            filters.append((plugin, result.state if result else None))
    return filters


def _scorers(framework: FrameworkLike, info: PodInfo, view: Fork) -> list[tuple[Any, object, int]]:
    """The plugins with what their PreScore leaves them, and their weights; without those whose PreScore skips."""
    prepares = preparing(framework)
    scorers = []
    for plugin in framework.plugins_at("score"):
        if not _reads_own_row(plugin) or not offers(plugin, ScorePlugin):
            continue
        before = prepares[plugin.name](info, view, view.nodes.rows)
        if not before.skip:
            scorers.append((plugin, before.state, framework.profile.weights[plugin.name]))
    return scorers


def preparing(framework: FrameworkLike) -> Mapping[str, Prepare]:
    """By plugin, what is asked before its Score: its PreScore where the profile has it, or its PreFilter."""
    prepare: dict[str, Prepare] = dict.fromkeys([p.name for p in framework.plugins_at("score")], _unprepared)
    before = (p for p in framework.plugins_at("preFilter") if scores_with_pre_filter_state(p))
    prepare.update({p.name: partial(_pre_filter, p) for p in before if offers(p, PreFilterPlugin)})
    prepare.update({p.name: p.pre_score for p in framework.plugins_at("preScore") if offers(p, PreScorePlugin)})
    return prepare


def _pre_filter(plugin: PreFilterPlugin, info: PodInfo, view: Any, rows: Rows) -> PreScoreResult:
    result = plugin.pre_filter(info, view)
    return PreScoreResult(result.state, reads=result.reads)


def _unprepared(info: PodInfo, view: object, rows: Rows) -> PreScoreResult:
    return PreScoreResult()


def _reads_own_row(plugin: Plugin) -> bool:
    return reads_of(plugin) is Reads.OWN_ROW


def union(plugin: Any, info: PodInfo, view: NodeView, state: object, delta: Delta = NO_CHANGE) -> Bools:
    """(N,): the nodes that a Filter plugin refuses. Raises PluginError when it fails on one."""
    refused = np.zeros(len(view.nodes), np.bool_)
    for rejection in plugin.filter(info, view, state, delta):
        if rejection.code is Code.ERROR and rejection.mask.any():
            raise PluginError(f'running "{plugin.name}" filter plugin: {rejection.reason}')
        refused |= rejection.mask
    return refused
