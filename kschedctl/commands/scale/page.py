"""The pages of the reports ScaleUp and ScaleDown."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.render.page import Marked, Page, Paragraph, Style, paragraph
from kschedctl.render.sections import build_still_pending_section
from kschedctl.render.tables import build_struct_table, build_table, number_columns
from kschedctl.reports.cluster_autoscaler import GroupRefusal, NodeKeepers, NodeRemoval, ScaleDown, ScaleUp
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import counted, first_of

GROUP = Column("node group", keep=True)
ONE_RUN = paragraph(Marked("One possible run: the autoscaler takes nodes and groups in random order.", Tone.FAINT))
EMPTY = "empty"
NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"
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
"""The change to a pod after which it no longer keeps its node, by the rule that applies."""
NODE_REASONS = {
    "NotUnderutilized": "above the utilization threshold",
    "CurrentlyBeingDeleted": "already being deleted",
    "ScaleDownDisabledAnnotation": "its scale-down-disabled annotation is true",
    "ScaleDownUnreadyDisabled": "not ready, and unready nodes are not removed",
    "NodeGroupMinSizeReached": "the group is at its minimum size",
    "MinimalResourceLimitExceeded": "the cluster would have fewer cores or less memory than its configured minimum",
    "NotUnneededLongEnough": "not unneeded for long enough yet",
    "NotUnreadyLongEnough": "not unready for long enough yet",
    "AtomicScaleDownFailed": "its group is removed as a whole or not at all, and some of its nodes must stay",
    "BlockedByOnCompletionPod": "a pod on it has to finish first",
    NO_PLACE: "its pods fit nowhere else",
}
"""The autoscaler's reasons to keep a node, in plain words."""
POD_REASONS = {
    "ControllerNotFound": "its controller does not exist",
    "MinReplicasReached": "its workload has fewer replicas than --min-replica-count",
    "NotReplicated": "no controller would recreate it",
    "UnmovableKubeSystemPod": "a kube-system pod without a PDB",
    "NotSafeToEvictAnnotation": 'annotated safe-to-evict: "false"',
    "LocalStorageRequested": "it has local storage",
    "NotEnoughPdb": "its PDB allows no disruption",
}
"""The autoscaler's reasons why a pod keeps its node, in plain words."""
STATES = {
    "unneeded": "not needed",
    "unremovable": "stays",
    "notCandidate": "no candidate",
    "notEvaluated": "not evaluated",
}


def build_scale_up_page(report: ScaleUp, style: Style) -> Page:
    """Build the page of a scale-up: which groups grow, which pods stay pending, and why other groups do not help."""
    first, pods = report.build_first_line()
    is_good = report.are_all_placed
    errors = [line for line in (report.loop_error, report.error) if line]
    return (
        *_build_uncertainty_lines(report),
        paragraph(Marked(first, Tone.GOOD if is_good else Tone.BAD), pods),
        *(paragraph(Marked(line, Tone.BAD)) for line in errors),
        *build_struct_table(report.increases, style, title="Groups that grow"),
        *build_still_pending_section(report.still_pending, report.rivals, report.enough, style),
        *_build_filtered_out_line(report),
        *_build_template_gap_lines(report),
        *_build_unhelped_pods_table(report, style),
        *([ONE_RUN] if report.increases else []),
        *_build_sources_line(report),
    )


def _build_uncertainty_lines(report: ScaleUp | ScaleDown) -> Page:
    """Build a line for each reason why the report is not certain."""
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), line) for line in report.iter_doubts())


def _build_sources_line(report: ScaleUp | ScaleDown) -> Page:
    """Build the line that names the sources of the groups and flags, if they are known."""
    return (paragraph(Marked(f"{'; '.join(report.sources)}.", Tone.FAINT)),) if report.sources else ()


def _build_filtered_out_line(report: ScaleUp) -> Page:
    """Build the line with the number of pods that fit on existing or upcoming nodes, if there are any."""
    if not report.filtered_out:
        return ()
    count = len(report.filtered_out)
    return (paragraph(f"{counted(count, 'pod')} {'fit' if count > 1 else 'fits'} on existing or upcoming nodes."),)


def _build_template_gap_lines(report: ScaleUp) -> Page:
    """Build paragraphs about labels and taints that templates of empty groups lack, and the tags that supply them."""
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


def _build_unhelped_pods_table(report: ScaleUp, style: Style) -> Page:
    """Build the table of pods that no group grows for, with each group's reason.

    Pods for which all groups have the same reasons share their rows.
    """
    pods_by_reasons: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pod, unhelped in report.remaining.items():
        figures = report.details.get(pod, {})
        reason_by_group = {
            group: _describe_rejection(rejection, figures.get(group, ""), style)
            for group, rejection in unhelped.rejected.items()
        }
        reason_by_group |= {group: "; ".join(reasons) for group, reasons in unhelped.skipped.items()}
        pods_by_reasons.setdefault(tuple(sorted(reason_by_group.items())), []).append(pod)

    rows = []
    for reasons_of_groups, pods in pods_by_reasons.items():
        for group, reason in reasons_of_groups or (("", ""),):
            rows.append((first_of(pods), group, reason))
    columns = (Column("pods"), GROUP, Column("why it does not grow"))
    return build_table(rows, columns, lambda row: row, style, title="No group grows for", full=False)


