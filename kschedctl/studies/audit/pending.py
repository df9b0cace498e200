"""What waits for a node, by cause: every pending pod replayed, and those told apart that fit and wait all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.reports.audit.pending import PendingSection, WaitingPods
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.studies.ages import age
from kschedctl.studies.audit.ground import Ground
from kschedctl.studies.audit.rule import ERROR, NOTE, WARNING, AuditRule, judged
from kschedctl.studies.unknown import together
from kschedctl.studies.why.headline import shared_cause, told_of_group

CAUSES = ("stuck", "error", "unserved", "gang", "unschedulable", "preemption", "gated", "turn")
"""The gravest first."""
FITS = "a node fits now"
NO_TIMES = UnknownKind("Age", "are not known without the time of the reading: --now TIME", VERDICT)
RULES = {
    "stuck": AuditRule(
        "audit-pending-stuck",
        ERROR,
        "A pod fits on a node now, and waits all the same",
        "The scheduler does not try it: it missed the event that should have woken the pod, or does not work.",
        "Look at the scheduler's log and health; kschedctl wakes tells which event it waits for",
    ),
    "error": AuditRule(
        "audit-pending-error",
        ERROR,
        "Scheduling a pod fails with an error",
        "A plugin cannot answer: the pod is tried again and again, and never placed, until what it asks for is there.",
        "Put right what the message names",
    ),
    "unserved": AuditRule(
        "audit-pending-unserved",
        ERROR,
        "No scheduler that is known serves a pod",
        "Its spec.schedulerName is that of no profile of this configuration: unless another scheduler runs under that "
        "name nobody ever tries it.",
        "Correct spec.schedulerName, or start the scheduler of that name",
    ),
    "gang": AuditRule(
        "audit-pending-gang",
        WARNING,
        "A gang does not fit, or is not complete",
        "Its pods are placed together or not at all.",
        "kschedctl explain POD tells where its pods fit",
    ),
    "unschedulable": AuditRule(
        "audit-pending-unschedulable",
        WARNING,
        "Pods fit on no node",
        "They wait until the cluster, or they themselves, change.",
        "kschedctl remedies POD names the smallest changes that help",
    ),
    "gated": AuditRule(
        "audit-pending-gated",
        NOTE,
        "Pods are held back before scheduling",
        "Whoever set the gate has to take it away; until then no scheduler looks at them.",
        "Ask whoever holds the gate",
    ),
}
"""Cause -> what is found where pods wait for it."""


class WaitingPod(NamedTuple):
    """A pod that waits, why, and what its replay says."""

    pod: Pod
    cause: str
    reason: str
    explanation: Explanation


def pending_section(ground: Ground) -> PendingSection:
    """Every pending pod by what keeps it pending."""
    waiting = list(_waiting(ground))
    groups = _grouped(waiting)
    unknown = [*together(each.explanation.unknown for each in ground.replay), *_of_nothing(ground)]
    if not ground.now and any(each.cause == "stuck" for each in waiting):
        unknown.append(NO_TIMES)
    return PendingSection(
        title="Pending, by cause",
        headline=_headline(waiting),
        pods=len(waiting),
        waiting=tuple(_report(group, ground) for group in groups),
        not_replayed=tuple(dict.fromkeys(what for each in ground.replay for what in each.explanation.not_replayed)),
        **judged(tuple(RULES.values()), _findings(groups, ground), unknown),
    )


def _of_nothing(ground: Ground) -> tuple[UnknownKind, ...]:
    """That no other pods wait leans on having read all pods."""
    gap = ground.cluster.gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def _waiting(ground: Ground) -> Iterator[WaitingPod]:
    for alike in ground.replay:
        for pod in alike.pods:
            yield WaitingPod(pod, *_cause(pod, alike.explanation, ground), alike.explanation)


def _cause(pod: Pod, report: Explanation, ground: Ground) -> tuple[str, str]:
    """Why it waits, in a word, and the reason that it shares with others."""
    if report.verdict == "NotResponsible":
        return "unserved", f'no profile serves scheduler name "{pod.spec.scheduler_name}"'
    if report.pod_group and (of_group := told_of_group(report.pod_group, report)):
        return "gang", of_group
    if report.verdict == "Gated":
        return "gated", report.headline
    if report.verdict == "Error":
        return "error", report.message or report.headline
    if report.verdict == "Unschedulable":
        under_way = report.preemption is not None and report.preemption.terminating
        return ("preemption" if under_way else "unschedulable"), shared_cause(report)
    waits = ground.seconds_since(pod.metadata.creation_timestamp)
    return ("turn" if waits is not None and waits < ground.thresholds.stuck_seconds else "stuck"), FITS


def _grouped(waiting: Iterable[WaitingPod]) -> list[list[WaitingPod]]:
    """By cause and reason, the gravest cause first, then the most pods; the oldest pod of each first."""
    groups: dict[tuple[str, str], list[WaitingPod]] = {}
    for each in waiting:
        groups.setdefault((each.cause, each.reason), []).append(each)
    for group in groups.values():
        group.sort(key=_created)
    return sorted(groups.values(), key=lambda group: (CAUSES.index(group[0].cause), -len(group)))


def _created(each: WaitingPod) -> tuple[bool, str]:
    """Those of unknown age last."""
    created = each.pod.metadata.creation_timestamp or ""
    return not created, created


def _report(group: Sequence[WaitingPod], ground: Ground) -> WaitingPods:
    first = group[0]
    return WaitingPods(
        cause=first.cause,
        reason=first.reason,
        pods=tuple(each.pod.key for each in group),
        workloads=_workloads(group),
        age=age(first.pod.metadata.creation_timestamp, ground.now),
        example=first.explanation.headline,
    )


def _workloads(group: Sequence[WaitingPod]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(owner_of(each.pod)) for each in group))


def _findings(groups: Iterable[Sequence[WaitingPod]], ground: Ground) -> Iterator[Finding]:
    for group in groups:
        first = group[0]
        rule = RULES.get(first.cause)
        if rule is None:
            continue
        severity = NOTE if first.cause == "stuck" and not ground.now else rule.severity
        since = age(first.pod.metadata.creation_timestamp, ground.now)
        yield rule.finding(
            f"Pod {first.pod.key}",
            f"{_others(group)}{first.explanation.headline}" + (f", for {since}" if since else ""),
            rule.fix.replace("POD", first.pod.key),
            namespace=first.pod.metadata.namespace,
            severity=severity,
        )


def _others(group: Sequence[WaitingPod]) -> str:
    others = len(group) - 1
    return f"with {others:,} other{'s' * (others != 1)}: " if others else ""


def _headline(waiting: Sequence[WaitingPod]) -> str:
    if not waiting:
        return "nothing is pending"
    counts = ((cause, sum(each.cause == cause for each in waiting)) for cause in CAUSES)
    told = ", ".join(f"{number:,} {WORDS[cause]}" for cause, number in counts if number)
    return f"{len(waiting):,} pod{'s' * (len(waiting) != 1)} pending: {told}"


WORDS = {
    "stuck": "stuck",
    "error": "with an error",
    "unserved": "that no scheduler serves",
    "gang": "of gangs",
    "unschedulable": "unschedulable",
    "preemption": "waiting for preemption",
    "gated": "gated",
    "turn": "waiting for their turn",
}
