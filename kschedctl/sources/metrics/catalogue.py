"""The metrics of kube-scheduler that are read, with their names in each version, and their values in a period.

Upstream: pkg/scheduler/metrics/metrics.go of the releases 1.31 to 1.36. The metrics process_start_time_seconds,
kubernetes_build_info, leader_election_master_status and rest_client_* are those of Kubernetes components and client-go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from kschedctl.api.kube_version import KubeVersion
from kschedctl.sources.metrics.histograms import Histogram


class MetricKind(Enum):
    """A kind of metric, with Prometheus' name as its value."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricName(NamedTuple):
    """A name of a metric, with the versions that use it."""

    text: str
    since: str = ""
    """The first version that uses the name, or "" if all earlier versions do."""
    until: str = ""
    """The first version that no longer uses the name, or "" if all later versions do."""

    def applies_to(self, version: KubeVersion) -> bool:
        """Return whether a version uses this name."""
        if self.since and version.minor < KubeVersion.parse(self.since).minor:
            return False
        return not self.until or version.minor < KubeVersion.parse(self.until).minor


class Metric(NamedTuple):
    """A metric of the catalogue."""

    key: str
    """The name by which this package refers to the metric."""
    kind: MetricKind
    names: tuple[MetricName, ...]
    """The names of the metric, the newest first."""
    labels: tuple[str, ...] = ()
    """The labels that distinguish series. Series are added up over all other labels."""
    shared: bool = False
    """True if other components have the metric as well, so that a selector must choose kube-scheduler's."""


def _build_scheduler_metric(key: str, kind: MetricKind, *labels: str, name: str = "", since: str = "") -> Metric:
    """Build a metric of kube-scheduler. Its name is ``scheduler_`` and ``name``, or the key if ``name`` is ""."""
    return Metric(key, kind, (MetricName(f"scheduler_{name or key}", since),), labels)


def _build_client_metric(key: str, name: str) -> Metric:
    """Build a histogram that every client of the API server has."""
    return Metric(key, MetricKind.HISTOGRAM, (MetricName(name),), ("verb",), shared=True)


ATTEMPTS, ALGORITHM, SLI = "scheduling_attempt", "scheduling_algorithm", "pod_scheduling_sli"
POINTS, PLUGINS, PERMIT, HINTS = "extension_point", "plugin", "permit_wait", "queueing_hint"
API_CALLS, REQUESTS, THROTTLING = "async_api_call", "request", "rate_limiter"
RESULTS, FLUSHED, QUEUES, IN_FLIGHT = "schedule_attempts_total", "after_flush", "pending_pods", "inflight_events"
PREEMPTIONS, VICTIMS, PREEMPTION_CALLS = "preemption_attempts_total", "preemption_victims", "preemption_goroutines"
CACHE = "cache_size"
LEADS, START, BUILD, DISABLED = "leader", "start", "build", "disabled"

METRICS: tuple[Metric, ...] = (
    _build_scheduler_metric(
        ATTEMPTS, MetricKind.HISTOGRAM, "result", "profile", name="scheduling_attempt_duration_seconds"
    ),
    _build_scheduler_metric(ALGORITHM, MetricKind.HISTOGRAM, name="scheduling_algorithm_duration_seconds"),
    _build_scheduler_metric(
        POINTS, MetricKind.HISTOGRAM, "extension_point", "profile", name="framework_extension_point_duration_seconds"
    ),
    _build_scheduler_metric(
        PLUGINS, MetricKind.HISTOGRAM, "plugin", "extension_point", name="plugin_execution_duration_seconds"
    ),
    _build_scheduler_metric(PERMIT, MetricKind.HISTOGRAM, "result", name="permit_wait_duration_seconds"),
    _build_scheduler_metric(SLI, MetricKind.HISTOGRAM, "attempts", name="pod_scheduling_sli_duration_seconds"),
    _build_scheduler_metric(
        HINTS, MetricKind.HISTOGRAM, "plugin", "event", "hint", name="queueing_hint_execution_duration_seconds"
    ),
    _build_scheduler_metric(
        API_CALLS,
        MetricKind.HISTOGRAM,
        "call_type",
        "result",
        name="async_api_call_execution_duration_seconds",
        since="1.34",
    ),
    _build_scheduler_metric(VICTIMS, MetricKind.HISTOGRAM),
    _build_client_metric(REQUESTS, "rest_client_request_duration_seconds"),
    _build_client_metric(THROTTLING, "rest_client_rate_limiter_duration_seconds"),
    _build_scheduler_metric(RESULTS, MetricKind.COUNTER, "result", "profile"),
    _build_scheduler_metric(PREEMPTIONS, MetricKind.COUNTER),
    _build_scheduler_metric(
        PREEMPTION_CALLS, MetricKind.COUNTER, "result", name="preemption_goroutines_execution_total", since="1.32"
    ),
    _build_scheduler_metric(FLUSHED, MetricKind.COUNTER, name="pod_scheduled_after_flush_total", since="1.36"),
    _build_scheduler_metric(QUEUES, MetricKind.GAUGE, "queue"),
    _build_scheduler_metric(IN_FLIGHT, MetricKind.GAUGE, "event", since="1.32"),
    Metric(
        CACHE,
        MetricKind.GAUGE,
        (MetricName("scheduler_cache_size", since="1.33"), MetricName("scheduler_scheduler_cache_size", until="1.34")),
        ("type",),
    ),
)
"""All metrics about scheduling. In 1.33, the cache size has both of its names."""

