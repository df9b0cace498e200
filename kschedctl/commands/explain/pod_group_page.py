"""The section about a pod's group: required pods, missing pods, and the topology domains that were tried."""

from __future__ import annotations

from kschedctl.commands.explain.pod_group_report import (
    GroupOfTree,
    GroupTreeReport,
    MemberReport,
    PlacementReport,
    PodGroupReport,
)
from kschedctl.render.page import (
    Block,
    Marked,
    Page,
    Stack,
    Style,
    count,
    names,
    paragraph,
    section,
)
from kschedctl.render.tables import Row, build_table, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing

SHOWN = 10
TONES = {"Placed": Tone.GOOD, "Preempting": Tone.WARNING, "Gated": Tone.WARNING, "Terminating": Tone.WARNING}


def build_pod_group_section(group: PodGroupReport | None, style: Style) -> Page:
    """Build the section about the pod's group. Return () for a pod without a group."""
    if group is None:
        return ()
    blocks: list[Block] = [
        paragraph(Marked(group.name, Tone.STRONG), f"{_describe_group_policy(group)}: {_describe_pod_counts(group)}"),
        *_build_project_line(group),
    ]
    if group.message:
        blocks.append(paragraph(Marked(f"condition {group.condition}:", Tone.FAINT), group.message))
    blocks += _build_placements_table(group, style)
    blocks += _build_members_table(group, style)
    if group.tree:
        blocks += _build_group_tree_section(group.tree, style)
    if group.deadlocked_with:
        blocks.append(paragraph("deadlocked with:", names(group.deadlocked_with, SHOWN)))
    if group.victims:
        blocks.append(paragraph("would be preempted:", names(group.victims, SHOWN)))
    return section("Pod group", *blocks)


def _build_group_tree_section(tree: GroupTreeReport, style: Style) -> Page:
    """Build a table of the tree's groups, beginning with the root, followed by notes on victims and random order."""
    columns = (Column("group", verbatim=True), Column("of"), Column("needs"), Column("tried"), Column("reason"))
    blocks: list[Block] = [
        paragraph("placed with the groups of CompositePodGroup", Marked(tree.name, Tone.STRONG)),
        *build_table(tree.groups, columns, _build_tree_group_row, style, limit=SHOWN, full=False, each_node=True),
    ]
    if tree.victims:
        blocks.append(paragraph("would be preempted:", names(tree.victims, SHOWN)))
    if tree.by_chance:
        blocks.append(paragraph("the groups are tried in random order, which decides the outcome here"))
    return tuple(blocks)


def _build_tree_group_row(group: GroupOfTree) -> Row:
    """Build the row of one group of the tree: its name, its parent, its needs, its verdict and its message.

    A PodGroup needs a number of pods, and a CompositePodGroup needs a number of groups.
    """
    needs = count(group.least, "pod" if group.kind == "PodGroup" else "group")
    if group.topology:
        needs += f" in one {group.topology}"
    if group.verdict == "Placed":
        tone = Tone.GOOD
    elif group.verdict == "WaitsForPreemption":
        tone = Tone.WARNING
    else:
        tone = Tone.BAD
    return (group.name, group.parent, needs, Marked(group.verdict, tone), Marked(group.message, Tone.FAINT))


def _describe_group_policy(group: PodGroupReport) -> str:
    """Describe how many of the group's pods must be placed at once, or say that the pods are placed one by one.

    The text also says whether the required number is unknown or the group does not exist.
    """
    of_project = f" of {group.project}" if group.project else ""
    if group.policy == "gang":
        return f"gang{of_project} of {count(group.min_count, 'pod')} at once"
    if group.policy and group.project:  # a gang of a project whose plugin is not enabled
        return f"gang{of_project} of {count(group.min_count, 'pod')}, but kube-scheduler places them one by one"
    if group.problem:
        return f"gang{of_project} of an unknown number of pods: {group.problem}"
    return "its pods are placed one by one" if group.policy else "there is no such PodGroup, or it was not read"


def _describe_pod_counts(group: PodGroupReport) -> str:
    """Describe how many of the group's pods exist, have a node, and are missing."""
    existing = f"{group.pods} {agreeing(group.pods, 'exists', 'exist')}, {group.scheduled} of them with a node"
    return f"{existing}, {group.missing} {agreeing(group.missing, 'is', 'are')} missing" if group.missing else existing


def _build_project_line(group: PodGroupReport) -> Page:
    """Build the line about a gang of another project: how many pods fit, its tasks, queue and phase.

    Return () for a PodGroup of Kubernetes.
    """
    if not group.project:
        return ()
    fits = agreeing(group.fitting, "fits", "fit")
    clauses = [f"{group.fitting} of its pods {fits} at once according to kube-scheduler's filters"]
    if group.ended:
        clauses.append(f"{group.ended} of them succeeded")
    clauses += [f"{task.fitting} of task {task.name}, which needs at least {task.least}" for task in group.tasks]
    if group.held_back:
        clauses.append(f"{group.held_back} still {agreeing(group.held_back, 'has', 'have')} Kueue's gates")
    if group.queue:
        clauses.append(f"queue {group.queue}")
    if group.phase:
        clauses.append(f"phase {group.phase}")
    return (paragraph("; ".join(clauses)),)


def _build_placements_table(group: PodGroupReport, style: Style) -> Page:
    """Build the table of topology domains in which the group was tried."""
    columns = [
        Column(group.topology, verbatim=True),
        *number_columns("nodes", "fit", "score"),
        Column("first pod that does not fit"),
    ]
    return build_table(group.placements, columns, _build_placement_row, style, limit=SHOWN, full=False, each_node=True)


def _build_placement_row(placement: PlacementReport) -> Row:
    """Build the row of one topology domain: its nodes, the number of pods that fit, and its score.

    The last cell names the first pod that does not fit, and says why.
    """
    fits = Marked(f"{placement.pods:,}", Tone.GOOD if placement.fits else Tone.BAD)
    score = "" if placement.score is None else f"{placement.score}"
    return (
        placement.name,
        f"{placement.nodes:,}",
        fits,
        score,
        Stack((placement.blocking, Marked(placement.message, Tone.FAINT))),
    )


def _build_members_table(group: PodGroupReport, style: Style) -> Page:
    """Build the table of the group's pods. Pods that are not placed come first."""
    ordered = sorted(group.members, key=lambda member: member.verdict in ("Placed", "Preempting"))
    columns = (Column("pod", keep=True), Column("tried"), Column("reason"))
    return build_table(ordered, columns, _build_member_row, style, limit=SHOWN, full=False, each_node=True)


def _build_member_row(member: MemberReport) -> Row:
    """Build the row of one pod: with its node, or else its verdict and the reason."""
    outcome = f"on {member.node}" if member.node else member.verdict
    reason = "" if member.node else member.message
    return (member.pod, Marked(outcome, TONES.get(member.verdict, Tone.BAD)), Marked(reason, Tone.FAINT))
