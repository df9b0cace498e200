"""Metrics in the OpenMetrics text format, printed or served over HTTP.

Format: https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from kschedctl.commands.watch.report import FAMILIES, ClusterMetrics
from kschedctl.errors import UsageError
from kschedctl.reports.document import Document
from kschedctl.text.printable import printable
from kschedctl.text.version import VERSION


class FamilyCollector(Collector):
    """A Prometheus collector that returns fixed metric families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metric families."""
        return self._families


def to_openmetrics(document: Document) -> str:
    """Render the metrics as OpenMetrics text. Raises UsageError for any document other than ClusterMetrics."""
    if not isinstance(document, ClusterMetrics):
        raise UsageError("-o openmetrics works only for metrics", hint="-o json has everything")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FamilyCollector(tuple(iter_metric_families(document))))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def iter_metric_families(report: ClusterMetrics) -> Iterator[Metric]:
    """Yield a family for each metric that has values. All values of a metric must have the same label names."""
    for name, help_text in FAMILIES.items():
        metrics = [metric for metric in report.metrics if metric.metric == name]
        if metrics:
            family = GaugeMetricFamily(name, help_text, labels=tuple(metrics[0].labels))
            for metric in metrics:
                family.add_metric([printable(text) for text in metric.labels.values()], metric.value)
            yield family


class MetricsServer(Collector):
    """A server of the latest metrics on `HOST:PORT` or `:PORT`, in a background thread.

    Before the first report, it serves only metrics about itself.
    """

    def __init__(self, address: str) -> None:
        self._host, self._port = _parse_listen_address(address)
        self._open = ExitStack()
        self._families: tuple[Metric, ...] = ()
        self._answers, self._seconds, self._at = 0, 0.0, 0.0

    @property
    def port(self) -> int:
        """The port on which the server listens. If port 0 was requested, it is known once the server has started."""
        return self._port

    def __enter__(self) -> Self:
        """Start the server. Raises UsageError if it cannot listen on the address."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            server, thread = start_http_server(self._port, self._host, registry)
        except OSError as error:
            what = f"cannot listen on {self._host}:{self._port}: {error.strerror or error}"
            raise UsageError(what, where="--metrics") from None
        self._port = server.server_port
        self._open.callback(thread.join)
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Stop the server."""
        self._open.close()

    def publish(self, report: ClusterMetrics, seconds: float) -> None:
        """Serve this report from now on. It took `seconds` to compute."""
        self._families = tuple(iter_metric_families(report))
        self._answers += 1
        self._seconds = seconds
        self._at = time.time()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the latest report, and metrics about this server."""
        yield from self._families
        build = GaugeMetricFamily("kschedctl_build_info", "The version of kschedctl.", labels=("version",))
        build.add_metric((VERSION,), 1)
        yield build
        yield CounterMetricFamily(
            "kschedctl_answers", "The number of times that the metrics were computed.", value=self._answers
        )
        if self._answers:
            duration_help = "The time that the latest computation of the metrics took."
            timestamp_help = "The time when the metrics were computed."
            yield GaugeMetricFamily("kschedctl_answer_duration_seconds", duration_help, value=self._seconds)
            yield GaugeMetricFamily("kschedctl_answer_timestamp_seconds", timestamp_help, value=self._at)


def _parse_listen_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, or `:PORT` for all IPv4 addresses. Raises UsageError if it is malformed."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isdecimal() and int(port) < 1 << 16):
        raise UsageError(f"--metrics {text}: not HOST:PORT or :PORT", hint="such as :9090")
    return host.strip("[]") or "0.0.0.0", int(port)
