"""The best nodes for pods alike, found by looking at one node of each group whose nodes no plugin tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Peers, ScorePlugin, offers, peers_of
from kschedctl.scheduler.framework.distinctions import DistinguishingFilter, DistinguishingScore, RowScores, RowVerdicts
from kschedctl.scheduler.simulation.claim_answers import Refusing
from kschedctl.scheduler.simulation.local_scores import NOWHERE, LocalScores
from kschedctl.scheduler.simulation.ranked_groups import RankedGroups, TiedRows
from kschedctl.snapshot.pod_info import PodInfo

MOST_GROUPS = 64
"""So many groups are worth their while in any cluster; in a large one as many as a quarter of its nodes."""


class FixedScores(NamedTuple):
    """A plugin of which the raw scores (N,) never change, with its state and weight."""

    plugin: ScorePlugin
    state: Any
    raw: Scores
    weight: int


class AskedPlugins(NamedTuple):
    """Who is asked about pods like ``info``: ``always`` (N,) and ``fixed`` never change, what the others say does."""

    framework: FrameworkLike
    info: PodInfo
    local: LocalScores
    always: Scores | None
    fixed: Sequence[FixedScores]
    filters: Sequence[Refusing]
    scorers: Sequence[ScorePlugin]

    def verdicts(self) -> list[RowVerdicts] | None:
        """Those of all filters; None where one cannot tell them of single rows. Raises PluginError."""
        verdicts = []
        for plugin, prepares, filters in self.filters:
            if not (prepares and filters and offers(plugin, DistinguishingFilter)):
                return None
            judging = plugin.verdicts(self.info, self.local.view)
            if judging is None:
                return None
            verdicts.append(judging)
        return verdicts

    def scores(self) -> list[tuple[int, RowScores]] | None:
        """Those of all scorers, with their weights, or None in the same way. Raises PluginError."""
        prepared = {plugin.name for plugin in self.framework.at("preScore")}
        scores = []
        for plugin in self.scorers:
            if plugin.name not in prepared or not offers(plugin, DistinguishingScore):
                return None
            weight = self.framework.profile.weights[plugin.name]
            scores.append((weight, plugin.among(self.info, self.local.view)))
        return scores


class GroupedRanking:
    """The groups of nodes for pods alike, and those who judge and score them by an example of each."""

    def __init__(
        self, asked: AskedPlugins, verdicts: Sequence[RowVerdicts], scores: Sequence[tuple[int, RowScores]]
    ) -> None:
        self.asked, self.verdicts, self.scores = asked, verdicts, scores
        self._alone = not (verdicts or scores or asked.fixed)
        self.groups = self._grouped()

    @classmethod
    def of(cls, asked: AskedPlugins) -> GroupedRanking | None:
        """None where some plugin does not say how it tells nodes apart, or tells too many apart. Raises PluginError."""
        if any(peers_of(fixed.plugin) is Peers.ALL for fixed in asked.fixed):
            return None
        verdicts, scores = asked.verdicts(), asked.scores()
        if verdicts is None or scores is None:
            return None
        ranking = cls(asked, verdicts, scores)
        return None if ranking.too_many else ranking

    def _grouped(self) -> RankedGroups:
        asked = self.asked
        local = asked.local.scores if asked.always is None else asked.local.scores + asked.always
        distinctions = [distinction for verdicts in self.verdicts for distinction in verdicts.distinctions]
        distinctions += [distinction for _, scores in self.scores for distinction in scores.distinctions]
        return RankedGroups(local, [fixed.raw for fixed in asked.fixed], distinctions, asked.local.view.trail)

    @property
    def too_many(self) -> bool:
        """There are so many groups that looking at all nodes is as well."""
        return len(self.groups) > max(MOST_GROUPS, len(self.groups.score) // 4)

    def rank(self) -> tuple[TiedRows | Rows, int]:
        """The rows that share the highest score, and how many rows fit; the local scores are up to date."""
        self.groups.bring_up(self.asked.local.scores, self.asked.always)
        if self.too_many:  # most are empty by now
            self.groups = self._grouped()
        groups = self.groups
        live = groups.live
        if self._alone or not len(live):
            return (groups.tied(live), int(groups.count[0])) if len(live) else (NOWHERE, 0)
        rows = groups.example[live]
        refused = np.zeros(len(rows), np.bool_)
        for verdicts in self.verdicts:
            refused |= verdicts.refused(rows)
        if refused.any():
            live, rows = live[~refused], rows[~refused]
            if not len(live):
                return NOWHERE, 0
        total, fitting = self._total(live, rows)
        return groups.tied(live[total == total.max()]), fitting

    def _total(self, live: Rows, rows: Rows) -> tuple[Scores, int]:
        """The best total of each group, but for what all rows share, and how many rows these groups have."""
        total, counts = self.groups.top[live], self.groups.count[live]
        for plugin, state, raw, weight in self.asked.fixed:
            total += weight * plugin.normalize(state, raw[rows])
        for weight, scores in self.scores:
            raw = scores.raw(rows, scores.sizes(rows, counts))
            total += weight * scores.normalized(raw, scores.counted[rows])
        return total, int(counts.sum())
