"""``wakes``: what makes the scheduler retry a refused pod?

Read ``changes_that_wake`` for one pod, ``event_replay`` for given events, ``between`` for two moments, and ``many`` for
all pods that wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import PodReference, find_target
from kschedctl.commands.wakes import between
from kschedctl.commands.wakes import changes_that_wake as study
from kschedctl.commands.wakes.changes import changes_of
from kschedctl.commands.wakes.many import several, wake_ups_of_many, wakes_of_many, wakes_of_these
from kschedctl.commands.wakes.report import WakesBetween, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import describe_scope, find_pending_pods, is_pending
from kschedctl.scheduler.scheduler import Scheduler


def wake_ups(cluster: Cluster, pod: PodReference) -> WakeUps:
    """The events that a pod waits for which kube-scheduler refused, by the plugins that refused it.

    The pod as ``explain`` takes it. Raises UsageError for one that is not pending, and what ``explain`` raises.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    >>> [rejector.plugin for rejector in wake_ups(Cluster.from_objects([node, pod]), "default/p").rejectors]
    ['NodeResourcesFit']
    """
    return _of_one(find_target(cluster, pod))


def wake_ups_of_asked(asked_pods: Sequence[TargetPod]) -> WakeUps | WakeUpsOfMany:
    """Of one pod, or of several as one document; errors as of ``wake_ups``."""
    reports = [_of_one(asked) for asked in asked_pods]
    return reports[0] if len(reports) == 1 else several(reports)


def _of_one(asked: TargetPod) -> WakeUps:
    if lacking := asked.never_created:
        report = study.never_created(asked.scheduler, asked.pod, lacking)
    else:
        report = study.wake_ups(asked.scheduler, asked.pod)
    return replace(report, stands_for=asked.note)


def pending_wake_ups(cluster: Cluster, namespace: str = "", *, selector: str = "") -> WakeUpsOfMany:
    """What makes the scheduler try again each pod that waits, of one ``namespace`` or of all.

    ``selector``: of these labels alone, as ``app=web``. Raises InputError.

    >>> import kschedctl
    >>> pending_wake_ups(kschedctl.Cluster.from_objects([])).pods
    ()
    """
    pods = find_pending_pods(cluster, namespace or None, selector)
    return wake_ups_of_many(Scheduler(cluster), pods, describe_scope(namespace or None, selector))


def wakes_by(
    cluster: Cluster,
    changes: Sequence[JsonObject],
    pods: Sequence[PodReference] = (),
    *,
    namespace: str = "",
    selector: str = "",
    where: str = "",
) -> WakesOfMany:
    """Which of these changes, each by itself, makes the scheduler try which refused pods again?

    ``changes``: objects (dicts) as applied, or events: ``{"action", "old", "new"}``, or of a watch (``type``,
    ``object``); ``where``: what errors call their source. ``pods``: as ``explain`` takes them; without any all that
    wait, of one ``namespace`` or of all, or of these labels alone (``selector``). Raises UsageError for a pod that is
    not pending, InputError for a change that cannot be read or that scheduling does not hear of.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = wakes_by(kschedctl.Cluster.from_objects([cordoned, pod]), [node])
    >>> [(answer.pod, answer.woken) for answer in found.answers]
    [('default/p', True)]
    """
    if pods:
        return wakes_of_asked([find_target(cluster, pod) for pod in pods], changes, where=where)
    scheduler = Scheduler(cluster)
    told = changes_of(changes, scheduler.view, where=where)
    waiting_pods = find_pending_pods(cluster, namespace or None, selector)
    return wakes_of_many(scheduler, waiting_pods, told, describe_scope(namespace or None, selector))


def wakes_of_asked(asked_pods: Sequence[TargetPod], changes: Sequence[JsonObject], *, where: str = "") -> WakesOfMany:
    """Of these pods, at least one, which share a scheduler's view; arguments and errors as of ``wakes_by``."""
    scheduler = asked_pods[0].scheduler
    told = changes_of(changes, scheduler.view, where=where)
    created = [asked.pod for asked in asked_pods if asked.never_created is None]
    lacking = tuple(refused for asked in asked_pods if (refused := asked.never_created))
    return replace(wakes_of_these(scheduler, created, told), not_created=lacking)


def wakes_between(
    before: Cluster,
    after: Cluster,
    pods: Sequence[str] = (),
    *,
    namespace: str = "",
    selector: str = "",
    names: tuple[str, str] = ("before", "after"),
) -> WakesBetween:
    """Which changes between two moments of a cluster woke the pods that were pending at both, and which none woke?

    ``pods``: ``namespace/name`` of those that are meant, then also of such as no longer wait at the second moment; else
    all that wait, of one ``namespace`` or of these labels (``selector``). ``names``: what the report calls the moments.
    Raises UsageError for a pod that is not pending in the first, and for moments in the wrong order.

    >>> import kschedctl
    >>> moment = kschedctl.Cluster.from_objects([])
    >>> wakes_between(moment, moment).changes
    0
    """
    moments = _read_at(before), _read_at(after)
    if all(moments) and moments[0] > moments[1]:
        raise UsageError(f"{names[0]} was read at {moments[0]}, {names[1]} before", hint="name the earlier one first")
    for key in pods:
        pod = before.pod(*key.partition("/")[::2])
        if pod is None or not is_pending(pod):
            raise UsageError(f'pod "{key}" is not pending in {names[0]}', hint="only pods that wait can be woken")
    keys = frozenset(pods or (pod.key for pod in find_pending_pods(before, namespace or None, selector)))
    return between.wakes_between(Scheduler(before), Scheduler(after), keys, names, ended=bool(pods))


def _read_at(cluster: Cluster) -> str:
    """When a live cluster was read; empty where that is not known."""
    return cluster.provenance.read_at if cluster.provenance else ""
