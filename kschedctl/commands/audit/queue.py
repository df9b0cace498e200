"""Section "queue": the queue of each pending pod, what would wake it, and whether a change should have.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (v1.36). Attempts and back-off are kept only in the
scheduler's memory, so they are reported only as far as events tell them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.times import add_seconds, format_age
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.report import PodsInQueue, QueueSection
from kschedctl.commands.explain.waiting import (
    WaitingPod,
    find_unread_pods_doubt,
    is_retry_overdue,
    list_waiting_pods,
    was_rejected,
)
from kschedctl.commands.wakes.between import find_wakes_between
from kschedctl.commands.wakes.changes_that_wake import build_wake_ups_report
from kschedctl.commands.wakes.event_replay import RejectedPod, build_caveat_fields, merge_caveat_fields
from kschedctl.commands.wakes.many import iter_groups_of_rejected_pods
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakeUps
from kschedctl.replay.audit_rules import ERROR, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import Basis, UnknownKind
from kschedctl.text.counts import counted

QUEUES = {
    "unknown": "in an unknown queue although a node fits",
    "activeQ": "to be tried next",
    "backoffQ": "backing off",
    "unschedulable": "in unschedulablePods",
    "permit": "waiting at Permit",
    "gated": "gated",
    "none": "not queued (handled by another or an unknown scheduler)",
}
"""The queues in the order in which they are listed, as they are worded after a number."""
MAX_NAMED_CHANGES = 2
"""The maximum number of changes that a message names."""
MAX_WAKING_CHANGES = 10
"""The number of waking changes of a pod after which further changes are not tried."""
MISSED = AuditRule(
    "audit-queue-missed",
    ERROR,
    "A pod fits now, but nothing woke it",
    "According to the plugins' events and hints, no change woke the pod. It waits for the flush of unschedulable "
    "pods, five minutes after its last attempt. That flush hides the fault.",
    "Report it upstream with both snapshots. To have the pod tried again now, change its labels",
    source="https://github.com/kubernetes/kubernetes/issues/49314",
)
IN_VAIN = AuditRule(
    "audit-queue-woken-in-vain",
    ERROR,
    "A pod was woken and fits, but still waits",
    "A change between the two snapshots takes the pod out of the unschedulable pods, and its back-off lasts at most "
    "ten seconds. Either the scheduler missed the change, or its queue is too long.",
    "Check the scheduler's log for errors, and the metric scheduler_pending_pods for the length of its queue",
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
        """The plugins that reject the pod, or () if the pod was not rejected."""
        return tuple(sorted(self.rejected.attempt.rejectors.all)) if self.rejected else ()

    @property
    def since(self) -> str:
        """The latest time at which the pod can have entered the queue.

        It is the time of the scheduler's last message about the pod or, without a message, of the pod's creation.
        """
        message_time = self.waiting.last_message.at if self.waiting.last_message else ""
        return message_time or self.waiting.pod.metadata.creation_timestamp or ""


def build_queue_section(audited: AuditedCluster) -> QueueSection:
    """Build the section about pending pods by queue, and about missed wake-ups if there is an earlier time."""
    queued = list(_iter_queued_pods(audited))
    basis = _merge_attempt_caveat_fields(queued, audited)
    between = _find_wake_ups_of_stuck_pods(audited)
    findings: list[Finding] = []
    reported_pods: tuple[PodBetween, ...] = ()
    if between is not None:
        stuck_pods = list(_iter_stuck_pods_with_wake_ups(between, audited))
        reported_pods = tuple(_with_short_headline(pod, waiting) for pod, waiting in stuck_pods)
        findings += (_build_stuck_pod_finding(pod, waiting, between, audited) for pod, waiting in stuck_pods)
    return QueueSection(
        title="Queue and wake-ups",
        headline=_build_headline(queued, between, reported_pods),
        queued=tuple(_build_pods_in_queue(group, audited) for group in _group_pods_by_queue_and_plugins(queued)),
        nothing_judged=between is None and bool(queued),
        before=between.before if between else "",
        changes=between.changes if between else 0,
        unheard=between.unheard if between else 0,
        between=reported_pods,
        not_replayed=basis["not_replayed"],
        **build_verdict((MISSED, IN_VAIN), findings, _iter_unknowns(basis, between, audited)),
    )


def _iter_queued_pods(audited: AuditedCluster) -> Iterator[AuditedQueuePod]:
    """Yield every pending pod with its queue. Pods that are rejected alike are adjacent.

    Pods that no profile serves come last, with the queue "none".
    """
    waiting_by_key = {waiting_pod.pod.key: waiting_pod for waiting_pod in audited.compute_once(list_waiting_pods)}
    served_pods = [waiting_pod.pod for waiting_pod in waiting_by_key.values() if _is_served(waiting_pod)]
    for rejected, pods in iter_groups_of_rejected_pods(audited.scheduler, served_pods):
        for pod in pods:
            waiting_pod = waiting_by_key[pod.key]
            yield AuditedQueuePod(waiting_pod, _infer_queue(waiting_pod, rejected), rejected)
    for waiting_pod in waiting_by_key.values():
        if not _is_served(waiting_pod):
            yield AuditedQueuePod(waiting_pod, "none")


def _is_served(waiting: WaitingPod) -> bool:
    """Return whether a profile of this scheduler serves the pod."""
    return waiting.explanation.verdict != "NotResponsible"


def _infer_queue(waiting: WaitingPod, rejected: RejectedPod) -> str:
    """Return the queue that the pod is in, a key of `QUEUES`, judging by a replayed attempt to schedule it.

    It is "unknown" for a pod that fits now and was tried before, because only the scheduler remembers the pod's queue.
    """
    if rejected.attempt.gating_plugin:
        return "gated"
    if rejected.attempt.rejectors.all or waiting.cause == "gang":
        return "unschedulable"
    if waiting.cause == "permit":
        return "permit"
    if waiting.cause in ("error", "backoff"):
        return "backoffQ"
    return "unknown" if was_rejected(waiting.pod) else "activeQ"


def _group_pods_by_queue_and_plugins(queued: Iterable[AuditedQueuePod]) -> list[list[AuditedQueuePod]]:
    """Group pods by queue and rejecting plugins.

    The groups are in the order of `QUEUES`, larger groups first. Within a group, the longest-waiting pod comes first.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[AuditedQueuePod]] = {}
    for queued_pod in queued:
        groups.setdefault((queued_pod.queue, queued_pod.rejected_by), []).append(queued_pod)
    for group in groups.values():
        # pods for which no time is known come last
        group.sort(key=lambda queued_pod: (not queued_pod.since, queued_pod.since, queued_pod.waiting.pod.key))
    order = tuple(QUEUES)
    return sorted(groups.values(), key=lambda group: (order.index(group[0].queue), -len(group)))


