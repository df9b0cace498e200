"""Section "queues": Workloads of Kueue that wait long or have no nodes, and queues and flavors that do nothing.

They are found in the report of `kschedctl queues` and in the cluster. `report` has their structs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.api.quantity import parse_quantity
from kschedctl.api.queueing import KueueWorkload
from kschedctl.api.times import format_age
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.queues.report import (
    InactiveQueue,
    LongWaitingWorkload,
    QueuesSection,
    StarvingQueue,
    UnplacedWorkload,
    UnusedFlavor,
)
from kschedctl.commands.queues import queues
from kschedctl.commands.queues.report import ClusterQueueState, KueueQueues
from kschedctl.errors import InputError
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.waiting_elsewhere.entries import find_condition, is_condition_true
from kschedctl.replay.waiting_elsewhere.kueue import (
    ADMITTED,
    FINISHED,
    WaitingQueues,
    find_quota_owner,
    find_wait_reason,
    is_waiting,
)
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.text.counts import agreeing, counted, first_few, spell_age

TITLE = "Kueue's queues"
_DOCS = "https://kueue.sigs.k8s.io/docs/concepts"
_STOPPED = "Stopped"
"""Kueue's reason for a ClusterQueue whose stop policy is set."""
WAITING = AuditRule(
    "audit-queues-waiting",
    WARNING,
    "Workloads wait long for admission",
    "Their jobs stay suspended, so kube-scheduler sees none of their pods and nothing is pending.",
    "Run queues to see who holds the quota that they need",
    f"{_DOCS}/workload/",
)
INACTIVE = AuditRule(
    "audit-queues-inactive",
    WARNING,
    "A ClusterQueue admits nothing",
    "It refers to an object that does not exist or is not ready, so none of its Workloads is admitted.",
    "Create the object that the message names, or correct the name",
    f"{_DOCS}/cluster_queue/",
)
STOPPED = AuditRule(
    "audit-queues-stopped",
    NOTE,
    "A ClusterQueue is stopped",
    "Its stop policy is set. None of its Workloads is admitted until the policy is removed.",
    "Set spec.stopPolicy to None",
    f"{_DOCS}/cluster_queue/#stoppolicy",
)
STARVING = AuditRule(
    "audit-queues-starving",
    WARNING,
    "A ClusterQueue waits although others of its cohort borrow its quota",
    "It borrows nothing itself. Unless it may reclaim the quota, its Workloads wait until those of the other queues "
    "end.",
    "Set preemption.reclaimWithinCohort in the waiting queue, or borrowingLimit in the others",
    f"{_DOCS}/preemption/",
)
UNUSED = AuditRule(
    "audit-queues-flavor-unused",
    NOTE,
    "A flavor that no Workload uses",
    "The nodes of the flavor may be idle, or the flavor may be obsolete.",
    "Give queues with waiting Workloads quota in the flavor, or delete the flavor",
    f"{_DOCS}/resource_flavor/",
)
UNPLACED = AuditRule(
    "audit-queues-unplaced",
    WARNING,
    "Pods of an admitted Workload stay without a node",
    "The Workload holds quota that its pods cannot use: the nodes of its flavors have no room for them.",
    "Lower the nominal quota to what the nodes have, or enable waitForPodsReady in Kueue (explain says why the pods "
    "do not fit)",
    "https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/",
)
RULES = (INACTIVE, WAITING, STARVING, UNPLACED, STOPPED, UNUSED)
_NEEDED_KINDS = ("ClusterQueue", "LocalQueue", "KueueWorkload", "ResourceFlavor")
_EVICTED = "Evicted"
_KIND_BY_REASON = {
    "FlavorNotFound": "ResourceFlavor",
    "AdmissionCheckNotFound": "AdmissionCheck",
    "TopologyNotFound": "Topology",
}
"""The kind whose missing object makes a ClusterQueue inactive, by Kueue's reason."""
_MAX_OWNERS = 4
"""The longest chain of controllers that is followed."""


def has_queues(audited: AuditedCluster) -> bool:
    """Return whether the cluster has ClusterQueues or Workloads of Kueue."""
    return bool(audited.cluster.cluster_queues or audited.cluster.kueue_workloads)


