"""Candidate nodes for preemption, and the choice of the cheapest.

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
from kschedctl.snapshot.delta import find_run_starts
from kschedctl.snapshot.fork import Fork

Positions = npt.NDArray[np.int64]
Costs = npt.NDArray[np.int64]

PRIORITY_OFFSET = 2**31
"""Added to each priority before summing, so that many pods of negative priority do not look cheap."""


class Candidate(msgspec.Struct, frozen=True):
    """A node where evicting some pods makes room."""

    row: Row
    victims: tuple[Position, ...]
    """Positions of the pods to evict, in upstream's order."""
    violating: frozenset[Position]
    """The victims whose eviction violates a PDB."""
    pdb_violations: int
    """Number of PDB violations, as counted here or by an extender."""


class Candidates(Sequence[Candidate]):
    """The candidates for preemption in node order, stored as columns.

    For C candidates with V victims in total, `row` (C,) has the nodes. `victims` (V,) has the pods to evict, sorted by
    candidate. The victims of candidate i are between `starts[i]` and `starts[i + 1]`. `violating` (V,) marks victims
    whose eviction violates a PDB. `reported_violations` (C,) has the numbers of violations from an extender, if an
    extender reports different numbers.
    """

    def __init__(
        self,
        row: Positions,
        starts: Positions,
        victims: Positions,
        violating: npt.NDArray[np.bool_],
        reported_violations: Costs | None = None,
    ) -> None:
        self.row, self.starts, self.victims, self.violating = row, starts, victims, violating
        self._reported_violations = reported_violations

    @cached_property
    def violations(self) -> Costs:
        """The number of PDB violations of each candidate."""
        if self._reported_violations is not None:
            return self._reported_violations
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
        number = range(len(self))[number]  # resolves negative numbers, and raises IndexError
        start, end = self.starts[number : number + 2]
        victims = self.victims[start:end]
        violating = frozenset(victims[self.violating[start:end]].tolist())
        row = Row(int(self.row[number]))
        return Candidate(row, tuple(victims.tolist()), violating, int(self.violations[number]))

    @property
    def sizes(self) -> Positions:
        """The number of victims of each candidate."""
        return np.diff(self.starts)

    def with_counted_violations(self, violating: npt.NDArray[np.bool_]) -> Candidates:
        """Return the candidates with only the victims in the mask `violating` counted as PDB violations.

        The marks of the victims themselves do not change.
        """
        counted = Candidates(self.row, self.starts, self.victims, violating)
        return Candidates(
            self.row, self.starts, self.victims, violating=self.violating, reported_violations=counted.violations
        )

    def select(self, indexes: Positions) -> Candidates:
        """Return the candidates at these indexes, which must be in ascending order."""
        is_chosen = np.zeros(len(self), np.bool_)
        is_chosen[indexes] = True
        victims = np.repeat(is_chosen, self.sizes)
        starts = np.append(0, np.cumsum(self.sizes[indexes]))
        violations = self.violations[indexes]
        return Candidates(
            self.row[indexes],
            starts,
            self.victims[victims],
            violating=self.violating[victims],
            reported_violations=violations,
        )


NO_CANDIDATES = Candidates(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True)
class BestCandidates:
    """The candidates that no criterion excludes, and the last criterion that excluded any."""

    tied: Candidates
    decided_by: str


def _count_violations(view: Fork, candidates: Candidates) -> Costs:
    """Return the number of PDB violations of each candidate."""
    return candidates.violations


def _find_highest_priorities(view: Fork, candidates: Candidates) -> Costs:
    """Return the priority of each candidate's most important victim."""
    first_victims = candidates.starts[:-1]  # upstream takes the first victim for the most important one
    return _get_victim_priorities(view, candidates)[first_victims]


def _sum_priorities(view: Fork, candidates: Candidates) -> Costs:
    """Return, for each candidate, the sum of its victims' priorities, each with PRIORITY_OFFSET added."""
    return np.add.reduceat(_get_victim_priorities(view, candidates) + PRIORITY_OFFSET, candidates.starts[:-1])


def _count_victims(view: Fork, candidates: Candidates) -> Costs:
    """Return the number of victims of each candidate."""
    return candidates.sizes


def _negate_earliest_start_times(view: Fork, candidates: Candidates) -> Costs:
    """Return, for each candidate, the negated earliest start time of its most important victims.

    These are its victims of the highest priority. The time is negated because the candidate with the latest time is
    preferred, and lower costs are better.
    """
    priorities = _get_victim_priorities(view, candidates)
    first_victims = candidates.starts[:-1]  # the index of each candidate's first victim
    highest = np.repeat(np.maximum.reduceat(priorities, first_victims), candidates.sizes)
    never = np.iinfo(np.int64).max
    start = np.where(priorities == highest, view.pods.start[candidates.victims], never)
    return -np.minimum.reduceat(start, first_victims)


def _get_victim_priorities(view: Fork, candidates: Candidates) -> Costs:
    """Return the priority of each victim."""
    infos = view.pods.info[candidates.victims]
    return view.pods.priority[infos]


CRITERIA: tuple[tuple[str, Callable[[Fork, Candidates], Costs]], ...] = (
    ("fewest PodDisruptionBudget violations", _count_violations),
    ("lowest priority of the most important victim", _find_highest_priorities),
    ("lowest sum of the victims' priorities", _sum_priorities),
    ("fewest victims", _count_victims),
    ("latest start of the most important victims", _negate_earliest_start_times),
)
"""Cost functions in upstream's order, each applied to the candidates that the earlier ones left equal. Smaller is
better.
"""


def choose_best_candidates(view: Fork, candidates: Candidates) -> BestCandidates:
    """Apply the criteria one after another, and return the best candidates and the deciding criterion.

    If several candidates remain, upstream picks one of them at random, and the deciding criterion says so. There must
    be at least one candidate.
    """
    remaining = candidates
    decided_by = "the only candidate"
    for name, cost in CRITERIA:
        if len(remaining) < 2:
            break
        costs = cost(view, remaining)
        best = np.flatnonzero(costs == costs.min())
        if len(best) < len(remaining):
            remaining = remaining.select(best)
            decided_by = name

    if len(remaining) > 1:
        decided_by = "a tie: any of them"
    return BestCandidates(remaining, decided_by)


def rank_within_runs(sorted_values: Ints | Rows) -> Positions:
    """Return, for each of the sorted values, how many equal values precede it."""
    starts = find_run_starts(sorted_values)
    return np.arange(len(sorted_values)) - np.repeat(starts, np.diff(starts, append=len(sorted_values)))
