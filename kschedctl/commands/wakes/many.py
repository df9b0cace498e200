"""What events do to all pods that wait, those alike together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.gangs import find_gangs
from kschedctl.api.objects import Pod
from kschedctl.commands.wakes.changes import told, view_after
from kschedctl.commands.wakes.changes_that_wake import wake_ups_of
from kschedctl.commands.wakes.event_replay import NONE, Refused, basis_of, basis_of_many, try_once, woken
from kschedctl.commands.wakes.gangs import TriedGroups
from kschedctl.commands.wakes.report import Wakes, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod
from kschedctl.snapshot.pods import group_key


def wakes_of_many(
    scheduler: Scheduler, pods: Sequence[Pod], changes: Sequence[ChangedObject], scope: str
) -> WakesOfMany:
    """What each of the changes, by itself, does to each of the cluster's pods; ``scope`` says which these are."""
    groups = list(refused_pods(scheduler, [pod for pod in pods if _served(scheduler, pod)]))
    unserved = tuple(pod.key for pod in pods if not _served(scheduler, pod))
    return _document(scheduler, groups, changes, scope=scope, unserved=unserved)


def wakes_of_these(scheduler: Scheduler, pods: Sequence[Pod], changes: Sequence[ChangedObject]) -> WakesOfMany:
    """Which changes wake pods as the API server holds them, or would. Raises UsageError for one that is not pending."""
    return _document(scheduler, [(try_once(scheduler, pod), [pod]) for pod in pods], changes, scope="")


def wake_ups_of_many(scheduler: Scheduler, pods: Sequence[Pod], scope: str) -> WakeUpsOfMany:
    """What would wake each of the cluster's pods."""
    served = [pod for pod in pods if _served(scheduler, pod)]
    reports = []
    for refused, alike in refused_pods(scheduler, served):
        report = wake_ups_of(scheduler, refused)
        reports += [replace(report, pod=pod.key) for pod in alike]
    unserved = tuple(pod.key for pod in pods if not _served(scheduler, pod))
    return several(reports, scope=scope, unserved=unserved)


def several(reports: Sequence[WakeUps], scope: str = "", unserved: tuple[str, ...] = ()) -> WakeUpsOfMany:
    """What would wake several pods, as one document."""
    return WakeUpsOfMany(
        tuple(reports),
        scope,
        unserved,
        not_replayed=tuple(dict.fromkeys(what for report in reports for what in report.not_replayed)),
        ignored=tuple(dict.fromkeys(what for report in reports for what in report.ignored)),
        unknown=merge_unknown_kinds(report.unknown for report in reports),
        undecided=any(report.undecided for report in reports),
    )


def _document(
    scheduler: Scheduler,
    groups: Sequence[tuple[Refused, list[Pod]]],
    changes: Sequence[ChangedObject],
    scope: str,
    unserved: tuple[str, ...] = (),
) -> WakesOfMany:
    answers = tuple(_answers(scheduler, groups, changes))
    return WakesOfMany(
        scope=scope,
        changes=tuple(map(told, changes)),
        answers=answers,
        fitting=tuple(pod.key for refused, alike in groups if refused.queue == NONE for pod in alike),
        unheard=tuple(told(change) for change in changes if not scheduler.event_handlers.occurrences(change)),
        unserved=unserved,
        kube_version=scheduler.cluster.kube_version,
        ignored=scheduler.ignored([refused.info.spec for refused, _ in groups]),
        **basis_of_many([basis_of(scheduler, refused) for refused, _ in groups]),
    )


def _answers(
    scheduler: Scheduler, groups: Sequence[tuple[Refused, list[Pod]]], changes: Sequence[ChangedObject]
) -> Iterator[Wakes]:
    for change in changes:
        view = view_after(scheduler.view, change)
        for refused, alike in groups:
            if refused.queue != NONE:
                answer = woken(scheduler, refused, change, view)
                yield from (_own(scheduler, refused, pod, change, answer) for pod in alike)


def _served(scheduler: Scheduler, pod: Pod) -> bool:
    columns = scheduler.view.pods
    info = columns.infos[int(columns.info[columns.index[pod.key]])]
    return info.spec.scheduler_name in scheduler.configuration.profiles


def refused_pods(scheduler: Scheduler, pods: Sequence[Pod]) -> Iterator[tuple[Refused, list[Pod]]]:
    """Pods of the cluster after one attempt; pods alike in all that scheduling reads share it, but for gangs."""
    columns = scheduler.view.pods
    groups: dict[tuple[int, str, str], list[Pod]] = {}
    for pod in pods:
        member = (
            pod.key if find_gangs(pod) or group_key(pod) else ""
        )  # who of a gang is tried last may be alone in fitting nowhere
        alike = int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name, member
        groups.setdefault(alike, []).append(pod)
    tried = TriedGroups()
    for (number, nominated, member), same in groups.items():
        info = None if nominated or member else columns.infos[number]
        yield try_once(scheduler, scheduler.view.stored(same[0]), info, tried), same


def _own(scheduler: Scheduler, refused: Refused, pod: Pod, change: ChangedObject, answer: Wakes) -> Wakes:
    """The answer for one of several pods that are alike, another one where the change is about the pod itself."""
    if change.kind == POD and is_same_pod(change.object, pod) and pod is not refused.info.pod:
        return woken(scheduler, try_once(scheduler, scheduler.view.stored(pod)), change)
    return replace(answer, pod=pod.key)
