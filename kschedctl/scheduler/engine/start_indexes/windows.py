"""Windows over a cycle: of F values in a circle the k that follow each of them, all F windows in a few passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores

LOWEST = np.iinfo(np.int64).min


def unrolled(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """(F + width - 1,): the circle and its beginning again, so that each window is a slice.

    >>> unrolled(np.array([1, 2, 3]), 2).tolist()
    [1, 2, 3, 1]
    """
    return np.concatenate((values, values[: width - 1]))


def extremes(values: Scores, width: int) -> tuple[Scores, Scores]:
    """(F,) each: the least and the greatest value of each window."""
    flat = unrolled(values, width)
    return _sliding(np.minimum, flat, width), _sliding(np.maximum, flat, width)


def _sliding(fold: np.ufunc, values: Scores, width: int) -> Scores:
    """The fold of each window of so many values, by windows of the powers of two of which two cover it."""
    count, covered = len(values) - width + 1, 1
    while 2 * covered <= width:
        values = fold(values[:-covered], values[covered:])
        covered *= 2
    folded: Scores = fold(values[:count], values[width - covered : width - covered + count])
    return folded


def distinct(codes: Ints | Rows, counted: Bools, width: int) -> Counts:
    """(F,): how many different codes each window has, of those that count.

    >>> distinct(np.array([7, 7, 8, 9]), np.array([True, True, True, False]), 3).tolist()
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


def runs(keys: Sequence[npt.NDArray[np.int64]], count: int, longest: int) -> list[tuple[int, int]]:
    """Begin and end of the windows one after the other, ``count`` in all, that agree in all keys; none too long.

    >>> runs([np.array([1, 1, 1, 2])], 4, 2)
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
    """(W,): the highest score of each window; ``sums`` (C, W): of the places that have it, columns added up."""

    top: Scores
    sums: npt.NDArray[np.int64]


def best_in_windows(scores: Scores, columns: npt.NDArray[np.int64], width: int) -> Best:
    """The best of each window of so many of the L scores, at most ``width`` windows; ``columns`` (C, L).

    Every window has the places in the middle in common; before them it has the last ones of some, after them the first
    ones of others.
    """
    count = len(scores) - width + 1
    middle = scores[count - 1 : width]
    top = middle.max()
    common = (columns[:, count - 1 : width] * (middle == top)).sum(axis=1)
    parts = [Best(np.full(count, top), np.repeat(common[:, None], count, axis=1))]
    if count > 1:
        nothing = np.zeros((len(columns), 1), np.int64)
        tops, sums = _running(scores[count - 2 :: -1], columns[:, count - 2 :: -1])
        parts.append(Best(np.append(tops[::-1], LOWEST), np.hstack((sums[:, ::-1], nothing))))
        tops, sums = _running(scores[width:], columns[:, width:])
        parts.append(Best(np.insert(tops, 0, LOWEST), np.hstack((nothing, sums))))
    best = np.max([part.top for part in parts], axis=0)
    return Best(
        best, sum((part.sums * (part.top == best) for part in parts[1:]), parts[0].sums * (parts[0].top == best))
    )


def _running(scores: Scores, columns: npt.NDArray[np.int64]) -> Best:
    """The best of the first score, of the first two, and so on."""
    tops = np.maximum.accumulate(scores)
    rises = np.append(True, tops[1:] > tops[:-1])
    since = np.maximum.accumulate(np.where(rises, np.arange(len(tops)), 0))
    added = np.cumsum(columns * (scores == tops), axis=1)
    return Best(tops, added - added[:, since] + columns[:, since])
