"""Sets of nodes that take all pods: more nodes than a start has until everybody has one, then fewer and cheaper ones.

A program of requests (``program.py``) proposes nodes, replays tell whether they do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kschedctl.commands.size.filling import FillLevels, SetBasis, crowded_out, fillings, with_one_of_each
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.program import Counts, PackingProgram, named
from kschedctl.commands.size.replays import NodeSets
from kschedctl.commands.size.solved import SolvedPacking
from kschedctl.reports.unknown import UnknownKind

MOST_ROUNDS = 8
"""So often nodes are added, each time four times as many where that helped little."""
MOST_REFILLS = 3
SLACK = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of cpu and memory that a set leaves free."""
FINEST_SLACK = 0.01
TOO_LITTLE = 1e-4
"""A share of what a set costs that is not worth a replay."""
CLOSER = 0.03
"""So much more than they were seen to be others may be filled."""
Unknown = tuple[UnknownKind, ...]


class SearchTask(NamedTuple):
    """A set to begin with; ``until``: when to stop, in seconds since the epoch, which other machines know, too.

    ``homeless``: the pods that no set takes; ``before``: the set of which this one came.
    """

    counts: Counts
    until: float
    homeless: frozenset[str] = frozenset()
    before: Counts | None = None

    @property
    def late(self) -> bool:
        return time.time() > self.until


class SearchedSet(NamedTuple):
    """``homeless``: the pods that get no node of it, and why; None where others might, had there been more time.

    ``complete``: there was time to look on; ``before``: the set to begin with.
    """

    counts: Counts
    homeless: Mapping[str, str] | None = None
    complete: bool = True
    unknown: Unknown = ()
    before: Counts | None = None


@dataclass(eq=False)
class SetSearch:
    """``best``: what ``improved`` has reached by now, for who interrupts it; ``bound``: no set costs less."""

    sets: NodeSets
    program: PackingProgram
    packing: PlainPacking | SolvedPacking
    best: dict[str, Counts] = field(default_factory=dict)
    bound: float = 0.0
    _slack: dict[tuple[SetBasis, float], Counts] = field(default_factory=dict)
    _probed: FillLevels | None = None

    def with_slack(self, basis: SetBasis, slack: float) -> Counts:
        """The cheapest nodes of its shapes, with such a share of cpu and memory left free."""
        if (basis, slack) not in self._slack:
            self._slack[basis, slack] = self.packing.more(basis.program.with_slack(slack), basis.among)
        return self._slack[basis, slack]

    def probed(self, counts: Counts, waiting: Sequence[str]) -> FillLevels | None:
        """What a node more of each shape tells, of the shape that is needed with which a set costs least.

        ``counts``: a set on which those pods wait. Raises KeyboardInterrupt.
        """
        if self._probed is None:
            crowded = crowded_out(self.program, waiting)
            some = self.fillings(with_one_of_each(self.program, counts), waiting)
            sets = [self.with_slack(each.basis(self.program, crowded), 0.0) for each in some]
            costs = list(map(self.program.cost, sets))
            self._probed = some[costs.index(min(costs))] if some else None
        return self._probed

    def is_crowded(self, counts: Counts) -> bool:
        """Whether pods wait on a set as others take the room that they need. Raises KeyboardInterrupt."""
        helped = [key for key, takers in self.sets.waiting(counts).items() if takers]
        return bool(crowded_out(self.program, helped).any()) and not self.sets.zone_loss

    def fillings(self, counts: Counts, waiting: Sequence[str]) -> list[FillLevels]:
        """How full nodes of a set get. Raises KeyboardInterrupt."""
        simulation, outcomes, nodes = self.sets.in_order(counts)
        return fillings(self.program, nodes, simulation, outcomes, waiting)


def grown(search: SetSearch, task: SearchTask) -> SearchedSet:
    """So many nodes, of shapes as the start has them where that does, that all pods get one."""
    sets, growth = search.sets, _Growth(search, task.counts)
    for _ in range(MOST_ROUNDS):
        if task.late:
            return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
        waiting = sets.waiting(growth.counts)
        helped = {key: takers for key, takers in waiting.items() if takers}
        if not helped:
            break
        growth.grow(helped, len(waiting))
    else:  # what the last set leaves out another one may take
        return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
    homeless = sets.why(growth.counts, waiting) if waiting else {}
    counts = growth.tightened(task, waiting.keys())
    return SearchedSet(counts, homeless, True, tuple(sets.unknown), task.counts)


