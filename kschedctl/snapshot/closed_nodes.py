"""Nodes of a fork that take no more pods, as if they were cordoned: closed and opened again without a new snapshot."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.objects import Node


class ClosedNodes:
    """``mask`` (N,): the closed nodes; ``cordoned``: how each of them looks once it is cordoned.

    Of the pods that come only those may be asked about to which a cordon means no more than that they cannot go there.
    A node is closed before pods leave it, and opened after they are back: whoever keeps answers sees it change then.
    """

    def __init__(self, nodes: int) -> None:
        self.mask: Bools = np.zeros(nodes, np.bool_)
        self.cordoned: dict[Row, Node] = {}

    def close(self, row: Row, cordoned: Node) -> None:
        """No pod comes to the node any more."""
        self.mask[row], self.cordoned[row] = True, cordoned

    def open(self, row: Row) -> None:
        """Pods come to it again, if they did not."""
        self.mask[row] = False
        self.cordoned.pop(row, None)
