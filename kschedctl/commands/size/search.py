"""The search for node sets that take all pods: add nodes until everyone has one, then remove and replace nodes.

The packing program proposes nodes, replays decide.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kschedctl.commands.size.filling import FillLevels, SetBasis, add_one_of_each, fillings, find_crowded_shapes
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.program import Counts, PackingProgram, format_counts
from kschedctl.commands.size.replays import NodeSets
from kschedctl.commands.size.solved import SolvedPacking
from kschedctl.reports.unknown import UnknownKind

MAX_ROUNDS = 8
"""The number of times nodes are added, each time four times as many if the last ones helped little."""
MAX_REFILLS = 3
SLACK = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of cpu and memory that a set keeps free."""
FINEST_SLACK = 0.01
TOO_LITTLE = 1e-4
"""The share of a set's cost that is not worth a replay."""
CLOSER = 0.03
"""How much fuller than observed other nodes may get."""
Unknown = tuple[UnknownKind, ...]


class SearchTask(NamedTuple):
    """A set to start from, and when to stop."""

    counts: Counts
    until: float
    """Seconds since the epoch, comparable between machines."""
    homeless: frozenset[str] = frozenset()
    """Pods that no set takes."""
    before: Counts | None = None
    """The set that this one was grown from."""

    @property
    def is_late(self) -> bool:
        return time.time() > self.until


class SearchedSet(NamedTuple):
    """The result of a search from one starting set."""

    counts: Counts
    homeless: Mapping[str, str] | None = None
    """Pods without a node and why; None if there was no time to place all others."""
    complete: bool = True
    """Whether the search had time to finish."""
    unknown: Unknown = ()
    before: Counts | None = None
    """The starting set."""


@dataclass(eq=False)
class SetSearch:
    """The state shared by the searches from all starting sets."""

    sets: NodeSets
    program: PackingProgram
    packing: PlainPacking | SolvedPacking
    best: dict[str, Counts] = field(default_factory=dict)
    """The best set so far by starting set, for when the search is interrupted."""
    bound: float = 0.0
    """The cost below which no set exists."""
    _slack: dict[tuple[SetBasis, float], Counts] = field(default_factory=dict)
    _probed: FillLevels | None = None

    def pack_with_slack(self, basis: SetBasis, slack: float) -> Counts:
        """Return the cheapest nodes of the basis that keep a share of cpu and memory free."""
        if (basis, slack) not in self._slack:
            self._slack[basis, slack] = self.packing.pack(basis.program.with_slack(slack), basis.among)
        return self._slack[basis, slack]

    def probe_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> FillLevels | None:
        """Return the fill levels of the needed shape with which a set costs least, or None.

        ``counts`` is a set on which the pods wait. Raises KeyboardInterrupt.
        """
        if self._probed is None:
            crowded = find_crowded_shapes(self.program, waiting)
            some = self.measure_fill_levels(add_one_of_each(self.program, counts), waiting)
            sets = [self.pack_with_slack(each.restrict(self.program, crowded), 0.0) for each in some]
            costs = list(map(self.program.cost, sets))
            self._probed = some[costs.index(min(costs))] if some else None
        return self._probed

    def is_crowded(self, counts: Counts) -> bool:
        """Return whether pods wait because others take the room that they need. Raises KeyboardInterrupt."""
        helped = [key for key, takers in self.sets.find_waiting(counts).items() if takers]
        return bool(find_crowded_shapes(self.program, helped).any()) and not self.sets.zone_loss

    def measure_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> list[FillLevels]:
        """Return how full the nodes of a set get. Raises KeyboardInterrupt."""
        simulation, outcomes, nodes = self.sets.replay_in_order(counts)
        return fillings(self.program, nodes, simulation, outcomes, waiting)


