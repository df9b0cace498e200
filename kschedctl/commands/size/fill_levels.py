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


class SetBasis(NamedTuple):
    """The shapes of a set and the program that says how much of their capacity is usable."""

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

    def build_basis(self, program: PackingProgram, crowded: Bools) -> SetBasis:
        """Return the basis of a set whose nodes get no fuller than these levels."""
        has_nodes = np.isfinite(self.shares)
        usable_shapes = zip(program.names, (has_nodes & ~crowded).tolist(), strict=True)
        shape_names = (*(name for name, is_used in usable_shapes if is_used), self.needed)
        return SetBasis(program.with_fill_levels(np.where(has_nodes, np.minimum(self.shares, 1.0), 1.0)), shape_names)

    def update_from(self, later: FillLevels) -> FillLevels:
        """Return the levels updated with those of a later replay that had fewer shapes."""
        return self._replace(shares=np.where(np.isfinite(later.shares), later.shares, self.shares))


def find_crowded_shapes(program: PackingProgram, waiting: Iterable[str]) -> Bools:
    """Return the crowded shapes, (S,): waiting pods need them, and other pods fill them without needing them.

    Return no shape if the waiting pods need several different choices of shapes, or can use most shapes.
    """
    groups = sorted({program.group_of[key] for key in waiting})
    takes = np.unique(program.takes[groups], axis=0)
    smallest_choices = [row for row in takes if not (takes <= row).all(axis=1).sum() > 1]
    if len(smallest_choices) != 1 or 2 * smallest_choices[0].sum() > program.takes.any(axis=0).sum():
        return np.zeros(len(program.names), np.bool_)
    flexible_groups = np.flatnonzero((program.takes & ~smallest_choices[0]).any(axis=1))
    return np.asarray(smallest_choices[0] & program.takes[flexible_groups].any(axis=0))


def _find_dependent_groups(program: PackingProgram, waiting: Iterable[str], crowded: Bools) -> list[int]:
    """Return the groups of the waiting pods that fit only on the crowded shapes."""
    groups = sorted({program.group_of[key] for key in waiting})
    return [group for group in groups if not program.takes[group][~crowded].any()]


def add_one_of_each(program: PackingProgram, counts: Counts) -> dict[str, int]:
    """Return the set with one more node of each undominated shape."""
    undominated = np.flatnonzero(program.find_undominated(program.takes)).tolist()
    return {**counts, **{program.names[shape]: counts.get(program.names[shape], 0) + 1 for shape in undominated}}


def measure_levels_when_full(
    program: PackingProgram,
    rows_by_shape: Mapping[str, Rows],
    simulation: Simulation,
    outcomes: Sequence[Outcome],
    waiting: Sequence[str],
) -> list[FillLevels]:
    """Measure the fill levels at the moment when each crowded shape gets full.

    `rows_by_shape` are the rows of the nodes of each shape in the simulation.
    """
    crowded = find_crowded_shapes(program, waiting)
    if not crowded.any():
        return []
    room = program.requested[_find_dependent_groups(program, waiting, crowded)].max(axis=0)
    names = [program.names[shape] for shape in np.flatnonzero(crowded).tolist()]
    usage = _NodeUsage(program, rows_by_shape, simulation, outcomes)
    requested_room = room[[*program.always_requested, simulation.view.resources[PODS]]]
    return [
        FillLevels(name, usage.measure_shares(usage.count_until_full(rows_by_shape[name], requested_room)))
        for name in names
        if name in rows_by_shape
    ]


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
        placed = [outcome for outcome in outcomes if outcome.row >= 0]
        self._shapes = {program.names.index(name): rows for name, rows in nodes.items()}
        self._number = len(program.names)
        self._row = np.array([outcome.row for outcome in placed], np.int64)
        infos = view.pods.info[[outcome.position for outcome in placed]]
        self._asked = view.requests[infos][:, columns]
        self._free = (view.allocatable - view.requested)[:, columns] + self._sum_used(len(placed), len(view.nodes))

    def _sum_used(self, pod_count: int, node_count: int) -> npt.NDArray[np.int64]:
        """Return the resources in use on each node after the first `pod_count` placements, (N, C)."""
        used = np.zeros((node_count, self._asked.shape[1]), np.int64)
        np.add.at(used, self._row[:pod_count], self._asked[:pod_count])
        return used

    def count_until_full(self, rows: Rows, room: Rows) -> int:
        """Return the number of placements after which half of the nodes have less than `room` left.

        Return the number of all pods if that never happens.
        """

        def is_full(pods: int) -> bool:
            remaining = (self._free - self._sum_used(pods, len(self._free)))[rows]
            return bool(2 * (remaining >= room).all(axis=1).sum() <= len(rows))

        return bisect_left(range(len(self._row)), True, key=is_full)

    def measure_shares(self, pod_count: int) -> Table:
        """Return the used share of the nodes of each shape (S,) after some placements, the larger of cpu and memory."""
        shares = self._sum_used(pod_count, len(self._free)) / np.maximum(self._free, 1)
        shares_by_shape = np.full(self._number, np.nan)
        for shape, rows in self._shapes.items():
            shares_by_shape[shape] = shares[rows, :-1].mean(axis=0).max()
        return shares_by_shape
