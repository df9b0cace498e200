"""Hypotheses about pods on nodes: pods that are added to a node or removed from it, with nothing else changed."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Ints, Rows

Signs = npt.NDArray[np.int64]


class Delta(msgspec.Struct, frozen=True):
    """K changes, sorted by node and then by time: pods come to nodes or leave them.

    A plugin judges each node as if only the changes on this node had taken place.
    """

    node: Ints
    """(K,): the row of the node."""
    info: Ints
    """(K,): the PodInfo of the pod."""
    sign: Signs
    """(K,): +1 for an added and -1 for a removed pod."""

    @classmethod
    def from_changes(cls, node: Ints, info: Ints, sign: Signs) -> Delta:
        """Build a delta from changes in the order in which they happen."""
        order = np.argsort(node, kind="stable")
        return cls(node[order], info[order], sign[order])

    def __bool__(self) -> bool:
        return len(self.node) > 0

    def sum_changes(self, values: npt.NDArray[np.int64], nodes: int) -> npt.NDArray[np.int64]:
        """Return by how much each node's sum of pod values changes, as an array (nodes, …).

        `values` has one entry per PodInfo, which may be a number or an array.
        """
        total = np.zeros((nodes, *values.shape[1:]), np.int64)
        if self:
            self._add_to_totals(values, total)
        return total

    def apply_to_sums(self, sums: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return a copy of `sums`, the sums over each node's pods, with the changes applied.

        `values` has one entry per PodInfo, which is added for each added pod and subtracted for each removed pod.
        """
        total = sums.copy()
        if self:
            self._add_to_totals(values, total)
        return total

    def _add_to_totals(self, values: npt.NDArray[np.int64], total: npt.NDArray[np.int64]) -> None:
        """Add the values of the added pods to `total` (nodes, …) in place, and subtract those of the removed pods.

        `values` has one entry per PodInfo. There must be at least one change.
        """
        changes = values.take(self.info, axis=0)
        axes_of_a_value = values.ndim - 1  # a pod's sign applies along all of them
        changes *= self.sign.reshape(-1, *[1] * axes_of_a_value)
        starts = find_run_starts(self.node)  # changes are sorted by node, so each node's changes are one run
        total[self.node[starts]] += np.add.reduceat(changes, starts, axis=0)

    def count_changes(self, selected: npt.NDArray[np.bool_], nodes: int) -> npt.NDArray[np.int64]:
        """Return, for each node, the change of the number of selected pods.

        `selected` marks the PodInfos of the pods to count.
        """
        return self.sum_changes(selected.astype(np.int64), nodes)

    def restrict_to(self, rows: Rows) -> Delta:
        """Return only the changes on these rows. In the result, a node's row is its place among `rows`."""
        # The changes on each row are a range, since changes are sorted by node.
        starts = np.searchsorted(self.node, rows)
        ends = np.searchsorted(self.node, rows, "right")
        change_counts = ends - starts

        # Concatenate the ranges from each start to its end.
        first_places = np.cumsum(change_counts) - change_counts
        change_indexes = np.repeat(starts - first_places, change_counts) + np.arange(change_counts.sum())
        place = np.repeat(np.arange(len(rows), dtype=np.int32), change_counts)
        return Delta(place, self.info[change_indexes], self.sign[change_indexes])

    def find_differing_nodes(self, other: Delta, nodes: int) -> npt.NDArray[np.bool_]:
        """Return a mask (N,) of the nodes whose changes differ from their changes in another delta.

        The same changes in another order may count as different.

        >>> some, more = Delta(*np.array([[0, 2], [7, 7], [1, 1]])), Delta(*np.array([[0, 1, 2], [7, 7, 8], [1, 1, 1]]))
        >>> some.find_differing_nodes(more, 4).tolist()
        [False, True, True, False]
        """
        counts = np.bincount(self.node, minlength=nodes)
        other_counts = np.bincount(other.node, minlength=nodes)
        differing: npt.NDArray[np.bool_] = counts != other_counts
        # On nodes with equally many changes, compare these one by one.
        is_compared = ~differing[self.node]
        is_compared_with = ~differing[other.node]
        has_other_info = self.info[is_compared] != other.info[is_compared_with]
        has_other_sign = self.sign[is_compared] != other.sign[is_compared_with]
        compared_nodes = self.node[is_compared]
        differing[compared_nodes[has_other_info | has_other_sign]] = True
        return differing

    def followed_by(self, later: Delta) -> Delta:
        """Return these changes followed by later changes."""
        if not (self and later):
            return self or later
        return Delta.from_changes(
            np.concatenate((self.node, later.node)),
            np.concatenate((self.info, later.info)),
            np.concatenate((self.sign, later.sign)),
        )


def find_run_starts(values: Ints | Rows) -> Rows:
    """Return the index at which each run of equal values begins.

    >>> find_run_starts(np.array([3, 3, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    differs = np.ones(len(values), np.bool_)
    differs[1:] = values[1:] != values[:-1]
    return differs.nonzero()[0]


NO_CHANGE = Delta(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
