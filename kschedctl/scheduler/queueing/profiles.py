"""Which profile serves a pod of a simulation, and whether its PreEnqueue plugins let the pod in.

Upstream: frameworkForPod in pkg/scheduler/schedule_one.go, runPreEnqueuePlugins in
pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
"""

from __future__ import annotations

from kschedctl.scheduler.framework import SUCCESS, PreEnqueuePlugin, offers
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class ServingProfiles:
    """The profiles of a scheduler for pods of a view; ``unknown``: what that leans on and is not known.

    Where all was read it is the same for pods that differ in their claims alone.
    """

    def __init__(self, scheduler: Scheduler, view: Fork, unknown: dict[Unknown, None]) -> None:
        self.scheduler, self.view, self.unknown = scheduler, view, unknown
        self._frameworks: dict[int | None, Framework | None] = {}
        self._gates: dict[Framework, list[PreEnqueuePlugin]] = {}

    def of(self, info: PodInfo) -> Framework | None:
        """The profile for such a pod, None where none serves it."""
        key = info.number if self.view.objects.gaps else info.alike
        if key not in self._frameworks:
            self._frameworks[key], unknown = self.scheduler.framework_for(info, self.view)
            self.unknown.update(dict.fromkeys(unknown))
        return self._frameworks[key]

    def serving_none(self, info: PodInfo) -> str:
        """What is said of a pod that none serves."""
        known = ", ".join(self.scheduler.configuration.profiles)
        return f'no profile serves scheduler name "{info.spec.scheduler_name}" (served: {known})'

    def gated(self, framework: Framework, info: PodInfo) -> str:
        """Why a PreEnqueue plugin keeps the pod out of the queue; empty where none does."""
        plugins = self._gates.get(framework)
        if plugins is None:
            plugins = [p for p in framework.at("preEnqueue") if offers(p, PreEnqueuePlugin)]
            self._gates[framework] = plugins
        for plugin in plugins:
            status = plugin.pre_enqueue(info, self.view)
            if status is not SUCCESS and status.rejected:
                return ", ".join(status.reasons)
        return ""
