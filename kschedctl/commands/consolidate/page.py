"""The page of a Consolidation: the nodes that could be removed, in order, and what keeps all other nodes."""

from __future__ import annotations

from kschedctl.commands.consolidate.report import EMPTIEST_FIRST, ZONES_NOT_EXAMINED, NodeConsolidation
from kschedctl.render.page import Bullets, Command, Marked, Page, Style, limit_rows_by_style, paragraph, section
from kschedctl.render.sections import (
    build_caveats,
    build_interruption_line,
    build_pools_before_and_after,
    build_why_cell,
)
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted, first_few

COMMANDS_SHOWN = 25
"""The number of commands that are shown unless the style is wide."""
REMOVED_EARLIER = "The other nodes in these reasons are those left after the removals above."


def build_page(report: NodeConsolidation, style: Style) -> Page:
    """Build the page: the verdict, caveats, nodes, zone losses, and the pools before and after."""
    first, *autoscaler = report.build_headline_parts()
    if report.undecided or report.interrupted or (report.removable and report.waiting_workloads):
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD if report.removable else Tone.PLAIN
    left_out = tuple(_describe_left_out_nodes(report, reason, style) for reason in report.left_out)
    shown, note = limit_rows_by_style(report.commands, style, COMMANDS_SHOWN)
    commands = (*map(Command, shown), *([paragraph(note)] if note else ()))
    costs = [paragraph(Marked("But this", Tone.WARNING), f"{cost.text}.") for cost in report.list_costs()]
    return (
        *build_interruption_line(report.interrupted, "the nodes found so far"),
        paragraph(Marked(first, tone)),
        *(paragraph(Marked(line, Tone.STRONG)) for line in autoscaler),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *_build_removable_table(report, style),
        *([paragraph(Marked(EMPTIEST_FIRST, Tone.FAINT))] if report.ignores_prices else ()),
        *_build_staying_nodes_table(report, style),
        *(section("Nodes that were not tried", Bullets(left_out)) if left_out else ()),
        *build_struct_table(report.requested, style, title="Requests as % of allocatable (ready worker nodes)"),
        *build_struct_table(report.zones, style, title="Pods without a node if a zone is lost"),
        *build_pools_before_and_after(report.pools, style, report.fitting),
        *([paragraph(Marked(ZONES_NOT_EXAMINED, Tone.FAINT))] if report.removable and not report.zones else ()),
        *(section("Commands", *costs, *commands) if report.commands else ()),
    )


def _describe_left_out_nodes(report: NodeConsolidation, reason: str, style: Style) -> str:
    """Describe how many nodes were no candidates for a reason, and which."""
    nodes = report.not_tried.get(reason, ())
    named = f": {', '.join(nodes) if style.lists_all_nodes else first_few(nodes)}" if nodes else ""
    return f"{counted(report.left_out[reason], 'node')} {reason}{named}"


def _build_staying_nodes_table(report: NodeConsolidation, style: Style) -> Page:
    """Build the table of the nodes that must stay.

    A note follows if some of them were tried after other nodes had been removed.
    """
    table = build_struct_table(
        report.staying,
        style,
        {"why": lambda node: build_why_cell(node, style)},
        title="Nodes that must stay",
        full=False,
    )
    # The tried node itself is cordoned as well
    is_any_tried_after_removals = any(node.cordoned_in_replay > 1 for node in report.staying)
    note = (paragraph(Marked(REMOVED_EARLIER, Tone.FAINT)),) if is_any_tried_after_removals else ()
    return (*table, *note)


def _build_removable_table(report: NodeConsolidation, style: Style) -> Page:
    """Build a table of the removable nodes, in the order in which they could be removed."""
    title = "Nodes that can be removed, in this order"
    return build_struct_table(report.removable, style, numbered="step", title=title, full=False)
