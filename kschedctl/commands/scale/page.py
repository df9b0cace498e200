"""The pages of the reports ScaleUp and ScaleDown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kschedctl.render.page import Marked, Page, Paragraph, Stack, Style, names, paragraph
from kschedctl.render.sections import build_pods_section, build_still_pending_section
from kschedctl.render.tables import build_struct_table, build_table, number_columns
from kschedctl.reports.cluster_autoscaler import (
    GroupRefusal,
    NodeRemoval,
    ScaleDown,
    ScaleUp,
)
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing, counted, first_few, first_of, join_first_few

GROUP = Column("node group", keep=True)
ONE_RUN = paragraph(
    Marked("This is one possible run: the autoscaler goes through nodes and groups in random order.", Tone.FAINT)
)
EMPTY = "empty"
STATES = {
    "unneeded": "not needed",
    "unremovable": "stays",
    "notCandidate": "not a candidate",
    "notEvaluated": "not evaluated",
}


def build_scale_up_page(report: ScaleUp, style: Style) -> Page:
    """Build the page of a scale-up: which groups grow, which pods stay pending, and why other groups do not help."""
    first, pods = report.build_headline_parts()
    is_good = report.are_all_placed
    errors = [line for line in (report.loop_error, report.error) if line]
    return (
        *_build_uncertainty_lines(report),
        paragraph(Marked(first, Tone.GOOD if is_good else Tone.BAD), pods),
        *(paragraph(Marked(line, Tone.BAD)) for line in errors),
        *build_struct_table(report.increases, style, title="Groups that grow"),
        *build_still_pending_section(report.still_pending, report.rivals, report.enough, style),
        *build_pods_section("Pods left to a later loop, in which another group may grow", report.later_pods, style),
        *_build_filtered_out_lines(report),
        *_build_template_gap_lines(report),
        *_build_no_scale_up_table(report, style),
        *([ONE_RUN] if report.increases else []),
        *_build_sources_line(report),
    )


def _build_uncertainty_lines(report: ScaleUp | ScaleDown) -> Page:
    """Build a line for each reason why the report is uncertain."""
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), line) for line in report.iter_doubts())


def _build_sources_line(report: ScaleUp | ScaleDown) -> Page:
    """Build the line that names the sources of the groups and flags, or return () if they are unknown."""
    return (paragraph(Marked(f"Sources: {'; '.join(report.sources)}.", Tone.FAINT)),) if report.sources else ()


def _build_filtered_out_lines(report: ScaleUp) -> Page:
    """Build the lines about pods that trigger no scale-up.

    They fit on existing or upcoming nodes, or the autoscaler ignores them.
    """
    lines = []
    fitting_pods = [pod for pod in report.filtered_out if pod not in report.ignored]
    if fitting_pods:
        need = agreeing(len(fitting_pods), "needs no new node: it fits", "need no new node: they fit")
        lines.append(paragraph(f"{join_first_few(fitting_pods)} {need} on existing or upcoming nodes."))
    if ignored := report.describe_ignored_pods():
        lines.append(paragraph(Marked(f"The autoscaler {ignored}.", Tone.WARNING)))
    return tuple(lines)


def _build_template_gap_lines(report: ScaleUp) -> Page:
    """Build paragraphs about the labels and taints that the templates of empty groups lack.

    Each paragraph is followed by the settings that add them, such as tags of the group.
    """
    blocks: list[Paragraph] = []
    for gap in report.template_gaps:
        lacks = " and the ".join(gap.lacks)
        blocks += [
            paragraph(
                f"Node group {gap.group} has no nodes, and its template lacks the {lacks}. With it, a new node would "
                f"take {first_of(gap.pods)}. Add this to the group{'' if gap.provider else ' (on AWS)'}:"
            ),
            *(paragraph(Marked(f"  {setting}", Tone.VERBATIM)) for setting in gap.settings),
        ]
    return tuple(blocks)


def _build_no_scale_up_table(report: ScaleUp, style: Style) -> Page:
    """Build the table of the pods for which no group grows, with the reasons below the pods.

    Pods for which all groups have the same reasons share a row. Within a row, groups with the same reason share a line.
    """
    rows = []
    for reasons, pods in _group_pods_by_reasons(report, style).items():
        groups_by_reason: dict[str, list[str]] = {}
        for group, reason in reasons:
            groups_by_reason.setdefault(reason, []).append(group)
        lines = (f"{', '.join(groups)}: {reason}" for reason, groups in groups_by_reason.items())
        rows.append((f"{len(pods):,}", Stack((Marked(names(pods), Tone.STRONG), *lines))))
    columns = (Column("pods", right=True), Column("names, and why a new node of each group does not help"))
    return build_table(rows, columns, lambda row: row, style, title="Pods that trigger no scale-up", full=False)


def _group_pods_by_reasons(report: ScaleUp, style: Style) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Group the pods for which no node group grows by the node groups' reasons.

    A key of the result is a sequence of pairs of a node group and its reason, sorted by node group.
    """
    pods_by_reasons: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pod, unhelped in report.remaining.items():
        figures = report.details.get(pod, {})
        reason_by_group = {
            group: _describe_rejection(rejection, figures.get(group, ""), style)
            for group, rejection in unhelped.rejected.items()
        }
        reason_by_group |= {group: report.describe_skipped_group(pod, group) for group in unhelped.skipped}
        pods_by_reasons.setdefault(tuple(sorted(reason_by_group.items())), []).append(pod)
    return pods_by_reasons


