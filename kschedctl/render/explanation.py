"""The page of an Explanation: verdict, what eliminated the nodes, the nodes, the scores, preemption, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import (
    Bullets,
    Cell,
    Column,
    Marked,
    Page,
    Paragraph,
    Style,
    Table,
    Tone,
    count,
    paragraph,
    section,
    shown_first,
)
from kschedctl.render.preemption import preemption_section
from kschedctl.render.scores import scores_section
from kschedctl.reports.explanation import Elimination, Explanation, NodeReport, StatusReport

NODES_SHOWN = 10
TONES = {"Schedulable": Tone.GOOD, "Unschedulable": Tone.BAD, "Error": Tone.BAD}


def explanation_page(report: Explanation, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *_verdict(report),
        *_before_nodes(report),
        *_eliminations(report.eliminations),
        *_nodes(report, style),
        *scores_section(report, style),
        *preemption_section(report.preemption, style),
        *_not_replayed(report),
        *_advice(report),
    )


def _verdict(report: Explanation) -> Iterator[Paragraph]:
    verdict = Marked(report.verdict, TONES.get(report.verdict, Tone.WARNING))
    said = report.message or ""
    yield paragraph(Marked(report.pod, Tone.STRONG), verdict, *([said] if said else []))
    if report.headline not in ("", said, report.verdict):
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


def _eliminations(eliminations: tuple[Elimination, ...]) -> Page:
    columns = (Column("nodes", right=True), Column("only this", right=True), Column("plugin", keep=True))
    rows = tuple(
        (
            f"{e.nodes:,}",
            Marked(f"{e.only:,}", Tone.STRONG if e.only else Tone.FAINT),
            e.plugin,
            e.reason,
            f"{e.nearest.node}: {e.nearest.fact}" if e.nearest else "",
        )
        for e in eliminations
    )
    if not rows:
        return ()
    table = Table((*columns, Column("reason"), Column("nearest miss")), rows)
    return section("Why nodes are refused", table.without_empty_columns())


def _nodes(report: Explanation, style: Style) -> Page:
    """The refused nodes, those that only one thing refuses first; every node when all are wanted."""
    nearest = {e.nearest.node for e in report.eliminations if e.nearest}
    nodes = [n for n in report.nodes if n.refusals or (n.feasible and style.unlimited)]
    nodes.sort(key=lambda n: (len({r.plugin for r in n.refusals}), n.name not in nearest))
    rows, left_out = shown_first([_node(n, style) for n in nodes], None if style.unlimited else NODES_SHOWN)
    if not rows:
        return ()
    names = ("node", "zone/pool", "refused by", "reason", "would also refuse")
    columns = tuple(Column(name, keep=name in ("node", "refused by")) for name in names)
    more = [paragraph(Marked(f"… {left_out:,} more, --nodes shows all", Tone.FAINT))] if left_out else []
    title = "Nodes" if style.unlimited else "Nodes, the nearest to fitting first"
    return section(title, Table(columns, rows).without_empty_columns(), *more)


def _node(node: NodeReport, style: Style) -> tuple[Cell, ...]:
    where = "/".join(part for part in (node.zone, node.pool) if part)
    if not node.refusals:
        return (node.name, where, Marked("fits", Tone.GOOD), "", "")
    first, *others = node.refusals
    said = [(r.reason, r.fact) for r in node.refusals if r.plugin == first.plugin]
    reason = "; ".join(f"{reason}: {fact}" if fact else reason for reason, fact in said)
    more = [r for r in others if r.plugin != first.plugin]
    if style.unlimited:
        also = "; ".join(f"{r.plugin}: {r.fact or r.reason}" for r in more)
    else:
        also = ", ".join(dict.fromkeys(r.plugin for r in more))
    return (node.name, where, first.plugin, reason, Marked(also, Tone.FAINT))


def _not_replayed(report: Explanation) -> Page:
    if not report.not_replayed:
        return ()
    return section("Left out of this answer", Bullets(tuple(Marked(n, Tone.WARNING) for n in report.not_replayed)))


def _advice(report: Explanation) -> Page:
    return section("What to do next", Bullets(report.advice)) if report.advice else ()
