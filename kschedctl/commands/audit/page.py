"""The page of an audit: a table of the sections, then each section with its evidence and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kschedctl.commands.audit.evidence import (
    build_kueue_tables,
    build_leader_tables,
    build_packing_tables_and_plots,
    build_placed_pods_tables,
    build_priority_tables,
    build_queue_table,
    build_topology_tables,
)
from kschedctl.commands.audit.latency.page import build_latency_evidence
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.pending import CAUSE_TITLES
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
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
    Block,
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
from kschedctl.render.sections import build_interruption_line, build_left_out_lines
from kschedctl.render.tables import ROWS_SHOWN
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import SEVERITIES, SEVERITIES_BY_GRAVITY, Finding
from kschedctl.reports.section import FINDINGS, SOUND, Section
from kschedctl.reports.unknown import describe_unread_kinds
from kschedctl.text.counts import join_words, spell_age

MAX_SECTIONS_IN_FULL = 2
"""The maximum number of sections that are all shown with their evidence."""
HOW_TO_SEE_MORE = "Use --section NAME to see the evidence for one section, or -o wide for all sections"


def build_audit_page(report: Audit, style: Style) -> Page:
    """Build the page of an audit: the headline, a table of the sections, and then each section.

    If there are many sections and the output is narrow, the only evidence is plots. Sections without findings then have
    nothing but their row in the table and their plots.
    """
    page: list[Block] = [
        *build_interruption_line(report.interrupted, report.describe_interruption()),
        paragraph(Marked(report.headline, _choose_audit_tone(report))),
        paragraph(Marked(_describe_audited_cluster(report), Tone.FAINT)),
    ]
    if len(report.sections) > 1:
        page.append(_build_overview_table(report))
    if report.not_asked:
        missing_options = join_words([f"{name} (needs {option})" for name, option in report.not_asked.items()])
        page.append(paragraph(Marked("Not audited:", Tone.FAINT), missing_options))

    is_brief = len(report.sections) > MAX_SECTIONS_IN_FULL and not style.wide and style.width < UNFOLDED
    build_blocks = build_brief_section_blocks if is_brief else build_section_blocks
    for section in report.sections:
        blocks = build_blocks(section, style)
        if blocks:
            page += build_subsection(section.title, blocks)
    if is_brief:
        page.append(paragraph(Marked(HOW_TO_SEE_MORE, Tone.FAINT)))
    return tuple(page)


def _describe_audited_cluster(report: Audit) -> str:
    """Return the size of the cluster, the version of its scheduler and the time as text."""
    size = f"{count(report.nodes, 'node')}, {count(report.pods, 'pod')}"
    time = f"at {report.at}" if report.at else "snapshot time unknown (ages are relative to now)"
    return f"{size}, kube-scheduler {report.kube_version}, {time}"


def _build_overview_table(report: Audit) -> Table:
    """Build a table with the state and the headline of each section."""
    columns = (Column("state", keep=True), Column("section", keep=True), Column("answer"))
    rows = (
        (Marked(section.describe_state(), _choose_section_tone(section)), section.name, section.headline)
        for section in report.sections
    )
    return Table(columns, tuple(rows))


def _choose_audit_tone(report: Audit) -> Tone:
    """Return the tone of the gravest finding, or of the audit's state if it has no findings."""
    if report.state != FINDINGS:
        return STATES[report.state]
    severities = {finding.severity for section in report.sections for finding in section.findings}
    return SEVERITIES[min(severities, key=SEVERITIES_BY_GRAVITY.index)]


def _choose_section_tone(section: Section) -> Tone:
    """Return the tone of the section's gravest finding, or of the section's state if there are no findings.

    A section that was not judged is faint.
    """
    if section.is_not_judged:
        return Tone.FAINT
    if section.state != FINDINGS:
        return STATES[section.state]
    severities = {finding.severity for finding in section.findings}
    gravest = min(severities, key=SEVERITIES_BY_GRAVITY.index)
    return SEVERITIES[gravest]


# -- a section --------------------------------------------------------------------------------------------------------


STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.WARNING}
FINDINGS_IN_BRIEF = 3
COMMANDS_SHOWN = 3
"""The number of commands shown below a table of findings; wide output shows one for each finding."""


def build_section_page(section: Section, style: Style) -> Page:
    """Build the page of a single section: its headline, caveats, evidence and findings.

    If the section was interrupted, the page says so first.
    """
    interruption = build_interruption_line(section.interrupted)
    answer = paragraph(Marked(section.headline, _choose_section_tone(section)))
    blocks = build_section_blocks(section, style)
    return (*interruption, answer, Heading(section.title), *blocks) if blocks else (*interruption, answer)


