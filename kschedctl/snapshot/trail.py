"""The places of the pods of a fork: their moves, the order in which they came to their nodes, and each node's pods.

The order of arrival decides between otherwise equal victims. Upstream: AddPodInfo and RemovePod in
pkg/scheduler/framework/types.go (v1.36): the last pod of a node takes the place of one that leaves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Position, Row, Rows

MANY = 200
"""Up to this many moves, Python finds the distinct rows faster than numpy."""


class Move(NamedTuple):
    """The move of a pod of some info to a node (sign 1) or off it (sign -1)."""

    row: int
    info: int
    sign: int


_ROW, _INFO, _SIGN, _POSITION = range(4)
"""The columns of a trail, in this order."""


class Trail:
    """The moves of pods in a fork since it was made, as columns. `latest` is the last move."""

    latest: Move

    def __init__(self) -> None:
        self._moves = np.empty((64, 4), np.int32)
        """Row, PodInfo number, sign and position of each move, with room for more."""
        self._length = 0
        self._latest_rows = np.zeros(0, np.int64)
        """The latest result of `find_rows_since`."""
        self._latest_rows_between = (0, 0)
        """The lengths of the trail between which the moves of `_latest_rows` are."""
        self._numbers_by_info: defaultdict[int, list[int]] = defaultdict(list)
        """The numbers of the first ``_indexed_count`` moves, by info."""
        self._indexed_count = 0

    def __len__(self) -> int:
        return self._length

    def append(self, row: int, info: int, sign: int, position: int) -> None:
        """Record that the pod at `position`, with PodInfo number `info`, joined a row (`sign` 1) or left it (-1)."""
        if self._length == len(self._moves):  # the columns are full, so double their size
            self._moves = np.concatenate((self._moves, np.empty_like(self._moves)))
        self.latest = Move(row, info, sign)
        self._moves[self._length] = row, info, sign, position
        self._length += 1

    def list_moves_since(self, length: int) -> Ints:
        """Return arrays with row, PodInfo number and sign of the moves since the trail had this length."""
        return self._moves[length : self._length, :_POSITION].T

    def find_rows_since(self, length: int) -> Rows:
        """Return the distinct rows of the moves since the trail had this length, in ascending order.

        The latest result is cached.
        """
        between = (length, self._length)
        if self._latest_rows_between != between:
            rows = self._moves[length : self._length, _ROW]
            distinct = np.array(sorted(set(rows.tolist()))) if len(rows) < MANY else np.unique(rows)
            self._latest_rows_between = between
            self._latest_rows = distinct.astype(np.int64)
        return self._latest_rows

    def list_recent(self, count: int) -> list[list[int]]:
        """Return the row, PodInfo number and sign of each of the latest `count` moves."""
        moves: list[list[int]] = self._moves[self._length - count : self._length, :_POSITION].tolist()
        return moves

    def list_pod_moves_since(self, length: int) -> Ints:
        """Return arrays with row, sign and position of the moves since the trail had this length."""
        return self._moves[length : self._length, [_ROW, _SIGN, _POSITION]].T

    def iter_moves_of_infos(self, infos: Iterable[int], length: int) -> Iterator[Move]:
        """Yield the moves of pods with these PodInfos since the trail had this length.

        All moves of a PodInfo are yielded before those of the next PodInfo.
        """
        self._index_new_moves()
        for info in infos:
            numbers = self._numbers_by_info.get(info, [])
            for number in numbers[bisect_left(numbers, length) :]:
                move = self._moves[number].tolist()
                yield Move(move[_ROW], info, move[_SIGN])

    def _index_new_moves(self) -> None:
        """Add the moves that were recorded since the last call to the index by PodInfo."""
        new_infos = self._moves[self._indexed_count : self._length, _INFO].tolist()
        for number, info in enumerate(new_infos, self._indexed_count):
            self._numbers_by_info[info].append(number)
        self._indexed_count = self._length

    def copy(self) -> Trail:
        """Return an independent copy.

        The copy starts with an empty index by PodInfo, which is rebuilt when it is needed.
        """
        copied = copy(self)
        copied._moves = self._moves.copy()
        copied._numbers_by_info = defaultdict(list)
        copied._indexed_count = 0
        return copied


LATER = 1 << 32
"""A number above all positions. Pods that arrive later get places from here on, behind the pods of the snapshot."""


class Arrivals:
    """The order in which pods came to their nodes, up to the first `seen` moves of the trail.

    `place` (P,) is larger for pods that came later to the same node. `arrived_later` (P,) marks pods that came after
    the snapshot was taken. `node` (P,) has the row of each pod's node.
    """

    def __init__(self, node: Ints) -> None:
        self.seen = 0
        self.node = node
        self.place = np.arange(len(node))
        self.arrived_later = np.zeros(len(node), np.bool_)

    def copy(self) -> Arrivals:
        """Return an independent copy of the order."""
        copied = copy(self)
        copied.node = self.node.copy()
        copied.place = self.place.copy()
        copied.arrived_later = self.arrived_later.copy()
        return copied

    def bring_up_to_date(self, trail: Trail, pods: int) -> Arrivals:
        """Include all moves of the trail, and return this object. `pods` is the total number of pods.

        Pods that arrive are placed behind all others. When a pod leaves, the last pod of its node takes its place:

        >>> arrivals, trail = Arrivals(node=np.array([0, 0, 0])), Trail()
        >>> trail.append(row=0, info=0, sign=-1, position=0)
        >>> arrivals.bring_up_to_date(trail, pods=3).place.tolist()
        [0, 1, 0]
        >>> trail.append(row=0, info=0, sign=1, position=0)
        >>> arrivals.bring_up_to_date(trail, pods=3).place.argsort().tolist()
        [2, 1, 0]
        """
        self._extend_columns(pods)
        if self.seen == len(trail):
            return self
        rows, signs, positions = trail.list_pod_moves_since(self.seen)
        # Record each run of consecutive arrivals, and each run of consecutive departures, at once.
        starts_of_later_runs = (np.flatnonzero(signs[1:] != signs[:-1]) + 1).tolist()
        for begin, end in pairwise([0, *starts_of_later_runs, len(signs)]):
            if signs[begin] > 0:
                places = LATER + self.seen + np.arange(begin, end)  # LATER: behind all pods of the snapshot
                self._add_arrivals(positions[begin:end], rows[begin:end], places)
            else:
                self._remove_departed_pods(positions[begin:end], rows[begin:end])
        self.seen = len(trail)
        return self

    def _add_arrivals(self, positions: Ints, rows: Ints, places: Rows) -> None:
        """Record that pods came to these rows. `places` are their places in the order of arrival."""
        self.place[positions] = places
        self.node[positions] = rows
        self.arrived_later[positions] = True

    def _remove_departed_pods(self, positions: Ints, rows: Ints) -> None:
        """Record that pods left these rows one after another.

        Each time, the last pod of the node takes the place of the pod that left, as in upstream.
        """
        pods_by_node = PodsByNode(self.node.copy(), int(rows.max()) + 1)
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            listed = np.array(pods_by_node.list_pods(Row(row)), np.int64)  # with the pods that have just left
            positions_on_node = listed[self.node[listed] == row]
            last = positions_on_node[self.place[positions_on_node].argmax()]
            self.place[last] = self.place[position]
            self.node[position] = -1

    def _extend_columns(self, pods: int) -> None:
        """Add entries to the columns for pods that were created after the snapshot."""
        known_pods = len(self.node)
        if pods > known_pods:
            self.node = np.append(self.node, np.full(pods - known_pods, -1, np.int32))
            self.place = np.append(self.place, np.arange(known_pods, pods))
            self.arrived_later = np.append(self.arrived_later, np.zeros(pods - known_pods, np.bool_))


MAX_SCANS = 16
"""Number of nodes that are looked up by a scan before the pods are sorted."""


class PodsByNode:
    """The pods on each of `nodes` nodes. The rows of their nodes, `node` (P,), must not change while this is used.

    The first few nodes are looked up by a scan, and further ones in a sorted index.
    """

    def __init__(self, node: Ints, nodes: int) -> None:
        self._node, self._nodes = node, nodes
        self._scans = 0
        self._order: tuple[Counts, Counts] | None = None
        """The positions sorted by row, and where each row's positions start."""

    def list_pods(self, row: Row) -> list[Position]:
        """Return the positions of the pods on a node, in the order of the cluster.

        After MAX_SCANS calls, all pods are sorted by node, which makes further calls fast.
        """
        self._scans += 1
        if self._scans <= MAX_SCANS:
            scanned: list[Position] = (self._node == row).nonzero()[0].tolist()
            return scanned
        if self._order is None:
            order = np.argsort(self._node, kind="stable")
            starts = np.searchsorted(self._node[order], np.arange(self._nodes + 1))
            self._order = (order, starts)
        order, starts = self._order
        positions: list[Position] = order[starts[row] : starts[row + 1]].tolist()
        return positions
