"""A section of an audit: its evidence, then what was found, and what is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from kschedctl.render.page import (
    Cell,
    Command,
    Heading,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    first_rows,
    paragraph,
    plots_of,
)
from kschedctl.render.pages.audit.evidence import (
    leader_blocks,
    packing_blocks,
    placed_blocks,
    priorities_blocks,
    queue_blocks,
    topology_blocks,
)
from kschedctl.render.pages.audit.findings import severity_of, what_to_do
from kschedctl.render.pages.audit.latency import latency_blocks
from kschedctl.render.pages.audit.pending import waiting_table
from kschedctl.render.pages.audit.races import races_blocks
from kschedctl.render.pages.audit.sampling import sampling_blocks
from kschedctl.render.pages.sections import ROWS_SHOWN, left_out_lines
from kschedctl.reports.audit.pending import PendingSection
from kschedctl.reports.audit.section import SOUND, Section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import reasons

STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.WARNING}
EVIDENCE: Mapping[str, Callable[[Any, Style], Page]] = {
    "pending": lambda section, style: (),  # all that there is to tell is what was found
    "creation": lambda section, style: (),
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
COMMANDS_SHOWN = 3
"""Commands beneath a table of findings; with ``-o wide`` there is one for each."""


def section_page(section: Section, style: Style) -> Page:
    """A section by itself."""
    answer = paragraph(Marked(section.headline, STATES[section.state]))
    blocks = blocks_of(section, style)
    return (answer, Heading(section.title), *blocks) if blocks else (answer,)


def blocks_of(section: Section, style: Style) -> Page:
    """All but its headline; nothing where there is nothing to tell."""
    return (
        *left_out_lines(section.not_replayed, ()),
        *_not_known(section),
        *EVIDENCE[section.name](section, style),
        *found_blocks(section, style, ROWS_SHOWN),
    )


def blocks_in_brief(section: Section, style: Style) -> Page:
    """What was found, and the plots, without the rest of the evidence; of a section that is sound the plots alone."""
    plots = plots_of(EVIDENCE[section.name](section, style)) if style.plots else ()
    if section.state == SOUND:
        return plots
    return (*_not_known(section), *found_blocks(section, style, FOUND_IN_BRIEF), *plots)


def _not_known(section: Section) -> Page:
    if not section.unknown:
        return ()
    grounds = "; its answer could be another" if section.undecided else ""
    return (paragraph(Marked("not known:", Tone.WARNING), f"{reasons(section.unknown)}{grounds}"),)


def found_blocks(section: Section, style: Style, limit: int) -> Page:
    """What was found, what to do about it, and what to type."""
    if isinstance(section, PendingSection):
        table, shown = waiting_table(section, style, limit)
    else:
        table, shown = _found(section.findings, style, limit)
    return (*table, *_commands(shown, style))


def _found(findings: Sequence[Finding], style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """What to do stands beneath each problem."""
    if not findings:
        return (), ()
    shown, note = first_rows(findings, style, limit)
    columns = (Column("severity", keep=True), Column("found"))
    rows = tuple(_row(each, shown[max(i - 1, 0) : i], style) for i, each in enumerate(shown))
    return (Table(columns, rows, note),), shown


def _row(finding: Finding, above: Sequence[Finding], style: Style) -> tuple[Cell | Stack, ...]:
    object_ = Marked(finding.object, Tone.STRONG)
    return (severity_of(finding), Stack((object_, finding.message, *what_to_do(finding, above, style))))


def _commands(findings: Sequence[Finding], style: Style) -> Page:
    told = dict.fromkeys(command for found in findings for command in style.commands.get(found.fingerprint, ()))
    return tuple(map(Command, islice(told, None if style.wide else COMMANDS_SHOWN)))
