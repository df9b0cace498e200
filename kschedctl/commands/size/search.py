"""The search for node sets that take all pods: add nodes until all pods have one, then remove and replace nodes.

The packing program proposes nodes, replays decide.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kschedctl.commands.size.fill_levels import (
    FillLevels,
    SetBasis,
    add_one_of_each,
    find_crowded_shapes,
    measure_levels_when_full,
)
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
NEGLIGIBLE_SHARE = 1e-4
"""The share of a set's cost that is not worth a replay."""
FILL_TOLERANCE = 0.03
"""The share by which other nodes may get fuller than observed."""
Unknown = tuple[UnknownKind, ...]


class SearchTask(NamedTuple):
    """A set to start from, and when to stop."""

    counts: Counts
    until: float
    """The time to stop, in seconds since the epoch, comparable between machines."""
    homeless: frozenset[str] = frozenset()
    """The pods that no set takes."""
    grown_from: Counts | None = None
    """The set from which this set was grown."""

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.time() > self.until


class SearchedSet(NamedTuple):
    """The result of a search from one starting set."""

    counts: Counts
    homeless: Mapping[str, str] | None = None
    """The pods without a node and kube-scheduler's messages, None if there was no time to place all other pods."""
    complete: bool = True
    """Whether the search had time to finish."""
    unknown: Unknown = ()
    grown_from: Counts | None = None
    """The starting set."""


@dataclass(eq=False)
class SetSearch:
    """The state that the searches from all starting sets share."""

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
        """Return the cheapest nodes for the basis of which a share of cpu and memory stays free."""
        if (basis, slack) not in self._slack:
            self._slack[basis, slack] = self.packing.pack(basis.program.with_slack(slack), basis.shape_names)
        return self._slack[basis, slack]

    def probe_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> FillLevels | None:
        """Return the fill levels from which the cheapest set follows, or None if no shape is crowded.

        The levels are measured on `counts`, on which the pods wait, and one more node of each shape. Raises
        KeyboardInterrupt.
        """
        if self._probed is None:
            crowded = find_crowded_shapes(self.program, waiting)
            levels = self.measure_fill_levels(add_one_of_each(self.program, counts), waiting)
            sets = [self.pack_with_slack(level.build_basis(self.program, crowded), 0.0) for level in levels]
            costs = list(map(self.program.compute_cost, sets))
            self._probed = levels[costs.index(min(costs))] if levels else None
        return self._probed

    def is_crowded(self, counts: Counts) -> bool:
        """Return whether pods wait because other pods take the room that they need. Raises KeyboardInterrupt."""
        placeable = [key for key, takers in self.sets.find_waiting(counts).items() if takers]
        return bool(find_crowded_shapes(self.program, placeable).any()) and not self.sets.zone_loss

    def measure_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> list[FillLevels]:
        """Return how full the nodes of a set are when the needed nodes get full. Raises KeyboardInterrupt."""
        simulation, outcomes, nodes = self.sets.replay_in_order(counts)
        return measure_levels_when_full(self.program, nodes, simulation, outcomes, waiting)


