"""The section about a pod's group: quorum, who is missing or blocks, and where it was tried."""

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


def pod_group_section(group: PodGroupReport | None, style: Style) -> Page:
    """Nothing for a pod that is scheduled by itself."""
    if group is None:
        return ()
    return section(
        "Pod group",
        paragraph(Marked(group.name, Tone.STRONG), ": ".join((_policy(group), _outcome(group)))),
        *_of_other_project(group),
        *([paragraph(Marked(f"condition {group.condition}:", Tone.FAINT), group.message)] if group.message else ()),
        *_placements(group, style),
        *_members(group, style),
        *(_tree(group.tree, style) if group.tree else ()),
        *([paragraph("deadlocked with:", names(group.deadlocked_with, SHOWN))] if group.deadlocked_with else ()),
        *([paragraph("to go:", names(group.victims, SHOWN))] if group.victims else ()),
    )


def _tree(tree: GroupTreeReport, style: Style) -> Page:
    """The groups with which it is placed, from the root down."""
    columns = (Column("group", verbatim=True), Column("of"), Column("needs"), Column("tried"), Column("why"))
    made_room = tree.victims and [paragraph("to go:", names(tree.victims, SHOWN))]
    chance = tree.by_chance and [paragraph("in which order the groups are tried is up to chance, and decides here")]
    return (
        paragraph("placed with the groups of CompositePodGroup", Marked(tree.name, Tone.STRONG)),
        *build_table(tree.groups, columns, _group, style, limit=SHOWN, full=False, each_node=True),
        *(made_room or ()),
        *(chance or ()),
    )


def _group(group: GroupOfTree) -> Row:
    what = "pod" if group.kind == "PodGroup" else "group"
    needs = f"{count(group.least, what)}{f' in one {group.topology}' if group.topology else ''}"
    tone = (
        Tone.GOOD if group.verdict == "Placed" else Tone.WARNING if group.verdict == "WaitsForPreemption" else Tone.BAD
    )
    return (group.name, group.parent, needs, Marked(group.verdict, tone), Marked(group.message, Tone.FAINT))


def _policy(group: PodGroupReport) -> str:
    by = f" of {group.project}" if group.project else ""
    if group.policy == "gang":
        return f"gang{by} of {count(group.min_count, 'pod')} at once"
    if group.policy and group.project:
        return f"gang{by} of {count(group.min_count, 'pod')}, but kube-scheduler places them one by one"
    if group.problem:
        return f"gang{by}, of how many pods is not known: {group.problem}"
    return "its pods are placed one by one" if group.policy else "there is no such PodGroup, or it was not read"


def _outcome(group: PodGroupReport) -> str:
    there = f"{group.pods} {agreeing(group.pods, 'exists', 'exist')}, {group.scheduled} of them with a node"
    return f"{there}, {group.missing} {agreeing(group.missing, 'is', 'are')} missing" if group.missing else there


def _of_other_project(group: PodGroupReport) -> Iterator[Block]:
    """Whether all fit at once by kube-scheduler's filters, and what else its object says."""
    if not group.project:
        return
    sentences = [f"{group.fitting} of its pods fit at once by kube-scheduler's filters"]
    sentences += [f"{group.ended} of them succeeded"] if group.ended else []
    sentences += [f"{task.fitting} of task {task.name}, of {task.least} at the least" for task in group.tasks]
    sentences += [f"{group.held_back} still have Kueue's gates"] if group.held_back else []
    sentences += [f"queue {group.queue}"] if group.queue else []
    sentences += [f"phase {group.phase}"] if group.phase else []
    yield paragraph("; ".join(sentences))


def _placements(group: PodGroupReport, style: Style) -> Page:
    columns = [
        Column(group.topology, verbatim=True),
        *number_columns("nodes", "fit", "score"),
        Column("first that does not"),
    ]
    return build_table(group.placements, columns, _placement, style, limit=SHOWN, full=False, each_node=True)


def _placement(placement: PlacementReport) -> Row:
    fits = Marked(f"{placement.pods:,}", Tone.GOOD if placement.fits else Tone.BAD)
    score = "" if placement.score is None else f"{placement.score}"
    return (
        placement.name,
        f"{placement.nodes:,}",
        fits,
        score,
        Stack((placement.blocking, Marked(placement.message, Tone.FAINT))),
    )


def _members(group: PodGroupReport, style: Style) -> Page:
    """The pods of the group, those first that are not placed."""
    ordered = sorted(group.members, key=lambda member: member.verdict in ("Placed", "Preempting"))
    columns = (Column("pod", keep=True), Column("tried"), Column("why"))
    return build_table(ordered, columns, _member, style, limit=SHOWN, full=False, each_node=True)


def _member(member: MemberReport) -> Row:
    fits = f"on {member.node}" if member.node else member.verdict
    why = "" if member.node else member.message
    return (member.pod, Marked(fits, TONES.get(member.verdict, Tone.BAD)), Marked(why, Tone.FAINT))
