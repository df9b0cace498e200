"""Section "queues": Workloads of Kueue that wait long or have no nodes, and queues and flavors that do nothing.

`observations` finds them in the report of `kschedctl queues`, `report` has their structs, `page` shows the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.queues.observations import (
    find_starving_queues,
    find_unplaced_workloads,
    find_unused_flavors,
    list_inactive_queues,
    list_referenced_kinds,
    list_waiting_workloads,
)
from kschedctl.commands.audit.queues.report import (
    InactiveQueue,
    LongWaitingWorkload,
    QueuesSection,
    StarvingQueue,
    UnplacedWorkload,
    UnusedFlavor,
)
from kschedctl.commands.queues import queues
from kschedctl.commands.queues.report import KueueQueues
from kschedctl.errors import InputError
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.text.counts import agreeing, counted, first_few

TITLE = "Kueue's queues"
_DOCS = "https://kueue.sigs.k8s.io/docs/concepts"
_STOPPED = "Stopped"
"""Kueue's reason for a ClusterQueue whose stop policy is set."""
WAITING = AuditRule(
    "audit-queues-waiting",
    WARNING,
    "Workloads wait long for admission",
    "Their jobs stay suspended. kube-scheduler sees no pod of them, so that nothing is pending.",
    "Run queues to see who holds the quota that they need",
    f"{_DOCS}/workload/",
)
INACTIVE = AuditRule(
    "audit-queues-inactive",
    WARNING,
    "A ClusterQueue admits nothing",
    "It refers to an object that does not exist or is not ready: no Workload in it is admitted.",
    "Create the object that the message names, or correct the name",
    f"{_DOCS}/cluster_queue/",
)
STOPPED = AuditRule(
    "audit-queues-stopped",
    NOTE,
    "A ClusterQueue is stopped",
    "Its stop policy is set: no Workload in it is admitted until somebody removes it.",
    "Set spec.stopPolicy to None",
    f"{_DOCS}/cluster_queue/#stoppolicy",
)
STARVING = AuditRule(
    "audit-queues-starving",
    WARNING,
    "A ClusterQueue waits while others of its cohort borrow what it has quota for",
    "It borrows nothing itself. Its Workloads wait for those of the others to end unless it may reclaim the quota.",
    "Set preemption.reclaimWithinCohort of the waiting queue, or borrowingLimit of the others",
    f"{_DOCS}/preemption/",
)
UNUSED = AuditRule(
    "audit-queues-flavor-unused",
    NOTE,
    "No Workload uses a flavor",
    "The nodes of the flavor may be idle, or the flavor is left over.",
    "Give queues with waiting Workloads quota in it, or delete it",
    f"{_DOCS}/resource_flavor/",
)
UNPLACED = AuditRule(
    "audit-queues-unplaced",
    WARNING,
    "Pods of an admitted Workload have no node for long",
    "The Workload holds quota that its pods cannot use: the nodes of its flavors have no room for them.",
    "Run explain for the pods; lower the nominal quota to what the nodes have, or let Kueue wait for ready pods",
    "https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/",
)
RULES = (INACTIVE, WAITING, STARVING, UNPLACED, STOPPED, UNUSED)
_NEEDED_KINDS = ("ClusterQueue", "LocalQueue", "KueueWorkload", "ResourceFlavor")


def has_queues(audited: AuditedCluster) -> bool:
    """Return whether the cluster has ClusterQueues or Workloads of Kueue."""
    return bool(audited.cluster.cluster_queues or audited.cluster.kueue_workloads)


