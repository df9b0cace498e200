"""The command `wakes`: what makes the scheduler retry a rejected pod?

Read `changes_that_wake` for one pod, `event_replay` for given events, `between` for two moments, and `many` for all
pending pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import PodReference, find_or_create_target
from kschedctl.commands.wakes import between
from kschedctl.commands.wakes import changes_that_wake as study
from kschedctl.commands.wakes.changes import parse_changes
from kschedctl.commands.wakes.many import (
    combine_wake_up_reports,
    find_wake_ups_of_pods,
    replay_changes_for_pods,
    replay_changes_for_stored_pods,
)
from kschedctl.commands.wakes.report import WakesBetween, WakesOfMany, WakeUps, WakeUpsOfMany
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import describe_scope, find_pending_pods, is_pending
from kschedctl.scheduler.scheduler import Scheduler


def wake_ups(cluster: Cluster, pod: PodReference) -> WakeUps:
    """Find the events that would make the scheduler retry a rejected pod, grouped by the plugins that rejected it.

    The pod is given as for `explain`. Raises UsageError if the pod is not pending, and the errors of `explain`.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    >>> [rejector.plugin for rejector in wake_ups(Cluster.from_objects([node, pod]), "default/p").rejectors]
    ['NodeResourcesFit']
    """
    return _find_wake_ups_for_target(find_or_create_target(cluster, pod))


def find_wake_ups_of_targets(targets: Sequence[TargetPod]) -> WakeUps | WakeUpsOfMany:
    """Find the wake-ups of one pod, or of several pods in one report. Raises the errors of `wake_ups`."""
    reports = [_find_wake_ups_for_target(target) for target in targets]
    return reports[0] if len(reports) == 1 else combine_wake_up_reports(reports)


def _find_wake_ups_for_target(target: TargetPod) -> WakeUps:
    """Find the wake-ups of a pod, or report why its workload cannot create it."""
    if failure := target.never_created:
        report = study.build_not_created_report(target.scheduler, target.pod, failure)
    else:
        report = study.find_wake_ups(target.scheduler, target.pod)
    return replace(report, stands_for=target.note)


def pending_wake_ups(
    cluster: Cluster, namespace: str = "", *, selector: str = "", progress: Progress = NO_PROGRESS
) -> WakeUpsOfMany:
    """Find what would make the scheduler retry each pending pod of a namespace, or of all namespaces.

    `selector` limits the pods by label, such as `app=web`. If the user interrupts, the report has the pods so far.
    Raises InputError if a pod or the selector is malformed, and KeyboardInterrupt if the user interrupts before there
    is an answer.

    >>> import kschedctl
    >>> pending_wake_ups(kschedctl.Cluster.from_objects([])).pods
    ()
    """
    pods = find_pending_pods(cluster, namespace or None, selector)
    return find_wake_ups_of_pods(Scheduler(cluster), pods, describe_scope(namespace or None, selector), progress)


def wakes_by(
    cluster: Cluster,
    changes: Sequence[JsonObject],
    pods: Sequence[PodReference] = (),
    *,
    namespace: str = "",
    selector: str = "",
    where: str = "",
) -> WakesOfMany:
    """Find which rejected pods the scheduler would retry after each of these changes.

    `changes` are objects (dicts) as applied, events `{"action", "old", "new"}`, or watch events (`type`, `object`).
    `where` names their source in errors. `pods` are given as for `explain`. Without `pods`, all pending pods of a
    `namespace` or with the labels of `selector` are replayed.

    Raises UsageError for an unknown pod, InputError for a malformed change, and ConfigurationError for an invalid
    configuration of the scheduler.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = wakes_by(kschedctl.Cluster.from_objects([cordoned, pod]), [node])
    >>> [(answer.pod, answer.woken) for answer in found.answers]
    [('default/p', True)]
    """
    if pods:
        return replay_changes_for_targets([find_or_create_target(cluster, pod) for pod in pods], changes, where=where)
    scheduler = Scheduler(cluster)
    parsed_changes = parse_changes(changes, scheduler.view, where=where)
    waiting_pods = find_pending_pods(cluster, namespace or None, selector)
    return replay_changes_for_pods(scheduler, waiting_pods, parsed_changes, describe_scope(namespace or None, selector))


def replay_changes_for_targets(
    targets: Sequence[TargetPod], changes: Sequence[JsonObject], *, where: str = ""
) -> WakesOfMany:
    """Find which changes wake the target pods.

    There must be at least one target, and all targets must share a scheduler. Targets that are never created are only
    listed. `changes`, `where` and the errors are as for `wakes_by`.
    """
    scheduler = targets[0].scheduler
    parsed_changes = parse_changes(changes, scheduler.view, where=where)
    created = [target.pod for target in targets if target.never_created is None]
    creation_failures = tuple(target.never_created for target in targets if target.never_created is not None)
    report = replay_changes_for_stored_pods(scheduler, created, parsed_changes)
    return replace(report, not_created=creation_failures)


def wakes_between(
    before: Cluster,
    after: Cluster,
    pods: Sequence[str] = (),
    *,
    namespace: str = "",
    selector: str = "",
    names: tuple[str, str] = ("before", "after"),
) -> WakesBetween:
    """Find which changes between two states of a cluster woke pods that are pending in both.

    `pods` (`namespace/name`) limits the answer, and may name pods that are no longer pending in `after`. Without
    `pods`, the answer covers all pending pods of a `namespace` or with the labels of `selector`. `names` label the two
    states in the report. Raises UsageError if `before` is newer than `after`, or if a pod is not pending in `before`,
    and InputError if an object is malformed.

    >>> import kschedctl
    >>> moment = kschedctl.Cluster.from_objects([])
    >>> wakes_between(moment, moment).changes
    0
    """
    before_name, after_name = names
    before_time, after_time = _get_read_time(before), _get_read_time(after)
    if before_time and after_time and before_time > after_time:
        problem = f"{before_name} was read at {before_time}, but {after_name} was read earlier, at {after_time}"
        raise UsageError(problem, hint="specify the earlier snapshot first")
    for key in pods:
        pod_namespace, _, pod_name = key.partition("/")
        pod = before.pod(pod_namespace, pod_name)
        if pod is None or not is_pending(pod):
            raise UsageError(f'pod "{key}" is not pending in {before_name}', hint="only pending pods can be woken")
    keys = frozenset(pods or (pod.key for pod in find_pending_pods(before, namespace or None, selector)))
    return between.find_wakes_between(Scheduler(before), Scheduler(after), keys, names, include_ended=bool(pods))


def _get_read_time(cluster: Cluster) -> str:
    """Return the time when a live cluster was read, or an empty string if unknown."""
    return cluster.provenance.read_at if cluster.provenance else ""
