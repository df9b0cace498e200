"""What would wake a pod that the scheduler refused: which events its rejectors asked for, and what they say to one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.attempt import PodReference, find_pod
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.commands.wakes.changes import change_of, told, view_after
from kschedctl.commands.wakes.gangs import TriedGroups, WithGang, is_placed, member_of, with_gang, with_group
from kschedctl.commands.wakes.report import EventReport, Wakes
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.unknown import (
    VERDICT,
    WHEN_SCHEDULABLE,
    WHEN_WOKEN,
    find_unreplayed_parts,
    merge_unknown_kinds,
    summarize_unknowns,
    unknown_fields,
)
from kschedctl.reports.unknown import Basis
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.event_handling.registrations import Registrations
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.queueing.queue_plugins import Attempt, attempt, gating_plugin
from kschedctl.scheduler.queueing.requeueing import QueueingStrategy, hears, hints, strategy
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

POPS_FROM_BACKOFF = "SchedulerPopFromBackoffQ"
"""The gate without which PreEnqueue plugins are asked only once the pod is to be tried."""
UNSCHEDULABLE, BACKOFF, ACTIVE, NONE = "unschedulable", "backoff", "active", ""
"""The queues of the scheduler; a pod that fits is in none for long."""
WHEN_FITTING = {effect: affects for effect, affects in WHEN_SCHEDULABLE.items() if affects == VERDICT}
"""What of the answer about a pod that fits could be otherwise: nobody asks here which node is the best."""


class Refused(NamedTuple):
    """A pod after one attempt, with the profile that serves it, and what the answer leans on that was not read.

    ``gang``: of a pod that is bound with others only; the rejectors are then those of the attempt at all of them.
    ``pod_group``: of one that is tried with the others of its pod group.
    """

    info: PodInfo
    framework: Framework
    registrations: Registrations
    attempt: Attempt
    unknown: tuple[Unknown, ...] = ()
    gang: WithGang | None = None
    pod_group: PodGroupReport | None = None

    @property
    def fits(self) -> bool:
        """Whether it has a node, and with it those with which it is bound."""
        if self.pod_group is not None:
            return is_placed(self.pod_group, self.info.pod)
        cycle, failure = self.attempt.cycle, self.gang and self.gang.failure
        return cycle is not None and cycle.schedulable and failure is None

    @property
    def queue(self) -> str:
        """Where the pod is: with nobody to wait for it is tried again after its back-off, and so are pods of groups.

        Upstream: determineSchedulingHintForInFlightPod in the queue's scheduling_queue.go.
        """
        if self.attempt.rejectors.all and self.pod_group is None:
            return UNSCHEDULABLE
        return NONE if self.fits else BACKOFF

    @property
    def message(self) -> str | None:
        """Why it was refused, in the scheduler's words; None for a pod that was not tried, or that fits."""
        cycle = self.attempt.cycle
        if cycle is None or self.fits:
            return None
        if cycle.schedulable and self.gang and self.gang.failure:
            return self.gang.failure.message
        if cycle.schedulable and self.pod_group:
            member = member_of(self.pod_group, self.info.pod)
            return (member and member.message) or self.pod_group.message
        return cycle.error or fit_error(cycle)


def wakes(cluster: Cluster, pod: PodReference, event: JsonObject) -> Wakes:
    """What an event does to a pod of the cluster (``namespace/name``), or to a manifest of one, that was refused.

    ``event``: ``{"action": "Add" | "Update" | "Delete", "old": object or None, "new": object or None}``. Raises
    UsageError for a pod that is not pending, InputError and ConfigurationError for what cannot be read.

    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeSelector": {"disk": "ssd"}}}
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> labelled = {**node, "metadata": {"name": "n1", "labels": {"disk": "ssd"}}}
    >>> cluster = Cluster.from_objects([node, pod])
    >>> answer = wakes(cluster, "default/p", {"action": "Update", "old": node, "new": labelled})
    >>> answer.moved, answer.events[0].event, list(answer.events[0].hints.values())
    (True, 'NodeUpdateNodeLabel', ['Queue'])
    """
    scheduler = Scheduler(cluster)
    refused = try_once(scheduler, find_pod(scheduler, pod))
    return woken(scheduler, refused, change_of(event, scheduler.view))


def try_once(scheduler: Scheduler, pod: Pod, info: PodInfo | None = None, gangs: TriedGroups | None = None) -> Refused:
    """Try a pod, as the API server holds it; ``info``: the one that it shares, ``gangs``: those that were tried.

    Raises UsageError for one that is not tried at all.
    """
    if pod.terminated or pod.spec.node_name:
        raise UsageError(f'pod "{pod.key}" is not pending', hint="only pods that wait can be woken")
    if not is_pending(pod):
        raise UsageError(f'pod "{pod.key}" is being deleted', hint="the scheduler no longer tries it")
    info = PodInfo(pod, scheduler.view.settings.requests) if info is None else info
    framework, unknown = scheduler.framework_for(info, scheduler.view)
    if framework is None:
        raise UsageError(f'no profile serves pod "{pod.key}"', hint=f'it asks for "{pod.spec.scheduler_name}"')
    registrations = scheduler.registrations(pod.spec.scheduler_name)
    tried = attempt(framework, info, scheduler.view)
    if tried.cycle is None:
        return Refused(info, framework, registrations, tried, unknown)
    known = TriedGroups() if gangs is None else gangs
    gang = with_gang(scheduler, framework, pod, known)
    if gang and gang.failure and tried.cycle.schedulable:
        tried = tried._replace(rejectors=gang.failure.rejectors)
    group = with_group(scheduler, framework, pod, known)
    if group and is_placed(group, pod):
        tried = tried._replace(rejectors=NO_REJECTORS)
    return Refused(info, framework, registrations, tried, unknown, gang, group)


