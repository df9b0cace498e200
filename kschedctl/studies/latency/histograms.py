"""Histograms as Prometheus has them: classic ones, with buckets that end at fixed bounds, and native ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from kschedctl.studies.latency.quantiles import (
    Bucket,
    NativeBucket,
    bucket_quantile,
    cumulative,
    in_highest,
    native_quantile,
)


@dataclass(frozen=True)
class ClassicHistogram:
    """Cumulative buckets; ``count`` and ``total``: how many observations, and their sum."""

    buckets: tuple[Bucket, ...]
    count: float
    total: float

    def quantile(self, q: float) -> float:
        """As ``histogram_quantile`` estimates it; NaN where there is nothing to estimate it from."""
        return bucket_quantile(q, self.buckets)

    def within(self) -> list[Bucket]:
        """How many observations were at most so much."""
        return cumulative(self.buckets)

    def at_least(self, q: float) -> bool:
        """Whether the quantile is known to be no less than what is given, but not how much more."""
        return in_highest(q, self.buckets)


@dataclass(frozen=True)
class NativeHistogram:
    """The same with buckets that adapt to what is observed; empty ones are left out."""

    buckets: tuple[NativeBucket, ...]
    count: float
    total: float

    def quantile(self, q: float) -> float:
        """As ``histogram_quantile`` estimates it; NaN where there is nothing to estimate it from."""
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
