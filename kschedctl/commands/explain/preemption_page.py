"""The section about preemption: where it would make room, and for whom pods would be evicted."""

from __future__ import annotations

from kschedctl.commands.explain.report import CandidateReport, PreemptionReport, VictimReport
from kschedctl.render.page import (
    Block,
    Bullets,
    Cell,
    Marked,
    Page,
    Stack,
    Style,
    count,
    limit_rows,
    names,
    paragraph,
    section,
    with_tone,
)
from kschedctl.render.tables import build_table, return_row
from kschedctl.reports.columns import Column, Tone

DEFAULT = "DefaultPreemption"
VICTIMS_SHOWN, TIED_SHOWN, TIES_SHOWN = 20, 10, 3
COLUMNS = (
    Column("node", keep=True),
    Column("victim", keep=True),
    Column("priority", right=True),
    Column("owner", beneath="of"),
    Column("started", beneath="started"),
    Column("breaks PDB", beneath="breaks PDB"),
)
NARROW_COLUMNS = (Column("node", keep=True), Column("priority", right=True), Column("victim"))


def build_preemption(report: PreemptionReport | None, style: Style) -> Page:
    """Build the section about preemption, or nothing if preemption did not come up."""
    if report is None or (report.eligible and not report.candidates and not report.why):
        return ()  # kube-scheduler's message tells why it does not help
    if report.terminating:
        gone = Bullets(report.terminating)
        return section("Preemption", paragraph("under way, these pods are terminating on", report.nominated), gone)
    by = "" if report.plugin == DEFAULT else f" by {report.plugin}"
    title = f"Preemption{by}" if report.asked else f"Preemption{by}, for which the scheduler does not ask here"
    if not report.eligible:
        return section(title, paragraph(Marked(report.why or "not eligible", Tone.WARNING)))
    return section(
        title,
        *_describe_outcome(report),
        *_build_candidates(report, style),
        *_build_ties(report, style),
        *_build_unhelpful(report),
    )


def _describe_outcome(report: PreemptionReport) -> list[Block]:
    """Describe where the scheduler would make room, or why preemption does not help."""
    if not report.candidates or report.why:
        return [paragraph(Marked("does not help", Tone.WARNING), report.why)] if report.why else []
    if report.chosen is None or report.chosen not in report.candidates:
        return []
    would = "kube-scheduler would make room" if report.asked else "it would make room"
    evicting = f"by evicting {count(len(report.candidates[report.chosen].victims), 'pod')}"
    if len(report.tied) > 1:
        where = f"on one of {len(report.tied)} tied nodes {evicting}, picked at random:"
        names = ", ".join(report.tied[:TIED_SHOWN]) + (", …" if len(report.tied) > TIED_SHOWN else "")
        return [paragraph(would, where, Marked(names, Tone.GOOD))]
    decided = f"{evicting}, decided by: {report.decided_by}" if report.decided_by else evicting
    return [paragraph(would, "on", Marked(report.chosen, Tone.GOOD), decided)]


def _build_candidates(report: PreemptionReport, style: Style) -> Page:
    """Build the table of victims, one row each: first those on the chosen node, then those on tied nodes."""
    names = sorted(report.candidates, key=lambda node: (node != report.chosen, node not in report.tied))
    rows = [row for node in names for row in _build_victim_rows(node, report.candidates[node], node == report.chosen)]
    if style.narrow:
        return build_table(rows, NARROW_COLUMNS, _build_narrow_row, style, limit=VICTIMS_SHOWN, each_node=True)
    return build_table(rows, COLUMNS, return_row, style, limit=VICTIMS_SHOWN, full=False, each_node=True)


def _build_ties(report: PreemptionReport, style: Style) -> list[Block]:
    """Build the list of victims that other pods might replace, on the chosen and the tied nodes."""
    nodes = sorted(report.candidates, key=lambda node: (node != report.chosen, node not in report.tied))
    nodes = [node for node in nodes if style.lists_all_nodes or node == report.chosen or node in report.tied]
    ties = [
        _describe_tie(node, same, report.candidates[node]) for node in nodes for same in report.candidates[node].ties
    ]
    shown, note = limit_rows(ties, None if style.lists_all_nodes else TIES_SHOWN)
    return [Bullets((*shown, note) if note else tuple(shown))] if shown else []


def _describe_tie(node: str, equals: tuple[str, ...], candidate: CandidateReport) -> str:
    """Describe pods of a node with equal priority and start time."""
    victims = [pod for pod in equals if pod in candidate.victims]
    alternatives = "" if len(victims) == len(equals) else f", so others may go than {names(victims, TIED_SHOWN)}"
    equal = f"{names(equals, TIED_SHOWN)} are equal in priority and start"
    return f"{node}: {equal}; kube-scheduler takes them in the order of its memory{alternatives}"


def _build_narrow_row(row: tuple[Cell, ...]) -> tuple[Cell | Stack, ...]:
    """Build the row of a narrow table, with the facts about the victim below its name."""
    node, pod, priority, owner, started, budgets = map(with_tone, row)
    facts_by_label = {"of": owner.text, "started": started.text, "breaks PDB": budgets.text}
    facts = (Marked(f"{what} {value}" if value else "", Tone.FAINT) for what, value in facts_by_label.items())
    return (node, priority, Stack((pod, *facts)))


def _build_victim_rows(node: str, candidate: CandidateReport, chosen: bool) -> list[tuple[Cell, ...]]:
    """Build the rows of the victims on one node."""
    details = {victim.pod: victim for victim in candidate.details}
    name = Marked(node, Tone.GOOD) if chosen else node
    rows = [_build_victim_cells(pod, details.get(pod)) for pod in candidate.victims] or [("nobody", "", "", "", "")]
    return [(name if not position else "", *row) for position, row in enumerate(rows)]


def _build_victim_cells(pod: str, victim: VictimReport | None) -> tuple[Cell, ...]:
    """Build the cells about one victim."""
    if victim is None:
        return (pod, "", "", "", "")
    budgets = Marked(", ".join(victim.budgets), Tone.BAD)
    return (pod, f"{victim.priority:,}", victim.owner, victim.start_time or "", budgets)


def _build_unhelpful(report: PreemptionReport) -> list[Block]:
    """Build the list of reasons why preemption does not help on other nodes."""
    if not report.unhelpful:
        return []
    return [Bullets(tuple(f"{count(nodes, 'node')}: {reason}" for reason, nodes in report.unhelpful.items()))]
