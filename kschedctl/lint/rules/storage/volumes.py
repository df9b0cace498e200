"""Rules about volumes that the API server rejects, that bind where no pod can run, or that no claim can be bound to.

Upstream: checkVolumeSatisfyClaim in pkg/controller/volume/persistentvolume/pv_controller.go (v1.36).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.json_values import field_at
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kschedctl.lint.analysis.placement import get_volume_node_terms
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.amounts import parse_valid_quantities
from kschedctl.lint.objects.subject import Path, Problem, Subject

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
