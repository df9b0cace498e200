"""The page of a NodeSizing: the best set of nodes, the alternatives, and pods that fit nowhere."""

from __future__ import annotations

from kschedctl.commands.size.report import NodeSizing, SizingAlternative
from kschedctl.render.page import Marked, Page, Style, paragraph
from kschedctl.render.sections import build_caveats, build_interruption_line, build_pools_before_and_after
from kschedctl.render.tables import build_struct_table
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import counted


def build_page(report: NodeSizing, style: Style) -> Page:
    """Build the page: the best set, caveats, its nodes, alternative sets, pods without a node, and the pools."""
    first, *notes = report.build_first_line()
    tone = Tone.GOOD if report.good and not report.undecided else Tone.WARNING
    ties = "each set was replayed once: where nodes are equally good, another choice may leave a pod without one"
    searched_text = f"{report.tried:,} of {counted(report.candidates, 'set')} to begin with were searched to the end"
    advice = "there may be a better one (--search-seconds)"
    incomplete_text = f"{searched_text}: {advice}" if report.candidates else advice
    return (
        *build_interruption_line(report.interrupted, "the shapes so far"),
        paragraph(Marked(first, tone), *notes),
        *(() if report.complete else (paragraph(Marked("Not complete:", Tone.WARNING), incomplete_text),)),
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in report.doubts),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *build_struct_table(report.shapes, style, title="Nodes"),
        *(
            (paragraph(Marked(ties, Tone.FAINT)), paragraph(Marked(_describe_bound(report), Tone.FAINT)))
            if report.shapes
            else ()
        ),
        *(_build_sets_table(report, style) if len(report.alternatives) > 1 else ()),
        *build_struct_table(report.never, style, title="Without a node"),
        *build_pools_before_and_after(report.pools, style),
    )


def _build_sets_table(report: NodeSizing, style: Style) -> Page:
    """Build a table of the sets. In its replay each set took all pods that any set takes."""
    return build_struct_table(
        report.alternatives, style, {"shapes": _mark_replayed}, title="Sets of nodes, each replayed with all pods"
    )


def _mark_replayed(alternative: SizingAlternative) -> Marked:
    """Return the shapes of a set with a check mark."""
    return Marked(f"✓ {alternative.shapes}", Tone.GOOD)


def _describe_bound(report: NodeSizing) -> str:
    """Return what the lower bound ignores, and what replays add to it, as text."""
    solver = "" if report.solver else "; pip install 'kschedctl[solver]' for a better one"
    ignored = "what is needed at least ignores spreading, affinity and zones, and where kube-scheduler puts pods"
    return f"{ignored}{solver}{_describe_proven(report)}"


def _describe_proven(report: NodeSizing) -> str:
    """Return the cost below which replays exclude all sets as text, empty if all cheaper sets were replayed."""
    if report.cheapest or report.proven <= report.bound * (1 + 1e-9):
        return ""
    limit = f"for less than {report.proven:.4f}" if report.price is not None else f"of fewer than {report.proven:,.0f}"
    return f"; by replays no set {limit} takes all pods"
