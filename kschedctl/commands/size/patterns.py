"""What fits on one node together, and what that says of any set of nodes: column generation with HiGHS.

A linear program chooses among patterns, each so many pods of every group as one node takes, and asks for better ones
until there are none: Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (1961). The
prices that it puts on pods on the way are all of use, since whatever pods are worth, the nodes of a set have to be
worth what all pods are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.highs import at_most, mixed_program, worths
from kschedctl.commands.size.program import Cut, PackingProgram, Table

MOST_PAIRS = 400
"""Of groups and shapes: with more, pods are small beside nodes, and what they request in all says enough."""
MOST_ROUNDS = 200
TINY = 1e-9
PATIENCE = 1.0
"""Seconds for one pattern."""


def cuts_of(program: PackingProgram, seconds: float) -> list[Cut]:
    """One for each of the prices of pods that the search met, in so many seconds; none for programs that are large."""
    groups = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
    kept = program.undominated(program.takes[groups])
    if not len(groups) or len(groups) * int(kept.sum()) > MOST_PAIRS:
        return []
    search = _Patterns(program, groups, np.flatnonzero(kept))
    return [Cut(_of_all(program, kept, worth), least) for worth, least in search.run(time.monotonic() + seconds)]


def _of_all(program: PackingProgram, kept: Bools, worth: Table) -> Table:
    """(K,) of the shapes that are kept -> (S,): one that is dominated takes no more than what dominates it."""
    every = np.zeros(len(kept))
    every[kept] = worth
    for at in np.flatnonzero(~kept).tolist():
        no_less = (program.offered[kept] >= program.offered[at]).all(axis=1)
        no_less &= (program.takes[:, kept] >= program.takes[:, [at]]).all(axis=0)
        every[at] = every[kept][no_less].min()
    return every


@dataclass(eq=False)
class _Patterns:
    """``patterns``: so many pods of each group (G,), on a node of which of the shapes."""

    program: PackingProgram
    groups: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int64]
    patterns: list[Table] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        program = self.program
        self.pods = program.pods[self.groups]
        self.requested = program.requested[self.groups].astype(np.float64)
        self.offered = program.offered[self.shapes].astype(np.float64)
        self.takes = program.takes[np.ix_(self.groups, self.shapes)]
        self.price = program.costs[self.shapes]
        self.most = np.where(program.apart[self.groups], 1.0, self.pods)

    def run(self, until: float) -> Iterator[tuple[Table, float]]:
        """(K,) worths of shapes, and what they have to be worth together, for each round's prices of pods."""
        self._begin()
        for _ in range(MOST_ROUNDS):
            worth_of_pods = self._prices()
            if worth_of_pods is None:
                return
            found = [self._best(at, worth_of_pods) for at in range(len(self.shapes))]
            worth = np.array([bound for _, bound in found])
            yield worth, float(worth_of_pods @ self.pods)
            better = [at for at, (pattern, _) in enumerate(found) if pattern @ worth_of_pods > self.price[at] + 1e-6]
            for at in better:
                self._add(found[at][0], at)
            if not better or time.monotonic() > until:
                return

    def _begin(self) -> None:
        """As many of each group alone as a node of each shape takes."""
        for at in range(len(self.shapes)):
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(self.requested > 0, self.offered[at] // self.requested, np.inf).min(axis=1)
            number = np.where(self.takes[:, at], np.minimum(each, self.most), 0)
            for group in np.flatnonzero(number).tolist():
                self._add(np.eye(len(self.groups))[group] * number[group], at)

    def _add(self, pattern: Table, at: int) -> None:
        self.patterns.append(pattern)
        self.costs.append(float(self.price[at]))

    def _prices(self) -> Table | None:
        """(G,): what a pod of each group is worth to the cheapest nodes of these patterns."""
        return worths(np.array(self.costs), np.array(self.patterns).T, self.pods)

    def _best(self, at: int, worth_of_pods: Table) -> tuple[Table, float]:
        """The pods that are worth most on one node, and how much any are at most."""
        some = np.flatnonzero(self.takes[:, at] & (worth_of_pods > TINY))
        pattern = np.zeros(len(self.groups))
        if not len(some):
            return pattern, 0.0
        asked = self.requested[some]
        limits = np.maximum(self.offered[at], 1.0)
        shares = (asked / limits).T[asked.any(axis=0)]  # of a node: amounts of memory are too large for the solver
        most, ones = self.most[some], np.ones(len(some))
        found = mixed_program(
            -worth_of_pods[some], most, ones, [at_most(shares, np.ones(len(shares)))], seconds=PATIENCE
        )
        if found is None:
            return pattern, float(worth_of_pods[some] @ self.most[some])
        pattern[some] = np.rint(found.x)
        return pattern, max(-found.bound, float(pattern @ worth_of_pods))
