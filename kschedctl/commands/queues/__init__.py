"""The command `queues`: who holds the quota of Kueue's queues, and who waits for it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kschedctl.api.queueing import KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.commands.queues.report import (
    ClusterQueueState,
    CohortState,
    KueueQueues,
    QueuedWorkload,
    QuotaUsage,
)
from kschedctl.errors import InputError
from kschedctl.kueue.amounts import (
    FlavorResource,
    Usage,
    add_amounts,
    format_amount,
    format_quota,
    subtract_amounts,
)
from kschedctl.kueue.cluster_queues import CachedQueue
from kschedctl.kueue.installation import KueueInstallation, detect_installation, iter_unreplayed_features
from kschedctl.kueue.outlook import NEEDED_KINDS, WorkloadOutlook, predict_outlook, start_replay
from kschedctl.kueue.quota_tree import CohortNode, QuotaNode
from kschedctl.kueue.replay import KueueReplay, render_share
from kschedctl.replay.waiting_elsewhere.kueue import WaitingQueues, WaitReason, find_wait_reason, is_waiting, parse_time
from kschedctl.reports.unknown import VERDICT, UnknownKind

_MOST_HOLDERS = 5


def queues(
    cluster: Cluster,
    names: Sequence[str] = (),
    *,
    now: str = "",
    installation: KueueInstallation | None = None,
) -> KueueQueues:
    """Report Kueue's ClusterQueues and cohorts with their quota, and why each waiting Workload waits.

    `names` are the ClusterQueues or cohorts to report on; without names, the report covers all. `now` is an RFC 3339
    time and defaults to the current time. `installation` is the Kueue to replay and defaults to the cluster's. Raises
    InputError if a name is unknown or ``now`` is invalid.

    >>> str(queues(Cluster.from_objects([], assume_complete=True), now="2026-01-01T00:00:00Z"))
    'The cluster has no ClusterQueues'
    """
    installation = installation or detect_installation(cluster)
    replay = start_replay(cluster, parse_time(now), installation)
    selected = _select_cluster_queues(replay, names)
    quotas = tuple(_iter_quotas(replay, selected))
    states = tuple(_build_queue_state(replay, name) for name in selected)
    cohorts = tuple(_build_cohort_state(replay, cohort) for cohort in _list_cohorts(replay, selected))
    outlook = predict_outlook(replay)
    selected_queues = frozenset(selected) if names else None  # None selects the Workloads of all queues
    waiting = _report_waiting_workloads(cluster, WaitingQueues(cluster, outlook), selected_queues)
    unknown = _list_unread_kueue_kinds(cluster)
    doubts = (
        *(doubt for doubt in (installation.doubt, outlook.doubt) if doubt),
        *iter_unreplayed_features(cluster.kueue_workloads),
    )
    return KueueQueues(
        queues=states,
        cohorts=cohorts,
        quotas=quotas,
        waiting=waiting,
        release=installation.release.value,
        problems=tuple(replay.cache.problems),
        doubts=doubts,
        unknown=unknown,
        undecided=bool(unknown or doubts or replay.cache.problems),
    )


def _list_unread_kueue_kinds(cluster: Cluster) -> tuple[UnknownKind, ...]:
    """Return the kinds that Kueue reads but that could not be read from the cluster.

    Kinds that were not requested are left out, except for ClusterQueue if the cluster has no ClusterQueues to report
    on.
    """
    gaps = ((kind, cluster.find_gap(kind)) for kind in NEEDED_KINDS)
    return tuple(
        UnknownKind(kind, gap.why, VERDICT)
        for kind, gap in gaps
        if gap is not None and (not gap.is_unrequested or (kind == "ClusterQueue" and not cluster.cluster_queues))
    )


def _select_cluster_queues(replay: KueueReplay, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the ClusterQueues to report on, sorted by cohort path and name.

    ``names`` are names of ClusterQueues or cohorts. A cohort stands for all ClusterQueues below it. Without names, all
    ClusterQueues are returned. Raises InputError if a name is unknown.
    """
    cached = replay.cache.queues
    selected = set(cached) if not names else set[str]()
    for name in names:
        cohort = replay.cache.cohorts.get(name)
        if name not in cached and cohort is None:
            raise InputError(f"there is no ClusterQueue or cohort {name}")
        if name in cached:
            selected.add(name)
        if cohort is not None:
            selected |= {queue.name for queue in cohort.iter_queues()}
    return tuple(sorted(selected, key=lambda name: (_get_cohort_path(replay, cached[name].node), name)))


