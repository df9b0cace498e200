"""The score table of a page: per plugin raw and weighted, the total, and who shares the top."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Cell, Marked, Page, Paragraph, Style, Table, count, paragraph, section, shown_first
from kschedctl.render.plots.plot import MOST_PLACES, Plot, bars
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.explanation import Explanation

NODES_SHOWN = 10
PLUGIN_WIDTH, OTHER_WIDTH = 14, 50
"""About what the column of a plugin needs, and those of node and total together."""


def scores_section(report: Explanation, style: Style) -> Page:
    """The best nodes; plugins and extenders that give all nodes shown the same go into a line of their own."""
    if not report.total:
        return ()
    ranked = sorted(report.total, key=lambda node: -report.total[node])
    nodes, note = shown_first(ranked, None if style.unlimited else NODES_SHOWN)
    scorers = {**report.weighted, **report.extender_scores}
    telling = [p for p, by_node in scorers.items() if style.wide or len({by_node[n] for n in nodes}) > 1]
    columns: tuple[Column, ...] = (Column("node", keep=True), Column("total", right=True))
    if OTHER_WIDTH + PLUGIN_WIDTH * len(telling) <= style.width:
        columns += tuple(Column(p, right=True, verbatim=True) for p in telling)
        rows = tuple((*_node(report, node), *_scores(report, node, telling, style)) for node in nodes)
    else:
        columns += (Column("scores"),)
        rows = tuple((*_node(report, node), _in_words(report, node, telling, style)) for node in nodes)
    table = Table(columns, rows, note).without_empty_columns()
    form = "raw → normalized × weight" if style.wide else "raw → weighted"
    title = f"Scores of {count(len(ranked), 'feasible node')}, {form}"
    return section(title, table, *_alike(report, nodes[0], telling), _choice(report), *_plot(report, ranked))


def _node(report: Explanation, node: str) -> tuple[Cell, Cell]:
    best = node in report.best
    total = f"{'★ ' if best else ''}{report.total[node]:,}"
    return (node, Marked(total, Tone.GOOD) if best else total)


def _in_words(report: Explanation, node: str, plugins: list[str], style: Style) -> str:
    scores = _scores(report, node, plugins, style)
    return ", ".join(f"{plugin} {score}" for plugin, score in zip(plugins, scores, strict=True))


def _scores(report: Explanation, node: str, plugins: list[str], style: Style) -> Iterator[str]:
    """What each plugin gives the node."""
    for plugin in plugins:
        if plugin in report.extender_scores:
            yield f"{report.extender_scores[plugin][node]:+,}"
            continue
        raw, weighted = report.score[plugin][node], report.weighted[plugin][node]
        normalized = f"{report.normalized[plugin][node]} × {report.weights.get(plugin, 1)}"
        yield f"{raw:,} → {normalized if style.wide else weighted}"


def _alike(report: Explanation, node: str, telling: list[str]) -> list[Paragraph]:
    scorers = {**report.weighted, **report.extender_scores}
    alike = [f"{p} {by_node[node]}" for p, by_node in scorers.items() if p not in telling]
    return [paragraph("The same on these nodes:", ", ".join(alike))] if alike else []


def _choice(report: Explanation) -> Paragraph:
    first, *others = report.best
    alone = "tried without the others of its group, " if report.pod_group and len(report.pod_group.members) > 1 else ""
    if not others:
        return paragraph(f"{alone}kube-scheduler would choose", Marked(first, Tone.GOOD))
    names = ", ".join(report.best[:NODES_SHOWN]) + (" …" if len(report.best) > NODES_SHOWN else "")
    tied = f"{count(len(report.best), 'node')} are tied at the top, kube-scheduler picks one of them at random:"
    return paragraph(f"{alone}{tied}", Marked(names, Tone.GOOD))


def _plot(report: Explanation, ranked: list[str]) -> tuple[Plot, ...]:
    """How the best nodes come to their totals."""
    best, scorers = ranked[:MOST_PLACES], {**report.weighted, **report.extender_scores}
    amounts = {node: {plugin: by_node[node] for plugin, by_node in scorers.items()} for node in best}
    title = f"Scores by plugin of {len(best)} of {count(len(ranked), 'feasible node')} for {report.pod}"
    return bars(title, ("node", "points, weighted"), amounts, len(ranked), stacked=True)
