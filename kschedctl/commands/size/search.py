"""The search for node sets that take all pods: add nodes until all pods have one, then remove and replace nodes.

The packing program proposes nodes, replays decide.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from kschedctl.api.arrays import Bools
from kschedctl.commands.size.fill_levels import (
    FillLevels,
    PackingInput,
    add_one_node_of_each_undominated_shape,
    find_crowded_shapes,
    measure_levels_when_full,
)
from kschedctl.commands.size.program import Counts, PackingProgram, PlainPacking, format_counts
from kschedctl.commands.size.replays import NodeSets
from kschedctl.commands.size.solved import SolvedPacking
from kschedctl.reports.unknown import UnknownKind

MAX_ROUNDS = 8
"""The number of times nodes are added, each time four times as many if the last ones helped little."""
MAX_REFILLS = 3
"""The number of times that nodes are added for the pods that wait after nodes were removed."""
SLACK = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of cpu and memory that a set keeps free."""
FINEST_SLACK = 0.01
"""The precision to which the free share is reduced."""
NEGLIGIBLE_SHARE = 1e-4
"""The share of a set's cost that is not worth a replay."""
FILL_TOLERANCE = 0.03
"""The share by which other nodes may get fuller than observed."""
Unknown = tuple[UnknownKind, ...]


NEVER = float("inf")


class SearchLimit(NamedTuple):
    """The end of a search from one set."""

    max_replays: float = NEVER
    """The number of replays."""
    until: float = NEVER
    """The time to stop, in seconds since the epoch, comparable between machines."""


class SearchTask(NamedTuple):
    """A set to start from, and when to stop."""

    counts: Counts
    limit: SearchLimit = SearchLimit()
    homeless: frozenset[str] = frozenset()
    """The pods that no set takes."""
    grown_from: Counts | None = None
    """The set from which this set was grown."""


class SearchedSet(NamedTuple):
    """The result of a search from one starting set."""

    counts: Counts
    homeless: Mapping[str, str] | None = None
    """The pods without a node and kube-scheduler's messages, None if the search ended before all others had one."""
    complete: bool = True
    """True if the search was finished within its limit."""
    unknown: Unknown = ()
    grown_from: Counts | None = None
    """The starting set."""
    replays: int = 0
    """The number of replays that the search took."""


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
    _packed: dict[tuple[PackingInput, float], Counts] = field(default_factory=dict)
    _probed_levels: FillLevels | None = None

    def has_reached_limit(self, limit: SearchLimit) -> bool:
        """Return whether the replays or the time of the running search are used up."""
        return self.sets.replay_count >= limit.max_replays or time.time() > limit.until

    def pack_with_slack(self, packing_input: PackingInput, slack: float) -> Counts:
        """Return the cheapest set of the input's shapes whose nodes keep the share `slack` of cpu and memory free.

        The result is cached.
        """
        if (packing_input, slack) not in self._packed:
            self._packed[packing_input, slack] = self.packing.pack(
                packing_input.program.with_slack(slack), packing_input.shape_names
            )
        return self._packed[packing_input, slack]

    def find_cheapest_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> FillLevels | None:
        """Return the fill levels from `probe_fill_levels`, or else levels that are measured for this set.

        Return None if no shape is crowded. Raises KeyboardInterrupt if the user interrupts.
        """
        if self._probed_levels is not None:
            return self._probed_levels
        return self._measure_cheapest_fill_levels(counts, waiting)

    def probe_fill_levels(self, counts: Counts) -> None:
        """Measure the fill levels for the searches from all starting sets, on a set that is crowded.

        If this is called before the worker processes start, all of them share the levels. Raises KeyboardInterrupt if
        the user interrupts.
        """
        placeable = [key for key, takers in self.sets.find_pods_without_node(counts).items() if takers]
        self._probed_levels = self._measure_cheapest_fill_levels(counts, placeable)

    def _measure_cheapest_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> FillLevels | None:
        """Return the fill levels for which the cheapest set can be packed, or None if no shape is crowded.

        A shape is crowded if waiting pods need it but more flexible pods fill it. Fill levels say how full all nodes
        are when a crowded shape has no room left. One replay measures them, on the set `counts` with one more node of
        each shape that no other shape dominates. `waiting` are the keys of the pods that wait on `counts`.

        Raises KeyboardInterrupt if the user interrupts.
        """
        crowded = find_crowded_shapes(self.program, waiting)

        def compute_cost(levels: FillLevels) -> float:
            """Return the cost of the cheapest set whose nodes get no fuller than the levels."""
            cheapest_set = self.pack_with_slack(levels.build_packing_input(self.program, crowded), slack=0.0)
            return self.program.compute_cost(cheapest_set)

        extended_counts = add_one_node_of_each_undominated_shape(self.program, counts)
        measured = self.measure_fill_levels(extended_counts, waiting)
        return min(measured, key=compute_cost, default=None)

    def is_crowded(self, counts: Counts) -> bool:
        """Return whether placeable pods wait on a set because other pods take the room that they need.

        The result is always False if sets have to survive zone losses. Raises KeyboardInterrupt if the user interrupts.
        """
        placeable = [key for key, takers in self.sets.find_pods_without_node(counts).items() if takers]
        return bool(find_crowded_shapes(self.program, placeable).any()) and not self.sets.zone_loss

    def measure_fill_levels(self, counts: Counts, waiting: Sequence[str]) -> list[FillLevels]:
        """Replay a set, and measure the fill levels of all shapes when each shape needed by waiting pods gets full.

        Raises KeyboardInterrupt if the user interrupts.
        """
        simulation, outcomes, nodes = self.sets.replay_with_outcomes(counts)
        return measure_levels_when_full(self.program, nodes, simulation, outcomes, waiting)


