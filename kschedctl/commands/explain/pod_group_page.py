"""The section about a pod's group: required pods, missing pods, and the topology domains that were tried."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Build the section about the pod's group. It is empty for a pod without a group."""
    if group is None:
        return ()
    return section(
        "Pod group",
        paragraph(Marked(group.name, Tone.STRONG), ": ".join((_describe_policy(group), _describe_pods(group)))),
        *_build_project_details(group),
        *([paragraph(Marked(f"condition {group.condition}:", Tone.FAINT), group.message)] if group.message else ()),
        *_build_placements_table(group, style),
        *_build_members_table(group, style),
        *(_build_tree_table(group.tree, style) if group.tree else ()),
        *([paragraph("deadlocked with:", names(group.deadlocked_with, SHOWN))] if group.deadlocked_with else ()),
        *([paragraph("to go:", names(group.victims, SHOWN))] if group.victims else ()),
    )


def _build_tree_table(tree: GroupTreeReport, style: Style) -> Page:
    """Build the table of the tree's groups, starting at the root, with notes on victims and on the order."""
    columns = (Column("group", verbatim=True), Column("of"), Column("needs"), Column("tried"), Column("why"))
    made_room = tree.victims and [paragraph("to go:", names(tree.victims, SHOWN))]
    chance = tree.by_chance and [paragraph("in which order the groups are tried is up to chance, and decides here")]
    return (
        paragraph("placed with the groups of CompositePodGroup", Marked(tree.name, Tone.STRONG)),
        *build_table(tree.groups, columns, _build_group_row, style, limit=SHOWN, full=False, each_node=True),
        *(made_room or ()),
        *(chance or ()),
    )


def _build_group_row(group: GroupOfTree) -> Row:
    """Build the row of one group of the tree."""
    unit = "pod" if group.kind == "PodGroup" else "group"
    needs = f"{count(group.least, unit)}{f' in one {group.topology}' if group.topology else ''}"
    if group.verdict == "Placed":
        tone = Tone.GOOD
    elif group.verdict == "WaitsForPreemption":
        tone = Tone.WARNING
    else:
        tone = Tone.BAD
    return (group.name, group.parent, needs, Marked(group.verdict, tone), Marked(group.message, Tone.FAINT))


def _describe_policy(group: PodGroupReport) -> str:
    """Describe how many of the group's pods must be placed at once."""
    of_project = f" of {group.project}" if group.project else ""
    if group.policy == "gang":
        return f"gang{of_project} of {count(group.min_count, 'pod')} at once"
    if group.policy and group.project:
        return f"gang{of_project} of {count(group.min_count, 'pod')}, but kube-scheduler places them one by one"
    if group.problem:
        return f"gang{of_project}, of how many pods is not known: {group.problem}"
    return "its pods are placed one by one" if group.policy else "there is no such PodGroup, or it was not read"


def _describe_pods(group: PodGroupReport) -> str:
    """Describe how many of the group's pods exist, have a node, and are missing."""
    existing = f"{group.pods} {agreeing(group.pods, 'exists', 'exist')}, {group.scheduled} of them with a node"
    return f"{existing}, {group.missing} {agreeing(group.missing, 'is', 'are')} missing" if group.missing else existing


def _build_project_details(group: PodGroupReport) -> Iterator[Block]:
    """Yield a line about a gang of another project: how many pods fit, its tasks, queue and phase."""
    if not group.project:
        return
    sentences = [f"{group.fitting} of its pods fit at once by kube-scheduler's filters"]
    sentences += [f"{group.ended} of them succeeded"] if group.ended else []
    sentences += [f"{task.fitting} of task {task.name}, of {task.least} at the least" for task in group.tasks]
    sentences += [f"{group.held_back} still have Kueue's gates"] if group.held_back else []
    sentences += [f"queue {group.queue}"] if group.queue else []
    sentences += [f"phase {group.phase}"] if group.phase else []
    yield paragraph("; ".join(sentences))


def _build_placements_table(group: PodGroupReport, style: Style) -> Page:
    """Build the table of topology domains in which the group was tried."""
    columns = [
        Column(group.topology, verbatim=True),
        *number_columns("nodes", "fit", "score"),
        Column("first that does not"),
    ]
    return build_table(group.placements, columns, _build_placement_row, style, limit=SHOWN, full=False, each_node=True)


def _build_placement_row(placement: PlacementReport) -> Row:
    """Build the row of one topology domain."""
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
    columns = (Column("pod", keep=True), Column("tried"), Column("why"))
    return build_table(ordered, columns, _build_member_row, style, limit=SHOWN, full=False, each_node=True)


def _build_member_row(member: MemberReport) -> Row:
    """Build the row of one pod."""
    outcome = f"on {member.node}" if member.node else member.verdict
    reason = "" if member.node else member.message
    return (member.pod, Marked(outcome, TONES.get(member.verdict, Tone.BAD)), Marked(reason, Tone.FAINT))
