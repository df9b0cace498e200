"""Prometheus' HTTP API: one instant query for each metric of the catalogue, added up over a window.

Classic and native histograms are asked for at once; the answers tell them apart. Upstream: docs/querying/api.md.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import monotonic

import msgspec

from kschedctl.api.decoding import convert_builtins, decode_json
from kschedctl.errors import ClusterError, InputError, UsageError
from kschedctl.sources.live.http import shortened
from kschedctl.sources.metrics.catalogue import BUCKET_LABEL, METRICS, Kind, Metric
from kschedctl.sources.metrics.histograms import Bucket, ClassicHistogram, Histogram, NativeBucket, NativeHistogram
from kschedctl.sources.metrics.http import MetricsAccess
from kschedctl.sources.metrics.measured import Labels, Measured, Period
from kschedctl.sources.metrics.samples import bound_of
from kschedctl.text.urls import strip_url

ALL_SECONDS = 120.0
PART, BUCKETS, SUM, COUNT, NATIVE = "kschedctl_part", "bucket", "sum", "count", "native"
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


def read_prometheus(access: MetricsAccess, url: str, window: int, matchers: str = "") -> Measured:
    """What it says of kube-scheduler in the last ``window`` seconds; of several schedulers added up.

    ``matchers``: ``job="kube-scheduler"``, without which metrics that all components have are not asked for. Raises
    ClusterError, UsageError, InputError where it knows nothing of kube-scheduler.
    """
    if matchers and not _MATCHERS.fullmatch(matchers):
        raise UsageError(f"no matchers of labels: {matchers[:100]}", where="--prometheus-labels", hint='job="x",…')
    if "?" in url or "#" in url:
        raise UsageError(
            f"not a base URL: {strip_url(url)}", where="--prometheus", hint="such as http://prometheus:9090"
        )
    histograms: dict[str, dict[Labels, Histogram]] = {}
    numbers: dict[str, dict[Labels, float]] = {}
    unusable, end = 0, monotonic() + ALL_SECONDS
    for metric in METRICS:
        if metric.shared and not matchers:
            continue
        for name in metric.names:
            if monotonic() > end:
                raise ClusterError(f"not all was answered within {ALL_SECONDS:g} s", where=strip_url(url))
            samples = _asked(access, url, query_of(metric, name.text, window, matchers))
            if metric.kind is Kind.HISTOGRAM:
                histograms[metric.key], wrong = _histograms(metric, samples)
            else:
                numbers[metric.key], wrong = _numbers(metric, samples)
            unusable += wrong
            if samples:
                break
    histograms = {key: made for key, made in histograms.items() if made}
    numbers = {key: made for key, made in numbers.items() if made}
    measured = Measured(strip_url(url), Period.WINDOW, histograms, numbers, float(window), unusable=unusable)
    if measured.empty:
        hint = "does it scrape kube-scheduler? --prometheus-labels name which, --window how far back"
        raise InputError("it has no metric of kube-scheduler", where=strip_url(url), hint=hint)
    return measured


def query_of(metric: Metric, name: str, window: int, matchers: str = "") -> str:
    """The PromQL. Gauges are those of the leader where it is known who that is, since others' queues only grow."""
    by = ", ".join(metric.labels)
    if metric.kind is Kind.GAUGE:
        selected = f"{name}{{{matchers}}}"
        led = f"{selected} and on (instance) (leader_election_master_status{{{matchers}}} == 1)"
        return f"max by ({by}) ({led}) or max by ({by}) ({selected})"
    if metric.kind is Kind.COUNTER:
        return f"sum by ({by}) (increase({name}{{{matchers}}}[{window}s]))"
    parts = {BUCKETS: f"{name}_bucket", SUM: f"{name}_sum", COUNT: f"{name}_count", NATIVE: name}
    labels = {BUCKETS: ", ".join((BUCKET_LABEL, *metric.labels))}
    return " or ".join(
        f"label_replace(sum by ({labels.get(part, by)}) (increase({series}{{{matchers}}}[{window}s])), "
        f'"{PART}", "{part}", "", "")'
        for part, series in parts.items()
    )


def _asked(access: MetricsAccess, url: str, query: str) -> list[_Sample]:
    """Raises ClusterError."""
    where = strip_url(url)
    status, body = access.get(f"{url.rstrip('/')}/api/v1/query", {"query": query})
    try:
        response = decode_json(body, _Response)
        if response.status != "success":
            raise ClusterError(f"refuses a query: {shortened(response.error)}", where=where)
        if response.data.result_type != "vector":
            raise ClusterError("answers a query with no vector", where=where)
        return convert_builtins(response.data.result, list[_Sample])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        what = f"answers {status}, and not" if status != 200 else "does not answer"
        raise ClusterError(f"{what} as Prometheus' HTTP API", where=where, hint="name its base URL") from None


def _numbers(metric: Metric, samples: Iterable[_Sample]) -> tuple[dict[Labels, float], int]:
    made = {_key(metric, sample): _number(sample.value[1]) for sample in samples if sample.value}
    kept = {labels: value for labels, value in made.items() if not math.isnan(value)}
    return kept, len(made) - len(kept)


def _histograms(metric: Metric, samples: list[_Sample]) -> tuple[dict[Labels, Histogram], int]:
    """Native ones where there are such; how many values were no counts."""
    made: dict[Labels, Histogram] = {}
    buckets: dict[Labels, list[Bucket]] = defaultdict(list)
    totals: dict[tuple[Labels, str], float] = {}
    unusable = 0
    for sample in samples:
        labels, part = _key(metric, sample), sample.metric.get(PART, "")
        if sample.histogram is not None:
            continue
        value = _number(sample.value[1]) if sample.value else math.nan
        bound = bound_of(sample.metric.get(BUCKET_LABEL, "")) if part == BUCKETS else 0.0
        if math.isnan(value) or math.isnan(bound):
            unusable += 1
        elif part == BUCKETS:
            buckets[labels].append(Bucket(bound, value))
        else:
            totals[labels, part] = value
    for labels, known in buckets.items():
        highest = sum(bucket.observations for bucket in known if bucket.bound == math.inf)
        count = totals.get((labels, COUNT), highest)
        made[labels] = ClassicHistogram(tuple(known), count, totals.get((labels, SUM), math.nan))
    natives = ((_key(metric, sample), sample.histogram[1]) for sample in samples if sample.histogram is not None)
    return made | {labels: _native(histogram) for labels, histogram in natives}, unusable


def _native(histogram: _Native) -> NativeHistogram:
    read: Callable[[str], float] = bound_of
    bounded = [NativeBucket(read(low), read(high), _number(count)) for _, low, high, count in histogram.buckets]
    kept = tuple(bucket for bucket in bounded if not any(map(math.isnan, bucket)))
    count = _number(histogram.count)
    return NativeHistogram(kept, 0.0 if math.isnan(count) else count, read(histogram.sum))


def _key(metric: Metric, sample: _Sample) -> Labels:
    return tuple(sample.metric.get(label, "") for label in metric.labels)


def _number(text: str) -> float:
    """NaN for what is no count."""
    value = bound_of(text)
    return value if value >= 0 and math.isfinite(value) else math.nan
