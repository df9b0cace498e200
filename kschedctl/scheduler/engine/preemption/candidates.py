"""The nodes on which preemption would help, and which of them costs least.

Upstream: pickOneNodeForPreemption in pkg/scheduler/framework/preemption (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Ints, Position, Row, Rows
from kschedctl.snapshot.delta import run_starts
from kschedctl.snapshot.fork import Fork

Positions = npt.NDArray[np.int64]
Costs = npt.NDArray[np.int64]

PRIORITY_OFFSET = 2**31
"""Added to each priority before summing, so that many pods of negative priority do not look cheap."""


class Candidate(msgspec.Struct, frozen=True):
    """A node where evicting ``victims``, in upstream's order, makes room; ``violating`` break a budget by it.

    Pods are positions into view.pods. ``pdb_violations``: how many of them that is, or an extender says that it is.
    """

    row: Row
    victims: tuple[Position, ...]
    violating: frozenset[Position]
    pdb_violations: int


class Candidates(Sequence[Candidate]):
    """C candidates in node order, as columns.

    ``row`` (C,): their nodes. ``victims`` (V,): the pods to evict, node after node; those of the i-th are between
    ``starts[i]`` and ``starts[i + 1]``. ``violating`` (V,): the victim breaks a budget.
    ``said`` (C,): how many of each are said to break one, where that is not as many as do.
    """

    def __init__(
        self,
        row: Positions,
        starts: Positions,
        victims: Positions,
        violating: npt.NDArray[np.bool_],
        said: Costs | None = None,
    ) -> None:
        self.row, self.starts, self.victims, self.violating = row, starts, victims, violating
        self._said = said

    @cached_property
    def violations(self) -> Costs:
        """(C,): how many budgets each breaks."""
        if self._said is not None:
            return self._said
        return np.diff(np.append(0, np.cumsum(self.violating))[self.starts])

    def __len__(self) -> int:
        return len(self.row)

    @overload
    def __getitem__(self, number: int) -> Candidate: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, number: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        number = range(len(self))[number]
        mine = slice(self.starts[number], self.starts[number + 1])
        violating = frozenset(self.victims[mine][self.violating[mine]].tolist())
        victims = tuple(self.victims[mine].tolist())
        return Candidate(Row(int(self.row[number])), victims, violating, int(self.violations[number]))

    @property
    def sizes(self) -> Positions:
        """(C,): how many victims each has."""
        return np.diff(self.starts)

    def counted(self, violating: npt.NDArray[np.bool_]) -> Candidates:
        """The candidates with no more than these (V,) of the victims counted among those that break a budget."""
        counted = Candidates(self.row, self.starts, self.victims, violating)
        return Candidates(self.row, self.starts, self.victims, self.violating, counted.violations)

    def take(self, numbers: Positions) -> Candidates:
        """Some of the candidates, given in ascending order."""
        chosen = np.zeros(len(self), np.bool_)
        chosen[numbers] = True
        victims = np.repeat(chosen, self.sizes)
        starts = np.append(0, np.cumsum(self.sizes[numbers]))
        violations = self.violations[numbers]
        return Candidates(self.row[numbers], starts, self.victims[victims], self.violating[victims], violations)


NO_CANDIDATES = Candidates(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True)
class BestCandidates:
    """The candidates that are left equal by all criteria, and the criterion that came last in deciding."""

    tied: Candidates
    decided_by: str


def _violations(view: Fork, among: Candidates) -> Costs:
    return among.violations


def _highest_priority(view: Fork, among: Candidates) -> Costs:
    return _priorities(view, among)[among.starts[:-1]]


def _sum_of_priorities(view: Fork, among: Candidates) -> Costs:
    return np.add.reduceat(_priorities(view, among) + PRIORITY_OFFSET, among.starts[:-1])


def _number(view: Fork, among: Candidates) -> Costs:
    return among.sizes


def _latest_start(view: Fork, among: Candidates) -> Costs:
    """The earliest start among the victims of the highest priority, negated: the latest of them wins."""
    priorities = _priorities(view, among)
    highest = np.repeat(np.maximum.reduceat(priorities, among.starts[:-1]), among.sizes)
    start = np.where(priorities == highest, view.pods.start[among.victims], np.iinfo(np.int64).max)
    return -np.minimum.reduceat(start, among.starts[:-1])


def _priorities(view: Fork, among: Candidates) -> Costs:
    return view.pods.priority[view.pods.info[among.victims]]


CRITERIA: tuple[tuple[str, Callable[[Fork, Candidates], Costs]], ...] = (
    ("fewest PodDisruptionBudget violations", _violations),
    ("lowest priority of the most important victim", _highest_priority),
    ("lowest sum of the victims' priorities", _sum_of_priorities),
    ("fewest victims", _number),
    ("latest start of the most important victims", _latest_start),
)
"""In this order, each among those that the ones before left equal; (C,) each, smaller is better."""


def choose(view: Fork, candidates: Candidates) -> BestCandidates:
    """The candidates that upstream would pick from, each with victims; where several are left, it takes any."""
    left = candidates
    decided_by = "the only candidate"
    for name, cost in CRITERIA:
        if len(left) < 2:
            break
        costs = cost(view, left)
        best = np.flatnonzero(costs == costs.min())
        if len(best) < len(left):
            left, decided_by = left.take(best), name
    if len(left) > 1:
        decided_by = "a tie: any of them"
    return BestCandidates(left, decided_by)


def turn(node: Ints | Rows) -> Positions:
    """For sorted rows: how many of the same row come before each."""
    starts = run_starts(node)
    return np.arange(len(node)) - np.repeat(starts, np.diff(starts, append=len(node)))
