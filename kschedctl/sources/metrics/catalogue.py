"""The metrics of kube-scheduler that are read, and how the versions call them.

Upstream: pkg/scheduler/metrics/metrics.go of the releases 1.31 to 1.36, and of the Kubernetes components and client-go
process_start_time_seconds, kubernetes_build_info, leader_election_master_status and rest_client_*.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kschedctl.api.kube_version import KubeVersion


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricName(NamedTuple):
    """What a metric is called from one version until before another; empty: always."""

    text: str
    since: str = ""
    until: str = ""

    def holds(self, version: KubeVersion) -> bool:
        after = not self.since or version.minor >= KubeVersion.parse(self.since).minor
        return after and not (self.until and version.minor >= KubeVersion.parse(self.until).minor)


class Metric(NamedTuple):
    """``names``: the newest first. ``labels``: by which its series are told apart; they are added up over others.

    ``shared``: all components have it, so that only a selector tells whose it is.
    """

    key: str
    kind: Kind
    names: tuple[MetricName, ...]
    labels: tuple[str, ...] = ()
    shared: bool = False


def _scheduler(key: str, kind: Kind, *labels: str, name: str = "", since: str = "") -> Metric:
    return Metric(key, kind, (MetricName(f"scheduler_{name or key}", since),), labels)


def _of_clients(key: str, name: str) -> Metric:
    return Metric(key, Kind.HISTOGRAM, (MetricName(name),), ("verb",), shared=True)


ATTEMPTS, ALGORITHM, SLI = "scheduling_attempt", "scheduling_algorithm", "pod_scheduling_sli"
POINTS, PLUGINS, PERMIT, HINTS = "extension_point", "plugin", "permit_wait", "queueing_hint"
API_CALLS, REQUESTS, THROTTLING = "async_api_call", "request", "rate_limiter"
RESULTS, FLUSHED, QUEUES, IN_FLIGHT = "schedule_attempts_total", "after_flush", "pending_pods", "inflight_events"
PREEMPTIONS, VICTIMS, PREEMPTION_CALLS = "preemption_attempts_total", "preemption_victims", "preemption_goroutines"
CACHE = "cache_size"
LEADS, START, BUILD, DISABLED = "leader", "start", "build", "disabled"

METRICS: tuple[Metric, ...] = (
    _scheduler(ATTEMPTS, Kind.HISTOGRAM, "result", "profile", name="scheduling_attempt_duration_seconds"),
    _scheduler(ALGORITHM, Kind.HISTOGRAM, name="scheduling_algorithm_duration_seconds"),
    _scheduler(POINTS, Kind.HISTOGRAM, "extension_point", "profile", name="framework_extension_point_duration_seconds"),
    _scheduler(PLUGINS, Kind.HISTOGRAM, "plugin", "extension_point", name="plugin_execution_duration_seconds"),
    _scheduler(PERMIT, Kind.HISTOGRAM, "result", name="permit_wait_duration_seconds"),
    _scheduler(SLI, Kind.HISTOGRAM, "attempts", name="pod_scheduling_sli_duration_seconds"),
    _scheduler(HINTS, Kind.HISTOGRAM, "plugin", "event", "hint", name="queueing_hint_execution_duration_seconds"),
    _scheduler(
        API_CALLS,
        Kind.HISTOGRAM,
        "call_type",
        "result",
        name="async_api_call_execution_duration_seconds",
        since="1.34",
    ),
    _scheduler(VICTIMS, Kind.HISTOGRAM),
    _of_clients(REQUESTS, "rest_client_request_duration_seconds"),
    _of_clients(THROTTLING, "rest_client_rate_limiter_duration_seconds"),
    _scheduler(RESULTS, Kind.COUNTER, "result", "profile"),
    _scheduler(PREEMPTIONS, Kind.COUNTER),
    _scheduler(PREEMPTION_CALLS, Kind.COUNTER, "result", name="preemption_goroutines_execution_total", since="1.32"),
    _scheduler(FLUSHED, Kind.COUNTER, name="pod_scheduled_after_flush_total", since="1.36"),
    _scheduler(QUEUES, Kind.GAUGE, "queue"),
    _scheduler(IN_FLIGHT, Kind.GAUGE, "event", since="1.32"),
    Metric(
        CACHE,
        Kind.GAUGE,
        (MetricName("scheduler_cache_size", since="1.33"), MetricName("scheduler_scheduler_cache_size", until="1.34")),
        ("type",),
    ),
)
"""In 1.33 the size of the cache has both names."""

ABOUT: tuple[Metric, ...] = (
    Metric(LEADS, Kind.GAUGE, (MetricName("leader_election_master_status"),), ("name",), shared=True),
    Metric(START, Kind.GAUGE, (MetricName("process_start_time_seconds"),), shared=True),
    Metric(BUILD, Kind.GAUGE, (MetricName("kubernetes_build_info"),), ("git_version",), shared=True),
    Metric(DISABLED, Kind.GAUGE, (MetricName("disabled_metrics_total"),), shared=True),
)
"""What a text says of the process that wrote it."""

SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.COUNTER: ("",), Kind.GAUGE: ("",)}
BUCKET_LABEL = "le"


def sample_names() -> frozenset[str]:
    """All names of samples that are read."""
    return frozenset(
        name.text + suffix for metric in METRICS + ABOUT for name in metric.names for suffix in SUFFIXES[metric.kind]
    )
