"""Reading of /metrics in Prometheus' text format, and computation of metrics from one reading or between two.

The text format has no native histograms, which components only write in the protobuf format.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kschedctl.errors import ClusterError, InputError, UsageError
from kschedctl.sources.documents.files import format_file_path, open_file
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
from kschedctl.text.printable import strip_url

if TYPE_CHECKING:
    from kschedctl.sources.metrics.http import MetricsAccess

IN_ORDER = "--metrics OLD --metrics NEW"
"""A hint at the order of two readings."""
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


def compute_metrics_since_start(exposition: Exposition) -> MetricsReading:
    """Compute the metrics since the scheduler's start from one reading.

    The length of the period is None if the time of the start or of the reading is unknown.
    """
    started_at = exposition.get_start_time()
    read_at = exposition.read_at
    seconds = None
    if read_at is not None and started_at is not None and read_at > started_at:
        seconds = read_at - started_at
    return _build_metrics_reading(exposition, exposition.samples, Period.START, seconds)


def compute_metrics_between(old: Exposition, new: Exposition, seconds: float | None = None) -> MetricsReading:
    """Compute the metrics between two readings.

    ``seconds`` is the time between the readings, which counts only if the time of a reading is unknown. If the
    scheduler restarted in between, return its metrics since the restart, as PromQL treats decreasing counters. Raises
    InputError if the readings are in the wrong order.
    """
    if _detect_scheduler_restart(old, new):
        return _build_metrics_reading(new, new.samples, Period.BETWEEN, seconds=None, restarted=True)
    if old.read_at is not None and new.read_at is not None:
        seconds = new.read_at - old.read_at
    differences = _subtract_counters(old.samples, new.samples)
    return _build_metrics_reading(new, differences, Period.BETWEEN, seconds)


def _detect_scheduler_restart(old: Exposition, new: Exposition) -> bool:
    """Return whether the scheduler restarted between two readings, judging by its start time or its counters.

    Raises InputError if the readings are in the wrong order.
    """
    old_start = old.get_start_time()
    new_start = new.get_start_time()
    if old_start is None or new_start is None:
        return _has_any_counter_decreased(old, new)
    if old_start > new_start + 1:  # start times may differ by a second
        raise InputError("from an older scheduler process than the first reading", where=new.source, hint=IN_ORDER)
    if new_start > old_start + 1:
        return True
    if _has_any_counter_decreased(old, new):
        raise InputError("its counters are lower than in the first reading", where=new.source, hint=IN_ORDER)
    return False


def _iter_counter_names() -> Iterator[str]:
    """Yield the names of all samples of counters and histograms, which never decrease."""
    for metric in METRICS:
        if metric.kind is not MetricKind.GAUGE:
            yield from (name.text + suffix for name in metric.names for suffix in SUFFIXES[metric.kind])


def _has_any_counter_decreased(old: Exposition, new: Exposition) -> bool:
    """Return whether a sample that can only grow is smaller or missing in the newer reading."""
    return any(
        new.samples.get(name, {}).get(labels, 0.0) < value
        for name in _iter_counter_names()
        for labels, value in old.samples.get(name, {}).items()
    )


def _subtract_counters(old: Mapping[str, Series], new: Mapping[str, Series]) -> dict[str, Series]:
    """Return the newer samples with the older values of counters and histograms subtracted. Gauges are kept."""
    differences = dict(new)
    for name in _iter_counter_names():
        old_series = old.get(name, {})
        differences[name] = {labels: value - old_series.get(labels, 0.0) for labels, value in new.get(name, {}).items()}
    return differences


def _build_metrics_reading(
    exposition: Exposition,
    samples: Mapping[str, Series],
    period: Period,
    seconds: float | None,
    restarted: bool = False,
) -> MetricsReading:
    """Build the metrics of a period from samples by name.

    A metric with several names is read under the first name that has samples. ``restarted`` says whether the scheduler
    restarted during the period.
    """
    histograms = {}
    numbers = {}
    unusable = exposition.unusable
    for metric in METRICS + PROCESS_METRICS:
        for name in metric.names:
            if metric.kind is MetricKind.HISTOGRAM:
                histograms_by_labels, unusable_count = _build_histograms(metric, name.text, samples)
                unusable += unusable_count
                if histograms_by_labels:
                    histograms[metric.key] = histograms_by_labels
                    break
            elif samples.get(name.text):
                numbers[metric.key] = _sum_by_labels(metric, samples[name.text])
                break
    return MetricsReading(
        exposition.source, period, histograms, numbers=numbers, seconds=seconds, restarted=restarted, unusable=unusable
    )


def _get_label_values(metric: Metric, labels: Mapping[str, str]) -> Labels:
    """Return the values of the labels that distinguish the metric's series, with "" for missing labels."""
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
    """Build the histograms of a metric by labels, and count the buckets left out because of an invalid bound.

    Buckets are added up over the other labels as in PromQL's ``sum by (le, …)``. A missing number of observations is
    taken from the bucket for +Inf, and a missing sum is NaN.
    """
    buckets: dict[Labels, list[Bucket]] = defaultdict(list)
    unusable = 0
    for pairs, value in samples.get(f"{name}_bucket", {}).items():
        labels = dict(pairs)
        bound = parse_bucket_bound(labels.get(BUCKET_LABEL, ""))
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


