"""The best nodes for pods alike, found by looking at one node of each group whose nodes no plugin tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows, Scores
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Peers, ScorePlugin, offers, peers_of
from kschedctl.scheduler.framework.distinctions import (
    Distinction,
    DistinguishingFilter,
    DistinguishingScore,
    RowScores,
    RowVerdicts,
)
from kschedctl.scheduler.simulation.claim_answers import Refusing
from kschedctl.scheduler.simulation.local_scores import NOWHERE, LocalScores
from kschedctl.scheduler.simulation.ranked_groups import RankedGroups, TiedRows
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.pod_info import PodInfo

MOST_GROUPS = 64
"""So many groups are worth their while in any cluster; in a large one as many as a quarter of its nodes."""
MOST_CHANGED = 32
"""Where more rows are refused or no longer, the groups are made anew, once in so many pods as ``PATIENCE``."""
PATIENCE = 64


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
            judging = plugin.row_verdicts(self.info, self.local.view)
            if judging is None:
                return None
            verdicts.append(judging)
        return verdicts

    def scores(self) -> list[tuple[int, RowScores]] | None:
        """Those of all scorers, with their weights, or None in the same way. Raises PluginError."""
        prepared = {plugin.name for plugin in self.framework.plugins_at("preScore")}
        scores = []
        for plugin in self.scorers:
            if plugin.name not in prepared or not offers(plugin, DistinguishingScore):
                return None
            weight = self.framework.profile.weights[plugin.name]
            scores.append((weight, plugin.row_scores(self.info, self.local.view)))
        return scores


class RowAnswers:
    """What those who judge and score pods alike say of any rows, as pods are now."""

    def __init__(
        self, asked: AskedPlugins, verdicts: Sequence[RowVerdicts], scores: Sequence[tuple[int, RowScores]]
    ) -> None:
        self.asked, self.verdicts, self.scores = asked, verdicts, scores

    @classmethod
    def of(cls, asked: AskedPlugins) -> RowAnswers | None:
        """None where some plugin does not say how it tells nodes apart. Raises PluginError."""
        verdicts, scores = asked.verdicts(), asked.scores()
        return None if verdicts is None or scores is None else cls(asked, verdicts, scores)

    def refused(self, rows: Rows) -> Bools:
        """(F,): which of the rows the filters refuse."""
        refused = np.zeros(len(rows), np.bool_)
        for verdicts in self.verdicts:
            refused |= verdicts.rejected(rows)
        return refused

    def added(self, rows: Rows, counts: Counts) -> Scores:
        """(F,): what is added to the local scores where each row stands for so many, and no others are scored."""
        added = np.zeros(len(rows), np.int64)
        for plugin, state, raw, weight in self.asked.fixed:
            added += weight * plugin.normalize(state, raw[rows])
        for weight, scores in self.scores:
            raw = scores.raw_scores(rows, scores.count_domains(rows, counts))
            added += weight * scores.normalize(raw, scores.counted[rows])
        return added


class GroupedRanking:
    """The groups of nodes for pods alike, of which ``answers`` judges and scores an example of each."""

    def __init__(self, answers: RowAnswers) -> None:
        self.asked, self.verdicts, self.scores = answers.asked, answers.verdicts, answers.scores
        self.answers = answers
        self.refusing: RejectedRows | None = None
        self._ranked = 0
        self.groups = self._grouped()

    @classmethod
    def of(cls, asked: AskedPlugins) -> GroupedRanking | None:
        """None where some plugin does not say how it tells nodes apart, or tells too many apart. Raises PluginError."""
        if any(peers_of(fixed.plugin) is Peers.ALL for fixed in asked.fixed):
            return None
        answers = RowAnswers.of(asked)
        if answers is None:
            return None
        ranking = cls(answers)
        return ranking if len(ranking.groups) <= ranking.most else None

    def _grouped(self) -> RankedGroups:
        asked = self.asked
        local = asked.local.scores if asked.always is None else asked.local.scores + asked.always
        distinctions = [distinction for verdicts in self.verdicts for distinction in verdicts.distinctions]
        distinctions += [distinction for _, scores in self.scores for distinction in scores.distinctions]
        distinctions += self.refusing.distinctions if self.refusing else []
        return RankedGroups(local, [fixed.raw for fixed in asked.fixed], distinctions, asked.local.view.trail)

    @property
    def most(self) -> int:
        """With more groups looking at all nodes is as well."""
        return max(MOST_GROUPS, len(self.groups.score) // 4)

    def in_few_groups(self) -> GroupedRanking | None:
        """This ranking, without empty groups where there are many; None where these are not the most part."""
        if len(self.groups) <= self.most:
            return self
        self.groups = self._grouped()
        return self if len(self.groups) <= self.most // 2 else None

    def bring_up(self, more: Rows = NOWHERE) -> None:
        """Take in what moved, and what changed on ``more`` rows; the local scores are up to date."""
        self.groups.bring_up(self.asked.local.scores, self.asked.always, more)

    def rank(self, refused: Bools | bool = False) -> tuple[TiedRows | Rows, int] | None:
        """The rows that share the highest score, and how many rows fit.

        ``rejected`` (N,), or of all: for the pod's claims, or for pods nominated ahead of it. None if that is another
        answer so often that looking at all nodes is as well.
        """
        more = self._refuse(refused)
        if more is None:
            return None
        self.bring_up(more)
        groups = self.groups
        live = groups.live
        alone = not (self.verdicts or self.scores or self.asked.fixed or self.refusing)
        if alone or not len(live):
            return (groups.tied(live), int(groups.count[0])) if len(live) else (NOWHERE, 0)
        rows = groups.example[live]
        if (self.verdicts or self.refusing) and (refused := self._refused_to_it(rows)).any():
            live, rows = live[~refused], rows[~refused]
            if not len(live):
                return NOWHERE, 0
        counts = groups.count[live]
        total = groups.top[live] + self.answers.added(rows, counts)
        return groups.tied(live[total == total.max()]), int(counts.sum())

    def _refuse(self, refused: Bools | bool) -> Rows | None:
        """Take in which rows are refused besides; those to be looked at for that, None for too many too often."""
        if self.refusing is None:
            if refused is False:
                return NOWHERE
            self.refusing, self._ranked = RejectedRows(len(self.groups.score)), PATIENCE
            self.refusing.update(refused)
            self.groups = self._grouped()
            return NOWHERE
        self._ranked += 1
        changed = self.refusing.update(refused)
        if len(changed) <= MOST_CHANGED:
            return changed
        if self._ranked < PATIENCE:
            self.refusing.mask[changed] ^= 1
            return None
        self._ranked, self.groups = 0, self._grouped()
        return NOWHERE

    def _refused_to_it(self, rows: Rows) -> Bools:
        """(F,): by filters, or besides."""
        refused = self.answers.refused(rows)
        return refused | self.refusing.rejected(rows) if self.refusing else refused

    def refused(self) -> Bools:
        """(N,): the rows that the filters refuse, of those whose local score does not say so."""
        groups, live = self.groups, self.groups.live
        by_group = np.zeros(len(groups), np.bool_)
        by_group[live] = self.answers.refused(groups.example[live])
        return by_group.take(groups.group)

    def added(self, rows: Rows) -> Scores | int:
        """(F,): what the score plugins add to the local scores of rows that alone are scored."""
        if not (self.scores or self.asked.fixed):
            return 0
        groups, by_group = self.groups, np.zeros(len(self.groups), np.int64)
        codes, counts, example = groups.group.take(rows), groups.count[: len(groups)], groups.example
        if len(rows) < counts.sum():  # not all that fit by their local scores
            counts, example = np.bincount(codes, minlength=len(groups)), np.zeros(len(groups), np.int64)
            example[codes] = rows
        scored = counts.nonzero()[0]
        by_group[scored] = self.answers.added(example[scored], counts[scored])
        return by_group.take(codes)


class RejectedRows:
    """Rejections of single nodes that apply to the current pod only, as verdicts that distinguish every node.

    They come from the pod's claims and from pods nominated with a higher priority.
    """

    def __init__(self, nodes: int) -> None:
        self.mask = np.zeros(nodes, np.int64)
        self.distinctions = [Distinction(Domains(np.arange(nodes, dtype=np.int32), nodes), self._get_mask)]

    def _get_mask(self) -> Counts:
        """Return the mask, as the value that distinguishes nodes."""
        return self.mask

    def rejected(self, rows: Rows) -> Bools:
        """Return which of the rows are rejected, (F,)."""
        refused: Bools = self.mask.take(rows) > 0
        return refused

    def update(self, refused: Bools | bool) -> Rows:
        """Reject exactly these nodes, and return the rows whose verdict changed."""
        changed: Rows = (self.mask != refused).nonzero()[0]
        self.mask[changed] ^= 1
        return changed
