"""Parser for the text of /metrics, and computation of metrics from one such text or the difference between two.

The text has no native histograms. Components write those only in the protobuf format, along with the classic ones.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kschedctl.errors import InputError
from kschedctl.sources.live.http import shorten
from kschedctl.sources.metrics.catalogue import (
    BUCKET_LABEL,
    METRICS,
    PROCESS_METRICS,
    SUFFIXES,
    Labels,
    Metric,
    MetricKind,
    MetricsReading,
    Period,
    get_sample_names,
)
from kschedctl.sources.metrics.histograms import Bucket, ClassicHistogram

IN_ORDER = "--metrics OLD --metrics NEW"
Series = Mapping[tuple[tuple[str, str], ...], float]
"""The values of a metric, by sorted pairs of label and value."""


@dataclass(frozen=True)
class Exposition:
    """The samples of one reading of /metrics."""

    source: str
    """The place of the exposition, for messages."""
    samples: Mapping[str, Series]
    """The samples by name."""
    read_at: float | None = None
    """The Unix time of the reading, or None if it is unknown."""
    unusable: int = 0
    """The number of values that are not counts (NaN, infinite or negative) and were left out."""

    def get_start_time(self) -> float | None:
        """Return the Unix time at which the process started, or None if it is unknown."""
        return next(iter(self.samples.get("process_start_time_seconds", {}).values()), None)


def compute_since_start(exposition: Exposition) -> MetricsReading:
    """Compute the metrics since the scheduler started."""
    started = exposition.get_start_time()
    read_at = exposition.read_at
    seconds = read_at - started if read_at is not None and started is not None and read_at > started else None
    return _build_reading(exposition, exposition.samples, Period.START, seconds)


def compute_difference(old: Exposition, new: Exposition, seconds: float | None = None) -> MetricsReading:
    """Compute the metrics between two readings, which are ``seconds`` apart if their times are unknown.

    If the scheduler restarted in between, its metrics since then are returned, as PromQL treats decreasing counters.
    Raises InputError if the readings are in the wrong order.
    """
    started = old.get_start_time(), new.get_start_time()
    if started[0] is not None and started[1] is not None:
        if started[0] > started[1] + 1:
            raise InputError("of an older process than the first", where=new.source, hint=IN_ORDER)
        restarted = started[1] > started[0] + 1
        if not restarted and _has_decreased(old, new):
            raise InputError("its counters are below the first's", where=new.source, hint=IN_ORDER)
    else:
        restarted = _has_decreased(old, new)
    if old.read_at is not None and new.read_at is not None:
        seconds = new.read_at - old.read_at
    if restarted:
        return _build_reading(new, new.samples, Period.BETWEEN, None, restarted=True)
    return _build_reading(new, _subtract_counters(old.samples, new.samples), Period.BETWEEN, seconds)


def _iter_counter_names() -> Iterator[str]:
    """Yield the names of all samples that never decrease."""
    for metric in METRICS:
        if metric.kind is not MetricKind.GAUGE:
            yield from (name.text + suffix for name in metric.names for suffix in SUFFIXES[metric.kind])


def _has_decreased(old: Exposition, new: Exposition) -> bool:
    """Return whether a sample that can only grow is smaller or missing in the newer reading."""
    return any(
        new.samples.get(name, {}).get(labels, 0.0) < value
        for name in _iter_counter_names()
        for labels, value in old.samples.get(name, {}).items()
    )


def _subtract_counters(old: Mapping[str, Series], new: Mapping[str, Series]) -> dict[str, Series]:
    """Return the newer samples with the older values of counters subtracted."""
    differences = dict(new)
    for name in _iter_counter_names():
        old_series = old.get(name, {})
        differences[name] = {labels: value - old_series.get(labels, 0.0) for labels, value in new.get(name, {}).items()}
    return differences


def _build_reading(
    exposition: Exposition,
    samples: Mapping[str, Series],
    period: Period,
    seconds: float | None,
    restarted: bool = False,
) -> MetricsReading:
    """Build the metrics of a period from samples by name."""
    histograms = {}
    numbers = {}
    unusable = exposition.unusable
    for metric in METRICS + PROCESS_METRICS:
        for name in metric.names:
            if metric.kind is MetricKind.HISTOGRAM:
                by_labels, unusable_count = _build_histograms(metric, name.text, samples)
                unusable += unusable_count
                if by_labels:
                    histograms[metric.key] = by_labels
            elif samples.get(name.text):
                numbers[metric.key] = _sum_by_labels(metric, samples[name.text])
            if metric.key in histograms or metric.key in numbers:
                break
    return MetricsReading(
        exposition.source, period, histograms, numbers=numbers, seconds=seconds, restarted=restarted, unusable=unusable
    )


def _get_label_values(metric: Metric, labels: Mapping[str, str]) -> Labels:
    """Return the values of the labels that distinguish the metric's series."""
    return tuple(labels.get(label, "") for label in metric.labels)


