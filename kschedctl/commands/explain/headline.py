"""The headline of an explanation, about the pod or its group, and the cause by which pending pods are grouped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.pod_group_report import GroupTreeReport, PodGroupReport
from kschedctl.commands.explain.report import Explanation, PreemptionReport, describe_causes
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.text.counts import agreeing, counted, first_few

NAMED = 3
FOR_EACH = ", each pod considered alone"
FITS = f"a node fits now{FOR_EACH}"
FITS_IN_VAIN = "a node fits now, but other waiting pods take the room first"
UNDER_WAY = "preemption is under way"
UNDER_WAY_IN_VAIN = f"{UNDER_WAY}, but other waiting pods take the room first"
WAIT = "Wait"
NOT_INITIALIZED = "no node is initialized; the cloud controller manager is not running or fails"


def build_headline(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Build the headline of an explanation: where the pod goes, the main causes against it, or why it is not tried.

    If the pod's group is to blame, the headline is about the group. `profiles` are the scheduler names that the
    configuration serves.
    """
    if report.pod_group and (group_failure := describe_group_failure(report.pod_group, report)):
        return group_failure
    match report.verdict:
        case "Schedulable":
            return describe_group_placement(report) or f"{_describe_destination(report)}{_describe_permit_wait(report)}"
        case "Unschedulable":
            return _describe_unschedulable_pod(report)
        case "Gated":
            reasons = dict.fromkeys(reason for status in report.queue.values() for reason in status.reasons)
            return "; ".join(reasons)
        case "Error":
            return f"scheduling fails with an error: {report.message}"
    return _describe_settled_pod(report, pod, profiles)


def get_cause_for_grouping(report: Explanation) -> str:
    """Return the cause by which to group pending pods. Pods that wait for the same reason have the same cause.

    For an unschedulable pod, this is the main cause without the pod's figures. For most other pods, it is the headline.
    All pods that fit share one cause, apart from those whose room other pods take first. So do all pods whose victims
    are terminating. If the pod's group is to blame,
    the cause is the group's failure.
    """
    if report.pod_group and (group_failure := describe_group_failure(report.pod_group, report)):
        return group_failure
    if report.verdict == "Schedulable":
        return FITS_IN_VAIN if report.rivals else FITS
    if report.preemption is not None and report.preemption.terminating:
        return UNDER_WAY_IN_VAIN if report.preemption.rivals else UNDER_WAY
    if not report.causes or report.verdict != "Unschedulable":
        return report.headline
    cause = report.causes[0]
    if isinstance(cause.fact_data, UntoleratedTaint) and cause.fact_data.is_no_node_initialized:
        return f"{cause.reason}: {NOT_INITIALIZED}"
    return cause.reason


def _describe_bypassed_scheduler(report: Explanation, pod: Pod) -> str:
    """Describe how spec.nodeName bypasses the scheduler and leaves claims unbound.

    Only one of the pod's unbound claims is named.
    """
    first, *further_claims = report.claims_without_scheduler
    further_text = f" and {len(further_claims)} more" if further_claims else ""
    wait = "wait" if further_claims else "waits"
    claims = (
        f"claim {first.claim} of class {first.storage_class}{further_text} {wait} for the scheduler to choose a node"
    )
    return f"spec.nodeName {pod.spec.node_name} bypasses the scheduler, but {claims} (WaitForFirstConsumer)"


