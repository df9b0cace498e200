"""Node sets and lower bounds from a mixed-integer program, which column generation supplies with cuts.

The variables are whole nodes of each shape and pods of each group on them, which may be fractions. This relaxation
limits nodes only by what they offer in sum. HiGHS solves it through scipy, an optional dependency. Without scipy,
`PlainPacking` is used. HiGHS may write to the process's standard output, where answers are printed (scipy 1.17), so
that output is suppressed.

The cuts say what fits together on one node. A linear program chooses among patterns, each the number of pods of every
group that one node takes, and asks for better patterns until there are none: Gilmore and Gomory, "A linear programming
approach to the cutting-stock problem" (1961). Each dual price of pods on the way gives a valid cut: whatever pods are
worth, the nodes of a set must together be worth as much as all pods.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import islice, zip_longest
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.program import (
    ROUNDING_SHARE,
    Counts,
    Cut,
    PackingProgram,
    PlainPacking,
    StartingSets,
    Table,
    format_counts,
)


def is_solver_available() -> bool:
    """Return whether scipy is installed."""
    return find_spec("scipy") is not None


class MixedSolution(NamedTuple):
    """The solution of a mixed-integer program."""

    x: Table
    """The values of the variables, shape (V,)."""
    bound: float
    """A value below which no solution exists."""


MAX_BRANCHES = 1000
"""The number of nodes of the branch-and-bound tree after which the solver stops. Most programs need fewer than ten.

The solver is limited by branches instead of time, so that each machine finds the same set.
"""
MAX_SECONDS = 600.0
"""The time limit for one program, in case that a single branch takes very long."""


def solve_mixed_program(
    objective: Table,
    upper_limits: Table,
    is_integer: Table,
    constraints: list[Any],
    *,
    gap: float = 0.0,
) -> MixedSolution | None:
    """Minimize the sum of `objective` (V,) times the variables, which range from 0 to `upper_limits` (V,).

    The solution satisfies the constraints, and variables are integers where `is_integer` (V,) is 1. `gap` is the
    allowed relative distance from the optimum. The result is None if no solution exists or none was found within
    MAX_BRANCHES branches.
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.milp(
            objective,
            integrality=is_integer,
            bounds=optimize.Bounds(np.zeros(len(objective)), upper_limits),
            constraints=constraints,
            options={"node_limit": MAX_BRANCHES, "time_limit": MAX_SECONDS, "mip_rel_gap": gap},
        )
    if result.x is None:
        return None
    # Without integers there is no dual bound, and the solution is optimal.
    bound = result.fun if result.mip_dual_bound is None else result.mip_dual_bound
    return MixedSolution(result.x, float(bound))


def build_upper_limits(rows: Any, limits: Any) -> Any:
    """Build the constraint that `rows` (C, V) times the variables are at most `limits` (C,)."""
    optimize: Any = import_module("scipy.optimize")
    return optimize.LinearConstraint(rows, -np.inf, limits)


def compute_duals(costs: Table, columns: Table, demand: Table) -> Table | None:
    """Return the dual prices (G,) of covering `demand` (G,) at the lowest cost, or None if this is impossible.

    Any multiple of each column can be bought. A column of `columns` (G, V) covers some of each demand, and `costs` (V,)
    are the costs of the columns.
    """
    optimize: Any = import_module("scipy.optimize")
    with suppress_stdout():
        result = optimize.linprog(costs, A_ub=-columns, b_ub=-demand, method="highs")
    if result.x is None:
        return None
    prices: Table = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return prices


_STDOUT_FD = 1
"""The file descriptor of standard output, to which C code writes."""


@contextmanager
def suppress_stdout() -> Iterator[None]:
    """Discard what C code writes to standard output within the with-block.

    Does nothing outside the main thread, since other threads may print, or if standard output is closed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.stdout.flush()
    try:
        saved_fd = os.dup(_STDOUT_FD)
    except OSError:  # standard output is closed
        yield
        return
    _flush_c_stdout()
    devnull_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull_fd, _STDOUT_FD)
    try:
        yield
    finally:
        _flush_c_stdout()
        os.dup2(saved_fd, _STDOUT_FD)
        os.close(devnull_fd)
        os.close(saved_fd)


def _flush_c_stdout() -> None:
    """Flush the C library's buffers of standard output, if the platform has such a library."""
    with suppress(OSError, AttributeError, TypeError):  # on a platform without such a library
        ctypes.CDLL(None).fflush(None)


