"""What an audit tells of pending pods: by cause, with what was found of each and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kschedctl.render.page import Cell, Marked, Page, Stack, Style, Table, first_rows, names
from kschedctl.render.pages.audit.findings import severity_of, what_to_do
from kschedctl.reports.audit.pending import LastWords, PendingSection, WaitingPods
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.findings import LEVELS, Finding

TONES = {
    **dict.fromkeys(("stuck", "error", "unserved"), Tone.BAD),
    **dict.fromkeys(("crowded", "backoff", "turn"), Tone.GOOD),
}
Row = tuple[WaitingPods | None, tuple[Finding, ...]]
"""Pods that wait and what was found of the first; or what was found of another pod."""


def waiting_table(section: PendingSection, style: Style, limit: int) -> tuple[Page, Sequence[Finding]]:
    """The causes, the gravest first, and the findings that are shown."""
    rows = sorted(_rows(section), key=lambda row: [LEVELS.index(found.severity) for found in row[1]] or [len(LEVELS)])
    if not rows:
        return (), ()
    shown, note = first_rows(rows, style, limit)
    columns = (Column("severity", keep=True), Column("pods", right=True), Column("age"), Column("found"))
    above = [(), *(findings for _, findings in shown)]
    table = Table(columns, tuple(map(partial(_row, style), shown, above)), note).without_empty_columns()
    return (table,), [finding for _, findings in shown for finding in findings]


def _rows(section: PendingSection) -> Iterator[Row]:
    """Each finding once: with the pods that it is about, those of no such pods (victims) last."""
    by_object: dict[str, list[Finding]] = {}
    for finding in section.findings:
        by_object.setdefault(finding.object, []).append(finding)
    for group in section.waiting:
        yield group, tuple(by_object.pop(f"Pod {group.pods[0]}", ()))
    for found in by_object.values():
        yield from ((None, (finding,)) for finding in found)


def _row(style: Style, row: Row, above: Sequence[Finding]) -> tuple[Cell | Stack, ...]:
    group, findings = row
    severity = severity_of(findings[0]) if findings else ""
    todo = [line for finding in findings for line in what_to_do(finding, above, style)]
    if group is None:
        told = (Marked(findings[0].object, Tone.STRONG), findings[0].message)
        return (severity, "", "", Stack((*told, *todo)))
    return (severity, f"{len(group.pods):,}", group.age, Stack((*_told(group), *todo)))


def _told(found: WaitingPods) -> Iterator[Cell]:
    yield Marked(f"{names(found.workloads)}: {found.cause}", Tone.STRONG)
    others = len(found.pods) > 1 and found.example != found.reason
    yield Marked(f"{found.pods[0]}: {found.example}" if others else found.example, TONES.get(found.cause, Tone.PLAIN))
    if found.cause == "stuck" and found.last_said:
        yield Marked(_said(found.last_said), Tone.FAINT)
    for victim in found.victims:
        since = f" since {victim.asked}" if victim.asked else ""
        late = f", overdue for {victim.overdue}" if victim.overdue else ""
        yield Marked(f"{victim.pod} on {victim.node} terminates{since}{late}", Tone.BAD if late else Tone.FAINT)


def _said(last: LastWords) -> str:
    often = f"refused {last.attempts:,} times or more, " if last.attempts > 1 else ""
    return f"{often}the scheduler last said{f' {last.age} ago' if last.age else ''}: {last.message}"
