"""An Explanation in the browser: a matrix of nodes and plugins."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.html.sections import Grid, HtmlSection, Words
from kschedctl.render.printable import printable
from kschedctl.reports.explanation import Explanation, NodeReport

FITS = "fits"


def explanation_widgets(report: Explanation) -> list[HtmlSection]:
    """The matrix has every node that the scheduler would look at."""
    if not any(node.feasible or node.refusals for node in report.nodes):
        return []
    return [HtmlSection("Nodes and plugins", [("grid", _matrix(report))])]


def _matrix(report: Explanation) -> Grid:
    """A plugin's cell: what it adds to the total of a node that fits, or that it refuses the node."""
    scorers = {**report.weighted, **report.extender_scores}
    refusers = (refusal.plugin for node in report.nodes for refusal in node.refusals)
    plugins = tuple(dict.fromkeys(filter(None, (*refusers, *scorers))))
    columns = [("pool and answer", False, False), ("node", False, True), ("zone", False, True)]
    columns += [("why", False, False), ("total", True, False)]
    rows = tuple(_row(report, node, plugins) for node in report.nodes if node.feasible or node.refusals)
    all_columns = (*columns, *((printable(plugin), True, False) for plugin in plugins))
    return Grid(all_columns, rows, grouped=0, bars=(4,))


def _row(report: Explanation, node: NodeReport, plugins: Sequence[str]) -> tuple[tuple[Words, ...], ...]:
    refused = {refusal.plugin: refusal for refusal in node.refusals}
    reason = node.refusals[0].reason if node.refusals else FITS
    why = "; ".join(filter(None, (refusal.fact or refusal.reason for refusal in node.refusals)))
    total = "" if node.total is None else f"{'★ ' if node.name in report.best else ''}{node.total:,}"
    tone = "good" if node.feasible else "plain"
    cells = [_cell(f"{node.pool or 'no pool'}: {reason}"), _cell(node.name, tone), _cell(node.zone), _cell(why)]
    return (*cells, _cell(total, tone), *(_of(report, node.name, plugin, plugin in refused) for plugin in plugins))


def _of(report: Explanation, node: str, plugin: str, refuses: bool) -> tuple[Words, ...]:
    if refuses:
        return _cell("refuses", "bad")
    scores = report.extender_scores.get(plugin) or report.weighted.get(plugin, {})
    return _cell(f"{scores[node]:,}" if node in scores else "")


def _cell(text: str, tone: str = "plain") -> tuple[Words, ...]:
    return (Words(printable(text), tone),)