def grow_and_trim_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Add nodes to the task's set until every placeable pod has a node, then trim unneeded capacity.

    If the task's limit or MAX_ROUNDS rounds are reached, the result is marked as incomplete, and its `homeless` is
    None.
    """
    sets = search.sets
    sets.reset_replay_count()
    growth = _Growth(search, task.counts)
    for _ in range(MAX_ROUNDS):
        if search.has_reached_limit(task.limit):
            break
        waiting = sets.find_pods_without_node(growth.counts)
        placeable = {key: takers for key, takers in waiting.items() if takers}
        if not placeable:
            homeless = sets.explain_waiting_pods(growth.counts, waiting) if waiting else {}
            counts = growth.reduce_slack(task, waiting.keys())
            return SearchedSet(
                counts,
                homeless,
                complete=True,
                unknown=tuple(sets.unknown),
                grown_from=task.counts,
                replays=sets.replay_count,
            )
        growth.grow(placeable, len(waiting))
    return SearchedSet(growth.counts, complete=False, unknown=tuple(sets.unknown), replays=sets.replay_count)


class SlackRange(NamedTuple):
    """The range of shares of cpu and memory that a set may have to keep free."""

    lower: float
    """A share that does not suffice, as far as is known."""
    upper: float
    """The free share of the current set."""


class _Growth:
    """A set that grows step by step: by nodes for the waiting pods or by free capacity overall, whichever is cheaper.

    Without taints, flexible pods may fill nodes that are meant for the waiting pods. Sets are then built whose other
    nodes are large enough for the flexible pods. If more free capacity helped few pods, nodes for the waiting pods
    follow.
    """

    def __init__(self, search: SetSearch, start: Counts) -> None:
        self._search = search
        self._packing_input = PackingInput(search.program, tuple(start))
        self.counts = dict(start)
        self._fewest_waiting = len(search.program.group_by_pod) + 1
        """The fewest pods that waited on any set so far."""
        self._step = 1
        """The factor by which more nodes are added than the waiting pods need."""
        self._slack: SlackRange | None = None
        """The free share of the set, None if the set was not packed with slack."""
        self._filling: FillLevels | None = None
        """The fill levels from which the set was built, None if no shape is crowded."""
        self._waiting_when_relieved: int | None = None
        """The number of waiting pods when crowding was relieved last."""

    def grow(self, takers_by_pod: Mapping[str, tuple[str, ...]], waiting_count: int) -> None:
        """Grow the set by one step: rebuild it if a shape is crowded, or add nodes otherwise.

        `takers_by_pod` maps the placeable waiting pods to the shapes of which one more node would take the pod.
        `waiting_count` is the number of all waiting pods.
        """
        if not self._relieve_crowding(list(takers_by_pod)):
            self._add_nodes_or_slack(takers_by_pod, waiting_count)

    def _relieve_crowding(self, waiting: Sequence[str]) -> bool:
        """Replace the set with one in which other pods leave more space for the waiting pods, and return True.

        Return False and keep the set if no shape is crowded, if the last replacement did not help, if sets have to
        survive zone losses, or if fill levels cannot be measured.
        """
        search = self._search
        crowded = find_crowded_shapes(search.program, waiting)
        has_helped = self._waiting_when_relieved is None or len(waiting) < self._waiting_when_relieved
        if not crowded.any() or not has_helped or search.sets.zone_loss:
            return False
        self._waiting_when_relieved = len(waiting)

        self._filling = self._measure_fill_levels(waiting)
        if self._filling is None:
            return False
        self._pack_by_fill_levels(self._filling, crowded)
        return True

    def _pack_by_fill_levels(self, levels: FillLevels, crowded: Bools) -> None:
        """Replace the set with the cheapest one whose nodes get no fuller than the levels.

        `crowded` is the mask of crowded shapes. The set keeps slightly more free if it was packed with slack before.
        """
        # Later packing, with more or less slack, starts from the same input
        self._packing_input = levels.build_packing_input(self._search.program, crowded)
        self._slack = self._widen_slack()
        self.counts = self._pack_with_slack(self._slack.upper)

    def _widen_slack(self) -> SlackRange:
        """Return the range of slack for a set that is packed by new fill levels.

        A set that was packed with slack did not suffice, so slightly more is kept free. `reduce_slack` may undo this,
        and may go below 0, because other nodes may get fuller than the fill levels say.
        """
        widened = self._slack.upper + FINEST_SLACK if self._slack else 0.0
        return SlackRange(lower=-FILL_TOLERANCE, upper=widened)

    def _measure_fill_levels(self, waiting: Sequence[str]) -> FillLevels | None:
        """Return how full all nodes are when a crowded shape has no room left, or None if no shape is crowded.

        The first call returns the levels with which the cheapest set can be packed. Later calls replay the current set,
        and update these levels for the shapes of which the set has nodes.
        """
        earlier_levels = self._filling
        if earlier_levels is None:
            return self._search.find_cheapest_fill_levels(self.counts, waiting)

        # Each of the measured levels is of the moment when another shape had no room left. Only those of the same shape
        # as the earlier levels can be combined with them.
        measured = self._search.measure_fill_levels(self.counts, waiting)
        for levels in measured:
            if levels.needed == earlier_levels.needed:
                return earlier_levels.update_from(levels)
        return earlier_levels

    def _add_nodes_or_slack(self, takers_by_pod: Mapping[str, tuple[str, ...]], waiting_count: int) -> None:
        """Add nodes for the waiting pods, or pack all pods anew with more slack, whichever is cheaper.

        Slack is the share of cpu and memory that each node keeps free. If the set was packed with slack and this barely
        reduced the number of waiting pods, nodes are added in any case. While added nodes barely reduce this number,
        more and more nodes are added at once.
        """
        # The last step helped little if at least half as many pods wait as on the best set before.
        has_helped_little = 2 * waiting_count >= self._fewest_waiting
        self._fewest_waiting = min(self._fewest_waiting, waiting_count)
        was_packed_with_slack = self._slack is not None
        adding_nodes_helped_little = has_helped_little and not was_packed_with_slack
        adding_slack_helped_little = has_helped_little and was_packed_with_slack

        self._step = 4 * self._step if adding_nodes_helped_little else 1  # larger steps save replays
        with_more_nodes = self._add_nodes_for_waiting_pods(takers_by_pod)

        compute_cost = self._search.program.compute_cost
        slack = self._find_smallest_costly_slack()
        if slack is not None and not adding_slack_helped_little:
            with_slack = self._pack_with_slack(slack)
            if compute_cost(with_slack) < compute_cost(with_more_nodes):
                smaller_slack = max((share for share in SLACK if share < slack), default=0.0)
                self.counts = with_slack
                self._slack = SlackRange(lower=smaller_slack, upper=slack)
                return
        self.counts = with_more_nodes
        self._slack = None

    def _find_smallest_costly_slack(self) -> float | None:
        """Return the smallest value in SLACK with which the set costs more than now, or None if there is none."""
        compute_cost = self._search.program.compute_cost
        cost_now = compute_cost(self.counts)
        costly_slacks = (share for share in SLACK if compute_cost(self._pack_with_slack(share)) > cost_now)
        return next(costly_slacks, None)

    def _add_nodes_for_waiting_pods(self, takers_by_pod: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """Return the set with nodes added for the waiting pods.

        For each shape, `_step` times the needed number of nodes is added. This is limited to the set's number of nodes,
        but never to less than the needed number.
        """
        search = self._search
        counts = dict(self.counts)
        max_added = sum(self.counts.values())
        needed_nodes = search.packing.pack(search.program.restrict_to_pods(takers_by_pod), counts)
        for name, number in needed_nodes.items():
            counts[name] = counts.get(name, 0) + max(number, min(self._step * number, max_added))
        return counts

    def _pack_with_slack(self, slack: float) -> dict[str, int]:
        """Return the cheapest set of the same shapes whose nodes keep the share `slack` of cpu and memory free."""
        return dict(self._search.pack_with_slack(self._packing_input, slack))

    def reduce_slack(self, task: SearchTask, waiting: Set[str]) -> Counts:
        """Reduce the nodes' free share of cpu and memory by bisection, and return the cheapest set that works.

        A set works if all pods except those in `waiting` get a node. A set that was not packed with slack is returned
        as it is. If the task's limit is reached, the cheapest set so far is returned.
        """
        lower, upper = self._slack or (0.0, 0.0)
        while upper - lower > FINEST_SLACK and not self._search.has_reached_limit(task.limit):
            middle = (lower + upper) / 2
            tighter_set = self._pack_with_slack(middle)
            if self._search.sets.find_pods_without_node(tighter_set).keys() <= waiting:
                upper = middle
                self.counts = tighter_set
            else:
                lower = middle
        return self.counts


def improve_set(search: SetSearch, task: SearchTask) -> SearchedSet:
    """Search for a cheaper set that takes as many pods, by replacing nodes of one shape with fewer or other nodes.

    Nodes that were added to the starting set are removed first, then the most expensive nodes. The search ends when no
    removal makes the set cheaper, or at the task's limit. Each improvement is recorded in `search.best` at once.
    """
    search.sets.reset_replay_count()
    best = dict(task.counts)
    has_improved = True
    while has_improved and not search.has_reached_limit(task.limit):
        best_before = best
        names = sorted(best, key=lambda name: _get_removal_sort_key(search, task, best, name), reverse=True)
        for name in names:
            best = _remove_nodes_of_shape(search, task, best, name)
        has_improved = best is not best_before
    return SearchedSet(
        best,
        homeless={},
        complete=not search.has_reached_limit(task.limit),
        unknown=tuple(search.sets.unknown),
        replays=search.sets.replay_count,
    )


def _remove_nodes_of_shape(search: SetSearch, task: SearchTask, counts: dict[str, int], name: str) -> dict[str, int]:
    """Remove nodes of a shape from a set, and add other nodes where pods need them, as long as the set gets cheaper.

    Many nodes are removed at once, and half as many whenever this does not make the set cheaper. The search also ends
    at the task's limit. Return the cheapest set, which may be `counts` itself. Each improvement is immediately
    recorded in `search.best`.
    """
    cheapest = counts
    step = max(min(counts.get(name, 0) // 2, _compute_max_removable_nodes(search, task, counts, name)), 1)
    while step and cheapest.get(name) and not search.has_reached_limit(task.limit):
        fewer_nodes = {**cheapest, name: max(cheapest[name] - step, 0)}
        cost_limit = search.program.compute_cost(cheapest)
        cheaper_set = _replace_removed_nodes(search, fewer_nodes, cost_limit, task.homeless)
        if cheaper_set is None:
            step //= 2
        else:
            cheapest = cheaper_set
            search.best[format_counts(task.counts)] = cheapest
    return cheapest


def _compute_max_removable_nodes(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> int:
    """Return the maximum number of a shape's nodes to remove in one step.

    The nodes together cost about as much as the gap between the set's cost and the lower bound. If nodes of the shape
    were added to the starting set, the maximum is not larger than half of the added nodes, rounded up.
    """
    gap = search.program.compute_cost(counts) - search.bound
    nodes_in_gap = ceil(gap / search.program.compute_cost({name: 1}))
    added = counts.get(name, 0) - (task.grown_from or counts).get(name, 0)
    if added > 0:
        return min(nodes_in_gap, ceil(added / 2))
    return nodes_in_gap


def _get_removal_sort_key(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> tuple[float, float]:
    """Return the sort key of a shape, highest for the one to remove first.

    The cost of the nodes that were added to the starting set decides, then the cost of one node.
    """
    added = counts.get(name, 0) - (task.grown_from or {}).get(name, 0)
    cost = search.program.compute_cost({name: 1})
    return max(added, 0) * cost, cost


def _replace_removed_nodes(
    search: SetSearch, counts: dict[str, int], cost_limit: float, homeless: Set[str]
) -> dict[str, int] | None:
    """Refill a node set from which nodes were removed, until only pods in `homeless` wait.

    Return the new node counts. Return None if the set is empty or not cheaper than `cost_limit`, or if no node of any
    kind helps a waiting pod. Also return None if a refill does not at least halve the number of waiting pods, or if
    pods still wait after MAX_REFILLS refills.
    """
    program = search.program
    max_waiting = len(program.group_by_pod)  # all pods: the first refill has no limit
    for _ in range(MAX_REFILLS):
        is_cheaper = program.compute_cost(counts) <= cost_limit - NEGLIGIBLE_SHARE * cost_limit
        if not is_cheaper or not any(counts.values()):
            return None
        takers_by_pod = {
            key: takers for key, takers in search.sets.find_pods_without_node(counts).items() if key not in homeless
        }
        if not takers_by_pod:
            return {name: number for name, number in counts.items() if number}
        has_pod_without_takers = not all(takers_by_pod.values())
        if has_pod_without_takers or len(takers_by_pod) > max_waiting:
            return None
        max_waiting = len(takers_by_pod) // 2

        new_nodes = search.packing.pack(program.restrict_to_pods(takers_by_pod), program.names)
        names = dict.fromkeys((*counts, *new_nodes))
        counts = {name: counts.get(name, 0) + new_nodes.get(name, 0) for name in names}
    return None
