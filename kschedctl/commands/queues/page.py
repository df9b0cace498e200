"""Terminal page of the report KueueQueues."""

from __future__ import annotations

from kschedctl.commands.queues.report import ClusterQueueState, KueueQueues
from kschedctl.render.page import Cell, Marked, Page, Style, paragraph
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.reports.unknown import advise_reading, describe_unread_kinds

LEGEND = "waiting, reserving, admitted: Workloads that wait for quota, hold quota, and may start"


def build_queues_page(report: KueueQueues, style: Style) -> Page:
    """Build the page: a summary line, doubts, the waiting Workloads, the ClusterQueues, and their quotas."""
    doubts = [*report.doubts, *report.problems]
    if report.unknown:
        doubts.insert(0, describe_unread_kinds(report.unknown) + advise_reading(report.unknown))
    return (
        paragraph(*(Marked(part, Tone.STRONG) for part in report.build_headline_parts())),
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in doubts),
        *build_struct_table(report.waiting, style, title="Waiting for quota", full=False),
        *build_struct_table(report.queues, style, {"active": _render_active}, title="ClusterQueues", full=False),
        *((paragraph(Marked(LEGEND, Tone.FAINT)),) if report.queues else ()),
        *build_struct_table(report.quotas, style, title="Quotas", full=False),
    )


def _render_active(queue: ClusterQueueState) -> Cell:
    """Return "yes" if a ClusterQueue is active, or else "no" in red."""
    return "yes" if queue.active else Marked("no", Tone.BAD)
