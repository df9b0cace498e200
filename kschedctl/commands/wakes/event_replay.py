"""Replay events for a rejected pod: schedule it, alone or with its group, and collect the queueing hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.gangs import GangKey, find_gangs
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.gang import TriedGang, place_gang
from kschedctl.commands.explain.one_pod import PodReference, resolve_pod
from kschedctl.commands.explain.pod_group import PLACED, report_pod_group_with_tree
from kschedctl.commands.explain.pod_group_report import MemberReport, PodGroupReport
from kschedctl.commands.wakes.changes import apply_change_to_view, describe_change, parse_change
from kschedctl.commands.wakes.report import EventReport, Wakes
from kschedctl.errors import UsageError
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.unknown import (
    VERDICT,
    WHEN_SCHEDULABLE,
    WHEN_WOKEN,
    build_unknown_fields,
    find_unreplayed_parts,
    merge_unknown_kinds,
    summarize_unknowns,
)
from kschedctl.reports.unknown import Basis, merge_notes
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, build_fit_error
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure
from kschedctl.scheduler.event_handling import Occurrence, Registrations
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.queueing.queue_plugins import (
    Attempt,
    QueueingStrategy,
    choose_queueing_strategy,
    collect_hints,
    does_event_concern_pod,
    find_gating_plugin,
    try_without_post_filter,
)
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey, get_group_key

POP_FROM_BACKOFF_GATE = "SchedulerPopFromBackoffQ"
"""The feature gate without which PreEnqueue plugins run only when the pod leaves the backoff queue."""
UNSCHEDULABLE, BACKOFF, ACTIVE, NONE = "unschedulable", "backoff", "active", ""
"""The queues of the scheduler. A pod that fits soon leaves them, so that it counts as being in none."""
EFFECTS_WHEN_FITTING = {effect: affects for effect, affects in WHEN_SCHEDULABLE.items() if affects == VERDICT}
"""The effects of unread kinds on the answer about a pod that fits. Which node is best does not matter."""


class RejectedPod(NamedTuple):
    """A pod after one scheduling attempt, with its profile and the doubts about the attempt."""

    info: PodInfo
    framework: Framework
    registrations: Registrations
    attempt: Attempt
    unknown: tuple[Unknown, ...] = ()
    gang: GangResult | None = None
    """The gang with which the pod is bound. If there is one, the rejectors are the rejectors of the whole gang."""
    pod_group: PodGroupReport | None = None
    """The pod group with which the pod is scheduled."""

    @property
    def fits(self) -> bool:
        """True if the pod gets a node, together with the pods of its group if it has one."""
        if self.pod_group is not None:
            return is_placed(self.pod_group, self.info.pod)
        cycle = self.attempt.cycle
        has_gang_failure = self.gang is not None and self.gang.failure is not None
        return cycle is not None and cycle.schedulable and not has_gang_failure

    @property
    def queue(self) -> str:
        """The queue in which the pod waits. Pods without rejectors, and pods in groups, only back off.

        Upstream: determineSchedulingHintForInFlightPod in the queue's scheduling_queue.go.
        """
        if self.attempt.rejectors.all and self.pod_group is None:
            return UNSCHEDULABLE
        return NONE if self.fits else BACKOFF

    @property
    def message(self) -> str | None:
        """The scheduler's message about the pod or, if the pod alone would fit, about its group.

        None if the pod fits or was not tried.
        """
        cycle = self.attempt.cycle
        if cycle is None or self.fits:
            return None
        if cycle.schedulable and self.gang and self.gang.failure:
            return self.gang.failure.message
        if cycle.schedulable and self.pod_group:
            member = find_member(self.pod_group, self.info.pod)
            member_message = member.message if member is not None else None
            return member_message or self.pod_group.message
        return cycle.error or build_fit_error(cycle)


def wakes(cluster: Cluster, pod: PodReference, event: JsonObject) -> Wakes:
    """Replay an event for a rejected pod, and report whether the event makes the scheduler retry the pod.

    The pod is given by `namespace/name` or as a manifest. The event is `{"action": "Add" | "Update" | "Delete", "old":
    object or None, "new": object or None}`. Raises UsageError for a pod that is not pending, and InputError and
    ConfigurationError for invalid input.

    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeSelector": {"disk": "ssd"}}}
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> labelled = {**node, "metadata": {"name": "n1", "labels": {"disk": "ssd"}}}
    >>> cluster = Cluster.from_objects([node, pod])
    >>> answer = wakes(cluster, "default/p", {"action": "Update", "old": node, "new": labelled})
    >>> answer.moved, answer.events[0].event, list(answer.events[0].hints.values())
    (True, 'NodeUpdateNodeLabel', ['Queue'])
    """
    scheduler = Scheduler(cluster)
    rejected = try_pod(scheduler, resolve_pod(scheduler, pod))
    return replay_change(scheduler, rejected, parse_change(event, scheduler.view))


def try_pod(
    scheduler: Scheduler, pod: Pod, info: PodInfo | None = None, gangs: TriedGroups | None = None
) -> RejectedPod:
    """Try to schedule a pod once, alone and with its group.

    `pod` must be as the API server stores it. `info` is its PodInfo if that has already been computed. `gangs` caches
    the groups that were tried. A pod that is held back before the attempt is not tried with its group. If the pod fits
    alone but its gang fails, the gang's rejectors replace the pod's. If its PodGroup is placed, the pod has no
    rejectors. Raises UsageError if the scheduler would not try the pod.
    """
    _require_pending_pod(pod)
    info = PodInfo(pod, scheduler.view.settings.requests) if info is None else info
    framework, unknown = scheduler.find_framework_for(info, scheduler.view)
    if framework is None:
        raise UsageError(
            f'no scheduler profile handles pod "{pod.key}"', hint=f'its schedulerName is "{pod.spec.scheduler_name}"'
        )
    registrations = scheduler.get_registrations(pod.spec.scheduler_name)
    tried = try_without_post_filter(framework, info, scheduler.view)
    if tried.cycle is None:
        return RejectedPod(info, framework, registrations=registrations, attempt=tried, unknown=unknown)

    # With its group: the group's failure keeps a pod that fits from being bound
    tried_groups = TriedGroups() if gangs is None else gangs
    gang = try_gang(scheduler, framework, pod, tried_groups)
    if gang and gang.failure and tried.cycle.schedulable:
        tried = tried._replace(rejectors=gang.failure.rejectors)
    group = try_pod_group(scheduler, framework, pod, tried_groups)
    if group and is_placed(group, pod):
        tried = tried._replace(rejectors=NO_REJECTORS)
    return RejectedPod(
        info, framework, registrations=registrations, attempt=tried, unknown=unknown, gang=gang, pod_group=group
    )


def _require_pending_pod(pod: Pod) -> None:
    """Raise UsageError if the pod has a node, has terminated or is being deleted, so that nothing can wake it."""
    if pod.terminated or pod.spec.node_name:
        raise UsageError(f'pod "{pod.key}" is not pending', hint="only pending pods can be woken")
    if not is_pending(pod):
        raise UsageError(f'pod "{pod.key}" is being deleted', hint="the scheduler no longer tries it")


def replay_change(
    scheduler: Scheduler, rejected: RejectedPod, change: ChangedObject | None, view: Fork | None = None
) -> Wakes:
    """Replay a change for a rejected pod, and report whether the pod moves, and to which queue.

    A change that deletes, binds or ends the pod removes it from the queues. `change` is None if scheduling does not
    read the kind of the changed object. `view` is the result of `apply_change_to_view`, if it has already been
    computed.
    """
    all_occurrences = scheduler.event_handlers.list_occurrences(change) if change else ()
    occurrences = drop_updates_of_other_pods(all_occurrences, rejected.info)
    if view is None:
        view = apply_change_to_view(scheduler.view, change) if change else scheduler.view
    events, after = replay_queueing_hints(rejected, occurrences, view)
    if change is not None and _removes_pod(change, rejected.info.pod):
        after = NONE
    rejectors = rejected.attempt.rejectors
    return Wakes(
        pod=rejected.info.pod.key,
        before=rejected.queue,
        after=after,
        moved=after != rejected.queue,
        change=describe_change(change) if change else "",
        message=rejected.message,
        unschedulable_plugins=tuple(sorted(rejectors.unschedulable)),
        pending_plugins=tuple(sorted(rejectors.pending)),
        gating_plugin=rejected.attempt.gating_plugin,
        events=events,
        kube_version=scheduler.cluster.kube_version,
        **build_caveat_fields(scheduler, rejected),
    )


def _removes_pod(change: ChangedObject, pod: Pod) -> bool:
    """Return whether the change removes the pod from the queue for good, because it is deleted, ended or bound."""
    if change.kind != POD or not is_same_pod(change.object, pod):
        return False
    return change.new is None or bool(change.new.spec.node_name or change.new.terminated)


def build_caveat_fields(scheduler: Scheduler, rejected: RejectedPod) -> Basis:
    """Build the report fields about what was not read or is not replayed, and could change the answer for the pod."""
    affected = EFFECTS_WHEN_FITTING if rejected.queue == NONE else WHEN_WOKEN
    unknown = summarize_unknowns(rejected.unknown, affected)
    return {"not_replayed": find_unreplayed_parts(rejected.framework), **build_unknown_fields(unknown)}


def merge_caveat_fields(fields_of_answers: Sequence[Basis]) -> Basis:
    """Merge the report fields `not_replayed`, `unknown` and `undecided` of several answers."""
    return {
        "not_replayed": merge_notes(fields["not_replayed"] for fields in fields_of_answers),
        "unknown": merge_unknown_kinds(fields["unknown"] for fields in fields_of_answers),
        "undecided": any(fields["undecided"] for fields in fields_of_answers),
    }


def drop_updates_of_other_pods(occurrences: Iterable[Occurrence], info: PodInfo) -> list[Occurrence]:
    """Return the events without updates of other pods. An update of a waiting pod only wakes the pod itself."""
    return [
        occurrence
        for occurrence in occurrences
        if not occurrence.itself or is_same_pod(occurrence.change.new, info.pod)
    ]


def has_registered_rejector(rejected: RejectedPod, occurrences: Iterable[Occurrence]) -> bool:
    """Return whether a plugin that rejected the pod registered for one of the events.

    If queueing hints are disabled, an update of the pod counts as well.
    """
    registrations, rejectors = rejected.registrations, rejected.attempt.rejectors.all
    for occurrence in occurrences:
        if any(registrations.find_hints(plugin, occurrence.event) for plugin in rejectors):
            return True
        if occurrence.itself and not registrations.hinted:
            return True
    return False


def replay_queueing_hints(
    rejected: RejectedPod, occurrences: Iterable[Occurrence], view: Fork
) -> tuple[tuple[EventReport, ...], str]:
    """Replay the rejectors' queueing hints for the events in order.

    Return a report on each event, with the hints, and the queue in which the pod is afterwards. `view` is the cluster
    as the hints see it.
    """
    occurrences = tuple(occurrences)
    info = _apply_updates_to_pod_info(rejected.info, occurrences)
    registrations, rejectors = rejected.registrations, rejected.attempt.rejectors
    gating_plugin, queue = rejected.attempt.gating_plugin, rejected.queue
    events = []
    for occurrence in occurrences:
        hints = collect_hints(registrations, rejectors, info, occurrence, view)
        hint_texts = {plugin: str(hint) for plugin, hint in hints.items()}
        events.append(EventReport(occurrence.event.label, occurrence.event.resource, hint_texts))
        if queue == UNSCHEDULABLE and does_event_concern_pod(registrations, rejectors, info, occurrence, gating_plugin):
            strategy = choose_queueing_strategy(registrations, rejectors, info, occurrence, view, known_hints=hints)
            queue = _choose_queue_after_wake_up(rejected, info, strategy, view)
    return tuple(events), queue


def _apply_updates_to_pod_info(info: PodInfo, occurrences: Iterable[Occurrence]) -> PodInfo:
    """Return the PodInfo after the update of the pod itself, or `info` if no event updates the pod."""
    for occurrence in occurrences:
        if occurrence.itself:  # all events about the pod itself come from one change, so the first is enough
            return PodInfo(occurrence.change.new, info.options)
    return info


def _choose_queue_after_wake_up(rejected: RejectedPod, info: PodInfo, strategy: QueueingStrategy, view: Fork) -> str:
    """Choose the queue to which the pod moves, given the queueing strategy from its rejectors' hints.

    PreEnqueue plugins may keep the pod in the unschedulable queue. A pod that was never tried needs no back-off.
    """
    if strategy is QueueingStrategy.SKIP:
        return UNSCHEDULABLE
    was_tried = rejected.attempt.cycle is not None
    queue = BACKOFF if was_tried and strategy is QueueingStrategy.AFTER_BACKOFF else ACTIVE
    runs_pre_enqueue = queue == ACTIVE or rejected.registrations.gates.enabled(POP_FROM_BACKOFF_GATE)
    if not runs_pre_enqueue:
        return queue
    gating_plugin, _ = find_gating_plugin(rejected.framework, info, view, rejected.attempt.gating_plugin)
    return UNSCHEDULABLE if gating_plugin else queue


@dataclass
class TriedGroups:
    """A cache of the gangs and pod groups that were tried. Each group is tried only once."""

    gangs: dict[GangKey, TriedGang] = field(default_factory=dict)
    groups: dict[GroupKey, PodGroupReport] = field(default_factory=dict)


class GangResult(NamedTuple):
    """The result of trying a pod's gang."""

    report: PodGroupReport
    failure: MemberFailure | None = None
    """The reason why the pod was not placed; None if it was."""