def parse_bucket_bound(text: str) -> float:
    """Parse the bound of a bucket, or return NaN for a text that is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


MAX_BYTES = 64 << 20
"""The maximum size of a text."""
MAX_SAMPLES = 200_000
MAX_LINE_LENGTH = 4_096
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def parse_exposition(body: bytes, source: str, read_at: float | None = None) -> Exposition:
    """Parse the catalogue's samples in the text of /metrics. Negative and non-finite values are left out and counted.

    Raises InputError if a line is invalid or repeats a sample, if there are more than MAX_SAMPLES samples, or if the
    text is not UTF-8.
    """
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for count, (number, line) in enumerate(_iter_catalogue_lines(body, source)):
        name, labels, value = _parse_sample(line, f"{source}, line {number}")
        if count >= MAX_SAMPLES:
            raise InputError(f"more than {MAX_SAMPLES:,} samples of kube-scheduler", where=source)
        series = samples.setdefault(name, {})
        if labels in series:
            problem = f"{name} occurs twice with the same labels"
            hint = "pass the metrics of one scheduler at a time"
            raise InputError(problem, where=f"{source}, line {number}", hint=hint)
        series[labels] = value if value >= 0 and math.isfinite(value) else math.nan

    # Leave out the values that are not counts, which were replaced by NaN
    usable_samples = {
        name: {labels: value for labels, value in series.items() if not math.isnan(value)}
        for name, series in samples.items()
    }
    unusable = sum(len(samples[name]) - len(series) for name, series in usable_samples.items())
    return Exposition(source, usable_samples, read_at, unusable)


def _iter_catalogue_lines(body: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with a sample of the catalogue.

    Raises InputError if the body is not UTF-8 or a line is too long.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8, so not metrics", where=source) from None
    names = get_sample_names()
    for number, line in enumerate(text.split("\n"), 1):
        name = _NAME.match(line)
        if name is None or name[0] not in names:
            continue
        if len(line) > MAX_LINE_LENGTH:
            raise InputError(f"longer than {MAX_LINE_LENGTH:,} characters", where=f"{source}, line {number}")
        yield number, line


def _parse_sample(line: str, where: str) -> tuple[str, tuple[tuple[str, str], ...], float]:
    """Parse a line into the sample's name, its labels sorted by name, and its value.

    Raises InputError if the line is malformed.
    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - for metrics alone

    try:
        sample = next(iter(text_string_to_metric_families(line))).samples[0]
        return sample.name, tuple(sorted(sample.labels.items())), float(sample.value)
    except (ValueError, IndexError, KeyError, OverflowError, StopIteration):
        raise InputError(f"not a sample: {shorten(line[:200])}", where=where) from None


NO_SCHEDULER_METRIC = "contains no metrics of kube-scheduler"


def read_metrics(places: Sequence[str], access: MetricsAccess, window: int | None = None) -> MetricsReading:
    """Read metrics from one place, or from an older and a newer reading in two places.

    ``window`` is the number of seconds between two readings, or to wait for a second reading from a URL. Raises
    InputError if the text is malformed, ClusterError if the URL cannot be read, and UsageError if an option does not
    fit the places.
    """
    if len(places) > 2:
        raise UsageError("more than two readings", where="--metrics", hint="pass one, or an older and a newer one")
    first = _read_exposition(places[0], access)
    if len(places) == 2:
        second = _read_exposition(places[1], access)
        seconds = None if window is None else float(window)
        return require_scheduler_metrics(compute_metrics_between(first, second, seconds))
    if window is None:
        return compute_reading_since_start(first)
    if not _is_url(places[0]):
        raise UsageError("--window needs two readings, a URL or Prometheus", hint="--metrics OLD --metrics NEW")
    time.sleep(window)
    return require_scheduler_metrics(compute_metrics_between(first, _read_exposition(places[0], access)))


def _read_exposition(place: str, access: MetricsAccess) -> Exposition:
    """Read the text of /metrics from a file or URL, and parse it.

    Raises InputError if the text is malformed or larger than MAX_BYTES. Raises ClusterError if the URL cannot be read,
    and UsageError if an option does not fit the URL.
    """
    if not _is_url(place):
        with open_file(place) as file:
            body = file.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise InputError(f"more than {MAX_BYTES >> 20} MiB", where=format_file_path(place))
        return parse_exposition(body, format_file_path(place))
    status, body = access.get(place)
    if status != 200:
        raise ClusterError(f"answers {status}", where=strip_url(place), hint="kube-scheduler's is at /metrics")
    return parse_exposition(body, strip_url(place), time.time())


def _is_url(place: str) -> bool:
    """Return whether the place is an HTTP URL."""
    return place.startswith(("http://", "https://"))


def compute_reading_since_start(exposition: Exposition) -> MetricsReading:
    """Compute the metrics since the scheduler's start from one reading.

    Raises InputError if the reading has no metric of kube-scheduler.
    """
    return require_scheduler_metrics(compute_metrics_since_start(exposition))


def require_scheduler_metrics(reading: MetricsReading) -> MetricsReading:
    """Return the reading unchanged. Raises InputError if the reading has no metrics of kube-scheduler."""
    if reading.is_empty:
        hint = "pass what kube-scheduler serves at /metrics"
        raise InputError(NO_SCHEDULER_METRIC, where=reading.source, hint=hint)
    return reading
