"""Sums over the pods of each node or domain, which are maintained as pods move."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np

from kschedctl.api.arrays import Counts, Ints, Rows
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.trail import Move, Trail

FEW_INFOS, FEW_SLOTS = 8, 64
"""Pods of so few infos, on so few nodes or in so few domains, are counted one by one."""

MAX_SHARED = 512
"""Sums that forks share have at most so many infos and nodes that are not zero."""


class Tally:
    """Sums over the pods of each node or domain. `seen` is the length of the trail that the sums include."""

    def __init__(self, weights: Counts, domains: Domains | None, sums: Counts, seen: int) -> None:
        self.weights = _narrow_integers(weights)  # of all kinds of pods, often more than there are nodes
        self.domains, self.sums, self.seen = domains, sums, seen

    def compact(self) -> Tally:
        """Return an equal tally that takes less memory if few pods count, otherwise the tally itself.

        The compact tally is slower. Use it where thousands of tallies are needed.
        """
        infos, slots = self.weights.nonzero()[0], self.sums.nonzero()[0]
        if len(infos) <= FEW_INFOS and len(slots) <= FEW_SLOTS:
            return SparseTally(self)
        return self

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        copied.sums = self.sums.copy()
        return copied

    def compute_current_sums(self, trail: Trail) -> Counts:
        """Apply the trail's new moves and return the sums, which are valid until the next move."""
        new_moves = len(trail) - self.seen
        if new_moves == 1:
            self._add_move(trail.latest)
        elif new_moves:
            rows, infos, signs = trail.list_moves_since(self.seen)
            self._add_moves(rows, infos, signs)
        self.seen = len(trail)
        return self.sums

    def _add_move(self, move: Move) -> None:
        """Add the change that one move makes to the sum of its node or domain."""
        change = move.sign * self.weights[move.info]
        slot = move.row if self.domains is None else self.domains.codes[move.row]
        if change and slot >= 0:
            self.sums[slot] += change

    def _add_moves(self, rows: Ints, infos: Ints, signs: Ints) -> None:
        """Add the changes that several moves make to the sums of their nodes or domains."""
        changes = signs * self.weights[infos]
        counted = changes.nonzero()[0]
        rows, changes = rows[counted], changes[counted]

        # A node in no domain has the code -1.
        slots = rows if self.domains is None else self.domains.codes[rows]
        is_in_slot = slots >= 0
        np.add.at(self.sums, slots[is_in_slot], changes[is_in_slot])


class SparseTally(Tally):
    """A tally that stores only the weights and sums that are not zero."""

    def __init__(self, tally: Tally) -> None:
        self.domains = tally.domains
        self.seen = tally.seen
        self._size = len(tally.sums)
        infos = tally.weights.nonzero()[0]
        slots = tally.sums.nonzero()[0]
        self._weights: dict[int, int] = dict(zip(infos.tolist(), tally.weights[infos].tolist(), strict=True))
        self._sums: dict[int, int] = dict(zip(slots.tolist(), tally.sums[slots].tolist(), strict=True))

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        copied._sums = dict(self._sums)
        return copied

    def compute_current_sums(self, trail: Trail) -> Counts:
        """Apply the trail's new moves and return the sums as a new array."""
        if self.seen != len(trail):
            for move in trail.iter_moves_of_infos(self._weights, self.seen):
                self._add_move(move)
            self.seen = len(trail)
        sums = np.zeros(self._size, np.int64)
        if self._sums:
            sums[list(self._sums)] = list(self._sums.values())
        return sums

    def _add_move(self, move: Move) -> None:
        """Add the change that one move makes to the sum of its node or domain. Sums of 0 are dropped."""
        slot = move.row if self.domains is None else int(self.domains.codes[move.row])
        if slot < 0:
            return
        total = self._sums.get(slot, 0) + move.sign * self._weights[move.info]
        if total:
            self._sums[slot] = total
        else:
            self._sums.pop(slot, None)


class SharedSums:
    """Sums over the pods of each node of a fork, for the tallies of forks that are made of it by leaving out nodes."""

    def __init__(self, weights: Counts, sums: Counts) -> None:
        infos = weights.nonzero()[0]
        self.weight_by_info: dict[int, int] = dict(zip(infos.tolist(), weights[infos].tolist(), strict=True))
        """The weights of distinct pods that are not zero."""
        self.rows = sums.nonzero()[0].astype(np.int32)
        """The nodes whose sums are not zero."""
        self.sums = sums[self.rows]
        """The sums of `rows`."""

    @property
    def is_small(self) -> bool:
        """Return whether few pods and nodes count, so that thousands of these objects can be kept."""
        return max(len(self.weight_by_info), len(self.rows)) <= MAX_SHARED

    def restrict_to_part(self, row_in_part: Ints, nodes: int, domains: Domains | None) -> PartTally:
        """Return the tally for a part of the fork, as it is before any pod moves in the part.

        The part has `nodes` nodes. `row_in_part` has, for each node of the whole fork, the node's row in the part, or
        -1 if the node was left out. The tally is by `domains`, which are those of the part's nodes, or by node if
        `domains` is None.
        """
        rows = row_in_part[self.rows]
        is_in_part = rows >= 0
        slots, amounts = rows[is_in_part], self.sums[is_in_part]
        if domains is not None:
            slots = domains.codes[slots]
            has_domain = slots >= 0
            slots, amounts = slots[has_domain], amounts[has_domain]
        sums = np.zeros(nodes if domains is None else domains.size, np.int64)
        np.add.at(sums, slots, amounts)
        return PartTally(self.weight_by_info, domains, sums)


class PartTally(Tally):
    """A tally of a fork that was made by leaving out nodes. It shares its few weights with other such forks.

    `weight_by_info` has the weights that are not zero, and `sums` are those before the first move in the fork.
    """

    def __init__(self, weight_by_info: Mapping[int, int], domains: Domains | None, sums: Rows) -> None:
        self._weight_by_info = weight_by_info
        self.domains, self.sums, self.seen = domains, sums, 0

    def compact(self) -> Tally:
        """Return the tally itself, whose weights take little memory."""
        return self

    def compute_current_sums(self, trail: Trail) -> Counts:
        """Apply the trail's new moves and return the sums, which are valid until the next move."""
        new_moves = len(trail) - self.seen
        if new_moves == 1:
            self._add_move(trail.latest)
        elif new_moves:
            for move in trail.iter_moves_of_infos(self._weight_by_info, self.seen):
                self._add_move(move)
        self.seen = len(trail)
        return self.sums

    def _add_move(self, move: Move) -> None:
        """Add the change that one move makes to the sum of its node or domain."""
        weight = self._weight_by_info.get(move.info)
        slot = move.row if self.domains is None else self.domains.codes[move.row]
        if weight is not None and slot >= 0:
            self.sums[slot] += move.sign * weight


def _narrow_integers(weights: Counts) -> Counts:
    """Convert integers to the smallest of three types that holds them and their negatives.

    >>> _narrow_integers(np.array([3, -100])).dtype, _narrow_integers(np.array([3, -1000])).dtype
    (dtype('int8'), dtype('int16'))
    """
    if weights.dtype == np.int8:
        return weights
    largest = int(np.abs(weights).max(initial=0))
    if largest < 2**7:
        return weights.astype(np.int8)
    return weights.astype(np.int16 if largest < 2**15 else np.int64)
