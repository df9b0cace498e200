"""A hypothesis about each node on its own: pods added to it, or removed from it, and nothing else changed."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Ints, Rows

Signs = npt.NDArray[np.int64]


class Delta(msgspec.Struct, frozen=True):
    """K changes: on node ``node[k]`` a pod like ``info[k]`` comes or goes; sorted by node, within a node by time.

    ``sign`` is +1 for an added and -1 for a removed pod. What a plugin then says of a node holds for a cluster in
    which only that node's changes took place.
    """

    node: Ints
    info: Ints
    sign: Signs

    @classmethod
    def of(cls, node: Ints, info: Ints, sign: Signs) -> Delta:
        """From changes in the order in which they happen."""
        order = np.argsort(node, kind="stable")
        return cls(node[order], info[order], sign[order])

    def __bool__(self) -> bool:
        return len(self.node) > 0

    def sums(self, values: npt.NDArray[np.int64], nodes: int) -> npt.NDArray[np.int64]:
        """(T, ...) by info -> (N, ...): by how much the sum over the pods of each node changes."""
        total = np.zeros((nodes, *values.shape[1:]), np.int64)
        if self:
            self._add(values, total)
        return total

    def added(self, sums: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What sums over the pods of each node (N, ...) of their values, (T, ...) by info, become."""
        total = sums.copy()
        if self:
            self._add(values, total)
        return total

    def _add(self, values: npt.NDArray[np.int64], total: npt.NDArray[np.int64]) -> None:
        changes = values.take(self.info, axis=0)
        changes *= self.sign.reshape(-1, *[1] * (values.ndim - 1))
        starts = run_starts(self.node)
        total[self.node[starts]] += np.add.reduceat(changes, starts, axis=0)

    def counts(self, selected: npt.NDArray[np.bool_], nodes: int) -> npt.NDArray[np.int64]:
        """(N,): by how much the number of selected pods, (T,) by info, changes on each node."""
        return self.sums(selected.astype(np.int64), nodes)

    def on(self, rows: Rows) -> Delta:
        """The changes on some nodes, in order, by their numbers among these."""
        starts, ends = np.searchsorted(self.node, rows), np.searchsorted(self.node, rows, "right")
        counts = ends - starts
        some = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        here = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
        return Delta(here, self.info[some], self.sign[some])

    def differing(self, other: Delta, nodes: int) -> npt.NDArray[np.bool_]:
        """(N,): where the other has not the same changes; that come in another order they need not be the same.

        >>> some, more = Delta(*np.array([[0, 2], [7, 7], [1, 1]])), Delta(*np.array([[0, 1, 2], [7, 7, 8], [1, 1, 1]]))
        >>> some.differing(more, 4).tolist()
        [False, True, True, False]
        """
        differing: npt.NDArray[np.bool_] = np.bincount(self.node, minlength=nodes) != np.bincount(
            other.node, minlength=nodes
        )
        mine, others = ~differing[self.node], ~differing[other.node]
        unlike = (self.info[mine] != other.info[others]) | (self.sign[mine] != other.sign[others])
        differing[self.node[mine][unlike]] = True
        return differing

    def then(self, later: Delta) -> Delta:
        """The changes followed by others."""
        if not (self and later):
            return self or later
        return Delta.of(
            np.concatenate((self.node, later.node)),
            np.concatenate((self.info, later.info)),
            np.concatenate((self.sign, later.sign)),
        )


def run_starts(values: Ints | Rows) -> Rows:
    """Where each run of equal values begins.

    >>> run_starts(np.array([3, 3, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    other = np.ones(len(values), np.bool_)
    other[1:] = values[1:] != values[:-1]
    return other.nonzero()[0]


NO_CHANGE = Delta(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