def _build_pods_in_queue(group: Sequence[AuditedQueuePod], audited: AuditedCluster) -> PodsInQueue:
    """Build the report about a group of pods, with the changes that would wake the first pod."""
    first = group[0]
    wake_ups = build_wake_ups_report(audited.scheduler, first.rejected) if first.rejected else None
    last_messages = [queued_pod.waiting.last_message for queued_pod in group]
    return PodsInQueue(
        queue=first.queue,
        pods=tuple(queued_pod.waiting.pod.key for queued_pod in group),
        refused_by=first.rejected_by,
        since=first.since,
        age=format_age(first.since, audited.ages_end),
        attempts=max(message.attempts if message else 0 for message in last_messages),
        backs_off_until=_find_back_off_end(group, audited),
        headline=_explain_queue_of_first_pod(first, wake_ups),
        wakes=wake_ups.rejectors if wake_ups else (),
    )


def _find_back_off_end(group: Sequence[AuditedQueuePod], audited: AuditedCluster) -> str:
    """Return the latest time at which a pod of the group may leave back-off.

    A back-off doubles with each attempt, up to the configured maximum, so a pod leaves no later than this maximum after
    its last attempt. Return "" if no pod is in back-off, or if the last attempt of one of them is unknown.
    """
    last_attempts = []
    for queued_pod in group:
        if queued_pod.queue != "backoffQ":
            continue
        message = queued_pod.waiting.last_message
        if message is None or audited.measure_seconds_since(message.at) is None:
            return ""
        last_attempts.append(message.at)
    if not last_attempts:
        return ""
    max_backoff = audited.scheduler.configuration.pod_max_backoff_seconds
    return add_seconds(max(last_attempts), max_backoff)


def _explain_queue_of_first_pod(first: AuditedQueuePod, wake_ups: WakeUps | None) -> str:
    """Describe in one line why the first pod of a group is in its queue."""
    if first.queue == "unknown":
        return (
            "fits now and was rejected before: it is in activeQ if a change woke it; otherwise it is retried five "
            "minutes after its last attempt"
        )
    if first.queue == "permit":
        return f"may already have been assigned a node, but is waiting to be bound: {first.waiting.reason}"
    if first.queue == "activeQ":
        return "fits now but has not been tried yet"
    return wake_ups.headline if wake_ups else first.waiting.reason


def _merge_attempt_caveat_fields(queued: Iterable[AuditedQueuePod], audited: AuditedCluster) -> Basis:
    """Merge the unread data and the gaps of the replay on which the replayed attempts depend.

    Pods with the same rejections share an attempt.
    """
    attempts = {id(queued_pod.rejected): queued_pod.rejected for queued_pod in queued if queued_pod.rejected}
    return merge_caveat_fields([build_caveat_fields(audited.scheduler, attempt) for attempt in attempts.values()])


