"""One pod's search for nodes from every index at which it may begin: what it looks at, and what its choice costs.

Upstream: findNodesThatPassFilters and prioritizeNodes in pkg/scheduler/schedule_one.go (v1.36), with a parallelism
of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Scores
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders.extender import Offered
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.engine.start_indexes.scorers import Scorer, independent, needs_replay, scorers_of
from kschedctl.scheduler.engine.start_indexes.windows import Best, best_in_windows, runs


@dataclass(frozen=True)
class Searches:
    """(S,) each, of the searches from S indices on, when so many nodes that fit are enough.

    ``found``: how many nodes are scored, in all of them the same. ``examined``: how many are looked at. ``ties``: how
    many of those found share the highest score; one of them is picked at random. ``lost``: what these lack together, in
    points of the score among all nodes, to the best of all. ``hits``: how many of them are among the best of all.
    """

    found: int
    examined: Counts
    ties: Counts
    lost: Counts
    hits: Counts

    @property
    def expected_loss(self) -> npt.NDArray[np.float64]:
        """(S,): the points that the pick loses, on average over ties."""
        return self.lost / np.maximum(self.ties, 1)

    @property
    def missed(self) -> Bools:
        """(S,): none of those that may be picked is among the best of all."""
        none: Bools = (self.hits == 0) & (self.found > 0)
        return none


class EveryStart:
    """The searches of a pod, of which ``cycle`` looked at all nodes without an error and without asking extenders."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        offered = np.flatnonzero(selected_by_name(cycle.pre_filter, cycle.view) & cycle.view.in_placement)
        self.offered = len(offered)
        self.starts = np.arange(cycle.view.nodes_in_placement) % max(self.offered, 1)
        self.places = np.flatnonzero(cycle.filter.passing[offered])
        """(F,): where the nodes that fit are among those offered."""

    def enough(self, wanted: int) -> Searches:
        """What the searches come to when so many nodes that fit are enough."""
        if len(self.places) <= wanted:
            return self._all()
        first = np.searchsorted(self.places, self.starts)
        rounds = np.concatenate((self.places, self.places + self.offered))
        examined = rounds[first + wanted] - self.starts  # all up to the first that is not needed any more
        ties, lost, hits = self._picks(wanted).sums[:, first % len(self.places)]
        return Searches(wanted, examined, ties, lost, hits)

    def _all(self) -> Searches:
        """All nodes are looked at, and the best is found."""
        ones = np.ones(len(self.starts), np.int64)
        best = len(self.cycle.scores.best) * ones
        return Searches(len(self.places), self.offered * ones, best, 0 * ones, best)

    def _picks(self, wanted: int) -> Best:
        """(F,), and (3, F): of the search that first finds each of the nodes."""
        if needs_replay(self.cycle):
            return self._replayed(wanted)
        count = len(self.places)
        keyed = [(weight, scorer, scorer.keys(wanted)) for weight, scorer in self._scorers]
        parts = []
        for begin, end in runs([key for *_, keys in keyed for key in keys], count, wanted):
            places = np.arange(begin, end + wanted - 1) % count
            total = self._independent[places]
            for weight, scorer, _ in keyed:
                total = total + weight * scorer.scores(begin, places)
            parts.append(best_in_windows(total, self._columns[:, places], wanted))
        return Best(np.concatenate([part.top for part in parts]), np.hstack([part.sums for part in parts]))

    def _replayed(self, wanted: int) -> Best:
        """(F,), and (3, F): the best of each search, each scored by itself."""
        cycle, count = self.cycle, len(self.places)
        tops, sums = np.zeros(count, np.int64), np.zeros((len(self._columns), count), np.int64)
        for begin in range(count):
            places = np.sort(np.arange(begin, begin + wanted) % count)
            nodes = Offered.of(cycle.view.nodes, cycle.scores.rows[places])
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, cycle.view, nodes)
            tops[begin] = scores.total.max()
            sums[:, begin] = self._columns[:, places[scores.top]].sum(axis=1)
        return Best(tops, sums)

    @cached_property
    def _columns(self) -> npt.NDArray[np.int64]:
        """(3, F): one, what the node lacks to the best of all, and whether it is one of these."""
        lacks = self.cycle.scores.total.max() - self.cycle.scores.total
        return np.stack((np.ones_like(lacks), lacks, lacks == 0)).astype(np.int64)

    @cached_property
    def _scorers(self) -> list[tuple[int, Scorer]]:
        return list(scorers_of(self.cycle))

    @cached_property
    def _independent(self) -> Scores:
        return independent(self.cycle)
