"""Estimates of how full the nodes of other shapes get before nodes that some pods need are full.

kube-scheduler does not reserve room for the pods that need it. Where nodes have no taints, other pods go there too, and
its scores prefer nodes with much memory per CPU, such as GPU nodes. A set therefore takes all pods only if the other
nodes are large enough not to get fuller than they are at that moment. One replay with a node of each shape tells how
full that is, and with these fill levels the packing program finds the cheapest such set.
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
    among: tuple[str, ...]


class FillLevels(NamedTuple):
    """How full nodes of each shape were when the nodes of one shape had no room left."""

    needed: str
    """The shape that had no room left."""
    shares: Table
    """The used share of each shape's nodes, shape (S,); NaN if there were none."""

    def restrict(self, program: PackingProgram, crowded: Bools) -> SetBasis:
        """Return a basis that uses ``needed`` as the only one of the crowded shapes. ``crowded`` has shape (S,)."""
        known = np.isfinite(self.shares)
        some = zip(program.names, (known & ~crowded).tolist(), strict=True)
        among = (*(name for name, is_used in some if is_used), self.needed)
        return SetBasis(program.filled_to(np.where(known, np.minimum(self.shares, 1.0), 1.0)), among)

    def update_from(self, later: FillLevels) -> FillLevels:
        """Return the levels updated with those of a later replay that had fewer shapes."""
        return self._replace(shares=np.where(np.isfinite(later.shares), later.shares, self.shares))


def find_crowded_shapes(program: PackingProgram, waiting: Iterable[str]) -> Bools:
    """Return which shapes some waiting pods need and other pods fill without needing them, shape (S,).

    Return no shape if pods need one of several such choices or can use most shapes.
    """
    groups = sorted({program.group_of[key] for key in waiting})
    takes = np.unique(program.takes[groups], axis=0)
    smallest_choices = [row for row in takes if not (takes <= row).all(axis=1).sum() > 1]
    if len(smallest_choices) != 1 or 2 * smallest_choices[0].sum() > program.takes.any(axis=0).sum():
        return np.zeros(len(program.names), np.bool_)
    elsewhere = np.flatnonzero((program.takes & ~smallest_choices[0]).any(axis=1))
    return np.asarray(smallest_choices[0] & program.takes[elsewhere].any(axis=0))


def _find_dependent_groups(program: PackingProgram, waiting: Iterable[str], crowded: Bools) -> list[int]:
    """Return the groups of the waiting pods that fit only on the crowded shapes."""
    groups = sorted({program.group_of[key] for key in waiting})
    return [group for group in groups if not program.takes[group][~crowded].any()]


def add_one_of_each(program: PackingProgram, counts: Counts) -> dict[str, int]:
    """Return the set with one more node of each worthwhile shape."""
    kept = np.flatnonzero(program.find_undominated(program.takes)).tolist()
    return {**counts, **{program.names[at]: counts.get(program.names[at], 0) + 1 for at in kept}}


def fillings(
    program: PackingProgram,
    nodes: Mapping[str, Rows],
    simulation: Simulation,
    outcomes: Sequence[Outcome],
    waiting: Sequence[str],
) -> list[FillLevels]:
    """Measure fill levels for each crowded shape. ``nodes`` are the rows of each shape's nodes in the simulation."""
    crowded = find_crowded_shapes(program, waiting)
    if not crowded.any():
        return []
    room = program.requested[_find_dependent_groups(program, waiting, crowded)].max(axis=0)
    names = [program.names[at] for at in np.flatnonzero(crowded).tolist()]
    usage = _NodeUsage(program, nodes, simulation, outcomes)
    requested_room = room[[*program.shared, simulation.view.resources[PODS]]]
    return [
        FillLevels(name, usage.measure_shares(usage.count_until_full(nodes[name], requested_room)))
        for name in names
        if name in nodes
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
        columns = [*program.shared, view.resources[PODS]]
        placed = [outcome for outcome in outcomes if outcome.row >= 0]
        self._shapes = {program.names.index(name): rows for name, rows in nodes.items()}
        self._number = len(program.names)
        self._row = np.array([outcome.row for outcome in placed], np.int64)
        self._asked = view.requests[view.pods.info[[outcome.position for outcome in placed]]][:, columns]
        self._free = (view.allocatable - view.requested)[:, columns] + self._sum_used(len(placed), len(view.nodes))

    def _sum_used(self, pods: int, nodes: int) -> npt.NDArray[np.int64]:
        """Return what the first placed pods use on each node, shape (N, C)."""
        used = np.zeros((nodes, self._asked.shape[1]), np.int64)
        np.add.at(used, self._row[:pods], self._asked[:pods])
        return used

    def count_until_full(self, rows: Rows, room: Rows) -> int:
        """Return how many pods were placed when half of the nodes had less than ``room`` left; all if that never
        happened.
        """

        def is_full(pods: int) -> bool:
            left = (self._free - self._sum_used(pods, len(self._free)))[rows]
            return bool(2 * (left >= room).all(axis=1).sum() <= len(rows))

        return bisect_left(range(len(self._row)), True, key=is_full)

    def measure_shares(self, pods: int) -> Table:
        """Return the used share of each shape's nodes after ``pods`` placements, the larger of cpu and memory, shape
        (S,).
        """
        shares = self._sum_used(pods, len(self._free)) / np.maximum(self._free, 1)
        full = np.full(self._number, np.nan)
        for shape, rows in self._shapes.items():
            full[shape] = shares[rows, :-1].mean(axis=0).max()
        return full
