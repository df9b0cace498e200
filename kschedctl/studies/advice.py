"""The first line of an explanation, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.reports.explanation import Explanation


def headline(report: Explanation) -> str:
    """The answer in one line, kube-scheduler's own message included where it has one."""
    match report.verdict:
        case "Schedulable":
            return f"would be scheduled: {_destination(report)}"
        case "Gated":
            reasons = [reason for status in report.queue.values() for reason in status.reasons]
            return f"held back before scheduling: {'; '.join(reasons)}"
        case "Error":
            return f"scheduling fails with an error: {report.headline}"
        case _:
            return report.message or report.headline


def advice(report: Explanation, pod: Pod) -> tuple[str, ...]:
    """What to look at next; nothing here is a remedy that was not replayed."""
    return tuple(_advice(report, pod))


def _destination(report: Explanation) -> str:
    if len(report.best) == 1:
        return f"node {report.best[0]}, of {len(report.feasible)} that fit"
    shown = ", ".join(report.best[:3]) + (", …" if len(report.best) > 3 else "")
    return f"any of {len(report.best)} tied nodes ({shown}), of {len(report.feasible)} that fit"


def _advice(report: Explanation, pod: Pod) -> Iterator[str]:
    match report.verdict:
        case "Bound":
            yield "Nothing is left to schedule; if it does not run, look at the kubelet: kubectl describe pod"
        case "NotResponsible" if pod.metadata.deletion_timestamp is not None:
            yield "Finalizers or a kubelet that does not answer keep it: look at metadata.finalizers"
        case "NotResponsible":
            yield "Is that scheduler running? kube-scheduler writes no event for pods of other schedulers"
            yield "Name its configuration with --config, or correct the pod's spec.schedulerName"
        case "Gated":
            gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
            if gates:
                yield f"Find the controller that removes {gates}; the scheduler does not look at the pod before"
            if report.feasible:
                yield f"Once released, {len(report.feasible)} nodes would fit"
            elif report.message:
                yield f"Once released, it would still not fit: {report.message}"
        case "Schedulable":
            yield from _schedulable(pod)
        case "Unschedulable":
            yield from _unschedulable(report)


def _schedulable(pod: Pod) -> Iterator[str]:
    failed = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    if failed is not None:
        yield "The cluster changed since kube-scheduler last refused it; it tries again within 10 s to 5 min"
    elif pod.metadata.creation_timestamp is not None:
        yield "If it stays Pending, is kube-scheduler running? It has not written a verdict on this pod"


def _unschedulable(report: Explanation) -> Iterator[str]:
    single = [node for node in report.nodes if len(node.refusals) == 1]
    if single:
        nearest = single[0].refusals[0]
        fact = f": {nearest.fact}" if nearest.fact else ""
        yield f"Nearest: node {single[0].name} fails only {nearest.plugin or 'the pre-selection of nodes'}{fact}"
    preemption = report.preemption
    if preemption is not None and preemption.candidates and preemption.asked:
        victims = len(preemption.candidates[preemption.chosen].victims) if preemption.chosen else 0
        yield f"Preemption would make room on {preemption.chosen} by evicting {victims} pod{'s' * (victims != 1)}"
