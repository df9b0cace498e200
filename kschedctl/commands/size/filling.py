"""How full nodes of other shapes get until those that some pods need have no room left.

kube-scheduler keeps no room for the pods that need it: where nodes have no taints, others go there too, and by its
scores sooner to nodes with much memory beside their cpus, such as those with devices, than to the rest. So a set takes
all pods where the rest is large enough that it does not get fuller than it is by then. One replay with a node of each
shape tells how full that is for each, and with it a program of requests finds the cheapest such set.
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
    """What sets are made of: shapes, and a program that says how much of them is of use."""

    program: PackingProgram
    among: tuple[str, ...]


class FillLevels(NamedTuple):
    """``full`` (S,): how full the nodes of each shape were when those of ``needed`` had no room left; NaN where there
    were none.
    """

    needed: str
    full: Table

    def basis(self, program: PackingProgram, crowded: Bools) -> SetBasis:
        """Of the shapes that are ``crowded`` (S,) this one alone."""
        known = np.isfinite(self.full)
        some = zip(program.names, (known & ~crowded).tolist(), strict=True)
        among = (*(name for name, is_used in some if is_used), self.needed)
        return SetBasis(program.filled_to(np.where(known, np.minimum(self.full, 1.0), 1.0)), among)

    def corrected(self, later: FillLevels) -> FillLevels:
        """By what was seen of a set of fewer shapes."""
        return self._replace(full=np.where(np.isfinite(later.full), later.full, self.full))


def crowded_out(program: PackingProgram, waiting: Iterable[str]) -> Bools:
    """(S,): the shapes of which some pods that wait need one, and that others take the room of, who need none.

    None of them where pods need one of several such choices, or may have most shapes.
    """
    groups = sorted({program.group_of[key] for key in waiting})
    takes = np.unique(program.takes[groups], axis=0)
    least = [row for row in takes if not (takes <= row).all(axis=1).sum() > 1]
    if len(least) != 1 or 2 * least[0].sum() > program.takes.any(axis=0).sum():
        return np.zeros(len(program.names), np.bool_)
    elsewhere = np.flatnonzero((program.takes & ~least[0]).any(axis=1))
    return np.asarray(least[0] & program.takes[elsewhere].any(axis=0))


def _needing(program: PackingProgram, waiting: Iterable[str], crowded: Bools) -> list[int]:
    """The groups of those pods that only these shapes take."""
    groups = sorted({program.group_of[key] for key in waiting})
    return [group for group in groups if not program.takes[group][~crowded].any()]


def with_one_of_each(program: PackingProgram, counts: Counts) -> dict[str, int]:
    """The set with a node more of each shape that is worth it."""
    kept = np.flatnonzero(program.undominated(program.takes)).tolist()
    return {**counts, **{program.names[at]: counts.get(program.names[at], 0) + 1 for at in kept}}


def fillings(
    program: PackingProgram,
    nodes: Mapping[str, Rows],
    simulation: Simulation,
    outcomes: Sequence[Outcome],
    waiting: Sequence[str],
) -> list[FillLevels]:
    """For each of the shapes that are crowded out; ``nodes``: the rows of each shape's, where ``outcomes`` are."""
    crowded = crowded_out(program, waiting)
    if not crowded.any():
        return []
    room = program.requested[_needing(program, waiting, crowded)].max(axis=0)
    names = [program.names[at] for at in np.flatnonzero(crowded).tolist()]
    usage = _FilledNodes(program, nodes, simulation, outcomes)
    some = room[[*program.shared, simulation.view.resources[PODS]]]
    return [FillLevels(name, usage.full(usage.without_room(nodes[name], some))) for name in names if name in nodes]


class _FilledNodes:
    """Of ``shapes`` (N,), free (N, C) of cpu, memory and pods: what nodes have, less their daemons; ``row`` (A,) and
    ``asked`` (A, C): the pods that were placed, in their order.
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
        self._free = (view.allocatable - view.requested)[:, columns] + self._used(len(placed), len(view.nodes))

    def _used(self, pods: int, nodes: int) -> npt.NDArray[np.int64]:
        """(N, C): by the first ``pods`` that were placed."""
        used = np.zeros((nodes, self._asked.shape[1]), np.int64)
        np.add.at(used, self._row[:pods], self._asked[:pods])
        return used

    def without_room(self, rows: Rows, room: Rows) -> int:
        """How many pods are placed when half of these nodes have not so much of each (C,) left; all where they have."""

        def is_full(pods: int) -> bool:
            left = (self._free - self._used(pods, len(self._free)))[rows]
            return bool(2 * (left >= room).all(axis=1).sum() <= len(rows))

        return bisect_left(range(len(self._row)), True, key=is_full)

    def full(self, pods: int) -> Table:
        """(S,): the share that is used of what nodes of each shape have, of cpu or memory, of which it is more."""
        shares = self._used(pods, len(self._free)) / np.maximum(self._free, 1)
        full = np.full(self._number, np.nan)
        for shape, rows in self._shapes.items():
            full[shape] = shares[rows, :-1].mean(axis=0).max()
        return full
