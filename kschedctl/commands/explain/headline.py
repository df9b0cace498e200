"""The headline of an explanation, about the pod or its group, and the cause by which pending pods are grouped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.pod_group_report import GATED, PLACED
from kschedctl.commands.explain.report import UNSCHEDULABLE, Cause, Explanation, PreemptionReport, describe_causes
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.text.counts import agreeing, counted, join_first_few

NAMED = 3
FOR_EACH = ", each pod considered alone"
FITS = f"a node fits now{FOR_EACH}"
FITS_IN_VAIN = "a node fits now, but other waiting pods take the room first"
PREEMPTS = f"no node fits now, but kube-scheduler would preempt other pods{FOR_EACH}"
UNDER_WAY = "preemption is under way"
UNDER_WAY_IN_VAIN = f"{UNDER_WAY}, but other waiting pods take the room first"
WAIT = "Wait"
NOT_INITIALIZED = "no node is initialized; the cloud controller manager is not running or fails"


def build_headline(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Build the headline of an explanation: where the pod goes, the main causes against it, or why it is not tried.

    If the pod's group is to blame, the headline is about the group. `profiles` are the scheduler names that the
    configuration serves.
    """
    if report.group_failure:
        return report.group_failure
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
    return _describe_unhandled_pod(report, pod, profiles)


def get_cause_for_grouping(report: Explanation) -> str:
    """Return the cause by which to group pending pods. Pods that wait for the same reason have the same cause.

    For an unschedulable pod, this is the main cause without the pod's figures. For most other pods, it is the headline.
    A fixed text is the cause of all pods that fit, of those whose victims are terminating, and of those that would
    preempt others. Pods whose room rivals take first have a text of their own. If the pod's group is to blame, the
    cause is the group's failure. If the cloud provider has initialized no node, the cause says so.
    """
    if report.group_failure:
        return report.group_failure
    if report.verdict == "Schedulable":
        return FITS_IN_VAIN if report.rivals else FITS
    preemption = report.preemption
    if preemption is not None and (preemption.terminating or preemption.chosen_victims):
        return _get_cause_of_preemption(preemption)
    if not report.causes or report.verdict != "Unschedulable":
        return report.headline
    cause = _choose_main_cause(report.causes)
    if isinstance(cause.fact_data, UntoleratedTaint) and cause.fact_data.is_no_node_initialized:
        return f"{cause.reason}: {NOT_INITIALIZED}"
    return cause.reason


def _choose_main_cause(causes: Sequence[Cause]) -> Cause:
    """Return the cause that has to end first: the first one, unless that is a lack of resources.

    If something else also keeps the pod off every candidate node, more resources do not help, so that comes first.
    """
    first = causes[0]
    if not isinstance(first.fact_data, Insufficient | TooManyPods):
        return first
    lasting_causes = (
        cause
        for cause in causes
        if cause.within and cause.nodes == cause.within and not isinstance(cause.fact_data, Insufficient | TooManyPods)
    )
    return next(lasting_causes, first)


def _get_cause_of_preemption(preemption: PreemptionReport) -> str:
    """Return the cause by which to group pods for which others are preempted, or would be if nothing changes."""
    if not preemption.terminating:
        return PREEMPTS
    return UNDER_WAY_IN_VAIN if preemption.rivals else UNDER_WAY


def describe_details_besides_cause(report: Explanation) -> str:
    """Describe what the headline adds to the cause for grouping, with the punctuation before it.

    Return an empty string if the headline does not begin with the cause.
    """
    if report.group_failure or report.missing_class or report.verdict != UNSCHEDULABLE:
        return ""
    preemption = report.preemption
    if preemption is not None and preemption.chosen_victims:
        return ""
    if preemption is not None and preemption.terminating:
        return "" if preemption.rivals else f": {_describe_awaited_victims(preemption)}"
    # The headline begins with a fact or a conflict rather than with the bare reason, which is the cause for grouping
    if not report.causes or report.causes[0].fact or any(cause.conflict for cause in report.causes):
        return ""
    first, *further_causes = report.causes
    scope = first.build_scope(len(report.node_order)).text
    further_text = describe_causes(further_causes)
    return f"{scope}; {further_text}" if further_text else scope


def quotes_reason(report: Explanation, reason: str) -> bool:
    """Return whether the headline contains `reason`, which a plugin gave before any node was filtered."""
    if report.group_failure:
        return False
    if report.verdict == GATED:
        return any(reason in status.reasons for status in report.queue.values())
    if report.preemption and report.preemption.terminating:
        return False
    if report.verdict == UNSCHEDULABLE and report.causes:
        return any(cause.reason == reason and cause.quotes_reason for cause in report.causes)
    # What remains is kube-scheduler's message
    return report.verdict in (UNSCHEDULABLE, "Error") and reason in (report.message or "")


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


def _describe_unhandled_pod(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Describe why the scheduler does not handle the pod: it ended, is bound, has another scheduler, or is deleted."""
    if report.claims_without_scheduler:
        return _describe_bypassed_scheduler(report, pod)
    if report.verdict == "Finished":
        return f"the pod has ended ({pod.status.phase}); nothing is left to schedule"
    if report.kubelet_rejection:
        bypass = f"spec.nodeName {pod.spec.node_name} bypasses the scheduler"
        return f"{bypass}, but the kubelet would reject the pod: {report.kubelet_rejection}"
    if report.verdict == "Bound":
        return f"already on node {pod.spec.node_name}"
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
        among = f", the best of {feasible_count:,} feasible nodes" if feasible_count > 1 else ""
        return f"on {report.best[0]}{among}"
    among = f", of {feasible_count:,} feasible nodes" if feasible_count > len(report.best) else ""
    shown = ", ".join(report.best[:NAMED]) + (", …" if len(report.best) > NAMED else "")
    return f"on any of {len(report.best):,} equally good nodes ({shown}){among}"


def describe_rivals_for_node(preemption: PreemptionReport) -> str:
    """Describe which waiting pods take the nominated node first, or return "" if no such pod is known."""
    rivals = preemption.rivals
    if not rivals:
        return ""
    return f"{join_first_few(rivals)} {agreeing(len(rivals), 'takes', 'take')} {preemption.nominated} first"


def describe_preemption_under_way(preemption: PreemptionReport) -> str:
    """Describe for which victims the pod waits on its nominated node, and the pods that take that node first."""
    return f"{UNDER_WAY}: {_describe_awaited_victims(preemption)}"


def _describe_awaited_victims(preemption: PreemptionReport) -> str:
    """Describe for which victims the pod waits, and the pods that take its nominated node first."""
    pods = f"{counted(len(preemption.terminating), 'pod')} ({_join_first_names(preemption.terminating)})"
    overdue = f", overdue by {preemption.overdue}" if preemption.overdue else ""
    rivals = describe_rivals_for_node(preemption)
    rivals_clause = f", but {rivals}" if rivals else ""
    return f"the pod waits for {pods} to terminate on {preemption.nominated}{overdue}{rivals_clause}"


def _join_first_names(names: tuple[str, ...]) -> str:
    """Join the first names, and count the others."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


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