def _describe_rejection(rejection: GroupRefusal, figures: str, style: Style) -> str:
    """Describe why a node group does not help a pod: by the figures or, if there are none, by plugin and message.

    The message is upstream's. Wide output has the plugin, the message and the figures.
    """
    if figures and not style.wide:
        return figures
    return ": ".join(filter(None, (rejection.plugin, ", ".join(rejection.reasons), figures)))


def _complete_removal_reason(report: ScaleDown, name: str, node: NodeRemoval, reason: str) -> str:
    """Return a node's reason with its ignored pods, the cause of an exhausted budget, and when it became unneeded."""
    if ignored := report.ignored_pods.get(name):
        moves = "no pod would move" if reason == EMPTY else reason
        reason = f"{moves}; {first_few(ignored, 1)} {'is' if len(ignored) == 1 else 'are'} deleted with the node"
    if node.blocking_pod and (cause := report.budget_causes.get(node.blocking_pod.pod)):
        reason += f"; {cause}"
    if since := report.marked_since.get(name):
        reason += f"; marked as unneeded since {since}"
    return reason


def build_scale_down_page(report: ScaleDown, style: Style) -> Page:
    """Build the page of a scale-down: the headline with any warnings, and a table of the nodes, each with its reason.

    The table has the deleted nodes first, then other unneeded nodes, then all others. Uncertainties come before the
    headline, and the sources after the table.
    """
    deleted = (*report.deleted_now.empty, *report.deleted_now.drain)
    return (
        *_build_uncertainty_lines(report),
        *_iter_scale_down_messages(report, is_any_deleted=bool(deleted)),
        *_build_nodes_table(report, deleted, style),
        *_build_pending_pods_note(report),
        *([ONE_RUN] if report.nodes else []),
        *_build_sources_line(report),
    )


def _build_pending_pods_note(report: ScaleDown) -> Page:
    """Build the note that utilizations count the pending pods that fit now, or return () if there are none.

    Upstream: cluster-autoscaler/core/podlistprocessor/filter_out_schedulable.go (1.36).
    """
    pods = report.pending_on_nodes
    if not pods:
        return ()
    count_text = counted(len(pods), "pending pod")
    fits = agreeing(len(pods), "fits", "fit")
    text = f"Utilization also counts {count_text} that {fits} now, as the autoscaler does ({first_few(pods)})."
    return (paragraph(Marked(text, Tone.FAINT)),)


def _iter_scale_down_messages(report: ScaleDown, *, is_any_deleted: bool) -> Iterator[Paragraph]:
    """Yield the headline, which is good news if nodes are deleted and no pod is lost, and then any warnings."""
    headline, *details = report.build_headline_parts()
    is_good = is_any_deleted and not report.lost_pods
    yield paragraph(Marked(headline, Tone.GOOD if is_good else Tone.PLAIN), *details)
    if report.lost_pods:
        yield paragraph(Marked(report.describe_lost_pods(), Tone.WARNING))
    if report.loop_error:
        yield paragraph(Marked(report.loop_error, Tone.BAD))


def _build_nodes_table(report: ScaleDown, deleted: Collection[str], style: Style) -> Page:
    """Build the table of the nodes: first those in `deleted`, then other unneeded nodes, then all others, by name."""
    columns = (Column("node", keep=True), GROUP, Column("verdict"), *number_columns("utilization"), Column("reason"))

    def get_sort_key(name: str) -> tuple[bool, bool, str]:
        """Return a key that sorts deleted nodes first, then other unneeded nodes, and each by name."""
        return name not in deleted, report.nodes[name].state != "unneeded", name

    def build_row(name: str) -> tuple[str, ...]:
        """Return the cells for a node, the reason last."""
        *cells, reason = _build_node_cells(report, name, is_deleted=name in deleted)
        return *cells, _complete_removal_reason(report, name, report.nodes[name], reason)

    return build_table(sorted(report.nodes, key=get_sort_key), columns, build_row, style, title="Nodes")


def _build_node_cells(report: ScaleDown, name: str, is_deleted: bool) -> tuple[str, ...]:
    """Return the cells for a node: name, group, verdict, utilization and reason."""
    node = report.nodes[name]
    used = f"{node.utilization.value:.0%} {node.utilization.resource}" if node.utilization else ""
    verdict = "deleted" if is_deleted else STATES.get(node.state, node.state)
    return name, node.group, verdict, used, _describe_node_outcome(report, name)


def _describe_node_outcome(report: ScaleDown, name: str) -> str:
    """Return why a node stays or, for an unneeded node, how many pods would move and whether the node is cordoned."""
    node = report.nodes[name]
    if node.state != "unneeded":
        return report.describe_staying_node(name)
    moves = f"{counted(len(node.moves), 'pod')} would move" if node.moves else EMPTY
    return f"cordoned; {moves}" if name in report.cordoned else moves
