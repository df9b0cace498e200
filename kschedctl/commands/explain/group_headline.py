"""The answer about a pod in one line where its group decides."""

from __future__ import annotations

from kschedctl.commands.explain.pod_group_report import GroupTreeReport, PodGroupReport
from kschedctl.commands.explain.report import Explanation
from kschedctl.text.counts import agreeing, counted

PLACED, INCOMPLETE, GATED = "Placed", "Incomplete", "Gated"
PASSED = ("Success", "Skip")
"""What a PreFilter says that does not refuse."""


def told_of_group(group: PodGroupReport, report: Explanation) -> str:
    """What its group lacks: it is not complete, or does not fit together; empty where the pod itself decides."""
    if group.project:
        return _told_of_gang(group, report)
    if group.missing and report.verdict == GATED:
        return _incomplete(group)
    if report.verdict == GATED or group.verdict in (PLACED, INCOMPLETE):
        return ""
    return _told_of_outcome(group)


def placed_with_group(report: Explanation) -> str:
    """Where a pod goes that is placed with others of its group, which is not always where it would go by itself."""
    group = report.pod_group
    if group is None or group.project or group.verdict != PLACED:
        return ""
    placed = {member.pod: member.node for member in group.members if member.node}
    if report.pod not in placed or (len(placed) == 1 and not group.topology):
        return ""
    kind = "gang" if group.policy == "gang" else "pod group"
    where = f" in one {group.topology}" if group.topology else ""
    return f"would be scheduled with its {kind} {group.short_name}{where}: such as on node {placed[report.pod]}"


def _told_of_gang(group: PodGroupReport, report: Explanation) -> str:
    """The headline of a gang of another project."""
    if group.deadlocked_with and report.verdict not in ("Schedulable", "Error"):
        return _deadlock(group)
    if group.decided_by:
        return _decided_by_another(group)
    if group.policy != "gang" or report.verdict == GATED:
        return ""
    if group.missing:
        return _incomplete(group)
    refused = any(answer.code not in PASSED for answer in report.pre_filter.values())
    own = group.verdict == PLACED or group.fitting >= group.min_count or refused
    return "" if own else _told_of_outcome(group)


def told_of_gang(group: PodGroupReport) -> str:
    """What a gang lacks that is bound together; empty where nothing does."""
    if group.problem or group.verdict == PLACED:
        return group.problem
    if group.deadlocked_with:
        return _deadlock(group)
    return _incomplete(group) if group.missing else _told_of_outcome(group)


def _decided_by_another(group: PodGroupReport) -> str:
    by, name = group.decided_by, group.short_name
    if group.missing:
        return f"its gang {name} has {group.pods} of the {counted(group.min_count, 'pod')} that {by} waits for"
    if not group.policy:
        return f"{by} decides about its gang {name}: {group.problem}"
    some = f"all {group.fitting}" if group.verdict == PLACED else f"{group.fitting} of {group.min_count}"
    return f"by kube-scheduler's filters {some} of its gang {name} fit at once; {by} decides"


def _told_of_outcome(group: PodGroupReport) -> str:
    of_tree = _told_of_tree(group, group.tree) if group.tree else ""
    return of_tree or _told_of_itself(group)


def _told_of_itself(group: PodGroupReport) -> str:
    name = group.short_name
    if group.verdict == "WaitsForPreemption":
        return f"its pod group {name} fits once {counted(len(group.victims), 'pod')} made room for it"
    if group.verdict == "Error":
        return f"scheduling its pod group {name} fails with an error: {group.message}"
    if group.deadlocked_with:
        return _deadlock(group)
    if group.topology and not group.placements:
        return f"its pod group {name} has to be in one {group.topology}, and no node has that label"
    if not group.min_count:  # one that fits is enough
        return f"no pod of its group {name} fits in any {group.topology}" if group.topology else ""
    return _lack(group)


def _told_of_tree(group: PodGroupReport, tree: GroupTreeReport) -> str:
    """What the tree of a group lacks; empty where it is the group itself that does not fit."""
    root = tree.groups[0]
    own = next(of_tree for of_tree in tree.groups if (of_tree.kind, of_tree.name) == ("PodGroup", group.short_name))
    if tree.verdict == "WaitsForPreemption":
        return f"its CompositePodGroup {root.name} fits once {counted(len(tree.victims), 'pod')} made room for it"
    if tree.verdict == "Error":
        return f"scheduling its CompositePodGroup {root.name} fails with an error: {root.message}"
    if PLACED in (tree.verdict, own.verdict) or own.message != root.message:
        return ""
    where = f" in one {root.topology}" if root.topology else ""
    return f"its CompositePodGroup {root.name} needs nodes for {counted(root.least, 'group')} at once{where}: fewer fit"


def _lack(group: PodGroupReport) -> str:
    """What a gang lacks that finds too few nodes, or of which too few pods get Permit."""
    if group.waits_for and _fitting(group) + group.scheduled >= group.min_count:
        return _waits_for(group)
    where = f" in one {group.topology}" if group.topology else ""
    fitting = max([placement.pods for placement in group.placements] or [_fitting(group)]) + group.scheduled
    needed = f"a node for {counted(group.min_count, 'pod')} at once{where}"
    return f"its gang {group.short_name} needs {needed}, and {fitting:,} {agreeing(fitting, 'fits', 'fit')}"


def _incomplete(group: PodGroupReport) -> str:
    needed = counted(group.min_count, "pod")
    return f"its gang {group.short_name} has {group.pods:,} of the {needed} that it needs: none is tried before"


def _waits_for(group: PodGroupReport) -> str:
    gangs, apart = (f"gang{'s' * (len(names) > 1)} {' and '.join(names)}" for names in (group.waits_for, group.apart))
    message = f"its gang {group.short_name} fits, but waits at Permit for {gangs}"
    return f"{message}, whose pods wait for {apart}: none is ever bound" if group.apart else message


def _deadlock(group: PodGroupReport) -> str:
    some = f"{group.scheduled} of the {counted(group.min_count, 'pod')} of its gang {group.short_name}"
    held = "holds a node" if group.scheduled == 1 else "hold nodes"
    return (
        f"deadlock: {some} {held}, and the rest needs those that gang {group.deadlocked_with[0]} holds in the same way"
    )


def ends_deadlock(group: PodGroupReport) -> str:
    """What would free a gang that another one holds up, as was replayed; empty for one that is in no deadlock."""
    if not group.deadlocked_with:
        return ""
    other = group.deadlocked_with[0]
    return f"Suspend or delete {other}: replayed, {group.name} fits in its room; or the other way round"


def _fitting(group: PodGroupReport) -> int:
    return sum(member.verdict in ("Placed", "Preempting") for member in group.members)
