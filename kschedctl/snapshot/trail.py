"""What happened to a fork of the snapshot since it was made: pods of some info came to nodes, or left them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Rows

MANY = 200
"""Of fewer moves Python finds the distinct rows sooner than numpy."""


class Move(NamedTuple):
    """A pod of an info came to a node (sign 1) or left it (-1)."""

    row: int
    info: int
    sign: int


class Trail:
    """The moves in order, as columns; ``latest`` is the last of them. Which pods moved is known by their positions."""

    latest: Move

    def __init__(self) -> None:
        self._moves = np.empty((64, 4), np.int32)
        self._length = 0
        self._asked: tuple[tuple[int, int], Rows] = (0, 0), np.zeros(0, np.int64)
        """Between which lengths rows were asked for last, and the answer."""
        self._of_info: defaultdict[int, list[int]] = defaultdict(list)
        """The numbers of the first moves, as many as are ``_sorted``, by info."""
        self._sorted = 0

    def __len__(self) -> int:
        return self._length

    def append(self, row: int, info: int, sign: int, position: int) -> None:
        if self._length == len(self._moves):
            self._moves = np.concatenate((self._moves, np.empty_like(self._moves)))
        self.latest = Move(row, info, sign)
        self._moves[self._length] = row, info, sign, position
        self._length += 1

    def since(self, length: int) -> Ints:
        """(3, M): row, info and sign of the moves after the trail had this length."""
        return self._moves[length : self._length, :3].T

    def rows_since(self, length: int) -> Rows:
        """(M,): the rows of these moves, each once, in order."""
        key = length, self._length
        if self._asked[0] != key:
            rows = self._moves[length : self._length, 0]
            unique = np.array(sorted(set(rows.tolist()))) if len(rows) < MANY else np.unique(rows)
            self._asked = key, unique.astype(np.int64)
        return self._asked[1]

    def recent(self, count: int) -> list[list[int]]:
        """Row, info and sign of the latest moves, so many."""
        moves: list[list[int]] = self._moves[self._length - count : self._length, :3].tolist()
        return moves

    def pods_since(self, length: int) -> Ints:
        """(3, M): row, sign and position of the same moves."""
        return self._moves[length : self._length, [0, 2, 3]].T

    def moves_of(self, infos: Iterable[int], length: int) -> Iterator[Move]:
        """The moves of pods of these infos after the trail had this length, info by info."""
        for number, info in enumerate(self._moves[self._sorted : self._length, 1].tolist(), self._sorted):
            self._of_info[info].append(number)
        self._sorted = self._length
        for info in infos:
            numbers = self._of_info.get(info, [])
            for number in numbers[bisect_left(numbers, length) :]:
                row, _, sign, _ = self._moves[number].tolist()
                yield Move(row, info, sign)

    def copy(self) -> Trail:
        other = copy(self)
        other._moves, other._of_info, other._sorted = self._moves.copy(), defaultdict(list), 0
        return other
