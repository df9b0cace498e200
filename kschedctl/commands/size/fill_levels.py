"""Estimates of how full the nodes of other shapes get before nodes that some pods need are full.

kube-scheduler does not reserve room for the pods that need it. If nodes have no taints, other pods go there too, and
its scores prefer nodes with much memory per CPU, such as GPU nodes. A set therefore takes all pods only if the other
nodes are so large that they are not fuller at that moment. One replay with a node of each shape measures these fill
levels, and with them the packing program finds the cheapest such set.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.resource_names import PODS
from kschedctl.commands.size.program import Counts, PackingProgram, Table
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

Rows = npt.NDArray[np.int64]


class PackingInput(NamedTuple):
    """The input for packing a node set: the shapes that it may use, and the program with their usable capacity."""

    program: PackingProgram
    """The program, in which nodes offer only their usable capacity."""
    shape_names: tuple[str, ...]
    """The shapes of which the set may have nodes."""


class FillLevels(NamedTuple):
    """The fill levels of all nodes at the moment when the nodes of one shape had no room left."""

    needed: str
    """The shape that had no room left."""
    shares: Table
    """The used share of the nodes of each shape, (S,); NaN for shapes without nodes."""

    def build_packing_input(self, program: PackingProgram, crowded: Bools) -> PackingInput:
        """Build the input for packing pods onto nodes that are filled at most to these levels.

        The nodes may have the shape `needed` and all uncrowded shapes for which a level was measured. `crowded` is the
        mask (S,) of the shapes that waiting pods need but that more flexible pods may fill.
        """
        is_measured = np.isfinite(self.shares)
        uncrowded = np.flatnonzero(is_measured & ~crowded).tolist()
        shape_names = (*(program.names[shape] for shape in uncrowded), self.needed)
        usable_shares = np.where(is_measured, np.minimum(self.shares, 1.0), 1.0)  # without a level, all is usable
        return PackingInput(program.with_fill_levels(usable_shares), shape_names)

    def update_from(self, later: FillLevels) -> FillLevels:
        """Return the levels, with the levels of a later replay for the shapes that have nodes there."""
        return self._replace(shares=np.where(np.isfinite(later.shares), later.shares, self.shares))


def find_crowded_shapes(program: PackingProgram, waiting: Iterable[str]) -> Bools:
    """Return the mask (S,) of the shapes that waiting pods need, but that more flexible pods may fill.

    `waiting` are the keys of the waiting pods. No shape is crowded if these pods can use most shapes. No shape is
    crowded either if there is no pod among them whose shapes all other waiting pods can use as well.
    """
    no_shape = np.zeros(len(program.names), np.bool_)
    groups = sorted({program.group_by_pod[key] for key in waiting})
    choices = np.unique(program.takes[groups], axis=0)

    # The choices of shapes that contain no other choice. Pods with a larger choice can use the needed shapes, too.
    smallest_choices = [choice for choice in choices if (choices <= choice).all(axis=1).sum() == 1]
    if len(smallest_choices) != 1:
        return no_shape
    (needed,) = smallest_choices
    usable_shape_count = program.takes.any(axis=0).sum()
    can_use_most_shapes = needed.sum() > usable_shape_count / 2
    if can_use_most_shapes:
        return no_shape
    flexible_groups = np.flatnonzero((program.takes & ~needed).any(axis=1))
    return np.asarray(needed & program.takes[flexible_groups].any(axis=0))


def _find_dependent_groups(program: PackingProgram, waiting: Iterable[str], crowded: Bools) -> list[int]:
    """Return the groups of the waiting pods that fit only on shapes in the mask `crowded` (S,)."""
    groups = sorted({program.group_by_pod[key] for key in waiting})
    return [group for group in groups if not program.takes[group][~crowded].any()]


def add_one_node_of_each_undominated_shape(program: PackingProgram, counts: Counts) -> dict[str, int]:
    """Return `counts` with one more node of each shape, except shapes that another shape dominates.

    A shape dominates another if it offers as much to as many groups of pods for the same money or less.
    """
    extended_counts = dict(counts)
    for shape in np.flatnonzero(program.find_undominated_shapes(program.takes)).tolist():
        name = program.names[shape]
        extended_counts[name] = counts.get(name, 0) + 1
    return extended_counts


def measure_levels_when_full(
    program: PackingProgram,
    rows_by_shape: Mapping[str, Rows],
    simulation: Simulation,
    outcomes: Sequence[Outcome],
    waiting: Sequence[str],
) -> list[FillLevels]:
    """Measure how full the nodes of every shape are at the moment when a crowded shape gets full.

    A crowded shape is one that waiting pods need, but that more flexible pods may fill. The result has an item for each
    crowded shape that has nodes. `rows_by_shape` are the rows of the nodes of each shape in the simulation. `outcomes`
    are those of the simulation's pods, in the order of placement. `waiting` are the keys of the waiting pods.
    """
    crowded = find_crowded_shapes(program, waiting)
    if not crowded.any():
        return []

    # A node is full if it has no room for the largest requests of the pods that depend on crowded shapes.
    dependent_groups = _find_dependent_groups(program, waiting, crowded)
    columns = [*program.always_requested, simulation.view.resources[PODS]]
    room = program.requested[dependent_groups].max(axis=0)[columns]
    usage = _NodeUsage(program, rows_by_shape, simulation, outcomes)
    levels = []
    for shape in np.flatnonzero(crowded).tolist():
        name = program.names[shape]
        if name in rows_by_shape:
            pods_until_full = usage.count_until_full(rows_by_shape[name], room)
            levels.append(FillLevels(name, usage.measure_shares(pods_until_full)))
    return levels


class _NodeUsage:
    """The resources in use on each node over the course of a replay.

    Arrays hold cpu, memory and pods. Free amounts have shape (N, C), placed pods are rows of shape (A,) and requests of
    shape (A, C) in the order of placement.
    """

    def __init__(
        self, program: PackingProgram, nodes: Mapping[str, Rows], simulation: Simulation, outcomes: Sequence[Outcome]
    ) -> None:
        view = simulation.view
        columns = [*program.always_requested, view.resources[PODS]]
        placed = [outcome for outcome in outcomes if outcome.is_placed]
        self._rows_by_shape = {program.names.index(name): rows for name, rows in nodes.items()}
        self._shape_count = len(program.names)
        self._row = np.array([outcome.row for outcome in placed], np.int64)
        infos = view.pods.info[[outcome.position for outcome in placed]]
        self._requested = view.requests[infos][:, columns]
        # What was free before the placements.
        self._free = (view.allocatable - view.requested)[:, columns] + self._sum_used_resources(
            len(placed), len(view.nodes)
        )

    def _sum_used_resources(self, pod_count: int, node_count: int) -> npt.NDArray[np.int64]:
        """Return the resources in use on each node after the first `pod_count` placements, (N, C)."""
        used = np.zeros((node_count, self._requested.shape[1]), np.int64)
        np.add.at(used, self._row[:pod_count], self._requested[:pod_count])
        return used

    def count_until_full(self, rows: Rows, room: Rows) -> int:
        """Return the number of placements after which at least half of the nodes have less than `room` left.

        `rows` are the rows of the nodes, and `room` (C,) the amounts of cpu, memory and pods. If the nodes never get so
        full, the number of all placements is returned.
        """

        def is_full(pod_count: int) -> bool:
            """Return whether half of the nodes are full after this number of placements."""
            remaining = (self._free - self._sum_used_resources(pod_count, len(self._free)))[rows]
            nodes_with_room = (remaining >= room).all(axis=1).sum()
            return bool(2 * nodes_with_room <= len(rows))

        # Nodes only get fuller, so the first such number is found by bisection.
        return bisect_left(range(len(self._row)), True, key=is_full)

    def measure_shares(self, pod_count: int) -> Table:
        """Return the used share of the nodes of each shape (S,) after the first `pod_count` placements.

        It is the larger of the mean used shares of cpu and memory, or NaN for a shape without nodes.
        """
        shares = self._sum_used_resources(pod_count, len(self._free)) / np.maximum(self._free, 1)
        shares_by_shape = np.full(self._shape_count, np.nan)
        for shape, rows in self._rows_by_shape.items():
            cpu_and_memory = shares[rows, :-1]  # the last column counts pods
            shares_by_shape[shape] = cpu_and_memory.mean(axis=0).max()
        return shares_by_shape
