"""The headline of an explanation: the answer in one line, and the cause by which pending pods are grouped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.group_headline import describe_group_failure, describe_group_placement
from kschedctl.commands.explain.report import Cause, Explanation, PreemptionReport
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint

NAMED = 3
FITS = "a node fits now, for each by itself"
UNDER_WAY = "preemption is under way"
WAIT = "Wait"
NOT_INITIALIZED = "no node is initialized, the cloud controller manager is not running, or fails"


def build_headline(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Build the headline of an explanation. For an unschedulable pod, it gives the main causes.

    `profiles` are the scheduler names that the configuration serves.
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
            return f"held back before scheduling: {'; '.join(reasons)}"
        case "Error":
            return f"scheduling fails with an error: {report.message}"
    return _describe_settled_pod(report, pod, profiles)


def find_shared_cause(report: Explanation) -> str:
    """Return the headline without the pod's own figures, so that pods with the same cause can be grouped."""
    if report.pod_group and (group_failure := describe_group_failure(report.pod_group, report)):
        return group_failure
    if report.verdict == "Schedulable":
        return FITS
    if report.preemption is not None and report.preemption.terminating:
        return UNDER_WAY
    if not report.causes or report.verdict != "Unschedulable":
        return report.headline
    cause = report.causes[0]
    if isinstance(cause.fact_data, UntoleratedTaint) and cause.fact_data.no_node_is_initialized:
        return f"{cause.reason}: {NOT_INITIALIZED}"
    return cause.reason


def describe_causes(causes: Sequence[Cause], nodes: int) -> str:
    """Describe all causes in one line, starting with contradictory demands of the pod."""
    parts = ((cause.reason, describe_cause(cause, nodes)) for cause in causes)
    conflicts = (cause.conflict for cause in causes if cause.conflict)
    return "; ".join([*conflicts, *(f"{reason} ({text})" if text else reason for reason, text in parts)])


def describe_cause(cause: Cause, nodes: int) -> str:
    """Describe how many of `nodes` nodes the cause applies to, and the closest of them.

    >>> describe_cause(Cause("", "Insufficient cpu", 9, 9, "w4", "cpu: 6 requested, 2 free of 8"), 12)
    'all 9 eligible nodes, closest w4: cpu: 6 requested, 2 free of 8'
    """
    place, evidence = cause.describe_nodes(nodes), cause.describe_closest(nodes)
    if cause.within == cause.nodes == 1 and place:
        return f"{cause.nearest}, {place}: {cause.fact}" if cause.fact else f"{cause.nearest}, {place}"
    return ", ".join(filter(None, (place, evidence)))


def _describe_bypassed_scheduler(report: Explanation, pod: Pod) -> str:
    """Describe how the pod's spec.nodeName bypasses the scheduler, so that its claims stay unbound."""
    first, *further_claims = report.claims_without_scheduler
    more = f" and {len(further_claims)} more" if further_claims else ""
    wait = "wait" if further_claims else "waits"
    claims = f"claim {first.claim} of class {first.storage_class}{more} {wait} for the scheduler to choose a node"
    return f"spec.nodeName {pod.spec.node_name} bypasses the scheduler, but {claims} (WaitForFirstConsumer)"


def _describe_settled_pod(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Describe why the scheduler does not handle the pod, or no longer does."""
    if report.claims_without_scheduler:
        return _describe_bypassed_scheduler(report, pod)
    if report.verdict == "Finished":
        return f"the pod has ended ({pod.status.phase}), there is nothing left to schedule"
    if report.verdict == "Bound":
        return f"the pod is already bound to node {pod.spec.node_name}"
    if pod.spec.scheduler_name not in profiles:
        return f'no profile serves scheduler name "{pod.spec.scheduler_name}" (served: {", ".join(profiles)})'
    return "the pod is being deleted"


def _describe_unschedulable_pod(report: Explanation) -> str:
    """Describe why the pod is unschedulable, or that preemption is under way."""
    if report.preemption and report.preemption.terminating:
        return _describe_preemption_under_way(report.preemption)
    return describe_causes(report.causes, len(report.node_order)) or report.message or ""


def _describe_permit_wait(report: Explanation) -> str:
    """Return a clause about the reason for which the pod would wait at Permit, or an empty string."""
    reasons = dict.fromkeys(", ".join(status.reasons) for status in report.permit.values() if status.code == WAIT)
    return f", where it waits: {'; '.join(reasons)}" if reasons else ""


def _describe_destination(report: Explanation) -> str:
    """Describe on which node the pod would be placed, or on which tied nodes."""
    among = f", of {len(report.feasible):,} nodes that fit" if len(report.feasible) > 1 else ""
    if len(report.best) == 1:
        return f"on {report.best[0]}{among}"
    shown = ", ".join(report.best[:NAMED]) + (", …" if len(report.best) > NAMED else "")
    return f"on any of {len(report.best):,} tied nodes ({shown}){among}"


def _describe_preemption_under_way(preemption: PreemptionReport) -> str:
    """Describe which victims the pod waits for on its nominated node."""
    terminating = preemption.terminating
    pods = f"{len(terminating)} pod{'s' * (len(terminating) != 1)}"
    location = f"on {preemption.nominated} ({_list_names(terminating)})"
    return f"preemption is under way: it waits for {pods} to terminate {location}"


def _list_names(names: tuple[str, ...]) -> str:
    """Join the first names, and count the others."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
