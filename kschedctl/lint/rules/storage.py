"""Rules about the claims, StorageClasses and Services that workloads refer to, and about volumes.

Upstream: checkVolumeSatisfyClaim in pkg/controller/volume/persistentvolume/pv_controller.go (v1.36).
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.json_values import field_at, text_at
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, SelectorRequirement, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import (
    HARD,
    get_volume_node_terms,
    iter_storage_class_names,
    iter_unbound_claim_specs,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject, join_names
from kschedctl.lint.objects.workload import parse_valid_quantities
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.snapshot.nodes import ZONE


def find_missing_claims_and_storage_classes(context: LintContext) -> Iterator[Problem]:
    """Find references to claims and StorageClasses that do not exist in the cluster or the manifests.

    A StorageClass is not reported if a volume names it. Kinds that were not fully read are not checked. StorageClasses
    are checked only if the volumes were fully read, too.
    """
    yield from _find_missing_claims(context)
    class_names = context.list_existing_storage_classes()
    if class_names is None:
        return
    claims = context.list_linted_objects(PersistentVolumeClaim)
    for subject, path, name in iter_storage_class_names(claims, context.workloads):
        if name and name not in class_names:
            fix = _suggest_name(name, class_names)
            yield subject.build_problem(path, f'storageclass.storage.k8s.io "{name}" not found', fix)


VL_MISSING = Rule(
    "vl-missing",
    ERROR,
    find_missing_claims_and_storage_classes,
    summary="A PersistentVolumeClaim or StorageClass that does not exist",
    why="The pods stay Pending until the claim or class is created.",
    fix="Create the object, or correct the name",
    source="pkg/scheduler/framework/plugins/volumebinding (v1.36)",
    needs_cluster=True,
)


def _find_missing_claims(context: LintContext) -> Iterator[Problem]:
    """Yield a problem for each workload volume whose claim does not exist.

    Yields nothing unless all claims are known.
    """
    if not context.are_all_read("PersistentVolumeClaim"):
        return
    all_claims = context.list_all_objects(PersistentVolumeClaim)
    existing_claims = {(claim.metadata.namespace or "default", claim.metadata.name) for claim in all_claims}
    for workload in context.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            claim_name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
            if claim_name and (workload.namespace, claim_name) not in existing_claims:
                path = ("volumes", i, "persistentVolumeClaim", "claimName")
                names_in_namespace = [name for namespace, name in existing_claims if namespace == workload.namespace]
                fix = _suggest_name(claim_name, names_in_namespace)
                yield workload.build_problem(path, f'persistentvolumeclaim "{claim_name}" not found', fix)


_MIN_SIMILARITY = 0.8


def _suggest_name(name: str, existing_names: Iterable[str]) -> str:
    """Suggest the existing name that a missing one resembles, or return "" if none is similar."""
    similar_names = difflib.get_close_matches(name, sorted(existing_names), 1, _MIN_SIMILARITY)
    return f"Create the object, or did you mean {similar_names[0]}?" if similar_names else ""


def find_rollouts_that_share_a_volume(context: LintContext) -> Iterator[Problem]:
    """Find workloads with one replica whose rollout starts a new pod while the old one uses the volume.

    Only claims that one pod or one node at a time can use are considered.
    """
    for workload in context.workloads:
        surge = workload.compute_rollout_limits().surge
        if workload.highest_replicas != 1 or not surge:
            continue
        for i, claim in context.iter_claims(workload):
            user = describe_exclusive_user(claim)
            if user:
                message = (
                    f"only one {user} can use claim {claim.metadata.name}, but a rollout starts the new pod before the "
                    "old one stops"
                )
                yield workload.build_problem(("volumes", i), message)


VL_RWO_ROLLING = Rule(
    "vl-rwo-rolling",
    WARNING,
    find_rollouts_that_share_a_volume,
    summary="One replica with a single-node volume, and a rollout that starts the new pod first",
    why="If the new pod is placed on another node, the volume cannot be attached to that node. The old pod stays "
    "until the new pod is ready, so the rollout never ends.",
    fix="Set strategy.type: Recreate, or use a StatefulSet",
    source=f"{doc.VOLUMES}; https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy",
)


def find_stateful_sets_without_service(context: LintContext) -> Iterator[Problem]:
    """Find StatefulSets whose serviceName names a Service that does not exist.

    Finds nothing unless all Services are known. Without a cluster, only namespaces for which the manifests have a
    Service are checked.
    """
    if not context.are_all_read("Service"):
        return
    services = {
        (subject.namespace or "default", subject.name) for subject in context.subjects if subject.kind == "Service"
    }
    if context.cluster is not None:
        services |= {
            (service.metadata.namespace or "default", service.metadata.name) for service in context.cluster.services
        }
    namespaces_with_service = {namespace for namespace, _ in services}
    for workload in context.workloads:
        if workload.kind != "StatefulSet":
            continue
        if context.cluster is None and workload.namespace not in namespaces_with_service:
            continue
        name = text_at(workload.subject.document, "spec", "serviceName")
        if name and (workload.namespace, name) not in services:
            message = f'Service "{name}" does not exist, so its pods get no DNS names'
            yield workload.subject.build_problem(("spec", "serviceName"), message)


SS_NO_SERVICE = Rule(
    "ss-no-service",
    WARNING,
    find_stateful_sets_without_service,
    summary="A StatefulSet whose Service does not exist",
    why="The pods get no stable DNS names, so they cannot find each other. Checked only with a cluster, or if the "
    "manifests have Services in the namespace.",
    fix="Create a headless Service of that name, or correct serviceName",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#limitations",
)


NO_PROVISIONER = "kubernetes.io/no-provisioner"
_STATIC_CLASS_NAMES = ("", "manual")
"""Names of StorageClasses that need not exist, because upstream's examples use them for static volumes."""
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def find_local_volumes_without_affinity(context: LintContext) -> Iterator[Problem]:
    """Find local volumes without node affinity, which the API server rejects."""
    for subject, volume in context.list_linted_objects(PersistentVolume):
        if field_at(subject.document, "spec", "local") is not None and not get_volume_node_terms(volume):
            message = "spec.nodeAffinity: Required value: Local volume requires node affinity"
            yield subject.build_problem(("spec", "local"), message)


