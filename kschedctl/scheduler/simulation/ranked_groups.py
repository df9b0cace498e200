"""The nodes that pods alike may go to, in groups between which no plugin that looks at other pods makes a difference.

In a group the nodes with the highest local score come first, so these stand for it; and a placement moves one node from
a place in one group to a place in another. So no placement has to look at all nodes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from kschedctl.api.arrays import Ints, Rows, Scores
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.snapshot.trail import Trail

KEPT = 256
"""So many of the best rows of a group, and those tied with the last of them, are kept in order."""
FEW = 8
"""So few rows are taken in one by one; so few lists are searched without putting them together."""


class TiedRows:
    """Rows of several ascending lists as one. It holds until pods move; its length for good."""

    def __init__(self, lists: Sequence[array[int]]) -> None:
        self._lists = lists
        self._length = sum(map(len, lists))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> int:
        """The row with so many lower ones before it."""
        if len(self._lists) == 1:
            return self._lists[0][place]
        if len(self._lists) > FEW:
            return int(np.partition(self.unordered(), place)[place])
        return self._search(place)

    def tolist(self) -> list[int]:
        """The rows in order."""
        rows: list[int] = np.sort(self.unordered()).tolist()
        return rows

    def unordered(self) -> Ints:
        """The rows, list by list."""
        return np.concatenate([_numbers(rows) for rows in self._lists])

    def _search(self, place: int) -> int:
        """The lowest row such that more than ``place`` are not above it: by guesses, as rows lie about evenly, in turn
        with bisection. ``below`` are lower than ``low``, ``up_to`` not above ``high``.
        """
        low, high = min([rows[0] for rows in self._lists]), max([rows[-1] for rows in self._lists])
        below, up_to, guesses = 0, self._length, True
        while low < high:
            at = (high - low) * (place - below) // (up_to - below) if guesses else (high - low) // 2
            number = 0
            for rows in self._lists:
                number += bisect_right(rows, low + at)
            if number > place:
                high, up_to = low + at, number
            else:
                low, below = low + at + 1, number
            guesses = not guesses
        return low


class RankedGroups:
    """N rows in groups: those of one group share the ``fixed`` columns (N,) and what the ``distinctions`` tell.

    ``score`` (N,): the local scores, below zero where a pod does not fit. It and ``group`` (N,) are as they were when
    the trail was ``seen``. By group, in arrays that grow: ``count``: how many rows fit; ``top``: the highest score;
    ``example``: one of the rows that have it. ``_lists``: by group and score the rows in order, of all scores of at
    least ``_floor``.
    """

    def __init__(
        self, score: Scores, fixed: Sequence[Rows | Scores], distinctions: Sequence[Distinction], trail: Trail
    ) -> None:
        self.trail, self.seen = trail, len(trail)
        rows = np.arange(len(score))
        self._own = [distinction for distinction in distinctions if distinction.domains.alone]
        self._lasting = combined([*fixed, *map(_lasting, distinctions)], len(score))
        self._values = [distinction.values_at(rows) for distinction in self._own]
        self.score, self.group = score.copy(), combined([self._lasting, *self._values], len(score))
        self._lists: list[dict[int, array[int]]] = []
        self._floor: list[int] = []
        self._number: dict[tuple[int, ...], int] = {}
        self.count, self.top, self.example = (np.zeros(1, np.int64) for _ in range(3))
        for members in split(self.group):
            group = self._new_group(self._key(int(members[0])))
            fitting = members[self.score[members] >= 0]
            self.count[group] = len(fitting)
            self._fill(group, fitting)

    def __len__(self) -> int:
        return len(self._lists)

    @property
    def live(self) -> Rows:
        """The groups in which some row fits."""
        return self.count[: len(self._lists)].nonzero()[0]

    def tied(self, groups: Rows) -> TiedRows:
        """The rows of the highest score in each of these groups."""
        tops = self.top[groups].tolist()
        return TiedRows([self._lists[group][top] for group, top in zip(groups.tolist(), tops, strict=True)])

    def bring_up(self, score: Scores, always: Scores | None, more: Rows) -> None:
        """Take in what moved since: the local scores are these now, and what is added to them for good.

        ``more``: rows that a distinction tells apart otherwise now, though nobody came to them or left.
        """
        new = len(self.trail) - self.seen
        if not (new or len(more)):
            return
        rows = self._moved(new)
        if len(more):
            rows = sorted({*map(int, rows), *more.tolist()})
        self.seen = len(self.trail)
        if len(rows) <= FEW:
            for row in map(int, rows):
                now = int(score[row]) if always is None else int(score[row] + always[row])
                self._move(row, self._group_now(row), now)
        else:
            chosen = np.asarray(rows)
            self._move_many(chosen, score[chosen] if always is None else score[chosen] + always[chosen])

    def _moved(self, new: int) -> Rows | Sequence[int]:
        """The rows of the latest moves, so many, each once and in order."""
        if new == 1:
            return (self.trail.latest.row,)
        return sorted({move[0] for move in self.trail.recent(new)}) if new <= FEW else self.trail.rows_since(self.seen)

    def _move(self, row: int, group: int, score: int) -> None:
        """One row is in this group now, with this score."""
        old, before = int(self.group[row]), int(self.score[row])
        if group == old and score == before:
            return
        self.group[row], self.score[row] = group, score
        if before >= 0:
            self.count[old] -= 1
            if before >= self._floor[old]:
                self._take_out(old, before, [row])
        if score >= 0:
            self.count[group] += 1
            self._enter(group, row, score)
        self._settle(old)
        if group != old:
            self._settle(group)

    def _move_many(self, rows: Rows, now: Scores) -> None:
        """These rows, in order, have these scores now."""
        if self._own:
            regrouped = np.zeros(len(rows), np.bool_)
            for distinction, values in zip(self._own, self._values, strict=True):
                regrouped |= distinction.values_at(rows) != values[rows]
            for row, score in zip(rows[regrouped].tolist(), now[regrouped].tolist(), strict=True):
                self._move(row, self._group_now(row), score)
        before = self.score.take(rows)
        changed = (now != before).nonzero()[0]
        if not len(changed):
            return
        rows, before, now = rows.take(changed), before.take(changed), now.take(changed)
        if len(self) == 1:
            self._move_within(0, rows, before, now)
            return
        groups = self.group.take(rows)
        for group in set(groups.tolist()):
            mine = groups == group
            self._move_within(group, rows[mine], before[mine], now[mine])

    def _move_within(self, group: int, rows: Rows, before: Scores, now: Scores) -> None:
        """Rows of one group get other scores."""
        self.score[rows] = now
        self.count[group] += np.count_nonzero(now >= 0) - np.count_nonzero(before >= 0)
        floor = self._floor[group]
        for score in {score for score in before.tolist() if score >= floor}:
            self._take_out(group, score, rows[before == score].tolist())
        rising = now >= floor
        for row, score in zip(rows[rising].tolist(), now[rising].tolist(), strict=True):
            self._enter(group, row, score)
        self._settle(group)

    # -- lists ---------------------------------------------------------------------------------------------------

    def _enter(self, group: int, row: int, score: int) -> None:
        """A row comes into its list, where there is one for its score."""
        if score < self._floor[group]:
            return
        lists = self._lists[group]
        rows = lists.get(score)
        if rows is None:
            lists[score] = array("i", (row,))
        else:
            rows.insert(bisect_left(rows, row), row)

    def _take_out(self, group: int, score: int, leaving: Sequence[int]) -> None:
        """Rows, in order, leave their list."""
        lists = self._lists[group]
        rows = lists[score]
        if len(leaving) <= FEW:
            for row in leaving:
                del rows[bisect_left(rows, row)]
        else:
            numbers = _numbers(rows)
            staying = np.ones(len(numbers), np.bool_)
            staying[numbers.searchsorted(np.array(leaving, np.int32))] = False
            rows = lists[score] = array("i", numbers[staying].tobytes())
        if not rows:
            del lists[score]

    def _settle(self, group: int) -> None:
        """Find the highest score of a group in which rows moved, and a row that has it."""
        if not self.count[group]:
            return
        lists = self._lists[group]
        if not lists:
            self._fill(group, ((self.group == group) & (self.score >= 0)).nonzero()[0])
            return
        top = max(lists) if len(lists) > 1 else next(iter(lists))
        self.top[group], self.example[group] = top, lists[top][0]

    def _fill(self, group: int, rows: Rows) -> None:
        """List the best of the rows of a group that fit, in order; until all that are listed left it that is enough."""
        if not len(rows):
            return
        scores, floor = self.score[rows], 0
        if len(rows) > KEPT:
            floor = int(np.partition(scores, len(rows) - KEPT)[len(rows) - KEPT])
            rows, scores = rows[scores >= floor], scores[scores >= floor]
        self._floor[group] = floor
        for tied in split(scores):
            self._lists[group][int(scores[tied[0]])] = array("i", rows[tied].astype(np.int32).tobytes())
        self._settle(group)

    # -- groups --------------------------------------------------------------------------------------------------

    def _group_now(self, row: int) -> int:
        """The group of a row as pods are now."""
        changed = False
        for distinction, values in zip(self._own, self._values, strict=True):
            value = distinction.value_at(row)
            if value != values[row]:
                changed, values[row] = True, value
        if not changed:
            return int(self.group[row])
        key = self._key(row)
        return self._number[key] if key in self._number else self._new_group(key)

    def _key(self, row: int) -> tuple[int, ...]:
        return (int(self._lasting[row]), *[int(values[row]) for values in self._values])

    def _new_group(self, key: tuple[int, ...]) -> int:
        group = self._number[key] = len(self._lists)
        self._lists.append({})
        self._floor.append(0)
        if group == len(self.count):
            more = np.zeros(group, np.int64)
            self.count, self.top = np.concatenate((self.count, more)), np.concatenate((self.top, more))
            self.example = np.concatenate((self.example, more))
        return group


def combined(columns: Sequence[Rows | Ints], length: int) -> Ints:
    """(N,): equal where all columns are.

    >>> combined([np.array([5, 5, 7]), np.array([1, 2, 1])], 3).tolist()
    [0, 1, 2]
    """
    codes = np.zeros(length, np.int64)
    for column in columns if length else ():
        number, other = numbered(column)
        if number > 1:
            _, codes = numbered(codes * number + other)
    return codes.astype(np.int32)


def numbered(values: Rows | Ints) -> tuple[int, Rows]:
    """How many values there are, and (N,) the place of each among them, the lowest first; as np.unique, but sooner.

    >>> numbered(np.array([7, 5, 7]))
    (2, array([1, 0, 1]))
    """
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values):
        several, places = np.unique(values, return_inverse=True)
        return len(several), places
    there = np.zeros(high - low + 1, np.bool_)
    there[values - low] = True
    places = there.cumsum() - 1
    return int(places[-1]) + 1, places[values - low]


def split(values: Rows | Ints) -> list[Rows]:
    """The places of each value, in order, from the lowest value to the highest.

    >>> [places.tolist() for places in split(np.array([7, 5, 7]))]
    [[1], [0, 2]]
    """
    if not len(values):
        return []
    order = values.argsort(kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def _lasting(distinction: Distinction) -> Rows:
    """(N,): what of a distinction no pod changes."""
    domains = distinction.domains
    return (domains.present if domains.alone else domains.codes).astype(np.int64)


def _numbers(rows: array[int]) -> Ints:
    """A view of the rows, which nobody may change meanwhile."""
    return np.frombuffer(rows, np.int32) if rows else np.empty(0, np.int32)
