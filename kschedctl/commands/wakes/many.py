"""The effect of changes on all pending pods. Equal pods share an attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.gangs import find_gangs
from kschedctl.api.objects import Pod
from kschedctl.commands.wakes.changes import apply_change_to_view, describe_change
from kschedctl.commands.wakes.changes_that_wake import build_wake_ups_report
from kschedctl.commands.wakes.event_replay import (
    NONE,
    RejectedPod,
    TriedGroups,
    build_caveat_fields,
    merge_caveat_fields,
    replay_change,
    try_pod,
)
from kschedctl.commands.wakes.report import Wakes, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.unknown import merge_notes
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod
from kschedctl.snapshot.pods import get_group_key


def replay_changes_for_pods(
    scheduler: Scheduler, pods: Sequence[Pod], changes: Sequence[ChangedObject], scope: str
) -> WakesOfMany:
    """Replay each change for each of the cluster's pods. `scope` describes the pods."""
    groups = list(iter_groups_of_rejected_pods(scheduler, [pod for pod in pods if _is_pod_served(scheduler, pod)]))
    unserved = tuple(pod.key for pod in pods if not _is_pod_served(scheduler, pod))
    return _build_wakes_report(scheduler, groups, changes, scope=scope, unserved=unserved)


def replay_changes_for_stored_pods(
    scheduler: Scheduler, pods: Sequence[Pod], changes: Sequence[ChangedObject]
) -> WakesOfMany:
    """Replay each change for pods as the API server stores them. Raises UsageError if a pod is not pending."""
    return _build_wakes_report(scheduler, [(try_pod(scheduler, pod), [pod]) for pod in pods], changes, scope="")


def find_wake_ups_of_pods(
    scheduler: Scheduler, pods: Sequence[Pod], scope: str, progress: Progress = NO_PROGRESS
) -> WakeUpsOfMany:
    """Find what would wake each of the cluster's pods.

    Pods that no profile serves are only named. `scope` describes the pods in the report. If the user interrupts, the
    report has the pods that were finished. Raises KeyboardInterrupt if no pod was finished.
    """
    served = [pod for pod in pods if _is_pod_served(scheduler, pod)]
    on_done = progress.begin("Pods", len(served))
    reports: list[WakeUps] = []
    interrupted = False
    try:
        for rejected, equal_pods in iter_groups_of_rejected_pods(scheduler, served):
            report = build_wake_ups_report(scheduler, rejected)
            reports += [replace(report, pod=pod.key) for pod in equal_pods]
            on_done(len(equal_pods))
    except KeyboardInterrupt:
        if not reports:
            raise
        interrupted = True
    unserved = tuple(pod.key for pod in pods if not _is_pod_served(scheduler, pod))
    return replace(combine_wake_up_reports(reports, scope=scope, unserved=unserved), interrupted=interrupted)


def combine_wake_up_reports(
    reports: Sequence[WakeUps], scope: str = "", unserved: tuple[str, ...] = ()
) -> WakeUpsOfMany:
    """Combine the wake-ups of several pods into one report. `unserved` are the keys of pods that no profile serves."""
    return WakeUpsOfMany(
        tuple(reports),
        scope,
        unserved,
        not_replayed=merge_notes(report.not_replayed for report in reports),
        ignored=merge_notes(report.ignored for report in reports),
        unknown=merge_unknown_kinds(report.unknown for report in reports),
        undecided=any(report.undecided for report in reports),
    )


