"""The preemption section of a page: may the pod evict others, where, whom, and which node would be chosen."""

from __future__ import annotations

from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Column,
    Marked,
    Page,
    Style,
    Table,
    Tone,
    count,
    paragraph,
    section,
    shown_first,
)
from kschedctl.reports.explanation import CandidateReport, PreemptionReport, VictimReport

VICTIMS_SHOWN = 20
COLUMNS = (
    Column("node", keep=True),
    Column("victim", keep=True),
    Column("priority", right=True),
    Column("owner"),
    Column("started"),
    Column("PDB"),
)


def preemption_section(report: PreemptionReport | None, style: Style) -> Page:
    """Nothing when preemption did not come up."""
    if report is None:
        return ()
    if not report.eligible:
        return section("Preemption", paragraph(Marked("not eligible:", Tone.WARNING), report.why or "no reason given"))
    return section("Preemption", *_outcome(report), *_candidates(report, style), *_unhelpful(report))


def _outcome(report: PreemptionReport) -> list[Block]:
    if not report.candidates:
        return [paragraph(Marked("does not help", Tone.WARNING), report.why)] if report.why else []
    blocks: list[Block] = []
    if report.chosen:
        victims = count(len(report.candidates[report.chosen].victims), "pod") if report.chosen in report.candidates else ""
        evicting = f"evicting {victims}" if victims else ""
        by = f"decided by: {report.decided_by}" if report.decided_by else ""
        told = "; ".join(part for part in (evicting, by) if part)
        blocks.append(paragraph("kube-scheduler would make room on", Marked(report.chosen, Tone.GOOD), told))
    if len(report.tied) > 1:
        blocks.append(paragraph("tied, one of them is picked at random:", ", ".join(report.tied)))
    return blocks


def _candidates(report: PreemptionReport, style: Style) -> list[Block]:
    """One row a victim; the chosen node first, then those tied with it."""
    names = sorted(report.candidates, key=lambda node: (node != report.chosen, node not in report.tied))
    all_rows = [row for node in names for row in _victims(node, report.candidates[node], node == report.chosen)]
    rows, left_out = shown_first(all_rows, None if style.unlimited else VICTIMS_SHOWN)
    if not rows:
        return []
    blocks: list[Block] = [Table(COLUMNS, rows).without_empty_columns()]
    if left_out:
        blocks.append(paragraph(Marked(f"… {left_out:,} more victims, --nodes shows all", Tone.FAINT)))
    return blocks


def _victims(node: str, candidate: CandidateReport, chosen: bool) -> list[tuple[Cell, ...]]:
    details = {victim.pod: victim for victim in candidate.details}
    name = Marked(node, Tone.GOOD) if chosen else node
    rows = [_victim(pod, details.get(pod)) for pod in candidate.victims] or [("nobody", "", "", "", "")]
    return [(name if not position else "", *row) for position, row in enumerate(rows)]


def _victim(pod: str, victim: VictimReport | None) -> tuple[Cell, ...]:
    if victim is None:
        return (pod, "", "", "", "")
    budget = Marked("violated", Tone.BAD) if victim.violates_pdb else ""
    return (pod, f"{victim.priority:,}", victim.owner, victim.start_time or "", budget)


def _unhelpful(report: PreemptionReport) -> list[Block]:
    if not report.unhelpful:
        return []
    return [Bullets(tuple(f"{count(nodes, 'node')}: {reason}" for reason, nodes in report.unhelpful.items()))]
