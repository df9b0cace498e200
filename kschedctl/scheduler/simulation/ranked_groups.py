"""Nodes grouped so that, for identical pods, no plugin that looks at other pods distinguishes the nodes of a group.

In a group the nodes with the highest local score come first and stand for the group. A placement moves one node between
groups or scores, so no placement has to look at all nodes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Rows, Scores
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.snapshot.trail import Trail

SORTED_ROWS = 256
"""Number of the best rows of a group that are kept in order, plus those tied with the last of them."""
SMALL_COUNT = 8
"""Up to this many rows are updated one by one, and up to this many lists are searched without merging them."""

NO_SCORE = np.iinfo(np.int64).min
"""A score that no row has."""


class TiedRows:
    """The rows of a few ascending lists as one ascending sequence, valid until pods move. Its length stays valid."""

    def __init__(self, lists: Sequence[array[int]]) -> None:
        self._lists = lists
        self._length = sum(map(len, lists))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> int:
        """Return the row at this place in ascending order."""
        if len(self._lists) == 1:
            return self._lists[0][place]
        return self._find_row_at(place)

    def tolist(self) -> list[int]:
        """Return the rows in ascending order."""
        rows: list[int] = np.sort(self.unordered()).tolist()
        return rows

    def unordered(self) -> Ints:
        """Return the rows list by list, which is not their ascending order."""
        return np.concatenate([_view_as_array(rows) for rows in self._lists])

    def _find_row_at(self, place: int) -> int:
        """Find the row at this place by narrowing the range from the lowest to the highest row.

        Interpolation is fast for evenly spread rows. Bisection, every second step, limits the number of steps. `below`
        rows are less than `low`, and `up_to` rows are at most `high`.
        """
        low = min([rows[0] for rows in self._lists])
        high = max([rows[-1] for rows in self._lists])
        below = 0
        up_to = self._length
        interpolates = True
        while low < high:
            # Guess a row in the range, and count the rows up to it.
            interpolated = (high - low) * (place - below) // (up_to - below)
            offset = interpolated if interpolates else (high - low) // 2
            rows_up_to_offset = 0
            for rows in self._lists:
                rows_up_to_offset += bisect_right(rows, low + offset)

            # Go on with the part of the range that has the place.
            if rows_up_to_offset > place:
                high = low + offset
                up_to = rows_up_to_offset
            else:
                low += offset + 1
                below = rows_up_to_offset
            interpolates = not interpolates
        return low


class RankedGroups:
    """N rows in groups whose rows share the `fixed` columns (N,) and the values of the `distinctions`."""

    def __init__(
        self, score: Scores, fixed: Sequence[Rows | Scores], distinctions: Sequence[Distinction], trail: Trail
    ) -> None:
        self.trail = trail
        self.seen = len(trail)
        """Length of the trail when the groups were updated last."""
        rows = np.arange(len(score))
        self._single_node_distinctions = [
            distinction for distinction in distinctions if distinction.domains.separates_nodes
        ]
        self._lasting_codes = combine_columns([*fixed, *map(_get_lasting_codes, distinctions)], len(score))
        self._values = [distinction.get_domain_values(rows) for distinction in self._single_node_distinctions]
        self.score = score.copy()
        """Local scores (N,), below zero where a pod does not fit."""
        self.group = combine_columns([self._lasting_codes, *self._values], len(score)).astype(np.intp)
        """The group of each row (N,)."""
        self._lists: list[dict[int, array[int]]] = []
        """By group and score, the rows in order, for all scores of at least `_floor`."""
        self._floor: list[int] = []
        self._group_by_key: dict[tuple[int, ...], int] = {}
        self.count = np.zeros(1, np.int64)
        """By group, the number of feasible rows. Like the next two arrays it grows with the number of groups."""
        self.top = np.zeros(1, np.int64)
        """By group, the highest score."""
        self.example = np.zeros(1, np.int64)
        """By group, one of the rows that have the highest score."""
        self.feasible_count = int(np.count_nonzero(self.score >= 0))
        """The number of feasible rows of all groups."""
        self._is_selection_outdated = True
        self._feasible_groups = np.zeros(0, np.int64)
        self._feasible_examples = np.zeros(0, np.int64)
        for members in split_by_value(self.group):
            group = self._add_group(self._build_key(int(members[0])))
            fitting = members[self.score[members] >= 0]
            self.count[group] = len(fitting)
            self._store_best_rows(group, fitting)

    def __len__(self) -> int:
        return len(self._lists)

    @property
    def feasible_groups(self) -> Rows:
        """The groups that have a feasible row."""
        groups, _ = self.get_feasible_groups_and_examples()
        return groups

    def get_feasible_groups_and_examples(self) -> tuple[Rows, Rows]:
        """Return the groups that have a feasible row, and the example of each.

        If they have not changed since the last call, the same two arrays are returned, so that callers can compare them
        by identity.
        """
        if self._is_selection_outdated:
            self._feasible_groups = self.count[: len(self._lists)].nonzero()[0]
            self._feasible_examples = self.example[self._feasible_groups]
            self._is_selection_outdated = False
        return self._feasible_groups, self._feasible_examples

    def get_best_rows(self, groups: Rows) -> Rows | TiedRows:
        """Return, in ascending order, the rows with the highest score of each of these feasible groups.

        If there are few groups, the rows are not copied, so the result is valid only until pods move.
        """
        if len(groups) > SMALL_COUNT:
            top = np.full(len(self), NO_SCORE)
            top[groups] = self.top[groups]
            is_best: Bools = self.score == top.take(self.group)
            return is_best.nonzero()[0]
        tops = self.top[groups].tolist()
        return TiedRows([self._lists[group][top] for group, top in zip(groups.tolist(), tops, strict=True)])

    def update(self, score: Scores, independent_scores: Scores | None, changed_rows: Rows) -> None:
        """Bring the groups and scores of the rows up to date.

        The new scores are the sum of `score` (N,) and `independent_scores` (N,), where None stands for zeros. The rows
        that a pod joined or left since the last update are refreshed, and the `changed_rows`, whose distinctions
        changed for another reason.
        """
        new_moves = len(self.trail) - self.seen
        if not (new_moves or len(changed_rows)):
            return
        rows = self._list_moved_rows(new_moves)
        if len(changed_rows):
            rows = sorted({*map(int, rows), *changed_rows.tolist()})
        self.seen = len(self.trail)

        # Few rows are moved one by one, which is faster than to start numpy for them.
        if len(rows) <= SMALL_COUNT:
            for row in map(int, rows):
                new_score = int(score[row]) if independent_scores is None else int(score[row] + independent_scores[row])
                self._move_row(row, self._refresh_group_of_row(row), new_score)
        else:
            row_array = np.asarray(rows)
            new_scores = score[row_array]
            if independent_scores is not None:
                new_scores = new_scores + independent_scores[row_array]
            self._move_rows(row_array, new_scores)

    def _list_moved_rows(self, count: int) -> Rows | Sequence[int]:
        """Return the distinct rows of the latest `count` moves, in ascending order."""
        if count == 1:
            return (self.trail.latest.row,)
        if count <= SMALL_COUNT:
            return sorted({row for row, _, _ in self.trail.list_recent(count)})
        return self.trail.find_rows_since(self.seen)

    def _move_row(self, row: int, group: int, score: int) -> None:
        """Move one row to this group and score, and update the counts, lists and tops of both groups."""
        old_group = int(self.group[row])
        old_score = int(self.score[row])
        if group == old_group and score == old_score:
            return
        self.group[row] = group
        self.score[row] = score

        # Take the row off its old list, and put it on the new one. Infeasible rows are on no list.
        if old_score >= 0:
            self._change_count(old_group, change=-1)
            if old_score >= self._floor[old_group]:  # lower scores are not listed
                self._remove_rows(old_group, old_score, [row])
        if score >= 0:
            self._change_count(group, change=1)
            self._insert_row(group, row, score)
        self._update_top(old_group)
        if group != old_group:
            self._update_top(group)

    def _move_rows(self, rows: Rows, new_scores: Scores) -> None:
        """Give these rows their new scores, and move them to the groups they belong to.

        The rows must be in ascending order.
        """
        if self._single_node_distinctions:
            changes_group = self._mask_rows_changing_groups(rows)
            for row, score in zip(rows[changes_group].tolist(), new_scores[changes_group].tolist(), strict=True):
                self._move_row(row, self._refresh_group_of_row(row), score)
            rows = rows[~changes_group]
            new_scores = new_scores[~changes_group]
        self._change_scores(rows, new_scores)

    def _mask_rows_changing_groups(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rows whose values differ from the values of their groups."""
        changes_group = np.zeros(len(rows), np.bool_)
        for distinction, values in zip(self._single_node_distinctions, self._values, strict=True):
            changes_group |= distinction.get_domain_values(rows) != values[rows]
        return changes_group

    def _change_scores(self, rows: Rows, new_scores: Scores) -> None:
        """Give these rows, which stay in their groups, their new scores. The rows must be in ascending order."""
        old_scores = self.score.take(rows)
        changed = (new_scores != old_scores).nonzero()[0]
        if not len(changed):
            return
        rows = rows.take(changed)
        old_scores = old_scores.take(changed)
        new_scores = new_scores.take(changed)
        if len(self) == 1:
            self._rescore_rows_of_group(0, rows, old_scores, new_scores)
            return
        groups = self.group.take(rows)
        for group in set(groups.tolist()):
            in_group = groups == group
            self._rescore_rows_of_group(group, rows[in_group], old_scores[in_group], new_scores[in_group])

    def _rescore_rows_of_group(self, group: int, rows: Rows, old_scores: Scores, new_scores: Scores) -> None:
        """Change the scores of rows of one group, and update its count, lists and top."""
        self.score[rows] = new_scores
        self._change_count(group, int(np.count_nonzero(new_scores >= 0) - np.count_nonzero(old_scores >= 0)))
        floor = self._floor[group]
        for score in {score for score in old_scores.tolist() if score >= floor}:
            self._remove_rows(group, score, rows[old_scores == score].tolist())
        is_listed = new_scores >= floor
        for row, score in zip(rows[is_listed].tolist(), new_scores[is_listed].tolist(), strict=True):
            self._insert_row(group, row, score)
        self._update_top(group)

    def _change_count(self, group: int, change: int) -> None:
        """Change the number of feasible rows of a group and of all groups.

        If the group gets its first feasible row or loses its last one, the arrays of feasible groups are outdated.
        """
        old_count = int(self.count[group])
        new_count = old_count + change
        self.count[group] = new_count
        self.feasible_count += change
        if old_count == 0 or new_count == 0:
            self._is_selection_outdated = True

    # -- lists ---------------------------------------------------------------------------------------------------

    def _insert_row(self, group: int, row: int, score: int) -> None:
        """Insert a row in order into the list for its score, unless the group lists only higher scores."""
        if score < self._floor[group]:
            return
        lists = self._lists[group]
        rows = lists.get(score)
        if rows is None:
            lists[score] = array("i", (row,))
        else:
            rows.insert(bisect_left(rows, row), row)

    def _remove_rows(self, group: int, score: int, leaving: Sequence[int]) -> None:
        """Remove the rows in `leaving`, which must be in ascending order, from the list for their score.

        A list that becomes empty is dropped.
        """
        lists = self._lists[group]
        rows = lists[score]
        if len(leaving) <= SMALL_COUNT:
            for row in leaving:
                del rows[bisect_left(rows, row)]
        else:  # deleting many rows one by one would move the rest of the list each time
            numbers = _view_as_array(rows)
            staying = np.ones(len(numbers), np.bool_)
            staying[numbers.searchsorted(np.array(leaving, np.int32))] = False
            rows = array("i", numbers[staying].tobytes())
            lists[score] = rows
        if not rows:
            del lists[score]

    def _update_top(self, group: int) -> None:
        """Update the highest score and the example of a group in which rows moved.

        The example is the first row with this score. An empty group keeps its old values. If all listed rows have left
        the group, its best rows are listed again.
        """
        if not self.count[group]:
            return
        lists = self._lists[group]
        if not lists:
            self._store_best_rows(group, ((self.group == group) & (self.score >= 0)).nonzero()[0])
            return
        top = max(lists) if len(lists) > 1 else next(iter(lists))  # the usual single list needs no comparison
        self.top[group] = top
        example = lists[top][0]
        if self.example[group] != example:
            self.example[group] = example
            self._is_selection_outdated = True

    def _store_best_rows(self, group: int, rows: Rows) -> None:
        """Store the best of the group's feasible `rows` in one list per score, and update the group's top.

        The other rows are not listed until all listed rows have left the group.
        """
        if not len(rows):
            return
        scores = self.score[rows]
        floor = 0
        if len(rows) > SORTED_ROWS:
            # The floor is the SORTED_ROWS-th best score.
            place = len(rows) - SORTED_ROWS
            floor = int(np.partition(scores, place)[place])
            is_listed = scores >= floor
            rows, scores = rows[is_listed], scores[is_listed]
        self._floor[group] = floor
        for tied in split_by_value(scores):
            score = int(scores[tied[0]])
            self._lists[group][score] = array("i", rows[tied].astype(np.int32).tobytes())
        self._update_top(group)

    # -- groups --------------------------------------------------------------------------------------------------

    def _refresh_group_of_row(self, row: int) -> int:
        """Re-read a row's values and return the group it now belongs to, adding the group if necessary.

        The row is not moved to that group.
        """
        changed = False
        for distinction, values in zip(self._single_node_distinctions, self._values, strict=True):
            value = distinction.get_domain_value(row)
            if value != values[row]:
                values[row] = value
                changed = True
        if not changed:
            return int(self.group[row])
        key = self._build_key(row)
        return self._group_by_key[key] if key in self._group_by_key else self._add_group(key)

    def _build_key(self, row: int) -> tuple[int, ...]:
        """Return the key of the group with the row's lasting codes and current values."""
        return (int(self._lasting_codes[row]), *[int(values[row]) for values in self._values])

    def _add_group(self, key: tuple[int, ...]) -> int:
        """Add an empty group for the key, and return its number."""
        group = len(self._lists)
        self._group_by_key[key] = group
        self._lists.append({})
        self._floor.append(0)
        if group == len(self.count):  # the arrays are full, so double their size
            zeros = np.zeros(group, np.int64)
            self.count = np.concatenate((self.count, zeros))
            self.top = np.concatenate((self.top, zeros))
            self.example = np.concatenate((self.example, zeros))
        return group


