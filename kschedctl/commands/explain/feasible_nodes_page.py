"""The sections about feasible nodes: scores, reservations, and the answers of extenders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.commands.explain.report import DeviceReport, Explanation
from kschedctl.render.page import (
    Cell,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    count,
    limit_rows,
    paragraph,
    section,
)
from kschedctl.render.plots.plot import MAX_PLACES, Plot, build_bar_plot
from kschedctl.render.tables import Row, build_table, keep_row, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.plugin_answers import ExtenderCallReport

NODES_SHOWN = 10
PLUGIN_WIDTH, OTHER_WIDTH = 14, 50
"""About what the column of a plugin needs, and those of node and total together."""


def build_scores_section(report: Explanation, style: Style) -> Page:
    """Build the table of the best nodes, with a line about the choice and a plot.

    Each plugin has a column, or all share one if the page is too narrow. Unless the output is wide, plugins that score
    all shown nodes alike are named in one line instead. Return () if no node has a score. If only one node is feasible,
    only wide output has the section.
    """
    if not report.total or (len(report.total) == 1 and not style.wide):  # a single feasible node needs no score
        return ()
    ranked = sorted(report.total, key=lambda node: -report.total[node])
    nodes, note = limit_rows(ranked, None if style.lists_all_nodes else NODES_SHOWN)
    scorers = {**report.weighted, **report.extender_scores}
    distinguishing = []
    for plugin, score_by_node in scorers.items():
        scores_differ = len({score_by_node[node] for node in nodes}) > 1
        if scores_differ or style.wide:
            distinguishing.append(plugin)

    form = "raw → normalized × weight" if style.wide else "raw → weighted"
    return section(
        f"Scores of {count(len(ranked), 'feasible node')}, {form}",
        *_build_scores_table(report, nodes, distinguishing, note, style),
        *_build_equal_scores_line(report, nodes[0], distinguishing),
        _describe_chosen_node(report),
        *_plot_scores(report, ranked),
    )


def _build_total_cells(report: Explanation, node: str) -> tuple[Cell, Cell]:
    """Build the cells with a node's name and total. The best nodes are marked."""
    is_best = node in report.best
    total = f"{report.total[node]:,}"
    return (node, Marked(f"★ {total}", Tone.GOOD) if is_best else total)


def _build_scores_table(report: Explanation, nodes: Sequence[str], plugins: list[str], note: str, style: Style) -> Page:
    """Build the table of the nodes' totals and scores. `plugins` have a column each, or share one on a narrow page."""
    columns = [Column("node", keep=True), *number_columns("total")]
    has_plugin_columns = OTHER_WIDTH + PLUGIN_WIDTH * len(plugins) <= style.width
    if has_plugin_columns:
        columns += [Column(plugin, right=True, verbatim=True) for plugin in plugins]
    else:
        columns.append(Column("scores"))

    rows: list[Row] = []
    for node in nodes:
        scores = tuple(_format_scores(report, node, plugins, style))
        if not has_plugin_columns:
            pairs = zip(plugins, scores, strict=True)
            scores = (", ".join(f"{plugin} {score}" for plugin, score in pairs),)
        rows.append((*_build_total_cells(report, node), *scores))
    return build_table(rows, columns, keep_row, limit=None, note=note, full=False)


def _format_scores(report: Explanation, node: str, plugins: list[str], style: Style) -> Iterator[str]:
    """Yield each plugin's score for the node as "raw → weighted", such as "40 → 80".

    With -o wide, the form is "raw → normalized × weight". An extender has a single score, with a plus or minus sign.
    """
    for plugin in plugins:
        if plugin in report.extender_scores:
            score_by_node = report.extender_scores[plugin]
            yield f"{score_by_node[node]:+,}"
            continue
        raw_by_node, weighted_by_node = report.score[plugin], report.weighted[plugin]
        result = str(weighted_by_node[node])
        if style.wide:
            normalized_by_node = report.normalized[plugin]
            result = f"{normalized_by_node[node]} × {report.weights.get(plugin, 1)}"
        yield f"{raw_by_node[node]:,} → {result}"


def _build_equal_scores_line(report: Explanation, node: str, distinguishing: list[str]) -> list[Paragraph]:
    """Build the line about plugins that score all shown nodes alike, or no line if there are none."""
    scorers = {**report.weighted, **report.extender_scores}
    alike = [f"{plugin} {by_node[node]}" for plugin, by_node in scorers.items() if plugin not in distinguishing]
    return [paragraph("Equal on all these nodes:", ", ".join(alike))] if alike else []


