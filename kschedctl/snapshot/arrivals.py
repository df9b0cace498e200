"""The order in which pods came to their nodes, which decides between otherwise equal victims.

Upstream: AddPodInfo and RemovePod in pkg/scheduler/framework/types.go (v1.36): the last pod of a node takes the place
of one that leaves.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kschedctl.api.arrays import Ints, Rows
from kschedctl.snapshot.trail import Trail

LATER = 1 << 32
"""Above all positions: the pods of the snapshot precede all that came later."""


class Arrivals:
    """The order of arrival of pods on their nodes. `seen` is the length of the trail that it includes.

    `place` (P,) is larger for pods that came later to the same node. `came` (P,) marks pods that came since the
    snapshot, in which pods were on the rows `node` (P,).
    """

    def __init__(self, node: Ints) -> None:
        self.seen = 0
        self.node, self.place = node, np.arange(len(node))
        self.came = np.zeros(len(node), np.bool_)

    def copy(self) -> Arrivals:
        other = copy(self)
        other.node, other.place, other.came = self.node.copy(), self.place.copy(), self.came.copy()
        return other

    def bring_up_to_date(self, trail: Trail, pods: int) -> Arrivals:
        """Include all moves of the trail, for `pods` pods.

        >>> trail = Trail()
        >>> for position, sign in ((0, -1), (3, 1)):
        ...     trail.append(0, 0, sign, position)
        >>> np.argsort(Arrivals(np.array([0, 0, 0, -1])).bring_up_to_date(trail, 4).place[1:]).tolist()
        [1, 0, 2]
        """
        self._extend(pods)
        rows, signs, positions = trail.pods_since(self.seen)
        begin = 0
        for end in [*np.flatnonzero(signs < 0).tolist(), len(signs)]:
            here = slice(begin, end)
            self._add_arrivals(positions[here], rows[here], LATER + self.seen + np.arange(begin, end))
            if end < len(signs):
                self._remove_departed(int(positions[end]), int(rows[end]))
            begin = end + 1
        self.seen = len(trail)
        return self

    def _add_arrivals(self, positions: Ints, rows: Ints, places: Rows) -> None:
        """Record pods that came to nodes."""
        self.place[positions], self.node[positions], self.came[positions] = places, rows, True

    def _remove_departed(self, position: int, row: int) -> None:
        """Record that a pod left; the last pod of the node takes its place."""
        here = np.flatnonzero(self.node == row)
        last = here[self.place[here].argmax()]
        self.place[last], self.node[position] = self.place[position], -1

    def _extend(self, pods: int) -> None:
        """Extend the columns for pods that the snapshot does not have."""
        known = len(self.node)
        if pods > known:
            self.node = np.append(self.node, np.full(pods - known, -1, np.int32))
            self.place = np.append(self.place, np.arange(known, pods))
            self.came = np.append(self.came, np.zeros(pods - known, np.bool_))
