"""Headlines about the group of a pod, for pods that are only placed together with their group."""

from __future__ import annotations

from kschedctl.commands.explain.pod_group_report import GroupTreeReport, PodGroupReport
from kschedctl.commands.explain.report import Explanation
from kschedctl.text.counts import agreeing, counted

PLACED, INCOMPLETE, GATED = "Placed", "Incomplete", "Gated"
PASSED = ("Success", "Skip")
"""The codes of PreFilter plugins that do not reject the pod."""


def describe_group_failure(group: PodGroupReport, report: Explanation) -> str:
    """Describe why the pod's group is not placed. Return an empty string if the group is not to blame."""
    if group.project:
        return _describe_gang_failure(group, report)
    if group.missing and report.verdict == GATED:
        return _describe_incomplete_gang(group)
    if report.verdict == GATED or group.verdict in (PLACED, INCOMPLETE):
        return ""
    return _describe_outcome(group)


def describe_group_placement(report: Explanation) -> str:
    """Describe where the pod is placed with its group. Return an empty string if the group is not placed."""
    group = report.pod_group
    if group is None or group.project or group.verdict != PLACED:
        return ""
    placed = {member.pod: member.node for member in group.members if member.node}
    if report.pod not in placed or (len(placed) == 1 and not group.topology):
        return ""
    kind = "gang" if group.policy == "gang" else "pod group"
    where = f" in one {group.topology}" if group.topology else ""
    return f"would be scheduled with its {kind} {group.short_name}{where}: such as on node {placed[report.pod]}"


def _describe_gang_failure(group: PodGroupReport, report: Explanation) -> str:
    """Describe why a gang of another project is not placed. Return an empty string if the gang is not to blame."""
    if group.deadlocked_with and report.verdict not in ("Schedulable", "Error"):
        return _describe_deadlock(group)
    if group.decided_by:
        return _describe_undecided_gang(group)
    if group.policy != "gang" or report.verdict == GATED:
        return ""
    if group.missing:
        return _describe_incomplete_gang(group)
    is_rejected = any(answer.code not in PASSED for answer in report.pre_filter.values())
    pod_decides = group.verdict == PLACED or group.fitting >= group.min_count or is_rejected
    return "" if pod_decides else _describe_outcome(group)


def describe_bound_gang_failure(group: PodGroupReport) -> str:
    """Describe why a gang whose pods are bound together is not placed, or return an empty string if it is."""
    if group.problem or group.verdict == PLACED:
        return group.problem
    if group.deadlocked_with:
        return _describe_deadlock(group)
    return _describe_incomplete_gang(group) if group.missing else _describe_outcome(group)


def _describe_undecided_gang(group: PodGroupReport) -> str:
    """Describe a gang that another project places by rules that are not replayed."""
    project, name = group.decided_by, group.short_name
    if group.missing:
        return f"its gang {name} has {group.pods} of the {counted(group.min_count, 'pod')} that {project} waits for"
    if not group.policy:
        return f"{project} decides about its gang {name}: {group.problem}"
    some = f"all {group.fitting}" if group.verdict == PLACED else f"{group.fitting} of {group.min_count}"
    return f"by kube-scheduler's filters {some} of its gang {name} fit at once; {project} decides"


def _describe_outcome(group: PodGroupReport) -> str:
    """Describe why the group, or the tree of groups that contains it, is not placed."""
    tree_outcome = _describe_tree_outcome(group, group.tree) if group.tree else ""
    return tree_outcome or _describe_own_outcome(group)


def _describe_own_outcome(group: PodGroupReport) -> str:
    """Describe why the group is not placed, apart from the tree that contains it."""
    name = group.short_name
    if group.verdict == "WaitsForPreemption":
        return f"its pod group {name} fits once {counted(len(group.victims), 'pod')} made room for it"
    if group.verdict == "Error":
        return f"scheduling its pod group {name} fails with an error: {group.message}"
    if group.deadlocked_with:
        return _describe_deadlock(group)
    if group.topology and not group.placements:
        return f"its pod group {name} has to be in one {group.topology}, and no node has that label"
    if not group.min_count:  # one that fits is enough
        return f"no pod of its group {name} fits in any {group.topology}" if group.topology else ""
    return _describe_shortage(group)


def _describe_tree_outcome(group: PodGroupReport, tree: GroupTreeReport) -> str:
    """Describe why the tree of groups is not placed. Return an empty string if the group itself is to blame."""
    root = tree.groups[0]
    own_group = next(
        of_tree for of_tree in tree.groups if (of_tree.kind, of_tree.name) == ("PodGroup", group.short_name)
    )
    if tree.verdict == "WaitsForPreemption":
        return f"its CompositePodGroup {root.name} fits once {counted(len(tree.victims), 'pod')} made room for it"
    if tree.verdict == "Error":
        return f"scheduling its CompositePodGroup {root.name} fails with an error: {root.message}"
    if PLACED in (tree.verdict, own_group.verdict) or own_group.message != root.message:
        return ""
    domain = f" in one {root.topology}" if root.topology else ""
    return (
        f"its CompositePodGroup {root.name} needs nodes for {counted(root.least, 'group')} at once{domain}: fewer fit"
    )


def _describe_shortage(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods fit, or which gangs make it wait at Permit."""
    if group.waits_for and _count_fitting(group) + group.scheduled >= group.min_count:
        return _describe_permit_wait(group)
    domain = f" in one {group.topology}" if group.topology else ""
    fitting = max([placement.pods for placement in group.placements] or [_count_fitting(group)]) + group.scheduled
    needed = f"a node for {counted(group.min_count, 'pod')} at once{domain}"
    return f"its gang {group.short_name} needs {needed}, and {fitting:,} {agreeing(fitting, 'fits', 'fit')}"


def _describe_incomplete_gang(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods are still missing."""
    needed = counted(group.min_count, "pod")
    return f"its gang {group.short_name} has {group.pods:,} of the {needed} that it needs: none is tried before"


def _describe_permit_wait(group: PodGroupReport) -> str:
    """Describe which gangs a fitting gang waits for at Permit."""
    gangs, apart = (f"gang{'s' * (len(names) > 1)} {' and '.join(names)}" for names in (group.waits_for, group.apart))
    message = f"its gang {group.short_name} fits, but waits at Permit for {gangs}"
    return f"{message}, whose pods wait for {apart}: none is ever bound" if group.apart else message


def _describe_deadlock(group: PodGroupReport) -> str:
    """Describe how the gang and another one deadlock, because each holds nodes that the other needs."""
    some = f"{group.scheduled} of the {counted(group.min_count, 'pod')} of its gang {group.short_name}"
    held = "holds a node" if group.scheduled == 1 else "hold nodes"
    return (
        f"deadlock: {some} {held}, and the rest needs those that gang {group.deadlocked_with[0]} holds in the same way"
    )


def suggest_deadlock_end(group: PodGroupReport) -> str:
    """Suggest which gang to delete to end the deadlock, or return an empty string if there is none."""
    if not group.deadlocked_with:
        return ""
    other = group.deadlocked_with[0]
    return f"Suspend or delete {other}: replayed, {group.name} fits in its room; or the other way round"


def _count_fitting(group: PodGroupReport) -> int:
    """Return the number of members that fit, with or without preemption."""
    return sum(member.verdict in ("Placed", "Preempting") for member in group.members)
