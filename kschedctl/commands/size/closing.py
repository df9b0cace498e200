"""Exhaustive check of the node sets that cost less than the best one found so far.

A few sets are probed first to find a cheaper one. Then all are tried from the cheapest upwards. If none takes all pods,
the best set is optimal, however far it is from the lower bound. This is a branch and bound whose relaxation are the
cuts and whose leaves are replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.program import SAFE, Counts, Cut, PackingProgram, Table
from kschedctl.commands.size.search import TOO_LITTLE, SearchTask, SetSearch

MAX_SETS = 100_000
"""The number of sets that are enumerated at most."""
PROBES = (1 / 2, 3 / 4, 7 / 8, 15 / 16)
"""Positions of the probed sets, as shares of the way from the cheapest to the best set."""
MAX_REPLAYS = 256
"""Above this number of sets only probes are replayed."""
BATCH_SIZE = 16
"""The number of sets tried between two looks at the results."""
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
    run: Callable[[Sequence[Counts]], Iterable[TriedSet]]
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
        """Return whether no set that costs less than the best one takes all pods."""
        return self.first == self._end

    def search(self) -> None:
        """Search until no cheaper set is left, time is up, or there are too many sets and probes no longer help."""
        self._probe()
        while not self.is_closed and self._end - len(self.refuted) <= MAX_REPLAYS:
            after = range(self.first, self._end)
            if not self._replay_positions(list(islice((at for at in after if at not in self.refuted), BATCH_SIZE))):
                return

    def _probe(self) -> None:
        """Look for a cheaper set in ever smaller steps from the best one until no probe succeeds."""
        end = None
        while self._end and end != self._end:
            end = self._end
            if not self._replay_positions(sorted({int(end * share) for share in PROBES} - self.refuted)):
                return

    def _replay_positions(self, some: Sequence[int]) -> bool:
        """Replay the sets at these positions. Return False if there was no time for all."""
        results = list(self.run([self.sets[at][1] for at in some]))
        for at, result in zip(some, results, strict=False):
            if result.takes_all and at < self._end:
                self._end, self.best = at, result.counts
            elif result.takes_all is False:
                self.refuted.add(at)
        while self.first in self.refuted and self.first < self._end:
            self.first += 1
        return len(results) == len(some) and all(result.takes_all is not None for result in results)


def enumerate_cheaper_sets(
    program: PackingProgram, cuts: Sequence[Cut], bound: float, below: float
) -> list[Counts] | None:
    """Return all sets that cost less than ``below`` and satisfy the cuts, or None if there are too many."""
    below -= TOO_LITTLE * below
    order = np.argsort(-program.costs, kind="stable")
    sets = np.zeros((1, len(order)), np.int64)
    for at, shape in enumerate(order.tolist()):
        numbers = ((below - sets @ program.costs) / program.costs[shape]).astype(np.int64) + 1
        if numbers.sum() > 10 * MAX_SETS:
            return None
        sets = np.repeat(sets, numbers, axis=0)
        first = np.repeat(np.cumsum(numbers) - numbers, numbers)
        sets[:, shape] = np.arange(len(sets)) - first
        remaining_budget = np.where(at < len(order) - 1, below - sets @ program.costs, 0.0)
        enough = sets @ program.costs + remaining_budget >= bound * (1 - SAFE)
        sets = sets[enough & _satisfy_cuts(program, cuts, sets, remaining_budget, order[at + 1 :])]
        if len(sets) > MAX_SETS:
            return None
    return [
        {name: number for name, number in zip(program.names, some, strict=True) if number} for some in sets.tolist()
    ]


def _satisfy_cuts(
    program: PackingProgram, cuts: Sequence[Cut], sets: Sets, budget: Table, remaining_shapes: Sets
) -> Bools:
    """Return which sets may still satisfy all cuts by spending ``budget`` on the remaining shapes, shape (sets,)."""
    kept = np.ones(len(sets), np.bool_)
    for cut in cuts:
        bought = budget * (cut.worth[remaining_shapes] / program.costs[remaining_shapes]).max(initial=0.0)
        kept &= sets @ cut.worth + bought >= cut.minimum * (1 - SAFE)
    return kept
