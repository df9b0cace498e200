"""Section "queue": the queue of each pending pod, what would wake it, and whether a change should have.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (v1.36). Attempts and back-off are kept only in the
scheduler's memory, so they are reported only as far as events tell them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.times import format_age, subtract_seconds
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.report import PodsInQueue, QueueSection
from kschedctl.commands.explain.waiting import (
    WaitingPod,
    find_unread_pods_doubt,
    find_waiting_pods,
    is_overlooked,
    was_tried,
)
from kschedctl.commands.wakes.between import find_wakes_between
from kschedctl.commands.wakes.changes_that_wake import build_wake_ups_report
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
"""The queues in the order in which they are listed, as they are worded after a number."""
CHANGES_TOLD = 2
"""The most changes that a message names."""
CHANGES_KEPT = 10
"""The number of waking changes of a pod after which further changes are not tried."""
MISSED = AuditRule(
    "audit-queue-missed",
    ERROR,
    "A pod fits now, but nothing woke it",
    "No change woke it, by the plugins' events and hints: it waits for the flush of unschedulable pods, five minutes "
    "after its last attempt. That flush hides the fault.",
    "Report it upstream with both snapshots; meanwhile any change to the pod itself, such as a label, has it tried "
    "again",
    source="https://github.com/kubernetes/kubernetes/issues/49314",
)
IN_VAIN = AuditRule(
    "audit-queue-woken-in-vain",
    ERROR,
    "A pod was woken and fits, but still waits",
    "A change between the two moments takes it out of the unschedulable pods, and its back-off lasts ten seconds at "
    "most: the scheduler did not hear of the change, or does not get through its queue.",
    "Look at the scheduler's log, its watches and its queue lengths (scheduler_pending_pods)",
    source="pkg/scheduler/backend/queue/scheduling_queue.go, MoveAllToActiveOrBackoffQueue",
)


class AuditedQueuePod(NamedTuple):
    """A pending pod and its queue."""

    waiting: WaitingPod
    queue: str
    rejected: RejectedPod | None = None
    """The replayed attempt, None if no profile serves the pod."""

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """The plugins that reject the pod."""
        return tuple(sorted(self.rejected.attempt.rejectors.all)) if self.rejected else ()

    @property
    def since(self) -> str:
        """The latest time at which the pod can have entered the queue.

        It is the time of the scheduler's last message about the pod, otherwise of its creation.
        """
        message_time = self.waiting.last_message.at if self.waiting.last_message else ""
        return message_time or self.waiting.pod.metadata.creation_timestamp or ""


def build_queue_section(audited: AuditedCluster) -> QueueSection:
    """Build the section about pending pods by queue, and about pods that missed a wake-up since the earlier time."""
    queued = list(_iter_queued_pods(audited))
    between = _find_wakes_since_earlier(audited)
    basis = _merge_attempt_bases(queued, audited)
    stuck_pods = tuple(_iter_stuck_pods_with_wakes(between, audited)) if between else ()
    reported_pods = tuple(_with_short_headline(pod, waiting) for pod, waiting in stuck_pods)
    return QueueSection(
        title="Queue and wake-ups",
        headline=_build_headline(queued, between, reported_pods),
        queued=tuple(_build_pods_in_queue(group, audited) for group in _group_by_queue(queued)),
        before=between.before if between else "",
        changes=between.changes if between else 0,
        unheard=between.unheard if between else 0,
        between=reported_pods,
        not_replayed=basis["not_replayed"],
        **build_verdict(
            (MISSED, IN_VAIN), _iter_findings(stuck_pods, between, audited), _iter_unknowns(basis, between, audited)
        ),
    )


def _iter_queued_pods(audited: AuditedCluster) -> Iterator[AuditedQueuePod]:
    """Yield every pending pod with its queue. Pods that are rejected alike follow each other."""
    waiting_by_key = {waiting_pod.pod.key: waiting_pod for waiting_pod in audited.compute_once(find_waiting_pods)}
    served_pods = [waiting_pod.pod for waiting_pod in waiting_by_key.values() if _is_served(waiting_pod)]
    for refused, pods in iter_rejected_groups(audited.scheduler, served_pods):
        for pod in pods:
            yield AuditedQueuePod(waiting_by_key[pod.key], _find_queue(waiting_by_key[pod.key], refused), refused)
    yield from (
        AuditedQueuePod(waiting_pod, "none") for waiting_pod in waiting_by_key.values() if not _is_served(waiting_pod)
    )


def _is_served(waiting: WaitingPod) -> bool:
    """Return whether a profile of this scheduler serves the pod."""
    return waiting.explanation.verdict != "NotResponsible"


def _find_queue(waiting: WaitingPod, refused: RejectedPod) -> str:
    """Return the queue of a pod (a key of `QUEUES`).

    It is unknown for a pod that fits now and was tried before, since only the scheduler remembers the queue.
    """
    if refused.attempt.gating_plugin:
        return "gated"
    if refused.attempt.rejectors.all or waiting.cause == "gang":
        return "unschedulable"
    if waiting.cause == "permit":
        return "permit"
    if waiting.cause in ("error", "backoff"):
        return "backoffQ"
    return "unknown" if was_tried(waiting.pod) else "activeQ"


def _group_by_queue(queued: Iterable[AuditedQueuePod]) -> list[list[AuditedQueuePod]]:
    """Group pods by queue and rejecting plugins, longest-waiting first. The groups are in the order of `QUEUES`."""
    groups: dict[tuple[str, tuple[str, ...]], list[AuditedQueuePod]] = {}
    for in_queue in queued:
        groups.setdefault((in_queue.queue, in_queue.rejected_by), []).append(in_queue)
    for group in groups.values():
        group.sort(key=lambda queued: (not queued.since, queued.since, queued.waiting.pod.key))
    order = tuple(QUEUES)
    return sorted(groups.values(), key=lambda group: (order.index(group[0].queue), -len(group)))


def _build_pods_in_queue(group: Sequence[AuditedQueuePod], audited: AuditedCluster) -> PodsInQueue:
    """Build the report about a group of pods."""
    first = group[0]
    wake_ups = build_wake_ups_report(audited.scheduler, first.rejected) if first.rejected else None
    return PodsInQueue(
        queue=first.queue,
        pods=tuple(in_queue.waiting.pod.key for in_queue in group),
        refused_by=first.rejected_by,
        since=first.since,
        age=format_age(first.since, audited.now),
        attempts=max(
            in_queue.waiting.last_message.attempts if in_queue.waiting.last_message else 0 for in_queue in group
        ),
        backs_off_until=_find_back_off_end(group, audited),
        headline=_describe_queue(first, wake_ups),
        wakes=wake_ups.rejectors if wake_ups else (),
    )


def _find_back_off_end(group: Sequence[AuditedQueuePod], audited: AuditedCluster) -> str:
    """Return the latest time at which the last pod of the group leaves back-off, empty if unknown.

    A back-off doubles with each attempt up to the configured maximum.
    """
    max_backoff = audited.scheduler.configuration.pod_max_backoff_seconds
    last_messages = [in_queue.waiting.last_message for in_queue in group if in_queue.queue == "backoffQ"]
    times = [words.at for words in last_messages if words and audited.seconds_since(words.at) is not None]
    return subtract_seconds(max(times), -max_backoff) if times and len(times) == len(last_messages) else ""


def _describe_queue(first: AuditedQueuePod, wake_ups: WakeUps | None) -> str:
    """Return one line about why the first pod of a group is in its queue."""
    if first.queue == "unknown":
        return "fits now and was refused before: in activeQ if something woke it, else it waits for the flush"
    if first.queue == "permit":
        return f"may hold a node, and waits there before it is bound: {first.waiting.reason}"
    if first.queue == "activeQ":
        return "fits now, and was not tried yet"
    return wake_ups.headline if wake_ups else first.waiting.reason


def _merge_attempt_bases(queued: Iterable[AuditedQueuePod], audited: AuditedCluster) -> Basis:
    """Return what the replayed attempts depend on."""
    refused = {id(in_queue.rejected): in_queue.rejected for in_queue in queued if in_queue.rejected}
    return merge_bases([build_basis(audited.scheduler, refusal) for refusal in refused.values()])


def _iter_unknowns(basis: Basis, between: WakesBetween | None, audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the unread data that the answers depend on."""
    yield from find_unread_pods_doubt(audited)
    yield from basis["unknown"]
    if between is not None:
        yield from between.unknown


