"""The first line of an explanation, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.reports.explanation import Cause, Explanation, PreemptionReport
from kschedctl.scheduler.facts import Insufficient
from kschedctl.studies.why.causes import in_words

NAMED = 3
TOO_LARGE = "No node is that large: ask for less, or add nodes that are"
_LABELS = "Compare its nodeSelector and required node affinity with the labels: kubectl get nodes --show-labels"
_VOLUMES = "Look at the claim and its events: kubectl describe pvc"
_DEVICES = "Look at the claims and what the drivers offer: kubectl get resourceclaims,deviceclasses,resourceslices"
PLACES: dict[tuple[str, bool | None], str] = {
    ("NodeResourcesFit", True): "Room has to be made on {node}, or added: kschedctl whatif tries it before it is done",
    ("NodeResourcesFit", None): TOO_LARGE,
    ("NodeAffinity", None): _LABELS,
    ("NodeName", None): "Correct spec.nodeName, or leave the choice to the scheduler",
    ("NodePorts", None): "A host port is had once on each node: does it need hostPort, and as many replicas?",
    (
        "InterPodAffinity",
        True,
    ): "Only where no such pod runs is there a place: more nodes or zones, fewer replicas, or a preferred term",
    (
        "InterPodAffinity",
        None,
    ): "No such pod runs where it could go: compare labels and namespaces of its pod affinity with the pods'",
    ("PodTopologySpread", True): "The emptier domains have to take pods first: see what keeps them from it",
    (
        "PodTopologySpread",
        None,
    ): "Give the nodes the label of its topologySpreadConstraints, or another topologyKey to these",
    ("VolumeBinding", None): _VOLUMES,
    ("VolumeZone", None): _VOLUMES,
    ("VolumeRestrictions", True): "The volume is for one pod at a time: the one that holds it has to end first",
    ("VolumeRestrictions", None): _VOLUMES,
    (
        "NodeVolumeLimits",
        None,
    ): "Volumes have to be detached from {node}, or its driver's limit is wrong: kubectl get csinode",
    ("DynamicResources", None): _DEVICES,
}
"""Plugin, and whether nodes are within reach (None: either) -> where to look."""


def headline(report: Explanation) -> str:
    """The answer in one line; of a pod that fits nowhere, what keeps it from the nodes within its reach."""
    match report.verdict:
        case "Schedulable":
            return f"would be scheduled: {_destination(report)}"
        case "Gated":
            reasons = dict.fromkeys(reason for status in report.queue.values() for reason in status.reasons)
            return f"held back before scheduling: {'; '.join(reasons)}"
        case "Error":
            return f"scheduling fails with an error: {report.headline}"
    if report.preemption and report.preemption.terminating:
        return _under_way(report.preemption)
    return in_words(report.causes, len(report.nodes)) or report.message or report.headline


def advice(report: Explanation, pod: Pod) -> tuple[str, ...]:
    """What to look at next; nothing here is a remedy that was not replayed."""
    return tuple(_advice(report, pod))


def _destination(report: Explanation) -> str:
    if len(report.best) == 1:
        return f"node {report.best[0]}, of {len(report.feasible)} that fit"
    shown = ", ".join(report.best[:3]) + (", …" if len(report.best) > 3 else "")
    return f"any of {len(report.best)} tied nodes ({shown}), of {len(report.feasible)} that fit"


def _under_way(preemption: PreemptionReport) -> str:
    going = preemption.terminating
    pods = f"{len(going)} pod{'s' * (len(going) != 1)}"
    return f"preemption is under way: it waits for {pods} to terminate on {preemption.nominated} ({_some(going)})"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


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
            yield from _gated(report, pod)
        case "Schedulable":
            yield from _schedulable(pod)
        case "Unschedulable":
            yield from _unschedulable(report)


def _gated(report: Explanation, pod: Pod) -> Iterator[str]:
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if gates:
        yield f"Find the controller that removes {gates}; the scheduler does not look at the pod before"
    devices = report.queue.get("DynamicResources")
    if devices is not None and devices.reasons:
        yield _DEVICES
    known = {reason for status in report.queue.values() for reason in status.reasons}
    if report.feasible:
        count = len(report.feasible)
        yield f"Once released, {count:,} node{'s' * (count != 1)} would fit"
    elif report.causes and not any(cause.reason in known for cause in report.causes):
        yield f"Once released, it would still not fit: {in_words(report.causes, len(report.nodes))}"


def _schedulable(pod: Pod) -> Iterator[str]:
    failed = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    if failed is not None:
        yield "The cluster changed since kube-scheduler last refused it; it tries again within 10 s to 5 min"
    elif pod.metadata.creation_timestamp is not None:
        yield "If it stays Pending, is kube-scheduler running? It has not written a verdict on this pod"


def _unschedulable(report: Explanation) -> Iterator[str]:
    preemption = report.preemption
    if preemption is not None and preemption.terminating:
        yield f"Wait: it gets {preemption.nominated} once they are gone, unless a pod of higher priority comes first"
        yield "If they stay beyond their grace period, look at their finalizers and at that node's kubelet"
        return
    if preemption is not None and preemption.candidates and preemption.asked:
        victims = len(preemption.candidates[preemption.chosen].victims) if preemption.chosen else 0
        yield f"Preemption would make room on {preemption.chosen} by evicting {victims} pod{'s' * (victims != 1)}"
        return
    if len(report.causes) > 1 and not report.causes[0].within and report.causes[0].nearest:
        yield "Each of these leaves some nodes, all of them together leave none: one of them has to change"
    yield from dict.fromkeys(filter(None, map(_look_at, report.causes[:NAMED])))


def _look_at(cause: Cause) -> str:
    """Where what a cause is about can be looked at or changed."""
    if isinstance(cause.fact_data, Insufficient) and cause.fact_data.nowhere:
        return TOO_LARGE
    text = PLACES.get((cause.plugin, bool(cause.within))) or PLACES.get((cause.plugin, None), "")
    return text.format(node=cause.nearest)
