"""Nodes that are refused to the latest of pods alike besides: for its claims, for pods nominated ahead of it."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.snapshot.nodes import Domains


class RefusedRows:
    """Verdicts by which nodes are grouped, each node by itself. ``mask`` (N,): 1 where it is refused."""

    def __init__(self, nodes: int) -> None:
        self.mask = np.zeros(nodes, np.int64)
        self.distinctions = [Distinction(Domains(np.arange(nodes, dtype=np.int32), nodes), self._values)]

    def _values(self) -> Counts:
        return self.mask

    def refused(self, rows: Rows) -> Bools:
        """(F,)"""
        refused: Bools = self.mask.take(rows) > 0
        return refused

    def becomes(self, refused: Bools | bool) -> Rows:
        """These are refused now; the rows of which it was otherwise."""
        changed: Rows = (self.mask != refused).nonzero()[0]
        self.mask[changed] ^= 1
        return changed
