"""The best nodes for identical pods, found by judging one example of each group of equivalent nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows, Scores
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Peers, ScorePlugin, get_peers, offers
from kschedctl.scheduler.framework.distinctions import (
    Distinction,
    DistinguishingFilter,
    DistinguishingScore,
    RowScores,
    RowVerdicts,
)
from kschedctl.scheduler.simulation.claim_answers import RejectingPlugin
from kschedctl.scheduler.simulation.local_scores import NO_ROWS, LocalScores
from kschedctl.scheduler.simulation.ranked_groups import RankedGroups, TiedRows
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.pod_info import PodInfo

MAX_GROUPS = 64
"""Up to this many groups are worthwhile in any cluster. In a large cluster, the limit is a quarter of its nodes."""
MAX_CHANGED_REJECTIONS = 32
"""If the rejections of more nodes change, the groups are rebuilt, at most once in PATIENCE pods."""
PATIENCE = 64
"""Minimum number of pods between two rebuilds of the groups."""


class FixedScores(NamedTuple):
    """A score plugin whose raw scores (N,) never change, with its state and weight."""

    plugin: ScorePlugin
    state: Any
    raw: Scores
    weight: int


class ConsultedPlugins(NamedTuple):
    """The plugins to consult about pods like `info`."""

    framework: FrameworkLike
    info: PodInfo
    local: LocalScores
    placement_independent_scores: Scores | None
    """Scores that never change, (N,), or None if all are equal."""
    fixed: Sequence[FixedScores]
    """Plugins whose raw scores never change."""
    filters: Sequence[RejectingPlugin]
    """Plugins whose verdicts change as pods move."""
    scorers: Sequence[ScorePlugin]
    """Plugins whose scores change as pods move."""

    def build_row_verdicts(self) -> list[RowVerdicts] | None:
        """Return one object per filter that judges single rows, or None if a filter cannot judge single rows.

        Raises PluginError if a plugin fails.
        """
        verdicts = []
        for plugin, runs_pre_filter, runs_filter in self.filters:
            if not (runs_pre_filter and runs_filter and offers(plugin, DistinguishingFilter)):
                return None
            row_verdicts = plugin.build_row_verdicts(self.info, self.local.view)
            if row_verdicts is None:
                return None
            verdicts.append(row_verdicts)
        return verdicts

    def build_row_scores(self) -> list[tuple[int, RowScores]] | None:
        """Return, for each scorer, its weight and an object that scores single rows.

        Return None if a scorer cannot score single rows. Raises PluginError if a plugin fails.
        """
        prepared = {plugin.name for plugin in self.framework.plugins_at("preScore")}
        scores = []
        for plugin in self.scorers:
            if plugin.name not in prepared or not offers(plugin, DistinguishingScore):
                return None
            weight = self.framework.profile.weights[plugin.name]
            scores.append((weight, plugin.build_row_scores(self.info, self.local.view)))
        return scores


class RowAnswers:
    """Verdicts and scores of the plugins for any rows in the current state."""

    def __init__(
        self, consulted: ConsultedPlugins, verdicts: Sequence[RowVerdicts], scores: Sequence[tuple[int, RowScores]]
    ) -> None:
        self.consulted, self.verdicts, self.scores = consulted, verdicts, scores

    @classmethod
    def from_plugins(cls, consulted: ConsultedPlugins) -> RowAnswers | None:
        """Build the answers, or return None if a plugin cannot answer for single rows.

        Raises PluginError if a plugin fails.
        """
        verdicts = consulted.build_row_verdicts()
        scores = consulted.build_row_scores()
        if verdicts is None or scores is None:
            return None
        return cls(consulted, verdicts, scores)

    def mask_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rows that at least one filter rejects."""
        rejected = np.zeros(len(rows), np.bool_)
        for verdicts in self.verdicts:
            rejected |= verdicts.mask_rejected_rows(rows)
        return rejected

    def compute_added_scores(self, rows: Rows, counts: Counts) -> Scores:
        """Return the weighted scores that the consulted plugins add to the local scores of `rows`.

        `counts` says how many equivalent nodes each row stands for. Scores are normalized over these nodes only.
        """
        total = np.zeros(len(rows), np.int64)
        # Raw scores that never change were computed once for all nodes. Only their normalization depends on the rows.
        for fixed in self.consulted.fixed:
            total += fixed.weight * fixed.plugin.normalize(fixed.state, fixed.raw[rows])

        # All other raw scores change as pods move.
        for weight, row_scores in self.scores:
            raw = row_scores.compute_raw_scores(rows, row_scores.count_domains(rows, counts))
            total += weight * row_scores.normalize(raw, row_scores.counted[rows])
        return total