def _get_cohort_path(replay: KueueReplay, node: QuotaNode) -> str:
    """Return the names of the cohorts above a queue, from the root down, joined by slashes.

    If the cohorts form a cycle, only the nearest one is returned. Return "" for a queue without a cohort.
    """
    if node.parent is None:
        return ""
    if node.parent.name in replay.cache.cohorts_with_cyclic_parents:
        return node.parent.name
    return "/".join(reversed([cohort.name for cohort in node.iter_ancestors()]))


def _list_cohorts(replay: KueueReplay, queue_names: Iterable[str]) -> list[CohortNode]:
    """Return the cohorts above the named ClusterQueues, sorted by name. Cohorts in a cycle are left out."""
    cohorts: dict[str, CohortNode] = {}
    for name in queue_names:
        node = replay.cache.queues[name].node
        is_in_cycle = node.parent is not None and node.parent.name in replay.cache.cohorts_with_cyclic_parents
        if not is_in_cycle:
            cohorts |= {cohort.name: cohort for cohort in node.iter_ancestors()}
    return [cohorts[name] for name in sorted(cohorts)]


def _build_queue_state(replay: KueueReplay, name: str) -> ClusterQueueState:
    """Build the report on a ClusterQueue: its Workloads, its share and its LocalQueues, and why it is inactive.

    The reason and message are empty for an active queue, and so is the share without fair sharing.
    """
    queue, pending = replay.cache.queues[name], replay.queues.pending[name]
    is_active, readiness = replay.cache.is_queue_active(name), queue.readiness
    local_queues = sorted(replay.queues.local_queues.items())
    return ClusterQueueState(
        queue=name,
        cohort=_get_cohort_path(replay, queue.node),
        active=is_active,
        waiting=len(pending.active) + len(pending.inadmissible),
        reserving=len(queue.workloads),
        admitted=queue.admitted_count,
        share=render_share(queue.node) if replay.has_fair_sharing else "",
        local_queues=tuple(key for key, local in local_queues if local.spec.cluster_queue == name),
        reason="" if is_active else readiness.reason,
        message="" if is_active else _describe_inactivity(replay, queue),
    )


def _describe_inactivity(replay: KueueReplay, queue: CachedQueue) -> str:
    """Describe why an inactive ClusterQueue admits nothing."""
    parent = queue.node.parent
    if parent is not None and parent.name in replay.cache.cohorts_with_cyclic_parents:
        return f"the parents of cohort {parent.name} form a cycle"
    return queue.readiness.message


def _build_cohort_state(replay: KueueReplay, cohort: CohortNode) -> CohortState:
    """Build the report on a cohort: its parent, its ClusterQueues in alphabetical order, and its fair share.

    The parent of a root is empty. The share is empty without fair sharing, or if the cohort is a root.
    """
    return CohortState(
        cohort=cohort.name,
        parent=cohort.parent.name if cohort.parent is not None else "",
        queues=tuple(sorted(queue.name for queue in cohort.queues)),
        share=render_share(cohort) if replay.has_fair_sharing and cohort.parent is not None else "",
    )


def _iter_quotas(replay: KueueReplay, queue_names: Sequence[str]) -> Iterator[QuotaUsage]:
    """Yield the quotas of the named ClusterQueues in the given order, then the quotas of their cohorts."""
    cached = replay.cache.queues
    for name in queue_names:
        queue = cached[name]
        for key in queue.settings.quotas:
            free = _render_free_amount(queue.node, key) if replay.cache.is_queue_active(name) else ""
            reserved, admitted = queue.node.get_usage(key), queue.admitted_usage.get(key, 0)
            yield _build_quota_usage(name, queue.node, key, reserved, admitted, free=free)
    for cohort in _list_cohorts(replay, queue_names):
        nodes = list(cohort.iter_queues())
        reserved_by_key = _sum_usage(node.usage for node in nodes)
        admitted_by_key = _sum_usage(cached[node.name].admitted_usage for node in nodes)
        for key in sorted(cohort.subtree_quota):
            yield _build_quota_usage(
                f"Cohort {cohort.name}",
                cohort,
                key,
                reserved=reserved_by_key.get(key, 0),
                admitted=admitted_by_key.get(key, 0),
                free=_render_free_amount(cohort, key),
                lent=format_amount(key.resource, _sum_borrowed_amounts(cohort, key)),
            )