def grow_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Add nodes to the starting set until all pods that can have a node get one."""
    sets, growth = search.sets, _Growth(search, task.counts)
    for _ in range(MAX_ROUNDS):
        if task.is_late:
            return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
        waiting = sets.find_waiting(growth.counts)
        helped = {key: takers for key, takers in waiting.items() if takers}
        if not helped:
            break
        growth.grow(helped, len(waiting))
    else:  # what the last set leaves out another one may take
        return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
    homeless = sets.explain_waiting(growth.counts, waiting) if waiting else {}
    counts = growth.reduce_slack(task, waiting.keys())
    return SearchedSet(counts, homeless, True, tuple(sets.unknown), task.counts)


class _Growth:
    """A growing set. Each step adds nodes for the waiting pods or free capacity overall, whichever is cheaper.

    Where nodes have no taints, pods that could run elsewhere fill nodes meant for the waiting ones. Then sets are built
    whose other nodes are large enough. If more free capacity helped few pods, nodes for the waiting pods follow.
    """

    def __init__(self, search: SetSearch, start: Counts) -> None:
        self._search, self._basis = search, SetBasis(search.program, tuple(start))
        self.counts = dict(start)
        self._fewest, self._step = len(search.program.group_of) + 1, 1
        self._slack: tuple[float, ...] = ()
        self._filling: FillLevels | None = None
        self._uncrowded_waiting: int | None = None

    def grow(self, helped: Mapping[str, tuple[str, ...]], waiting: int) -> None:
        """Grow the set by one step. ``helped`` holds the waiting pods and the shapes of which one more node would
        take each.
        """
        if not self._relieve_crowding(list(helped)):
            self._add_nodes(helped, waiting)

    def _relieve_crowding(self, waiting: Sequence[str]) -> bool:
        """Build a set in which other pods take less of the needed room. Return False if that is not the problem."""
        search, crowded = self._search, find_crowded_shapes(self._search.program, waiting)
        fewer = self._uncrowded_waiting is None or len(waiting) < self._uncrowded_waiting
        if not crowded.any() or not fewer or search.sets.zone_loss:
            return False
        self._uncrowded_waiting = len(waiting)
        if self._filling is None:
            self._filling = search.probe_fill_levels(self.counts, waiting)
        else:
            seen = search.measure_fill_levels(self.counts, waiting)
            later = next((each for each in seen if each.needed == self._filling.needed), self._filling)
            self._filling = self._filling.update_from(later)
        if self._filling is None:
            return False
        slack = self._slack[1] + FINEST_SLACK if self._slack else 0.0
        self._basis, self._slack = self._filling.restrict(search.program, crowded), (-CLOSER, slack)
        self.counts = self._pack_with_slack(slack)
        return True

    def _add_nodes(self, helped: Mapping[str, tuple[str, ...]], waiting: int) -> None:
        cost, before = self._search.program.cost, self.counts
        little = 2 * waiting >= self._fewest
        self._step = 4 * self._step if little and not self._slack else 1
        self._fewest = min(self._fewest, waiting)
        more = self._add_for_waiting(helped)
        slack = next((at for at in SLACK if cost(self._pack_with_slack(at)) > cost(before)), None)
        in_vain = little and bool(self._slack)
        if slack is None or in_vain or cost(more) <= cost(self._pack_with_slack(slack)):
            self.counts, self._slack = more, ()
        else:
            lower = max((at for at in SLACK if at < slack), default=0.0)
            self.counts, self._slack = self._pack_with_slack(slack), (lower, slack)

    def _add_for_waiting(self, helped: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        search, counts, most = self._search, dict(self.counts), sum(self.counts.values())
        for name, number in search.packing.pack(search.program.restrict_to(helped), counts).items():
            counts[name] = counts.get(name, 0) + max(number, min(self._step * number, most))
        return counts

    def _pack_with_slack(self, slack: float) -> dict[str, int]:
        """Return a set of the same shapes with a share of it free."""
        return dict(self._search.pack_with_slack(self._basis, slack))

    def reduce_slack(self, task: SearchTask, waiting: Set[str]) -> Counts:
        """Reduce the free share as long as the same pods get a node."""
        lower, upper = self._slack or (0.0, 0.0)
        while upper - lower > FINEST_SLACK and not task.is_late:
            middle = (lower + upper) / 2
            if self._search.sets.find_waiting(self._pack_with_slack(middle)).keys() <= waiting:
                upper, self.counts = middle, self._pack_with_slack(middle)
            else:
                lower = middle
        return self.counts


def improve_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Search for a cheaper set that takes as many pods, with fewer nodes of one shape and others to make up for them.

    Nodes added to the starting set are removed first, then the most expensive ones.
    """
    counts, start, has_improved = dict(task.counts), format_counts(task.counts), True
    while has_improved and not task.is_late:
        has_improved = False
        for name in sorted(counts, key=lambda name: _removal_priority(search, task, counts, name), reverse=True):
            step = max(min(counts.get(name, 0) // 2, _max_removable(search, task, counts, name)), 1)
            while step and counts.get(name) and not task.is_late:
                fewer = {**counts, name: max(counts[name] - step, 0)}
                better = _replace_removed(search, fewer, search.program.cost(counts), task.homeless)
                if better is None:
                    step //= 2
                else:
                    counts, has_improved = better, True
                    search.best[start] = counts
    return SearchedSet(counts, {}, not task.is_late, tuple(search.sets.unknown))


def _max_removable(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> int:
    """Return how many nodes of a shape cost as much as the set is above the bound; of added nodes at most half."""
    above = ceil((search.program.cost(counts) - search.bound) / search.program.cost({name: 1}))
    added = counts.get(name, 0) - (task.before or counts).get(name, 0)
    return min(above, ceil(added / 2)) if added > 0 else above


def _removal_priority(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> tuple[float, float]:
    added, cost = counts.get(name, 0) - (task.before or {}).get(name, 0), search.program.cost({name: 1})
    return max(added, 0) * cost, cost


def _replace_removed(
    search: SetSearch, counts: dict[str, int], below: float, homeless: Set[str]
) -> dict[str, int] | None:
    """Return the set with other nodes for the waiting pods, or None if it does not get cheaper than ``below``."""
    program, most = search.program, len(search.program.group_of)
    for _ in range(MAX_REFILLS):
        if search.program.cost(counts) > below - TOO_LITTLE * below or not any(counts.values()):
            return None
        waiting = {key: takers for key, takers in search.sets.find_waiting(counts).items() if key not in homeless}
        if not waiting:
            return {name: number for name, number in counts.items() if number}
        if not all(waiting.values()) or len(waiting) > most:
            return None
        most = len(waiting) // 2
        more = search.packing.pack(program.restrict_to(waiting), program.names)
        counts = {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}
    return None
