"""The page of an Explanation: verdict, what refused how many nodes, the nodes, scores, preemption, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import (
    Bullets,
    Cell,
    Column,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    Tone,
    paragraph,
    section,
    shown_first,
)
from kschedctl.render.preemption import preemption_section
from kschedctl.render.reservations import reservations_section
from kschedctl.render.scores import scores_section
from kschedctl.render.sections import not_known_lines, not_replayed_lines
from kschedctl.reports.explanation import Elimination, Explanation, NodeReport
from kschedctl.reports.unknown import VERDICT, reasons, unless

NODES_SHOWN = 10
TONES = {"Schedulable": Tone.GOOD, "Unschedulable": Tone.BAD, "Error": Tone.BAD}


def explanation_page(report: Explanation, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *_verdict(report),
        *not_replayed_lines(report.not_replayed),
        *not_known_lines(report.unknown),
        *_before_nodes(report),
        *eliminations_section(report.eliminations, style),
        *_nodes(report, style),
        *scores_section(report, style),
        *reservations_section(report, style),
        *preemption_section(report.preemption, style),
        *_advice(report),
    )


def _verdict(report: Explanation) -> Iterator[Paragraph]:
    said = report.message if report.verdict == "Unschedulable" else report.headline
    if report.undecided:
        of_verdict = [each for each in report.unknown if each.affects == VERDICT]
        verdict = Marked(f"{report.verdict}, {unless(of_verdict)}:", Tone.WARNING)
        yield paragraph(Marked(report.pod, Tone.STRONG), verdict, reasons(of_verdict))
        yield paragraph(said or "")
        return
    verdict = Marked(report.verdict + (":" if said else ""), TONES.get(report.verdict, Tone.WARNING))
    yield paragraph(Marked(report.pod, Tone.STRONG), verdict, said or "")
    if report.stands_for:
        yield paragraph(Marked(report.stands_for, Tone.FAINT))
    if report.headline not in ("", said):
        yield paragraph(report.headline)


def _before_nodes(report: Explanation) -> Page:
    """What refused the pod, or narrowed the nodes down, before any node was looked at."""
    refusals = [
        (point, plugin, Marked(reason, Tone.BAD))
        for point, answers in (("PreEnqueue", report.queue), ("PreFilter", report.pre_filter))
        for plugin, answer in answers.items()
        if answer.code not in ("Success", "Skip")
        for reason in answer.reasons
    ]
    narrowed: list[tuple[Cell, ...]] = [
        ("PreFilter", plugin, f"leaves only {_some(answer.node_names)}")
        for plugin, answer in report.pre_filter.items()
        if answer.node_names is not None
    ]
    rows = (*refusals, *narrowed)
    if not rows:
        return ()
    return section("Before any node", Table((Column("point"), Column("plugin"), Column("answer")), rows))


def _some(names: tuple[str, ...]) -> str:
    """``w1, w2, w3 and 7 more``."""
    if len(names) <= 4:
        return ", ".join(names) or "no node"
    return f"{', '.join(names[:3])} and {len(names) - 3:,} more"


def eliminations_section(eliminations: tuple[Elimination, ...], style: Style) -> Page:
    """One row a reason; plugin and nearest miss beside it, or above and beneath it where there is no room."""
    if not eliminations:
        return ()
    columns = [Column("nodes", right=True), Column("only this", right=True)]
    columns += [] if style.narrow else [Column("plugin", keep=True)]
    columns += [Column("reason")] if style.narrow else [Column("reason"), Column("nearest miss")]
    rows = tuple(_elimination(elimination, style) for elimination in eliminations)
    return section("Why nodes are refused", Table(tuple(columns), rows).without_empty_columns())


def _elimination(found: Elimination, style: Style) -> tuple[Cell | Stack, ...]:
    only = Marked(f"{found.only:,}", Tone.STRONG if found.only else Tone.FAINT)
    nearest = f"{found.nearest.node}: {found.nearest.fact}" if found.nearest else ""
    if not style.narrow:
        return (f"{found.nodes:,}", only, found.plugin, found.reason, nearest)
    reason = f"{found.plugin}: {found.reason}" if found.plugin else found.reason
    return (f"{found.nodes:,}", only, Stack((reason, Marked(f"nearest: {nearest}" if nearest else "", Tone.FAINT))))


def _nodes(report: Explanation, style: Style) -> Page:
    """The refused nodes, one that is nearest to fitting for each reason first; every node when all are wanted."""
    nearest = {e.nearest.node for e in report.eliminations if e.nearest}
    nodes = [n for n in report.nodes if n.refusals or (n.feasible and style.unlimited)]
    if not style.unlimited:
        nodes.sort(key=lambda n: (len(n.refusals), n.name not in nearest))
    shown, note = shown_first(nodes, None if style.unlimited else NODES_SHOWN)
    if not shown:
        return ()
    rows = tuple(_node(node, style) for node in shown)
    columns = [Column("node", keep=True), Column("zone/pool", keep=True), Column("refused by", keep=True)]
    columns += [Column("why"), Column("also refused by")]
    if style.narrow:
        columns = [Column("node", keep=True), Column("refused by")]
    title = "All nodes" if style.unlimited else "Refused nodes, the nearest to fitting first"
    return section(title, Table(tuple(columns), rows, note).without_empty_columns())


def _node(node: NodeReport, style: Style) -> tuple[Cell | Stack, ...]:
    """One row, where the node is and the facts beside node and plugin; or beneath them where there is no room."""
    where = "/".join(part for part in (node.zone, node.pool) if part)
    first = node.refusals[0].plugin if node.refusals else ""
    why = "; ".join(r.fact or r.reason for r in node.refusals if r.plugin == first)
    others = [r for r in node.refusals if r.plugin != first]
    if style.wide:
        also = "; ".join(f"{r.plugin}: {r.fact or r.reason}" for r in others)
    else:
        also = ", ".join(dict.fromkeys(r.plugin for r in others))
    by: Cell = (first or "not looked at") if node.refusals else Marked("fits", Tone.GOOD)
    if not style.narrow:
        return (node.name, where, by, why, Marked(also, Tone.FAINT))
    facts = Marked(f"{why} (also {also})" if also else why, Tone.FAINT)
    return (Stack((node.name, Marked(f"  {where}" if where else "", Tone.FAINT))), Stack((by, facts)))


def _advice(report: Explanation) -> Page:
    return section("What to do next", Bullets(report.advice)) if report.advice else ()