GAP = 0.002
"""The relative distance from the optimum that a solution may have."""
SLACK = 1e-6
"""The share of a bound that may be rounding."""
MAX_LIMITED_SHAPES = 6
"""The highest limit on the number of shapes for which a set is searched."""
MAX_LIMITED_SETS = 2
"""The number of proposed sets with a limited number of shapes."""
MAX_COST_RATIO = 1.15
"""Sets of few shapes that cost more than this many times the cheapest set come last."""
Indexes = npt.NDArray[np.int64]


class Solution(NamedTuple):
    """A solution of the program."""

    counts: Counts
    """The number of nodes of each shape."""
    bound: float
    """A lower bound on the cost of any set."""


class SolvedPacking:
    """The packing of pods on nodes by a solver."""

    def propose_starting_sets(self, program: PackingProgram) -> StartingSets:
        """Propose sets of few shapes and a set without that limit, mixed with sets of the greedy packing.

        kube-scheduler does not put each pod where the program would. With several shapes, pods that fit anywhere may
        fill nodes meant for pods that need one shape. With few shapes, this cannot happen as easily. If the solver
        finds no set, only sets of the greedy packing are proposed.
        """
        plain_starts = PlainPacking().propose_starting_sets(program)
        cuts = find_cuts(program)
        unlimited = self._solve_packing(program, cuts=cuts)
        if unlimited is None:
            return plain_starts

        # The sets of the solver: cheap sets of few shapes first, then expensive ones, then the unlimited set.
        limited_sets = list(islice(self._iter_sets_of_few_shapes(program, unlimited.counts, cuts), MAX_LIMITED_SETS))
        max_cost = MAX_COST_RATIO * program.compute_cost(unlimited.counts)

        def is_expensive(counts: Counts) -> bool:
            """Return whether the set costs much more than the set without a limit on shapes."""
            return program.compute_cost(counts) > max_cost

        solved_sets = [*sorted(limited_sets, key=is_expensive), unlimited.counts]

        # Mix solved and plain sets, and leave out duplicates.
        pairs = zip_longest(solved_sets, plain_starts.sets)
        sets = {format_counts(proposed): proposed for pair in pairs for proposed in pair if proposed}
        return StartingSets(list(sets.values()), max(unlimited.bound, plain_starts.bound), (*plain_starts.cuts, *cuts))

    def _iter_sets_of_few_shapes(
        self, program: PackingProgram, unlimited: Counts, cuts: Sequence[Cut]
    ) -> Iterator[Counts]:
        """Yield the cheapest set of one shape, of up to two shapes, and so on, with fewer shapes than `unlimited`.

        `unlimited` is the cheapest set without a limit on shapes. The highest limit is MAX_LIMITED_SHAPES. Limits for
        which the solver finds no set are skipped.
        """
        shape_count = len(unlimited)
        highest_limit = min(shape_count - 1, MAX_LIMITED_SHAPES)
        for max_shapes in range(1, highest_limit + 1):
            limited = self._solve_packing(program, max_shapes=max_shapes, cuts=cuts)
            if limited is not None:
                yield limited.counts

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return the cheapest set for the program's pods. Pods that fit on a preferred shape get preferred shapes.

        If the solver finds no solution, the set of the greedy packing is returned.
        """
        takes = program.select_preferred_shapes(preferred)
        solution = self._solve_packing(program, takes)
        return solution.counts if solution else PlainPacking().pack(program, preferred)

    def _solve_packing(
        self,
        program: PackingProgram,
        takes: Bools | None = None,
        *,
        max_shapes: int = 0,
        cuts: Sequence[Cut] = (),
    ) -> Solution | None:
        """Return the cheapest set that takes the program's placeable pods and satisfies the cuts.

        `takes` (G, S) limits the shapes that each group may use, and `max_shapes` the number of different shapes (0 for
        no limit). Return None if no set was found, or if `takes` leaves no shape for some pods.
        """
        groups = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
        if not len(groups):
            return Solution(counts={}, bound=0.0)
        if takes is None:
            takes = program.takes
        is_undominated = program.find_undominated_shapes(takes[groups])
        if not takes[groups][:, is_undominated].any(axis=1).all():
            return None
        mixed_program = _MixedProgram(program, groups, np.flatnonzero(is_undominated), takes)
        return mixed_program.solve(max_shapes, cuts)


class _MixedProgram:
    """The mixed-integer program for some groups and shapes.

    Its variables are the V numbers of pods of a group on nodes of a shape, the S numbers of nodes, and S flags for the
    shapes of which any node is bought.
    """

    def __init__(self, program: PackingProgram, groups: Indexes, shapes: Indexes, takes: Bools) -> None:
        self.program, self.groups, self.shapes = program, groups, shapes
        # The group and the shape of each pair, (V,) each, as positions in `groups` and `shapes`.
        self.group, self.shape = np.nonzero(takes[np.ix_(groups, shapes)])
        self.sparse: Any = import_module("scipy.sparse")

    def solve(self, max_shapes: int, cuts: Sequence[Cut]) -> Solution | None:
        """Solve the program, and return the number of nodes of each shape and a lower bound on the cost.

        `max_shapes` limits the number of different shapes, where 0 is no limit. The result is None if no solution
        exists or the solver finds none.
        """
        # The variables in order: pods of pairs, nodes of shapes, and whether each shape is used.
        pairs, shapes = len(self.group), len(self.shapes)
        costs = self.program.costs[self.shapes]
        is_integer = np.concatenate((np.zeros(pairs), np.ones(shapes), np.ones(shapes)))
        upper_limits = np.full(len(is_integer), np.inf)
        upper_limits[pairs + shapes :] = 1
        objective = np.concatenate((np.zeros(pairs), costs, np.zeros(shapes)))
        solution = solve_mixed_program(
            objective,
            upper_limits,
            is_integer,
            constraints=list(self._iter_constraints(max_shapes, cuts)),
            gap=GAP,
        )
        if solution is None:
            return None
        nodes = np.rint(solution.x[pairs : pairs + shapes]).astype(int).tolist()
        names = [self.program.names[shape] for shape in self.shapes.tolist()]
        counts = {name: number for name, number in zip(names, nodes, strict=True) if number}
        return Solution(counts, solution.bound * (1 - SLACK))

    def _iter_constraints(self, max_shapes: int, cuts: Sequence[Cut]) -> Any:
        """Yield all constraints: each pod has a node, no node is overfull, and the cuts and limits are satisfied."""
        pods = self.program.pods[self.groups]
        placed_pods = self._build_coefficient_matrix(
            self.group, len(self.groups), np.ones(len(self.group)), node_coefficient=0
        )
        yield self._build_constraint(placed_pods, pods, pods)
        for measure in self.program.fill_measures:
            # The nodes that the pods of each shape fill, minus the nodes of the shape, are at most 0.
            shares = measure[np.ix_(self.groups, self.shapes)][self.group, self.shape]
            filled_minus_nodes = self._build_coefficient_matrix(
                self.shape, len(self.shapes), shares, node_coefficient=-1
            )
            yield self._build_constraint(filled_minus_nodes, -np.inf, 0)
        yield from self._iter_exclusion_constraints()
        yield from self._iter_cut_constraints(cuts)
        if max_shapes:
            yield from self._iter_shape_limits(max_shapes)

    def _iter_cut_constraints(self, cuts: Sequence[Cut]) -> Any:
        """Yield one constraint per cut: the total worth of the chosen nodes must reach the cut's minimum."""
        shape_count = len(self.shapes)
        columns_of_shapes = len(self.group) + np.arange(shape_count)  # after the columns of the pairs
        for cut in cuts:
            matrix = self._build_matrix(
                values=cut.worth[self.shapes] / cut.minimum,
                rows=np.zeros(shape_count),
                columns=columns_of_shapes,
                row_count=1,
            )
            yield self._build_constraint(matrix, 1 - ROUNDING_SHARE, np.inf)  # 1 is the minimum itself

    def _iter_exclusion_constraints(self) -> Any:
        """Yield the constraint that a node runs at most one pod of a group whose pods exclude each other.

        It has a row for each pair of such a group and a shape. Nothing is yielded if there are no such groups.
        """
        is_exclusive = self.program.apart[self.groups]  # for each group
        pairs = np.flatnonzero(is_exclusive[self.group])
        if len(pairs):
            # The pods of the pair minus the nodes of its shape are at most 0. The columns of the shapes' nodes follow
            # those of the pairs' pods.
            ones, rows = np.ones(len(pairs)), np.arange(len(pairs))
            values = np.concatenate((ones, -ones))
            node_columns = len(self.group) + self.shape[pairs]
            columns = np.concatenate((pairs, node_columns))
            matrix = self._build_matrix(values, np.tile(rows, 2), columns, len(pairs))
            yield self._build_constraint(matrix, -np.inf, 0)

    def _iter_shape_limits(self, max_shapes: int) -> Any:
        """Yield the constraints that limit purchases to `max_shapes` different node shapes."""
        # Columns: the pods of each pair, then the nodes of each shape, then whether each shape is used
        pairs, shapes = len(self.group), len(self.shapes)
        rows, ones = np.arange(shapes), np.ones(shapes)

        # A shape has nodes only if it is used.
        max_nodes = self.program.count_minimum_nodes(self.program.pods)[self.shapes]
        values: Table = np.concatenate((ones, -max_nodes))
        columns = np.concatenate((pairs + rows, pairs + shapes + rows))
        nodes_of_unused = self._build_matrix(values, np.tile(rows, 2), columns, shapes)
        yield self._build_constraint(nodes_of_unused, -np.inf, 0)

        # At most `max_shapes` shapes are used.
        used_shapes = self._build_matrix(ones, np.zeros(shapes), pairs + shapes + rows, 1)
        yield self._build_constraint(used_shapes, 0, max_shapes)

    def _build_coefficient_matrix(self, rows: Indexes, row_count: int, values: Table, node_coefficient: float) -> Any:
        """Build a matrix of coefficients, with a row for each group or a row for each shape.

        `rows` (V,) are the rows of the variables for pods, and `values` (V,) are their coefficients. If
        `node_coefficient` is not 0, there is a row for each shape, and this is the coefficient of the shape's number of
        nodes. If it is 0, there is a row for each group.
        """
        node_rows = np.arange(row_count if node_coefficient else 0)
        values = np.concatenate((values, np.full(len(node_rows), node_coefficient)))
        columns = np.concatenate((np.arange(len(self.group)), len(self.group) + node_rows))
        return self._build_matrix(values, np.concatenate((rows, node_rows)), columns, row_count)

    def _build_matrix(self, values: Table, rows: npt.NDArray[Any], columns: Indexes, row_count: int) -> Any:
        """Build a sparse matrix with a column for each variable, from values at these rows and columns."""
        width = len(self.group) + 2 * len(self.shapes)
        return self.sparse.csr_array((values, (rows, columns)), shape=(row_count, width))

    def _build_constraint(self, matrix: Any, low: object, high: object) -> Any:
        """Build the constraint that the matrix times the variables is between `low` and `high`."""
        return import_module("scipy.optimize").LinearConstraint(matrix, low, high)


