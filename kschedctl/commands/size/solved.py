"""Node sets and lower bounds from a mixed-integer program, which column generation supplies with cuts.

The variables are whole nodes of each shape and pods of each group on them, which may be fractions. This relaxation
limits nodes only by what they offer in sum. HiGHS solves it through scipy, an optional dependency; without it `plain`
is used.

The cuts say what fits together on one node. A linear program chooses among patterns, each the number of pods of every
group that one node takes, and asks for better patterns until there are none: Gilmore and Gomory, "A linear programming
approach to the cutting-stock problem" (1961). Each dual price of pods on the way gives a valid cut: whatever pods are
worth, the nodes of a set must together be worth as much as all pods.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.highs import build_upper_limits, compute_duals, solve_mixed_program
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.program import SAFE, Counts, Cut, PackingProgram, Starts, Table, format_counts

GAP, SLACK = 0.002, 1e-6
"""So far from the best a solution may be; so much of a bound may be rounding."""


MAX_LIMITED_KINDS = 6
"""Sets with more shapes than this are only searched without a limit on shapes."""


MORE_SETS = 2


DEAR = 1.15
"""Sets of few shapes that cost this many times the cheapest set are no good start."""


Indexes = npt.NDArray[np.int64]


class Solution(NamedTuple):
    """A solution of the program."""

    counts: Counts
    """Nodes of each shape."""
    bound: float
    """What any set costs at least."""


@dataclass(frozen=True)
class SolvedPacking:
    """Packing with a solver."""

    seconds: float = 8.0
    """The time limit for one program."""

    def propose_starts(self, program: PackingProgram) -> Starts:
        """Propose sets with as few shapes as possible, one more, and any number, mixed with sets that need no solver.

        With one main shape every pod finds its place even though kube-scheduler does not put each pod where the program
        would. With several, pods that fit anywhere fill nodes meant for pods that are bound to one shape.
        """
        plain, cuts = PlainPacking().propose_starts(program), find_cuts(program, self.seconds)
        every = self._solve(program, cuts=cuts)
        if every is None:
            return plain
        few, most = list[Counts](), len(every.counts)
        for kinds in range(1, min(most, MAX_LIMITED_KINDS + 1)):
            if len(few) < MORE_SETS and (limited := self._solve(program, most=kinds, cuts=cuts)):
                few.append(limited.counts)
        few.sort(key=lambda counts: program.cost(counts) > DEAR * program.cost(every.counts))
        mixed = [*few, every.counts]
        pairs = zip_longest(mixed, plain.sets)
        sets = {format_counts(some): some for pair in pairs for some in pair if some}
        return Starts(list(sets.values()), max(every.bound, plain.bound), (*plain.cuts, *cuts))

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return nodes for the program's pods, of the preferred shapes if these take the pod."""
        takes = program.prefer_shapes(preferred)
        found = self._solve(program, takes)
        return found.counts if found else PlainPacking().pack(program, preferred)

    def _solve(
        self,
        program: PackingProgram,
        takes: Bools | None = None,
        *,
        most: int = 0,
        cuts: Sequence[Cut] = (),
    ) -> Solution | None:
        """Solve the program. ``most`` limits the number of shapes, 0 is no limit. ``cuts`` hold for every set."""
        some = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
        if not len(some):
            return Solution({}, 0.0)
        takes = program.takes if takes is None else takes
        kept = program.find_undominated(takes[some])
        if not takes[some][:, kept].any(axis=1).all():
            return None
        return _MixedProgram(program, some, np.flatnonzero(kept), takes).solve(self.seconds, most, cuts)


