"""The metrics of a period: since the scheduler started, between two readings, or in a window of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kschedctl.api.kube_version import KubeVersion
from kschedctl.sources.metrics.catalogue import BUILD, DISABLED, LEADS, METRICS, Metric
from kschedctl.sources.metrics.histograms import Histogram

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
    """Length of the period, or None if it is unknown."""
    restarted: bool = False
    """Whether the scheduler restarted during the period, so that its counters began at 0 again."""
    unusable: int = 0
    """Number of values that are not valid counts and were left out."""

    def of(self, metric: str) -> Mapping[Labels, Histogram]:
        return self.histograms.get(metric, {})

    def get_number(self, metric: str, labels: Labels = ()) -> float | None:
        """Return the value of a counter or gauge, or None if it is unknown."""
        return self.numbers.get(metric, {}).get(labels)

    @property
    def version(self) -> str:
        """kube-scheduler's version, such as 1.36.2, or "" if it is unknown."""
        return next(iter(self.numbers.get(BUILD, {})), ("",))[0].removeprefix("v")

    def get_total(self, metric: str) -> float | None:
        """Return the sum of a counter or gauge over all labels, or None if it is unknown."""
        number = self.numbers.get(metric)
        return None if not number else sum(number.values())

    @property
    def is_leader(self) -> bool | None:
        """Whether this scheduler is the leader and schedules pods, or None if that is unknown."""
        status = self.numbers.get(LEADS)
        return None if not status else any(status.values())

    @property
    def is_empty(self) -> bool:
        """Whether there is no metric of kube-scheduler."""
        own = {metric.key for metric in METRICS if not metric.shared}
        return not any(self.histograms.get(key) or self.numbers.get(key) for key in own)

    def explain_missing(self) -> dict[str, str]:
        """Return the name of each missing metric and the probable reason. Metrics that have counted nothing are
        often missing.
        """
        absent = [m for m in METRICS if not m.shared and m.key not in self.histograms and m.key not in self.numbers]
        return {metric.names[0].text: self._explain_missing_metric(metric) for metric in absent}

    def _explain_missing_metric(self, metric: Metric) -> str:
        """Return the probable reason why a metric is missing."""
        try:
            version = KubeVersion.parse(self.version)
        except ValueError:
            version = None
        if version is not None and not any(name.applies_to(version) for name in metric.names):
            return f"came with {metric.names[0].since}"
        return "has counted nothing" if self.get_total(DISABLED) == 0 else "is not there"
