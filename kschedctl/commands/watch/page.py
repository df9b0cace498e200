"""The page of a cluster's metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.commands.watch.report import ClusterMetrics, MetricValue
from kschedctl.render.page import Marked, Page, Style, paragraph
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone


def build_cluster_metrics_page(report: ClusterMetrics, style: Style) -> Page:
    """Build the page: the numbers of pending and stuck pods, and a table of all values."""
    cells: Mapping[str, Callable[[MetricValue], str]] = {
        "labels": lambda metric: ", ".join(f"{name}={text}" for name, text in metric.labels.items()),
        "value": lambda metric: f"{metric.value:.15g}",
    }
    pending_count, stuck = report.build_headline_parts()
    return (
        paragraph(Marked(pending_count, Tone.STRONG), stuck),
        *build_struct_table(report.metrics, style, cells, limit=None),
    )