def _iter_unknowns(basis: Basis, between: WakesBetween | None, audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the unread data on which the queues and the wake-ups depend."""
    yield from find_unread_pods_doubt(audited)
    yield from basis["unknown"]
    if between is not None:
        yield from between.unknown


def _find_wake_ups_of_stuck_pods(audited: AuditedCluster) -> WakesBetween | None:
    """Return the wake-ups of stuck pods since the earlier state of the cluster, or None if there is no earlier state.

    At most MAX_WAKING_CHANGES changes are examined, which limits the work if thousands of objects have changed.
    """
    if audited.earlier is None:
        return None
    times = _describe_read_time(audited.earlier.cluster), audited.now
    return find_wakes_between(audited.earlier, audited.scheduler, _find_stuck_pods(audited), times, MAX_WAKING_CHANGES)


def _describe_read_time(cluster: Cluster) -> str:
    """Return the time at which a cluster was read, or words for it if unknown."""
    return cluster.provenance.read_at if cluster.provenance else "the earlier time"


def _iter_stuck_pods_with_wake_ups(
    between: WakesBetween, audited: AuditedCluster
) -> Iterator[tuple[PodBetween, WaitingPod]]:
    """Yield the stuck pods that missed a wake-up or were woken in vain, each with why it waits now.

    A stuck pod was rejected at the earlier time and fits now, but has neither been tried nor placed since.
    """
    stuck_pods = _find_stuck_pods(audited)
    for pod in between.pods:
        if pod.pod in stuck_pods and (pod.missed or pod.woken_by):
            yield pod, stuck_pods[pod.pod]


def _find_stuck_pods(audited: AuditedCluster) -> dict[str, WaitingPod]:
    """Return the stuck pods by key."""
    return {waiting.pod.key: waiting for waiting in audited.compute_once(list_waiting_pods) if waiting.cause == "stuck"}


def _with_short_headline(pod: PodBetween, waiting: WaitingPod) -> PodBetween:
    """Return the pod with a headline that names the first change that woke it, and its feasible node."""
    message = "nothing woke it" if pod.missed else f"{pod.woken_by[0].change} woke it"
    return replace(pod, headline=f"{message}; it fits on {waiting.node} now", fits=(waiting.node,))


def _build_stuck_pod_finding(
    pod: PodBetween, waiting: WaitingPod, between: WakesBetween, audited: AuditedCluster
) -> Finding:
    """Build the finding about a pod that fits now but is still pending.

    Either no change woke the pod, or a change did but the pod was not placed. In the second case, the finding is an
    error if the retry is overdue, otherwise a warning.
    """
    rejection = f"rejected by {', '.join(pod.refused_by)} at {between.before}; fits on {waiting.node} now"
    namespace = waiting.pod.metadata.namespace
    if pod.missed:
        if between.changes:
            not_woken = f"none of {counted(between.changes, 'change')} woke it"
        else:
            not_woken = "nothing changed that the scheduler watches"
        return MISSED.build_finding(f"Pod {pod.pod}", f"{rejection}, but {not_woken}", namespace=namespace)

    named_changes = pod.woken_by[:MAX_NAMED_CHANGES]
    changes = "; ".join(f"{change.change} ({', '.join(change.by)})" for change in named_changes)
    suffix = " and other changes" if len(pod.woken_by) > len(named_changes) else ""
    return IN_VAIN.build_finding(
        f"Pod {pod.pod}",
        f"{rejection}; {changes}{suffix} woke it, but it is still pending",
        namespace=namespace,
        severity=ERROR if is_retry_overdue(waiting, audited) else WARNING,
    )


def _build_headline(
    queued: Sequence[AuditedQueuePod], between: WakesBetween | None, reported_pods: Sequence[PodBetween]
) -> str:
    """Summarize the pending pods by queue. If there is an earlier time, also count missed and useless wake-ups."""
    if not queued:
        return "nothing is pending"
    count_by_queue = Counter(queued_pod.queue for queued_pod in queued)
    counts_text = ", ".join(
        f"{count_by_queue[queue]:,} {words}" for queue, words in QUEUES.items() if count_by_queue[queue]
    )
    by_queue = f"{counted(len(queued), 'pending pod')}: {counts_text}"
    if between is None:
        return by_queue
    if not reported_pods:
        return f"{by_queue}; no wake-up missed since {between.before}"
    missed = sum(pod.missed for pod in reported_pods)
    return f"{missed:,} missed, {len(reported_pods) - missed:,} woken in vain since {between.before}; {by_queue}"