def woken(scheduler: Scheduler, refused: Refused, change: ChangedObject | None, view: Fork | None = None) -> Wakes:
    """What a change does to a pod that was refused; None: one that the scheduler does not hear of.

    ``view``: after the change, but for nodes and pods, where it is known.
    """
    heard = concerning(scheduler.event_handlers.occurrences(change) if change else (), refused.info)
    if view is None:
        view = view_after(scheduler.view, change) if change else scheduler.view
    events, after = asked(refused, heard, view)
    if change is not None and _takes_away(change, refused.info.pod):
        after = NONE
    rejectors = refused.attempt.rejectors
    return Wakes(
        pod=refused.info.pod.key,
        before=refused.queue,
        after=after,
        moved=after != refused.queue,
        change=told(change) if change else "",
        message=refused.message,
        unschedulable_plugins=tuple(sorted(rejectors.unschedulable)),
        pending_plugins=tuple(sorted(rejectors.pending)),
        gating_plugin=refused.attempt.gating_plugin,
        events=events,
        kube_version=scheduler.cluster.kube_version,
        **basis_of(scheduler, refused),
    )


def _takes_away(change: ChangedObject, pod: Pod) -> bool:
    """Whether the pod itself is gone from the queue, whatever it waited for: deleted, ended, or bound by another."""
    if change.kind != POD or not is_same_pod(change.object, pod):
        return False
    return change.new is None or bool(change.new.spec.node_name or change.new.terminated)


def basis_of(scheduler: Scheduler, refused: Refused) -> Basis:
    """What an answer about a refused pod rests on."""
    affected = WHEN_FITTING if refused.queue == NONE else WHEN_WOKEN
    unknown = summarize_unknowns(refused.unknown, affected)
    return {"not_replayed": find_unreplayed_parts(refused.framework), **unknown_fields(unknown)}


def basis_of_many(bases: Sequence[Basis]) -> Basis:
    """What several answers rest on together."""
    return {
        "not_replayed": tuple(dict.fromkeys(line for basis in bases for line in basis["not_replayed"])),
        "unknown": merge_unknown_kinds(basis["unknown"] for basis in bases),
        "undecided": any(basis["undecided"] for basis in bases),
    }


def concerning(occurrences: Iterable[Occurrence], info: PodInfo) -> list[Occurrence]:
    """The events less those about other pods that wait."""
    return [
        occurrence
        for occurrence in occurrences
        if not occurrence.itself or is_same_pod(occurrence.change.new, info.pod)
    ]


def asked_for(refused: Refused, occurrences: Iterable[Occurrence]) -> bool:
    """Whether some rejector asked for one of the events; without hints all count that the pod itself makes."""
    registrations, rejectors = refused.registrations, refused.attempt.rejectors.all
    if any(registrations.hints(plugin, occurrence.event) for occurrence in occurrences for plugin in rejectors):
        return True
    return not registrations.hinted and any(occurrence.itself for occurrence in occurrences)


def asked(refused: Refused, occurrences: Iterable[Occurrence], view: Fork) -> tuple[tuple[EventReport, ...], str]:
    """What the rejectors say to each of the events, and the queue in which the pod is after them."""
    occurrences = tuple(occurrences)
    info = _updated(refused.info, occurrences)
    registrations, rejectors = refused.registrations, refused.attempt.rejectors
    gate, after = refused.attempt.gating_plugin, refused.queue
    events = []
    for occurrence in occurrences:
        answers = hints(registrations, rejectors, info, occurrence, view)
        events.append(
            EventReport(occurrence.event.label, occurrence.event.resource, {p: str(h) for p, h in answers.items()})
        )
        if after == UNSCHEDULABLE and hears(registrations, rejectors, info, occurrence, gate):
            hinted = strategy(registrations, rejectors, info, occurrence, view, said=answers)
            after = _moved(refused, info, hinted, view)
    return tuple(events), after


def _updated(info: PodInfo, occurrences: Iterable[Occurrence]) -> PodInfo:
    """The pod as it is after an update of itself."""
    return next((PodInfo(occurrence.change.new, info.options) for occurrence in occurrences if occurrence.itself), info)


def _moved(refused: Refused, info: PodInfo, hinted: QueueingStrategy, view: Fork) -> str:
    """The queue to which a pod goes: none while a plugin keeps it out; it backs off only once it was tried."""
    if hinted is QueueingStrategy.SKIP:
        return UNSCHEDULABLE
    tried = refused.attempt.cycle is not None
    queue = BACKOFF if tried and hinted is QueueingStrategy.AFTER_BACKOFF else ACTIVE
    if queue == BACKOFF and not refused.registrations.gates.enabled(POPS_FROM_BACKOFF):
        return queue
    plugin, _ = gating_plugin(refused.framework, info, view, refused.attempt.gating_plugin)
    return UNSCHEDULABLE if plugin else queue
