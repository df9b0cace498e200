"""The figures of what was measured: quantiles, shares and rates, as the report has them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kschedctl.commands.audit.latency.report import LatencyCurve, Number, Timing
from kschedctl.sources.metrics.catalogue import ATTEMPTS, METRICS, PERMIT, POINTS, Kind
from kschedctl.sources.metrics.histograms import Histogram
from kschedctl.sources.metrics.measured import Measured

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
BEFORE = (("PreEnqueue",),)
"""What is no part of an attempt."""
_METRICS = {metric.key: metric for metric in METRICS}


def durations(measured: Measured, metric: str) -> tuple[Timing, ...]:
    """The timings of a metric, the most time first; with shares where they are parts of attempts."""
    whole = total_time(measured, ATTEMPTS) if metric in (POINTS, PERMIT) else None
    names = _METRICS[metric].labels
    timings = [
        _timing(dict(zip(names, labels, strict=True)), histogram, None if labels[:1] in BEFORE else whole)
        for labels, histogram in measured.of(metric).items()
        if histogram.count > 0
    ]
    return tuple(
        sorted(timings, key=lambda timing: (-(timing.mean or 0) * timing.count, tuple(timing.labels.values())))
    )


def curves(measured: Measured, metric: str) -> tuple[LatencyCurve, ...]:
    """How many observations took how long, those of most first; nothing where all lie in one bucket."""
    names = _METRICS[metric].labels
    histograms = sorted(measured.of(metric).items(), key=lambda labelled: (-labelled[1].count, labelled[0]))
    latency_curves = (
        LatencyCurve(
            labels=dict(zip(names, labels, strict=True)),
            within=tuple(
                (bucket.bound, min(bucket.observations / histogram.count, 1.0)) for bucket in histogram.within()
            ),
        )
        for labels, histogram in histograms
        if histogram.count > 0
    )
    return tuple(curve for curve in latency_curves if len(curve.within) > 1)


def _timing(labels: dict[str, str], histogram: Histogram, whole: float | None) -> Timing:
    values = {name: _known(histogram.quantile(q)) for name, q in QUANTILES.items()}
    return Timing(
        labels=labels,
        count=histogram.count,
        mean=_known(histogram.total / histogram.count),
        at_least=tuple(name for name, q in QUANTILES.items() if histogram.at_least(q)),
        share=_known(histogram.total / whole) if whole else None,
        **values,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def numbers(measured: Measured, metric: str) -> tuple[Number, ...]:
    """By labels, in their order; rates of counters."""
    described = _METRICS[metric]
    seconds = measured.seconds if described.kind is Kind.COUNTER else None
    return tuple(
        Number(
            labels=dict(zip(described.labels, labels, strict=True)),
            count=count,
            per_second=count / seconds if seconds else None,
        )
        for labels, count in sorted(measured.numbers.get(metric, {}).items())
    )


def only(numbers: Iterable[Number]) -> Number | None:
    """The one number of a metric without labels."""
    return next(iter(numbers), None)


def total_time(measured: Measured, metric: str) -> float | None:
    """The seconds of all observations together; None where nothing tells them."""
    totals = [histogram.total for histogram in measured.of(metric).values()]
    return _known(math.fsum(totals)) if totals and all(map(math.isfinite, totals)) else None


def total_count(measured: Measured, metric: str) -> float:
    return math.fsum(histogram.count for histogram in measured.of(metric).values())
