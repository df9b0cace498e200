"""``wake_ups``: what makes the scheduler try a refused pod again; ``wakes_by``: which of these changes do."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.library.pods import asked_pod, described, waiting
from kschedctl.reports.wakes import WakesOfMany, WakeUps
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import PodReference, find_pod
from kschedctl.studies.waking import wake_ups as study
from kschedctl.studies.waking.changes import changes_of
from kschedctl.studies.waking.many import wakes_of_many, wakes_of_these


def wake_ups(cluster: Cluster, pod: PodReference) -> WakeUps:
    """The events that a pod waits for which kube-scheduler refused, by the plugins that refused it.

    The pod as ``explain`` takes it. Raises UsageError for one that is not pending, and what ``explain`` raises.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    >>> [rejector.plugin for rejector in wake_ups(Cluster.from_objects([node, pod]), "default/p").rejectors]
    ['NodeResourcesFit']
    """
    asked = asked_pod(cluster, pod)
    return replace(study.wake_ups(asked.scheduler, asked.pod), stands_for=asked.note)


def wakes_by(
    cluster: Cluster,
    changes: Sequence[JsonObject],
    pods: Sequence[PodReference] = (),
    *,
    namespace: str = "",
    selector: str = "",
) -> WakesOfMany:
    """Which of these changes, each by itself, makes the scheduler try which refused pods again?

    ``changes``: objects (dicts) as applied, or events: ``{"action", "old", "new"}``, or of a watch (``type``,
    ``object``). ``pods``: as ``explain`` takes them; without any all that wait, of one ``namespace`` or of all, or of
    these labels alone (``selector``). Raises UsageError for a pod that is not pending, InputError for a change that
    cannot be read or that scheduling does not hear of.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = wakes_by(kschedctl.Cluster.from_objects([cordoned, pod]), [node])
    >>> [(answer.pod, answer.woken) for answer in found.answers]
    [('default/p', True)]
    """
    scheduler = Scheduler(cluster)
    told = changes_of(changes, scheduler.view)
    if pods:
        return wakes_of_these(scheduler, [find_pod(scheduler, pod) for pod in pods], told)
    waiting_pods = waiting(cluster, namespace or None, selector)
    return wakes_of_many(scheduler, waiting_pods, told, described(namespace or None, selector))
