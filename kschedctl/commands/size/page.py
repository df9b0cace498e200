"""The page of a NodeSizing: the best set of nodes, the alternatives, and pods that fit nowhere."""

from __future__ import annotations

from kschedctl.commands.size.report import NodeSizing
from kschedctl.render.page import Marked, Page, Stack, Style, Table, paragraph
from kschedctl.render.sections import (
    build_caveats,
    build_interruption_line,
    build_pools_before_and_after,
    describe_message,
)
from kschedctl.render.tables import build_struct_table
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import capitalize, counted, format_price

ROUNDING_ERROR = 1e-9
"""The share by which two bounds may differ only because of rounding."""


def build_page(report: NodeSizing, style: Style) -> Page:
    """Build the page: the best set, caveats, its nodes, alternative sets, pods without a node, and the pools."""
    first, *notes = report.build_headline_parts()
    if report.loses_node:
        tone = Tone.BAD
    elif report.good and not report.undecided:
        tone = Tone.GOOD
    else:
        tone = Tone.WARNING
    remarks: Page = ()
    if report.shapes:
        remarks = (
            *((paragraph(Marked(report.zone_warning, Tone.WARNING)),) if report.zone_warning else ()),
            paragraph(Marked(capitalize(report.choice_warning), Tone.FAINT)),
            paragraph(Marked(capitalize(_describe_lower_bound(report)), Tone.FAINT)),
        )
    return (
        *build_interruption_line(report.interrupted, "the best shapes found so far"),
        paragraph(Marked(first, tone), *notes),
        *(paragraph(Marked(capitalize(line), Tone.WARNING)) for line in (report.keep_warning, *report.hints) if line),
        *_build_incomplete_note(report),
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in report.doubts),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *_drop_empty_columns(build_struct_table(report.shapes, style, title="Nodes")),
        *remarks,
        *(_build_sets_table(report, style) if len(report.alternatives) > 1 else ()),
        *build_struct_table(
            report.never,
            style,
            {"message": lambda pods: Stack(describe_message(pods.message, style, len(pods.pods)))},
            title="Pods without a node",
        ),
        *build_pools_before_and_after(report.pools, style),
    )


def _build_incomplete_note(report: NodeSizing) -> Page:
    """Build a note that there may be a better set. Return () if all starting sets were searched to the end."""
    if report.complete:
        return ()
    note = "there may be a better set; --search-seconds searches longer"
    if report.candidates:
        note = f"{report.tried:,} of {counted(report.candidates, 'starting set')} searched to the end: {note}"
    return (paragraph(Marked("Not complete:", Tone.WARNING), note),)


def _build_sets_table(report: NodeSizing, style: Style) -> Page:
    """Build a table of the alternative node sets. Its title says how many of the pods each set takes in a replay."""
    pods = counted(report.pods, "pod")
    placed = f"{report.pods - report.homeless:,} of {pods}" if report.homeless else f"all {pods}"
    title = f"Sets of nodes, each of which takes {placed} in a replay"
    return _drop_empty_columns(build_struct_table(report.alternatives, style, title=title))


def _drop_empty_columns(page: Page) -> Page:
    """Drop the columns of the page's tables that have no values, such as prices if none is known."""
    return tuple(block.without_empty_columns() if isinstance(block, Table) else block for block in page)


def _describe_lower_bound(report: NodeSizing) -> str:
    """Describe what the lower bound ignores, and advise to install the solver if it is missing.

    If replays prove a higher bound, this bound follows.
    """
    text = "the lower bound ignores spreading, affinity, zones, and how kube-scheduler places pods"
    if not report.solver:
        text += "; install kschedctl[solver] for a better bound"
    return text + _build_replay_bound_clause(report)


def _build_replay_bound_clause(report: NodeSizing) -> str:
    """Return the clause that replays exclude all sets below a cost, starting with ";".

    Return "" if all cheaper sets were replayed, or if this cost is not above the lower bound, which is already shown.
    """
    is_higher = report.proven > report.bound * (1 + ROUNDING_ERROR)
    if report.cheapest or not is_higher:  # `cheapest` means that replays exclude all cheaper sets
        return ""
    limit = (
        f"of fewer than {report.proven:,.0f}"
        if report.price is None
        else f"for less than {format_price(report.proven)} an hour"
    )
    all_pods = f"the {counted(report.bound_pods, 'pod')} that fit on some node" if report.homeless else "all pods"
    return f"; by replay, no set {limit} takes {all_pods}"
