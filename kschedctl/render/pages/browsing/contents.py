"""The pages of a node and of a workload."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Column, Marked, Page, Style, Table, Tone, count, paragraph, section
from kschedctl.render.pages.sections import rounded
from kschedctl.reports.browsing.contents import NodeContents, NodeResource, WorkloadPods


def node_page(report: NodeContents, style: Style) -> Page:
    """What is free, who is there, who would fit."""
    where = ", ".join(filter(None, (report.pool, report.zone)))
    state = [Marked("cordoned", Tone.WARNING)] if report.unschedulable else []
    head = paragraph(Marked(report.node, Tone.STRONG), where, *state)
    taints = [paragraph("taints:", ", ".join(report.taints))] if report.taints else []
    columns = (Column("resource", keep=True), *(Column(name, right=True) for name in ("allocatable", "asked", "free")))
    fit = section(
        f"Would fit here: {len(report.fit):,} of {count(len(report.fit) + report.refused, 'pending pod')}",
        *([Bullets(report.fit)] if report.fit else []),
    )
    pods = tuple((pod.pod, f"{pod.priority:,}", _asked(pod.requests)) for pod in report.pods)
    table = Table((Column("pod", keep=style.width > 60), Column("priority", right=True), Column("requests")), pods)
    rows = tuple(_resource(each) for each in report.resources)
    return (head, *taints, *section("Room", Table(columns, rows)), *fit, *section(f"Pods ({len(pods)})", table))


def _resource(found: NodeResource) -> tuple[str, ...]:
    free = max(found.allocatable - found.requested, 0)
    return (found.resource, *(rounded(found.resource, n) for n in (found.allocatable, found.requested, free)))


def _asked(requests: dict[str, int]) -> str:
    return ", ".join(f"{name} {rounded(name, amount)}" for name, amount in requests.items() if name != "pods")


def workload_page(report: WorkloadPods, style: Style) -> Page:
    """Where its pods are."""
    zones = ", ".join(f"{zone or 'no zone'}: {number:,}" for zone, number in report.zones.items())
    head = paragraph(Marked(report.workload, Tone.STRONG), count(len(report.pods), "pod"), zones)
    rows = tuple((pod.pod, pod.node or Marked("waits", Tone.WARNING), pod.zone, pod.phase) for pod in report.pods)
    columns = (Column("pod", keep=style.width > 60), Column("node"), Column("zone"), Column("phase"))
    return (head, *section("Pods", Table(columns, rows).without_empty_columns()))
