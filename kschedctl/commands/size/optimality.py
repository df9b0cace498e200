"""Exhaustive check of the node sets that cost less than the best one found so far.

A few sets are probed first to find a cheaper one. Then all are tried from the cheapest upwards. If none takes all pods,
the best set is optimal, however far it is from the lower bound. This is a branch and bound with cuts as relaxation and
replays as leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.program import ROUNDING_SHARE, Counts, Cut, PackingProgram, Table
from kschedctl.commands.size.search import NEGLIGIBLE_SHARE, SearchTask, SetSearch

MAX_SETS = 100_000
"""The maximum number of sets that are enumerated."""
PROBES = (1 / 2, 3 / 4, 7 / 8, 15 / 16)
"""Positions of the probed sets, as shares of the way from the cheapest to the best set."""
MAX_REPLAYS = 256
"""The number of sets above which only probes are replayed."""
BATCH_SIZE = 16
"""The number of sets that are replayed before their results are looked at."""
Sets = npt.NDArray[np.int64]


class TriedSet(NamedTuple):
    """A replayed set."""

    counts: Counts
    takes_all: bool | None
    """Whether all pods got a node; None if there was no time left."""


def try_set(search: SetSearch, task: SearchTask) -> TriedSet:
    """Replay a set and return whether all pods get a node, except those that no set takes."""
    if task.is_late:
        return TriedSet(task.counts, None)
    return TriedSet(task.counts, search.sets.takes_all(task.counts, task.homeless))


@dataclass(eq=False)
class OptimalityCheck:
    """The search through all sets that cost less than the best one."""

    sets: Sequence[tuple[float, Counts]]
    """Cost and counts of the cheaper sets, cheapest first."""
    replay_sets: Callable[[Sequence[Counts]], Iterable[TriedSet]]
    """The function that replays sets."""
    best: Counts | None = None
    """The cheapest set that takes all pods, if one was found."""
    refuted: set[int] = field(default_factory=set)
    """Positions of sets that do not take all pods."""
    first: int = 0
    """The position of the cheapest set that is not refuted."""

    def __post_init__(self) -> None:
        self._end = len(self.sets)

    @property
    def is_closed(self) -> bool:
        """Whether no set that costs less than the best one takes all pods."""
        return self.first == self._end

    def search(self) -> None:
        """Search until no cheaper set is left, time is up, or too many sets are left and probes no longer help."""
        self._probe()
        while not self.is_closed and self._end - len(self.refuted) <= MAX_REPLAYS:
            remaining = range(self.first, self._end)
            if not self._replay_positions(
                list(islice((index for index in remaining if index not in self.refuted), BATCH_SIZE))
            ):
                return

    def _probe(self) -> None:
        """Look for a cheaper set in ever smaller steps from the best one, until no probe takes all pods."""
        end = None
        while self._end and end != self._end:
            end = self._end
            if not self._replay_positions(sorted({int(end * share) for share in PROBES} - self.refuted)):
                return

    def _replay_positions(self, positions: Sequence[int]) -> bool:
        """Replay the sets at these positions and record the results.

        Return False if time was up before all were done.
        """
        results = list(self.replay_sets([self.sets[index][1] for index in positions]))
        for index, result in zip(positions, results, strict=False):
            if result.takes_all and index < self._end:
                self._end, self.best = index, result.counts
            elif result.takes_all is False:
                self.refuted.add(index)
        while self.first in self.refuted and self.first < self._end:
            self.first += 1
        return len(results) == len(positions) and all(result.takes_all is not None for result in results)


def enumerate_cheaper_sets(
    program: PackingProgram, cuts: Sequence[Cut], bound: float, cost_limit: float
) -> list[Counts] | None:
    """Return all sets that cost less than `cost_limit` and satisfy the cuts, or None if there are too many."""
    cost_limit -= NEGLIGIBLE_SHARE * cost_limit
    order = np.argsort(-program.costs, kind="stable")
    sets = np.zeros((1, len(order)), np.int64)
    for index, shape in enumerate(order.tolist()):
        numbers = ((cost_limit - sets @ program.costs) / program.costs[shape]).astype(np.int64) + 1
        if numbers.sum() > 10 * MAX_SETS:
            return None
        sets = np.repeat(sets, numbers, axis=0)
        first = np.repeat(np.cumsum(numbers) - numbers, numbers)
        sets[:, shape] = np.arange(len(sets)) - first
        remaining_budget = np.where(index < len(order) - 1, cost_limit - sets @ program.costs, 0.0)
        reaches_bound = sets @ program.costs + remaining_budget >= bound * (1 - ROUNDING_SHARE)
        sets = sets[reaches_bound & _can_satisfy_cuts(program, cuts, sets, remaining_budget, order[index + 1 :])]
        if len(sets) > MAX_SETS:
            return None
    return [
        {name: number for name, number in zip(program.names, numbers_by_shape, strict=True) if number}
        for numbers_by_shape in sets.tolist()
    ]


def _can_satisfy_cuts(
    program: PackingProgram, cuts: Sequence[Cut], sets: Sets, budget: Table, remaining_shapes: Sets
) -> Bools:
    """Return which sets can still satisfy all cuts by spending `budget` on the remaining shapes, shape (sets,)."""
    can_satisfy = np.ones(len(sets), np.bool_)
    for cut in cuts:
        added_worth = budget * (cut.worth[remaining_shapes] / program.costs[remaining_shapes]).max(initial=0.0)
        can_satisfy &= sets @ cut.worth + added_worth >= cut.minimum * (1 - ROUNDING_SHARE)
    return can_satisfy