class _MixedProgram:
    """The program with V variables for pods of a group on nodes of a shape, S for nodes, and S for "any node
    bought".
    """

    def __init__(self, program: PackingProgram, groups: Indexes, shapes: Indexes, takes: Bools) -> None:
        self.program, self.groups, self.shapes = program, groups, shapes
        self.group, self.shape = np.nonzero(takes[np.ix_(groups, shapes)])  # (V,) each
        self.sparse: Any = import_module("scipy.sparse")

    def solve(self, seconds: float, most: int, cuts: Sequence[Cut]) -> Solution | None:
        """Return a solution, or None if none exists or none was found in time. ``most`` limits shapes, 0 is no
        limit.
        """
        pairs, shapes = len(self.group), len(self.shapes)
        costs = self.program.costs[self.shapes]
        whole = np.concatenate((np.zeros(pairs), np.ones(shapes), np.ones(shapes)))
        high = np.full(len(whole), np.inf)
        high[pairs + shapes :] = 1
        value = np.concatenate((np.zeros(pairs), costs, np.zeros(shapes)))
        found = solve_mixed_program(
            value, high, whole, list(self._iter_constraints(most, cuts)), seconds=seconds, gap=GAP
        )
        if found is None:
            return None
        nodes = np.rint(found.x[pairs : pairs + shapes]).astype(int).tolist()
        names = [self.program.names[at] for at in self.shapes.tolist()]
        counts = {name: number for name, number in zip(names, nodes, strict=True) if number}
        return Solution(counts, found.bound * (1 - SLACK))

    def _iter_constraints(self, most: int, cuts: Sequence[Cut]) -> Any:
        pods = self.program.pods[self.groups]
        yield self._build_constraint(
            self._build_rows(self.group, len(self.groups), np.ones(len(self.group)), 0), pods, pods
        )
        for measure in self.program.measures:
            shares = measure[np.ix_(self.groups, self.shapes)][self.group, self.shape]
            yield self._build_constraint(self._build_rows(self.shape, len(self.shapes), shares, -1), -np.inf, 0)
        yield from self._iter_exclusion_constraints()
        yield from self._iter_cut_constraints(cuts)
        if most:
            yield from self._iter_kind_limits(most)

    def _iter_cut_constraints(self, cuts: Sequence[Cut]) -> Any:
        """Yield the constraints that the cuts are satisfied."""
        shapes, pairs = np.arange(len(self.shapes)), len(self.group)
        for cut in cuts:
            row = self._build_matrix(cut.worth[self.shapes] / cut.minimum, np.zeros(len(shapes)), pairs + shapes, 1)
            yield self._build_constraint(row, 1 - SAFE, np.inf)

    def _iter_exclusion_constraints(self) -> Any:
        """Yield the constraint that pods that cannot share a node are at most as many as nodes."""
        pairs = np.flatnonzero(self.program.apart[self.groups][self.group])
        if len(pairs):
            ones, rows = np.ones(len(pairs)), np.arange(len(pairs))
            columns = np.concatenate((pairs, len(self.group) + self.shape[pairs]))
            yield self._build_constraint(
                self._build_matrix(np.concatenate((ones, -ones)), np.tile(rows, 2), columns, len(pairs)), -np.inf, 0
            )

    def _iter_kind_limits(self, most: int) -> Any:
        """Yield the constraints that limit the number of shapes."""
        pairs, shapes = len(self.group), len(self.shapes)
        rows, ones = np.arange(shapes), np.ones(shapes)
        enough = self.program.count_nodes_if_alone(self.program.pods)[self.shapes]
        columns = np.concatenate((pairs + rows, pairs + shapes + rows))
        bounded = self._build_matrix(np.concatenate((ones, -enough)), np.tile(rows, 2), columns, shapes)
        yield self._build_constraint(bounded, -np.inf, 0)
        yield self._build_constraint(self._build_matrix(ones, np.zeros(shapes), pairs + shapes + rows, 1), 0, most)

    def _build_rows(self, rows: Indexes, number: int, values: Table, nodes: float) -> Any:
        """Build a row for each group or shape. ``nodes`` is the coefficient of each shape's nodes."""
        own = np.arange(number if nodes else 0)
        values = np.concatenate((values, np.full(len(own), nodes)))
        columns = np.concatenate((np.arange(len(self.group)), len(self.group) + own))
        return self._build_matrix(values, np.concatenate((rows, own)), columns, number)

    def _build_matrix(self, values: Table, rows: npt.NDArray[Any], columns: Indexes, number: int) -> Any:
        width = len(self.group) + 2 * len(self.shapes)
        return self.sparse.csr_array((values, (rows, columns)), shape=(number, width))

    def _build_constraint(self, matrix: Any, low: object, high: object) -> Any:
        return import_module("scipy.optimize").LinearConstraint(matrix, low, high)


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