def build_queues_section(audited: AuditedCluster) -> QueuesSection:
    """Build the section about Kueue's queues. Without ClusterQueues and Workloads nothing is replayed."""
    unknown = [*audited.iter_unread_kinds(*_NEEDED_KINDS)]
    if not has_queues(audited):
        return QueuesSection(title=TITLE, headline="no ClusterQueues", **build_verdict(RULES, (), unknown))
    unknown += audited.iter_unread_kinds("Pod", *list_referenced_kinds(audited.cluster))
    try:
        report = queues(audited.cluster, now=audited.now)
    except InputError as error:
        unknown.append(UnknownKind("ClusterQueue", f"could not be replayed: {error.what}", VERDICT))
        report = KueueQueues()
    limit = audited.thresholds.queued_seconds
    waiting, inactive = list_waiting_workloads(audited, report), list_inactive_queues(audited.cluster, report)
    long_waiting = [w for w in waiting if (audited.seconds_since(w.since) or 0) > limit]
    oldest = {w.queue: w for w in reversed(long_waiting if audited.now else waiting)}
    starving, unused = find_starving_queues(report, oldest), find_unused_flavors(audited.cluster, report)
    unplaced = find_unplaced_workloads(audited, limit)
    if not audited.now and audited.cluster.kueue_workloads:
        unknown.append(NO_TIMES)
    findings = [
        *_iter_inactive_findings(inactive),
        *_iter_waiting_findings(long_waiting),
        *_iter_starving_findings(starving),
        *_iter_unplaced_findings(unplaced),
        *_iter_unused_findings(unused),
    ]
    return QueuesSection(
        title=TITLE,
        headline=_build_headline(report, waiting, inactive, unplaced),
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
    """Yield a finding for each ClusterQueue with Workloads that wait long, and for each Workload without a queue."""
    by_queue: dict[str, list[LongWaitingWorkload]] = {}
    for workload in long_waiting:
        if workload.queue:
            by_queue.setdefault(workload.queue, []).append(workload)
        else:
            message = f"waits for {workload.age}: {workload.why}"
            namespace = workload.workload.partition("/")[0]
            fix = "Create or correct what the message names"
            yield WAITING.build_finding(f"Workload {workload.workload}", message, fix, namespace=namespace)
    for queue, workloads in by_queue.items():
        first = workloads[0]
        waits = f"{counted(len(workloads), 'Workload')} {agreeing(len(workloads), 'waits', 'wait')} long"
        message = f"{waits}, {first.workload} for {first.age}: {first.why}"
        yield WAITING.build_finding(f"ClusterQueue {queue}", message)


def _iter_starving_findings(starving: Iterable[StarvingQueue]) -> Iterator[Finding]:
    """Yield a finding for each starving ClusterQueue."""
    for queue in starving:
        waits = f"{counted(queue.waiting, 'Workload')} {agreeing(queue.waiting, 'waits', 'wait')}"
        age = f", the oldest for {queue.age}" if queue.age else ""
        borrow = f"{first_few(queue.borrowers)} {agreeing(len(queue.borrowers), 'borrows', 'borrow')}"
        message = f"{waits}{age}, and it borrows nothing, while {borrow} from cohort {queue.cohort}"
        yield STARVING.build_finding(f"ClusterQueue {queue.queue}", message)


def _iter_unplaced_findings(unplaced: Iterable[UnplacedWorkload]) -> Iterator[Finding]:
    """Yield a finding for each admitted Workload that has pods without a node."""
    for workload in unplaced:
        have = agreeing(len(workload.pods), "has", "have")
        message = (
            f"admitted in ClusterQueue {workload.queue} {workload.age} ago, and {len(workload.pods):,} of "
            f"{counted(workload.count, 'pod')} {have} no node: {first_few(workload.pods)}"
        )
        namespace = workload.workload.partition("/")[0]
        yield UNPLACED.build_finding(f"Workload {workload.workload}", message, namespace=namespace)


def _iter_unused_findings(unused: Iterable[UnusedFlavor]) -> Iterator[Finding]:
    """Yield a finding for each flavor in which no Workload holds quota."""
    for flavor in unused:
        message = "no ClusterQueue has quota in it"
        if flavor.queues:
            has = agreeing(len(flavor.queues), "has", "have")
            message = f"{first_few(flavor.queues)} {has} quota in it, and no Workload holds any"
        yield UNUSED.build_finding(f"ResourceFlavor {flavor.flavor}", message)


def _build_headline(
    report: KueueQueues,
    waiting: Sequence[LongWaitingWorkload],
    inactive: Sequence[InactiveQueue],
    unplaced: Sequence[UnplacedWorkload],
) -> str:
    """Return what waits, the longest wait, and the numbers of inactive queues and of Workloads without nodes."""
    queue_count = counted(len(report.queues), "ClusterQueue")
    if not waiting:
        parts = [f"no Workload waits in {queue_count}"]
    else:
        age = f", {waiting[0].workload} for {waiting[0].age}" if waiting[0].age else ""
        waits = agreeing(len(waiting), "waits", "wait")
        parts = [f"{counted(len(waiting), 'Workload')} {waits} in {queue_count}{age}"]
    if inactive:
        parts.append(f"{len(inactive):,} {agreeing(len(inactive), 'queue admits', 'queues admit')} nothing")
    if unplaced:
        verb = agreeing(len(unplaced), "admitted Workload has", "admitted Workloads have")
        parts.append(f"{len(unplaced):,} {verb} pods without a node")
    return "; ".join(parts)