VL_LOCAL_UNPINNED = Rule(
    "vl-local-unpinned",
    ERROR,
    find_local_volumes_without_affinity,
    summary="A local PersistentVolume without nodeAffinity",
    why="The API server rejects the volume, since the scheduler could not know which node has the disk.",
    fix="Add nodeAffinity for the kubernetes.io/hostname of the node that has the disk",
    source=f"https://kubernetes.io/docs/concepts/storage/volumes/#local; {doc.VALIDATION}",
)


def find_local_classes_binding_immediately(context: LintContext) -> Iterator[Problem]:
    """Find StorageClasses without a provisioner whose claims are bound immediately.

    The volume is then chosen before it is known where the pod can run.
    """
    for subject, storage_class in context.list_linted_objects(StorageClass):
        if storage_class.provisioner == NO_PROVISIONER and storage_class.volume_binding_mode in (None, "Immediate"):
            message = "claims are bound to any node's volume before it is known where the pod can run"
            fix = "Write volumeBindingMode: WaitForFirstConsumer"
            yield subject.build_problem(("volumeBindingMode",), message, fix)


VL_LOCAL_IMMEDIATE = Rule(
    "vl-local-immediate",
    WARNING,
    find_local_classes_binding_immediately,
    summary="A StorageClass of local volumes with volumeBindingMode: Immediate",
    why="A claim is bound to the volume of some node before the scheduler considers its pod. If that node lacks the "
    "room or the labels that the pod needs, the pod stays Pending.",
    fix="Set volumeBindingMode: WaitForFirstConsumer",
    source=doc.STORAGE,
)


def find_unbindable_claims(context: LintContext) -> Iterator[Problem]:
    """Find unbound claims that cannot be bound to any of the existing volumes.

    A claim that names a volume is reported if it does not match this volume. Any other claim is reported if nothing
    provisions volumes of its StorageClass and none of the available volumes of the class matches it. It is not reported
    if no volume of the class is available.
    """
    volume_items = context.list_all_items(PersistentVolume)
    if not volume_items:
        return
    for subject, claim in context.list_linted_objects(PersistentVolumeClaim):
        if claim.status.phase == "Bound":
            continue
        volumes: list[PersistentVolume] = context.list_coexisting_values(subject, volume_items)
        if claim.spec.volume_name:
            yield from _find_problem_with_named_volume(subject, claim, volumes)
        else:
            yield from _find_problem_with_static_class(context, subject, claim, volumes)


