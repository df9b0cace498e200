"""The scores of the nodes that are found, wherever the search for them began.

A plugin that normalizes does so over the nodes that were found, so the same node may have other scores in each search:
searches of which the scores agree, one after the other, are evaluated together.
Upstream: RunScorePlugins in pkg/scheduler/framework/runtime/framework.go, NormalizeScore of the plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Rows, Scores
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.start_indexes.windows import LOWEST, distinct, extremes
from kschedctl.scheduler.framework import Peers, ScorePlugin, peers_of

HIGHEST = np.iinfo(np.int64).max


class Scorer(Protocol):
    """One plugin's part of the scores of F nodes in a circle."""

    def keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        """(F,) each: windows that agree in them have the same scores for the same nodes."""

    def scores(self, window: int, places: Rows) -> Scores:
        """Normalized, of the nodes in these places of the circle, which windows share that agree with this one."""


class ExtremesScorer:
    """The scores of a plugin that looks at the least and the greatest raw score."""

    def __init__(self, plugin: ScorePlugin, raw: Scores) -> None:
        self.plugin, self.raw = plugin, raw

    def keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        return [*extremes(self.raw, width)]

    def scores(self, window: int, places: Rows) -> Scores:
        return self.plugin.normalize(None, self.raw[places])


class Among(Protocol):
    """Scores among any of the N nodes, which depend on how many domains those are in.

    ``counted`` (N,): the nodes that count; ``domains``: (N,) each, of the nodes.
    """

    @property
    def counted(self) -> Bools: ...

    @property
    def domains(self) -> Sequence[Ints | Rows]: ...

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores: ...

    def normalize(self, scores: Scores, counted: Bools) -> Scores: ...


class DomainsScorer:
    """The scores of a plugin that looks also at how many domains the nodes are in."""

    def __init__(self, among: Among, rows: Rows) -> None:
        self.among, self.rows, self.counted = among, rows, among.counted[rows]
        self.domains = [codes[rows] for codes in among.domains]
        self.sizes: list[tuple[int, ...]] = []
        self._raw: dict[tuple[int, ...], Scores] = {}

    def keys(self, width: int) -> list[npt.NDArray[np.int64]]:
        sizes = [distinct(codes, self.counted, width) for codes in self.domains]
        self.sizes = list(zip(*(column.tolist() for column in sizes), strict=True))
        least, greatest = np.zeros((2, len(self.rows)), np.int64)
        for wanted in dict.fromkeys(self.sizes):
            mine = np.logical_and.reduce([column == size for column, size in zip(sizes, wanted, strict=True)])
            raw = self._raw_of(wanted)
            least[mine] = extremes(np.where(self.counted, raw, HIGHEST), width)[0][mine]
            greatest[mine] = extremes(np.where(self.counted, raw, LOWEST), width)[1][mine]
        return [*sizes, least, greatest]

    def scores(self, window: int, places: Rows) -> Scores:
        return self.among.normalize(self._raw_of(self.sizes[window])[places], self.counted[places])

    def _raw_of(self, sizes: tuple[int, ...]) -> Scores:
        if sizes not in self._raw:
            self._raw[sizes] = self.among.raw_scores(self.rows, sizes)
        return self._raw[sizes]


def scorers_of(cycle: Cycle) -> Iterator[tuple[int, Scorer]]:
    """The plugins, with their weights, whose scores depend on the nodes found; not those that need all replayed."""
    plugins: dict[str, Any] = {plugin.name: plugin for plugin in cycle.framework.plugins_at("score")}
    for name, raw in cycle.scores.raw.items():
        plugin, weight = plugins[name], cycle.framework.profile.weights[name]
        if peers_of(plugin) is Peers.EXTREMES:
            yield weight, ExtremesScorer(plugin, raw)
        elif peers_of(plugin) is Peers.DOMAINS:
            yield weight, DomainsScorer(plugin.row_scores(cycle.info, cycle.view), cycle.scores.rows)


def independent(cycle: Cycle) -> Scores:
    """(F,): the weighted scores that do not depend on the nodes that are found, added up."""
    added = np.full(len(cycle.scores.rows), cycle.scores.base)
    for plugin in cycle.framework.plugins_at("score"):
        if plugin.name in cycle.scores.weighted and peers_of(plugin) is Peers.NONE:
            added = added + cycle.scores.weighted[plugin.name]
    return added


def needs_replay(cycle: Cycle) -> bool:
    """Whether a plugin scores of which nothing is known but its answers."""
    return any(p.name in cycle.scores.raw and peers_of(p) is Peers.ALL for p in cycle.framework.plugins_at("score"))
