"""Rules about the claims, StorageClasses and Services that workloads name, and about volumes.

Upstream: checkVolumeSatisfyClaim in pkg/controller/volume/persistentvolume/pv_controller.go (v1.36).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.json_values import field_at, text_at
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import get_volume_node_terms, iter_storage_class_names
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import parse_valid_quantities
from kschedctl.lint.rule import ERROR, WARNING, Rule
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
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_STATIC_CLASS_NAMES = ("", "manual")
"""Names of StorageClasses that need not exist, as upstream's examples write them."""
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def find_local_volumes_without_affinity(context: LintContext) -> Iterator[Problem]:
    """Find local volumes without node affinity, which the API server rejects."""
    for subject, volume in context.list_linted(PersistentVolume):
        if field_at(subject.document, "spec", "local") is not None and not get_volume_node_terms(volume):
            message = "spec.nodeAffinity: Required value: Local volume requires node affinity"
            yield subject.build_problem(("spec", "local"), message)


VL_LOCAL_UNPINNED = Rule(
    "vl-local-unpinned",
    ERROR,
    find_local_volumes_without_affinity,
    summary="A local volume without nodeAffinity",
    why="The API server refuses it: nothing would tell the scheduler on which node the disk is.",
    fix="Add nodeAffinity with kubernetes.io/hostname of the node that has the disk",
    source=f"https://kubernetes.io/docs/concepts/storage/volumes/#local; {doc.VALIDATION}",
)


def find_immediate_local_classes(context: LintContext) -> Iterator[Problem]:
    """Find StorageClasses without a provisioner that bind immediately."""
    for subject, storage_class in context.list_linted(StorageClass):
        if storage_class.provisioner == NO_PROVISIONER and storage_class.volume_binding_mode in (None, "Immediate"):
            message = "claims are bound to any node's volume before it is known where the pod can run"
            yield subject.build_problem(
                ("volumeBindingMode",), message, "Write volumeBindingMode: WaitForFirstConsumer"
            )


VL_LOCAL_IMMEDIATE = Rule(
    "vl-local-immediate",
    WARNING,
    find_immediate_local_classes,
    summary="A StorageClass of local volumes with immediate binding",
    why="A claim is bound to some node's volume before its pod is looked at: that node may lack the room or the "
    "labels that the pod asks for, and the pod stays Pending.",
    fix="Set volumeBindingMode: WaitForFirstConsumer",
    source=doc.STORAGE,
)


def find_unbindable_claims(context: LintContext) -> Iterator[Problem]:
    """Find unbound claims that cannot be bound to the volume they name or to any volume of their static class."""
    volumes = context.list_all_items(PersistentVolume)
    for subject, claim in context.list_linted(PersistentVolumeClaim) if volumes else ():
        coexisting: list[PersistentVolume] = context.list_coexisting(subject, volumes)
        if claim.status.phase == "Bound":
            continue
        if name := claim.spec.volume_name:
            named = next((volume for volume in coexisting if volume.metadata.name == name), None)
            mismatch = _find_named_volume_mismatch(subject, claim, named) if named is not None else None
            if mismatch is not None:
                yield subject.build_problem(mismatch.path, f"volume {name} is never bound to it: {mismatch.reason}")
            continue
        class_name = claim.spec.storage_class_name
        available = [v for v in coexisting if v.spec.storage_class_name == class_name and _is_available(v)]
        mismatches = [_find_mismatch(claim, volume) for volume in available]
        if not mismatches or mismatches[0] is None or not all(mismatches):
            continue
        if _is_static_class(context, subject, class_name):
            path, reason = mismatches[0]
            message = f"none of the volumes of its class fits, as {available[0].metadata.name}: {reason}"
            yield subject.build_problem(path, message)


VL_NEVER_BINDS = Rule(
    "vl-never-binds",
    WARNING,
    find_unbindable_claims,
    summary="A claim and the volume meant for it that do not match",
    why="The claim stays Pending, and so do its pods. Checked where the claim names the volume, or where nothing "
    "makes volumes of its class.",
    fix="Make class, size, accessModes and volumeMode of the two agree",
    source="pkg/controller/volume/persistentvolume/pv_controller.go (v1.36)",
)


class _Mismatch(NamedTuple):
    """The field in which a claim does not match a volume."""

    path: Path
    reason: str


