"""Conversion of kube-scheduler's metrics to figures: quantiles, shares, rates, and the parts of attempts' time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kschedctl.commands.audit.latency.report import LatencyCurve, Number, Timing
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.sources.metrics.catalogue import ATTEMPTS, METRICS, PERMIT, PLUGINS, POINTS, MetricKind, MetricsReading
from kschedctl.sources.metrics.histograms import Histogram

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
POINTS_OUTSIDE_ATTEMPTS = ("PreEnqueue",)
"""The extension points that run before an attempt, so that they are no part of its time."""
_METRICS = {metric.key: metric for metric in METRICS}


def build_timings(measured: MetricsReading, metric: str) -> tuple[Timing, ...]:
    """Return the timings of a metric, largest total time first. Empty histograms are left out.

    If the metric is about a part of attempts, each timing has its share of the total time.
    """
    names = _METRICS[metric].labels
    is_part_of_attempts = metric in (POINTS, PERMIT)
    attempts_seconds = sum_seconds(measured, ATTEMPTS) if is_part_of_attempts else None
    timings = []
    for labels, histogram in measured.get_histograms(metric).items():
        if histogram.count > 0:
            labels_by_name = dict(zip(names, labels, strict=True))
            is_outside_attempts = labels_by_name.get("extension_point") in POINTS_OUTSIDE_ATTEMPTS
            whole_seconds = None if is_outside_attempts else attempts_seconds
            timings.append(_build_timing(labels_by_name, histogram, whole_seconds))

    def get_sort_key(timing: Timing) -> tuple[float, tuple[str, ...]]:
        """Return a key that sorts by descending total time, then by labels."""
        total_seconds = (timing.mean or 0) * timing.count  # 0 if the mean is unknown
        return -total_seconds, tuple(timing.labels.values())

    return tuple(sorted(timings, key=get_sort_key))


def build_curves(measured: MetricsReading, metric: str) -> tuple[LatencyCurve, ...]:
    """Return the distributions of a metric's durations, most observations first.

    Distributions in a single bucket are left out.
    """
    names = _METRICS[metric].labels
    histograms = measured.get_histograms(metric)
    curves = []
    for labels in sorted(histograms, key=lambda labels: (-histograms[labels].count, labels)):
        histogram = histograms[labels]
        buckets = histogram.get_cumulative_buckets()
        if histogram.count > 0 and len(buckets) > 1:
            within = tuple((bucket.bound, min(bucket.observations / histogram.count, 1.0)) for bucket in buckets)
            curves.append(LatencyCurve(labels=dict(zip(names, labels, strict=True)), within=within))
    return tuple(curves)


def _build_timing(labels: dict[str, str], histogram: Histogram, attempts_seconds: float | None) -> Timing:
    """Build a timing from a histogram that has observations.

    `attempts_seconds` is the total time of all attempts, from which the share is computed. It is None if the total is
    unknown or if the histogram is not about a part of attempts. Then the share is None as well.
    """
    values = {name: _finite_or_none(histogram.estimate_quantile(q)) for name, q in QUANTILES.items()}
    limits = {name: histogram.find_upper_limit(q) for name, q in QUANTILES.items()}
    return Timing(
        labels=labels,
        count=histogram.count,
        mean=_finite_or_none(histogram.total / histogram.count),
        at_least=tuple(name for name, q in QUANTILES.items() if histogram.is_lower_limit(q)),
        at_most={name: limit for name, limit in limits.items() if limit is not None},
        share=_finite_or_none(histogram.total / attempts_seconds) if attempts_seconds else None,
        **values,
    )


def _finite_or_none(value: float) -> float | None:
    """Return a finite value, otherwise None."""
    return value if math.isfinite(value) else None


def list_metric_values(measured: MetricsReading, metric: str) -> tuple[Number, ...]:
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
    """Return the value of a metric without labels, or None if it has no value."""
    return next(iter(numbers), None)


def sum_seconds(measured: MetricsReading, metric: str) -> float | None:
    """Return the total seconds of all observations of a metric, or None if a total is missing or not finite."""
    totals = [histogram.total for histogram in measured.get_histograms(metric).values()]
    if not totals or not all(map(math.isfinite, totals)):
        return None
    return _finite_or_none(math.fsum(totals))


def count_observations(measured: MetricsReading, metric: str) -> float:
    """Return the number of observations of a metric."""
    return math.fsum(histogram.count for histogram in measured.get_histograms(metric).values())


PERMIT_WAIT = "WaitOnPermit"
OUTSIDE = "outside of plugins"
"""The part of an attempt's time that no extension point takes."""
BINDING = (PERMIT_WAIT, "PreBindPreFlight", "PreBind", "Bind", "PostBind")
"""The extension points of binding."""
NESTED_POINTS = ("PreFilterExtensionAddPod", "PreFilterExtensionRemovePod")
"""The extension points that run within others, whose time already includes theirs."""
_FEWER_NODES_ADVICE = (
    "run sampling to see what a lower percentageOfNodesToScore saves, or raise parallelism to use more cores"
)
ADVICE_BY_POINT: Mapping[str, str] = {
    "PreFilter": (
        "data about all pods is computed once per attempt: pods with affinity or spread constraints take longest"
    ),
    "Filter": _FEWER_NODES_ADVICE,
    "PostFilter": "preemption tries evictions on many nodes: set preemptionPolicy: Never for pods that cannot win",
    "PreScore": (
        "preferred pod affinity and soft spread constraints are computed for all feasible nodes: use fewer of them"
    ),
    "Score": _FEWER_NODES_ADVICE,
    "Reserve": "check the plugins that reserve volumes or devices",
    PERMIT_WAIT: "a Permit plugin, such as one for gangs, makes pods wait: find out what it waits for",
    "PreBind": "volumes are provisioned and attached here, and device claims are written: check the CSI and DRA "
    "drivers and the API server",
    "Bind": "check the API server's latency for pods/binding, and its webhooks",
    OUTSIDE: "check extenders (config view), the scheduler's CPU limits and the size of its cache",
}
"""The advice on how to make each extension point faster."""