class _Growth:
    """More nodes for those that wait, or that much more of all that the others leave room: the cheaper of both.

    Where nodes have no taints, pods that could run elsewhere take what is meant for those that wait: then sets are made
    of which the rest is large enough. Room for all that helped few is followed by nodes for those that wait.
    """

    def __init__(self, search: SetSearch, start: Counts) -> None:
        self._search, self._basis = search, SetBasis(search.program, tuple(start))
        self.counts = dict(start)
        self._fewest, self._step = len(search.program.group_of) + 1, 1
        self._slack: tuple[float, ...] = ()
        self._filling: FillLevels | None = None
        self._uncrowded_waiting: int | None = None

    def grow(self, helped: Mapping[str, tuple[str, ...]], waiting: int) -> None:
        """``helped``: the pods that wait, and the shapes of which one more node would take each now."""
        if not self._uncrowd(list(helped)):
            self._grow(helped, waiting)

    def _uncrowd(self, waiting: Sequence[str]) -> bool:
        """Whether others take the room of those that wait; then a set where they do less."""
        search, crowded = self._search, crowded_out(self._search.program, waiting)
        fewer = self._uncrowded_waiting is None or len(waiting) < self._uncrowded_waiting
        if not crowded.any() or not fewer or search.sets.zone_loss:
            return False
        self._uncrowded_waiting = len(waiting)
        if self._filling is None:
            self._filling = search.probed(self.counts, waiting)
        else:
            seen = search.fillings(self.counts, waiting)
            later = next((each for each in seen if each.needed == self._filling.needed), self._filling)
            self._filling = self._filling.corrected(later)
        if self._filling is None:
            return False
        slack = self._slack[1] + FINEST_SLACK if self._slack else 0.0
        self._basis, self._slack = self._filling.basis(search.program, crowded), (-CLOSER, slack)
        self.counts = self._with(slack)
        return True

    def _grow(self, helped: Mapping[str, tuple[str, ...]], waiting: int) -> None:
        cost, before = self._search.program.cost, self.counts
        little = 2 * waiting >= self._fewest
        self._step = 4 * self._step if little and not self._slack else 1
        self._fewest = min(self._fewest, waiting)
        more = self._more(helped)
        slack = next((at for at in SLACK if cost(self._with(at)) > cost(before)), None)
        in_vain = little and bool(self._slack)
        if slack is None or in_vain or cost(more) <= cost(self._with(slack)):
            self.counts, self._slack = more, ()
        else:
            lower = max((at for at in SLACK if at < slack), default=0.0)
            self.counts, self._slack = self._with(slack), (lower, slack)

    def _more(self, helped: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        search, counts, most = self._search, dict(self.counts), sum(self.counts.values())
        for name, number in search.packing.more(search.program.among(helped), counts).items():
            counts[name] = counts.get(name, 0) + max(number, min(self._step * number, most))
        return counts

    def _with(self, slack: float) -> dict[str, int]:
        """A set of the same shapes with such a share of it free."""
        return dict(self._search.with_slack(self._basis, slack))

    def tightened(self, task: SearchTask, waiting: Set[str]) -> Counts:
        """With less of it free, as long as that takes all the same pods."""
        lower, upper = self._slack or (0.0, 0.0)
        while upper - lower > FINEST_SLACK and not task.late:
            middle = (lower + upper) / 2
            if self._search.sets.waiting(self._with(middle)).keys() <= waiting:
                upper, self.counts = middle, self._with(middle)
            else:
                lower = middle
        return self.counts


def improved(search: SetSearch, task: SearchTask) -> SearchedSet:
    """A cheaper set that takes as many: fewer of a shape, and others for those that get no node then.

    First of what was added to the set to begin with, ``task.before``, then of the dearest.
    """
    counts, start, improves = dict(task.counts), named(task.counts), True
    while improves and not task.late:
        improves = False
        for name in sorted(counts, key=lambda name: _dearest(search, task, counts, name), reverse=True):
            step = max(min(counts.get(name, 0) // 2, _most_less(search, task, counts, name)), 1)
            while step and counts.get(name) and not task.late:
                fewer = {**counts, name: max(counts[name] - step, 0)}
                better = _refilled(search, fewer, search.program.cost(counts), task.homeless)
                if better is None:
                    step //= 2
                else:
                    counts, improves = better, True
                    search.best[start] = counts
    return SearchedSet(counts, {}, not task.late, tuple(search.sets.unknown))


def _most_less(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> int:
    """How many nodes of a shape cost what the set does above the bound, of those that were added half of them."""
    above = ceil((search.program.cost(counts) - search.bound) / search.program.cost({name: 1}))
    added = counts.get(name, 0) - (task.before or counts).get(name, 0)
    return min(above, ceil(added / 2)) if added > 0 else above


def _dearest(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> tuple[float, float]:
    added, cost = counts.get(name, 0) - (task.before or {}).get(name, 0), search.program.cost({name: 1})
    return max(added, 0) * cost, cost


def _refilled(search: SetSearch, counts: dict[str, int], below: float, homeless: Set[str]) -> dict[str, int] | None:
    """The set with other nodes for the pods that wait, where that costs less than ``below``."""
    program, most = search.program, len(search.program.group_of)
    for _ in range(MOST_REFILLS):
        if search.program.cost(counts) > below - TOO_LITTLE * below or not any(counts.values()):
            return None
        waiting = {key: takers for key, takers in search.sets.waiting(counts).items() if key not in homeless}
        if not waiting:
            return {name: number for name, number in counts.items() if number}
        if not all(waiting.values()) or len(waiting) > most:
            return None
        most = len(waiting) // 2
        more = search.packing.more(program.among(waiting), program.names)
        counts = {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}
    return None