def _find_wakes_since_earlier(audited: AuditedCluster) -> WakesBetween | None:
    """Return the wake-ups of stuck pods since the earlier time, or None if there is no earlier time.

    Other pods are left out, since thousands of pods may have changed.
    """
    if audited.earlier is None:
        return None
    names = _describe_time(audited.earlier.cluster), audited.now
    return find_wakes_between(audited.earlier, audited.scheduler, _find_stuck_pods(audited), names, CHANGES_KEPT)


def _describe_time(cluster: Cluster) -> str:
    """Return the time at which a cluster was read, as text."""
    return cluster.provenance.read_at if cluster.provenance else "the earlier moment"


def _iter_stuck_pods_with_wakes(
    between: WakesBetween, audited: AuditedCluster
) -> Iterator[tuple[PodBetween, WaitingPod]]:
    """Yield the pods that were rejected at the earlier time and fit now, but were neither tried nor placed."""
    stuck = _find_stuck_pods(audited)
    for pod in between.pods:
        if pod.pod in stuck and (pod.missed or pod.woken_by):
            yield pod, stuck[pod.pod]


def _find_stuck_pods(audited: AuditedCluster) -> dict[str, WaitingPod]:
    """Return the stuck pods by key."""
    return {waiting.pod.key: waiting for waiting in audited.compute_once(find_waiting_pods) if waiting.cause == "stuck"}