def _build_wakes_report(
    scheduler: Scheduler,
    groups: Sequence[tuple[RejectedPod, list[Pod]]],
    changes: Sequence[ChangedObject],
    scope: str,
    unserved: tuple[str, ...] = (),
) -> WakesOfMany:
    """Build the report on what the changes do to groups of equal pods.

    Pods that already fit, and changes that the scheduler does not watch, are only listed. `scope` describes the pods,
    and `unserved` are the pods that no profile serves. If the user interrupts, the report has the answers until then.
    Raises KeyboardInterrupt if there are no answers by then.
    """
    answers: list[Wakes] = []
    interrupted = False
    try:
        for answer in _iter_answers_by_change(scheduler, groups, changes):
            answers.append(answer)
    except KeyboardInterrupt:
        if not answers:
            raise
        interrupted = True

    handlers = scheduler.event_handlers
    return WakesOfMany(
        scope=scope,
        changes=tuple(map(describe_change, changes)),
        answers=tuple(answers),
        fitting=tuple(pod.key for rejected, equal_pods in groups if rejected.queue == NONE for pod in equal_pods),
        unheard=tuple(describe_change(change) for change in changes if not handlers.list_occurrences(change)),
        unserved=unserved,
        kube_version=scheduler.cluster.kube_version,
        ignored=scheduler.list_ignored_fields([rejected.info.spec for rejected, _ in groups]),
        interrupted=interrupted,
        **merge_caveat_fields([build_caveat_fields(scheduler, rejected) for rejected, _ in groups]),
    )


def _iter_answers_by_change(
    scheduler: Scheduler, groups: Sequence[tuple[RejectedPod, list[Pod]]], changes: Sequence[ChangedObject]
) -> Iterator[Wakes]:
    """Yield the effect of each change on each rejected pod, one change after another. Skip pods that fit."""
    for change in changes:
        view = apply_change_to_view(scheduler.view, change)
        for rejected, equal_pods in groups:
            if rejected.queue != NONE:
                answer = replay_change(scheduler, rejected, change, view)
                yield from (_adapt_answer_to_pod(scheduler, rejected, pod, change, answer) for pod in equal_pods)


def _is_pod_served(scheduler: Scheduler, pod: Pod) -> bool:
    """Return whether a profile serves the pod of the cluster."""
    pods = scheduler.view.pods
    info = pods.get_info(pods.index[pod.key])
    return info.spec.scheduler_name in scheduler.configuration.profiles


def iter_groups_of_rejected_pods(scheduler: Scheduler, pods: Sequence[Pod]) -> Iterator[tuple[RejectedPod, list[Pod]]]:
    """Yield groups of pods that look the same to the scheduler, each with the attempt to schedule its first pod.

    The pods of a group also have the same nominated node. Each member of a gang or pod group is yielded separately.
    """
    table = scheduler.view.pods
    groups: dict[tuple[int, str, str], list[Pod]] = {}
    for pod in pods:
        # Only the last pods of a gang may find no room, so its members are not interchangeable: each is a group
        is_member = bool(find_gangs(pod) or get_group_key(pod))
        member_key = pod.key if is_member else ""
        info_code = table.get_info_number(table.index[pod.key])  # equal for pods that look the same to the scheduler
        groups.setdefault((info_code, pod.status.nominated_node_name, member_key), []).append(pod)

    tried_groups = TriedGroups()  # each gang is tried once, although its members are yielded separately
    for (info_code, nominated_node, member_key), equal_pods in groups.items():
        # The table's info is that of any of the equal pods. Members and nominated pods need an info of their own.
        may_use_shared_info = not nominated_node and not member_key
        info = table.infos[info_code] if may_use_shared_info else None
        yield try_pod(scheduler, scheduler.view.build_stored_pod(equal_pods[0]), info, tried_groups), equal_pods


def _adapt_answer_to_pod(
    scheduler: Scheduler, rejected: RejectedPod, pod: Pod, change: ChangedObject, answer: Wakes
) -> Wakes:
    """Adapt a group's answer to one of its pods. If the change is about that pod itself, replay it for the pod."""
    if change.kind == POD and is_same_pod(change.object, pod) and pod is not rejected.info.pod:
        return replay_change(scheduler, try_pod(scheduler, scheduler.view.build_stored_pod(pod)), change)
    return replace(answer, pod=pod.key)
