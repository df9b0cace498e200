"""The library function `explain`, followed by the steps of an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import format_title
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import drop_unwritten_message, explain_pod
from kschedctl.commands.explain.report import FINE, UNSCHEDULABLE, Explanation, Explanations, ReplicaCount
from kschedctl.errors import UsageError
from kschedctl.fixes.new_node import find_autoscaler_fixes, predict_new_node
from kschedctl.replay.controllers.target_pod import TargetPod, change_priority, describe_priority_change
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.not_created import NOT_CREATED, OnceCreated
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last
from kschedctl.reports.unknown import UnknownKind, merge_notes
from kschedctl.reports.waiting_elsewhere import find_unadmitted_objects
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import get_read_time

PodReference = str | JsonObject | Pod
"""A pod of the cluster (`namespace/name`), or the manifest of a pod or workload that is not in it yet."""


def explain(
    cluster: Cluster,
    pod: PodReference,
    *,
    remedies: bool = False,
    as_if_priority: int | None = None,
    as_if_priority_class: str = "",
    call_extender: CallExtender | None = None,
    now: str = "",
    as_written: bool = False,
) -> Explanation:
    """Explain why a pod is Pending, by replaying one scheduling cycle of kube-scheduler for it.

    Arguments:
        cluster: the cluster in which the pod would be scheduled.
        pod: `namespace/name` of a pod in the cluster, or a manifest (dict) that is not in it yet. For a
            workload's manifest, one of its pods is explained.
        remedies: also search for the smallest changes that would let the pod schedule. This takes longer; the command
            does it by default.
        as_if_priority: replay the pod with this priority.
        as_if_priority_class: replay the pod with this PriorityClass.
        call_extender: calls the configuration's extenders, as `call_extender(extender, verb, payload) -> (HTTP status,
            body)`. The extender is an entry of the configuration. Payload and body are decoded JSON of
            k8s.io/kube-scheduler/extender/v1, and the body is None unless the status is 200. Without this function,
            the answer lists what extenders might change.
        now: an RFC 3339 time for autoscalers. The default is the time when the cluster was read.
        as_written: leave out the `message` of a gated pod, because kube-scheduler writes no event while the pod is
            gated. By default, `message` is what it would write once the gates are removed.

    Raises UsageError if there is no such pod or PriorityClass, InputError for a manifest that cannot be read or that
    the API server denies, and ConfigurationError for an invalid scheduler configuration.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> requests = {"resources": {"requests": {"cpu": "3"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", **requests}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> report = explain(kschedctl.Cluster.from_objects([node]), web)
    >>> report.verdict, report.eliminations[0].reason
    ('Unschedulable', 'Insufficient cpu')
    """
    target = find_or_create_target(cluster, pod, call_extender)
    target = target._replace(pod=change_priority(target, as_if_priority, as_if_priority_class))
    now = now or get_read_time(cluster)
    report = explain_in_cluster(
        target,
        find_new_node=lambda replica: predict_new_node(replica, now),
        find_autoscaler_fixes=lambda replica, new_node: find_autoscaler_fixes(replica, new_node, now),
        remedies=remedies,
        now=now,
        as_if=describe_priority_change(as_if_priority, as_if_priority_class),
    )
    return drop_unwritten_message(report) if as_written else report


def explain_in_cluster(
    target: TargetPod,
    find_new_node: Callable[[TargetPod], NewNode | None],
    find_autoscaler_fixes: Callable[[TargetPod, NewNode], tuple[Remedy, ...]],
    *,
    remedies: bool,
    now: str = "",
    as_if: str = "",
) -> Explanation:
    """Explain the target, and add the effects of and on other pods, the autoscaler's answer, and fixes.

    A pod that fits is also replayed with the other waiting pods. For an unschedulable pod, the explanation says what
    becomes of the pods that it would preempt, and whether an autoscaler adds a node. Fixes are searched for only with
    `remedies`.

    `find_new_node` asks the autoscaler for a node, and `find_autoscaler_fixes` finds changes that would make it add
    one. `now` is the RFC 3339 time of the answer. `as_if` describes how the target's pod differs from the pod that was
    asked about. If it is given, the advice on retries, which is about the unchanged pod, is left out, and no replica is
    chosen.
    """
    target, replicas = (target, None) if as_if else _choose_replica(target)
    report = replace(explain_target(target), replicas=replicas, as_if=as_if)
    if report.verdict == "Schedulable":
        report = _add_rivals_for_room(target, report, now)
    if report.verdict == UNSCHEDULABLE:
        report = _add_rivals_for_freed_room(target, report)
        report = _add_fate_of_victims(target, report)
        report = replace(report, new_node=find_new_node(target))
    if remedies:
        report = _add_admission_fixes(target, report, now)
        report = _add_node_freed_for_others(target, report)
        report = _add_pod_fixes(target, report)
        report = _add_autoscaler_fixes(target, report, find_autoscaler_fixes)
    return report


def _choose_replica(target: TargetPod) -> tuple[TargetPod, ReplicaCount | None]:
    """Return the target with the replica to explain, and how many replicas fit. A pod that exists is left unchanged."""
    if target.workload is None:
        return target, None
    from kschedctl.commands.explain.new_pods import choose_replica  # noqa: PLC0415 - needless for a pod that exists

    return choose_replica(target)


def _add_rivals_for_room(target: TargetPod, report: Explanation, now: str) -> Explanation:
    """Add the waiting pods that would take the room of a pod that fits, and replace advice that no longer holds.

    If the report is about a changed pod, only its advice on retries is dropped.
    """
    from kschedctl.commands.explain.waiting import ReplayedCluster, add_rivals_for_room, drop_retry_advice  # noqa: PLC0415 - only for pods that fit

    if report.as_if:
        return drop_retry_advice(report)
    return add_rivals_for_room(report, ReplayedCluster(target.scheduler, now))


def _add_admission_fixes(target: TargetPod, report: Explanation, now: str) -> Explanation:
    """Add the fixes that let a queue admit the objects for which the target waits."""
    if not report.waiting_elsewhere:
        return report
    from kschedctl.commands.explain.named_elsewhere import add_kueue_fixes  # noqa: PLC0415 - needless for most pods

    manifests = () if target.workload is None else (target.workload,)
    waiting = add_kueue_fixes(target.scheduler.cluster, report.waiting_elsewhere, now, manifests)
    return replace(report, waiting_elsewhere=waiting)


def _add_node_freed_for_others(target: TargetPod, report: Explanation) -> Explanation:
    """Add the node that an unschedulable pod gets without a fix, once other waiting pods have preempted pods.

    Only the pod as it is in the cluster is looked up.
    """
    if report.verdict != UNSCHEDULABLE or report.as_if:
        return report
    pods_without_node = {pod.key for pod in target.scheduler.cluster.unbound_pods()}
    if target.pod.key not in pods_without_node or len(pods_without_node) == 1:
        return report
    from kschedctl.commands.explain.waiting import mention_node_freed_for_others  # noqa: PLC0415 - only for such pods

    return mention_node_freed_for_others(target.scheduler, report)


def _add_pod_fixes(target: TargetPod, report: Explanation) -> Explanation:
    """Add the verified fixes that let the pod schedule."""
    from kschedctl.commands.explain.fixes import add_fixes  # noqa: PLC0415 - a summary needs none

    return add_fixes(report, target)


def _add_autoscaler_fixes(
    target: TargetPod, report: Explanation, find_autoscaler_fixes: Callable[[TargetPod, NewNode], tuple[Remedy, ...]]
) -> Explanation:
    """Add the changes that would make an autoscaler add a node for the pod, in order of what fixes cost."""
    fixes = find_autoscaler_fixes(target, report.new_node) if report.new_node else ()
    if not fixes:
        return report
    from kschedctl.fixes.ranking import insert_autoscaler_fixes  # noqa: PLC0415 - a summary needs none

    ranked = sort_incomplete_and_costly_fixes_last(insert_autoscaler_fixes(report.remedies, fixes))
    return replace(report, remedies=ranked)


def _add_rivals_for_freed_room(target: TargetPod, report: Explanation) -> Explanation:
    """Return the report with the waiting pods that could take the room that preemption frees for the target pod.

    The report is returned unchanged if no victims are terminating.
    """
    if report.preemption is None or not report.preemption.terminating:
        return report
    from kschedctl.commands.explain.preempted_room import mention_rivals  # noqa: PLC0415 - only while pods terminate

    return mention_rivals(target.scheduler, target.pod, report)


def _add_fate_of_victims(target: TargetPod, report: Explanation) -> Explanation:
    """Add to the report what becomes of the pods that the target would preempt.

    That is, which of them get no other node, which Jobs fail, and which PodDisruptionBudgets are violated. Return the
    report unchanged if nothing is preempted, if victims are terminating already, if extenders would have to be called
    for the other pods, or if the preemption cannot be replayed.
    """
    preemption, scheduler = report.preemption, target.scheduler
    calls_extenders = scheduler.call_extender is not None and bool(scheduler.extenders)
    if preemption is None or not preemption.chosen_victims or preemption.terminating or calls_extenders:
        return report
    from kschedctl.replay.controllers.other_replicas import replay_preemption  # noqa: PLC0415 - only for preempting pods

    victims = replay_preemption(target, preemption.chosen_victims)
    if victims is None:
        return report
    preemption = replace(
        preemption,
        victims_without_node=victims.without_node,
        failed_jobs=victims.failed_jobs,
        violated_budgets=victims.violated_budgets,
    )
    return replace(report, preemption=preemption)


def explain_target(target: TargetPod) -> Explanation:
    """Explain the target's pod, and add whether its workload fails to create it or waits for a queue.

    A fitting pod gets the verdict NotCreated if it cannot be created, or if its workload is not admitted by its queue.
    If nothing is known about the workload's pods, no pod is replayed, and the verdict is NotCreated.
    """
    if target.is_known:
        report = explain_pod(target.scheduler, target.pod)
    else:
        report = Explanation(
            target.pod.key, NOT_CREATED, headline="", kube_version=target.scheduler.cluster.kube_version
        )
    workload = "" if target.workload is None or isinstance(target.workload, Pod) else format_title(target.workload)
    report = replace(report, stands_for=target.note, workload=workload, fewer_pods=target.fewer_reasons)
    report = _add_creation_doubts(target, report)
    report = _add_creation_failures(target, report)
    return _add_objects_waiting_for_queues(target, report)


def _add_creation_doubts(target: TargetPod, report: Explanation) -> Explanation:
    """Add the kinds that were not read for the target and, for a pod that is not in the cluster, for its creation."""
    cluster, metadata = target.scheduler.cluster, target.pod.metadata
    doubtful_kinds: tuple[UnknownKind, ...] = ()
    if target.workload is not None or cluster.pod(metadata.namespace, metadata.name) is None:
        from kschedctl.commands.explain.new_pods import find_creation_doubts  # noqa: PLC0415 - needless for a pod that exists

        creation = find_creation_doubts(target, cluster, fits=report.verdict in FINE)
        doubtful_kinds = creation.unknown
        report = replace(report, not_replayed=(*report.not_replayed, *creation.not_replayed))
    return replace(
        report,
        unknown=merge_unknown_kinds((report.unknown, target.unread, doubtful_kinds)),
        undecided=report.undecided or bool(doubtful_kinds),
    )


def _add_creation_failures(target: TargetPod, report: Explanation) -> Explanation:
    """Add why the target's workload could not create some pods."""
    if target.not_created is None:
        return report
    from kschedctl.commands.explain.new_pods import add_creation_failures  # noqa: PLC0415 - needless for most pods

    return add_creation_failures(report, target.not_created)


def _add_objects_waiting_for_queues(target: TargetPod, report: Explanation) -> Explanation:
    """Add the objects that wait for admission to a queue, such as Kueue's Workloads.

    If one of them is not admitted and the verdict is that the pod fits, the verdict becomes NotCreated, and the
    headline is that of the first such object.
    """
    report = replace(report, waiting_elsewhere=target.waiting_elsewhere)
    unadmitted = find_unadmitted_objects(target.waiting_elsewhere)
    if not unadmitted or report.verdict not in FINE:
        return report
    first_object = unadmitted[0]
    return replace(
        report,
        verdict=NOT_CREATED,
        headline=f"{first_object.resource} {first_object.headline}",
        once_created=OnceCreated(report.verdict, report.headline) if report.headline else None,
        undecided=False,
    )


def find_or_create_target(cluster: Cluster, pod: PodReference, call_extender: CallExtender | None = None) -> TargetPod:
    """Find the pod to explain in the cluster, or create the target from a decoded pod or a manifest.

    Raises UsageError if the cluster has no pod of this name, and InputError for a manifest that cannot be read or that
    the API server would deny.
    """
    scheduler = Scheduler(cluster, call_extender)
    if isinstance(pod, str):
        return TargetPod(scheduler, resolve_pod(scheduler, pod))
    from kschedctl.commands.explain.new_pods import create_target_pod, validate_new_object  # noqa: PLC0415 - only for manifests

    validate_new_object(pod, cluster)
    return create_target_pod(scheduler, pod)


def resolve_pod(scheduler: Scheduler, pod: PodReference) -> Pod:
    """Return the pod as the API server stores it, or would store it if created from the manifest.

    Raises UsageError if the cluster has no pod of this name, and InputError if the manifest would be denied.
    """
    if not isinstance(pod, str):
        from kschedctl.commands.explain.new_pods import admit_manifest  # noqa: PLC0415 - needless for pods that exist

        return admit_manifest(scheduler, pod)
    namespace, _, name = pod.rpartition("/")
    stored = scheduler.cluster.pod(namespace, name)
    if stored is None:
        raise UsageError(f'pod "{pod}" not found', hint="" if namespace else "name it as namespace/name")
    return scheduler.view.build_stored_pod(stored)


def combine_explanations(reports: Sequence[Explanation]) -> Explanations:
    """Combine the explanations of several pods into one report.

    If some pod certainly fails, the report is not undecided, whatever is uncertain about the other pods.
    """
    failing = [report for report in reports if not report.is_fine or report.leaves_victims_without_node]
    some_pod_certainly_fails = any(not report.undecided for report in failing)
    return Explanations(
        tuple(reports),
        not_replayed=merge_notes(report.not_replayed for report in reports),
        ignored=merge_notes(report.ignored for report in reports),
        extended=merge_notes(report.extended for report in reports),
        unknown=merge_unknown_kinds(report.unknown for report in reports),
        undecided=any(report.undecided for report in reports) and not some_pod_certainly_fails,
    )
