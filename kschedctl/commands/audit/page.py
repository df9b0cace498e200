"""The page of Audit: what is unsound, the sections in a table, each with its evidence, findings and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from kschedctl.commands.audit.evidence import (
    leader_blocks,
    packing_blocks,
    placed_blocks,
    priorities_blocks,
    queue_blocks,
    topology_blocks,
)
from kschedctl.commands.audit.latency.page import latency_blocks
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.leader.report import LeaderSection
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.pending.report import PendingSection, WaitingPods
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.commands.audit.priorities.report import PrioritiesSection
from kschedctl.commands.audit.queue.report import QueueSection
from kschedctl.commands.audit.races.page import races_blocks
from kschedctl.commands.audit.races.report import RacesSection
from kschedctl.commands.audit.report import Audit
from kschedctl.commands.audit.sampling.page import sampling_blocks
from kschedctl.commands.audit.sampling.report import SamplingSection
from kschedctl.commands.audit.topology.report import TopologySection
from kschedctl.commands.explain.waiting_report import LastWords
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

FEW = 2
"""Up to so many sections are shown with all their evidence."""
HOW_TO_SEE_MORE = "--section NAME shows the evidence of a section, -o wide that of all"


def audit_page(report: Audit, style: Style) -> Page:
    """Where there are many sections, sound ones have a line in the table alone, the others what was found."""
    checked = f"{count(report.nodes, 'node')}, {count(report.pods, 'pod')}, kube-scheduler {report.kube_version}"
    rows = tuple(
        (Marked(_answer(section), _gravity(section)), section.name, section.headline) for section in report.sections
    )
    columns = (Column("state", keep=True), Column("section", keep=True), Column("answer"))
    table = (Table(columns, rows),) if len(report.sections) > 1 else ()
    page: list[Page] = [
        (paragraph(Marked(report.headline, STATES[report.state])),),
        (
            paragraph(Marked(f"{checked}, {f'at {report.at}' if report.at else 'at an unknown time'}", Tone.FAINT)),
            *table,
        ),
    ]
    not_asked = "; ".join(f"{name} needs {what}" for name, what in report.not_asked.items())
    page += [(paragraph(Marked("not asked:", Tone.FAINT), not_asked),)] if not_asked else []
    brief = len(report.sections) > FEW and not style.wide and style.width < UNFOLDED
    blocks = blocks_in_brief if brief else blocks_of
    page += [build_subsection(section.title, shown) for section in report.sections if (shown := blocks(section, style))]
    page += [(paragraph(Marked(HOW_TO_SEE_MORE, Tone.FAINT)),)] if brief else []
    return tuple(block for part in page for block in part)


def _gravity(section: Section) -> Tone:
    """The tone of the gravest that was found, else of the state."""
    gravest = min((SEVERITIES_BY_GRAVITY.index(finding.severity) for finding in section.findings), default=0)
    return SEVERITIES[SEVERITIES_BY_GRAVITY[gravest]] if section.state == FINDINGS else STATES[section.state]


def _answer(section: Section) -> str:
    """How much was found, else the state.

    A section is unsound by its errors and warnings: notes leave it sound.
    """
    if section.state != FINDINGS:
        return section.state
    numbers = {
        level: sum(finding.severity == level for finding in section.findings) for level in SEVERITIES_BY_GRAVITY[:-1]
    }
    return ", ".join(count(number, level) for level, number in numbers.items() if number)


# -- a section --------------------------------------------------------------------------------------------------------


STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.WARNING}
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
        *build_left_out_lines(section.not_replayed, ()),
        *_not_known(section),
        *_evidence(section, style),
        *found_blocks(section, style, ROWS_SHOWN),
    )


def blocks_in_brief(section: Section, style: Style) -> Page:
    """What was found, and the plots, without the rest of the evidence; of a section that is sound the plots alone."""
    plots = find_plots(_evidence(section, style)) if style.plots else ()
    if section.state == SOUND:
        return plots
    return (*_not_known(section), *found_blocks(section, style, FOUND_IN_BRIEF), *plots)


def _evidence(section: Section, style: Style) -> Page:
    """The blocks of its own; of pending pods and of those not created all that there is to tell is what was found."""
    evidence: Page = ()
    match section:
        case QueueSection():
            evidence = queue_blocks(section, style)
        case PlacedSection():
            evidence = placed_blocks(section, style)
        case RacesSection():
            evidence = races_blocks(section, style)
        case LatencySection():
            evidence = latency_blocks(section, style)
        case SamplingSection():
            evidence = sampling_blocks(section, style)
        case LeaderSection():
            evidence = leader_blocks(section, style)
        case PrioritiesSection():
            evidence = priorities_blocks(section, style)
        case TopologySection():
            evidence = topology_blocks(section, style)
        case PackingSection():
            evidence = packing_blocks(section, style)
    return evidence


def _not_known(section: Section) -> Page:
    if not section.unknown:
        return ()
    grounds = "; its answer could differ" if section.undecided else ""
    return (paragraph(Marked("not known:", Tone.WARNING), f"{describe_unread(section.unknown)}{grounds}"),)


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
    shown, note = limit_rows_by_style(findings, style, limit)
    columns = (Column("severity", keep=True), Column("found"))
    rows = tuple(_finding(finding, shown[max(i - 1, 0) : i], style) for i, finding in enumerate(shown))
    return (Table(columns, rows, note),), shown


def _finding(finding: Finding, above: Sequence[Finding], style: Style) -> tuple[Cell | Stack, ...]:
    object_ = Marked(finding.object, Tone.STRONG)
    return (severity_of(finding), Stack((object_, finding.message, *what_to_do(finding, above, style))))


def _commands(findings: Sequence[Finding], style: Style) -> Page:
    commands = dict.fromkeys(command for finding in findings for command in style.commands.get(finding.fingerprint, ()))
    return tuple(map(Command, islice(commands, None if style.wide else COMMANDS_SHOWN)))


# -- what was found ---------------------------------------------------------------------------------------------------


def severity_of(finding: Finding) -> Marked:
    return Marked(finding.severity, SEVERITIES[finding.severity])


def what_to_do(finding: Finding, above: Sequence[Finding], style: Style) -> Iterator[Cell]:
    """What likely helps, seen to be that without colours too, unless the row above says it; in wide tables the rule."""
    if finding.fix and finding.fix not in (shown.fix for shown in above):
        yield f"→ {finding.fix}"
    if style.wide:
        yield Marked(finding.rule, Tone.FAINT)


TONES = {
    **dict.fromkeys(("stuck", "error", "unserved"), Tone.BAD),
    **dict.fromkeys(("crowded", "backoff", "turn"), Tone.GOOD),
}
Waiting = tuple[WaitingPods | None, tuple[Finding, ...]]
"""Pods that wait and what was found of the first; or what was found of another pod."""


def waiting_table(section: PendingSection, style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """The causes, the gravest first, and the findings that are shown."""
    rows = sorted(
        _causes(section),
        key=lambda row: (
            [SEVERITIES_BY_GRAVITY.index(finding.severity) for finding in row[1]] or [len(SEVERITIES_BY_GRAVITY)]
        ),
    )
    if not rows:
        return (), ()
    shown, note = limit_rows_by_style(rows, style, limit)
    columns = (Column("severity", keep=True), Column("pods", right=True), Column("age"), Column("found"))
    above = [(), *(findings for _, findings in shown)]
    table = Table(columns, tuple(map(partial(_pending, style), shown, above)), note).without_empty_columns()
    return (table,), [finding for _, findings in shown for finding in findings]


def _causes(section: PendingSection) -> Iterator[Waiting]:
    """Each finding once: with the pods that it is about, those of no such pods (victims) last."""
    by_object: dict[str, list[Finding]] = {}
    for finding in section.findings:
        by_object.setdefault(finding.object, []).append(finding)
    for group in section.waiting:
        yield group, tuple(by_object.pop(f"Pod {group.pods[0]}", ()))
    for findings in by_object.values():
        yield from ((None, (finding,)) for finding in findings)


def _pending(style: Style, row: Waiting, above: Sequence[Finding]) -> tuple[Cell | Stack, ...]:
    group, findings = row
    severity = severity_of(findings[0]) if findings else ""
    todo = [line for finding in findings for line in what_to_do(finding, above, style)]
    if group is None:
        line = (Marked(findings[0].object, Tone.STRONG), findings[0].message)
        return (severity, "", "", Stack((*line, *todo)))
    return (severity, f"{len(group.pods):,}", group.age, Stack((*_told(group), *todo)))


def _told(waiting_pods: WaitingPods) -> Iterator[Cell]:
    yield Marked(f"{names(waiting_pods.workloads)}: {waiting_pods.cause}", Tone.STRONG)
    others = len(waiting_pods.pods) > 1 and waiting_pods.example != waiting_pods.reason
    yield Marked(
        f"{waiting_pods.pods[0]}: {waiting_pods.example}" if others else waiting_pods.example,
        TONES.get(waiting_pods.cause, Tone.PLAIN),
    )
    if waiting_pods.cause == "stuck" and waiting_pods.last_said:
        yield Marked(_said(waiting_pods.last_said), Tone.FAINT)
    for victim in waiting_pods.victims:
        since = f" since {victim.asked}" if victim.asked else ""
        late = f", overdue for {victim.overdue}" if victim.overdue else ""
        yield Marked(f"{victim.pod} on {victim.node} terminates{since}{late}", Tone.BAD if late else Tone.FAINT)


def _said(last: LastWords) -> str:
    often = f"refused {last.attempts:,} times or more, " if last.attempts > 1 else ""
    return f"{often}the scheduler last said{f' {last.age} ago' if last.age else ''}: {last.message}"
