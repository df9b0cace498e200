"""The `latency` command: how long kube-scheduler takes, and what holds it up.

The analysis is section "latency" of the audit (`kschedctl/commands/audit/latency`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.commands.audit.latency import build_section_from_metrics
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.errors import UsageError
from kschedctl.sources.metrics.catalogue import MetricsReading
from kschedctl.sources.metrics.exposition import (
    compute_metrics_between,
    compute_reading_since_start,
    parse_exposition,
    require_scheduler_metrics,
)


def latency(
    metrics: MetricsReading | Sequence[str], limits: LatencyLimits | None = None, *, seconds: float | None = None
) -> LatencySection:
    """Return how long kube-scheduler takes, and what holds it up.

    `metrics` are texts of kube-scheduler's /metrics endpoint, or metrics that were read already. One text covers the
    time since kube-scheduler started. Two texts, the older first, cover the time between them, which is `seconds` long.
    `limits` are the values above which a figure is a finding. Raises UsageError unless there are one or two texts, and
    InputError for texts that are not kube-scheduler's metrics.

    >>> latency(['scheduler_pending_pods{queue="active"} 0']).findings
    ()
    """
    measured = metrics if isinstance(metrics, MetricsReading) else _parse_metrics(metrics, seconds)
    return build_section_from_metrics(measured, limits or LatencyLimits())


def _parse_metrics(texts: Sequence[str], seconds: float | None) -> MetricsReading:
    """Parse one text of metrics, or compute the difference between an older and a newer text.

    Raises UsageError unless there are one or two texts, and InputError for texts that are not kube-scheduler's metrics.
    """
    if isinstance(texts, str) or len(texts) not in (1, 2):
        raise UsageError("one text of metrics, or an older and a newer one, in a list")
    expositions = [parse_exposition(text.encode(), f"text {number}") for number, text in enumerate(texts, 1)]
    if len(expositions) == 1:
        return compute_reading_since_start(expositions[0])
    return require_scheduler_metrics(compute_metrics_between(expositions[0], expositions[1], seconds))
