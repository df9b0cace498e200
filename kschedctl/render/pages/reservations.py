"""The section of a page on volumes that would be bound or provisioned and devices that would be allocated."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Cell, Page, Style, Table, section, shown_first
from kschedctl.reports.columns import Column
from kschedctl.reports.explanation import DeviceReport, Explanation

NODES_SHOWN = 3
COLUMNS = (Column("node", keep=True), Column("claim", keep=True), Column("gets"))


def reservations_section(report: Explanation, style: Style) -> Page:
    """The best nodes; one row a claim and what it would get."""
    ranked = [n for n in report.feasible if n in report.volumes or n in report.allocations]
    ranked.sort(key=lambda node: -report.total.get(node, 0))
    nodes, note = shown_first(ranked, None if style.unlimited else NODES_SHOWN)
    if not nodes:
        return ()
    return section("What would be bound", Table(COLUMNS, tuple(row for n in nodes for row in _rows(report, n)), note))


def _rows(report: Explanation, node: str) -> Iterator[tuple[Cell, ...]]:
    for position, (claim, gets) in enumerate(_gets(report, node)):
        yield ("" if position else node, claim, gets)


def _gets(report: Explanation, node: str) -> Iterator[tuple[str, str]]:
    """Claim and what it would get."""
    if node in report.volumes:
        yield from ((claim, f"volume {name}") for claim, name in report.volumes[node].bindings.items())
        yield from ((claim, "a new volume") for claim in report.volumes[node].provisions)
    for claim, devices in report.allocations.get(node, {}).items():
        yield from ((claim, _device(device)) for device in devices)


def _device(device: DeviceReport) -> str:
    consumed = ", ".join(f"{amount} of {name}" for name, amount in device.consumed_capacity.items())
    admin = " with admin access" if device.admin_access else ""
    name = f"device {device.driver}/{device.pool}/{device.device} for {device.request}"
    return f"{name}{admin}{f': {consumed}' if consumed else ''}"
