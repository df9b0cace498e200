"""The page of Audit: what is unsound, the sections in a table, then each with its evidence and what to do."""

from __future__ import annotations

from kschedctl.render.page import UNFOLDED, Marked, Page, Style, Table, below, count, paragraph
from kschedctl.render.pages.audit.section import STATES, blocks_in_brief, blocks_of
from kschedctl.reports.audit.audit import Audit
from kschedctl.reports.audit.section import FINDINGS, Section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import LEVELS

FEW = 2
"""Of so many sections all evidence is shown at once."""
EVIDENCE = "--section NAME shows the evidence of a section, -o wide that of all"


def audit_page(report: Audit, style: Style) -> Page:
    """Of many sections those that are sound have their line in the table alone, the others what was found."""
    checked = f"{count(report.nodes, 'node')}, {count(report.pods, 'pod')}, kube-scheduler {report.kube_version}"
    rows = tuple((Marked(_state(each), STATES[each.state]), each.name, each.headline) for each in report.sections)
    columns = (Column("state", keep=True), Column("section", keep=True), Column("answer"))
    table = (Table(columns, rows),) if len(report.sections) > 1 else ()
    page: list[Page] = [
        (paragraph(Marked(report.headline, STATES[report.state])),),
        (paragraph(Marked(f"{checked}, {f'at {report.at}' if report.at else 'at no known time'}", Tone.FAINT)), *table),
    ]
    not_asked = "; ".join(f"{name} needs {what}" for name, what in report.not_asked.items())
    page += [(paragraph(Marked("not asked:", Tone.FAINT), not_asked),)] if not_asked else []
    brief = len(report.sections) > FEW and not style.wide and style.width < UNFOLDED
    blocks = blocks_in_brief if brief else blocks_of
    page += [below(each.title, found) for each in report.sections if (found := blocks(each, style))]
    page += [(paragraph(Marked(EVIDENCE, Tone.FAINT)),)] if brief else []
    return tuple(block for part in page for block in part)


def _state(section: Section) -> str:
    """How much was found, else the state.

    A section is unsound by its errors and warnings: notes leave it sound.
    """
    if section.state != FINDINGS:
        return section.state
    numbers = {level: sum(found.severity == level for found in section.findings) for level in LEVELS[:-1]}
    return ", ".join(count(number, level) for level, number in numbers.items() if number)
