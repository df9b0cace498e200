"""In which order pods came to their nodes, which decides among victims that nothing else tells apart.

Upstream: AddPodInfo and RemovePod in pkg/scheduler/framework/types.go (v1.36): the last pod of a node takes the place
of one that leaves.
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Ints, Position, Rows, positions_of


class Arrivals:
    """What came to nodes and left them since the snapshot, node by node; before, pods stood in their order there."""

    def __init__(self) -> None:
        self._moves: dict[int, list[tuple[Position, int]]] = {}

    def append(self, row: int, position: Position, sign: int) -> None:
        self._moves.setdefault(row, []).append((position, sign))

    def copy(self) -> Arrivals:
        other = Arrivals()
        other._moves = {row: list(moves) for row, moves in self._moves.items()}
        return other

    def order(self, pods: Rows, node: Ints, first: Ints) -> Rows:
        """(K,): numbers that sort the pods (K,) of each node; by the rows (P,) that pods are on, and were on at first.

        >>> arrivals, first = Arrivals(), np.array([0, 0, 0, -1])
        >>> for position, sign in ((0, -1), (3, 1)):
        ...     arrivals.append(0, position, sign)
        >>> arrivals.order(np.array([1, 2, 3]), np.array([-1, 0, 0, 0]), first).tolist()
        [1, 0, 2]
        """
        found = pods.astype(np.int64)
        if not self._moves:
            return found
        rows = node[pods]
        for row in self._moves.keys() & set(rows.tolist()):
            here = np.flatnonzero(rows == row)
            place = {position: i for i, position in enumerate(self._replay(row, positions_of(first == row)))}
            found[here] = [place[position] for position in pods[here].tolist()]
        return found

    def _replay(self, row: int, found: list[Position]) -> list[Position]:
        for position, sign in self._moves[row]:
            if sign > 0:
                found.append(position)
            else:
                last = found.pop()
                if last != position:
                    found[found.index(position)] = last
        return found
