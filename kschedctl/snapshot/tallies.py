"""Sums over the pods of each node, or domain, which follow the moves of pods."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from kschedctl.api.arrays import Counts, Ints
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.trail import Move, Trail

FEW_INFOS, FEW_SLOTS = 8, 64
"""Pods of so few infos, on so few nodes or in so few domains, are counted one by one."""


class Tally:
    """Sums over the pods of each node, or domain, kept up to date along a trail of which ``seen`` moves are in."""

    def __init__(self, weights: Counts, domains: Domains | None, sums: Counts, seen: int) -> None:
        self.weights, self.domains, self.sums, self.seen = weights, domains, sums, seen

    def small(self) -> Tally:
        """The same in little memory, for one of thousands of tallies; it takes longer where many pods count."""
        infos, slots = self.weights.nonzero()[0], self.sums.nonzero()[0]
        if len(infos) <= FEW_INFOS and len(slots) <= FEW_SLOTS:
            return SmallTally(self)
        return Tally(_narrowed(self.weights), self.domains, self.sums, self.seen)

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


class SmallTally(Tally):
    """A tally of which no more is kept than what is not zero."""

    def __init__(self, of: Tally) -> None:
        infos, slots = of.weights.nonzero()[0], of.sums.nonzero()[0]
        self.domains, self.seen, self._size = of.domains, of.seen, len(of.sums)
        self._weights: dict[int, int] = dict(zip(infos.tolist(), of.weights[infos].tolist(), strict=True))
        self._sums: dict[int, int] = dict(zip(slots.tolist(), of.sums[slots].tolist(), strict=True))

    def copy(self) -> Self:
        other = copy(self)
        other._sums = dict(self._sums)
        return other

    def brought_up(self, trail: Trail) -> Counts:
        """The sums after all moves, made anew each time."""
        if self.seen != len(trail):
            for move in trail.moves_of(self._weights, self.seen):
                self._add_one(move)
            self.seen = len(trail)
        sums = np.zeros(self._size, np.int64)
        if self._sums:
            sums[list(self._sums)] = list(self._sums.values())
        return sums

    def _add_one(self, move: Move) -> None:
        slot = move.row if self.domains is None else int(self.domains.codes[move.row])
        if slot < 0:
            return
        total = self._sums.get(slot, 0) + move.sign * self._weights[move.info]
        if total:
            self._sums[slot] = total
        else:
            self._sums.pop(slot, None)


def _narrowed(weights: Counts) -> Counts:
    """The same numbers in as few bytes as hold them and their opposites.

    >>> _narrowed(np.array([3, -100])).dtype, _narrowed(np.array([3, -1000])).dtype
    (dtype('int8'), dtype('int16'))
    """
    largest = int(np.abs(weights).max(initial=0))
    narrow = np.int8 if largest < 2**7 else np.int16 if largest < 2**15 else np.int64
    return weights.astype(narrow)
