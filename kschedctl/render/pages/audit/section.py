"""A section of an audit: its evidence, then what was found, and what is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kschedctl.render.page import (
    Cell,
    Column,
    Heading,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    Tone,
    first_rows,
    paragraph,
)
from kschedctl.render.pages.audit.latency import latency_blocks
from kschedctl.render.pages.audit.leader import leader_blocks
from kschedctl.render.pages.audit.packing import packing_blocks
from kschedctl.render.pages.audit.pending import pending_blocks
from kschedctl.render.pages.audit.placed import placed_blocks
from kschedctl.render.pages.audit.priorities import priorities_blocks
from kschedctl.render.pages.audit.queue import queue_blocks
from kschedctl.render.pages.audit.races import races_blocks
from kschedctl.render.pages.audit.sampling import sampling_blocks
from kschedctl.render.pages.audit.topology import topology_blocks
from kschedctl.render.pages.sections import ROWS_SHOWN, left_out_lines
from kschedctl.reports.audit.section import SOUND, Section
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import reasons

STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.WARNING}
SEVERITIES = {"error": Tone.BAD, "warning": Tone.WARNING, "note": Tone.FAINT}
EVIDENCE: Mapping[str, Callable[[Any, Style], Page]] = {
    "pending": pending_blocks,
    "queue": queue_blocks,
    "placed": placed_blocks,
    "races": races_blocks,
    "latency": latency_blocks,
    "sampling": sampling_blocks,
    "leader": leader_blocks,
    "priorities": priorities_blocks,
    "topology": topology_blocks,
    "packing": packing_blocks,
}
"""The name of a section -> what makes the blocks of its own."""
FOUND_IN_BRIEF = 3


def section_page(section: Section, style: Style) -> Page:
    """A section by itself."""
    answer = paragraph(Marked(section.headline, STATES[section.state]))
    return (answer, Heading(section.title), *blocks_of(section, style))


def blocks_of(section: Section, style: Style) -> Page:
    """All but its headline; nothing where there is nothing to tell."""
    return (
        *left_out_lines(section.not_replayed, ()),
        *_not_known(section),
        *EVIDENCE[section.name](section, style),
        *_found(section.findings, style, ROWS_SHOWN),
    )


def blocks_in_brief(section: Section, style: Style) -> Page:
    """What was found, without the rest of the evidence; nothing of a section that is sound."""
    if section.state == SOUND:
        return ()
    return (*_not_known(section), *_found(section.findings, style, FOUND_IN_BRIEF))


def _not_known(section: Section) -> Page:
    if not section.unknown:
        return ()
    grounds = "; its answer could be another" if section.undecided else ""
    return (paragraph(Marked("not known:", Tone.WARNING), f"{reasons(section.unknown)}{grounds}"),)


def _found(findings: tuple[Finding, ...], style: Style, limit: int) -> Page:
    """What to do stands beneath each problem."""
    if not findings:
        return ()
    shown, note = first_rows(findings, style, limit)
    columns = (Column("severity", keep=True), Column("found"))
    return (Table(columns, tuple(_row(each, style) for each in shown), note),)


def _row(finding: Finding, style: Style) -> tuple[Cell | Stack, ...]:
    severity = Marked(finding.severity, SEVERITIES[finding.severity])
    rule = Marked(finding.rule if style.wide else "", Tone.FAINT)
    object_, fix = Marked(finding.object, Tone.STRONG), Marked(finding.fix, Tone.CODE)
    return (severity, Stack((object_, finding.message, fix, rule)))