def _sum_usage(usages: Iterable[Usage]) -> Usage:
    """Add up several usages by flavor and resource."""
    total: Usage = {}
    for usage in usages:
        for key, amount in usage.items():
            total[key] = add_amounts(total.get(key, 0), amount)
    return total


def _sum_borrowed_amounts(cohort: CohortNode, key: FlavorResource) -> int:
    """Return how much of a resource the nodes directly below a cohort use beyond their own quotas."""
    borrowed = 0
    for child in (*cohort.cohorts, *cohort.queues):
        borrowed = add_amounts(borrowed, _compute_borrowed_amount(child, key))
    return borrowed


def _compute_borrowed_amount(node: QuotaNode, key: FlavorResource) -> int:
    """Return how much a ClusterQueue or cohort uses beyond its own quota. A node without a parent borrows nothing."""
    return 0 if node.parent is None else max(0, subtract_amounts(node.get_usage(key), node.subtree_quota.get(key, 0)))


def _render_free_amount(node: QuotaNode, key: FlavorResource) -> str:
    """Return as text how much more a ClusterQueue or cohort can use."""
    return format_quota(key.resource, max(0, node.compute_available_quota(key)))


def _build_quota_usage(
    title: str, node: QuotaNode, key: FlavorResource, reserved: int, admitted: int, *, free: str, lent: str = ""
) -> QuotaUsage:
    """Build the report on the quota of a ClusterQueue or cohort for one flavor and resource.

    ``free`` and ``lent`` are amounts in words.
    """
    quota = node.get_quota(key)
    resource = key.resource
    return QuotaUsage(
        queue=title,
        flavor=key.flavor,
        resource=resource,
        nominal=format_amount(resource, node.subtree_quota.get(key, 0)),
        reserved=format_amount(resource, reserved),
        admitted=format_amount(resource, admitted),
        borrowed=format_amount(resource, _compute_borrowed_amount(node, key)),
        lent=lent,
        free=free,
        borrowing_limit="" if quota.borrowing_limit is None else format_amount(resource, quota.borrowing_limit),
        lending_limit="" if quota.lending_limit is None else format_amount(resource, quota.lending_limit),
    )


def _report_waiting_workloads(
    cluster: Cluster, waiting_queues: WaitingQueues, selected: frozenset[str] | None
) -> tuple[QueuedWorkload, ...]:
    """Build reports on the Workloads that wait for quota, sorted by queue and by place in the queue.

    Only Workloads of the ``selected`` ClusterQueues are reported, or all if this is None. Workloads without an outlook
    are left out.
    """
    outlook = waiting_queues.outlook
    reports = []
    for workload in cluster.kueue_workloads:
        key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        workload_outlook = outlook.workloads.get(key) if outlook is not None else None
        if workload_outlook is None or not is_waiting(workload):
            continue
        queue = workload_outlook.position.cluster_queue if workload_outlook.position is not None else ""
        if selected is not None and queue not in selected:
            continue
        reason = find_wait_reason(workload, waiting_queues)
        reports.append(_build_queued_workload(workload, queue, workload_outlook, reason))
    return tuple(sorted(reports, key=lambda report: (report.queue, report.place or 0, report.workload)))


def _build_queued_workload(
    workload: KueueWorkload, queue: str, outlook: WorkloadOutlook, reason: WaitReason
) -> QueuedWorkload:
    """Build the report on a Workload that waits in the ClusterQueue `queue`, or in none if this is "".

    The report has a column for the queue, so the reason why the Workload waits does not name the queue again.
    """
    names_other_queue = reason.queue not in ("", queue)
    return QueuedWorkload(
        queue=queue,
        place=outlook.position.place if outlook.position is not None else None,
        workload=f"{workload.metadata.namespace}/{workload.metadata.name}",
        priority=outlook.priority,
        pods=sum(pod_set.count for pod_set in workload.spec.pod_sets),
        waits=reason.headline if names_other_queue or not reason.cause else reason.cause,
        flavors=_list_flavors(outlook),
        victims=tuple(outlook.victims),
        holders=tuple(reason.holders)[:_MOST_HOLDERS],
        message=outlook.message,
    )


def _list_flavors(outlook: WorkloadOutlook) -> tuple[str, ...]:
    """Return the flavors in which a Workload would be admitted."""
    pod_sets = outlook.admission.pod_sets if outlook.admission is not None else ()
    return tuple(dict.fromkeys(flavor for pod_set in pod_sets for flavor in pod_set.flavors.values()))
