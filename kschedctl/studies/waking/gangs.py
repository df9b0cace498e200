"""Pods that are bound with others only: which plugin refuses one that would have a node, and what is known of all."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

from kschedctl.api.gangs import GangKey, gangs_of
from kschedctl.api.objects import Pod
from kschedctl.reports.pod_group import PodGroupReport
from kschedctl.scheduler.pod_groups.gangs import gang_plugin
from kschedctl.scheduler.pod_groups.submission import MemberFailure
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.studies.why.gang import TriedGang, gang_attempt

Attempts = MutableMapping[GangKey, TriedGang]
"""What became of gangs, each tried once for all its pods."""


class WithGang(NamedTuple):
    """The gang with which a pod is bound; ``failure``: why it was not, None where it was."""

    report: PodGroupReport
    failure: MemberFailure | None = None


def with_gang(scheduler: Scheduler, framework: Framework, pod: Pod, known: Attempts) -> WithGang | None:
    """What the pod, as the API server holds it, comes to with its gang; None for one that is bound by itself."""
    plugin = gang_plugin(framework)
    key = plugin.gang(pod) if plugin else None
    if key is None or gangs_of(pod)[0] != key:
        return None
    found = known.get(key) or gang_attempt(scheduler, framework, pod)
    if found is None:
        return None
    if scheduler.view.pods.position(pod.key) is not None:  # no manifest, which is of no gang but in its own answer
        known[key] = found
    return WithGang(found.report, found.failures.get(pod.key))
