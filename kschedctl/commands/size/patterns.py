"""Cuts from column generation: what fits together on one node, and what follows for any set of nodes.

A linear program chooses among patterns, each the number of pods of every group that one node takes, and asks for better
patterns until there are none: Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (1961).
Each dual price on pods that occurs on the way gives a valid cut, since whatever pods are worth, the nodes of a set must
be worth what all pods are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.highs import build_upper_limits, compute_duals, solve_mixed_program
from kschedctl.commands.size.program import Cut, PackingProgram, Table

MAX_PAIRS = 400
"""With more pairs of group and shape, pods are small beside nodes, and the sum of requests is good enough."""
MAX_ROUNDS = 200
TINY = 1e-9
SECONDS_PER_PATTERN = 1.0
"""Seconds for one pattern."""


def find_cuts(program: PackingProgram, seconds: float) -> list[Cut]:
    """Find a cut for each dual price of pods within the given time; none for large programs."""
    groups = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
    kept = program.find_undominated(program.takes[groups])
    if not len(groups) or len(groups) * int(kept.sum()) > MAX_PAIRS:
        return []
    search = _PatternSearch(program, groups, np.flatnonzero(kept))
    return [
        Cut(_extend_to_all_shapes(program, kept, worth), least)
        for worth, least in search.iter_cuts(time.monotonic() + seconds)
    ]


def _extend_to_all_shapes(program: PackingProgram, kept: Bools, worth: Table) -> Table:
    """Extend the worth of the kept shapes (K,) to all shapes (S,). A dominated shape is worth at most its dominator."""
    every = np.zeros(len(kept))
    every[kept] = worth
    for at in np.flatnonzero(~kept).tolist():
        no_less = (program.offered[kept] >= program.offered[at]).all(axis=1)
        no_less &= (program.takes[:, kept] >= program.takes[:, [at]]).all(axis=0)
        every[at] = every[kept][no_less].min()
    return every


@dataclass(eq=False)
class _PatternSearch:
    """Column generation over patterns, each the number of pods of each group (G,) on a node of one shape."""

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

    def iter_cuts(self, until: float) -> Iterator[tuple[Table, float]]:
        """Yield for each round the worth of the shapes (K,) and what they must be worth together."""
        self._add_single_group_patterns()
        for _ in range(MAX_ROUNDS):
            worth_of_pods = self._compute_pod_prices()
            if worth_of_pods is None:
                return
            found = [self._find_best_pattern(at, worth_of_pods) for at in range(len(self.shapes))]
            worth = np.array([bound for _, bound in found])
            yield worth, float(worth_of_pods @ self.pods)
            better = [at for at, (pattern, _) in enumerate(found) if pattern @ worth_of_pods > self.price[at] + 1e-6]
            for at in better:
                self._add_pattern(found[at][0], at)
            if not better or time.monotonic() > until:
                return

    def _add_single_group_patterns(self) -> None:
        """Add patterns of as many pods of one group as fit on a node of each shape."""
        for at in range(len(self.shapes)):
            with np.errstate(divide="ignore", invalid="ignore"):
                each = np.where(self.requested > 0, self.offered[at] // self.requested, np.inf).min(axis=1)
            number = np.where(self.takes[:, at], np.minimum(each, self.most), 0)
            for group in np.flatnonzero(number).tolist():
                self._add_pattern(np.eye(len(self.groups))[group] * number[group], at)

    def _add_pattern(self, pattern: Table, at: int) -> None:
        self.patterns.append(pattern)
        self.costs.append(float(self.price[at]))

    def _compute_pod_prices(self) -> Table | None:
        """Return the dual price of a pod of each group (G,), or None if there is no solution."""
        return compute_duals(np.array(self.costs), np.array(self.patterns).T, self.pods)

    def _find_best_pattern(self, at: int, worth_of_pods: Table) -> tuple[Table, float]:
        """Return the most valuable pattern for one shape, and an upper bound on the value of any."""
        some = np.flatnonzero(self.takes[:, at] & (worth_of_pods > TINY))
        pattern = np.zeros(len(self.groups))
        if not len(some):
            return pattern, 0.0
        asked = self.requested[some]
        limits = np.maximum(self.offered[at], 1.0)
        shares = (asked / limits).T[asked.any(axis=0)]  # of a node: amounts of memory are too large for the solver
        most, ones = self.most[some], np.ones(len(some))
        found = solve_mixed_program(
            -worth_of_pods[some],
            most,
            ones,
            [build_upper_limits(shares, np.ones(len(shares)))],
            seconds=SECONDS_PER_PATTERN,
        )
        if found is None:
            return pattern, float(worth_of_pods[some] @ self.most[some])
        pattern[some] = np.rint(found.x)
        return pattern, max(-found.bound, float(pattern @ worth_of_pods))