def _describe_settled_pod(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Describe why the scheduler does not handle the pod: it ended, is bound, has another scheduler, or is deleted."""
    if report.claims_without_scheduler:
        return _describe_bypassed_scheduler(report, pod)
    if report.verdict == "Finished":
        return f"the pod has ended ({pod.status.phase}); nothing is left to schedule"
    if report.kubelet_rejection:
        bypass = f"spec.nodeName {pod.spec.node_name} bypasses the scheduler"
        return f"{bypass}, but the kubelet would reject the pod: {report.kubelet_rejection}"
    if report.verdict == "Bound":
        return f"the pod is already bound to node {pod.spec.node_name}"
    if pod.spec.scheduler_name not in profiles:
        return f'no scheduler profile is named "{pod.spec.scheduler_name}" (profiles: {", ".join(profiles)})'
    return "the pod is being deleted"


def _describe_unschedulable_pod(report: Explanation) -> str:
    """Describe why the pod is unschedulable, or that preemption is under way. Without causes, return the message."""
    if report.preemption and report.preemption.terminating:
        return describe_preemption_under_way(report.preemption)
    return describe_causes(report.causes) or report.message or ""


def _describe_permit_wait(report: Explanation) -> str:
    """Return a clause that says why the pod would wait at Permit, or an empty string."""
    reasons = dict.fromkeys(", ".join(status.reasons) for status in report.permit.values() if status.code == WAIT)
    return f", where it waits: {'; '.join(reasons)}" if reasons else ""


def _describe_destination(report: Explanation) -> str:
    """Describe the node on which the pod would be placed, or the tied nodes, and how many nodes fit."""
    feasible_count = len(report.feasible)
    if len(report.best) == 1:
        among = f", the best of {feasible_count:,} nodes that fit" if feasible_count > 1 else ""
        return f"on {report.best[0]}{among}"
    among = f", of {feasible_count:,} nodes that fit" if feasible_count > len(report.best) else ""
    shown = ", ".join(report.best[:NAMED]) + (", …" if len(report.best) > NAMED else "")
    return f"on any of {len(report.best):,} equally good nodes ({shown}){among}"


def describe_obstacle_to_room(preemption: PreemptionReport) -> str:
    """Describe which waiting pods take the nominated node first, or return "" if no such pod is known."""
    rivals = preemption.rivals
    return (
        f"{first_few(rivals)} {agreeing(len(rivals), 'takes', 'take')} {preemption.nominated} first" if rivals else ""
    )


def describe_preemption_under_way(preemption: PreemptionReport) -> str:
    """Describe for which victims the pod waits on its nominated node, and the pods that take that node first.

    The names of the victims come last, since a short form may cut the end.
    """
    pods = counted(len(preemption.terminating), "pod")
    obstacle = describe_obstacle_to_room(preemption)
    but = f", but {obstacle}" if obstacle else ""
    names = _join_first_names(preemption.terminating)
    overdue = f", overdue by {preemption.overdue}" if preemption.overdue else ""
    return f"{UNDER_WAY}: it waits for {pods} to terminate on {preemption.nominated}{overdue}{but} ({names})"


def _join_first_names(names: tuple[str, ...]) -> str:
    """Join the first names, and count the others."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


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
    return _describe_unplaced_group(group)


def describe_group_placement(report: Explanation) -> str:
    """Describe where the pod is placed with its group.

    Return "" if the group or the pod is not placed, or if another project places the group. Also return "" if the pod
    is the only placed member and no topology is demanded.
    """
    group = report.pod_group
    if group is None or group.project or group.verdict != PLACED:
        return ""
    placed = {member.pod: member.node for member in group.members if member.node}
    is_alone_without_topology = len(placed) == 1 and not group.topology
    if report.pod not in placed or is_alone_without_topology:
        return ""
    kind = "gang" if group.policy == "gang" else "pod group"
    topology_clause = f" in one {group.topology}" if group.topology else ""
    return (
        f"would be scheduled with its {kind} {group.short_name}{topology_clause}, for example on node "
        f"{placed[report.pod]}"
    )


def _describe_gang_failure(group: PodGroupReport, report: Explanation) -> str:
    """Describe why a gang of another project is not placed. Return "" if the gang is not to blame.

    The gang is not to blame if its pods are placed one by one, or if enough of them fit. It is not to blame either if
    the pod itself is gated or rejected by PreFilter.
    """
    if group.deadlocked_with and report.verdict not in ("Schedulable", "Error"):
        return _describe_gang_deadlock(group)
    if group.decided_by:
        return _describe_externally_decided_gang(group)
    if group.policy != "gang" or report.verdict == GATED:
        return ""
    if group.missing:
        return _describe_incomplete_gang(group)
    is_rejected = any(answer.code not in PASSED for answer in report.pre_filter.values())
    pod_decides = group.verdict == PLACED or group.fitting >= group.min_count or is_rejected
    return "" if pod_decides else _describe_unplaced_group(group)


def describe_bound_gang_failure(group: PodGroupReport) -> str:
    """Describe why a gang whose pods are bound together is not placed. Return "" if it is placed.

    If the required number of pods cannot be determined, the text says why.
    """
    if group.problem or group.verdict == PLACED:
        return group.problem
    if group.deadlocked_with:
        return _describe_gang_deadlock(group)
    return _describe_incomplete_gang(group) if group.missing else _describe_unplaced_group(group)


def _describe_externally_decided_gang(group: PodGroupReport) -> str:
    """Describe how many pods of the gang exist or fit. Another project places it by rules that are not replayed."""
    project, name = group.decided_by, group.short_name
    if group.missing:
        return f"its gang {name} has {group.pods} of the {counted(group.min_count, 'pod')} that {project} waits for"
    if not group.policy:
        return f"{project} decides about its gang {name}: {group.problem}"
    fitting = f"all {group.fitting}" if group.verdict == PLACED else f"{group.fitting} of {group.min_count}"
    return f"according to kube-scheduler's filters, {fitting} pods of its gang {name} fit at once; {project} decides"


def _describe_unplaced_group(group: PodGroupReport) -> str:
    """Describe why the group is not placed. The tree of groups that contains it may be the reason."""
    tree_outcome = _describe_unplaced_tree(group, group.tree) if group.tree else ""
    return tree_outcome or _describe_why_group_is_unplaced(group)


def _describe_why_group_is_unplaced(group: PodGroupReport) -> str:
    """Describe why the group itself is not placed, ignoring the group tree that it belongs to.

    Return "" if a single pod of the group is enough and no topology is demanded.
    """
    name = group.short_name
    if group.verdict == "WaitsForPreemption":
        return f"its pod group {name} fits once {_format_victim_count(len(group.victims))} made room for it"
    if group.verdict == "Error":
        return f"scheduling its pod group {name} fails with an error: {group.message}"
    if group.deadlocked_with:
        return _describe_gang_deadlock(group)
    if group.topology and not group.placements:
        return f"its pod group {name} has to be in one {group.topology}, but no node has that label"
    if not group.min_count:  # one that fits is enough
        return f"no pod of its group {name} fits in any {group.topology}" if group.topology else ""
    return _describe_gang_shortage(group)


def _format_victim_count(count: int) -> str:
    """Return the number of victims with its verb, such as "1 pod has"."""
    return f"{counted(count, 'pod')} {agreeing(count, 'has', 'have')}"


def _describe_unplaced_tree(group: PodGroupReport, tree: GroupTreeReport) -> str:
    """Describe why the tree of groups is not placed: it waits for preemption, fails with an error, or does not fit.

    Return "" if the pod's own group failed by itself, or if the tree or the group is placed.
    """
    root = tree.groups[0]
    own_group = next(member for member in tree.groups if member.kind == "PodGroup" and member.name == group.short_name)
    if tree.verdict == "WaitsForPreemption":
        return f"its CompositePodGroup {root.name} fits once {_format_victim_count(len(tree.victims))} made room for it"
    if tree.verdict == "Error":
        return f"scheduling its CompositePodGroup {root.name} fails with an error: {root.message}"
    # A group of its own message failed by itself; the root's failure is copied into the groups below it
    if PLACED in (tree.verdict, own_group.verdict) or own_group.message != root.message:
        return ""
    domain = f" in one {root.topology}" if root.topology else ""
    return (
        f"its CompositePodGroup {root.name} needs nodes for {counted(root.least, 'group')} at once{domain}, but fewer "
        "fit"
    )


def _describe_gang_shortage(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods fit, or, if enough fit, for which gangs they wait at Permit."""
    if group.waits_for and _count_fitting_members(group) + group.scheduled >= group.min_count:
        return _describe_gang_wait(group)
    domain = f" in one {group.topology}" if group.topology else ""
    most_fitting = max((placement.pods for placement in group.placements), default=_count_fitting_members(group))
    fitting = most_fitting + group.scheduled
    nodes = "a node" if group.min_count == 1 else "nodes"
    needed = f"{nodes} for {counted(group.min_count, 'pod')} at once{domain}"
    fits = f"only {fitting:,} {agreeing(fitting, 'fits', 'fit')}" if fitting else "none fits"
    return f"its gang {group.short_name} needs {needed}, but {fits}"


def _describe_incomplete_gang(group: PodGroupReport) -> str:
    """Describe how many of the gang's pods are still missing."""
    needed = counted(group.min_count, "pod")
    return (
        f"its gang {group.short_name} has {group.pods:,} of the {needed} that it needs; until they exist, no pod "
        "is tried"
    )


def _describe_gang_wait(group: PodGroupReport) -> str:
    """Describe which gangs a fitting gang waits for at Permit.

    If those gangs wait for further gangs, the text names these too, and says that no pod is ever bound.
    """
    message = f"its gang {group.short_name} fits, but waits at Permit for {_join_gang_names(group.waits_for)}"
    next_waits_for = group.apart  # the gangs that the awaited gangs wait for
    if not next_waits_for:
        return message
    return f"{message}, whose pods wait for {_join_gang_names(next_waits_for)}: no pod is ever bound"


def _join_gang_names(names: Sequence[str]) -> str:
    """Join the names of gangs, such as "gangs ml/a and ml/b"."""
    return f"{agreeing(len(names), 'gang', 'gangs')} {' and '.join(names)}"


def _describe_gang_deadlock(group: PodGroupReport) -> str:
    """Describe how the gang and another gang deadlock, because each holds nodes that the other needs."""
    placed_pods = f"{group.scheduled} of the {counted(group.min_count, 'pod')} of its gang {group.short_name}"
    held = "holds a node" if group.scheduled == 1 else "hold nodes"
    other = group.deadlocked_with[0]
    return f"deadlock: {placed_pods} {held}, and its other pods need the nodes that gang {other} holds in the same way"


def suggest_deadlock_end(group: PodGroupReport) -> str:
    """Suggest which gang to delete to end the deadlock. Return an empty string if there is no deadlock."""
    if not group.deadlocked_with:
        return ""
    other = group.deadlocked_with[0]
    return f"Suspend or delete {other}: in a replay, {group.name} then fits in its place, or vice versa"


def _count_fitting_members(group: PodGroupReport) -> int:
    """Return the number of members that fit, with or without preemption."""
    return sum(member.verdict in ("Placed", "Preempting") for member in group.members)
