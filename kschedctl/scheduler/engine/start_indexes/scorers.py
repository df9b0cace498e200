"""Scores of the sampled nodes, for every index at which the search may begin.

Plugins normalize over the sampled nodes, so a node's score may differ between searches. Consecutive searches in which
the scores agree are evaluated together. Upstream: RunScorePlugins in pkg/scheduler/framework/runtime/framework.go,
NormalizeScore of the plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Rows, Scores
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.start_indexes.windows import LOWEST, count_distinct, window_min_and_max
from kschedctl.scheduler.framework import Peers, ScorePlugin, peers_of

HIGHEST = np.iinfo(np.int64).max


class Scorer(Protocol):
    """One plugin's scores of F nodes that are arranged in a circle."""

    def window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        """Return arrays (F,); windows with equal keys give the same nodes the same scores."""

    def normalized_scores(self, window: int, places: Rows) -> Scores:
        """Return normalized scores of the nodes at these places, for windows that agree with this one."""


class ExtremesScorer:
    """Scores of a plugin that depends on the lowest and the highest raw score."""

    def __init__(self, plugin: ScorePlugin, raw: Scores) -> None:
        self.plugin, self.raw = plugin, raw

    def window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        return [*window_min_and_max(self.raw, width)]

    def normalized_scores(self, window: int, places: Rows) -> Scores:
        return self.plugin.normalize(None, self.raw[places])


class DomainScores(Protocol):
    """Scores of any of the N nodes that depend on the number of topology domains among the scored nodes."""

    @property
    def counted(self) -> Bools: ...

    @property
    def domains(self) -> Sequence[Ints | Rows]: ...

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores: ...

    def normalize(self, scores: Scores, counted: Bools) -> Scores: ...


class DomainsScorer:
    """Scores of a plugin that depends also on the number of topology domains among the scored nodes."""

    def __init__(self, among: DomainScores, rows: Rows) -> None:
        self.among, self.rows, self.counted = among, rows, among.counted[rows]
        self.domains = [codes[rows] for codes in among.domains]
        self.sizes: list[tuple[int, ...]] = []
        self._raw: dict[tuple[int, ...], Scores] = {}

    def window_keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        sizes = [count_distinct(codes, self.counted, width) for codes in self.domains]
        self.sizes = list(zip(*(column.tolist() for column in sizes), strict=True))
        least, greatest = np.zeros((2, len(self.rows)), np.int64)
        for window_sizes in dict.fromkeys(self.sizes):
            matching = np.logical_and.reduce([column == size for column, size in zip(sizes, window_sizes, strict=True)])
            raw = self._raw_scores(window_sizes)
            least[matching] = window_min_and_max(np.where(self.counted, raw, HIGHEST), width)[0][matching]
            greatest[matching] = window_min_and_max(np.where(self.counted, raw, LOWEST), width)[1][matching]
        return [*sizes, least, greatest]

    def normalized_scores(self, window: int, places: Rows) -> Scores:
        return self.among.normalize(self._raw_scores(self.sizes[window])[places], self.counted[places])

    def _raw_scores(self, sizes: tuple[int, ...]) -> Scores:
        """Return the raw scores for the given numbers of domains, from a cache."""
        if sizes not in self._raw:
            self._raw[sizes] = self.among.raw_scores(self.rows, sizes)
        return self._raw[sizes]


def iter_scorers(cycle: Cycle) -> Iterator[tuple[int, Scorer]]:
    """Yield weight and scorer of the plugins whose scores depend on the sampled nodes, except those with Peers.ALL."""
    plugins: dict[str, Any] = {plugin.name: plugin for plugin in cycle.framework.plugins_at("score")}
    for name, raw in cycle.scores.raw.items():
        plugin, weight = plugins[name], cycle.framework.profile.weights[name]
        if peers_of(plugin) is Peers.EXTREMES:
            yield weight, ExtremesScorer(plugin, raw)
        elif peers_of(plugin) is Peers.DOMAINS:
            yield weight, DomainsScorer(plugin.row_scores(cycle.info, cycle.view), cycle.scores.rows)


def sum_independent_scores(cycle: Cycle) -> Scores:
    """Return the sum of the weighted scores that do not depend on the sampled nodes, (F,)."""
    added = np.full(len(cycle.scores.rows), cycle.scores.base)
    for plugin in cycle.framework.plugins_at("score"):
        if plugin.name in cycle.scores.weighted and peers_of(plugin) is Peers.NONE:
            added = added + cycle.scores.weighted[plugin.name]
    return added


def needs_replay(cycle: Cycle) -> bool:
    """Return whether a scoring plugin declares nothing about what its scores depend on."""
    return any(p.name in cycle.scores.raw and peers_of(p) is Peers.ALL for p in cycle.framework.plugins_at("score"))
