"""The moves of pods in a fork since it was made."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Rows

MANY = 200
"""Up to this many moves, Python finds the distinct rows faster than numpy."""


class Move(NamedTuple):
    """A pod of an info came to a node (sign 1) or left it (sign -1)."""

    row: int
    info: int
    sign: int


class Trail:
    """The moves in order, as columns. `latest` is the last move."""

    latest: Move

    def __init__(self) -> None:
        self._moves = np.empty((64, 4), np.int32)
        self._length = 0
        self._latest_rows: tuple[tuple[int, int], Rows] = (0, 0), np.zeros(0, np.int64)
        """Between which lengths rows were asked for last, and the answer."""
        self._numbers_by_info: defaultdict[int, list[int]] = defaultdict(list)
        """The numbers of the first moves, as many as are ``_sorted``, by info."""
        self._sorted = 0

    def __len__(self) -> int:
        return self._length

    def append(self, row: int, info: int, sign: int, position: int) -> None:
        """Record a move."""
        if self._length == len(self._moves):
            self._moves = np.concatenate((self._moves, np.empty_like(self._moves)))
        self.latest = Move(row, info, sign)
        self._moves[self._length] = row, info, sign, position
        self._length += 1

    def since(self, length: int) -> Ints:
        """Return row, info and sign of the moves after the trail had this length, (3, M)."""
        return self._moves[length : self._length, :3].T

    def rows_since(self, length: int) -> Rows:
        """Return the distinct rows of the moves after the trail had this length, sorted, (M,)."""
        key = length, self._length
        if self._latest_rows[0] != key:
            rows = self._moves[length : self._length, 0]
            unique = np.array(sorted(set(rows.tolist()))) if len(rows) < MANY else np.unique(rows)
            self._latest_rows = key, unique.astype(np.int64)
        return self._latest_rows[1]

    def recent(self, count: int) -> list[list[int]]:
        """Return row, info and sign of the latest moves."""
        moves: list[list[int]] = self._moves[self._length - count : self._length, :3].tolist()
        return moves

    def pods_since(self, length: int) -> Ints:
        """Return row, sign and position of the moves after the trail had this length, (3, M)."""
        return self._moves[length : self._length, [0, 2, 3]].T

    def iter_moves(self, infos: Iterable[int], length: int) -> Iterator[Move]:
        """Yield the moves of these infos after the trail had this length, info by info."""
        for number, info in enumerate(self._moves[self._sorted : self._length, 1].tolist(), self._sorted):
            self._numbers_by_info[info].append(number)
        self._sorted = self._length
        for info in infos:
            numbers = self._numbers_by_info.get(info, [])
            for number in numbers[bisect_left(numbers, length) :]:
                row, _, sign, _ = self._moves[number].tolist()
                yield Move(row, info, sign)

    def copy(self) -> Trail:
        """Return an independent copy."""
        other = copy(self)
        other._moves, other._numbers_by_info, other._sorted = self._moves.copy(), defaultdict(list), 0
        return other
