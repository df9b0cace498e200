"""The pages of ScaleUp and ScaleDown."""

from __future__ import annotations

from kschedctl.render.page import Marked, Page, Paragraph, Style, paragraph
from kschedctl.render.sections import build_still_pending_section
from kschedctl.render.tables import build_struct_table, build_table, number_columns
from kschedctl.reports.cluster_autoscaler import GroupRefusal, NodeKeepers, NodeRemoval, ScaleDown, ScaleUp
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import counted, first_of

GROUP = Column("node group", keep=True)
ONE_RUN = paragraph(Marked("One possible run: the autoscaler's order of nodes and groups is chance.", Tone.FAINT))
NO_PLACE = "NoPlaceToMovePods"
MAX_KEEPERS = 3
UNBLOCKS = {
    "ControllerNotFound": "gets an owner that exists",
    "MinReplicasReached": "has as many replicas as --min-replica-count",
    "NotReplicated": "gets a controller",
    "UnmovableKubeSystemPod": "gets a budget that allows its eviction",
    "NotSafeToEvictAnnotation": 'loses its annotation safe-to-evict: "false"',
    "LocalStorageRequested": "names its volumes in safe-to-evict-local-volumes, if their data may be lost",
    "NotEnoughPdb": "has a budget that allows one more disruption",
}
"""Rule that keeps a node -> what has to happen to the pod."""
STATES = {
    "unneeded": "not needed",
    "unremovable": "stays",
    "notCandidate": "no candidate",
    "notEvaluated": "not looked at",
}


def scale_up_page(report: ScaleUp, style: Style) -> Page:
    """Build the page of a scale-up: the groups that grow, then why each other group does not."""
    first, pods = report.first_line()
    fine = report.are_all_placed
    why = [line for line in (report.loop_error, report.error) if line]
    return (
        *_build_doubts(report),
        paragraph(Marked(first, Tone.GOOD if fine else Tone.BAD), pods),
        *(paragraph(Marked(line, Tone.BAD)) for line in why),
        *build_struct_table(report.increases, style, title="Groups that grow"),
        *build_still_pending_section(report.still_pending, report.rivals, report.enough, style),
        *_build_filtered_out(report),
        *_build_template_gaps(report),
        *_build_remaining_table(report, style),
        *([ONE_RUN] if report.increases else []),
        *_build_sources(report),
    )


def _build_doubts(report: ScaleUp | ScaleDown) -> Page:
    """Return a line for each reason why the report is not certain."""
    why = "node groups by labels; their minimum and maximum are not known: --node-groups FILE tells them"
    lines = (
        *((why,) if report.seen_groups else ()),
        *report.doubts,
        *(f"left out: {fault}" for fault in report.faults if fault not in "".join(report.doubts)),
    )
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), line) for line in lines)


def _build_sources(report: ScaleUp | ScaleDown) -> Page:
    """Return the line that says where groups and flags come from."""
    return (paragraph(Marked(f"{'; '.join(report.sources)}.", Tone.FAINT)),) if report.sources else ()


def _build_filtered_out(report: ScaleUp) -> Page:
    """Return the line on pods that fit on existing or upcoming nodes."""
    if not report.filtered_out:
        return ()
    count = len(report.filtered_out)
    return (
        paragraph(f"{counted(count, 'pod')} {'fit' if count > 1 else 'fits'} on nodes that exist or are on their way."),
    )


def _build_template_gaps(report: ScaleUp) -> Page:
    """Return what the templates of empty groups lack, and the tags that tell the autoscaler."""
    blocks: list[Paragraph] = []
    for gap in report.template_gaps:
        lacks = " and the ".join(gap.lacks)
        blocks += [
            paragraph(
                f"Node group {gap.group} has no nodes, and its template lacks the {lacks}. With it, a new node takes "
                f"{first_of(gap.pods)}. Give the group this{'' if gap.provider else ', if it is one of AWS'}:"
            ),
            *(paragraph(Marked(f"  {setting}", Tone.VERBATIM)) for setting in gap.settings),
        ]
    return tuple(blocks)


