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
    _require_scheduler_metrics,
    compute_metrics_between,
    compute_reading_since_start,
    parse_exposition,
)


def latency(
    metrics: MetricsReading | Sequence[str], limits: LatencyLimits | None = None, *, seconds: float | None = None
) -> LatencySection:
    """Return how long kube-scheduler takes, and what holds it up.

    `metrics` is the text of its /metrics endpoint, for the time since it started, or two such texts, the older first,
    for the time between them, which is `seconds` long. It may also be metrics that were read already. `limits` are the
    values above which a figure is a finding. Raises UsageError, and InputError for texts that are not kube-scheduler's
    metrics.

    >>> latency(['scheduler_pending_pods{queue="active"} 0']).findings
    ()
    """
    measured = metrics if isinstance(metrics, MetricsReading) else _parse_metrics(metrics, seconds)
    return build_section_from_metrics(measured, limits or LatencyLimits())


def _parse_metrics(texts: Sequence[str], seconds: float | None) -> MetricsReading:
    """Parse one text of metrics, or the difference between two, the older first.

    Raises UsageError unless there are one or two texts, and InputError for texts that are not kube-scheduler's metrics.
    """
    if isinstance(texts, str) or len(texts) not in (1, 2):
        raise UsageError("one text of metrics, or an older and a newer one, in a list")
    expositions = [parse_exposition(text.encode(), f"text {number}") for number, text in enumerate(texts, 1)]
    if len(expositions) == 1:
        return compute_reading_since_start(expositions[0])
    return _require_scheduler_metrics(compute_metrics_between(expositions[0], expositions[1], seconds))