def build_queues_section(audited: AuditedCluster) -> QueuesSection:
    """Build the section about Kueue's queues.

    Without ClusterQueues and Workloads, or if Kueue's replay fails, the section says so.
    """
    unknown = [*audited.iter_unread_kinds(*_NEEDED_KINDS)]
    if not has_queues(audited):
        return QueuesSection(title=TITLE, headline="no ClusterQueues", **build_verdict(RULES, (), unknown))
    unknown += audited.iter_unread_kinds("Pod", *list_referenced_kinds(audited.cluster))
    try:
        report = queues(audited.cluster, now=audited.now)
    except InputError as error:
        unknown.append(UnknownKind("ClusterQueue", f"could not be replayed: {error.what}", VERDICT))
        report = KueueQueues()
    if not audited.now and audited.cluster.kueue_workloads:
        unknown.append(NO_TIMES)

    limit = audited.thresholds.queued_seconds
    waiting = list_waiting_workloads(audited, report)
    long_waiting = [workload for workload in waiting if (audited.measure_seconds_since(workload.since) or 0) > limit]
    inactive = list_inactive_queues(audited.cluster, report)

    # A queue can only starve if Workloads wait long in it. Without the cluster's time, all waiting Workloads count.
    longest_first = long_waiting if audited.now else waiting
    oldest_by_queue: dict[str, LongWaitingWorkload] = {}
    for workload in longest_first:
        oldest_by_queue.setdefault(workload.queue, workload)
    starving = find_starving_queues(report, oldest_by_queue)
    unused = find_unused_flavors(audited.cluster, report)
    unplaced = find_unplaced_workloads(audited, limit)

    findings = [
        *_iter_inactive_findings(inactive),
        *_iter_waiting_findings(long_waiting),
        *_iter_starving_findings(starving, audited.ages_note),
        *_iter_unplaced_findings(unplaced),
        *_iter_unused_flavor_findings(unused),
    ]
    return QueuesSection(
        title=TITLE,
        headline=_build_headline(report, waiting, inactive, unplaced, audited.ages_note),
        waiting=tuple(waiting),
        inactive=tuple(inactive),
        starving=tuple(starving),
        unused=tuple(unused),
        unplaced=tuple(unplaced),
        **build_verdict(RULES, findings, unknown),
    )


def _iter_inactive_findings(inactive: Iterable[InactiveQueue]) -> Iterator[Finding]:
    """Yield a finding for each ClusterQueue that admits nothing."""
    for queue in inactive:
        rule = STOPPED if queue.reason == _STOPPED else INACTIVE
        waits = agreeing(queue.waiting, "waits", "wait")
        suffix = f"; {counted(queue.waiting, 'Workload')} {waits} in it" if queue.waiting else ""
        yield rule.build_finding(f"ClusterQueue {queue.queue}", f"{queue.message.rstrip('.')}{suffix}")


def _iter_waiting_findings(long_waiting: Iterable[LongWaitingWorkload]) -> Iterator[Finding]:
    """Yield a finding for each ClusterQueue with Workloads that wait long.

    Each long-waiting Workload without a queue has a finding of its own.
    """
    by_queue: dict[str, list[LongWaitingWorkload]] = {}
    for workload in long_waiting:
        if workload.queue:
            by_queue.setdefault(workload.queue, []).append(workload)
        else:
            message = f"pending for {spell_age(workload.age)}: {workload.why}"
            namespace, _, _ = workload.workload.partition("/")
            fix = "Create or correct the object that the message names"
            yield WAITING.build_finding(f"Workload {workload.workload}", message, fix, namespace=namespace)
    for queue, workloads in by_queue.items():
        first = workloads[0]
        waiting_text = f"{counted(len(workloads), 'Workload')} {agreeing(len(workloads), 'waits', 'wait')} long"
        message = f"{waiting_text}, {first.workload} for {spell_age(first.age)}: {first.why}"
        yield WAITING.build_finding(f"ClusterQueue {queue}", message)


def _iter_starving_findings(starving: Iterable[StarvingQueue], ages_note: str) -> Iterator[Finding]:
    """Yield a finding for each starving ClusterQueue, with the queues of its cohort that borrow while it waits.

    `ages_note` ends the clause with the age.
    """
    for queue in starving:
        waiting_text = f"{counted(queue.waiting, 'Workload')} {agreeing(queue.waiting, 'waits', 'wait')}"
        age_text = f", the oldest for {spell_age(queue.age)}{ages_note}" if queue.age else ""
        others_text = f"{first_few(queue.borrowers)} {agreeing(len(queue.borrowers), 'borrows', 'borrow')}"
        message = (
            f"{waiting_text}{age_text}, and the queue borrows nothing, while {others_text} from cohort {queue.cohort}"
        )
        yield STARVING.build_finding(f"ClusterQueue {queue.queue}", message)


