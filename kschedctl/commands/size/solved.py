"""Sets of nodes from a mixed-integer program: the start of the search, and how little any set can cost.

Whole nodes of each shape, and so many pods of each group on them, also in parts: a relaxation, which holds nodes to
what they offer together. HiGHS solves it, by scipy, which is an extra; without it ``plain.py`` does what it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.highs import mixed_program
from kschedctl.commands.size.patterns import cuts_of
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.program import SAFE, Counts, Cut, PackingProgram, Starts, Table, named

GAP, SLACK = 0.002, 1e-6
"""So far from the best a solution may be; so much of a bound may be rounding."""
FEWEST_KINDS = 6
"""Sets of more shapes than so many are looked for without a limit on shapes alone."""
MORE_SETS = 2
DEAR = 1.15
"""Sets of few shapes that cost so many times the cheapest are no good start."""
Indexes = npt.NDArray[np.int64]


class Solution(NamedTuple):
    """``counts``: nodes of each shape; ``bound``: what any set costs at least."""

    counts: Counts
    bound: float


@dataclass(frozen=True)
class SolvedPacking:
    """``seconds``: the longest that one program is worked on."""

    seconds: float = 8.0

    def starts(self, program: PackingProgram) -> Starts:
        """Sets of as few shapes as do, of one more, and of any; between them those that need no solver.

        On one main shape every pod finds its place, where kube-scheduler does not put each where it would have to, and
        pods that could be on all of several shapes take what is meant for those that are bound to one.
        """
        plain, cuts = PlainPacking().starts(program), cuts_of(program, self.seconds)
        every = self._solved(program, cuts=cuts)
        if every is None:
            return plain
        few, most = list[Counts](), len(every.counts)
        for kinds in range(1, min(most, FEWEST_KINDS + 1)):
            if len(few) < MORE_SETS and (limited := self._solved(program, most=kinds, cuts=cuts)):
                few.append(limited.counts)
        few.sort(key=lambda counts: program.cost(counts) > DEAR * program.cost(every.counts))
        mixed = [*few, every.counts]
        pairs = zip_longest(mixed, plain.sets)
        sets = {named(some): some for pair in pairs for some in pair if some}
        return Starts(list(sets.values()), max(every.bound, plain.bound), (*plain.cuts, *cuts))

    def more(self, program: PackingProgram, among: Iterable[str]) -> Counts:
        """Nodes for the pods of the program, of shapes ``among`` all where those take them."""
        takes = program.taking(among)
        found = self._solved(program, takes)
        return found.counts if found else PlainPacking().more(program, among)

    def _solved(
        self,
        program: PackingProgram,
        takes: Bools | None = None,
        *,
        most: int = 0,
        cuts: Sequence[Cut] = (),
    ) -> Solution | None:
        """``most``: kinds of shapes, 0 for any number; ``cuts``: what holds of any set that takes all pods."""
        some = np.flatnonzero((program.pods > 0) & program.takes.any(axis=1))
        if not len(some):
            return Solution({}, 0.0)
        takes = program.takes if takes is None else takes
        kept = program.undominated(takes[some])
        if not takes[some][:, kept].any(axis=1).all():
            return None
        return _Milp(program, some, np.flatnonzero(kept), takes).solution(self.seconds, most, cuts)


class _Milp:
    """Variables: pods of group g on nodes of shape s, for V pairs; nodes of each of S shapes; whether any is bought."""

    def __init__(self, program: PackingProgram, groups: Indexes, shapes: Indexes, takes: Bools) -> None:
        self.program, self.groups, self.shapes = program, groups, shapes
        self.group, self.shape = np.nonzero(takes[np.ix_(groups, shapes)])  # (V,) each
        self.sparse: Any = import_module("scipy.sparse")

    def solution(self, seconds: float, most: int, cuts: Sequence[Cut]) -> Solution | None:
        """None where there is none, or none was found in time. ``most``: kinds of shapes, 0 for any number."""
        pairs, shapes = len(self.group), len(self.shapes)
        costs = self.program.costs[self.shapes]
        whole = np.concatenate((np.zeros(pairs), np.ones(shapes), np.ones(shapes)))
        high = np.full(len(whole), np.inf)
        high[pairs + shapes :] = 1
        value = np.concatenate((np.zeros(pairs), costs, np.zeros(shapes)))
        found = mixed_program(value, high, whole, list(self._constraints(most, cuts)), seconds=seconds, gap=GAP)
        if found is None:
            return None
        nodes = np.rint(found.x[pairs : pairs + shapes]).astype(int).tolist()
        names = [self.program.names[at] for at in self.shapes.tolist()]
        counts = {name: number for name, number in zip(names, nodes, strict=True) if number}
        return Solution(counts, found.bound * (1 - SLACK))

    def _constraints(self, most: int, cuts: Sequence[Cut]) -> Any:
        pods = self.program.pods[self.groups]
        yield self._constraint(self._rows(self.group, len(self.groups), np.ones(len(self.group)), 0), pods, pods)
        for measure in self.program.measures:
            shares = measure[np.ix_(self.groups, self.shapes)][self.group, self.shape]
            yield self._constraint(self._rows(self.shape, len(self.shapes), shares, -1), -np.inf, 0)
        yield from self._apart()
        yield from self._worth(cuts)
        if most:
            yield from self._kinds(most)

    def _worth(self, cuts: Sequence[Cut]) -> Any:
        """Nodes that are worth what all pods are."""
        shapes, pairs = np.arange(len(self.shapes)), len(self.group)
        for cut in cuts:
            row = self._matrix(cut.worth[self.shapes] / cut.least, np.zeros(len(shapes)), pairs + shapes, 1)
            yield self._constraint(row, 1 - SAFE, np.inf)

    def _apart(self) -> Any:
        """No more of them than nodes."""
        pairs = np.flatnonzero(self.program.apart[self.groups][self.group])
        if len(pairs):
            ones, rows = np.ones(len(pairs)), np.arange(len(pairs))
            columns = np.concatenate((pairs, len(self.group) + self.shape[pairs]))
            yield self._constraint(
                self._matrix(np.concatenate((ones, -ones)), np.tile(rows, 2), columns, len(pairs)), -np.inf, 0
            )

    def _kinds(self, most: int) -> Any:
        """Nodes of no more shapes than so many."""
        pairs, shapes = len(self.group), len(self.shapes)
        rows, ones = np.arange(shapes), np.ones(shapes)
        enough = self.program.alone(self.program.pods)[self.shapes]
        columns = np.concatenate((pairs + rows, pairs + shapes + rows))
        bounded = self._matrix(np.concatenate((ones, -enough)), np.tile(rows, 2), columns, shapes)
        yield self._constraint(bounded, -np.inf, 0)
        yield self._constraint(self._matrix(ones, np.zeros(shapes), pairs + shapes + rows, 1), 0, most)

    def _rows(self, rows: Indexes, number: int, values: Table, nodes: float) -> Any:
        """A row for each of so many groups or shapes; ``nodes``: what the nodes of each shape count there."""
        own = np.arange(number if nodes else 0)
        values = np.concatenate((values, np.full(len(own), nodes)))
        columns = np.concatenate((np.arange(len(self.group)), len(self.group) + own))
        return self._matrix(values, np.concatenate((rows, own)), columns, number)

    def _matrix(self, values: Table, rows: npt.NDArray[Any], columns: Indexes, number: int) -> Any:
        width = len(self.group) + 2 * len(self.shapes)
        return self.sparse.csr_array((values, (rows, columns)), shape=(number, width))

    def _constraint(self, matrix: Any, low: object, high: object) -> Any:
        return import_module("scipy.optimize").LinearConstraint(matrix, low, high)
