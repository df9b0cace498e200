"""All searches for nodes of one pod, one for each index at which a search may begin, and the quality of their choices.

Upstream: findNodesThatPassFilters and prioritizeNodes in pkg/scheduler/schedule_one.go (v1.36), with a parallelism of
1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Scores
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders.extender import OfferedNodes
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.engine.start_indexes.scorers import Scorer, iter_scorers, needs_replay, sum_independent_scores
from kschedctl.scheduler.engine.start_indexes.windows import Best, best_in_windows, find_runs


@dataclass(frozen=True)
class Searches:
    """Results of the searches from S start indexes, with a given number of feasible nodes to find."""

    scored: int
    """Number of nodes that are scored, the same in all searches."""
    examined: Counts
    """(S,): number of nodes examined."""
    ties: Counts
    """(S,): number of sampled nodes that share the highest score; one of them is picked at random."""
    lost: Counts
    """(S,): total of what the tied nodes lack, in points of the score among all nodes, to the best node of all."""
    hits: Counts
    """(S,): number of tied nodes that are among the best of all nodes."""

    @property
    def expected_loss(self) -> npt.NDArray[np.float64]:
        """(S,): the expected number of points that the pick loses."""
        return self.lost / np.maximum(self.ties, 1)

    @property
    def missed(self) -> Bools:
        """(S,): whether no tied node is among the best of all nodes."""
        none: Bools = (self.hits == 0) & (self.scored > 0)
        return none


class EveryStart:
    """The searches of a pod whose `cycle` examined all nodes, without an error and without extenders."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        offered = np.flatnonzero(selected_by_name(cycle.pre_filter, cycle.view) & cycle.view.in_placement)
        self.offered = len(offered)
        self.starts = np.arange(cycle.view.nodes_in_placement) % max(self.offered, 1)
        self.places = np.flatnonzero(cycle.filter.passing[offered])
        """(F,): where the nodes that fit are among those offered."""

    def search_for(self, wanted: int) -> Searches:
        """Return the results if `wanted` feasible nodes are enough."""
        if len(self.places) <= wanted:
            return self._search_all()
        first = np.searchsorted(self.places, self.starts)
        rounds = np.concatenate((self.places, self.places + self.offered))
        examined = rounds[first + wanted] - self.starts  # all up to the first that is not needed any more
        ties, lost, hits = self._find_best(wanted).sums[:, first % len(self.places)]
        return Searches(wanted, examined, ties, lost, hits)

    def _search_all(self) -> Searches:
        """Return the results if all nodes are examined and the best is found."""
        ones = np.ones(len(self.starts), np.int64)
        best = len(self.cycle.scores.best) * ones
        return Searches(len(self.places), self.offered * ones, best, 0 * ones, best)

    def _find_best(self, wanted: int) -> Best:
        """Return the best nodes of the searches, by the node that each search finds first."""
        if needs_replay(self.cycle):
            return self._score_each_search(wanted)
        count = len(self.places)
        keyed = [(weight, scorer, scorer.window_keys(wanted)) for weight, scorer in self._scorers]
        parts = []
        for begin, end in find_runs([key for *_, keys in keyed for key in keys], count, wanted):
            places = np.arange(begin, end + wanted - 1) % count
            total = self._independent[places]
            for weight, scorer, _ in keyed:
                total = total + weight * scorer.normalized_scores(begin, places)
            parts.append(best_in_windows(total, self._columns[:, places], wanted))
        return Best(np.concatenate([part.top for part in parts]), np.hstack([part.sums for part in parts]))

    def _score_each_search(self, wanted: int) -> Best:
        """Return the best nodes of each search by scoring every search separately."""
        cycle, count = self.cycle, len(self.places)
        tops, sums = np.zeros(count, np.int64), np.zeros((len(self._columns), count), np.int64)
        for begin in range(count):
            places = np.sort(np.arange(begin, begin + wanted) % count)
            nodes = OfferedNodes.from_rows(cycle.view.nodes, cycle.scores.rows[places])
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, cycle.view, nodes)
            tops[begin] = scores.total.max()
            sums[:, begin] = self._columns[:, places[scores.top]].sum(axis=1)
        return Best(tops, sums)

    @cached_property
    def _columns(self) -> npt.NDArray[np.int64]:
        """(3, F): 1, the points that the node lacks to the best of all, and whether it is one of the best."""
        lacks = self.cycle.scores.total.max() - self.cycle.scores.total
        return np.stack((np.ones_like(lacks), lacks, lacks == 0)).astype(np.int64)

    @cached_property
    def _scorers(self) -> list[tuple[int, Scorer]]:
        """Weight and scorer of each plugin whose scores depend on the sampled nodes."""
        return list(iter_scorers(self.cycle))

    @cached_property
    def _independent(self) -> Scores:
        """The sum of the scores that do not depend on the sampled nodes."""
        return sum_independent_scores(self.cycle)