PROCESS_METRICS: tuple[Metric, ...] = (
    Metric(LEADS, MetricKind.GAUGE, (MetricName("leader_election_master_status"),), ("name",), shared=True),
    Metric(START, MetricKind.GAUGE, (MetricName("process_start_time_seconds"),), shared=True),
    Metric(BUILD, MetricKind.GAUGE, (MetricName("kubernetes_build_info"),), ("git_version",), shared=True),
    Metric(DISABLED, MetricKind.GAUGE, (MetricName("disabled_metrics_total"),), shared=True),
)
"""Metrics about the process that exports the metrics."""

SUFFIXES = {MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"), MetricKind.COUNTER: ("",), MetricKind.GAUGE: ("",)}
BUCKET_LABEL = "le"


def get_sample_names() -> frozenset[str]:
    """Return the names of all samples that are read, in all versions: metrics with the suffixes of their kind."""
    sample_names: set[str] = set()
    for metric in METRICS + PROCESS_METRICS:
        for name in metric.names:
            sample_names.update(name.text + suffix for suffix in SUFFIXES[metric.kind])
    return frozenset(sample_names)


Labels = tuple[str, ...]
"""Values of the labels that distinguish the series of a metric, in the catalogue's order."""


class Period(StrEnum):
    """The period that counters cover."""

    START = "since the scheduler started"
    BETWEEN = "between the two readings"
    WINDOW = "in the window"


@dataclass(frozen=True)
class MetricsReading:
    """The metrics of a period, by the catalogue's keys. Gauges have their values at the end of the period."""

    source: str
    """The place from which the metrics were read, for messages."""
    period: Period
    histograms: Mapping[str, Mapping[Labels, Histogram]] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    seconds: float | None = None
    """The length of the period, or None if it is unknown."""
    restarted: bool = False
    """True if the scheduler restarted during the period, so that its counters began at 0 again."""
    unusable: int = 0
    """The number of values that are not valid counts and were left out."""

    def get_histograms(self, metric: str) -> Mapping[Labels, Histogram]:
        """Return the histograms of a metric by labels, or {} if it is missing."""
        return self.histograms.get(metric, {})

    def get_number(self, metric: str, labels: Labels = ()) -> float | None:
        """Return the value of a counter or gauge, or None if it is unknown."""
        return self.numbers.get(metric, {}).get(labels)

    @property
    def version(self) -> str:
        """The version of kube-scheduler, such as 1.36.2, or "" if it is unknown."""
        labels = next(iter(self.numbers.get(BUILD, {})), None)
        if labels is None:
            return ""
        (git_version,) = labels
        return git_version.removeprefix("v")

    def get_total(self, metric: str) -> float | None:
        """Return the sum of a counter or gauge over all labels, or None if it is unknown."""
        values_by_labels = self.numbers.get(metric)
        return sum(values_by_labels.values()) if values_by_labels else None

    @property
    def is_leader(self) -> bool | None:
        """True if this scheduler is the leader, or None if that is unknown. Only the leader schedules pods."""
        status = self.numbers.get(LEADS)
        return any(status.values()) if status else None

    @property
    def is_empty(self) -> bool:
        """True if the reading lacks all metrics that only kube-scheduler has."""
        scheduler_keys = {metric.key for metric in METRICS if not metric.shared}
        return not any(self.histograms.get(key) or self.numbers.get(key) for key in scheduler_keys)

    def explain_missing_metrics(self) -> dict[str, str]:
        """Return the probable reason for each missing metric of kube-scheduler by its newest name.

        Metrics that have counted nothing are often missing.
        """
        present_keys = self.histograms.keys() | self.numbers.keys()
        missing_metrics = [metric for metric in METRICS if not metric.shared and metric.key not in present_keys]
        return {metric.names[0].text: self._explain_missing_metric(metric) for metric in missing_metrics}

    def _explain_missing_metric(self, metric: Metric) -> str:
        """Return a clause on why a metric is probably missing, such as "was added in 1.32" or "has counted nothing"."""
        try:
            version = KubeVersion.parse(self.version)
        except ValueError:
            version = None
        if version is not None and not any(name.applies_to(version) for name in metric.names):
            return f"was added in {metric.names[0].since}"
        return "has counted nothing" if self.get_total(DISABLED) == 0 else "is missing"
