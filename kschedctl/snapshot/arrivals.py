"""In which order pods came to their nodes, which decides among victims that nothing else tells apart.

Upstream: AddPodInfo and RemovePod in pkg/scheduler/framework/types.go (v1.36): the last pod of a node takes the place
of one that leaves.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kschedctl.api.arrays import Ints, Rows
from kschedctl.snapshot.trail import Trail

LATER = 1 << 32
"""Above all positions: before the snapshot pods stood in their order there."""


class Arrivals:
    """Who came to a node, and when among its pods, along a trail of which ``seen`` moves are in.

    ``place`` (P,): larger for those of the same node that came later. ``came`` (P,): the pod came since the snapshot,
    in which pods were on the rows ``node`` (P,).
    """

    def __init__(self, node: Ints) -> None:
        self.seen = 0
        self.node, self.place = node, np.arange(len(node))
        self.came = np.zeros(len(node), np.bool_)

    def copy(self) -> Arrivals:
        other = copy(self)
        other.node, other.place, other.came = self.node.copy(), self.place.copy(), self.came.copy()
        return other

    def brought_up(self, trail: Trail, pods: int) -> Arrivals:
        """After all moves, of so many pods.

        >>> trail = Trail()
        >>> for position, sign in ((0, -1), (3, 1)):
        ...     trail.append(0, 0, sign, position)
        >>> np.argsort(Arrivals(np.array([0, 0, 0, -1])).brought_up(trail, 4).place[1:]).tolist()
        [1, 0, 2]
        """
        self._make_room(pods)
        rows, signs, positions = trail.pods_since(self.seen)
        begin = 0
        for end in [*np.flatnonzero(signs < 0).tolist(), len(signs)]:
            here = slice(begin, end)
            self._come(positions[here], rows[here], LATER + self.seen + np.arange(begin, end))
            if end < len(signs):
                self._leave(int(positions[end]), int(rows[end]))
            begin = end + 1
        self.seen = len(trail)
        return self

    def _come(self, positions: Ints, rows: Ints, places: Rows) -> None:
        self.place[positions], self.node[positions], self.came[positions] = places, rows, True

    def _leave(self, position: int, row: int) -> None:
        here = np.flatnonzero(self.node == row)
        last = here[self.place[here].argmax()]
        self.place[last], self.node[position] = self.place[position], -1

    def _make_room(self, pods: int) -> None:
        """For pods that the snapshot has not."""
        known = len(self.node)
        if pods > known:
            self.node = np.append(self.node, np.full(pods - known, -1, np.int32))
            self.place = np.append(self.place, np.arange(known, pods))
            self.came = np.append(self.came, np.zeros(pods - known, np.bool_))
