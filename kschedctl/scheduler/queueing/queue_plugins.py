"""The answers of a scheduler's plugins to the questions of the queue, and one attempt at a pod up to Filter.

Upstream: runPreEnqueuePlugins in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors, find_rejectors
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.event_handling import Occurrence, Registrations
from kschedctl.scheduler.framework import SUCCESS, PreEnqueuePlugin, Status, offers
from kschedctl.scheduler.framework.events import ClusterEvent
from kschedctl.scheduler.queueing.requeueing import QueueingStrategy, choose_strategy, concerns_pod
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class QueuePlugins:
    """The plugins of all profiles as the queue asks them. `info` returns a pod's current PodInfo."""

    def __init__(self, scheduler: Scheduler, view: Fork, info: Callable[[Position], PodInfo]) -> None:
        self._scheduler, self._view, self._info = scheduler, view, info
        self._interested: dict[tuple[Rejectors, ClusterEvent], bool] = {}
        self._registered: dict[ClusterEvent, bool] = {}

    def run_pre_enqueue(self, pod: QueuedPod) -> tuple[str, Status]:
        """Return the plugin that keeps a pod out of the active queue and its status, or ("", SUCCESS)."""
        info = self._info(pod.position)
        framework, _ = self._scheduler.find_framework_for(info, self._view)
        if framework is None:
            return "", SUCCESS
        return find_gating_plugin(framework, info, self._view, pod.gating_plugin)

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        """Return the plugin that keeps a pod out of the active queue, or an empty string."""
        plugin, _ = self.run_pre_enqueue(pod)
        return plugin

    def is_interested(self, rejectors: Rejectors, event: ClusterEvent) -> bool:
        """Return whether one of the rejecting plugins registered for the event in some profile."""
        key = rejectors, event
        if key not in self._interested:
            self._interested[key] = any(
                registrations.find_hints(plugin, event)
                for registrations in self._iter_registrations()
                for plugin in rejectors.all
            )
        return self._interested[key]

    def is_registered(self, event: ClusterEvent) -> bool:
        """Return whether any plugin of any profile registered for such events."""
        if event not in self._registered:
            self._registered[event] = any(
                registrations.find_hints(plugin, event)
                for registrations in self._iter_registrations()
                for plugin in registrations.by_plugin
            )
        return self._registered[event]

    def _iter_registrations(self) -> Iterator[Registrations]:
        """Yield the registrations of each profile."""
        return map(self._scheduler.registrations, self._scheduler.configuration.profiles)

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        """Return whether an event concerns the pod, so that the plugins that rejected it are asked."""
        info = self._info(pod.position)
        registrations = self._scheduler.registrations(info.spec.scheduler_name)
        return concerns_pod(registrations, pod.rejectors, info, occurrence, pod.gating_plugin)

    def choose_strategy(self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False) -> QueueingStrategy:
        """Return what to do with a pod after an event."""
        info = self._info(pod.position)
        registrations = self._scheduler.registrations(info.spec.scheduler_name)
        return choose_strategy(registrations, pod.rejectors, info, occurrence, self._view, in_flight=in_flight)


class Attempt(NamedTuple):
    """The result of one attempt at a pod."""

    rejectors: Rejectors = NO_REJECTORS
    gating_plugin: str = ""
    """The PreEnqueue plugin that rejected the pod, in which case there is no `cycle`."""
    gate: Status = SUCCESS
    """The status of the gating plugin."""
    cycle: Cycle | None = None


def try_without_post_filter(framework: Framework, info: PodInfo, view: Fork) -> Attempt:
    """Try a pod once, from PreEnqueue to Filter, without running PostFilter."""
    plugin, status = find_gating_plugin(framework, info, view)
    if plugin:
        return Attempt(Rejectors(frozenset({plugin})), plugin, status)
    cycle = run_cycle(framework, info, view)
    return Attempt(find_rejectors(cycle), cycle=cycle)


def find_gating_plugin(framework: Framework, info: PodInfo, view: Fork, first: str = "") -> tuple[str, Status]:
    """Return the first plugin that keeps the pod out of the active queue and its status, or ("", SUCCESS).

    The plugin named `first` is asked first, then the others by name.
    """
    plugins = sorted(framework.plugins_at("preEnqueue"), key=lambda plugin: (plugin.name != first, plugin.name))
    for plugin in plugins:
        if offers(plugin, PreEnqueuePlugin):
            status = plugin.pre_enqueue(info, view)
            if status.rejected:
                return plugin.name, status
    return "", SUCCESS
