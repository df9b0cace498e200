"""What happened to a fork of the snapshot since it was made: pods of some info came to nodes, or left them."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Rows
from kschedctl.snapshot.nodes import Domains

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

    def copy(self) -> Trail:
        other = copy(self)
        other._moves = self._moves.copy()
        return other


class Tally:
    """Sums over the pods of each node, or domain, kept up to date along a trail of which ``seen`` moves are in."""

    def __init__(self, weights: Counts, domains: Domains | None, sums: Counts, seen: int) -> None:
        self.weights, self.domains, self.sums, self.seen = weights, domains, sums, seen

    def copy(self) -> Tally:
        return Tally(self.weights, self.domains, self.sums.copy(), self.seen)

    def brought_up(self, trail: Trail) -> Counts:
        """The sums after all moves."""
        new = len(trail) - self.seen
        if new == 1:
            self._add_one(trail.latest)
        elif new:
            self._add_all(*trail.since(self.seen))
        self.seen = len(trail)
        return self.sums

    def _add_one(self, move: Move) -> None:
        change = move.sign * self.weights[move.info]
        slot = move.row if self.domains is None else self.domains.codes[move.row]
        if change and slot >= 0:
            self.sums[slot] += change

    def _add_all(self, rows: Ints, infos: Ints, signs: Ints) -> None:
        change = signs * self.weights[infos]
        counted = change.nonzero()[0]
        slots = rows[counted] if self.domains is None else self.domains.codes[rows[counted]]
        np.add.at(self.sums, slots[slots >= 0], change[counted][slots >= 0])
