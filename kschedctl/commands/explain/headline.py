"""The answer about a pod in one line, and the cause by which pods that wait alike are told together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.group_headline import placed_with_group, told_of_group
from kschedctl.commands.explain.report import Cause, Explanation, PreemptionReport
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint

NAMED = 3
FITS = "a node fits now, for each by itself"
UNDER_WAY = "preemption is under way"
WAIT = "Wait"
NOT_INITIALIZED = "no node is initialized, the cloud controller manager is not running, or fails"


def headline(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """The answer in one line; of a pod that fits nowhere, what keeps it from the nodes within its reach.

    ``profiles``: the names of the schedulers that the configuration is for.
    """
    if report.pod_group and (of_group := told_of_group(report.pod_group, report)):
        return of_group
    match report.verdict:
        case "Schedulable":
            return placed_with_group(report) or f"{_destination(report)}{_waiting(report)}"
        case "Unschedulable":
            return _unschedulable(report)
        case "Gated":
            reasons = dict.fromkeys(reason for status in report.queue.values() for reason in status.reasons)
            return f"held back before scheduling: {'; '.join(reasons)}"
        case "Error":
            return f"scheduling fails with an error: {report.message}"
    return _nothing_to_decide(report, pod, profiles)


def shared_cause(report: Explanation) -> str:
    """What other pods may wait for too: the headline without what is of one pod alone."""
    if report.pod_group and (of_group := told_of_group(report.pod_group, report)):
        return of_group
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


def in_words(causes: Sequence[Cause], nodes: int) -> str:
    """All causes in one line, what contradicts itself first."""
    parts = ((cause.reason, told(cause, nodes)) for cause in causes)
    conflicts = (cause.conflict for cause in causes if cause.conflict)
    return "; ".join([*conflicts, *(f"{reason} ({text})" if text else reason for reason, text in parts)])


def told(cause: Cause, nodes: int) -> str:
    """What of ``nodes`` nodes a cause is about, and the fact behind it.

    >>> told(Cause("", "Insufficient cpu", 9, 9, "w4", "cpu: 6 requested, 2 free of 8"), 12)
    'all 9 eligible nodes, closest w4: cpu: 6 requested, 2 free of 8'
    """
    place, evidence = cause.place(nodes), cause.evidence(nodes)
    if cause.within == cause.nodes == 1 and place:
        return f"{cause.nearest}, {place}: {cause.fact}" if cause.fact else f"{cause.nearest}, {place}"
    return ", ".join(filter(None, (place, evidence)))


def _bypasses_scheduler(report: Explanation, pod: Pod) -> str:
    """Return the headline of a pod whose spec.nodeName keeps its claims from being bound."""
    first, *others = report.claims_without_scheduler
    more = f" and {len(others)} more" if others else ""
    wait = "wait" if others else "waits"
    claims = f"claim {first.claim} of class {first.storage_class}{more} {wait} for the scheduler to choose a node"
    return f"spec.nodeName {pod.spec.node_name} bypasses the scheduler, but {claims} (WaitForFirstConsumer)"


def _nothing_to_decide(report: Explanation, pod: Pod, profiles: Collection[str]) -> str:
    """Return the headline of a pod that is not, or no longer, the scheduler's business."""
    if report.claims_without_scheduler:
        return _bypasses_scheduler(report, pod)
    if report.verdict == "Finished":
        return f"the pod has ended ({pod.status.phase}), there is nothing left to schedule"
    if report.verdict == "Bound":
        return f"the pod is already bound to node {pod.spec.node_name}"
    if pod.spec.scheduler_name not in profiles:
        return f'no profile serves scheduler name "{pod.spec.scheduler_name}" (served: {", ".join(profiles)})'
    return "the pod is being deleted"


def _unschedulable(report: Explanation) -> str:
    if report.preemption and report.preemption.terminating:
        return _under_way(report.preemption)
    return in_words(report.causes, len(report.node_order)) or report.message or ""


def _waiting(report: Explanation) -> str:
    """What it waits for there before it is bound."""
    reasons = dict.fromkeys(", ".join(status.reasons) for status in report.permit.values() if status.code == WAIT)
    return f", where it waits: {'; '.join(reasons)}" if reasons else ""


def _destination(report: Explanation) -> str:
    among = f", of {len(report.feasible):,} nodes that fit" if len(report.feasible) > 1 else ""
    if len(report.best) == 1:
        return f"on {report.best[0]}{among}"
    shown = ", ".join(report.best[:NAMED]) + (", …" if len(report.best) > NAMED else "")
    return f"on any of {len(report.best):,} tied nodes ({shown}){among}"


def _under_way(preemption: PreemptionReport) -> str:
    going = preemption.terminating
    pods = f"{len(going)} pod{'s' * (len(going) != 1)}"
    return f"preemption is under way: it waits for {pods} to terminate on {preemption.nominated} ({_some(going)})"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