class GroupedRanking:
    """Groups of nodes for identical pods, of which one example each is judged and scored."""

    def __init__(self, answers: RowAnswers) -> None:
        self.consulted, self.verdicts, self.scores = answers.consulted, answers.verdicts, answers.scores
        self.answers = answers
        self.rejections: RejectedRows | None = None
        self._pods_since_rebuild = 0
        self.groups = self._build_groups()

    @classmethod
    def from_plugins(cls, consulted: ConsultedPlugins) -> GroupedRanking | None:
        """Build a ranking, or return None if nodes cannot be grouped or there would be too many groups.

        Nodes cannot be grouped if a plugin cannot judge single nodes, or if a node's score may depend on all other
        nodes. Raises PluginError if a plugin fails.
        """
        # A group of equal nodes is scored by one of its nodes, which is wrong if a score depends on all other nodes.
        if any(get_peers(fixed.plugin) is Peers.ALL for fixed in consulted.fixed):
            return None
        answers = RowAnswers.from_plugins(consulted)
        if answers is None:
            return None
        ranking = cls(answers)
        return ranking if len(ranking.groups) <= ranking.max_groups else None

    def _build_groups(self) -> RankedGroups:
        """Group the nodes on which the plugins give the same answers and which are rejected for the same pods.

        Each group has the current local score of its nodes, which is INFEASIBLE if the pods never fit there.
        """
        consulted = self.consulted
        local_scores = consulted.local.scores
        if consulted.placement_independent_scores is not None:
            local_scores = local_scores + consulted.placement_independent_scores

        # Nodes are in one group if all the distinctions have equal values for them
        distinctions: list[Distinction] = []
        for verdicts in self.verdicts:
            distinctions += verdicts.distinctions
        for _, scores in self.scores:
            distinctions += scores.distinctions
        if self.rejections:
            distinctions += self.rejections.distinctions
        return RankedGroups(
            score=local_scores,
            fixed=[fixed_score.raw for fixed_score in consulted.fixed],
            distinctions=distinctions,
            trail=consulted.local.view.trail,
        )

    @property
    def max_groups(self) -> int:
        """Number of groups above which judging all nodes is as fast."""
        return max(MAX_GROUPS, len(self.groups.score) // 4)

    def drop_empty_groups(self) -> GroupedRanking | None:
        """Return this ranking, or None if it has too many groups even without its empty groups.

        Empty groups are dropped only if there are more than `max_groups` groups. At most half as many may then remain,
        so that groups are not rebuilt too often.
        """
        if len(self.groups) <= self.max_groups:
            return self
        self.groups = self._build_groups()
        return self if len(self.groups) <= self.max_groups // 2 else None

    def update(self, changed_rows: Rows = NO_ROWS) -> None:
        """Update the groups after moves of pods, and after the distinctions of `changed_rows` changed.

        The local scores must be up to date.
        """
        self.groups.update(self.consulted.local.scores, self.consulted.placement_independent_scores, changed_rows)

    def find_best_rows(self, rejected: Bools | bool = False) -> tuple[TiedRows | Rows, int] | None:
        """Return the rows that share the highest score, and the number of feasible rows.

        `rejected` marks the nodes that reject this particular pod because of its claims or of pods nominated ahead. It
        is a mask (N,), or one bool for all nodes. Return None if rejections change so often that judging all nodes is
        as fast.
        """
        # Bring the groups up to date.
        changed_rows = self._update_rejections(rejected)
        if changed_rows is None:
            return None
        self.update(changed_rows)

        groups = self.groups
        feasible, rows = groups.get_feasible_groups_and_examples()
        if not len(feasible):
            return NO_ROWS, 0
        is_local = not (self.verdicts or self.scores or self.consulted.fixed or self.rejections)
        if is_local:  # then all rows are in one group
            return groups.get_best_rows(feasible), int(groups.count[0])

        # Drop the groups whose example is rejected.
        feasible_count = groups.feasible_count
        if self.verdicts or self.rejections:
            rejected_groups = self._find_rejected_rows(rows)
            if rejected_groups.any():
                feasible, rows = feasible[~rejected_groups], rows[~rejected_groups]
                feasible_count = int(groups.count[feasible].sum())
            if not len(feasible):
                return NO_ROWS, 0

        # Score the examples of the others, and return the groups that share the highest score.
        counts = groups.count[feasible]
        total = groups.top[feasible] + self.answers.compute_added_scores(rows, counts)
        return groups.get_best_rows(feasible[total == total.max()]), feasible_count

    def _update_rejections(self, rejected: Bools | bool) -> Rows | None:
        """Apply the pod's rejections, and return the rows that changed.

        Return None if many rows change too often, so that grouping does not pay. If the groups had to be rebuilt,
        return no rows, because the new groups include all changes.
        """
        # The first pod with rejections makes them a distinction of the groups.
        if self.rejections is None:
            if rejected is False:
                return NO_ROWS
            self.rejections = RejectedRows(len(self.groups.score))
            self._pods_since_rebuild = PATIENCE
            self.rejections.update(rejected)
            self.groups = self._build_groups()
            return NO_ROWS

        # Later, few changes are handled row by row, and many changes by a rebuild from time to time.
        self._pods_since_rebuild += 1
        changed = self.rejections.update(rejected)
        if len(changed) <= MAX_CHANGED_REJECTIONS:
            return changed
        if self._pods_since_rebuild < PATIENCE:
            self.rejections.revert_update(changed)
            return None
        self._pods_since_rebuild = 0
        self.groups = self._build_groups()
        return NO_ROWS

    def _find_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rows that the filters or the pod's rejections exclude."""
        rejected = self.answers.mask_rejected_rows(rows)
        return rejected | self.rejections.mask_rejected_rows(rows) if self.rejections else rejected

    def find_rows_rejected_by_filters(self) -> Bools:
        """Return a mask (N,) of the rows that the filters reject, judging one example of each group.

        The filters are not run for groups that the local scores already rule out, so such rows are missing from the
        mask.
        """
        groups, feasible = self.groups, self.groups.feasible_groups
        is_group_rejected = np.zeros(len(groups), np.bool_)
        is_group_rejected[feasible] = self.answers.mask_rejected_rows(groups.example[feasible])
        return is_group_rejected.take(groups.group)  # from groups to their rows

    def compute_added_scores(self, rows: Rows) -> Scores | int:
        """Return the weighted scores that plugins add to the local scores of `rows`, normalized over these rows only.

        One example of each group is scored for the whole group. If no plugin adds scores, return 0 for all rows.
        """
        if not (self.scores or self.consulted.fixed):
            return 0
        groups = self.groups
        group_of_row = groups.group.take(rows)
        counts = groups.count[: len(groups)]
        example = groups.example
        if len(rows) < counts.sum():
            # Only some of the locally feasible nodes are scored, so each group needs an example among these.
            counts = np.bincount(group_of_row, minlength=len(groups))
            example = np.zeros(len(groups), np.int64)
            example[group_of_row] = rows

        # Score one example of each group, and give its score to all rows of the group.
        score_of_group = np.zeros(len(groups), np.int64)
        scored_groups = counts.nonzero()[0]
        score_of_group[scored_groups] = self.answers.compute_added_scores(example[scored_groups], counts[scored_groups])
        return score_of_group.take(group_of_row)


class RejectedRows:
    """Rejections of single nodes that apply only to the current pod, as verdicts that distinguish every node.

    They come from the pod's claims and from pods nominated with a higher priority.
    """

    def __init__(self, nodes: int) -> None:
        self.mask = np.zeros(nodes, np.int64)
        self.distinctions = [Distinction(Domains(np.arange(nodes, dtype=np.int32), nodes), self._get_mask)]

    def _get_mask(self) -> Counts:
        """Return the mask, as the value that distinguishes nodes."""
        return self.mask

    def mask_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rejected rows."""
        is_rejected: Bools = self.mask.take(rows) > 0
        return is_rejected

    def update(self, rejected: Bools | bool) -> Rows:
        """Replace the rejections: reject exactly the nodes in `rejected`, and return the rows whose verdict changed."""
        changed: Rows = (self.mask != rejected).nonzero()[0]
        self.mask[changed] ^= 1  # flip 0 and 1
        return changed

    def revert_update(self, changed: Rows) -> None:
        """Restore the rejections before the latest update, which returned the rows `changed`."""
        self.mask[changed] ^= 1  # the update flipped them
