"""``wakes``: what makes the scheduler retry a rejected pod?

Read ``changes_that_wake`` for one pod, ``event_replay`` for given events, ``between`` for two moments, and ``many`` for
all waiting pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import PodReference, find_target
from kschedctl.commands.wakes import between
from kschedctl.commands.wakes import changes_that_wake as study
from kschedctl.commands.wakes.changes import parse_changes
from kschedctl.commands.wakes.many import (
    combine_reports,
    replay_changes_for_pods,
    replay_changes_for_targets,
    wake_ups_of_pods,
)
from kschedctl.commands.wakes.report import WakesBetween, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import describe_scope, find_pending_pods, is_pending
from kschedctl.scheduler.scheduler import Scheduler


def wake_ups(cluster: Cluster, pod: PodReference) -> WakeUps:
    """Return the events that a pod rejected by kube-scheduler waits for, by the plugins that rejected it.

    The pod is given as for ``explain``. Raises UsageError if it is not pending, and the errors of ``explain``.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    >>> [rejector.plugin for rejector in wake_ups(Cluster.from_objects([node, pod]), "default/p").rejectors]
    ['NodeResourcesFit']
    """
    return _wake_ups_of_target(find_target(cluster, pod))


def wake_ups_of_targets(targets: Sequence[TargetPod]) -> WakeUps | WakeUpsOfMany:
    """Return the wake-ups of one pod, or of several as one document. Raises the errors of ``wake_ups``."""
    reports = [_wake_ups_of_target(asked) for asked in targets]
    return reports[0] if len(reports) == 1 else combine_reports(reports)


def _wake_ups_of_target(target: TargetPod) -> WakeUps:
    if failure := target.never_created:
        report = study.build_not_created(target.scheduler, target.pod, failure)
    else:
        report = study.wake_ups(target.scheduler, target.pod)
    return replace(report, stands_for=target.note)


def pending_wake_ups(cluster: Cluster, namespace: str = "", *, selector: str = "") -> WakeUpsOfMany:
    """Return what makes the scheduler retry each waiting pod of one ``namespace`` or of all.

    ``selector`` limits the pods by label, such as ``app=web``. Raises InputError.

    >>> import kschedctl
    >>> pending_wake_ups(kschedctl.Cluster.from_objects([])).pods
    ()
    """
    pods = find_pending_pods(cluster, namespace or None, selector)
    return wake_ups_of_pods(Scheduler(cluster), pods, describe_scope(namespace or None, selector))


def wakes_by(
    cluster: Cluster,
    changes: Sequence[JsonObject],
    pods: Sequence[PodReference] = (),
    *,
    namespace: str = "",
    selector: str = "",
    where: str = "",
) -> WakesOfMany:
    """Return which of these changes, each by itself, makes the scheduler retry which rejected pods.

    ``changes`` are objects (dicts) as applied, events ``{"action", "old", "new"}``, or watch events (``type``,
    ``object``). ``where`` names their source in errors. ``pods`` are given as for ``explain``; without any, all waiting
    pods of one ``namespace`` or of all count, limited by label with ``selector``.

    Raises UsageError for a pod that is not pending, and InputError for a change that cannot be read or that the
    scheduler does not watch.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = wakes_by(kschedctl.Cluster.from_objects([cordoned, pod]), [node])
    >>> [(answer.pod, answer.woken) for answer in found.answers]
    [('default/p', True)]
    """
    if pods:
        return wakes_of_targets([find_target(cluster, pod) for pod in pods], changes, where=where)
    scheduler = Scheduler(cluster)
    parsed_changes = parse_changes(changes, scheduler.view, where=where)
    waiting_pods = find_pending_pods(cluster, namespace or None, selector)
    return replay_changes_for_pods(scheduler, waiting_pods, parsed_changes, describe_scope(namespace or None, selector))


def wakes_of_targets(targets: Sequence[TargetPod], changes: Sequence[JsonObject], *, where: str = "") -> WakesOfMany:
    """Return which changes wake these pods, at least one, which share a scheduler's view. Arguments and errors are
    as for ``wakes_by``.
    """
    scheduler = targets[0].scheduler
    parsed_changes = parse_changes(changes, scheduler.view, where=where)
    created = [asked.pod for asked in targets if asked.never_created is None]
    lacking = tuple(refused for asked in targets if (refused := asked.never_created))
    return replace(replay_changes_for_targets(scheduler, created, parsed_changes), not_created=lacking)


def wakes_between(
    before: Cluster,
    after: Cluster,
    pods: Sequence[str] = (),
    *,
    namespace: str = "",
    selector: str = "",
    names: tuple[str, str] = ("before", "after"),
) -> WakesBetween:
    """Return which changes between two moments of a cluster woke the pods pending at both, and which pods none woke.

    ``pods`` (``namespace/name``) limits the answer and includes pods that no longer wait at the second moment. Without
    it, all waiting pods of one ``namespace`` or with the labels of ``selector`` count. ``names`` are the moments' names
    in the report.

    Raises UsageError for a pod that is not pending in the first moment, and for moments in the wrong order.

    >>> import kschedctl
    >>> moment = kschedctl.Cluster.from_objects([])
    >>> wakes_between(moment, moment).changes
    0
    """
    moments = _get_read_time(before), _get_read_time(after)
    if all(moments) and moments[0] > moments[1]:
        raise UsageError(f"{names[0]} was read at {moments[0]}, {names[1]} before", hint="name the earlier one first")
    for key in pods:
        pod = before.pod(*key.partition("/")[::2])
        if pod is None or not is_pending(pod):
            raise UsageError(f'pod "{key}" is not pending in {names[0]}', hint="only pods that wait can be woken")
    keys = frozenset(pods or (pod.key for pod in find_pending_pods(before, namespace or None, selector)))
    return between.wakes_between(Scheduler(before), Scheduler(after), keys, names, ended=bool(pods))


def _get_read_time(cluster: Cluster) -> str:
    """Return when a live cluster was read, or "" if unknown."""
    return cluster.provenance.read_at if cluster.provenance else ""