def combine_columns(columns: Sequence[Rows | Ints], length: int) -> Ints:
    """Return one code per row. Rows that are equal in all columns have equal codes.

    >>> combine_columns([np.array([5, 5, 7]), np.array([1, 2, 1])], 3).tolist()
    [0, 1, 2]
    """
    codes = np.zeros(length, np.int64)
    if not length:
        return codes.astype(np.int32)
    for column in columns:
        distinct, column_codes = rank_values(column)
        if distinct > 1:  # number the distinct pairs of a code so far and a code of this column
            _, codes = rank_values(codes * distinct + column_codes)
    return codes.astype(np.int32)


def rank_values(values: Rows | Ints) -> tuple[int, Rows]:
    """Return the number of distinct values, and each value's rank among them. There must be at least one value.

    If the values span a small range, counting is faster than np.unique.

    >>> rank_values(np.array([7, 5, 7]))
    (2, array([1, 0, 1]))
    """
    low, high = int(values.min()), int(values.max())
    is_range_small = high - low <= 4 * len(values)
    if not is_range_small:
        distinct, places = np.unique(values, return_inverse=True)
        return len(distinct), places
    occurs = np.zeros(high - low + 1, np.bool_)
    occurs[values - low] = True
    places = occurs.cumsum() - 1
    return int(places[-1]) + 1, places[values - low]