MAX_PAIRS = 400
"""The maximum number of pairs of a group and a shape. With more pairs pods are small compared with nodes, and the
sum of requests is a good enough bound.
"""
MAX_ROUNDS = 200
"""The maximum number of rounds of column generation."""
TINY = 1e-9
"""Prices of pods below this count as 0."""
PRICE_ERROR = 1e-6
"""The difference between prices that may be a rounding error."""
MAX_PATTERN_SEARCHES = 1500
"""The maximum number of searches for a pattern in all rounds. One takes about ten milliseconds."""


def find_cuts(program: PackingProgram) -> list[Cut]:
    """Find cuts, which are conditions that every sufficient set of nodes satisfies.

    Cuts come from column generation: each step computes dual prices of the pods, and these prices give one cut. No cuts
    are returned if the program has no pods, or more than MAX_PAIRS pairs of groups and shapes.
    """
    # Groups of pods that some shape takes, and the shapes that no other shape replaces at the same or a lower price
    groups = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
    is_undominated = program.find_undominated_shapes(program.takes[groups])
    if not len(groups) or len(groups) * int(is_undominated.sum()) > MAX_PAIRS:
        return []
    search = _PatternSearch(program, groups, np.flatnonzero(is_undominated))
    return [
        Cut(_extend_worth_to_all_shapes(program, is_undominated, worth), minimum)
        for worth, minimum in search.iter_cuts()
    ]


