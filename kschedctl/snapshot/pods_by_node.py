"""Which pods are on a node, found for a few nodes by a look at all pods, for many once they are in order."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Position, Row

LOOKS = 16
"""So many nodes are looked at before pods are put in the order of their nodes."""


class PodsByNode:
    """The pods of one arrangement: ``node`` (P,) does not change as long as this is asked; ``nodes``: how many."""

    def __init__(self, node: Ints, nodes: int) -> None:
        self._node, self._nodes = node, nodes
        self._looked = 0
        self._order: tuple[Counts, Counts] | None = None

    def on(self, row: Row) -> list[Position]:
        """The positions of the pods on a node, in the order of the cluster."""
        self._looked += 1
        if self._looked <= LOOKS:
            found: list[Position] = (self._node == row).nonzero()[0].tolist()
            return found
        if self._order is None:
            order = np.argsort(self._node, kind="stable")
            self._order = order, np.searchsorted(self._node[order], np.arange(self._nodes + 1))
        order, starts = self._order
        positions: list[Position] = order[starts[row] : starts[row + 1]].tolist()
        return positions
