"""Rendering in the OpenMetrics text format: https://prometheus.io/docs/specs/om/open_metrics_spec/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from kschedctl.commands.watch.report import FAMILIES, ClusterMetrics
from kschedctl.errors import UsageError
from kschedctl.reports.document import Document
from kschedctl.text.printable import printable


class FamilyCollector(Collector):
    """A Prometheus collector that returns fixed metric families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metric families."""
        return self._families


def to_openmetrics(document: Document) -> str:
    """Render the metrics as OpenMetrics text. Raises UsageError for other documents."""
    if not isinstance(document, ClusterMetrics):
        raise UsageError("-o openmetrics shows metrics", hint="-o json has everything")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FamilyCollector(tuple(iter_families(document))))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def iter_families(report: ClusterMetrics) -> Iterator[Metric]:
    """Yield a metric family for each metric that has values. The values of a metric share their label names."""
    for name, help in FAMILIES.items():
        numbers = [metric for metric in report.metrics if metric.metric == name]
        if numbers:
            family = GaugeMetricFamily(name, help, labels=tuple(numbers[0].labels))
            for number in numbers:
                family.add_metric([printable(text) for text in number.labels.values()], number.value)
            yield family
