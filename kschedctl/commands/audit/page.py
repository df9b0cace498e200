"""The page of an audit: a table of the sections, then each section with its evidence and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from kschedctl.commands.audit.evidence import (
    build_leader_evidence,
    build_packing_evidence,
    build_placed_evidence,
    build_priorities_evidence,
    build_queue_evidence,
    build_topology_evidence,
)
from kschedctl.commands.audit.latency.page import build_latency_evidence
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.queues.page import build_queues_evidence
from kschedctl.commands.audit.queues.report import QueuesSection
from kschedctl.commands.audit.races.page import build_races_evidence
from kschedctl.commands.audit.races.report import RacesSection
from kschedctl.commands.audit.report import Audit, PendingSection, QueueSection, WaitingPods
from kschedctl.commands.audit.sampling.page import build_sampling_evidence
from kschedctl.commands.audit.sampling.report import SamplingSection
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.commands.explain.pending_report import LastWords
from kschedctl.render.page import (
    UNFOLDED,
    Cell,
    Command,
    Heading,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    build_subsection,
    count,
    find_plots,
    limit_rows_by_style,
    names,
    paragraph,
)
from kschedctl.render.sections import build_left_out_lines
from kschedctl.render.tables import ROWS_SHOWN
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import SEVERITIES, SEVERITIES_BY_GRAVITY, Finding
from kschedctl.reports.section import FINDINGS, SOUND, Section
from kschedctl.reports.unknown import describe_unread

MAX_SECTIONS_IN_FULL = 2
"""The maximum number of sections that are all shown with their evidence."""
HOW_TO_SEE_MORE = "--section NAME shows the evidence of a section, -o wide that of all"


def build_audit_page(report: Audit, style: Style) -> Page:
    """Build the page of an audit. If there are many sections, sound ones appear only in the table."""
    audited_objects = (
        f"{count(report.nodes, 'node')}, {count(report.pods, 'pod')}, kube-scheduler {report.kube_version}"
    )
    rows = tuple(
        (Marked(section.describe_state(), _find_section_tone(section)), section.name, section.headline)
        for section in report.sections
    )
    columns = (Column("state", keep=True), Column("section", keep=True), Column("answer"))
    table = (Table(columns, rows),) if len(report.sections) > 1 else ()
    page: list[Page] = [
        (paragraph(Marked(report.headline, STATES[report.state])),),
        (
            paragraph(
                Marked(f"{audited_objects}, {f'at {report.at}' if report.at else 'at an unknown time'}", Tone.FAINT)
            ),
            *table,
        ),
    ]
    not_asked = "; ".join(f"{name} needs {option}" for name, option in report.not_asked.items())
    page += [(paragraph(Marked("not asked:", Tone.FAINT), not_asked),)] if not_asked else []
    is_brief = len(report.sections) > MAX_SECTIONS_IN_FULL and not style.wide and style.width < UNFOLDED
    blocks = build_brief_section_blocks if is_brief else build_section_blocks
    page += [build_subsection(section.title, shown) for section in report.sections if (shown := blocks(section, style))]
    page += [(paragraph(Marked(HOW_TO_SEE_MORE, Tone.FAINT)),)] if is_brief else []
    return tuple(block for part in page for block in part)


def _find_section_tone(section: Section) -> Tone:
    """Return the tone of the gravest finding, or of the state if the section has no findings."""
    gravest = min((SEVERITIES_BY_GRAVITY.index(finding.severity) for finding in section.findings), default=0)
    return SEVERITIES[SEVERITIES_BY_GRAVITY[gravest]] if section.state == FINDINGS else STATES[section.state]


# -- a section --------------------------------------------------------------------------------------------------------


STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.WARNING}
FINDINGS_IN_BRIEF = 3
COMMANDS_SHOWN = 3
"""The number of commands shown below a table of findings; wide output shows one for each finding."""


def build_section_page(section: Section, style: Style) -> Page:
    """Build the page of a single section."""
    answer = paragraph(Marked(section.headline, STATES[section.state]))
    blocks = build_section_blocks(section, style)
    return (answer, Heading(section.title), *blocks) if blocks else (answer,)


def build_section_blocks(section: Section, style: Style) -> Page:
    """Build the evidence and findings of a section, or an empty page if there are none."""
    return (
        *build_left_out_lines(section.not_replayed, ()),
        *_build_unknowns_line(section),
        *_build_evidence(section, style),
        *build_findings(section, style, ROWS_SHOWN),
    )


def build_brief_section_blocks(section: Section, style: Style) -> Page:
    """Build the findings and plots of a section without other evidence. A sound section has only plots."""
    plots = find_plots(_build_evidence(section, style)) if style.plots else ()
    if section.state == SOUND:
        return plots
    return (*_build_unknowns_line(section), *build_findings(section, style, FINDINGS_IN_BRIEF), *plots)


def _build_evidence(section: Section, style: Style) -> Page:
    """Build the evidence of a section. The sections "pending" and "creation" have only findings."""
    evidence: Page = ()
    match section:
        case QueueSection():
            evidence = build_queue_evidence(section, style)
        case QueuesSection():
            evidence = build_queues_evidence(section, style)
        case PlacedSection():
            evidence = build_placed_evidence(section, style)
        case RacesSection():
            evidence = build_races_evidence(section, style)
        case LatencySection():
            evidence = build_latency_evidence(section, style)
        case SamplingSection():
            evidence = build_sampling_evidence(section, style)
        case LeaderSection():
            evidence = build_leader_evidence(section, style)
        case PrioritiesSection():
            evidence = build_priorities_evidence(section, style)
        case TopologySection():
            evidence = build_topology_evidence(section, style)
        case PackingSection():
            evidence = build_packing_evidence(section, style)
    return evidence


def _build_unknowns_line(section: Section) -> Page:
    """Build the line about kinds of objects that were not read."""
    if not section.unknown:
        return ()
    consequence = "; its answer could differ" if section.undecided else ""
    return (paragraph(Marked("not known:", Tone.WARNING), f"{describe_unread(section.unknown)}{consequence}"),)


def build_findings(section: Section, style: Style, limit: int) -> Page:
    """Build a table of the findings with their fixes, and the commands to run next."""
    if isinstance(section, PendingSection):
        table, shown = build_waiting_table(section, style, limit)
    else:
        table, shown = _build_findings_table(section.findings, style, limit)
    return (*table, *_build_next_commands(shown, style))


def _build_findings_table(findings: Sequence[Finding], style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """Build a table of the first findings. Return the table and the findings in it."""
    if not findings:
        return (), ()
    shown_findings, note = limit_rows_by_style(findings, style, limit)
    columns = (Column("severity", keep=True), Column("found"))
    rows = tuple(
        _build_finding_row(finding, shown_findings[max(i - 1, 0) : i], style)
        for i, finding in enumerate(shown_findings)
    )
    return (Table(columns, rows, note),), shown_findings


def _build_finding_row(finding: Finding, previous_row: Sequence[Finding], style: Style) -> tuple[Cell | Stack, ...]:
    """Return the cells for a finding."""
    object_ = Marked(finding.object, Tone.STRONG)
    return (format_severity(finding), Stack((object_, finding.message, *iter_fix_lines(finding, previous_row, style))))


def _build_next_commands(findings: Sequence[Finding], style: Style) -> Page:
    """Build the commands to run next for findings, without duplicates. Only wide output has all of them."""
    commands = dict.fromkeys(command for finding in findings for command in style.commands.get(finding.fingerprint, ()))
    return tuple(map(Command, islice(commands, None if style.wide else COMMANDS_SHOWN)))


# -- what was found ---------------------------------------------------------------------------------------------------


def format_severity(finding: Finding) -> Marked:
    """Return the severity of a finding in its color."""
    return Marked(finding.severity, SEVERITIES[finding.severity])


def iter_fix_lines(finding: Finding, previous_row: Sequence[Finding], style: Style) -> Iterator[Cell]:
    """Yield the fix of a finding, unless the row above has the same fix. Wide output also has the rule's name."""
    if finding.fix and finding.fix not in (shown.fix for shown in previous_row):
        yield f"→ {finding.fix}"
    if style.wide:
        yield Marked(finding.rule, Tone.FAINT)