def grow_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Add nodes to the starting set until all pods that can have a node get one."""
    sets, growth = search.sets, _Growth(search, task.counts)
    for _ in range(MAX_ROUNDS):
        if task.is_late:
            return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
        waiting = sets.find_waiting(growth.counts)
        placeable = {key: takers for key, takers in waiting.items() if takers}
        if not placeable:
            break
        growth.grow(placeable, len(waiting))
    else:  # what the last set leaves out another one may take
        return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown))
    homeless = sets.explain_waiting(growth.counts, waiting) if waiting else {}
    counts = growth.reduce_slack(task, waiting.keys())
    return SearchedSet(counts, homeless, True, tuple(sets.unknown), task.counts)


class _Growth:
    """A set that grows by steps: nodes for the waiting pods or free capacity overall, whichever is cheaper.

    If nodes have no taints, pods that could run elsewhere fill nodes meant for the waiting ones. Then sets are built
    whose other nodes are large enough. If more free capacity helped few pods, nodes for the waiting pods follow.
    """

    def __init__(self, search: SetSearch, start: Counts) -> None:
        self._search, self._basis = search, SetBasis(search.program, tuple(start))
        self.counts = dict(start)
        self._fewest, self._step = len(search.program.group_of) + 1, 1
        self._slack: tuple[float, ...] = ()
        self._filling: FillLevels | None = None
        self._uncrowded_waiting: int | None = None

    def grow(self, takers_by_pod: Mapping[str, tuple[str, ...]], waiting_count: int) -> None:
        """Grow the set by one step.

        `takers_by_pod` has, for waiting pods, the shapes of which one more node would take the pod. `waiting_count` is
        the number of all waiting pods.
        """
        if not self._relieve_crowding(list(takers_by_pod)):
            self._add_nodes(takers_by_pod, waiting_count)

    def _relieve_crowding(self, waiting: Sequence[str]) -> bool:
        """Build a set in which other pods take less of the needed room. Return False if no shape is crowded."""
        search, crowded = self._search, find_crowded_shapes(self._search.program, waiting)
        has_improved = self._uncrowded_waiting is None or len(waiting) < self._uncrowded_waiting
        if not crowded.any() or not has_improved or search.sets.zone_loss:
            return False
        self._uncrowded_waiting = len(waiting)
        if self._filling is None:
            self._filling = search.probe_fill_levels(self.counts, waiting)
        else:
            levels = search.measure_fill_levels(self.counts, waiting)
            later = next((level for level in levels if level.needed == self._filling.needed), self._filling)
            self._filling = self._filling.update_from(later)
        if self._filling is None:
            return False
        slack = self._slack[1] + FINEST_SLACK if self._slack else 0.0
        self._basis, self._slack = self._filling.build_basis(search.program, crowded), (-FILL_TOLERANCE, slack)
        self.counts = self._pack_with_slack(slack)
        return True

    def _add_nodes(self, takers_by_pod: Mapping[str, tuple[str, ...]], waiting_count: int) -> None:
        """Add nodes for the waiting pods, or build the set with more slack if that is cheaper and worked before."""
        cost, previous_counts = self._search.program.compute_cost, self.counts
        helped_little = 2 * waiting_count >= self._fewest
        self._step = 4 * self._step if helped_little and not self._slack else 1
        self._fewest = min(self._fewest, waiting_count)
        with_more_nodes = self._add_for_waiting(takers_by_pod)
        slack = next((share for share in SLACK if cost(self._pack_with_slack(share)) > cost(previous_counts)), None)
        slack_was_useless = helped_little and bool(self._slack)
        if slack is None or slack_was_useless or cost(with_more_nodes) <= cost(self._pack_with_slack(slack)):
            self.counts, self._slack = with_more_nodes, ()
        else:
            lower = max((share for share in SLACK if share < slack), default=0.0)
            self.counts, self._slack = self._pack_with_slack(slack), (lower, slack)

    def _add_for_waiting(self, takers_by_pod: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """Return the set with nodes for the waiting pods, at least as many of a shape as the step size."""
        search = self._search
        counts = dict(self.counts)
        max_added = sum(self.counts.values())
        for name, number in search.packing.pack(search.program.restrict_to(takers_by_pod), counts).items():
            counts[name] = counts.get(name, 0) + max(number, min(self._step * number, max_added))
        return counts

    def _pack_with_slack(self, slack: float) -> dict[str, int]:
        """Return a set of the same shapes of which a share stays free."""
        return dict(self._search.pack_with_slack(self._basis, slack))

    def reduce_slack(self, task: SearchTask, waiting: Set[str]) -> Counts:
        """Reduce the free share as long as the same pods get a node, and return the set."""
        lower, upper = self._slack or (0.0, 0.0)
        while upper - lower > FINEST_SLACK and not task.is_late:
            middle = (lower + upper) / 2
            if self._search.sets.find_waiting(self._pack_with_slack(middle)).keys() <= waiting:
                upper, self.counts = middle, self._pack_with_slack(middle)
            else:
                lower = middle
        return self.counts


def improve_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Search for a cheaper set that takes as many pods, by replacing nodes of one shape with fewer or other nodes.

    Nodes added to the starting set are removed first, then the most expensive ones.
    """
    counts = dict(task.counts)
    start = format_counts(task.counts)
    has_improved = True
    while has_improved and not task.is_late:
        has_improved = False
        for name in sorted(counts, key=lambda name: _removal_sort_key(search, task, counts, name), reverse=True):
            step = max(min(counts.get(name, 0) // 2, _compute_max_removable(search, task, counts, name)), 1)
            while step and counts.get(name) and not task.is_late:
                fewer_nodes = {**counts, name: max(counts[name] - step, 0)}
                cheaper_set = _replace_removed(search, fewer_nodes, search.program.compute_cost(counts), task.homeless)
                if cheaper_set is None:
                    step //= 2
                else:
                    counts, has_improved = cheaper_set, True
                    search.best[start] = counts
    return SearchedSet(counts, {}, not task.is_late, tuple(search.sets.unknown))


def _compute_max_removable(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> int:
    """Return how many nodes of a shape to remove at most: as many as the gap to the bound is worth.

    Of the nodes that were added to the starting set, at most half are removed.
    """
    nodes_in_gap = ceil((search.program.compute_cost(counts) - search.bound) / search.program.compute_cost({name: 1}))
    added = counts.get(name, 0) - (task.grown_from or counts).get(name, 0)
    return min(nodes_in_gap, ceil(added / 2)) if added > 0 else nodes_in_gap


def _removal_sort_key(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> tuple[float, float]:
    """Return a sort key that is highest for added nodes, then for expensive ones."""
    added, cost = counts.get(name, 0) - (task.grown_from or {}).get(name, 0), search.program.compute_cost({name: 1})
    return max(added, 0) * cost, cost


def _replace_removed(
    search: SetSearch, counts: dict[str, int], cost_limit: float, homeless: Set[str]
) -> dict[str, int] | None:
    """Return the set with nodes for the waiting pods, or None if it does not get cheaper than `cost_limit`."""
    program, max_waiting = search.program, len(search.program.group_of)
    for _ in range(MAX_REFILLS):
        if search.program.compute_cost(counts) > cost_limit - NEGLIGIBLE_SHARE * cost_limit or not any(counts.values()):
            return None
        waiting = {key: takers for key, takers in search.sets.find_waiting(counts).items() if key not in homeless}
        if not waiting:
            return {name: number for name, number in counts.items() if number}
        if not all(waiting.values()) or len(waiting) > max_waiting:
            return None
        max_waiting = len(waiting) // 2
        replacements = search.packing.pack(program.restrict_to(waiting), program.names)
        counts = {name: counts.get(name, 0) + replacements.get(name, 0) for name in {**counts, **replacements}}
    return None
