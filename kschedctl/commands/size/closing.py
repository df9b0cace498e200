"""Between what a set has to cost and the cheapest that was found: all other sets, tried by replays.

Some are probed first, to find a cheaper one, then all from the cheapest upwards: where none of those takes all pods,
there is no cheaper set than the best, however far from the bound that is. So the search is a branch and bound whose
relaxation are the cuts and whose leaves are replays.
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

MOST_SETS = 100_000
"""So many sets are kept in mind at most."""
PROBES = (1 / 2, 3 / 4, 7 / 8, 15 / 16)
"""How far from the cheapest to the best set, by the number of sets, the ones are that are probed."""
MOST_REPLAYS = 256
"""Where there are more sets than so many, they are probed alone."""
AT_ONCE = 16
"""Sets that are tried before one looks whether any of them does."""
Sets = npt.NDArray[np.int64]


class TriedSet(NamedTuple):
    """``takes``: whether all pods got a node; None where there was no time left."""

    counts: Counts
    takes: bool | None


def tried(search: SetSearch, task: SearchTask) -> TriedSet:
    """Whether all pods but the homeless get a node of a set."""
    if task.late:
        return TriedSet(task.counts, None)
    return TriedSet(task.counts, search.sets.take_all(task.counts, task.homeless))


@dataclass(eq=False)
class Closing:
    """``sets``: cost and counts of all that cost less than the best, the cheapest first; ``refuted``: the positions of
    those that do not take all pods; ``first``: of the cheapest that is not known not to.

    ``run``: replays sets; ``best``: the cheapest that takes all, where there is one.
    """

    sets: Sequence[tuple[float, Counts]]
    run: Callable[[Sequence[Counts]], Iterable[TriedSet]]
    best: Counts | None = None
    refuted: set[int] = field(default_factory=set)
    first: int = 0

    def __post_init__(self) -> None:
        self._end = len(self.sets)

    @property
    def closed(self) -> bool:
        """Whether none that costs less than the best takes all."""
        return self.first == self._end

    def search(self) -> None:
        """Until there is no cheaper set, no time, or probes of too many sets find none that does."""
        self._probe()
        while not self.closed and self._end - len(self.refuted) <= MOST_REPLAYS:
            after = range(self.first, self._end)
            if not self._try(list(islice((at for at in after if at not in self.refuted), AT_ONCE))):
                return

    def _probe(self) -> None:
        """A cheaper set, by ever smaller steps from the best, until no probe does."""
        end = None
        while self._end and end != self._end:
            end = self._end
            if not self._try(sorted({int(end * share) for share in PROBES} - self.refuted)):
                return

    def _try(self, some: Sequence[int]) -> bool:
        """False where there was no time for all."""
        results = list(self.run([self.sets[at][1] for at in some]))
        for at, result in zip(some, results, strict=False):
            if result.takes and at < self._end:
                self._end, self.best = at, result.counts
            elif result.takes is False:
                self.refuted.add(at)
        while self.first in self.refuted and self.first < self._end:
            self.first += 1
        return len(results) == len(some) and all(result.takes is not None for result in results)


def cheaper_sets(program: PackingProgram, cuts: Sequence[Cut], bound: float, below: float) -> list[Counts] | None:
    """All sets that cost less than ``below`` and may take all pods; None where there are too many."""
    below -= TOO_LITTLE * below
    order = np.argsort(-program.costs, kind="stable")
    sets = np.zeros((1, len(order)), np.int64)
    for at, shape in enumerate(order.tolist()):
        numbers = ((below - sets @ program.costs) / program.costs[shape]).astype(np.int64) + 1
        if numbers.sum() > 10 * MOST_SETS:
            return None
        sets = np.repeat(sets, numbers, axis=0)
        first = np.repeat(np.cumsum(numbers) - numbers, numbers)
        sets[:, shape] = np.arange(len(sets)) - first
        more = np.where(at < len(order) - 1, below - sets @ program.costs, 0.0)
        enough = sets @ program.costs + more >= bound * (1 - SAFE)
        sets = sets[enough & _may_do(program, cuts, sets, more, order[at + 1 :])]
        if len(sets) > MOST_SETS:
            return None
    return [
        {name: number for name, number in zip(program.names, some, strict=True) if number} for some in sets.tolist()
    ]


def _may_do(program: PackingProgram, cuts: Sequence[Cut], sets: Sets, more: Table, rest: Sets) -> Bools:
    """Which of the sets may take all pods, with what nodes of the ``rest`` of shapes so much ``more`` money buys."""
    kept = np.ones(len(sets), np.bool_)
    for cut in cuts:
        bought = more * (cut.worth[rest] / program.costs[rest]).max(initial=0.0)
        kept &= sets @ cut.worth + bought >= cut.least * (1 - SAFE)
    return kept