def _extend_worth_to_all_shapes(program: PackingProgram, is_undominated: Bools, worth: Table) -> Table:
    """Extend the worth of the undominated shapes (K,) to all shapes (S,).

    A dominated shape is worth no more than any shape that dominates it. It gets the smallest worth among the
    undominated shapes that dominate it.
    """
    all_worth = np.zeros(len(is_undominated))
    all_worth[is_undominated] = worth
    for shape in np.flatnonzero(~is_undominated).tolist():
        dominates = (program.offered[is_undominated] >= program.offered[shape]).all(axis=1)
        dominates &= (program.takes[:, is_undominated] >= program.takes[:, [shape]]).all(axis=0)
        all_worth[shape] = all_worth[is_undominated][dominates].min()
    return all_worth


@dataclass(eq=False)
class _PatternSearch:
    """Column generation over patterns. A pattern is the number of pods of each group (G,) on a node of one shape."""

    program: PackingProgram
    groups: npt.NDArray[np.int64]
    """The groups that have pods, (G,)."""
    shapes: npt.NDArray[np.int64]
    """The undominated shapes, (K,)."""
    patterns: list[Table] = field(default_factory=list)
    """The patterns found so far, shape (G,) each."""
    costs: list[float] = field(default_factory=list)
    """The cost of each pattern's node."""

    def __post_init__(self) -> None:
        program = self.program
        self.pods = program.pods[self.groups]
        self.requested = program.requested[self.groups].astype(np.float64)
        self.offered = program.offered[self.shapes].astype(np.float64)
        self.takes = program.takes[np.ix_(self.groups, self.shapes)]
        self.price = program.costs[self.shapes]
        self.max_pods = np.where(program.apart[self.groups], 1.0, self.pods)

    def iter_cuts(self) -> Iterator[tuple[Table, float]]:
        """Yield a cut for each round: a worth for each shape (K,), and the least worth of a set that holds all pods.

        The worth of a set is the sum of the worths of its nodes. The rounds end after MAX_ROUNDS rounds, after
        MAX_PATTERN_SEARCHES searches for a pattern, or if no pattern improves the solution.
        """
        self._add_single_group_patterns()
        for _ in range(min(MAX_ROUNDS, ceil(MAX_PATTERN_SEARCHES / len(self.shapes)))):
            pod_prices = self._compute_pod_prices()
            if pod_prices is None:
                return

            # At these prices, a node of a shape is worth at most its most valuable pattern.
            best_patterns = [self._find_best_pattern(shape, pod_prices) for shape in range(len(self.shapes))]
            worth = np.array([upper_bound for _, upper_bound in best_patterns])
            yield worth, float(pod_prices @ self.pods)

            # Add the patterns that are worth more than their node costs, beyond the rounding errors of the prices.
            improving = [
                (shape, pattern)
                for shape, (pattern, _) in enumerate(best_patterns)
                if pattern @ pod_prices > self.price[shape] + PRICE_ERROR
            ]
            for shape, pattern in improving:
                self._add_pattern(pattern, shape)
            if not improving:
                return

    def _add_single_group_patterns(self) -> None:
        """Add a pattern for each pair of a group and a shape that takes it: as many of its pods as fit on a node."""
        for shape in range(len(self.shapes)):
            with np.errstate(divide="ignore", invalid="ignore"):
                fitting = np.where(self.requested > 0, self.offered[shape] // self.requested, np.inf).min(axis=1)
            number = np.where(self.takes[:, shape], np.minimum(fitting, self.max_pods), 0)
            for group in np.flatnonzero(number).tolist():
                pattern = np.zeros(len(self.groups))
                pattern[group] = number[group]
                self._add_pattern(pattern, shape)

    def _add_pattern(self, pattern: Table, shape: int) -> None:
        """Add a pattern (G,) for a node of the shape, given by its position in `shapes`."""
        self.patterns.append(pattern)
        self.costs.append(float(self.price[shape]))

    def _compute_pod_prices(self) -> Table | None:
        """Return the dual price of a pod of each group (G,), or None if there is no solution."""
        return compute_duals(np.array(self.costs), np.array(self.patterns).T, self.pods)

    def _find_best_pattern(self, shape: int, pod_prices: Table) -> tuple[Table, float]:
        """Return the most valuable pattern (G,) for one shape, and an upper bound on the value of any pattern.

        `pod_prices` (G,) are the values of the pods. If the shape takes no pod of value, or if the solver finds no
        pattern, the pattern is all zeros.
        """
        groups = np.flatnonzero(self.takes[:, shape] & (pod_prices > TINY))
        pattern = np.zeros(len(self.groups))
        if not len(groups):
            return pattern, 0.0

        # Fill a node with the most valuable pods. Requests are shares of the node, since amounts of memory are too
        # large for the solver.
        requested = self.requested[groups]
        limits = np.maximum(self.offered[shape], 1.0)
        is_requested = requested.any(axis=0)
        shares = (requested / limits).T[is_requested]
        solution = solve_mixed_program(
            objective=-pod_prices[groups],  # the solver minimizes
            upper_limits=self.max_pods[groups],
            is_integer=np.ones(len(groups)),
            constraints=[build_upper_limits(shares, np.ones(len(shares)))],
        )
        if solution is None:
            return pattern, float(pod_prices[groups] @ self.max_pods[groups])
        pattern[groups] = np.rint(solution.x)
        upper_bound = max(-solution.bound, float(pattern @ pod_prices))
        return pattern, upper_bound
