"""Lookup of the pods on a node, by a scan for a few nodes and by a sorted index for many."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Position, Row

MAX_SCANS = 16
"""Number of nodes that are looked up by a scan before the pods are sorted."""


class PodsByNode:
    """The pods on each of `nodes` nodes. `node` (P,) must not change while this is used."""

    def __init__(self, node: Ints, nodes: int) -> None:
        self._node, self._nodes = node, nodes
        self._scans = 0
        self._order: tuple[Counts, Counts] | None = None

    def find_pods(self, row: Row) -> list[Position]:
        """Return the positions of the pods on a node, in the order of the cluster."""
        self._scans += 1
        if self._scans <= MAX_SCANS:
            found: list[Position] = (self._node == row).nonzero()[0].tolist()
            return found
        if self._order is None:
            order = np.argsort(self._node, kind="stable")
            self._order = order, np.searchsorted(self._node[order], np.arange(self._nodes + 1))
        order, starts = self._order
        positions: list[Position] = order[starts[row] : starts[row + 1]].tolist()
        return positions
