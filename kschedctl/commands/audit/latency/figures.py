"""Conversion of kube-scheduler's metrics to the report's figures: quantiles, shares and rates."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kschedctl.commands.audit.latency.report import LatencyCurve, Number, Timing
from kschedctl.sources.metrics.catalogue import ATTEMPTS, METRICS, PERMIT, POINTS, MetricKind
from kschedctl.sources.metrics.histograms import Histogram
from kschedctl.sources.metrics.measured import MetricsReading

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
POINTS_OUTSIDE_ATTEMPTS = (("PreEnqueue",),)
"""The labels of extension points that run before an attempt and are no part of its time."""
_METRICS = {metric.key: metric for metric in METRICS}


def build_timings(measured: MetricsReading, metric: str) -> tuple[Timing, ...]:
    """Return the timings of a metric, largest total time first, with shares if they are parts of attempts."""
    attempts_seconds = sum_seconds(measured, ATTEMPTS) if metric in (POINTS, PERMIT) else None
    names = _METRICS[metric].labels
    timings = [
        _build_timing(
            dict(zip(names, labels, strict=True)),
            histogram,
            None if labels[:1] in POINTS_OUTSIDE_ATTEMPTS else attempts_seconds,
        )
        for labels, histogram in measured.of(metric).items()
        if histogram.count > 0
    ]
    return tuple(
        sorted(timings, key=lambda timing: (-(timing.mean or 0) * timing.count, tuple(timing.labels.values())))
    )


def build_curves(measured: MetricsReading, metric: str) -> tuple[LatencyCurve, ...]:
    """Return the distribution of a metric's durations, the most frequent first, without those in a single bucket."""
    names = _METRICS[metric].labels
    histograms = sorted(measured.of(metric).items(), key=lambda labelled: (-labelled[1].count, labelled[0]))
    all_curves = (
        LatencyCurve(
            labels=dict(zip(names, labels, strict=True)),
            within=tuple(
                (bucket.bound, min(bucket.observations / histogram.count, 1.0))
                for bucket in histogram.get_cumulative_buckets()
            ),
        )
        for labels, histogram in histograms
        if histogram.count > 0
    )
    return tuple(curve for curve in all_curves if len(curve.within) > 1)


def _build_timing(labels: dict[str, str], histogram: Histogram, attempts_seconds: float | None) -> Timing:
    """Build a timing from a histogram. `whole` is the total time of attempts, None if the histogram is no part of
    it.
    """
    values = {name: _finite_or_none(histogram.estimate_quantile(q)) for name, q in QUANTILES.items()}
    return Timing(
        labels=labels,
        count=histogram.count,
        mean=_finite_or_none(histogram.total / histogram.count),
        at_least=tuple(name for name, q in QUANTILES.items() if histogram.is_lower_limit(q)),
        share=_finite_or_none(histogram.total / attempts_seconds) if attempts_seconds else None,
        **values,
    )


def _finite_or_none(value: float) -> float | None:
    """Return a finite value, otherwise None."""
    return value if math.isfinite(value) else None


def build_numbers(measured: MetricsReading, metric: str) -> tuple[Number, ...]:
    """Return the values of a metric ordered by labels, with rates for counters."""
    description = _METRICS[metric]
    seconds = measured.seconds if description.kind is MetricKind.COUNTER else None
    return tuple(
        Number(
            labels=dict(zip(description.labels, labels, strict=True)),
            count=count,
            per_second=count / seconds if seconds else None,
        )
        for labels, count in sorted(measured.numbers.get(metric, {}).items())
    )


def get_only_number(numbers: Iterable[Number]) -> Number | None:
    """Return the value of a metric without labels, or None if there is none."""
    return next(iter(numbers), None)


def sum_seconds(measured: MetricsReading, metric: str) -> float | None:
    """Return the total seconds of all observations of a metric, or None if unknown."""
    totals = [histogram.total for histogram in measured.of(metric).values()]
    return _finite_or_none(math.fsum(totals)) if totals and all(map(math.isfinite, totals)) else None


def count_observations(measured: MetricsReading, metric: str) -> float:
    """Return the number of observations of a metric."""
    return math.fsum(histogram.count for histogram in measured.of(metric).values())
