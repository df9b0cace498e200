"""What metrics say of some time: since the scheduler started, between two readings, or in a window of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kschedctl.api.kube_version import KubeVersion
from kschedctl.sources.metrics.catalogue import BUILD, DISABLED, LEADS, METRICS, Metric
from kschedctl.sources.metrics.histograms import Histogram

Labels = tuple[str, ...]
"""The values of the labels by which a metric of the catalogue is told apart, in its order."""


class Period(StrEnum):
    """What time counters are of."""

    START = "since the scheduler started"
    BETWEEN = "between the two readings"
    WINDOW = "in the window"


@dataclass(frozen=True)
class Measured:
    """By key of the catalogue: histograms and counters of the period, gauges as they are at its end.

    ``seconds``: how long the period is, None where that is not known. ``restarted``: counters began anew within it.
    ``unusable``: values that are no counts and were left out.
    """

    source: str
    period: Period
    histograms: Mapping[str, Mapping[Labels, Histogram]] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    seconds: float | None = None
    restarted: bool = False
    unusable: int = 0

    def of(self, metric: str) -> Mapping[Labels, Histogram]:
        return self.histograms.get(metric, {})

    def number(self, metric: str, labels: Labels = ()) -> float | None:
        """None where it is not known."""
        return self.numbers.get(metric, {}).get(labels)

    @property
    def version(self) -> str:
        """The version, such as 1.36.2; empty where nothing says it."""
        return next(iter(self.numbers.get(BUILD, {})), ("",))[0].removeprefix("v")

    def total(self, metric: str) -> float | None:
        number = self.numbers.get(metric)
        return None if not number else sum(number.values())

    @property
    def leads(self) -> bool | None:
        """Whether this scheduler schedules at all, or waits to become the leader; None where nothing says so."""
        status = self.numbers.get(LEADS)
        return None if not status else any(status.values())

    @property
    def empty(self) -> bool:
        """Whether nothing in it is of kube-scheduler."""
        own = {metric.key for metric in METRICS if not metric.shared}
        return not any(self.histograms.get(key) or self.numbers.get(key) for key in own)

    def missing(self) -> dict[str, str]:
        """Name of each metric that is not there -> why that may be. What has counted nothing is often not there."""
        absent = [m for m in METRICS if not m.shared and m.key not in self.histograms and m.key not in self.numbers]
        return {metric.names[0].text: self._why(metric) for metric in absent}

    def _why(self, metric: Metric) -> str:
        try:
            version = KubeVersion.parse(self.version)
        except ValueError:
            version = None
        if version is not None and not any(name.holds(version) for name in metric.names):
            return f"came with {metric.names[0].since}"
        return "has counted nothing" if self.total(DISABLED) == 0 else "is not there"