def _iter_unplaced_findings(unplaced: Iterable[UnplacedWorkload]) -> Iterator[Finding]:
    """Yield a finding for each admitted Workload that has pods without a node."""
    for workload in unplaced:
        admitted_text = f"admitted in ClusterQueue {workload.queue} {spell_age(workload.age)} ago"
        have = agreeing(len(workload.pods), "has", "have")
        pods_text = f"{len(workload.pods):,} of {counted(workload.count, 'pod')} {have} no node"
        message = f"{admitted_text}, and {pods_text}: {first_few(workload.pods)}"
        namespace, _, _ = workload.workload.partition("/")
        yield UNPLACED.build_finding(f"Workload {workload.workload}", message, namespace=namespace)


def _iter_unused_flavor_findings(unused: Iterable[UnusedFlavor]) -> Iterator[Finding]:
    """Yield a finding for each unused flavor: no ClusterQueue has quota in it, or no Workload holds this quota."""
    for flavor in unused:
        message = "no ClusterQueue has quota in it"
        if flavor.queues:
            has = agreeing(len(flavor.queues), "has", "have")
            message = f"{first_few(flavor.queues)} {has} quota in it, but no Workload holds any"
        yield UNUSED.build_finding(f"ResourceFlavor {flavor.flavor}", message)


def _build_headline(
    report: KueueQueues,
    waiting: Sequence[LongWaitingWorkload],
    inactive: Sequence[InactiveQueue],
    unplaced: Sequence[UnplacedWorkload],
    ages_note: str,
) -> str:
    """Summarize the waiting Workloads with the longest wait, the inactive queues, and the Workloads without nodes.

    `ages_note` ends the clause with the longest wait.
    """
    queue_count = counted(len(report.queues), "ClusterQueue")
    if not waiting:
        parts = [f"no Workload waits in {queue_count}"]
    else:
        oldest = waiting[0]
        age_text = f", {oldest.workload} for {spell_age(oldest.age)}{ages_note}" if oldest.age else ""
        verb = agreeing(len(waiting), "waits", "wait")
        parts = [f"{counted(len(waiting), 'Workload')} {verb} in {queue_count}{age_text}"]
    if inactive:
        parts.append(f"{len(inactive):,} {agreeing(len(inactive), 'queue admits', 'queues admit')} nothing")
    if unplaced:
        verb = agreeing(len(unplaced), "admitted Workload has", "admitted Workloads have")
        parts.append(f"{len(unplaced):,} {verb} pods without a node")
    return "; ".join(parts)


# -- what is found -----------------------------------------------------------------------------------------------------


def list_waiting_workloads(audited: AuditedCluster, report: KueueQueues) -> list[LongWaitingWorkload]:
    """Return the Workloads that are neither admitted nor deactivated, the longest waiting first.

    Their queue and reason come from the replay. For a Workload that was not replayed, they come from its quota
    reservation, if any, and its status.
    """
    replayed = {workload.workload: workload for workload in report.waiting}
    without_replay = WaitingQueues(audited.cluster, outlook=None)
    waiting = []
    for workload in audited.cluster.kueue_workloads:
        if not is_waiting(workload) or workload.spec.active is False:
            continue
        key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        if key in replayed:
            queue, reason = replayed[key].queue, replayed[key].waits
        else:
            admission = workload.status.admission
            queue = admission.cluster_queue if admission else ""
            reason = find_wait_reason(workload, without_replay).headline
        since = _find_waiting_since(workload)
        age = format_age(since, audited.ages_end)
        waiting.append(LongWaitingWorkload(workload=key, queue=queue, since=since, age=age, why=reason))
    return sorted(waiting, key=lambda entry: (entry.since, entry.workload))


def _find_waiting_since(workload: KueueWorkload) -> str:
    """Return the time since which a Workload waits: its last eviction, otherwise its creation, or "" if unknown."""
    evicted = find_condition(workload.status.conditions, _EVICTED)
    if evicted and evicted.last_transition_time:
        return evicted.last_transition_time
    return workload.metadata.creation_timestamp or ""