def _build_remaining_table(report: ScaleUp, style: Style) -> Page:
    """Return the table of why no group grows. Pods with equal answers share their rows."""
    remaining = report.remaining
    by_answers: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pod, unhelped in remaining.items():
        figures = report.details.get(pod, {})
        refused = ((group, _why_rejected(no, figures.get(group, ""), style)) for group, no in unhelped.rejected.items())
        skipped = ((group, "; ".join(reasons)) for group, reasons in unhelped.skipped.items())
        by_answers.setdefault(tuple(sorted((*refused, *skipped))), []).append(pod)
    rows = [
        (first_of(pods), group, why) for answers, pods in by_answers.items() for group, why in answers or (("", ""),)
    ]
    columns = (Column("pods"), GROUP, Column("why it does not grow"))
    return build_table(rows, columns, lambda row: row, style, title="No group grows for", full=False)


def _why_rejected(refusal: GroupRefusal, figures: str, style: Style) -> str:
    """Return the plugin with the figures behind its refusal, or with upstream's words; with both if wide."""
    reasons = ", ".join(refusal.reasons)
    words = (reasons, figures) if style.wide else (figures or reasons,)
    return ": ".join(filter(None, (refusal.plugin, *words)))


def scale_down_page(report: ScaleDown, style: Style) -> Page:
    """Build the page of a scale-down: the nodes that are deleted, then each other node with its reason."""
    first, could = report.first_line()
    going = (*report.deleted_now.empty, *report.deleted_now.drain)
    columns = (Column("node", keep=True), GROUP, Column("verdict"), *number_columns("used"), Column("why"))
    nodes = sorted(report.nodes.items(), key=lambda item: (item[0] not in going, item[1].state != "unneeded", item[0]))

    def row(item: tuple[str, NodeRemoval]) -> tuple[str, ...]:
        name, node = item
        *cells, why = _build_node_cells(name, node, report.kept.get(name), name in going)
        cause = report.budget_causes.get(node.blocking_pod.pod) if node.blocking_pod else None
        why += f"; {cause}" if cause else ""
        since = report.marked_since.get(name)
        return *cells, f"{why}; marked as unneeded since {since}" if since else why

    return (
        *_build_doubts(report),
        paragraph(Marked(first, Tone.GOOD if going else Tone.PLAIN), could),
        *([paragraph(Marked(report.loop_error, Tone.BAD))] if report.loop_error else []),
        *build_table(nodes, columns, row, style, title="Nodes"),
        *([ONE_RUN] if nodes else []),
        *_build_sources(report),
    )


def _build_node_cells(name: str, node: NodeRemoval, kept: NodeKeepers | None, is_deleted: bool) -> tuple[str, ...]:
    """Return the cells of a node: name, group, verdict, utilization, and reason."""
    used = f"{node.utilization.value:.0%} {node.utilization.resource}" if node.utilization else ""
    verdict = "goes" if is_deleted else STATES.get(node.state, node.state)
    return name, node.group, verdict, used, _describe_node_reason(node, kept)


def _describe_node_reason(node: NodeRemoval, kept: NodeKeepers | None) -> str:
    """Return why a node is deleted or kept, the blocking pod, and whether it could be deleted as the only one."""
    if node.state == "unneeded":
        return f"{counted(len(node.moves), 'pod')} would move" if node.moves else "empty"
    why = node.reason or ""
    if node.blocking_pod is not None:
        why += f": {node.blocking_pod.pod} ({node.blocking_pod.reason})"
        why += _describe_unblocking(kept)
    alone = why == NO_PLACE and node.alone is not None and node.alone.removable
    return f"{why}; could go if it were the only one" if alone else why


def _describe_unblocking(kept: NodeKeepers | None) -> str:
    """Return what each pod that keeps the node would need, and whether the node could then be deleted."""
    if kept is None:
        return ""
    needed = "; ".join(
        f"{keeper.pod} {UNBLOCKS.get(keeper.reason, keeper.reason)}" for keeper in kept.keepers[:MAX_KEEPERS]
    )
    more = f"; {counted(len(kept.keepers) - MAX_KEEPERS, 'more pod')}" if len(kept.keepers) > MAX_KEEPERS else ""
    if kept.then == NO_PLACE:
        return ". Its pods would have no room elsewhere even if all could be evicted"
    return f". Would go if {needed}{more}" if not kept.then else ""
