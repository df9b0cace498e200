"""Section "creation": pods that workloads want and that the API server does not create."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.ownership import Owner
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.report import CreationSection
from kschedctl.replay.audit_rules import ERROR, AuditRule, build_verdict
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.reports.findings import Finding
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import VERDICT, UnknownKind, describe_unread_kinds
from kschedctl.text.counts import counted

REFUSED = AuditRule(
    "audit-creation-refused",
    ERROR,
    "The API server rejects pods of a workload",
    "Admission (quota, LimitRange, Pod Security, ServiceAccount, PriorityClass, a webhook) or validation rejects "
    "them. They never exist, so they are not pending, and no scheduler or autoscaler sees them. The controller "
    "retries less and less often.",
    "Fix what the message points to: the pod template or the namespace's limits",
    source="pkg/controller/replicaset/replica_set.go, manageReplicas",
)
RULES = (REFUSED,)


def build_creation_section(audited: AuditedCluster) -> CreationSection:
    """Build the section about pods that could not be created, from workloads' conditions and events."""
    not_created = CreationFailures(audited.cluster, audited.now).report_current_failures()
    unread = list(_iter_unread_kinds(audited))
    return CreationSection(
        title="Pods that could not be created",
        headline=_build_headline(not_created, unread),
        workloads=not_created,
        **build_verdict(RULES, map(_build_finding, not_created), unread),
    )


def _iter_unread_kinds(audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the unread kinds without which it is uncertain whether all pods were created."""
    for unknown in find_unread_kinds(audited.cluster):
        yield replace(unknown, affects=VERDICT)


def _build_finding(not_created: NotCreated) -> Finding:
    """Build the finding about a workload whose pods are not created."""
    namespace = Owner.parse(not_created.workload).namespace
    return REFUSED.build_finding(not_created.workload, not_created.headline, namespace=namespace)


def _build_headline(workloads: Sequence[NotCreated], unread: Sequence[UnknownKind]) -> str:
    """Summarize how many pods of how many workloads could not be created.

    The number of pods is left out or called a minimum if it is unknown for some workloads. If no failure is known, but
    kinds were not read, these kinds are named instead.
    """
    if not workloads and unread:
        return f"cannot tell: {describe_unread_kinds(unread)}"
    if not workloads:
        return "no pod creation failure found"
    missing_pods = sum(workload.missing or 0 for workload in workloads)
    has_unknown_number = any(workload.missing is None for workload in workloads)
    if not missing_pods:
        pods_text = "pods"
    elif has_unknown_number:
        pods_text = f"{counted(missing_pods, 'pod')} and more"
    else:
        pods_text = counted(missing_pods, "pod")
    return f"{pods_text} of {counted(len(workloads), 'workload')} could not be created"
