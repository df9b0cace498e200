"""What no scheduler ever sees: pods that workloads want and that the API server refuses to create."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.creation.report import CreationSection
from kschedctl.replay.audit_rules import ERROR, AuditRule, build_verdict
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.reports.findings import Finding
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.text.counts import counted

REFUSED = AuditRule(
    "audit-creation-refused",
    ERROR,
    "A workload lacks pods that the API server refuses to create",
    "Admission (quota, LimitRange, Pod Security, ServiceAccount, PriorityClass, a webhook) or validation refuses them: "
    "they are not pending, and no scheduler or autoscaler ever sees them. The controller retries less and less often.",
    "Change what the message names: the pod template, or the limits of the namespace",
    "pkg/controller/replicaset/replica_set.go, manageReplicas",
)
RULES = (REFUSED,)


def creation_section(audited: AuditedCluster) -> CreationSection:
    """The section about all workloads, by their conditions and the events about them."""
    failing = CreationFailures(audited.cluster, audited.now).report_current()
    return CreationSection(
        title="Pods that could not be created",
        headline=_headline(failing),
        workloads=failing,
        **build_verdict(RULES, map(_finding, failing), _unknown(audited)),
    )


def _unknown(audited: AuditedCluster) -> Iterator[UnknownKind]:
    """What a claim that nothing is refused leans on."""
    for unknown in find_unread_kinds(audited.cluster):
        yield replace(unknown, affects=VERDICT)


def _finding(not_created: NotCreated) -> Finding:
    namespace = not_created.workload.partition(" ")[2].partition("/")[0]
    return REFUSED.build_finding(not_created.workload, not_created.headline, namespace=namespace)


def _headline(workloads: Sequence[NotCreated]) -> str:
    if not workloads:
        return "nothing that says that a pod could not be created"
    pods = sum(workload.missing or 0 for workload in workloads)
    unsized = sum(workload.missing is None for workload in workloads)
    how_many = counted(pods, "pod") + (" and more" if unsized else "") if pods else "pods"
    return f"{how_many} of {counted(len(workloads), 'workload')} could not be created"
