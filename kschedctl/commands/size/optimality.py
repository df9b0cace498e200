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
MAX_SETS_BEFORE_CUTS = 10 * MAX_SETS
"""The maximum number of sets before those are dropped that cannot satisfy the cuts."""
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
    """True if all pods got a node; None if the set was not replayed, because the search reached its limit."""


def try_set(search: SetSearch, task: SearchTask) -> TriedSet:
    """Replay the task's set, and report whether every pod gets a node.

    The task's homeless pods, which no set can take, are not counted. If the search has reached the task's limit, the
    set is not replayed, and `takes_all` is None.
    """
    search.sets.reset_replay_count()
    if search.has_reached_limit(task.limit):
        return TriedSet(task.counts, takes_all=None)
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
    first_open: int = 0
    """The position of the cheapest set that is not refuted."""

    def __post_init__(self) -> None:
        self._end = len(self.sets)
        """The position of the best set. The sets from there on need no check."""

    @property
    def has_refuted_all(self) -> bool:
        """True if no set that costs less than the best one takes all pods."""
        return self.first_open == self._end

    def refute_cheaper_sets(self) -> None:
        """Replay cheaper sets until all are refuted or the search reaches its limit.

        First a few sets are probed. If more than MAX_REPLAYS sets are left after that, they are not replayed.
        """
        self._probe_cheaper_sets()
        while not self.has_refuted_all and self._end - len(self.refuted) <= MAX_REPLAYS:
            open_positions = (index for index in range(self.first_open, self._end) if index not in self.refuted)
            if not self._replay_sets_at(list(islice(open_positions, BATCH_SIZE))):
                return

    def _probe_cheaper_sets(self) -> None:
        """Replay a few cheaper sets. If one takes all pods, repeat this with sets that are even cheaper.

        End early if the search reaches its limit.
        """
        has_found_cheaper_set = True
        while self._end and has_found_cheaper_set:
            previous_end = self._end
            probes = {int(self._end * share) for share in PROBES}
            if not self._replay_sets_at(sorted(probes - self.refuted)):
                return
            has_found_cheaper_set = self._end < previous_end

    def _replay_sets_at(self, positions: Sequence[int]) -> bool:
        """Replay the sets at these positions, which must be ascending, and record the results.

        Return whether all of them were replayed.
        """
        entries = [self.sets[index] for index in positions]
        results = list(self.replay_sets([counts for _, counts in entries]))
        for index, result in zip(positions, results, strict=False):  # results are missing after an interruption
            if result.takes_all is None:  # the set was not replayed
                continue
            if not result.takes_all:
                self.refuted.add(index)
            elif index < self._end:
                self._end, self.best = index, result.counts

        self._skip_refuted_sets()
        is_complete = len(results) == len(positions)
        return is_complete and all(result.takes_all is not None for result in results)

    def _skip_refuted_sets(self) -> None:
        """Advance `first_open` past refuted sets, at most to the position of the best set."""
        while self.first_open in self.refuted and self.first_open < self._end:
            self.first_open += 1


def enumerate_cheaper_sets(
    program: PackingProgram, cuts: Sequence[Cut], bound: float, cost_limit: float
) -> list[Counts] | None:
    """Return all sets that cost less than `cost_limit` and satisfy the cuts, or None if there are too many.

    A cut is a condition that every sufficient set satisfies. `bound` is a lower bound on the cost of any set. Sets that
    are hardly cheaper than `cost_limit` are left out. The sets are built shape by shape, starting with the most
    expensive shape.
    """
    cost_limit -= NEGLIGIBLE_SHARE * cost_limit
    order = np.argsort(-program.costs, kind="stable")
    sets = np.zeros((1, len(order)), np.int64)
    for index, shape in enumerate(order.tolist()):
        # Repeat each set with 0, 1, 2 … nodes of the shape, as many as the money allows.
        choices = ((cost_limit - sets @ program.costs) / program.costs[shape]).astype(np.int64) + 1
        if choices.sum() > MAX_SETS_BEFORE_CUTS:
            return None
        sets = np.repeat(sets, choices, axis=0)
        first_copy = np.repeat(np.cumsum(choices) - choices, choices)  # the row of each set's copy with 0 nodes
        sets[:, shape] = np.arange(len(sets)) - first_copy

        # Drop sets that cannot reach the bound or satisfy the cuts with the shapes that follow.
        remaining_budget = np.where(index < len(order) - 1, cost_limit - sets @ program.costs, 0.0)
        reaches_bound = sets @ program.costs + remaining_budget >= bound * (1 - ROUNDING_SHARE)
        remaining_shapes = order[index + 1 :]
        may_satisfy_cuts = _find_sets_able_to_satisfy_cuts(program, cuts, sets, remaining_budget, remaining_shapes)
        sets = sets[reaches_bound & may_satisfy_cuts]
        if len(sets) > MAX_SETS:
            return None
    return [
        {name: number for name, number in zip(program.names, numbers_by_shape, strict=True) if number}
        for numbers_by_shape in sets.tolist()
    ]


def _find_sets_able_to_satisfy_cuts(
    program: PackingProgram, cuts: Sequence[Cut], sets: Sets, budget: Table, remaining_shapes: Sets
) -> Bools:
    """Return a mask of the sets that can still satisfy all cuts if they spend their budgets on the remaining shapes.

    `sets` has a row for each set. `budget` and the mask have one value for each set.
    """
    can_satisfy = np.ones(len(sets), np.bool_)
    for cut in cuts:
        # A budget buys the most worth if all of it is spent on the shape with the most worth for its cost
        best_worth_per_cost = (cut.worth[remaining_shapes] / program.costs[remaining_shapes]).max(initial=0.0)
        largest_worth = sets @ cut.worth + budget * best_worth_per_cost
        can_satisfy &= largest_worth >= cut.minimum * (1 - ROUNDING_SHARE)
    return can_satisfy