CAUSE_TONES = {
    **dict.fromkeys(("stuck", "error", "unserved"), Tone.BAD),
    **dict.fromkeys(("crowded", "backoff", "turn"), Tone.GOOD),
}
WaitingRow = tuple[WaitingPods | None, tuple[Finding, ...]]
"""Pods that wait, with the findings about the first of them; or None and a finding about another pod."""


def build_waiting_table(section: PendingSection, style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """Build a table of the causes for which pods wait, gravest first. Return the table and the findings in it."""
    rows = sorted(
        _iter_waiting_rows(section),
        key=lambda row: (
            [SEVERITIES_BY_GRAVITY.index(finding.severity) for finding in row[1]] or [len(SEVERITIES_BY_GRAVITY)]
        ),
    )
    if not rows:
        return (), ()
    shown, note = limit_rows_by_style(rows, style, limit)
    columns = (Column("severity", keep=True), Column("pods", right=True), Column("age"), Column("found"))
    above = [(), *(findings for _, findings in shown)]
    table = Table(columns, tuple(map(partial(_build_waiting_row, style), shown, above)), note).without_empty_columns()
    return (table,), [finding for _, findings in shown for finding in findings]


def _iter_waiting_rows(section: PendingSection) -> Iterator[WaitingRow]:
    """Yield each group of waiting pods with its findings, then the findings about other pods, such as victims."""
    by_object: dict[str, list[Finding]] = {}
    for finding in section.findings:
        by_object.setdefault(finding.object, []).append(finding)
    for waiting_pods in section.waiting:
        yield waiting_pods, tuple(by_object.pop(f"Pod {waiting_pods.pods[0]}", ()))
    for findings in by_object.values():
        yield from ((None, (finding,)) for finding in findings)


def _build_waiting_row(style: Style, row: WaitingRow, previous_row: Sequence[Finding]) -> tuple[Cell | Stack, ...]:
    """Return the cells for a row of the table of waiting pods."""
    waiting_pods, findings = row
    severity = format_severity(findings[0]) if findings else ""
    fix_lines = [line for finding in findings for line in iter_fix_lines(finding, previous_row, style)]
    if waiting_pods is None:
        line = (Marked(findings[0].object, Tone.STRONG), findings[0].message)
        return (severity, "", "", Stack((*line, *fix_lines)))
    return (
        severity,
        f"{len(waiting_pods.pods):,}",
        waiting_pods.age,
        Stack((*_iter_cause_lines(waiting_pods), *fix_lines)),
    )


def _iter_cause_lines(waiting_pods: WaitingPods) -> Iterator[Cell]:
    """Yield lines about waiting pods: workloads and cause, an example, the scheduler's last message, and victims."""
    yield Marked(f"{names(waiting_pods.workloads)}: {waiting_pods.cause}", Tone.STRONG)
    example_adds_to_reason = len(waiting_pods.pods) > 1 and waiting_pods.example != waiting_pods.reason
    yield Marked(
        f"{waiting_pods.pods[0]}: {waiting_pods.example}" if example_adds_to_reason else waiting_pods.example,
        CAUSE_TONES.get(waiting_pods.cause, Tone.PLAIN),
    )
    if waiting_pods.cause == "stuck" and waiting_pods.last_said:
        yield Marked(_format_last_words(waiting_pods.last_said), Tone.FAINT)
    for victim in waiting_pods.victims:
        since_text = f" since {victim.asked}" if victim.asked else ""
        overdue_text = f", overdue for {victim.overdue}" if victim.overdue else ""
        yield Marked(
            f"{victim.pod} on {victim.node} terminates{since_text}{overdue_text}",
            Tone.BAD if overdue_text else Tone.FAINT,
        )


def _format_last_words(last: LastWords) -> str:
    """Return the scheduler's last message about a pod, with its age and the number of attempts."""
    attempts_text = f"refused {last.attempts:,} times or more, " if last.attempts > 1 else ""
    return f"{attempts_text}the scheduler last said{f' {last.age} ago' if last.age else ''}: {last.message}"
