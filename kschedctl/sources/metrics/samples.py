"""From the samples of an exposition to what is measured: since the start, or between two of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kschedctl.errors import InputError
from kschedctl.sources.metrics.catalogue import ABOUT, BUCKET_LABEL, METRICS, SUFFIXES, Kind, Metric
from kschedctl.sources.metrics.histograms import Bucket, ClassicHistogram
from kschedctl.sources.metrics.measured import Labels, Measured, Period

IN_ORDER = "--metrics OLD --metrics NEW"
Series = Mapping[tuple[tuple[str, str], ...], float]
"""Sorted labels with their values -> value."""


@dataclass(frozen=True)
class Exposition:
    """What one /metrics said: samples by name; ``source`` names it, ``read_at`` is the Unix time, where known.

    ``unusable``: how many values were left out as they are no counts: NaN, infinite or negative.
    """

    source: str
    samples: Mapping[str, Series]
    read_at: float | None = None
    unusable: int = 0

    def started(self) -> float | None:
        """When the process started, in Unix time."""
        return next(iter(self.samples.get("process_start_time_seconds", {}).values()), None)


def since_start(exposition: Exposition) -> Measured:
    """What happened since the scheduler started."""
    started, at = exposition.started(), exposition.read_at
    seconds = at - started if at is not None and started is not None and at > started else None
    return _measured(exposition, exposition.samples, Period.START, seconds)


def between(old: Exposition, new: Exposition, seconds: float | None = None) -> Measured:
    """What happened between two readings; ``seconds``: how far apart they are, where that is known otherwise.

    Where the scheduler restarted in between: since then, as PromQL takes a counter that falls. Raises InputError for
    readings in the wrong order.
    """
    started = old.started(), new.started()
    if started[0] is not None and started[1] is not None:
        if started[0] > started[1] + 1:
            raise InputError("of an older process than the first", where=new.source, hint=IN_ORDER)
        restarted = started[1] > started[0] + 1
        if not restarted and _fell(old, new):
            raise InputError("its counters are below the first's", where=new.source, hint=IN_ORDER)
    else:
        restarted = _fell(old, new)
    if old.read_at is not None and new.read_at is not None:
        seconds = new.read_at - old.read_at
    if restarted:
        return _measured(new, new.samples, Period.BETWEEN, None, restarted=True)
    return _measured(new, _difference(old.samples, new.samples), Period.BETWEEN, seconds)


def _counters() -> Iterator[str]:
    for metric in METRICS:
        if metric.kind is not Kind.GAUGE:
            yield from (name.text + suffix for name in metric.names for suffix in SUFFIXES[metric.kind])


def _fell(old: Exposition, new: Exposition) -> bool:
    """Whether something that only grows is smaller, or gone."""
    return any(
        new.samples.get(name, {}).get(labels, 0.0) < value
        for name in _counters()
        for labels, value in old.samples.get(name, {}).items()
    )


def _difference(old: Mapping[str, Series], new: Mapping[str, Series]) -> dict[str, Series]:
    grown = dict(new)
    for name in _counters():
        before = old.get(name, {})
        grown[name] = {labels: value - before.get(labels, 0.0) for labels, value in new.get(name, {}).items()}
    return grown


def _measured(
    exposition: Exposition,
    samples: Mapping[str, Series],
    period: Period,
    seconds: float | None,
    restarted: bool = False,
) -> Measured:
    histograms, numbers, unusable = {}, {}, exposition.unusable
    for metric in METRICS + ABOUT:
        for name in metric.names:
            if metric.kind is Kind.HISTOGRAM:
                by_labels, wrong = _histograms(metric, name.text, samples)
                unusable += wrong
                if by_labels:
                    histograms[metric.key] = by_labels
            elif samples.get(name.text):
                numbers[metric.key] = _summed(metric, samples[name.text])
            if metric.key in histograms or metric.key in numbers:
                break
    return Measured(exposition.source, period, histograms, numbers, seconds, restarted, unusable)


def _key(metric: Metric, labels: Mapping[str, str]) -> Labels:
    return tuple(labels.get(label, "") for label in metric.labels)


def _summed(metric: Metric, series: Series) -> dict[Labels, float]:
    summed: dict[Labels, float] = defaultdict(float)
    for labels, value in series.items():
        summed[_key(metric, dict(labels))] += value
    return dict(summed)


def _histograms(metric: Metric, name: str, samples: Mapping[str, Series]) -> tuple[dict[Labels, ClassicHistogram], int]:
    """Buckets as ``sum by (le, …)`` adds them up; how many have no bound that is a number and were left out."""
    buckets: dict[Labels, list[Bucket]] = defaultdict(list)
    unusable = 0
    for pairs, value in samples.get(f"{name}_bucket", {}).items():
        labels = dict(pairs)
        bound = bound_of(labels.get(BUCKET_LABEL, ""))
        if math.isnan(bound):
            unusable += 1
        else:
            buckets[_key(metric, labels)].append(Bucket(bound, value))
    totals = _summed(metric, samples.get(f"{name}_sum", {}))
    counts = _summed(metric, samples.get(f"{name}_count", {}))
    made = {
        key: ClassicHistogram(tuple(bucket), counts.get(key, _highest(bucket)), totals.get(key, math.nan))
        for key, bucket in buckets.items()
    }
    return made, unusable


def _highest(buckets: list[Bucket]) -> float:
    return sum(bucket.observations for bucket in buckets if bucket.bound == math.inf)


def bound_of(text: str) -> float:
    """The bound of a bucket, NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
