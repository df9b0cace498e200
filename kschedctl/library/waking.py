"""``wake_ups``: what makes the scheduler try a refused pod again."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.cluster import Cluster
from kschedctl.reports.wakes import WakeUps
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import PodReference, stand_in_of
from kschedctl.studies.waking import wake_ups as study


def wake_ups(cluster: Cluster, pod: PodReference) -> WakeUps:
    """The events that a pod waits for which kube-scheduler refused, by the plugins that refused it.

    The pod as ``explain`` takes it. Raises UsageError for one that is not pending, and what ``explain`` raises.
    """
    asked = stand_in_of(Scheduler(cluster), pod)
    return replace(study.wake_ups(asked.scheduler, asked.pod), stands_for=asked.note)
