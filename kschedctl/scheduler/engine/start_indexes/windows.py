"""Sliding windows over values arranged in a circle: all F windows of k values in a few passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores

LOWEST = np.iinfo(np.int64).min


def unroll(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Return the circle followed by its beginning, (F + width - 1,), so that each window is a slice.

    >>> unroll(np.array([1, 2, 3]), 2).tolist()
    [1, 2, 3, 1]
    """
    return np.concatenate((values, values[: width - 1]))


def window_min_and_max(values: Scores, width: int) -> tuple[Scores, Scores]:
    """Return the lowest and the highest value of each window, (F,) each."""
    flat = unroll(values, width)
    return _fold_windows(np.minimum, flat, width), _fold_windows(np.maximum, flat, width)


def _fold_windows(fold: np.ufunc, values: Scores, width: int) -> Scores:
    """Fold each window with a ufunc, by doubling: two windows of a power of two cover each window."""
    count, covered = len(values) - width + 1, 1
    while 2 * covered <= width:
        values = fold(values[:-covered], values[covered:])
        covered *= 2
    folded: Scores = fold(values[:count], values[width - covered : width - covered + count])
    return folded


def count_distinct(codes: Ints | Rows, counted: Bools, width: int) -> Counts:
    """Count the different codes in each window among the places that are `counted`, (F,).

    >>> count_distinct(np.array([7, 7, 8, 9]), np.array([True, True, True, False]), 3).tolist()
    [2, 2, 2, 1]
    """
    count, places = len(codes), np.arange(len(codes) + width - 1)
    flat, counts = codes[places % count], counted[places % count]
    places, flat = places[counts], flat[counts]
    order = np.argsort(flat, kind="stable")
    before = np.full(len(flat), -1)
    again = flat[order[1:]] == flat[order[:-1]]
    before[order[1:][again]] = places[order[:-1][again]]
    # a code is the first of its kind in the windows that begin behind the one before and do not end before it
    first, last = np.maximum(before, places - width) + 1, np.minimum(places, count - 1)
    first, last = first[first <= last], last[first <= last]
    begins = np.bincount(first, minlength=count + 1)
    ends = np.bincount(last + 1, minlength=count + 1)
    return np.cumsum(begins - ends)[:count]


def find_runs(keys: Sequence[npt.NDArray[np.int64]], count: int, longest: int) -> list[tuple[int, int]]:
    """Return begin and end of the runs of consecutive windows with equal keys, none longer than `longest`.

    >>> find_runs([np.array([1, 1, 1, 2])], 4, 2)
    [(0, 2), (2, 3), (3, 4)]
    """
    changes = np.zeros(count, np.bool_)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    begins = np.flatnonzero(changes).tolist()
    ends = [*begins[1:], count]
    return [
        (begin, min(begin + longest, end))
        for start, end in zip(begins, ends, strict=True)
        for begin in range(start, end, longest)
    ]


class Best(NamedTuple):
    """The best scores of W windows."""

    top: Scores
    """(W,): the highest score of each window."""
    sums: npt.NDArray[np.int64]
    """(C, W): sums of the columns over the places with the highest score."""


def best_in_windows(scores: Scores, columns: npt.NDArray[np.int64], width: int) -> Best:
    """Return the best of each window of `width` scores among L scores, at most `width` windows.

    `columns` is (C, L). All windows share the places in the middle; before them, each has the last of some places, and
    after them the first of others.
    """
    count = len(scores) - width + 1
    middle = scores[count - 1 : width]
    top = middle.max()
    common = (columns[:, count - 1 : width] * (middle == top)).sum(axis=1)
    parts = [Best(np.full(count, top), np.repeat(common[:, None], count, axis=1))]
    if count > 1:
        nothing = np.zeros((len(columns), 1), np.int64)
        tops, sums = _running_best(scores[count - 2 :: -1], columns[:, count - 2 :: -1])
        parts.append(Best(np.append(tops[::-1], LOWEST), np.hstack((sums[:, ::-1], nothing))))
        tops, sums = _running_best(scores[width:], columns[:, width:])
        parts.append(Best(np.insert(tops, 0, LOWEST), np.hstack((nothing, sums))))
    best = np.max([part.top for part in parts], axis=0)
    return Best(
        best, sum((part.sums * (part.top == best) for part in parts[1:]), parts[0].sums * (parts[0].top == best))
    )


def _running_best(scores: Scores, columns: npt.NDArray[np.int64]) -> Best:
    """Return the best of the first score, of the first two scores, and so on."""
    tops = np.maximum.accumulate(scores)
    rises = np.append(True, tops[1:] > tops[:-1])
    since = np.maximum.accumulate(np.where(rises, np.arange(len(tops)), 0))
    added = np.cumsum(columns * (scores == tops), axis=1)
    return Best(tops, added - added[:, since] + columns[:, since])
