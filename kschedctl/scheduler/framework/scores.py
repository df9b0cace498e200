"""Integer arithmetic on scores with the rounding of Go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Scores

MAX_NODE_SCORE = 100
FEW = 32
"""Up to this many numbers, Python's min and max are faster than numpy's."""


def normalize_by_max(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scale scores so that the largest becomes 100. With `reverse`, the largest becomes 0, and 0 becomes 100.

    If no score is positive, the scores are returned unchanged or, with `reverse`, all are 100. Upstream:
    plugins/helper/normalize_score.go.

    >>> normalize_by_max(np.array([0, 1, 3])).tolist(), normalize_by_max(np.array([0, 1, 3]), reverse=True).tolist()
    ([0, 33, 100], [100, 67, 0])
    """
    largest = max(int(scores.max(initial=0)), 0)
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = truncating_divide(MAX_NODE_SCORE * scores, largest)
    return MAX_NODE_SCORE - scaled if reverse else scaled


def find_min_and_max(scores: Scores) -> tuple[int, int]:
    """Return the lowest and the highest score. There must be at least one score.

    >>> find_min_and_max(np.array([3, 1, 2]))
    (1, 3)
    """
    if len(scores) > FEW:
        return int(scores.min()), int(scores.max())
    few = scores.tolist()
    return min(few), max(few)


def truncating_divide(dividend: Scores, divisor: Scores | int) -> Scores:
    """Divide integers as Go does, rounding towards zero.

    >>> truncating_divide(np.array([7, -7]), 2).tolist()
    [3, -3]
    """
    floor = dividend // divisor
    is_negative = (dividend < 0) != (np.asarray(divisor) < 0)
    is_inexact = floor * divisor != dividend
    quotient: Scores = floor + (is_negative & is_inexact)  # numpy rounds down, which is away from zero here
    return quotient


def round_half_away(values: npt.NDArray[np.float64]) -> Scores:
    """Round non-negative values as Go's math.Round does, with halves rounded up.

    Simply adding 0.5 and truncating would round 0.49999999999999994 up.

    >>> round_half_away(np.array([0.5, 1.5, 2.49, 0.49999999999999994])).tolist()
    [1, 2, 2, 0]
    """
    halves = (values + values).astype(np.int64)  # doubling is exact
    halves += 1
    halves >>= 1
    return halves
