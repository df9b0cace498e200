"""The best nodes for copies of one pod that are placed one after another.

Only the node that got the latest copy changes its local score and its group, so no other node is judged anew.
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.scheduler.framework import offers
from kschedctl.scheduler.framework.distinctions import AlikeNodes, NodeGroupingScore
from kschedctl.scheduler.simulation.grouped_ranking import ConsultedPlugins
from kschedctl.scheduler.simulation.local_scores import NO_ROWS


class CopyRanking:
    """The scores of all nodes for the next copy of a pod. They are valid as long as only copies of this pod arrive."""

    def __init__(self, consulted: ConsultedPlugins, lasting: Scores, groups: AlikeNodes, weight: int) -> None:
        self._consulted, self._local, self._trail = consulted, consulted.local, consulted.local.view.trail
        self._seen = len(self._trail)
        """Length of the trail when the scores were brought up to date."""
        self._lasting = lasting
        """(N,) the scores that copies change only by making nodes infeasible."""
        self._ungrouped = consulted.local.scores + lasting
        """(N,) the scores of all plugins that do not group nodes, negative on infeasible nodes."""
        self._feasible_count = int(np.count_nonzero(self._ungrouped >= 0))
        self._groups, self._weight = groups, weight
        self._group_scores = b""
        """The scores of the groups that `_total` contains, as bytes; empty if `_total` has to be computed anew."""
        self._total = self._ungrouped
        """(N,) the scores of all plugins, negative on infeasible nodes."""
        self._best_rows = NO_ROWS

    @classmethod
    def from_plugins(cls, consulted: ConsultedPlugins) -> CopyRanking | None:
        """Build the ranking, or return None if copies cannot be ranked in this way.

        A placed copy must not change any filter's verdict on other nodes, and must change the scores of exactly one
        plugin. This plugin must run PreScore and be able to group the nodes. The local scores must be up to date.
        Raises PluginError if a plugin fails.
        """
        changing_filters, changing_scorers = consulted.filters, consulted.scorers
        if changing_filters or len(changing_scorers) != 1:
            return None
        [scorer] = changing_scorers
        runs_pre_score = any(plugin.name == scorer.name for plugin in consulted.framework.plugins_at("preScore"))
        if not runs_pre_score or not offers(scorer, NodeGroupingScore):
            return None
        lasting_scores = _sum_lasting_scores(consulted)
        total_scores = consulted.local.scores + lasting_scores
        is_feasible = total_scores >= 0  # infeasible nodes have very negative local scores
        groups = scorer.group_nodes(consulted.info, consulted.local.view, is_feasible)
        weight = consulted.framework.profile.weights[scorer.name]
        return None if groups is None else cls(consulted, lasting_scores, groups, weight)

    def find_best_rows(self) -> tuple[Rows, int] | None:
        """Return, in ascending order, the rows that share the highest score, and the number of feasible rows.

        Return None if more than one pod moved since the last call, or if the pod that moved is not an arriving copy.
        Raises PluginError if a plugin fails.
        """
        new_moves = len(self._trail) - self._seen
        if new_moves > 1 or (new_moves and not self._has_copy_arrived()):
            return None
        changed_row = None
        if new_moves:
            changed_row = self._trail.latest.row
            self._rescore_row(changed_row)
            self._seen += 1
        if not self._feasible_count:
            return NO_ROWS, 0
        self._update_total(changed_row)
        self._best_rows = (self._total == self._total.max()).nonzero()[0]
        return self._best_rows, self._feasible_count

    def _update_total(self, changed_row: int | None) -> None:
        """Update the total scores after the node in row `changed_row` got a copy. With None, recompute all of them.

        If the scores of all groups are the same as before, which is common, only this node's score changes. Otherwise,
        all total scores are recomputed.
        """
        group_of_row = self._groups.group
        group_scores = self._weight * self._groups.score_groups()
        scores_as_bytes = group_scores.tobytes()  # bytes compare faster than short arrays
        if changed_row is not None and scores_as_bytes == self._group_scores:
            self._total[changed_row] = group_scores[group_of_row[changed_row]] + self._ungrouped[changed_row]
        else:
            self._total = group_scores.take(group_of_row)
            self._total += self._ungrouped
            self._group_scores = scores_as_bytes

    def _has_copy_arrived(self) -> bool:
        """Return whether the latest move brought a copy of the pod to a node."""
        _, number, sign = self._trail.latest
        return sign > 0 and number == self._consulted.info.number

    def _rescore_row(self, row: int) -> None:
        """Update the scores and the group of the node in this row after a copy was placed there.

        If the node has become infeasible, scores that are normalized among the feasible nodes are computed again.
        """
        self._local.bring_up_to_date(self._best_rows)
        local_score = self._local.scores[row]
        is_feasible = bool(local_score >= 0)
        self._groups.update_row(row, is_feasible=is_feasible)
        self._ungrouped[row] = local_score + self._lasting[row]
        if is_feasible:
            return
        self._feasible_count -= 1
        has_normalized_scores = bool(self._consulted.fixed)
        if has_normalized_scores:
            self._lasting = _sum_lasting_scores(self._consulted)
            self._ungrouped = self._local.scores + self._lasting
            self._group_scores = b""  # so that all total scores are computed again


def _sum_lasting_scores(consulted: ConsultedPlugins) -> Scores:
    """Return the sums (N,) of the scores that placing copies does not change, other than the local scores.

    Raw scores of `consulted.fixed` are normalized among the nodes that are feasible now.
    """
    lasting = (
        np.zeros(len(consulted.local.scores), np.int64)
        if consulted.placement_independent_scores is None
        else consulted.placement_independent_scores.copy()
    )
    is_feasible = consulted.local.scores + lasting >= 0  # infeasible nodes have very negative local scores
    feasible_rows = np.flatnonzero(is_feasible)
    for plugin, state, raw_scores, weight in consulted.fixed:
        lasting[feasible_rows] += weight * plugin.normalize(state, raw_scores[feasible_rows])
    return lasting