def split_by_value(values: Rows | Ints) -> list[Rows]:
    """Return one array of places per distinct value, from the lowest value to the highest.

    >>> [places.tolist() for places in split_by_value(np.array([7, 5, 7]))]
    [[1], [0, 2]]
    """
    if not len(values):
        return []
    # Values that span a small range are sorted as 16-bit integers, which numpy does several times as fast.
    low = values.min()
    keys = (values - low).astype(np.int16) if values.max() - low < 2**15 else values
    order = keys.argsort(kind="stable")
    sorted_keys = keys[order]
    ends = ((sorted_keys[1:] != sorted_keys[:-1]).nonzero()[0] + 1).tolist()
    return [order[start:end] for start, end in pairwise((0, *ends, len(order)))]


def _get_lasting_codes(distinction: Distinction) -> Rows:
    """Return, for each node, a code for the part of a distinction that no pod changes.

    The codes are the codes of the domains. If each node is a separate domain, the codes only distinguish nodes with a
    domain from nodes without one.
    """
    domains = distinction.domains
    codes = domains.present if domains.separates_nodes else domains.codes
    return codes.astype(np.int64)


def _view_as_array(rows: array[int]) -> Ints:
    """Return a numpy view of the rows, which must not change while the view is used."""
    return np.frombuffer(rows, np.int32) if rows else np.empty(0, np.int32)