def _with_short_headline(pod: PodBetween, waiting: WaitingPod) -> PodBetween:
    """Return the pod with a headline that names the first change that woke it and the node on which it fits."""
    message = "nothing woke it" if pod.missed else f"{pod.woken_by[0].change} woke it"
    return replace(pod, headline=f"{message}; it fits on {waiting.node} now", fits=(waiting.node,))


def _iter_findings(
    stuck_pods: Iterable[tuple[PodBetween, WaitingPod]], between: WakesBetween | None, audited: AuditedCluster
) -> Iterator[Finding]:
    """Yield findings about pods that fit now and were not woken, or were woken and still wait."""
    for pod, waiting in stuck_pods:
        name, refused_by = f"Pod {pod.pod}", ", ".join(pod.refused_by)
        rejection = f"refused by {refused_by} at {between.before if between else ''}; fits on {waiting.node} now"
        if pod.missed:
            yield MISSED.build_finding(
                name, f"{rejection}, but {_describe_missed_changes(between)}", namespace=waiting.pod.metadata.namespace
            )
            continue
        changes = "; ".join(f"{change.change} ({', '.join(change.by)})" for change in pod.woken_by[:CHANGES_TOLD])
        suffix = " and other changes" if len(pod.woken_by) > CHANGES_TOLD else ""
        yield IN_VAIN.build_finding(
            name,
            f"{rejection}; {changes}{suffix} woke it, and it waits",
            namespace=waiting.pod.metadata.namespace,
            severity=ERROR if is_overlooked(waiting, audited) else WARNING,
        )


def _describe_missed_changes(between: WakesBetween | None) -> str:
    """Return that none of the changes woke the pod, as text."""
    if between is None or not between.changes:
        return "it heard of nothing that changed"
    return f"none of {counted(between.changes, 'change')} woke it"


def _build_headline(
    queued: Sequence[AuditedQueuePod], between: WakesBetween | None, reported_pods: Sequence[PodBetween]
) -> str:
    """Return the number of pods in each queue and of missed wake-ups, as text."""
    if not queued:
        return "nothing is pending"
    counts = ((words, sum(in_queue.queue == queue for in_queue in queued)) for queue, words in QUEUES.items())
    message = ", ".join(f"{number:,} {words}" for words, number in counts if number)
    if between is None:
        return message
    missed = sum(pod.missed for pod in reported_pods)
    if not reported_pods:
        return f"{message}; none was missed since {between.before}"
    return f"{missed:,} missed, {len(reported_pods) - missed:,} woken in vain since {between.before}; {message}"
