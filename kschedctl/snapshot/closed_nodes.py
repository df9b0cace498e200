"""Nodes of a fork that take no more pods, as if they were cordoned, without building a new snapshot."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.objects import Node


class ClosedNodes:
    """The closed nodes, `mask` (N,), and `cordoned`, each of them as a cordoned Node.

    Valid only for pods to which a cordon means no more than that they cannot go there. A node is closed before pods
    leave it and opened after they are back, so that caches see it change.
    """

    def __init__(self, nodes: int) -> None:
        self.mask: Bools = np.zeros(nodes, np.bool_)
        self.cordoned: dict[Row, Node] = {}

    def close(self, row: Row, cordoned: Node) -> None:
        """Let no more pods come to the node."""
        self.mask[row], self.cordoned[row] = True, cordoned

    def open(self, row: Row) -> None:
        """Let pods come to the node again."""
        self.mask[row] = False
        self.cordoned.pop(row, None)
