"""Explain all pending pods, grouped by cause, with the workloads whose pods could not be created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import format_age
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.headline import describe_details_besides_cause, get_cause_for_grouping
from kschedctl.commands.explain.pending_report import ExplainedPods, PendingGroup, PendingPod, PendingPods
from kschedctl.commands.explain.report import FINE, UNSCHEDULABLE, Explanation
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.replay.pending_pods import describe_scope, find_pending_pods
from kschedctl.replay.pools import find_unready_nodes
from kschedctl.replay.unknown import VERDICT, merge_unknown_kinds
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere, find_unread_waiting_kinds
from kschedctl.reports.new_node import NodeGrowth
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import UnknownKind, is_undecided, merge_notes
from kschedctl.reports.waiting_elsewhere import has_unadmitted, has_unchecked_objects
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import get_read_time


def pending(
    cluster: Cluster,
    namespace: str = "",
    *,
    selector: str = "",
    in_full: int = 0,
    call_extender: CallExtender | None = None,
    now: str = "",
    growth: bool = True,
) -> PendingPods:
    """Report all pending pods by cause, and the workloads that fail to create pods.

    Arguments:
        cluster: the cluster.
        namespace: report only the pods of this namespace. The default is all namespaces.
        selector: report only the pods with these labels, such as `app=web`.
        in_full: the number of kinds of pods that are explained node by node.
        call_extender: calls the configuration's extenders, as for `explain`.
        now: the RFC 3339 time as of which ages are computed. The default is the time when the cluster was read.
        growth: for all namespaces, also report the nodes that an autoscaler would add, if one is known.

    Raises InputError for an invalid selector.

    >>> import kschedctl
    >>> str(pending(kschedctl.Cluster.from_objects([])))
    'Nothing is pending in any namespace'
    """
    scheduler = Scheduler(cluster, call_extender)
    now = now or get_read_time(cluster)
    report = report_pending_pods(scheduler, namespace or None, selector, now, in_full)
    if namespace or selector or not growth:
        return report
    return add_node_growth(report, lambda: _simulate_node_growth(cluster, now))


def _simulate_node_growth(cluster: Cluster, now: str) -> NodeGrowth | None:
    """Simulate which nodes an autoscaler would add, or return None if no autoscaler is known."""
    from kschedctl.fixes.new_node import simulate_node_growth  # noqa: PLC0415 - only where pods wait for a node

    return simulate_node_growth(cluster, now)


def add_node_growth(report: PendingPods, find_growth: Callable[[], NodeGrowth | None]) -> PendingPods:
    """If a pod is unschedulable, add to the report the nodes that an autoscaler would add."""
    is_any_unschedulable = any(group.verdict == UNSCHEDULABLE for group in report.groups)
    return replace(report, growth=find_growth()) if is_any_unschedulable else report


def report_pending_pods(
    scheduler: Scheduler, namespace: str | None, selector: str | None, now: str, in_full: int = 0
) -> PendingPods:
    """Report the pending pods of a namespace, and what else waits there. A `namespace` of None means all namespaces.

    Workloads that fail to create pods and objects that wait for other controllers are reported only without a
    `selector`. The first `in_full` kinds of pods are explained node by node. If no pod is pending, the report says how
    many are pending elsewhere.
    """
    cluster = scheduler.cluster
    pods = find_pending_pods(cluster, namespace, selector)
    # A workload without pods has no pod labels that a selector could match
    not_created = () if selector else CreationFailures(cluster, now).report_current_failures(namespace)
    report = group_pending_pods(
        scheduler, pods, describe_scope(namespace, selector), now, in_full, not_created=not_created
    )
    if not selector:
        report = add_objects_waiting_elsewhere(report, cluster, namespace, now)
        report = replace(report, unknown=merge_unknown_kinds((report.unknown, find_unread_kinds(cluster))))
    pending_elsewhere = 0 if pods else len(find_pending_pods(cluster, namespace=None))
    view = scheduler.view
    unready_nodes = tuple(view.nodes.names[row] for row in np.flatnonzero(find_unready_nodes(view)).tolist())
    return replace(report, elsewhere=pending_elsewhere, unready_nodes=unready_nodes)


def add_objects_waiting_elsewhere(
    report: PendingPods, cluster: Cluster, namespace: str | None, now: str
) -> PendingPods:
    """Add the objects whose pods kube-scheduler does not see yet, such as suspended Jobs.

    The report becomes undecided if something may wait, but nothing certainly waits.
    """
    waiting_objects = find_objects_waiting_elsewhere(cluster, namespace, now)
    unread_queues = find_unread_waiting_kinds(cluster)
    pods_certainly_wait = any(group.verdict not in FINE for group in report.groups) and not report.undecided
    certain = pods_certainly_wait or bool(report.not_created) or has_unadmitted(waiting_objects)
    doubtful = report.undecided or has_unchecked_objects(waiting_objects) or is_undecided(unread_queues)
    return replace(
        report,
        waiting_elsewhere=waiting_objects,
        unknown=merge_unknown_kinds((report.unknown, unread_queues)),
        undecided=doubtful and not certain,
    )


def _list_faults_with_pod(report: Explanation) -> list[str]:
    """Return the upstream bugs that a pod's explanation reports, each after the pod's key."""
    return [f"{report.pod}: {fault}" for fault in report.upstream_faults]


def group_pending_pods(
    scheduler: Scheduler,
    pods: Iterable[Pod],
    scope: str,
    now: str = "",
    in_full: int = 0,
    *,
    not_created: Sequence[NotCreated] = (),
) -> PendingPods:
    """Explain pods, and group them by cause. Groups that do not fit come first.

    Ages are computed as of the RFC 3339 time `now`; without it, there are no ages. Up to `in_full` kinds of pods are
    explained node by node, which takes most of the time. `not_created` has the workloads that fail to create pods.
    """
    pods = list(pods)
    explanations = explain_pods(scheduler, pods, in_full)
    reports = explanations.values()
    unread_pods = _find_unread_pods_doubt(scheduler)

    # A doubt does not matter if some pod certainly waits or could not be created
    is_doubtful = bool(unread_pods) or any(report.undecided for report in reports)
    is_certain = any(report.verdict not in FINE and not report.undecided for report in reports)
    return PendingPods(
        scope=scope,
        groups=_group_pods_by_cause(pods, explanations, now),
        not_created=tuple(not_created),
        not_replayed=merge_notes(report.not_replayed for report in reports),
        ignored=merge_notes(report.ignored for report in reports),
        extended=merge_notes(report.extended for report in reports),
        upstream_faults=merge_notes(map(_list_faults_with_pod, reports)),
        unknown=merge_unknown_kinds((*(report.unknown for report in reports), unread_pods)),
        undecided=is_doubtful and not (is_certain or not_created),
        explained=_group_pods_by_explanation(explanations)[:in_full],
    )


def explain_pods_by_node(scheduler: Scheduler, keys: Iterable[str], kinds: int) -> tuple[ExplainedPods, ...]:
    """Explain pods node by node, and return at most `kinds` distinct explanations with their pods.

    `keys` name the pods as `namespace/name`. Pods that the cluster does not have are left out. Pods that look the same
    to the scheduler share an explanation.
    """
    if not kinds:
        return ()
    pods = (scheduler.cluster.pod(*key.split("/", 1)) for key in keys)
    existing_pods = (pod for pod in pods if pod is not None)
    return _group_pods_by_explanation(explain_pods(scheduler, existing_pods, kinds))[:kinds]


def _find_unread_pods_doubt(scheduler: Scheduler) -> tuple[UnknownKind, ...]:
    """Return the doubt that further pods may be pending if not all pods were read, otherwise ()."""
    gap = scheduler.cluster.find_gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def _group_pods_by_explanation(explanations: Mapping[str, Explanation]) -> tuple[ExplainedPods, ...]:
    """Group the keys of the pods that share an explanation object. Explanations that are only equal stay apart."""
    keys_by_report_id: dict[int, list[str]] = {}
    for key, report in explanations.items():
        keys_by_report_id.setdefault(id(report), []).append(key)
    return tuple(ExplainedPods(tuple(keys), explanations[keys[0]]) for keys in keys_by_report_id.values())


def explain_pods(scheduler: Scheduler, pods: Iterable[Pod], in_full: int = 0) -> dict[str, Explanation]:
    """Explain pods, and return the explanations by `namespace/name`.

    Pods share an explanation if they look the same to the scheduler, like replicas, and have the same nominated node.
    If extenders are called, each pod has its own. Only the first `in_full` distinct explanations list the nodes. Pods
    that fit, or that wait for preempted pods to terminate, are replayed in the queue as well, and their explanations
    name the pods that would take their room first.
    """
    pods = list(pods)
    if not pods:
        return {}
    explanations = _explain_each_kind_of_pod(scheduler, pods, in_full)
    some_pod_fits = any(report.verdict == "Schedulable" for report in explanations.values())
    some_victim_terminates = any(
        report.preemption and report.preemption.terminating for report in explanations.values()
    )
    if some_pod_fits:
        from kschedctl.commands.explain.waiting import mention_rivals_and_next_nodes  # noqa: PLC0415 - only if pods fit

        explanations = mention_rivals_and_next_nodes(scheduler, explanations)
    if some_victim_terminates:
        from kschedctl.commands.explain.preempted_room import mention_rivals_of_pods  # noqa: PLC0415 - only while pods terminate

        explanations = mention_rivals_of_pods(scheduler, pods, explanations)
    return explanations


def _explain_each_kind_of_pod(scheduler: Scheduler, pods: Iterable[Pod], in_full: int) -> dict[str, Explanation]:
    """Run one scheduling cycle for each kind of pod, and return the explanations by `namespace/name`.

    Pods are of the same kind if they look the same to the scheduler and have the same nominated node. If extenders are
    called, each pod is a kind of its own. Only the first `in_full` kinds are explained node by node.
    """
    from kschedctl.commands.explain.cycle_report import drop_unwritten_message, explain_pod  # noqa: PLC0415 - only where pods are pending

    table = scheduler.view.pods
    calls_extenders = scheduler.call_extender is not None and bool(scheduler.extenders)
    explanation_by_kind: dict[tuple[int, str, str], Explanation] = {}
    explanations = {}
    for pod in pods:
        info_number = table.get_info_number(table.index[pod.key])  # equal for pods that look the same to the scheduler
        identity = pod.key if calls_extenders else ""  # to extenders no two pods are alike
        kind_of_pod = (info_number, pod.status.nominated_node_name, identity)
        if kind_of_pod not in explanation_by_kind:
            report = explain_pod(
                scheduler, scheduler.view.build_stored_pod(pod), nodes=len(explanation_by_kind) < in_full
            )
            # kube-scheduler writes no event for a gated pod, so its message is dropped
            explanation_by_kind[kind_of_pod] = drop_unwritten_message(report)
        explanations[pod.key] = explanation_by_kind[kind_of_pod]
    return explanations


def _group_pods_by_cause(
    pods: Iterable[Pod], explanations: Mapping[str, Explanation], now: str
) -> tuple[PendingGroup, ...]:
    """Group pods by verdict and shared cause, pods of higher priority first, then older ones.

    Groups that do not fit come before groups that fit, then groups with a pod of higher priority, then larger groups.
    """
    by_cause: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        report = explanations[pod.key]
        by_cause.setdefault((report.verdict, get_cause_for_grouping(report)), []).append(pod)
    groups = [
        _build_pending_group(sorted(pods_of_cause, key=_get_sort_key), explanations, now)
        for pods_of_cause in by_cause.values()
    ]
    return tuple(sorted(groups, key=lambda group: (group.verdict in FINE, -group.priority, -len(group.pods))))


def _build_pending_group(pods: list[Pod], explanations: Mapping[str, Explanation], now: str) -> PendingGroup:
    """Build the group of pods with the same cause. `pods` starts with the pod of highest priority.

    The group has a message only if all of its pods have the same one.
    """
    first_report = explanations[pods[0].key]
    messages = {explanations[pod.key].message for pod in pods}
    oldest_pod = min(pods, key=_get_age_sort_key)
    members = tuple(_build_pending_pod(pod, explanations[pod.key], now) for pod in pods)
    return PendingGroup(
        verdict=first_report.verdict,
        cause=get_cause_for_grouping(first_report),
        message=messages.pop() if len(messages) == 1 else None,
        pods=tuple(pod.key for pod in pods),
        age=format_age(oldest_pod.metadata.creation_timestamp or "", now),
        workloads=tuple(dict.fromkeys(member.workload for member in members)),
        members=members,
        priority=members[0].priority,
    )


def _get_sort_key(pod: Pod) -> tuple[int, bool, str]:
    """Return a sort key that puts pods of higher priority first, and then older pods."""
    return -(pod.spec.priority or 0), *_get_age_sort_key(pod)


def _get_age_sort_key(pod: Pod) -> tuple[bool, str]:
    """Return a sort key that puts the oldest pods first, and pods of unknown age last."""
    created = pod.metadata.creation_timestamp or ""
    return not created, created


def _build_pending_pod(pod: Pod, report: Explanation, now: str) -> PendingPod:
    """Build the list entry of a pending pod from its explanation."""
    created = pod.metadata.creation_timestamp or ""
    return PendingPod(
        pod.key,
        str(find_owner(pod)),
        headline=report.headline_with_preemption,
        message=report.message,
        created=created,
        age=format_age(created, now),
        priority=pod.spec.priority or 0,
        details=describe_details_besides_cause(report),
    )
