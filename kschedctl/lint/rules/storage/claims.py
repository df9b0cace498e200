"""Rules about claims, StorageClasses and Services that workloads name."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.json_values import text_at
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kschedctl.lint.analysis.placement import iter_storage_class_names
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.rules.storage.attachment import SINGLE_NODE_MODES


def find_missing_storage(context: LintContext) -> Iterator[Problem]:
    """Find names of claims and StorageClasses that do not exist in the cluster or the manifests."""
    yield from _find_missing_claims(context)
    if context.are_all_read("StorageClass", "PersistentVolume"):
        names = {storage_class.metadata.name for storage_class in context.list_all(StorageClass)}
        names |= {volume.spec.storage_class_name for volume in context.list_all(PersistentVolume)}
        for subject, path, name in iter_storage_class_names(
            context.list_linted(PersistentVolumeClaim), context.workloads
        ):
            if name and name not in names:
                yield subject.build_problem(path, f'storageclass.storage.k8s.io "{name}" not found')


VL_MISSING = Rule(
    "vl-missing",
    ERROR,
    find_missing_storage,
    summary="A claim or StorageClass that does not exist",
    why="The pods stay Pending until it is created.",
    fix="Create it, or correct the name",
    source="pkg/scheduler/framework/plugins/volumebinding (v1.36)",
    needs_cluster=True,
)


def _find_missing_claims(context: LintContext) -> Iterator[Problem]:
    """Yield a problem for each volume of a workload whose claim does not exist."""
    if not context.are_all_read("PersistentVolumeClaim"):
        return
    existing = {(c.metadata.namespace or "default", c.metadata.name) for c in context.list_all(PersistentVolumeClaim)}
    for workload in context.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            source = volume.persistent_volume_claim
            if source is not None and source.claim_name and (workload.namespace, source.claim_name) not in existing:
                path = ("volumes", i, "persistentVolumeClaim", "claimName")
                yield workload.build_problem(path, f'persistentvolumeclaim "{source.claim_name}" not found')


def find_rollouts_that_share_a_volume(context: LintContext) -> Iterator[Problem]:
    """Find workloads with one replica and a single-node volume whose update starts the new pod first."""
    for workload in context.workloads:
        surge, _ = workload.compute_surge()
        for i, claim in context.iter_claims(workload) if workload.highest_replicas == 1 and surge else ():
            modes = claim.spec.access_modes
            if modes and all(mode in SINGLE_NODE_MODES for mode in modes):
                users = "pod" if modes == (SINGLE_NODE_MODES[1],) else "node"
                message = (
                    f"claim {claim.metadata.name} is for one {users}, but an update starts the new pod before the old "
                    "one is gone"
                )
                yield workload.build_problem(("volumes", i), message)


VL_RWO_ROLLING = Rule(
    "vl-rwo-rolling",
    WARNING,
    find_rollouts_that_share_a_volume,
    summary="One replica with a single-node volume, and an update that starts the new pod first",
    why="The new pod goes to another node, where the volume cannot be attached, and the old one stays until the "
    "new one is ready: the update never ends.",
    fix="Set strategy.type: Recreate, or use a StatefulSet",
    source=f"{doc.VOLUMES}; https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy",
)


def find_stateful_sets_without_service(context: LintContext) -> Iterator[Problem]:
    """Find StatefulSets whose serviceName no Service has.

    Without a cluster, only namespaces for which the manifests have a Service are checked.
    """
    services = {(s.namespace or "default", s.name) for s in context.subjects if s.kind == "Service"}
    if context.cluster is not None:
        services |= {(s.metadata.namespace or "default", s.metadata.name) for s in context.cluster.services}
    namespaces = {namespace for namespace, _ in services}
    for workload in context.workloads if context.are_all_read("Service") else ():
        if workload.kind != "StatefulSet" or (context.cluster is None and workload.namespace not in namespaces):
            continue
        name = text_at(workload.subject.document, "spec", "serviceName")
        if name and (workload.namespace, name) not in services:
            message = f'there is no Service "{name}": its pods have no names in DNS'
            yield workload.subject.build_problem(("spec", "serviceName"), message)


SS_NO_SERVICE = Rule(
    "ss-no-service",
    WARNING,
    find_stateful_sets_without_service,
    summary="A StatefulSet whose Service does not exist",
    why="Its pods get no stable names, so its members do not find each other. Checked against the cluster, or "
    "where the manifests have Services in its namespace.",
    fix="Create a headless Service of that name, or correct serviceName",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#limitations",
)
