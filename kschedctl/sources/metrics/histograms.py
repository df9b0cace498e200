"""Histograms as Prometheus has them: classic ones with fixed bucket bounds, and native ones."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

SMALL_DELTA = 1e-12
"""The largest relative difference between the counts of two buckets that counts as a rounding error."""
MIN_NORMAL = 2.0**-1022
"""The smallest positive float with full precision."""
COARSEST, FINEST = -4, 8
"""The schemas of exponential buckets: the n-th ends at ``2 ** (n * 2 ** -schema)``."""


class Bucket(NamedTuple):
    """A bucket of a classic histogram: the number of observations that were at most ``bound``."""

    bound: float
    observations: float


class NativeBucket(NamedTuple):
    """A bucket of a native histogram: the number of observations between its bounds."""

    lower: float
    upper: float
    observations: float


def estimate_classic_quantile(q: float, buckets: Iterable[Bucket]) -> float:
    """Estimate a quantile from classic buckets in any order.

    The result is NaN if there are no observations or no bucket for +Inf. For the highest bucket, the result is its
    lower bound. The lowest bucket begins at 0, unless its bound is not above 0. As in PromQL, the result for a ``q``
    outside 0 to 1 is infinite.
    """
    if not 0 <= q <= 1:
        return math.nan if math.isnan(q) else math.copysign(math.inf, q)
    merged = _make_counts_ascending(_merge_buckets_with_equal_bounds(buckets))
    if len(merged) < 2:
        return math.nan
    highest = merged[-1]
    if highest.bound != math.inf or not highest.observations > 0:
        return math.nan

    # The first bucket whose cumulative count reaches the rank
    rank = q * highest.observations
    last_index = len(merged) - 1
    index = bisect_left(merged, rank, hi=last_index, key=lambda bucket: bucket.observations)
    bound, count = merged[index]
    if index == last_index:
        return merged[last_index - 1].bound
    if index == 0 and bound <= 0:
        return bound

    # Interpolate linearly between the bounds of the bucket
    previous = merged[index - 1] if index else Bucket(0.0, 0.0)
    share = _divide(rank - previous.observations, count - previous.observations)
    return previous.bound + (bound - previous.bound) * share


def find_lowest_bucket_limit(q: float, buckets: Iterable[Bucket]) -> float | None:
    """Return the bound of the lowest bucket if the quantile is in it, or None if it is in another bucket.

    In the lowest bucket, the quantile is only known to be at most the bound. Also return None if this bucket has no
    positive finite bound, or if there are no observations.
    """
    merged = _make_counts_ascending(_merge_buckets_with_equal_bounds(buckets))
    if not merged or not merged[-1].observations > 0:
        return None
    bound, count = merged[0]
    is_lowest = math.isfinite(bound) and bound > 0 and q * merged[-1].observations <= count
    return bound if is_lowest else None


def find_finite_buckets(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Return the finite buckets by ascending bound, up to the first one that contains all observations.

    Buckets with equal bounds are merged. A count that is lower than the count of a smaller bound is raised to that
    count.
    """
    merged = _make_counts_ascending(_merge_buckets_with_equal_bounds(buckets))
    all_observations = merged[-1].observations if merged else 0.0
    first_full = bisect_left(merged, all_observations, key=lambda bucket: bucket.observations)
    return [bucket for bucket in merged[: first_full + 1] if math.isfinite(bucket.bound)]


def is_quantile_in_highest_bucket(q: float, buckets: Iterable[Bucket]) -> bool:
    """Return whether the quantile is above all finite bounds, so that its estimate is only a lower limit."""
    merged = _make_counts_ascending(_merge_buckets_with_equal_bounds(buckets))
    return len(merged) > 1 and q * merged[-1].observations > merged[-2].observations


