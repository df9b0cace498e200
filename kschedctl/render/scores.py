"""The score table of a page: per plugin raw and weighted, the total, and who shares the top."""

from __future__ import annotations

from kschedctl.render.page import (
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
from kschedctl.reports.explanation import Explanation

NODES_SHOWN = 10


def scores_section(report: Explanation, style: Style) -> Page:
    """The best nodes; plugins that give all nodes shown the same weighted score go into a line of their own."""
    if not report.total:
        return ()
    ranked = sorted(report.total, key=lambda node: -report.total[node])
    nodes, note = shown_first(ranked, None if style.unlimited else NODES_SHOWN)
    telling = [p for p, by_node in report.weighted.items() if style.wide or len({by_node[n] for n in nodes}) > 1]
    columns = (Column("node", keep=True), Column("total", right=True), *(Column(p, right=True) for p in telling))
    table = Table(columns, tuple(_row(report, node, telling, style) for node in nodes), note)
    form = "raw → normalized × weight" if style.wide else "raw → weighted"
    title = f"Scores of {count(len(ranked), 'feasible node')}, {form}"
    return section(title, table, *_alike(report, nodes[0], telling), _choice(report))


def _row(report: Explanation, node: str, plugins: list[str], style: Style) -> tuple[Cell, ...]:
    best = node in report.best
    total = f"{'★ ' if best else ''}{report.total[node]:,}"
    cells = (_score(report, plugin, node, style) for plugin in plugins)
    return (node, Marked(total, Tone.GOOD) if best else total, *cells)


def _score(report: Explanation, plugin: str, node: str, style: Style) -> str:
    raw, weighted = report.score[plugin][node], report.weighted[plugin][node]
    if style.wide:
        return f"{raw:,} → {report.normalized[plugin][node]} × {report.weights.get(plugin, 1)}"
    return f"{raw:,} → {weighted}"


def _alike(report: Explanation, node: str, telling: list[str]) -> list[Paragraph]:
    alike = [f"{p} {by_node[node]}" for p, by_node in report.weighted.items() if p not in telling]
    return [paragraph("The same on these nodes:", ", ".join(alike))] if alike else []


def _choice(report: Explanation) -> Paragraph:
    first, *others = report.best
    if not others:
        return paragraph("kube-scheduler would choose", Marked(first, Tone.GOOD))
    names = ", ".join(report.best[:NODES_SHOWN]) + (" …" if len(report.best) > NODES_SHOWN else "")
    tied = f"{count(len(report.best), 'node')} are tied at the top, kube-scheduler picks one of them at random:"
    return paragraph(tied, Marked(names, Tone.GOOD))
