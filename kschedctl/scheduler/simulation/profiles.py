"""Which profile serves a pod of a simulation, and whether its PreEnqueue plugins let the pod in.

Upstream: frameworkForPod in pkg/scheduler/schedule_one.go, runPreEnqueuePlugins in
pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
"""

from __future__ import annotations

from kschedctl.scheduler.framework import PreEnqueuePlugin, offers
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.pod_info import PodInfo


class ServingProfiles:
    """The profiles of a scheduler by the numbers of infos; what that leans on and is not known is kept in ``unheard``
    of the placements.
    """

    def __init__(self, scheduler: Scheduler, placements: Placements) -> None:
        self.scheduler, self.placements = scheduler, placements
        self._frameworks: dict[int, Framework | None] = {}
        self._gates: dict[int, list[PreEnqueuePlugin]] = {}

    def of(self, number: int) -> Framework | None:
        """The profile for the pods of an info, None where none serves them."""
        try:
            return self._frameworks[number]
        except KeyError:
            info = self.placements.incoming(number)
            self._frameworks[number], unknown = self.scheduler.framework_for(info, self.placements.view)
            self.placements.unheard.update(dict.fromkeys(unknown))
        return self._frameworks[number]

    def serving_none(self, info: PodInfo) -> str:
        """What is said of a pod that none serves."""
        known = ", ".join(self.scheduler.configuration.profiles)
        return f'no profile serves scheduler name "{info.spec.scheduler_name}" (served: {known})'

    def gated(self, framework: Framework, info: PodInfo) -> str:
        """Why a PreEnqueue plugin keeps the pod out of the queue; empty where none does."""
        plugins = self._gates.get(id(framework))
        if plugins is None:
            plugins = [p for p in framework.at("preEnqueue") if offers(p, PreEnqueuePlugin)]
            self._gates[id(framework)] = plugins
        for plugin in plugins:
            status = plugin.pre_enqueue(info, self.placements.view)
            if status.rejected:
                return ", ".join(status.reasons)
        return ""
