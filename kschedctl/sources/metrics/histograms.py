"""Histograms as Prometheus has them: classic ones, with buckets that end at fixed bounds, and native ones."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

SMALL_DELTA = 1e-12
"""A relative difference between the counts of two buckets that comes from floating point alone."""
LEAST_NORMAL = 2.0**-1022
COARSEST, FINEST = -4, 8
"""The schemas of exponential buckets: the n-th ends at ``2 ** (n * 2 ** -schema)``."""


class Bucket(NamedTuple):
    """A bucket of a classic histogram: how many observations were at most ``bound``."""

    bound: float
    observations: float


class NativeBucket(NamedTuple):
    """A bucket of a native histogram: how many observations were between the bounds."""

    lower: float
    upper: float
    observations: float


def bucket_quantile(q: float, buckets: Iterable[Bucket]) -> float:
    """The quantile of classic buckets in any order; NaN without observations, or without the bucket of +Inf.

    In the highest bucket it is the bound below; the lowest begins at 0, unless its bound is not above that.
    """
    if not 0 <= q <= 1:
        return math.nan if math.isnan(q) else math.copysign(math.inf, q)
    known = _monotonic(_coalesced(buckets))
    if len(known) < 2 or known[-1].bound != math.inf or not known[-1].observations > 0:
        return math.nan
    rank = q * known[-1].observations
    at = bisect_left(known, rank, hi=len(known) - 1, key=lambda bucket: bucket.observations)
    bound, count = known[at]
    if at == len(known) - 1:
        return known[-2].bound
    if at == 0 and bound <= 0:
        return bound
    below = known[at - 1] if at else Bucket(0.0, 0.0)
    return below.bound + (bound - below.bound) * _part(rank - below.observations, count - below.observations)


def cumulative(buckets: Iterable[Bucket]) -> list[Bucket]:
    """The finite buckets by their bounds, no count below the one before, up to the first that has all observations."""
    known = _monotonic(_coalesced(buckets))
    highest = known[-1].observations if known else 0.0
    full = bisect_left(known, highest, key=lambda bucket: bucket.observations)
    return [bucket for bucket in known[: full + 1] if math.isfinite(bucket.bound)]


def in_highest(q: float, buckets: Iterable[Bucket]) -> bool:
    """Whether the quantile lies above all finite bounds: then it is at least what ``bucket_quantile`` gives."""
    known = _monotonic(_coalesced(buckets))
    return len(known) > 1 and q * known[-1].observations > known[-2].observations


def _coalesced(buckets: Iterable[Bucket]) -> list[Bucket]:
    """By bound, those of the same bound added up."""
    counts: dict[float, float] = {}
    for bound, count in buckets:
        counts[bound] = counts.get(bound, 0.0) + count
    return [Bucket(bound, counts[bound]) for bound in sorted(counts)]


def _monotonic(buckets: Sequence[Bucket]) -> list[Bucket]:
    """The buckets with no count below, or but for rounding different from, that of the bucket before."""
    repaired: list[Bucket] = []
    for bucket in buckets:
        before = repaired[-1].observations if repaired else bucket.observations
        keep = bucket.observations > before and not _almost_equal(before, bucket.observations)
        repaired.append(bucket if keep else Bucket(bucket.bound, before))
    return repaired


def _almost_equal(a: float, b: float) -> bool:
    total, difference = abs(a) + abs(b), abs(a - b)
    if a == 0 or b == 0 or total < LEAST_NORMAL:
        return difference < SMALL_DELTA * LEAST_NORMAL
    return difference / total < SMALL_DELTA


def native_quantile(q: float, buckets: Iterable[NativeBucket], count: float, total: float) -> float:
    """The quantile of a native histogram with so many observations that sum up to ``total``, which NaNs make NaN.

    A zero bucket begins at 0 where there are no negative ones; it, and buckets with bounds of one's own, are
    interpolated linearly.
    """
    if not 0 <= q <= 1:
        return math.nan if math.isnan(q) else math.copysign(math.inf, q)
    known = sorted(bucket for bucket in buckets if bucket.observations)
    if not count > 0 or not known:
        return math.nan
    forward = math.isnan(total) or q < 0.5
    rank = (q if forward else 1 - q) * count
    reached, bucket = 0.0, known[0]
    for bucket in known if forward else reversed(known):
        reached += bucket.observations
        if reached >= rank:
            break
    reached = min(reached, count)
    if reached < rank:
        return math.nan if math.isnan(total) else bucket.upper
    inside = rank - (reached - bucket.observations) if forward else reached - rank
    return _interpolated(bucket, _part(inside, bucket.observations), known)


def _interpolated(bucket: NativeBucket, part: float, native_buckets: Sequence[NativeBucket]) -> float:
    lower, upper, _ = bucket
    if not exponential(native_buckets):
        if lower == -math.inf:
            lower = min(0.0, upper)
        return lower if upper == math.inf else lower + (upper - lower) * part
    if lower <= 0 <= upper:
        others = [native_bucket for native_bucket in native_buckets if native_bucket != bucket]
        lower = 0.0 if others and all(other.lower > 0 for other in others) else lower
        upper = 0.0 if others and all(other.upper < 0 for other in others) else upper
        return lower + (upper - lower) * part
    low, high = math.log2(abs(lower)), math.log2(abs(upper))
    if lower > 0:
        return math.exp2(low + (high - low) * part)
    return -math.exp2(high + (low - high) * (1 - part))


def exponential(buckets: Sequence[NativeBucket]) -> bool:
    """Whether the bounds are those of some schema; else they are bounds of one's own.

    Prometheus' HTTP API does not say it. Bounds of one's own that are all on the grid of a schema are taken for it.
    """
    ranged = [bucket for bucket in buckets if not bucket.lower <= 0 <= bucket.upper]
    bounds = [(abs(bucket.lower), abs(bucket.upper)) for bucket in ranged]
    if any(math.isinf(bound) for bucket in buckets for bound in bucket[:2]):
        return False
    return not bounds or any(
        all(_on_grid(*bound, schema) for bound in bounds) for schema in range(COARSEST, FINEST + 1)
    )


def _on_grid(a: float, b: float, schema: int) -> bool:
    steps = sorted(math.log2(bound) * 2.0**schema for bound in (a, b))
    return abs(steps[1] - round(steps[1])) < 1e-6 and abs(steps[1] - steps[0] - 1) < 1e-6


def _part(some: float, whole: float) -> float:
    """A share of a count; as in Go, NaN of nothing."""
    return some / whole if whole else math.nan


@dataclass(frozen=True)
class ClassicHistogram:
    """Cumulative buckets; ``count`` and ``total``: how many observations, and their sum."""

    buckets: tuple[Bucket, ...]
    count: float
    total: float

    def quantile(self, q: float) -> float:
        """A quantile by ``histogram_quantile``'s estimate; NaN where there is nothing to estimate it from."""
        return bucket_quantile(q, self.buckets)

    def within(self) -> list[Bucket]:
        """How many observations were at most so much."""
        return cumulative(self.buckets)

    def at_least(self, q: float) -> bool:
        """Whether the quantile is known to be no less than what is given, but not how much more."""
        return in_highest(q, self.buckets)


@dataclass(frozen=True)
class NativeHistogram:
    """A histogram whose buckets adapt to what is observed; empty ones are left out."""

    buckets: tuple[NativeBucket, ...]
    count: float
    total: float

    def quantile(self, q: float) -> float:
        """A quantile by ``histogram_quantile``'s estimate; NaN where there is nothing to estimate it from."""
        return native_quantile(q, self.buckets, self.count, self.total)

    def within(self) -> list[Bucket]:
        """How many observations were at most so much."""
        known = sorted(bucket for bucket in self.buckets if bucket.observations)
        reached = accumulate(bucket.observations for bucket in known)
        return cumulative(map(Bucket, (bucket.upper for bucket in known), reached))

    def at_least(self, q: float) -> bool:
        """Whether the quantile lies in a bucket without an end."""
        above = sum(bucket.observations for bucket in self.buckets if bucket.upper == math.inf)
        return above > 0 and (1 - q) * self.count < above


Histogram = ClassicHistogram | NativeHistogram