def try_gang(scheduler: Scheduler, framework: Framework, pod: Pod, cache: TriedGroups) -> GangResult | None:
    """Try the pod's gang, unless `cache` already has the gang's result. Return None if the pod has no gang.

    The result is added to `cache` only if the cluster has the pod. A pod from a manifest is a member of the gang only
    while the pod itself is tried.
    """
    plugin = find_gang_plugin(framework)
    key = plugin.find_gang(pod) if plugin else None
    if key is None or find_gangs(pod)[0] != key:  # place_gang only places the first gang, which another plugin handles
        return None
    gang = cache.gangs.get(key) or place_gang(scheduler, framework, pod)
    if gang is None:
        return None
    is_stored = scheduler.view.pods.find_position(pod.key) is not None
    if is_stored:
        cache.gangs[key] = gang
    return GangResult(gang.report, gang.failures.get(pod.key))


def try_pod_group(scheduler: Scheduler, framework: Framework, pod: Pod, cache: TriedGroups) -> PodGroupReport | None:
    """Try the pod's group, unless `cache` has its result. Return None if the pod has no group.

    Results for pods from a manifest are neither looked up nor cached.
    """
    key = get_group_key(pod)
    is_stored = scheduler.view.pods.find_position(pod.key) is not None
    if key is not None and is_stored and key in cache.groups:
        return cache.groups[key]
    report = report_pod_group_with_tree(scheduler, framework, pod)
    if report is not None and key is not None and is_stored:
        cache.groups[key] = report
    return report


def find_member(group: PodGroupReport, pod: Pod) -> MemberReport | None:
    """Find the pod's entry in the report on its group, or return None if it has none."""
    return next((member for member in group.members if member.pod == pod.key), None)


def is_placed(group: PodGroupReport, pod: Pod) -> bool:
    """Return whether the group is placed, and the pod with it."""
    member = find_member(group, pod)
    return group.verdict == PLACED and member is not None and member.verdict == PLACED