def _describe_chosen_node(report: Explanation) -> Paragraph:
    """Describe the node that kube-scheduler would choose, or the tied nodes among which it chooses at random.

    For a member of a larger group, the text says that the pod was tried without the others.
    """
    has_group = report.pod_group is not None and len(report.pod_group.members) > 1
    alone = "tried without the other pods of its group, " if has_group else ""
    if len(report.best) == 1:
        return paragraph(f"{alone}kube-scheduler would choose", Marked(report.best[0], Tone.GOOD))
    names = ", ".join(report.best[:NODES_SHOWN]) + (" …" if len(report.best) > NODES_SHOWN else "")
    tied = f"{count(len(report.best), 'node')} are tied for the best score; kube-scheduler picks one of them at random:"
    return paragraph(f"{alone}{tied}", Marked(names, Tone.GOOD))


def _plot_scores(report: Explanation, ranked: list[str]) -> tuple[Plot, ...]:
    """Build the plot of each plugin's contribution to the total of the best nodes."""
    best = ranked[:MAX_PLACES]
    scorers = {**report.weighted, **report.extender_scores}
    amounts = {node: {plugin: by_node[node] for plugin, by_node in scorers.items()} for node in best}
    title = f"Scores by plugin of {len(best)} of {count(len(ranked), 'feasible node')} for {report.pod}"
    return build_bar_plot(title, ("node", "points, weighted"), amounts, len(ranked), stacked=True)


RESERVING_SHOWN = 3
COLUMNS = (Column("node", keep=True), Column("claim", keep=True), Column("gets"))


def build_reservations_section(report: Explanation, style: Style) -> Page:
    """Build the table of volumes and devices that would be bound for the pod on the best nodes, one row per claim."""
    ranked = [node for node in report.feasible if node in report.volumes or node in report.allocations]
    ranked.sort(key=lambda node: -report.total.get(node, 0))
    nodes, note = limit_rows(ranked, None if style.lists_all_nodes else RESERVING_SHOWN)
    rows = [row for node in nodes for row in _build_reservation_rows(report, node)]
    return build_table(rows, COLUMNS, keep_row, limit=None, title="Volumes and devices that would be bound", note=note)


def _build_reservation_rows(report: Explanation, node: str) -> Iterator[Row]:
    """Yield the rows of one node. Only the first one names the node."""
    for position, (claim, gets) in enumerate(_iter_reservations(report, node)):
        yield ("" if position else node, claim, gets)


def _iter_reservations(report: Explanation, node: str) -> Iterator[tuple[str, str]]:
    """Yield each claim and a description of the volume or device that it would get."""
    if node in report.volumes:
        yield from ((claim, f"volume {name}") for claim, name in report.volumes[node].bindings.items())
        yield from ((claim, "a new volume") for claim in report.volumes[node].provisions)
    for claim, devices in report.allocations.get(node, {}).items():
        yield from ((claim, _describe_device(device)) for device in devices)


def _describe_device(device: DeviceReport) -> str:
    """Describe a device that would be allocated, with the capacity that would be consumed."""
    consumed = ", ".join(f"{amount} of {name}" for name, amount in device.consumed_capacity.items())
    admin = " with admin access" if device.admin_access else ""
    text = f"device {device.driver}/{device.pool}/{device.device} for {device.request}{admin}"
    return f"{text}: {consumed}" if consumed else text


NAMED = 3


def build_extenders_section(report: Explanation, style: Style) -> Page:
    """Build the table of calls to extenders, and a line about the extender that would bind the pod."""
    binding = (
        (paragraph("An extender, not the scheduler, would bind the pod:", report.binder),) if report.binder else ()
    )
    errors = {(error.extender, error.verb): error.error for error in report.extender_errors}
    columns = [Column("extender", keep=True), Column("asked"), Column("answer")]
    if style.narrow:
        columns = [Column("extender, asked"), Column("answer")]
    rows = [_build_call_row(call, report, errors.get((call.extender, call.verb), ""), style) for call in report.calls]
    return (*build_table(rows, columns, keep_row, limit=None, title="Extenders"), *binding)


def _build_call_row(call: ExtenderCallReport, report: Explanation, error: str, style: Style) -> Row:
    """Build the row of one call to an extender, with its `error` or else its answer.

    In narrow tables, the call is stacked below the extender's name.
    """
    in_full = " in full" if call.full else ""
    request = f"{call.verb}, {count(len(call.nodes), 'node')}{in_full}"
    answer: Cell = Marked(error, Tone.BAD) if error else _describe_extender_answer(call, report)
    if style.narrow:
        return (Stack((call.extender, Marked(f"  {request}", Tone.FAINT))), answer)
    return (call.extender, request, answer)


def _describe_extender_answer(call: ExtenderCallReport, report: Explanation) -> str:
    """Describe the extender's answer to a call: the nodes that it rejects, or just "answered" if it rejects none.

    The extender's messages are quoted for the first few nodes.
    """
    refused = report.extender_refusals.get(call.extender, {})
    refusals = [f"{node}: {refused[node] or 'no reason given'}" for node in call.nodes if node in refused]
    if not refusals:
        return "answered"
    more = f" and {len(refusals) - NAMED:,} more" if len(refusals) > NAMED else ""
    return f"rejects {'; '.join(refusals[:NAMED])}{more}"
