"""Sets of nodes that take all pods: more nodes than a start has until everybody has one, then fewer and cheaper ones.

A program of requests (``program.py``) proposes nodes, replays tell whether they do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kschedctl.reports.unknown import UnknownKind
from kschedctl.studies.sizing.plain import PlainPacking
from kschedctl.studies.sizing.program import Counts, PackingProgram, named
from kschedctl.studies.sizing.replays import NodeSets
from kschedctl.studies.sizing.solved import SolvedPacking

MOST_ROUNDS = 8
"""So often nodes are added, each time four times as many where that helped little."""
MOST_REFILLS = 3
SLACK = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of cpu and memory that a set leaves free."""
FINEST_SLACK = 0.01
TOO_LITTLE = 1e-4
"""A share of what a set costs that is not worth a replay."""
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
    _slack: dict[tuple[float, tuple[str, ...]], Counts] = field(default_factory=dict)

    def with_slack(self, slack: float, among: tuple[str, ...]) -> Counts:
        """The cheapest nodes of some shapes, with such a share of cpu and memory left free."""
        if (slack, among) not in self._slack:
            self._slack[slack, among] = self.packing.more(self.program.with_slack(slack), among)
        return self._slack[slack, among]


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
    homeless = sets.why(growth.counts, waiting) if waiting else {}
    counts = growth.tightened(task, waiting.keys())
    return SearchedSet(counts, homeless, True, tuple(sets.unknown), task.counts)


class _Growth:
    """More nodes for those that wait, or that much more of all that the others leave room: the cheaper of both.

    Where nodes have no taints, pods that could run elsewhere take what is meant for those that wait. Room for all that
    helped few is followed by nodes for those that wait.
    """

    def __init__(self, search: SetSearch, start: Counts) -> None:
        self._search, self._start = search, start
        self.counts = dict(start)
        self._fewest, self._step = len(search.program.group_of) + 1, 1
        self._slack: tuple[float, ...] = ()

    def grow(self, helped: Mapping[str, tuple[str, ...]], waiting: int) -> None:
        """``helped``: the pods that wait, and the shapes of which one more node would take each now."""
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
        return dict(self._search.with_slack(slack, tuple(self._start)))

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
