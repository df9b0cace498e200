"""Metrics from Prometheus' HTTP API, by one instant query per metric of the catalogue that adds it up over a window.

A query asks for classic and native histograms at once, and the answer shows which exist. Upstream:
docs/querying/api.md.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from time import monotonic

import msgspec

from kschedctl.api.decoding import convert_builtins, decode_json
from kschedctl.errors import ClusterError, InputError, UsageError
from kschedctl.sources.live.http import shorten
from kschedctl.sources.metrics.catalogue import (
    BUCKET_LABEL,
    METRICS,
    Labels,
    Metric,
    MetricKind,
    MetricsReading,
    Period,
)
from kschedctl.sources.metrics.exposition import parse_bucket_bound
from kschedctl.sources.metrics.histograms import Bucket, ClassicHistogram, Histogram, NativeBucket, NativeHistogram
from kschedctl.sources.metrics.http import MetricsAccess
from kschedctl.text.printable import strip_url

ALL_SECONDS = 120.0
"""The time limit for all queries together."""
PART = "kschedctl_part"
"""The label that a query adds to each part of a histogram, with one of the following values."""
BUCKETS, SUM, COUNT, NATIVE = "bucket", "sum", "count", "native"
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(f"{_MATCHER}(?:,{_MATCHER})*")


class _Native(msgspec.Struct, frozen=True):
    count: str
    sum: str
    buckets: tuple[tuple[int, str, str, str], ...] = ()


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    histogram: tuple[float, _Native] | None = None


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: object = None


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data = _Data()
    error: str = ""


def read_prometheus(access: MetricsAccess, url: str, window: int, matchers: str = "") -> MetricsReading:
    """Read kube-scheduler's metrics of the last ``window`` seconds, added up over all schedulers.

    ``matchers`` are label matchers such as ``job="kube-scheduler"``. Without matchers, metrics that all components have
    are left out. Raises ClusterError if a query fails, or if all queries together take more than ALL_SECONDS. Raises
    UsageError if the URL or the matchers are invalid, and InputError if Prometheus has no metric of kube-scheduler.
    """
    _validate_url_and_matchers(url, matchers)
    histograms: dict[str, dict[Labels, Histogram]] = {}
    numbers: dict[str, dict[Labels, float]] = {}
    unusable = 0
    deadline = monotonic() + ALL_SECONDS
    for metric in METRICS:
        if metric.shared and not matchers:
            continue
        queries = (build_metric_query(metric, name.text, window, matchers) for name in metric.names)
        samples = _run_queries_until_answered(access, url, queries, deadline)
        if metric.kind is MetricKind.HISTOGRAM:
            histograms[metric.key], unusable_count = _build_histograms_by_labels(metric, samples)
        else:
            numbers[metric.key], unusable_count = _read_values_by_labels(metric, samples)
        unusable += unusable_count

    histograms = {key: value for key, value in histograms.items() if value}
    numbers = {key: value for key, value in numbers.items() if value}
    reading = MetricsReading(
        strip_url(url), Period.WINDOW, histograms, numbers, seconds=float(window), unusable=unusable
    )
    if reading.is_empty:
        hint = "check that it scrapes kube-scheduler; see also --prometheus-labels and --window"
        raise InputError("serves no metrics of kube-scheduler", where=strip_url(url), hint=hint)
    return reading


def _run_queries_until_answered(
    access: MetricsAccess, url: str, queries: Iterable[str], deadline: float
) -> list[_Sample]:
    """Run a metric's queries, one for each of its names, and return the samples of the first with samples, or [].

    Raises ClusterError if a query fails, or if the deadline has passed before a query.
    """
    for query in queries:
        if monotonic() > deadline:
            raise ClusterError(f"not all queries were answered within {ALL_SECONDS:g} s", where=strip_url(url))
        samples = _run_query(access, url, query)
        if samples:
            return samples
    return []


def _validate_url_and_matchers(url: str, matchers: str) -> None:
    """Raise UsageError if the URL has a query or fragment, or if the label matchers are malformed."""
    if matchers and not _MATCHERS.fullmatch(matchers):
        raise UsageError(f"not label matchers: {matchers[:100]}", where="--prometheus-labels", hint='such as job="x"')
    if "?" in url or "#" in url:
        problem = f"not a base URL: {strip_url(url)}"
        raise UsageError(problem, where="--prometheus", hint="such as http://prometheus:9090")


def build_metric_query(metric: Metric, name: str, window: int, matchers: str = "") -> str:
    """Build the PromQL query for a metric.

    Counters and histograms are queried as increases in the last ``window`` seconds. Gauges are the leader's values if
    the leader is known, because the queues of other instances only grow.
    """
    labels = ", ".join(metric.labels)
    if metric.kind is MetricKind.GAUGE:
        series = f"{name}{{{matchers}}}"
        leader_series = f"{series} and on (instance) (leader_election_master_status{{{matchers}}} == 1)"
        return f"max by ({labels}) ({leader_series}) or max by ({labels}) ({series})"
    if metric.kind is MetricKind.COUNTER:
        return _build_increase_query(name, labels, window, matchers)
    bucket_labels = ", ".join((BUCKET_LABEL, *metric.labels))
    queries = {
        BUCKETS: _build_increase_query(f"{name}_bucket", bucket_labels, window, matchers),
        SUM: _build_increase_query(f"{name}_sum", labels, window, matchers),
        COUNT: _build_increase_query(f"{name}_count", labels, window, matchers),
        NATIVE: _build_increase_query(name, labels, window, matchers),
    }
    return " or ".join(f'label_replace({query}, "{PART}", "{part}", "", "")' for part, query in queries.items())


def _build_increase_query(series: str, labels: str, window: int, matchers: str) -> str:
    """Build the PromQL query for the increase of a series in the last ``window`` seconds, added up by labels."""
    return f"sum by ({labels}) (increase({series}{{{matchers}}}[{window}s]))"


def _run_query(access: MetricsAccess, url: str, query: str) -> list[_Sample]:
    """Run an instant query and return its samples.

    Raises ClusterError if there is no response, if the query fails, or if the response does not have the form of
    Prometheus' HTTP API. Raises InputError if the token or CA file cannot be used, and UsageError if ``url`` is not an
    HTTP URL.
    """
    where = strip_url(url)
    status, body = access.get(f"{url.rstrip('/')}/api/v1/query", {"query": query})
    try:
        response = decode_json(body, _Response)
        if response.status != "success":
            raise ClusterError(f"rejects a query: {shorten(response.error)}", where=where)
        if response.data.result_type != "vector":
            raise ClusterError("did not answer a query with a vector", where=where)
        return convert_builtins(response.data.result, list[_Sample])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        message = "does not answer as Prometheus' HTTP API"
        if status != 200:
            message = f"answers {status}, and not as Prometheus' HTTP API"
        raise ClusterError(message, where=where, hint="pass its base URL") from None


def _read_values_by_labels(metric: Metric, samples: Iterable[_Sample]) -> tuple[dict[Labels, float], int]:
    """Return the usable values of a counter or gauge by labels, and the number of unusable values."""
    values = {_get_label_values(metric, sample): _parse_count(sample.value[1]) for sample in samples if sample.value}
    usable = {labels: value for labels, value in values.items() if not math.isnan(value)}
    return usable, len(values) - len(usable)


def _build_histograms_by_labels(metric: Metric, samples: list[_Sample]) -> tuple[dict[Labels, Histogram], int]:
    """Build the histograms of a metric by labels, and count the unusable values.

    If there is a native and a classic histogram for the same labels, the native one is returned.
    """
    histograms, unusable = _build_classic_histograms(metric, samples)
    for sample in samples:
        if sample.histogram is not None:
            _time, native_histogram = sample.histogram
            histograms[_get_label_values(metric, sample)] = _build_native_histogram(native_histogram)
    return histograms, unusable


def _build_classic_histograms(metric: Metric, samples: list[_Sample]) -> tuple[dict[Labels, Histogram], int]:
    """Build the classic histograms of a metric by labels, and count the samples with an invalid value or bound.

    Samples of native histograms are skipped.
    """
    buckets: dict[Labels, list[Bucket]] = defaultdict(list)
    totals: dict[tuple[Labels, str], float] = {}
    unusable = 0
    for sample in samples:
        if sample.histogram is not None:
            continue
        labels = _get_label_values(metric, sample)
        part = sample.metric.get(PART, "")
        value = _parse_count(sample.value[1]) if sample.value else math.nan
        bound = parse_bucket_bound(sample.metric.get(BUCKET_LABEL, "")) if part == BUCKETS else 0.0
        if math.isnan(value) or math.isnan(bound):
            unusable += 1
        elif part == BUCKETS:
            buckets[labels].append(Bucket(bound, value))
        else:
            totals[labels, part] = value

    histograms: dict[Labels, Histogram] = {}
    for labels, label_buckets in buckets.items():
        highest_count = sum(bucket.observations for bucket in label_buckets if bucket.bound == math.inf)
        count = totals.get((labels, COUNT), highest_count)
        histograms[labels] = ClassicHistogram(tuple(label_buckets), count, totals.get((labels, SUM), math.nan))
    return histograms, unusable


def _build_native_histogram(histogram: _Native) -> NativeHistogram:
    """Build a native histogram from its document, without buckets that have an invalid bound or count."""
    buckets = [
        NativeBucket(parse_bucket_bound(lower), parse_bucket_bound(upper), _parse_count(count))
        for _boundary_rule, lower, upper, count in histogram.buckets
    ]
    usable_buckets = tuple(bucket for bucket in buckets if not any(map(math.isnan, bucket)))
    count = _parse_count(histogram.count)
    return NativeHistogram(usable_buckets, 0.0 if math.isnan(count) else count, parse_bucket_bound(histogram.sum))


def _get_label_values(metric: Metric, sample: _Sample) -> Labels:
    """Return the values of the labels that distinguish the metric's series, with "" for missing labels."""
    return tuple(sample.metric.get(label, "") for label in metric.labels)


def _parse_count(text: str) -> float:
    """Parse a count, or return NaN for a text that is not a finite number of at least 0."""
    value = parse_bucket_bound(text)
    return value if value >= 0 and math.isfinite(value) else math.nan
