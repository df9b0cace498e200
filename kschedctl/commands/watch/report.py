"""The report of `watch`: apiVersion kschedctl.dev/v1, kind ClusterMetrics.

Names and units follow https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted

PENDING, OLDEST = "kschedctl_pending_pods", "kschedctl_oldest_pending_pod_created_timestamp_seconds"
STUCK, UNCREATED = "kschedctl_stuck_pods", "kschedctl_uncreated_pods"
ROOM = "kschedctl_room_pods"
UNPLACED, EVICTED = "kschedctl_loss_unplaced_pods", "kschedctl_loss_evicted_pods"
HARD, USED = "kschedctl_quota_hard", "kschedctl_quota_used"
UNDECIDED = "kschedctl_undecided"
FAMILIES = {
    PENDING: "Pods that wait for a node, by verdict and cause.",
    OLDEST: "The time when the oldest pending pod with this verdict and cause was created.",
    STUCK: "Pods that fit on a node but were not retried although they should have been.",
    UNCREATED: "Pods of a workload that could not be created.",
    ROOM: "The number of further pods of a shape that would be created and get a node.",
    UNPLACED: "Pods that would be left without a node if this zone, pool or node were lost.",
    EVICTED: "Pods of other nodes that would be evicted if this zone, pool or node were lost.",
    HARD: "The limit of a ResourceQuota, in cores for cpu and in bytes for memory and storage.",
    USED: "The used amount of a ResourceQuota.",
    UNDECIDED: "1 if unread objects might change the metrics of this question.",
}
"""Metric -> help text. All metrics are gauges."""


class MetricValue(Document, frozen=True):
    """A value of a metric for one set of labels."""

    metric: Annotated[str, Column("metric", keep=True)]
    labels: Annotated[dict[str, str], Column("labels")]
    value: Annotated[float, Column("value")]


class ClusterMetrics(Report, frozen=True):
    """All values, grouped by metric in the order of FAMILIES."""

    metrics: tuple[MetricValue, ...] = ()
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "ClusterMetrics"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the number of pending pods, and the number of stuck pods in parentheses or "" if there are none."""
        waiting, stuck = (self.sum_values(name) for name in (PENDING, STUCK))
        return (counted(waiting, "pending pod"), f"({stuck:,} stuck)" if stuck else "")

    def sum_values(self, name: str) -> int:
        """Return the sum of a metric's values."""
        return round(sum(metric.value for metric in self.metrics if metric.metric == name))