def build_section_blocks(section: Section, style: Style) -> Page:
    """Build the caveats, evidence and findings of a section. Return () if there are none."""
    return (
        *build_left_out_lines(section.not_replayed, ()),
        *_build_unknowns_line(section),
        *_build_evidence(section, style),
        *build_findings_blocks(section, style, ROWS_SHOWN),
    )


def build_brief_section_blocks(section: Section, style: Style) -> Page:
    """Build the findings and plots of a section, without its other evidence.

    For a sound section, only the plots are returned.
    """
    plots = find_plots(_build_evidence(section, style)) if style.plots else ()
    if section.state == SOUND:
        return plots
    return (*_build_unknowns_line(section), *build_findings_blocks(section, style, FINDINGS_IN_BRIEF), *plots)


def _build_evidence(section: Section, style: Style) -> Page:
    """Build the evidence of a section, depending on its type.

    The sections "pending", "creation" and "drains" have only findings, so their evidence is empty.
    """
    evidence: Page = ()
    match section:
        case QueueSection():
            evidence = build_queue_table(section, style)
        case QueuesSection():
            evidence = build_kueue_tables(section, style)
        case PlacedSection():
            evidence = build_placed_pods_tables(section, style)
        case RacesSection():
            evidence = build_races_evidence(section, style)
        case LatencySection():
            evidence = build_latency_evidence(section, style)
        case SamplingSection():
            evidence = build_sampling_evidence(section, style)
        case LeaderSection():
            evidence = build_leader_tables(section, style)
        case PrioritiesSection():
            evidence = build_priority_tables(section, style)
        case TopologySection():
            evidence = build_topology_tables(section, style)
        case PackingSection():
            evidence = build_packing_tables_and_plots(section, style)
    return evidence


def _build_unknowns_line(section: Section) -> Page:
    """Build the line about kinds of objects that were not read, if there are any.

    The line also says if they could change the section's answer.
    """
    if not section.unknown:
        return ()
    consequence = ", so some findings may be missing" if section.undecided else ""
    return (paragraph(Marked("Incomplete:", Tone.WARNING), f"{describe_unread_kinds(section.unknown)}{consequence}"),)


def build_findings_blocks(section: Section, style: Style, limit: int) -> Page:
    """Build a table of the first `limit` findings with their fixes, and the commands to run next.

    In section "pending", the table also has the pods without a finding. Wide output shows all findings.
    """
    if isinstance(section, PendingSection):
        table, shown = build_waiting_table(section, style, limit)
    else:
        table, shown = _build_findings_table(section.findings, style, limit)
    return (*table, *_build_next_commands(shown, style))