def _merge_buckets_with_equal_bounds(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Add up buckets with the same bound, and return the buckets sorted by bound."""
    counts: dict[float, float] = {}
    for bound, count in buckets:
        counts[bound] = counts.get(bound, 0.0) + count
    return [Bucket(bound, counts[bound]) for bound in sorted(counts)]


def _make_counts_ascending(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Return the buckets with cumulative counts that never decrease.

    A count is replaced by the previous one if it is lower, or if it is higher only by a rounding error.
    """
    repaired: list[Bucket] = []
    for bucket in buckets:
        previous_count = repaired[-1].observations if repaired else bucket.observations
        is_higher = bucket.observations > previous_count and not _are_almost_equal(previous_count, bucket.observations)
        repaired.append(bucket if is_higher else Bucket(bucket.bound, previous_count))
    return repaired


def _are_almost_equal(a: float, b: float) -> bool:
    """Return whether two counts are equal up to rounding errors."""
    total = abs(a) + abs(b)
    difference = abs(a - b)
    if a == 0 or b == 0 or total < MIN_NORMAL:
        return difference < SMALL_DELTA * MIN_NORMAL
    return difference / total < SMALL_DELTA


def estimate_native_quantile(q: float, buckets: Iterable[NativeBucket], count: float, total: float) -> float:
    """Estimate a quantile of a native histogram with ``count`` observations.

    ``total`` is the sum of the observations, which is NaN if an observation is NaN. The result is NaN if there are no
    observations. The zero bucket begins at 0 if there are no negative buckets. The zero bucket and buckets with custom
    bounds are interpolated linearly. As in PromQL, the result for a ``q`` outside 0 to 1 is infinite.
    """
    if not 0 <= q <= 1:
        return math.nan if math.isnan(q) else math.copysign(math.inf, q)
    sorted_buckets = sorted(bucket for bucket in buckets if bucket.observations)
    if not count > 0 or not sorted_buckets:
        return math.nan

    # Like Prometheus, count from the nearer end, which is more precise. NaN is above all buckets, so count from below.
    forward = math.isnan(total) or q < 0.5
    rank = (q if forward else 1 - q) * count
    ordered_buckets = sorted_buckets if forward else sorted_buckets[::-1]
    cumulative_counts = list(accumulate(bucket.observations for bucket in ordered_buckets))

    # The first bucket whose cumulative count reaches the rank, or the last bucket if none reaches it
    indices = (index for index, cumulative_count in enumerate(cumulative_counts) if cumulative_count >= rank)
    index = next(indices, len(ordered_buckets) - 1)
    bucket = ordered_buckets[index]
    counted = min(cumulative_counts[index], count)
    if counted < rank:
        return math.nan if math.isnan(total) else bucket.upper

    rank_in_bucket = rank - (counted - bucket.observations) if forward else counted - rank
    return _interpolate_in_bucket(bucket, _divide(rank_in_bucket, bucket.observations), sorted_buckets)


def _interpolate_in_bucket(bucket: NativeBucket, share: float, native_buckets: Sequence[NativeBucket]) -> float:
    """Return the value below which a share of the bucket's observations lies, by interpolation.

    Buckets of an exponential schema are interpolated exponentially, and the zero bucket and buckets with custom bounds
    linearly. ``native_buckets`` are all buckets of the histogram, which tell the two kinds apart.
    """
    lower, upper = bucket.lower, bucket.upper
    if not have_exponential_bounds(native_buckets):
        if lower == -math.inf:
            lower = min(0.0, upper)
        return lower if upper == math.inf else lower + (upper - lower) * share

    # The zero bucket begins or ends at 0 if there are only positive or only negative buckets
    if lower <= 0 <= upper:
        other_buckets = [native_bucket for native_bucket in native_buckets if native_bucket != bucket]
        if other_buckets and all(other.lower > 0 for other in other_buckets):
            lower = 0.0
        if other_buckets and all(other.upper < 0 for other in other_buckets):
            upper = 0.0
        return lower + (upper - lower) * share

    low = math.log2(abs(lower))
    high = math.log2(abs(upper))
    if lower > 0:
        return math.exp2(low + (high - low) * share)
    return -math.exp2(high + (low - high) * (1 - share))


def have_exponential_bounds(buckets: Sequence[NativeBucket]) -> bool:
    """Return whether the buckets have the bounds of an exponential schema, instead of custom bounds.

    Prometheus' HTTP API does not report this. Custom bounds that all happen to fit a schema count as exponential, and
    so does a histogram with only a zero bucket. Infinite bounds are custom.
    """
    if any(math.isinf(bucket.lower) or math.isinf(bucket.upper) for bucket in buckets):
        return False
    nonzero_buckets = [bucket for bucket in buckets if not bucket.lower <= 0 <= bucket.upper]
    for schema in range(COARSEST, FINEST + 1):
        if all(_fits_schema(bucket, schema) for bucket in nonzero_buckets):  # also true if there are none
            return True
    return False


def _fits_schema(bucket: NativeBucket, schema: int) -> bool:
    """Return whether the bounds of a bucket are neighbors in a schema of exponential buckets."""
    # In a schema, bound n is 2 ** (n * 2 ** -schema), so n is an integer and neighbors differ by 1.
    low, high = sorted(math.log2(abs(bound)) * 2.0**schema for bound in (bucket.lower, bucket.upper))
    return abs(high - round(high)) < 1e-6 and abs(high - low - 1) < 1e-6


def _divide(part: float, whole: float) -> float:
    """Return ``part / whole``, or NaN if ``whole`` is 0, as Go does."""
    return part / whole if whole else math.nan


@dataclass(frozen=True)
class ClassicHistogram:
    """A histogram with cumulative buckets."""

    buckets: tuple[Bucket, ...]
    count: float
    """The number of observations."""
    total: float
    """The sum of the observations."""

    def estimate_quantile(self, q: float) -> float:
        """Estimate a quantile as PromQL's ``histogram_quantile`` does. The result is NaN if that is impossible."""
        return estimate_classic_quantile(q, self.buckets)

    def get_cumulative_buckets(self) -> list[Bucket]:
        """Return the finite buckets, each with the number of observations up to its bound."""
        return find_finite_buckets(self.buckets)

    def find_upper_limit(self, q: float) -> float | None:
        """Return the limit below which the quantile is, if nothing more is known of it. Otherwise return None."""
        return find_lowest_bucket_limit(q, self.buckets)

    def is_lower_limit(self, q: float) -> bool:
        """Return whether the estimate of the quantile is only a lower limit."""
        return is_quantile_in_highest_bucket(q, self.buckets)


@dataclass(frozen=True)
class NativeHistogram:
    """A histogram whose buckets adapt to the observations. Empty buckets are left out."""

    buckets: tuple[NativeBucket, ...]
    count: float
    """The number of observations."""
    total: float
    """The sum of the observations."""

    def estimate_quantile(self, q: float) -> float:
        """Estimate a quantile as PromQL's ``histogram_quantile`` does. The result is NaN if that is impossible."""
        return estimate_native_quantile(q, self.buckets, self.count, self.total)

    def get_cumulative_buckets(self) -> list[Bucket]:
        """Return the finite buckets, each with the number of observations up to its bound."""
        sorted_buckets = sorted(bucket for bucket in self.buckets if bucket.observations)
        cumulative_counts = accumulate(bucket.observations for bucket in sorted_buckets)
        return find_finite_buckets(map(Bucket, (bucket.upper for bucket in sorted_buckets), cumulative_counts))

    def find_upper_limit(self, q: float) -> float | None:
        """Return None, since buckets adapt to the observations, so that the estimate is close."""
        return None

    def is_lower_limit(self, q: float) -> bool:
        """Return whether the quantile is in a bucket without an upper bound."""
        unbounded_count = sum(bucket.observations for bucket in self.buckets if bucket.upper == math.inf)
        return unbounded_count > 0 and (1 - q) * self.count < unbounded_count


Histogram = ClassicHistogram | NativeHistogram