def list_referenced_kinds(cluster: Cluster) -> list[str]:
    """Return the kinds among Cohort, AdmissionCheck and Topology to which the cluster's objects refer.

    These kinds of Kueue are optional: if nothing refers to a kind, it does not matter that it was not read.
    """
    specs = [queue.spec for queue in cluster.cluster_queues]
    is_kind_referenced = {
        "Cohort": any(spec.cohort or spec.cohort_name for spec in specs),
        "AdmissionCheck": any(spec.admission_checks or spec.admission_checks_strategy for spec in specs),
        "Topology": any(flavor.spec.topology_name for flavor in cluster.resource_flavors),
    }
    return [kind for kind, is_referenced in is_kind_referenced.items() if is_referenced]


def list_inactive_queues(cluster: Cluster, report: KueueQueues) -> list[InactiveQueue]:
    """Return the ClusterQueues that admit nothing.

    A queue is left out if its reason is a missing object of a kind that was not read, because the object may exist.
    """
    return [
        InactiveQueue(queue=state.queue, reason=state.reason, message=state.message, waiting=state.waiting)
        for state in report.queues
        if not state.active and not cluster.find_gap(_KIND_BY_REASON.get(state.reason, ""))
    ]


def find_starving_queues(
    report: KueueQueues, oldest_by_queue: Mapping[str, LongWaitingWorkload]
) -> list[StarvingQueue]:
    """Return the active ClusterQueues that borrow nothing and have waiting Workloads while another queue borrows.

    The other queue is in the same cohort, and it borrows a resource of a flavor for which the starving queue has quota.
    `oldest_by_queue` has the longest-waiting Workload of each ClusterQueue in which Workloads wait. The weights of fair
    sharing do not matter, because a queue that borrows nothing has a share of 0.
    """
    # The pairs of a flavor and a resource for which each ClusterQueue has quota, and those that it borrows
    nominal_by_queue: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    borrowed_by_queue: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for quota in report.quotas:
        flavor_resource = quota.flavor, quota.resource
        if _is_positive(quota.nominal):
            nominal_by_queue[quota.queue].add(flavor_resource)
        if _is_positive(quota.borrowed):
            borrowed_by_queue[quota.queue].add(flavor_resource)

    starving = []
    for cohort, members in _group_queues_by_root_cohort(report.queues).items():
        for state in members:
            if state.queue not in oldest_by_queue or borrowed_by_queue[state.queue]:
                continue
            nominal = nominal_by_queue[state.queue]
            borrowers = [member.queue for member in members if nominal & borrowed_by_queue[member.queue]]
            if borrowers:
                starving.append(
                    StarvingQueue(
                        queue=state.queue,
                        cohort=cohort,
                        waiting=state.waiting,
                        age=oldest_by_queue[state.queue].age,
                        borrowers=tuple(sorted(borrowers)),
                    )
                )
    return starving


def _group_queues_by_root_cohort(queues: Iterable[ClusterQueueState]) -> dict[str, list[ClusterQueueState]]:
    """Group the active ClusterQueues by their root cohort. Queues without a cohort are left out."""
    cohorts: dict[str, list[ClusterQueueState]] = {}
    for state in queues:
        if state.cohort and state.active:
            root, _, _ = state.cohort.partition("/")
            cohorts.setdefault(root, []).append(state)
    return cohorts


def find_unused_flavors(cluster: Cluster, report: KueueQueues) -> list[UnusedFlavor]:
    """Return the ResourceFlavors in which no quota is reserved, with the ClusterQueues that have quota in them."""
    cluster_queues = {state.queue for state in report.queues}
    used_flavors = set()
    queues_by_flavor: defaultdict[str, dict[str, None]] = defaultdict(dict)  # the keys are an ordered set of queues
    for quota in report.quotas:
        if quota.queue in cluster_queues:  # the other quotas belong to cohorts
            queues_by_flavor[quota.flavor][quota.queue] = None
            if _is_positive(quota.reserved):
                used_flavors.add(quota.flavor)
    flavors = [flavor.metadata.name for flavor in cluster.resource_flavors]
    return [
        UnusedFlavor(flavor=flavor, queues=tuple(queues_by_flavor[flavor]))
        for flavor in flavors
        if flavor not in used_flavors
    ]


def _is_positive(quantity: str) -> bool:
    """Return whether a formatted amount is above zero. An empty one is not."""
    return quantity != "" and parse_quantity(quantity).mantissa > 0