def _is_available(volume: PersistentVolume) -> bool:
    """Return whether the volume is neither bound nor reserved."""
    return volume.spec.claim_ref is None and volume.status.phase in ("", "Available")


def _find_named_volume_mismatch(
    subject: Subject, claim: PersistentVolumeClaim, volume: PersistentVolume
) -> _Mismatch | None:
    """Return why a claim cannot be bound to the volume that it names, or None.

    Like upstream, this compares nothing else once the volume is reserved for the claim.
    """
    reserved = volume.spec.claim_ref
    if reserved is not None:
        if (reserved.namespace or "default", reserved.name) == (subject.namespace or "default", subject.name):
            return None
        return _Mismatch(("spec", "volumeName"), f"it is kept for {reserved.namespace}/{reserved.name}")
    class_name = claim.spec.storage_class_name
    if class_name is not None and class_name != volume.spec.storage_class_name:
        reason = f'storageClassName does not match, that of the volume is "{volume.spec.storage_class_name}"'
        return _Mismatch(("spec", "storageClassName"), reason)
    return _find_mismatch(claim, volume)


def _find_mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> _Mismatch | None:
    """Return the first field in which a claim does not match a volume, or None."""
    request = parse_valid_quantities(claim.spec.resources.requests).get("storage")
    capacity = parse_valid_quantities(volume.spec.capacity).get("storage")
    if request is not None and capacity is not None and capacity < request:
        reason = f"requested PV is too small, it has {capacity}"
        return _Mismatch(("spec", "resources", "requests", "storage"), reason)
    volume_mode = volume.spec.volume_mode or "Filesystem"
    if (claim.spec.volume_mode or "Filesystem") != volume_mode:
        return _Mismatch(("spec", "volumeMode"), f"incompatible volumeMode, it is {volume_mode}")
    missing_modes = [mode for mode in claim.spec.access_modes if mode not in volume.spec.access_modes]
    if missing_modes:
        modes = ", ".join(volume.spec.access_modes)
        reason = f"incompatible accessMode, it has {modes}, and not {', '.join(missing_modes)}"
        return _Mismatch(("spec", "accessModes"), reason)
    return None


def _is_static_class(context: LintContext, subject: Subject, name: str | None) -> bool:
    """Return whether nothing provisions volumes of the class."""
    classes = context.list_coexisting(
        subject, [i for i in context.list_all_items(StorageClass) if i.subject.name == name]
    )
    if classes:
        return all(storage_class.provisioner == NO_PROVISIONER for storage_class in classes)
    return name in _STATIC_CLASS_NAMES and context.are_all_read("StorageClass")


def find_claims_without_default_class(context: LintContext) -> Iterator[Problem]:
    """Find claims without a StorageClass if no class in the same folder is the default."""
    classes, volumes = context.list_linted(StorageClass), context.list_linted(PersistentVolume)
    for subject, claim in context.list_linted(PersistentVolumeClaim) if classes and context.cluster is None else ():
        if claim.spec.storage_class_name is not None or claim.spec.volume_name:
            continue
        in_folder = [item for item in classes if _get_folder(item.subject) == _get_folder(subject)]
        coexisting: list[StorageClass] = context.list_coexisting(subject, in_folder)
        if not coexisting or any(map(_is_default, coexisting)):
            continue
        if not context.list_coexisting(subject, volumes):
            names = ", ".join(storage_class.metadata.name for storage_class in coexisting)
            message = f"it names no storageClassName, and none of the classes here is the default: {names}"
            yield subject.build_problem(("spec",), message)


VL_NO_DEFAULT = Rule(
    "vl-no-default",
    WARNING,
    find_claims_without_default_class,
    summary="A claim without a StorageClass, where none is the default",
    why="No volume is provisioned: the claim and its pods stay Pending until a class is made the default. Checked "
    "where StorageClasses are in the same folder.",
    fix="Name a class, or annotate one with storageclass.kubernetes.io/is-default-class",
    source="https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass",
)


def _get_folder(subject: Subject) -> str:
    """Return the folder of an object's file. Classes in other folders may be for other clusters."""
    return posixpath.dirname(subject.location.file) if subject.location else ""


def _is_default(storage_class: StorageClass) -> bool:
    """Return whether the class is annotated as the default."""
    return any(storage_class.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)