VL_NEVER_BINDS = Rule(
    "vl-never-binds",
    WARNING,
    find_unbindable_claims,
    summary="A PersistentVolumeClaim that does not match the volume meant for it",
    why="The claim and its pods stay Pending. Checked only if the claim names the volume, or if nothing provisions "
    "volumes of its class.",
    fix="Make storageClassName, size, accessModes and volumeMode of claim and volume match",
    source="pkg/controller/volume/persistentvolume/pv_controller.go (v1.36)",
)


def _find_problem_with_named_volume(
    subject: Subject, claim: PersistentVolumeClaim, volumes: list[PersistentVolume]
) -> Iterator[Problem]:
    """Yield a problem if a claim cannot be bound to the volume that it names.

    Yields nothing if the volume is not known.
    """
    name = claim.spec.volume_name
    volume = next((volume for volume in volumes if volume.metadata.name == name), None)
    mismatch = _find_named_volume_mismatch(subject, claim, volume) if volume is not None else None
    if mismatch is not None:
        yield subject.build_problem(mismatch.path, f"volume {name} is never bound to it: {mismatch.reason}")


def _find_problem_with_static_class(
    context: LintContext, subject: Subject, claim: PersistentVolumeClaim, volumes: list[PersistentVolume]
) -> Iterator[Problem]:
    """Yield a problem if a claim matches none of the available volumes of its static class.

    A class is static if nothing provisions volumes of it. Yields nothing if no volume is available.
    """
    class_name = claim.spec.storage_class_name
    volumes_of_class = [volume for volume in volumes if volume.spec.storage_class_name == class_name]
    available = list(filter(_is_volume_available, volumes_of_class))
    mismatches = list(filter(None, (_find_claim_volume_mismatch(claim, volume) for volume in available)))
    has_matching_volume = len(mismatches) < len(available)
    if not available or has_matching_volume:
        return
    if _is_static_class(context, subject, class_name):
        path, reason = mismatches[0]
        message = f"no volume of its class matches ({available[0].metadata.name}, for example: {reason})"
        yield subject.build_problem(path, message)


class _Mismatch(NamedTuple):
    """The reason why a claim does not match a volume."""

    path: Path
    """The field of the claim."""
    reason: str


def _is_volume_available(volume: PersistentVolume) -> bool:
    """Return whether the volume is neither bound to a claim nor reserved for one."""
    return volume.spec.claim_ref is None and volume.status.phase in ("", "Available")


def _find_named_volume_mismatch(
    subject: Subject, claim: PersistentVolumeClaim, volume: PersistentVolume
) -> _Mismatch | None:
    """Find the reason why a claim cannot be bound to the volume that it names. Return None if it can be bound.

    As in upstream, nothing else is compared if the volume is reserved for the claim.
    """
    claim_ref = volume.spec.claim_ref
    if claim_ref is not None:
        if (claim_ref.namespace or "default", claim_ref.name) == (subject.namespace or "default", subject.name):
            return None
        return _Mismatch(("spec", "volumeName"), f"it is reserved for {claim_ref.namespace}/{claim_ref.name}")
    class_name = claim.spec.storage_class_name
    if class_name is not None and class_name != volume.spec.storage_class_name:
        reason = f'storageClassName does not match: the volume has "{volume.spec.storage_class_name}"'
        return _Mismatch(("spec", "storageClassName"), reason)
    return _find_claim_volume_mismatch(claim, volume)


def _find_claim_volume_mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> _Mismatch | None:
    """Return the first mismatch of a claim and a volume in size, volumeMode or accessModes, or None."""
    request = parse_valid_quantities(claim.spec.resources.requests).get("storage")
    capacity = parse_valid_quantities(volume.spec.capacity).get("storage")
    if request is not None and capacity is not None and capacity < request:
        reason = f"requested PV is too small: it has {capacity}"
        return _Mismatch(("spec", "resources", "requests", "storage"), reason)
    volume_mode = volume.spec.volume_mode or "Filesystem"
    if (claim.spec.volume_mode or "Filesystem") != volume_mode:
        return _Mismatch(("spec", "volumeMode"), f"incompatible volumeMode: the volume has {volume_mode}")
    missing_modes = [mode for mode in claim.spec.access_modes if mode not in volume.spec.access_modes]
    if missing_modes:
        volume_modes = ", ".join(volume.spec.access_modes)
        reason = f"incompatible accessMode: it needs {', '.join(missing_modes)}, and the volume has {volume_modes}"
        return _Mismatch(("spec", "accessModes"), reason)
    return None


