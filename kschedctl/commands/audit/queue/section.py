"""In which queue each pending pod is now, what would wake it, and whether anything should have since an earlier time.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (v1.36). How often a pod was tried, and how long it backs off,
the scheduler alone remembers: told is what its events tell, else that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.ages import format_age
from kschedctl.api.times import subtract_seconds
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.queue.report import PodsInQueue, QueueSection
from kschedctl.commands.explain.waiting import WaitingPod, find_unread_pods, find_waiting_pods, is_left_alone, was_tried
from kschedctl.commands.wakes.between import wakes_between
from kschedctl.commands.wakes.changes_that_wake import wake_ups_after_attempt
from kschedctl.commands.wakes.event_replay import RejectedPod, build_basis, merge_bases
from kschedctl.commands.wakes.many import iter_rejected_groups
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakeUps
from kschedctl.replay.audit_rules import ERROR, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import Basis, UnknownKind
from kschedctl.text.counts import counted

QUEUES = {
    "unknown": "fitting (queue not known)",
    "activeQ": "to be tried next",
    "backoffQ": "backing off",
    "unschedulable": "unschedulable",
    "permit": "waiting at Permit",
    "gated": "gated",
    "none": "in no queue of this scheduler",
}
"""The queues in the order in which they are told, and how their pods are counted."""
CHANGES_TOLD, CHANGES_KEPT = 2, 10
MISSED = AuditRule(
    "audit-queue-missed",
    ERROR,
    "A pod fits now, but nothing woke it",
    "No change woke it, by the plugins' events and hints: it waits for the flush of unschedulable pods, five minutes "
    "after its last attempt. That flush hides the fault.",
    "Report it upstream with both snapshots; meanwhile any change to the pod itself, such as a label, has it tried "
    "again",
    "https://github.com/kubernetes/kubernetes/issues/49314",
)
IN_VAIN = AuditRule(
    "audit-queue-woken-in-vain",
    ERROR,
    "A pod was woken and fits, but still waits",
    "A change between the two moments takes it out of the unschedulable pods, and its back-off lasts ten seconds at "
    "most: the scheduler did not hear of the change, or does not get through its queue.",
    "Look at the scheduler's log, its watches and its queue lengths (scheduler_pending_pods)",
    "pkg/scheduler/backend/queue/scheduling_queue.go, MoveAllToActiveOrBackoffQueue",
)


class InQueue(NamedTuple):
    """A pod and its queue; ``refused``: its attempt, where a profile serves it."""

    waiting: WaitingPod
    queue: str
    refused: RejectedPod | None = None

    @property
    def refused_by(self) -> tuple[str, ...]:
        return tuple(sorted(self.refused.attempt.rejectors.all)) if self.refused else ()

    @property
    def since(self) -> str:
        """When it was put there at the latest: when it was last heard of, else when it was made."""
        said = self.waiting.last_message.at if self.waiting.last_message else ""
        return said or self.waiting.pod.metadata.creation_timestamp or ""


def queue_section(audited: AuditedCluster) -> QueueSection:
    """Every pending pod by its queue; what lies between the earlier moment and this one, where there is one."""
    queued = list(_queued(audited))
    between = _between(audited)
    basis = _basis(queued, audited)
    fitting = tuple(_fitting(between, audited)) if between else ()
    waking = tuple(_shortened(pod, waiting) for pod, waiting in fitting)
    return QueueSection(
        title="Queue and wake-ups",
        headline=_headline(queued, between, waking),
        queued=tuple(_report(group, audited) for group in _grouped(queued)),
        before=between.before if between else "",
        changes=between.changes if between else 0,
        unheard=between.unheard if between else 0,
        between=waking,
        not_replayed=basis["not_replayed"],
        **build_verdict((MISSED, IN_VAIN), _findings(fitting, between, audited), _unknown(basis, between, audited)),
    )


def _queued(audited: AuditedCluster) -> Iterator[InQueue]:
    """Every pending pod, those alike one after the other."""
    waiting = {waiting_pod.pod.key: waiting_pod for waiting_pod in audited.compute_once(find_waiting_pods)}
    served = [waiting_pod.pod for waiting_pod in waiting.values() if _is_ours(waiting_pod)]
    for refused, alike in iter_rejected_groups(audited.scheduler, served):
        for pod in alike:
            yield InQueue(waiting[pod.key], _queue(waiting[pod.key], refused), refused)
    yield from (InQueue(waiting_pod, "none") for waiting_pod in waiting.values() if not _is_ours(waiting_pod))


def _is_ours(waiting: WaitingPod) -> bool:
    return waiting.explanation.verdict != "NotResponsible"


def _queue(waiting: WaitingPod, refused: RejectedPod) -> str:
    """A pod that fits now was tried in vain before, or never; of the former nobody knows what happened to it since."""
    if refused.attempt.gating_plugin:
        return "gated"
    if refused.attempt.rejectors.all or waiting.cause == "gang":
        return "unschedulable"
    if waiting.cause == "permit":
        return "permit"
    if waiting.cause in ("error", "backoff"):
        return "backoffQ"
    return "unknown" if was_tried(waiting.pod) else "activeQ"


def _grouped(queued: Iterable[InQueue]) -> list[list[InQueue]]:
    groups: dict[tuple[str, tuple[str, ...]], list[InQueue]] = {}
    for in_queue in queued:
        groups.setdefault((in_queue.queue, in_queue.refused_by), []).append(in_queue)
    for group in groups.values():
        group.sort(key=lambda queued: (not queued.since, queued.since, queued.waiting.pod.key))
    order = tuple(QUEUES)
    return sorted(groups.values(), key=lambda group: (order.index(group[0].queue), -len(group)))


def _report(group: Sequence[InQueue], audited: AuditedCluster) -> PodsInQueue:
    first = group[0]
    wake_ups = wake_ups_after_attempt(audited.scheduler, first.refused) if first.refused else None
    return PodsInQueue(
        queue=first.queue,
        pods=tuple(in_queue.waiting.pod.key for in_queue in group),
        refused_by=first.refused_by,
        since=first.since,
        age=format_age(first.since, audited.now),
        attempts=max(
            in_queue.waiting.last_message.attempts if in_queue.waiting.last_message else 0 for in_queue in group
        ),
        backs_off_until=_back_off_ends(group, audited),
        headline=_why(first, wake_ups),
        wakes=wake_ups.rejectors if wake_ups else (),
    )


def _back_off_ends(group: Sequence[InQueue], audited: AuditedCluster) -> str:
    """When the last of them is tried again at the latest: a back-off doubles with each attempt, up to a longest."""
    longest = audited.scheduler.configuration.pod_max_backoff_seconds
    said = [in_queue.waiting.last_message for in_queue in group if in_queue.queue == "backoffQ"]
    tried = [words.at for words in said if words and audited.seconds_since(words.at) is not None]
    return subtract_seconds(max(tried), -longest) if tried and len(tried) == len(said) else ""


def _why(first: InQueue, wake_ups: WakeUps | None) -> str:
    if first.queue == "unknown":
        return "fits now and was refused before: in activeQ if something woke it, else it waits for the flush"
    if first.queue == "permit":
        return f"may hold a node, and waits there before it is bound: {first.waiting.reason}"
    if first.queue == "activeQ":
        return "fits now, and was not tried yet"
    return wake_ups.headline if wake_ups else first.waiting.reason


def _basis(queued: Iterable[InQueue], audited: AuditedCluster) -> Basis:
    refused = {id(in_queue.refused): in_queue.refused for in_queue in queued if in_queue.refused}
    return merge_bases([build_basis(audited.scheduler, refusal) for refusal in refused.values()])


def _unknown(basis: Basis, between: WakesBetween | None, audited: AuditedCluster) -> Iterator[UnknownKind]:
    """What the queues lean on."""
    yield from find_unread_pods(audited)
    yield from basis["unknown"]
    if between is not None:
        yield from between.unknown


def _between(audited: AuditedCluster) -> WakesBetween | None:
    """What woke the pods that fit by now since the earlier moment, where that is known: thousands may have changed."""
    if audited.earlier is None:
        return None
    names = _moment(audited.earlier.cluster), audited.now
    return wakes_between(audited.earlier, audited.scheduler, _stuck(audited), names, CHANGES_KEPT)


def _moment(cluster: Cluster) -> str:
    return cluster.provenance.read_at if cluster.provenance else "the earlier moment"


def _fitting(between: WakesBetween, audited: AuditedCluster) -> Iterator[tuple[PodBetween, WaitingPod]]:
    """The pods that were refused at the earlier moment, would get a node by now, and were neither tried nor placed."""
    stuck = _stuck(audited)
    for pod in between.pods:
        if pod.pod in stuck and (pod.missed or pod.woken_by):
            yield pod, stuck[pod.pod]


def _stuck(audited: AuditedCluster) -> dict[str, WaitingPod]:
    return {waiting.pod.key: waiting for waiting in audited.compute_once(find_waiting_pods) if waiting.cause == "stuck"}


def _shortened(pod: PodBetween, waiting: WaitingPod) -> PodBetween:
    """With the node that it would get alone; some of what woke it are told of, so it is not said how many did."""
    message = "nothing woke it" if pod.missed else f"{pod.woken_by[0].change} woke it"
    return replace(pod, headline=f"{message}; it fits on {waiting.node} now", fits=(waiting.node,))


def _findings(
    fitting: Iterable[tuple[PodBetween, WaitingPod]], between: WakesBetween | None, audited: AuditedCluster
) -> Iterator[Finding]:
    for pod, waiting in fitting:
        name, refused_by = f"Pod {pod.pod}", ", ".join(pod.refused_by)
        where = f"refused by {refused_by} at {between.before if between else ''}; fits on {waiting.node} now"
        if pod.missed:
            yield MISSED.build_finding(
                name, f"{where}, but {_none_of(between)}", namespace=waiting.pod.metadata.namespace
            )
            continue
        changes = "; ".join(f"{change.change} ({', '.join(change.by)})" for change in pod.woken_by[:CHANGES_TOLD])
        more = " and other changes" if len(pod.woken_by) > CHANGES_TOLD else ""
        yield IN_VAIN.build_finding(
            name,
            f"{where}; {changes}{more} woke it, and it waits",
            namespace=waiting.pod.metadata.namespace,
            severity=ERROR if is_left_alone(waiting, audited) else WARNING,
        )


def _none_of(between: WakesBetween | None) -> str:
    if between is None or not between.changes:
        return "it heard of nothing that changed"
    return f"none of {counted(between.changes, 'change')} woke it"


def _headline(queued: Sequence[InQueue], between: WakesBetween | None, pod_betweens: Sequence[PodBetween]) -> str:
    if not queued:
        return "nothing is pending"
    counts = ((words, sum(in_queue.queue == queue for in_queue in queued)) for queue, words in QUEUES.items())
    message = ", ".join(f"{number:,} {words}" for words, number in counts if number)
    if between is None:
        return message
    missed = sum(pod.missed for pod in pod_betweens)
    if not pod_betweens:
        return f"{message}; none was missed since {between.before}"
    return f"{missed:,} missed, {len(pod_betweens) - missed:,} woken in vain since {between.before}; {message}"