class TimePart(NamedTuple):
    """A part of the time of all attempts."""

    name: str
    """The extension point, or `OUTSIDE`."""
    share: float
    """The share of the time of all attempts (0 to 1)."""
    plugin: str = ""
    """The plugin that takes most of the time at this point."""
    plugin_share: float = 0.0
    """The share of this plugin in the time of the point."""

    def describe(self) -> str:
        """Return a sentence such as `Filter takes 61% of the time, 80% of it in InterPodAffinity`."""
        if self.name == OUTSIDE:
            return f"{self.share:.0%} of the time is spent {self.name}"
        of_plugin = f", {self.plugin_share:.0%} of it in {self.plugin}" if self.plugin else ""
        return f"{self.name} takes {self.share:.0%} of the time{of_plugin}"

    def get_advice(self) -> str:
        """Return advice on how to shorten this part of the time.

        If one plugin takes at least half of the part and has advice of its own, return the plugin's advice. Otherwise
        return the advice for the extension point.
        """
        if self.plugin_share >= 0.5:
            declared = IN_TREE.get(self.plugin)
            if declared and declared.plugin and declared.plugin.takes_less_time:
                return declared.plugin.takes_less_time
        culprit = f"{self.plugin} does" if self.plugin else "its plugins do"
        return ADVICE_BY_POINT.get(self.name, f"check what {culprit} at {self.name}")


def split_attempt_time(measured: MetricsReading) -> tuple[TimePart, ...]:
    """Split the time of attempts into extension points, waits at Permit and the remaining time, largest part first.

    Return () if the time is unknown.
    """
    attempts_seconds = sum_seconds(measured, ATTEMPTS)
    if not attempts_seconds:
        return ()
    seconds_by_part: dict[str, float] = defaultdict(float)
    for (point, _), histogram in measured.get_histograms(POINTS).items():
        if point not in POINTS_OUTSIDE_ATTEMPTS and point not in NESTED_POINTS and histogram.total > 0:
            seconds_by_part[point] += histogram.total
    permit_seconds = sum_seconds(measured, PERMIT)
    if permit_seconds:
        seconds_by_part[PERMIT_WAIT] = permit_seconds
    remaining_seconds = attempts_seconds - sum(seconds_by_part.values())
    if seconds_by_part and remaining_seconds > 0:
        seconds_by_part[OUTSIDE] = remaining_seconds

    parts = []
    for part, seconds in seconds_by_part.items():
        plugin, plugin_share = _find_slowest_plugin(measured, part)
        parts.append(TimePart(part, seconds / attempts_seconds, plugin, plugin_share))
    return tuple(sorted(parts, key=lambda part: -part.share))


def _find_slowest_plugin(measured: MetricsReading, point: str) -> tuple[str, float]:
    """Return the plugin that takes most of the time at an extension point, and its share of this time.

    Return ("", 0.0) if no plugin was timed.
    """
    seconds = {
        plugin: histogram.total
        for (plugin, plugin_point), histogram in measured.get_histograms(PLUGINS).items()
        if plugin_point == point and histogram.total > 0
    }
    if not seconds:
        return "", 0.0
    slowest = max(seconds, key=lambda plugin: (seconds[plugin], plugin))
    return slowest, seconds[slowest] / sum(seconds.values())