def _is_static_class(context: LintContext, subject: Subject, name: str | None) -> bool:
    """Return whether nothing provisions volumes of the class.

    A class that does not exist is static only if its name is "" or ``manual`` and all classes are known.
    """
    items = [item for item in context.list_all_items(StorageClass) if item.subject.name == name]
    classes = context.list_coexisting_values(subject, items)
    if classes:
        return all(storage_class.provisioner == NO_PROVISIONER for storage_class in classes)
    return name in _STATIC_CLASS_NAMES and context.are_all_read("StorageClass")


def find_claims_without_default_class(context: LintContext) -> Iterator[Problem]:
    """Find claims without a StorageClass if the cluster, or else their folder of manifests, has no default class.

    Claims that may be bound to an existing volume are left out, and so are claims in folders without any StorageClass.
    """
    if context.cluster is not None:
        yield from _find_claims_without_default_class_in_cluster(context)
        return
    classes, volumes = context.list_linted_objects(StorageClass), context.list_linted_objects(PersistentVolume)
    if not classes:
        return
    for subject, claim in context.list_linted_objects(PersistentVolumeClaim):
        if claim.spec.storage_class_name is not None or claim.spec.volume_name:
            continue
        folder_items = [item for item in classes if _get_folder(item.subject) == _get_folder(subject)]
        folder_classes: list[StorageClass] = context.list_coexisting_values(subject, folder_items)
        if not folder_classes or any(map(_is_default_class, folder_classes)):
            continue
        if not context.list_coexisting_values(subject, volumes):
            names = ", ".join(storage_class.metadata.name for storage_class in folder_classes)
            message = f"the claim names no StorageClass, and no class in its folder is the default ({names})"
            yield subject.build_problem(("spec",), message)


def _find_claims_without_default_class_in_cluster(context: LintContext) -> Iterator[Problem]:
    """Find claims and claim templates without a StorageClass if neither cluster nor manifests have a default class.

    Finds nothing if some volume without a class is free, because the claims may be bound to this volume. Finds nothing
    either unless all claims, classes and volumes are known.
    """
    if not context.are_all_read("StorageClass", "PersistentVolume", "PersistentVolumeClaim"):
        return
    classes = context.list_all_objects(StorageClass)
    volumes = context.list_all_objects(PersistentVolume)
    has_default_class = any(map(_is_default_class, classes))
    has_free_volume = any(not (volume.spec.storage_class_name or volume.spec.claim_ref) for volume in volumes)
    if has_default_class or has_free_volume:
        return
    names = join_names(sorted(storage_class.metadata.name for storage_class in classes))
    cluster_has = f"no StorageClass is the default: {names}" if classes else "the cluster has no StorageClass"
    claims = context.cluster.persistent_volume_claims if context.cluster else ()
    bound_names = {f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in claims if claim.spec.volume_name}
    linted_claims = context.list_linted_objects(PersistentVolumeClaim)
    for claim_spec in iter_unbound_claim_specs(linted_claims, context.workloads, bound_names):
        if not claim_spec.is_class_given:
            claim = "the claim" if claim_spec.path == ("spec",) else "the claim template"
            message = f"{claim} names no StorageClass, and {cluster_has}"
            yield claim_spec.subject.build_problem(claim_spec.path, message)


VL_NO_DEFAULT = Rule(
    "vl-no-default",
    WARNING,
    find_claims_without_default_class,
    summary="A PersistentVolumeClaim without a StorageClass although no class is the default",
    why="No volume is provisioned: the claim and its pods stay Pending until a class becomes the default. Checked "
    "with a cluster or, without one, only if StorageClasses are in the same folder.",
    fix='Set storageClassName, or annotate a class with storageclass.kubernetes.io/is-default-class: "true"',
    source="https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass",
)


def _get_folder(subject: Subject) -> str:
    """Return the folder of an object's file. Classes in other folders may be for other clusters.

    Return "" if the file is unknown.
    """
    return posixpath.dirname(subject.location.file) if subject.location else ""


def _is_default_class(storage_class: StorageClass) -> bool:
    """Return whether the class is annotated as the default."""
    return any(storage_class.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)