def _sum_by_labels(metric: Metric, series: Series) -> dict[Labels, float]:
    """Add up the series of a metric that agree in the catalogue's labels."""
    sums: dict[Labels, float] = defaultdict(float)
    for labels, value in series.items():
        sums[_get_label_values(metric, dict(labels))] += value
    return dict(sums)


def _build_histograms(
    metric: Metric, name: str, samples: Mapping[str, Series]
) -> tuple[dict[Labels, ClassicHistogram], int]:
    """Build the histograms of a metric, and count the buckets that were left out because they have no valid bound.

    Buckets are added up as PromQL's ``sum by (le, …)`` does.
    """
    buckets: dict[Labels, list[Bucket]] = defaultdict(list)
    unusable = 0
    for pairs, value in samples.get(f"{name}_bucket", {}).items():
        labels = dict(pairs)
        bound = parse_bound(labels.get(BUCKET_LABEL, ""))
        if math.isnan(bound):
            unusable += 1
        else:
            buckets[_get_label_values(metric, labels)].append(Bucket(bound, value))
    totals = _sum_by_labels(metric, samples.get(f"{name}_sum", {}))
    counts = _sum_by_labels(metric, samples.get(f"{name}_count", {}))
    histograms = {
        key: ClassicHistogram(tuple(bucket), counts.get(key, _count_observations(bucket)), totals.get(key, math.nan))
        for key, bucket in buckets.items()
    }
    return histograms, unusable


def _count_observations(buckets: list[Bucket]) -> float:
    """Return the number of observations in the bucket for +Inf."""
    return sum(bucket.observations for bucket in buckets if bucket.bound == math.inf)


def parse_bound(text: str) -> float:
    """Parse the bound of a bucket, or return NaN for a text that is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


MAX_BYTES = 64 << 20
MAX_SAMPLES = 200_000
MAX_LINE_LENGTH = 4_096
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def parse_exposition(body: bytes, source: str, read_at: float | None = None) -> Exposition:
    """Parse the text of /metrics. Raises InputError with the number of an invalid line."""
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for count, (number, line) in enumerate(_iter_catalogue_lines(body, source)):
        name, labels, value = _parse_sample(line, f"{source}, line {number}")
        if count >= MAX_SAMPLES:
            raise InputError(f"more than {MAX_SAMPLES:,} samples of kube-scheduler", where=source)
        series = samples.setdefault(name, {})
        if labels in series:
            hint = "one scheduler's text at a time"
            raise InputError(f"{name} a second time with the same labels", where=f"{source}, line {number}", hint=hint)
        series[labels] = value if value >= 0 and math.isfinite(value) else math.nan
    usable_samples = {
        name: {key: v for key, v in series.items() if not math.isnan(v)} for name, series in samples.items()
    }
    unusable = sum(len(samples[name]) - len(series) for name, series in usable_samples.items())
    return Exposition(source, usable_samples, read_at, unusable)


def _iter_catalogue_lines(body: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line with a sample of the catalogue. Raises InputError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8: no text of metrics", where=source) from None
    names = get_sample_names()
    for number, line in enumerate(text.split("\n"), 1):
        name = _NAME.match(line)
        if name is None or name[0] not in names:
            continue
        if len(line) > MAX_LINE_LENGTH:
            raise InputError(f"longer than {MAX_LINE_LENGTH:,} characters", where=f"{source}, line {number}")
        yield number, line


def _parse_sample(line: str, where: str) -> tuple[str, tuple[tuple[str, str], ...], float]:
    """Parse a line into the sample's name, sorted labels and value. Raises InputError."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - for metrics alone

    try:
        sample = next(iter(text_string_to_metric_families(line))).samples[0]
        return sample.name, tuple(sorted(sample.labels.items())), float(sample.value)
    except (ValueError, IndexError, KeyError, OverflowError, StopIteration):
        raise InputError(f"not a sample: {shorten(line[:200])}", where=where) from None
