"""What would wake a pod that the scheduler refused: which events its rejectors asked for, and what they say to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.wakes import EventReport, Wakes
from kschedctl.scheduler.messages import fit_error
from kschedctl.scheduler.queueing.attempt import Attempt, attempt, gating_plugin
from kschedctl.scheduler.queueing.event_handlers import Occurrence
from kschedctl.scheduler.queueing.events import ChangedObject
from kschedctl.scheduler.queueing.registrations import Registrations
from kschedctl.scheduler.queueing.requeueing import QueueingStrategy, hears, hints, strategy
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.explain import PodReference, find_pod
from kschedctl.studies.waking.changes import change_of, view_after

UNSCHEDULABLE, BACKOFF, ACTIVE = "unschedulable", "backoff", "active"
"""The queues of the scheduler."""


class Refused(NamedTuple):
    """A pod after one attempt, with the profile that serves it."""

    info: PodInfo
    framework: Framework
    registrations: Registrations
    attempt: Attempt

    @property
    def queue(self) -> str:
        """Where the pod is: with nobody to wait for it is tried again after its back-off."""
        return UNSCHEDULABLE if self.attempt.rejectors.all else BACKOFF


class Waking:
    """Asks of the pods of one cluster what would wake them. Raises InputError, ConfigurationError."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.view = scheduler, scheduler.view

    def refused(self, pod: PodReference) -> Refused:
        """Try the pod once. Raises UsageError for one that is not tried at all."""
        found = find_pod(self.scheduler, pod)
        info = PodInfo(found, self.view.settings.requests)
        framework, _ = self.scheduler.framework_for(info, self.view)
        if found.terminated or found.spec.node_name:
            raise UsageError(f'pod "{found.key}" is not pending', hint="only pods that wait can be woken")
        if framework is None:
            raise UsageError(f'no profile serves pod "{found.key}"', hint=f"schedulerName {found.spec.scheduler_name}")
        return Refused(
            info,
            framework,
            self.scheduler.registrations(found.spec.scheduler_name),
            attempt(framework, info, self.view),
        )


def wakes(cluster: Cluster, pod: PodReference, event: Mapping[str, Any]) -> Wakes:
    """What an event does to a pod of the cluster (``namespace/name``), or to a manifest of one, that was refused.

    ``event``: ``{"action": "Add" | "Update" | "Delete", "old": object or None, "new": object or None}``. Raises
    UsageError for a pod that is not pending, InputError and ConfigurationError for what cannot be read.
    """
    waking = Waking(Scheduler(cluster))
    refused = waking.refused(pod)
    change = change_of(event, waking.view)
    return woken(waking, refused, change)


def woken(waking: Waking, refused: Refused, change: ChangedObject | None) -> Wakes:
    """What a change does to a pod that was refused; None: one that the scheduler does not hear of."""
    occurrences = waking.scheduler.event_handlers.occurrences(change) if change else []
    told = [each for each in occurrences if not each.itself or same_pod(each.change.new, refused.info.pod)]
    view = view_after(waking.view, change) if change else waking.view
    info = _updated(refused.info, told)
    tried, rejectors = refused.attempt, refused.attempt.rejectors
    events = []
    after = refused.queue
    for each in told:
        said = hints(refused.registrations, rejectors, info, each, view)
        events.append(EventReport(each.event.label, each.event.resource, {p: str(h) for p, h in said.items()}))
        heard = hears(refused.registrations, info, each, tried.gating_plugin)
        if after == UNSCHEDULABLE and heard:
            after = _moved(refused, info, strategy(rejectors, said), view)
    message = None
    if tried.cycle is not None:
        message = tried.cycle.error or fit_error(tried.cycle)
    return Wakes(
        pod=info.pod.key,
        before=refused.queue,
        after=after,
        moved=after != refused.queue,
        message=message,
        unschedulable_plugins=tuple(sorted(rejectors.unschedulable)),
        pending_plugins=tuple(sorted(rejectors.pending)),
        gating_plugin=tried.gating_plugin,
        events=tuple(events),
        kube_version=waking.scheduler.cluster.kube_version,
    )


def _updated(info: PodInfo, told: Iterable[Occurrence]) -> PodInfo:
    """The pod as it is after an update of itself."""
    return next((PodInfo(each.change.new, info.options) for each in told if each.itself), info)


def _moved(refused: Refused, info: PodInfo, found: QueueingStrategy, view: Fork) -> str:
    """The queue to which a pod goes: none while a plugin keeps it out; it backs off only once it was tried."""
    if found is QueueingStrategy.SKIP:
        return UNSCHEDULABLE
    plugin, _ = gating_plugin(refused.framework, info, view, refused.attempt.gating_plugin)
    if plugin:
        return UNSCHEDULABLE
    tried = refused.attempt.cycle is not None
    return BACKOFF if tried and found is QueueingStrategy.AFTER_BACKOFF else ACTIVE