def _describe_rejection(rejection: GroupRefusal, figures: str, style: Style) -> str:
    """Describe a rejection by its plugin and the figures behind it or, without figures, upstream's message.

    Wide output has the message and the figures.
    """
    reasons = ", ".join(rejection.reasons)
    details = (reasons, figures) if style.wide else (figures or reasons,)
    return ": ".join(filter(None, (rejection.plugin, *details)))


def build_scale_down_page(report: ScaleDown, style: Style) -> Page:
    """Build the page of a scale-down: the nodes that are deleted, then the other nodes with their reasons."""
    headline, *details = report.build_first_line()
    deleted = (*report.deleted_now.empty, *report.deleted_now.drain)
    columns = (Column("node", keep=True), GROUP, Column("verdict"), *number_columns("used"), Column("why"))
    nodes = sorted(
        report.nodes.items(), key=lambda item: (item[0] not in deleted, item[1].state != "unneeded", item[0])
    )

    def build_row(item: tuple[str, NodeRemoval]) -> tuple[str, ...]:
        """Return the cells for a node. Its reason includes the cause of an exhausted budget and the node's mark."""
        name, node = item
        *cells, reason = _build_node_cells(name, node, report.kept.get(name), name in deleted)
        if ignored := report.ignored_pods.get(name):
            remains = "otherwise empty" if reason == EMPTY else reason
            reason = f"{remains}; {first_of(ignored)} {'ends' if len(ignored) == 1 else 'end'} with the node"
        if node.blocking_pod and (cause := report.budget_causes.get(node.blocking_pod.pod)):
            reason += f"; {cause}"
        if since := report.marked_since.get(name):
            reason += f"; marked as unneeded since {since}"
        return *cells, reason

    return (
        *_build_uncertainty_lines(report),
        paragraph(Marked(headline, Tone.GOOD if deleted and not report.lost_pods else Tone.PLAIN), *details),
        *([paragraph(Marked(report.describe_lost_pods(), Tone.WARNING))] if report.lost_pods else []),
        *([paragraph(Marked(report.loop_error, Tone.BAD))] if report.loop_error else []),
        *build_table(nodes, columns, build_row, style, title="Nodes"),
        *([ONE_RUN] if nodes else []),
        *_build_sources_line(report),
    )


def _build_node_cells(name: str, node: NodeRemoval, kept: NodeKeepers | None, is_deleted: bool) -> tuple[str, ...]:
    """Return the cells for a node: name, group, verdict, utilization and reason."""
    used = f"{node.utilization.value:.0%} {node.utilization.resource}" if node.utilization else ""
    verdict = "deleted" if is_deleted else STATES.get(node.state, node.state)
    return name, node.group, verdict, used, _describe_node_reason(node, kept)


def _describe_node_reason(node: NodeRemoval, kept: NodeKeepers | None) -> str:
    """Return why a node is deleted or kept, and whether it could be deleted if no other node were."""
    if node.state == "unneeded":
        return f"{counted(len(node.moves), 'pod')} would move" if node.moves else EMPTY
    code = node.reason or ""
    if node.blocking_pod is not None:
        blocking = node.blocking_pod
        reason = f"kept by {blocking.pod}: {_add_code(POD_REASONS, blocking.reason)}{_describe_unblocking(kept)}"
        return reason if code == BLOCKED else f"{_add_code(NODE_REASONS, code)}; {reason}"
    is_removable_alone = code == NO_PLACE and node.alone is not None and node.alone.removable
    reason = _add_code(NODE_REASONS, code)
    return f"{reason}; could be deleted if it were the only one" if is_removable_alone else reason


def _add_code(texts: Mapping[str, str], code: str) -> str:
    """Return the autoscaler's reason in plain words, followed by its own name for it in parentheses."""
    return f"{texts[code]} ({code})" if code in texts else code


def _describe_unblocking(kept: NodeKeepers | None) -> str:
    """Describe what would have to change for the pods that keep a node, or that even then they would fit nowhere else.

    Return an empty string if neither is known.
    """
    if kept is None:
        return ""
    if kept.then:
        no_place = ". Its pods would have no room elsewhere even if all could be evicted"
        return no_place if kept.then == NO_PLACE else ""
    needed = [f"{keeper.pod} {UNBLOCKS.get(keeper.reason, keeper.reason)}" for keeper in kept.keepers[:MAX_KEEPERS]]
    if len(kept.keepers) > MAX_KEEPERS:
        needed.append(counted(len(kept.keepers) - MAX_KEEPERS, "more pod"))
    return f". Would be deleted if {'; '.join(needed)}"