def _build_findings_table(findings: Sequence[Finding], style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """Build a table of the first `limit` findings. Return the table and the findings in it.

    Without findings both are empty.
    """
    if not findings:
        return (), ()
    shown_findings, note = limit_rows_by_style(findings, style, limit)
    columns = (Column("severity", keep=True), Column("finding"))
    rows = []
    findings_above: tuple[Finding, ...] = ()
    for finding in shown_findings:
        rows.append(_build_finding_row(finding, findings_above, style))
        findings_above = (finding,)
    return (Table(columns, tuple(rows), note),), shown_findings


def _build_finding_row(finding: Finding, findings_above: Sequence[Finding], style: Style) -> tuple[Cell | Stack, ...]:
    """Return the cells for a finding. If a finding of the row above, in `findings_above`, has the same fix, omit it."""
    object_ = Marked(finding.object, Tone.STRONG)
    fix_lines = iter_fix_lines(finding, findings_above, style)
    return (format_severity(finding), Stack((object_, finding.message, *fix_lines)))


def _build_next_commands(findings: Sequence[Finding], style: Style) -> Page:
    """Build the commands to run next for findings, without duplicates. Only wide output has all of them."""
    commands = dict.fromkeys(command for finding in findings for command in style.commands.get(finding.fingerprint, ()))
    if not commands:
        return ()
    shown_commands = islice(commands, None if style.wide else COMMANDS_SHOWN)
    return (paragraph(Marked("To look into these findings:", Tone.FAINT)), *map(Command, shown_commands))


# -- what was found ---------------------------------------------------------------------------------------------------


def format_severity(finding: Finding) -> Marked:
    """Return the severity of a finding in its color."""
    return Marked(finding.severity, SEVERITIES[finding.severity])


def iter_fix_lines(finding: Finding, findings_above: Sequence[Finding], style: Style) -> Iterator[Cell]:
    """Yield the fix of a finding, unless the row above has the same fix. Wide output also has the rule's name."""
    if finding.fix and finding.fix not in (above.fix for above in findings_above):
        yield f"→ {finding.fix}"
    if style.wide:
        yield Marked(finding.rule, Tone.FAINT)


CAUSE_TONES = {
    **dict.fromkeys(("stuck", "error", "unserved"), Tone.BAD),
    **dict.fromkeys(("crowded", "backoff", "turn"), Tone.GOOD),
}


class WaitingRow(NamedTuple):
    """A row of the table of waiting pods."""

    waiting_pods: WaitingPods | None
    """The pods, None if the row is about a finding on another object."""
    findings: tuple[Finding, ...]
    """The findings about the first of the pods, or the finding on another object."""

    def get_sort_key(self) -> list[int]:
        """Return a sort key that puts rows with graver findings first, and rows without findings last."""
        gravities = [SEVERITIES_BY_GRAVITY.index(finding.severity) for finding in self.findings]
        return gravities or [len(SEVERITIES_BY_GRAVITY)]


def build_waiting_table(section: PendingSection, style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """Build a table of the causes for which pods wait, gravest first. Return the table and the findings in it.

    Both are empty if there are neither waiting pods nor findings. The table has at most `limit` rows, unless the style
    is wide.
    """
    rows = sorted(_iter_waiting_rows(section), key=WaitingRow.get_sort_key)
    if not rows:
        return (), ()
    shown_rows, note = limit_rows_by_style(rows, style, limit)
    columns = (Column("severity", keep=True), Column("pods", right=True), Column("age", right=True), Column("finding"))
    cells = []
    findings_above: tuple[Finding, ...] = ()
    for row in shown_rows:
        cells.append(_build_waiting_row(row, findings_above, style))
        findings_above = row.findings
    table = Table(columns, tuple(cells), note).without_empty_columns()
    return (table,), [finding for row in shown_rows for finding in row.findings]


def _iter_waiting_rows(section: PendingSection) -> Iterator[WaitingRow]:
    """Yield each group of waiting pods with its findings, then the findings about other pods, such as victims."""
    findings_by_object: dict[str, list[Finding]] = {}
    for finding in section.findings:
        findings_by_object.setdefault(finding.object, []).append(finding)

    for waiting_pods in section.waiting:
        first_pod = f"Pod {waiting_pods.pods[0]}"  # the findings about a group name its first pod
        yield WaitingRow(waiting_pods, tuple(findings_by_object.pop(first_pod, ())))
    for findings in findings_by_object.values():
        for finding in findings:
            yield WaitingRow(None, (finding,))


def _build_waiting_row(row: WaitingRow, findings_above: Sequence[Finding], style: Style) -> tuple[Cell | Stack, ...]:
    """Build a row of the table of waiting pods. Fixes that the row above has are not repeated.

    A row without pods shows the object and the message of its finding.
    """
    waiting_pods, findings = row
    severity = format_severity(findings[0]) if findings else ""
    fix_lines = [line for finding in findings for line in iter_fix_lines(finding, findings_above, style)]
    if waiting_pods is None:
        finding_lines = (Marked(findings[0].object, Tone.STRONG), findings[0].message)
        return (severity, "", "", Stack((*finding_lines, *fix_lines)))
    pod_count = f"{len(waiting_pods.pods):,}"
    return (severity, pod_count, waiting_pods.age, Stack((*_iter_waiting_pods_lines(waiting_pods), *fix_lines)))


def _iter_waiting_pods_lines(waiting_pods: WaitingPods) -> Iterator[Cell]:
    """Yield lines about waiting pods: their workloads and cause, an example, and terminating victims.

    For stuck pods, the scheduler's last message follows the example.
    """
    yield Marked(f"{names(waiting_pods.workloads)}: {CAUSE_TITLES[waiting_pods.cause]}", Tone.STRONG)
    is_about_one_of_several = len(waiting_pods.pods) > 1 and waiting_pods.example != waiting_pods.reason
    pod_prefix = f"{waiting_pods.pods[0]}: " if is_about_one_of_several else ""
    yield Marked(f"{pod_prefix}{waiting_pods.example}", CAUSE_TONES.get(waiting_pods.cause, Tone.PLAIN))
    if waiting_pods.cause == "stuck" and waiting_pods.last_said:
        yield Marked(_format_last_message(waiting_pods.last_said), Tone.FAINT)
    for victim in waiting_pods.victims:
        since_text = f" since {victim.asked}" if victim.asked else ""
        overdue_text = f", overdue for {victim.overdue}" if victim.overdue else ""
        tone = Tone.BAD if victim.overdue else Tone.FAINT
        yield Marked(f"{victim.pod} on {victim.node} terminating{since_text}{overdue_text}", tone)


def _format_last_message(last: LastWords) -> str:
    """Return the scheduler's last message about a pod, with its age and the number of attempts."""
    attempts_text = f"rejected at least {last.attempts:,} times, " if last.attempts > 1 else ""
    age_text = f" {spell_age(last.age)} ago" if last.age else ""
    return f"{attempts_text}the scheduler last said{age_text}: {last.message}"