ZONAL_PROVISIONERS = frozenset(
    {
        "ebs.csi.aws.com",
        "pd.csi.storage.gke.io",
        "disk.csi.azure.com",
        "cinder.csi.openstack.org",
        "disk.csi.aliyun.com",
        "kubernetes.io/aws-ebs",
        "kubernetes.io/gce-pd",
        "kubernetes.io/azure-disk",
        "kubernetes.io/cinder",
    }
)
"""Provisioners of volumes that exist in one zone only."""

SINGLE_NODE_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def find_immediate_zonal_classes(context: LintContext) -> Iterator[Problem]:
    """Find StorageClasses of zonal provisioners that bind volumes immediately.

    Only known provisioners are considered. Finds nothing if the nodes are in fewer than two zones.
    """
    zone_count = context.facts.count_domains(ZONE, context.facts.get_nodes_with_label(ZONE))
    if zone_count < 2:
        return
    for subject, storage_class in context.list_linted_objects(StorageClass):
        is_immediate = storage_class.volume_binding_mode in (None, "Immediate")
        if is_immediate and storage_class.provisioner in ZONAL_PROVISIONERS:
            message = f"volumes are created in any of {zone_count} zones before it is known where the pod can run"
            yield subject.build_problem(("volumeBindingMode",), message)


VL_IMMEDIATE_MULTIZONE = Rule(
    "vl-immediate-multizone",
    WARNING,
    find_immediate_zonal_classes,
    summary="volumeBindingMode: Immediate for zonal volumes in a cluster of several zones",
    why="The volume may be created in a zone where the pod cannot run. The pod then stays Pending (volume node "
    "affinity conflict).",
    fix="Set volumeBindingMode: WaitForFirstConsumer",
    source=doc.STORAGE,
    needs_cluster=True,
)


def find_shared_single_node_volumes(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with several replicas that share a volume which only one pod, node or zone can use.

    A volume in one zone is reported only if the replicas have to spread across zones.
    """
    volumes = {volume.metadata.name: volume for volume in context.list_all_objects(PersistentVolume)}
    for workload in context.workloads:
        if not workload.is_serving_replicas:
            continue
        constraints = workload.spec.topology_spread_constraints
        has_hard_zone_spread = any(
            constraint.topology_key == ZONE and constraint.when_unsatisfiable == HARD for constraint in constraints
        )
        for i, claim in context.iter_claims(workload):
            path: Path = ("volumes", i)
            user = describe_exclusive_user(claim)
            if user:
                message = (
                    f"{workload.highest_replicas_text} share claim {claim.metadata.name}, which only one {user} can use"
                )
                yield workload.build_problem(path, message)
            volume = volumes.get(claim.spec.volume_name)
            if volume is not None and has_hard_zone_spread and _has_one_zone_per_term(volume):
                message = f"volume {volume.metadata.name} is in one zone, but the replicas have to spread across zones"
                yield workload.build_problem(path, message)


VL_RWO_WITH_HARD_SPREAD = Rule(
    "vl-rwo-with-hard-spread",
    WARNING,
    find_shared_single_node_volumes,
    summary="Replicas that share a volume that only one node or zone can use",
    why="All replicas have to run where the volume is. Replicas elsewhere stay Pending or in ContainerCreating, "
    "in some cases only after the next drain or rollout.",
    fix="Use a StatefulSet with volumeClaimTemplates, or a ReadWriteMany volume",
    source=f"{doc.VOLUMES}; https://github.com/kubernetes/kubernetes/issues/116629",
)


def describe_exclusive_user(claim: PersistentVolumeClaim) -> str:
    """Return ``pod`` or ``node`` if only one pod or node can use a claim at the same time, otherwise ""."""
    modes = claim.spec.access_modes
    if not modes or any(mode not in SINGLE_NODE_MODES for mode in modes):
        return ""
    return "pod" if modes == ("ReadWriteOncePod",) else "node"


def _has_one_zone_per_term(volume: PersistentVolume) -> bool:
    """Return whether each term of the volume's node affinity allows exactly one zone.

    Returns False for a volume without terms.
    """

    def names_one_zone(expression: SelectorRequirement) -> bool:
        """Return whether the expression allows a single value of a zone label."""
        return "zone" in expression.key and expression.operator == "In" and len(expression.values or ()) == 1

    terms = get_volume_node_terms(volume)
    return bool(terms) and all(any(map(names_one_zone, term.match_expressions)) for term in terms)