def find_unplaced_workloads(audited: AuditedCluster, min_seconds: float) -> list[UnplacedWorkload]:
    """Return the Workloads that were admitted more than `min_seconds` ago and still have pods without a node.

    The oldest admission comes first. The list is empty if the cluster's time is unknown.
    """
    long_admitted = list(_iter_long_admitted_workloads(audited, min_seconds))
    if not long_admitted:
        return []
    pods_by_owner = _group_unbound_pods(audited.cluster)
    unplaced = []
    for since, workload in long_admitted:
        owners = _list_owners_of_workload(workload, audited.cluster)
        pods = {pod for owner in owners for pod in pods_by_owner.get(owner, ())}
        admission = workload.status.admission
        if pods and admission is not None:
            unplaced.append(
                UnplacedWorkload(
                    workload=f"{workload.metadata.namespace}/{workload.metadata.name}",
                    queue=admission.cluster_queue,
                    since=since,
                    age=format_age(since, audited.now),
                    pods=tuple(sorted(pods)),
                    count=_count_admitted_pods(workload),
                )
            )
    return sorted(unplaced, key=lambda entry: (entry.since, entry.workload))


def _iter_long_admitted_workloads(audited: AuditedCluster, min_seconds: float) -> Iterator[tuple[str, KueueWorkload]]:
    """Yield the Workloads that were admitted more than `min_seconds` ago, each after the time of its admission.

    Finished Workloads are left out. Nothing is yielded if the cluster's time is unknown.
    """
    for workload in audited.cluster.kueue_workloads:
        conditions = workload.status.conditions
        admitted = find_condition(conditions, ADMITTED)
        if admitted is None or admitted.status != "True" or is_condition_true(conditions, FINISHED):
            continue
        seconds = audited.measure_seconds_since(admitted.last_transition_time)
        if seconds is not None and seconds > min_seconds:
            yield admitted.last_transition_time or "", workload


def _count_admitted_pods(workload: KueueWorkload) -> int:
    """Return the number of pods with which a Workload was admitted.

    Partial admission may have reduced the requested number.
    """
    count_by_pod_set = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    assignments = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    count_by_pod_set |= {assigned.name: assigned.count for assigned in assignments if assigned.count is not None}
    return sum(count_by_pod_set.values())


def _list_owners_of_workload(workload: KueueWorkload, cluster: Cluster) -> list[Owner]:
    """Return the objects for which a Workload requests quota: a job, or the pods of a group.

    These are the Workload's owners or, if it has none, the job that a label names. The list may be empty.
    """
    meta = workload.metadata
    owners = [Owner(reference.kind, meta.namespace, reference.name) for reference in meta.owner_references]
    if owners:
        return owners
    job = find_quota_owner(workload, cluster)
    return [] if job is None else [job]


def _group_unbound_pods(cluster: Cluster) -> dict[Owner, list[str]]:
    """Return the keys of the pods without a node, grouped by the pod itself and by each controller above the pod.

    A pod is in several groups. Pods that have ended or are being deleted are left out.
    """
    controllers = _find_controllers_of_workloads(cluster)
    groups: dict[Owner, list[str]] = {}
    for pod in cluster.unbound_pods():
        if pod.terminated or pod.metadata.deletion_timestamp is not None:
            continue
        for owner in _iter_pod_and_owners(pod, controllers):
            groups.setdefault(owner, []).append(pod.key)
    return groups


def _find_controllers_of_workloads(cluster: Cluster) -> dict[Owner, Owner]:
    """Return the controller of each Job and StatefulSet that has one.

    Jobs and StatefulSets own pods, and may be owned by other workloads themselves.
    """
    metadata_by_kind = {
        "Job": [job.metadata for job in cluster.jobs],
        "StatefulSet": [stateful_set.metadata for stateful_set in cluster.stateful_sets],
    }
    controllers = {}
    for kind, metadata in metadata_by_kind.items():
        for meta in metadata:
            controller = find_controller(meta)
            if controller is not None:
                owned = Owner(kind, meta.namespace, meta.name)
                controllers[owned] = Owner(controller.kind, meta.namespace, controller.name)
    return controllers


def _iter_pod_and_owners(pod: Pod, controllers: Mapping[Owner, Owner]) -> Iterator[Owner]:
    """Yield the pod itself, then its controller, the controller of this controller, and so on.

    At most `_MAX_OWNERS` controllers are yielded, so that cycles end.
    """
    itself = Owner("Pod", pod.metadata.namespace, pod.metadata.name)
    yield itself
    owner = find_owner(pod)  # the pod itself if it has no controller
    for _ in range(_MAX_OWNERS):
        if owner != itself:
            yield owner
        if owner not in controllers:
            return
        owner = controllers[owner]
