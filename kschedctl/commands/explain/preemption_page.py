"""The section about preemption: where it would make room, and which pods it would evict."""

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
from kschedctl.render.tables import build_table, keep_row
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing

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


def build_preemption_section(report: PreemptionReport | None, style: Style) -> Page:
    """Build the section about preemption.

    Return () if preemption was not considered, or if it finds no candidates and gives no reason.
    """
    if report is None:
        return ()
    has_nothing_to_show = report.eligible and not report.candidates and not report.why
    if has_nothing_to_show:
        return ()
    if report.terminating:
        are = agreeing(len(report.terminating), "this pod is", "these pods are")
        under_way = paragraph(f"Under way: {are} terminating on", report.nominated)
        return section("Preemption", under_way, Bullets(report.terminating))
    title = "Preemption" if report.plugin == DEFAULT else f"Preemption by {report.plugin}"
    if not report.asked:
        title += ", which the scheduler does not run here"
    if not report.eligible:
        return section(title, paragraph(Marked(report.why or "not eligible", Tone.WARNING)))
    return section(
        title,
        *_build_outcome_line(report),
        *_build_harm_lines(report),
        *_build_victims_table(report, style),
        *_build_ties_list(report, style),
        *_build_unhelpful_list(report),
    )


def _build_outcome_line(report: PreemptionReport) -> list[Block]:
    """Build the line on where preemption would make room or why it does not help. Return [] if neither is known."""
    if report.why:
        return [paragraph(Marked("does not help", Tone.WARNING), report.why)]
    if report.chosen is None or report.chosen not in report.candidates:
        return []
    prediction = "kube-scheduler would make room" if report.asked else "it would make room"
    evicting = f"by evicting {count(len(report.candidates[report.chosen].victims), 'pod')}"
    if len(report.tied) > 1:
        tied_nodes = f"on one of {len(report.tied)} equally good nodes {evicting}, picked at random:"
        names = ", ".join(report.tied[:TIED_SHOWN]) + (", …" if len(report.tied) > TIED_SHOWN else "")
        return [paragraph(prediction, tied_nodes, Marked(names, Tone.GOOD))]
    decided = f"{evicting}, decided by: {report.decided_by}" if report.decided_by else evicting
    return [paragraph(prediction, "on", Marked(report.chosen, Tone.GOOD), decided)]


def _build_harm_lines(report: PreemptionReport) -> Page:
    """Build a line for each harm that the table of victims does not show.

    These are later victims without a node, violated PodDisruptionBudgets, and Jobs that fail because their pods are
    evicted.
    """
    lines = [paragraph(Marked("Further evictions:", Tone.WARNING), f"{text}.") for text in report.later_evictions]
    for text in (*report.budget_violations, *report.failures_on_tied_nodes):
        sentence = f"{text[:1].upper()}{text[1:]}."
        lines.append(paragraph(Marked(sentence, Tone.WARNING)))
    lines += [paragraph(Marked("Lost:", Tone.WARNING), f"{job.describe()}.") for job in report.failed_jobs]
    return tuple(lines)


def _build_victims_table(report: PreemptionReport, style: Style) -> Page:
    """Build the table of victims, first on the chosen node, then on tied nodes, then on the other nodes."""
    names = sorted(report.candidates, key=lambda node: (node != report.chosen, node not in report.tied))
    rows = [row for node in names for row in _build_victim_rows(node, report.candidates[node], node == report.chosen)]
    if style.narrow:
        return build_table(rows, NARROW_COLUMNS, _build_narrow_victim_row, style, limit=VICTIMS_SHOWN, each_node=True)
    return build_table(rows, COLUMNS, keep_row, style, limit=VICTIMS_SHOWN, full=False, each_node=True)


def _build_ties_list(report: PreemptionReport, style: Style) -> list[Block]:
    """Build the list of pods among which kube-scheduler picks victims arbitrarily, because they are equally good.

    The list covers the chosen node and the nodes that are tied with it, with at most TIES_SHOWN entries. If the style
    lists all nodes, it covers all candidate nodes without a limit. Return [] if there are no such pods.
    """
    tied_nodes = [node for node in report.candidates if node in report.tied and node != report.chosen]
    nodes = [node for node in report.candidates if node == report.chosen] + tied_nodes
    if style.lists_all_nodes:
        nodes += [node for node in report.candidates if node not in nodes]
    ties = []
    for node in nodes:
        candidate = report.candidates[node]
        ties += [_describe_tie(node, equal_pods, candidate) for equal_pods in candidate.ties]
    shown, note = limit_rows(ties, None if style.lists_all_nodes else TIES_SHOWN)
    if not shown:
        return []
    return [Bullets((*shown, note) if note else tuple(shown))]


def _describe_tie(node: str, equals: tuple[str, ...], candidate: CandidateReport) -> str:
    """Describe pods of a node that are equal in priority and start time. Which of them are evicted is arbitrary."""
    victims = [pod for pod in equals if pod in candidate.victims]
    alternatives = ""
    if len(victims) < len(equals):
        alternatives = f", so it may evict pods other than {names(victims, TIED_SHOWN)}"
    equal_pods = f"{names(equals, TIED_SHOWN)} have the same priority and start time"
    return f"{node}: {equal_pods}; kube-scheduler takes them in an arbitrary order{alternatives}"


def _build_narrow_victim_row(row: tuple[Cell, ...]) -> tuple[Cell | Stack, ...]:
    """Convert a victim's row to one for narrow tables, with the details stacked below the pod's name."""
    node, pod, priority, owner, started, budgets = map(with_tone, row)
    facts_by_label = {"of": owner.text, "started": started.text, "breaks PDB": budgets.text}
    facts = (Marked(f"{label} {value}" if value else "", Tone.FAINT) for label, value in facts_by_label.items())
    return (node, priority, Stack((pod, *facts)))


def _build_victim_rows(node: str, candidate: CandidateReport, chosen: bool) -> list[tuple[Cell, ...]]:
    """Build a row for each victim on one node. Only the first row names the node.

    If there are no victims, the only row says "no pod".
    """
    details = {victim.pod: victim for victim in candidate.details}
    name = Marked(node, Tone.GOOD) if chosen else node
    rows = [_build_victim_cells(pod, details.get(pod)) for pod in candidate.victims] or [("no pod", "", "", "", "")]
    return [("" if position else name, *row) for position, row in enumerate(rows)]


def _build_victim_cells(pod: str, victim: VictimReport | None) -> tuple[Cell, ...]:
    """Build the cells for a victim: only the pod's name if there is no report on it."""
    if victim is None:
        return (pod, "", "", "", "")
    budgets = Marked(", ".join(victim.budgets), Tone.BAD)
    return (pod, f"{victim.priority:,}", victim.owner, victim.start_time or "", budgets)


def _build_unhelpful_list(report: PreemptionReport) -> list[Block]:
    """Build the list of reasons why preemption does not help on the other nodes, or return [] if there are none."""
    if not report.unhelpful:
        return []
    return [Bullets(tuple(f"{count(nodes, 'node')}: {reason}" for reason, nodes in report.unhelpful.items()))]
