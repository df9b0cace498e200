"""The objects that controllers and admission create from applied manifests.

Upstream: the controllers of pkg/controller/volume/ephemeral, pkg/controller/resourceclaim and
pkg/controller/volume/persistentvolume, and the admission plugins Priority, DefaultTolerationSeconds and
DefaultStorageClass (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from kschedctl.api.copying import replace
from kschedctl.api.defaults import with_runtime_class_fields
from kschedctl.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    Pod,
    PodResourceClaimStatus,
    ResourceClaim,
    SelectorRequirement,
    StorageClass,
    Struct,
    TypedObjectReference,
    VolumeNodeAffinity,
)
from kschedctl.api.pod_table import NO_PODS
from kschedctl.api.priority import admit_priority
from kschedctl.api.workloads import count_pods, create_pods, format_title
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.pod_defaults import PodDefaults, WorkloadNote
from kschedctl.replay.edits import build_made_up_uid
from kschedctl.scheduler.plugins.helper.volume_listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
)
from kschedctl.scheduler.scheduler import Scheduler


def admit_pod(pod: Pod, cluster: Cluster) -> Pod:
    """Return the pod as the API server would create it.

    Raises InputError if its PriorityClass or RuntimeClass forbids it.
    """
    (pod,) = PodDefaults(cluster).fill_in_pods(f"Pod {pod.key}", [pod])
    return _apply_priority_and_runtime_class(pod, cluster)


def _apply_priority_and_runtime_class(pod: Pod, cluster: Cluster) -> Pod:
    """Return the pod with the settings of its PriorityClass and RuntimeClass.

    Raises InputError if a class does not exist or its settings conflict with the pod's.
    """
    all_known = cluster.find_gap("PriorityClass") is None
    return with_runtime_class_fields(
        admit_priority(pod, cluster.priority_classes, all_classes_known=all_known), cluster.runtime_classes
    )


MAX_PODS = 150_000


"""The maximum number of pods that manifests may create together, as no cluster supports more.
Source: https://kubernetes.io/docs/setup/best-practices/cluster-large/"""


DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass
class Creation:
    """The pods and other objects that workloads create."""

    pods: dict[str, list[Pod]] = field(default_factory=dict)
    """Pods by the title of their workload."""
    objects: dict[str, list[Struct]] = field(default_factory=dict)
    """Other objects by kind."""
    assumptions: list[str] = field(default_factory=list)
    """Assumptions about volumes, as sentences."""
    notes: list[WorkloadNote] = field(default_factory=list)
    """Notes about the defaults and claims of pods."""

    def apply_to(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the created objects but without the pods.

        If there are no created objects, return the same cluster.
        """
        return cluster.with_objects(self.objects) if self.objects else cluster

    def add(self, kind: str, created: Struct) -> None:
        """Add a created object."""
        self.objects.setdefault(kind, []).append(created)


def create_workload_objects(cluster: Cluster, workloads: Iterable[Struct], *, include_denied: bool = False) -> Creation:
    """Create the pods and other objects of workloads in a cluster.

    Pods are as the API server would store them. New volumes and claims of the cluster, which have neither UID nor
    phase, are created as well. With ``include_denied``, the result also has pods that admission denies, and the caller
    has to report these. Raises InputError if there are too many pods or, without ``include_denied``, if admission
    denies a pod.
    """
    workloads = list(workloads)
    _raise_if_too_many_pods(workloads, len(cluster.nodes))
    creation = Creation()

    # Volumes and claims of the cluster that are new
    for volume in filter(_is_new_volume_object, cluster.persistent_volumes):
        creation.add("PersistentVolume", replace(volume, status=PhaseStatus("Available")))
    for claim in filter(_is_new_volume_object, cluster.persistent_volume_claims):
        _create_claim(claim, cluster, creation)

    existing_claims = {(claim.metadata.namespace, claim.metadata.name) for claim in cluster.persistent_volume_claims}
    defaults = PodDefaults(cluster)
    view = Scheduler(replace(cluster, pods=NO_PODS, nodes=())).view  # only for its settings
    for workload in workloads:
        workload_objects = create_pods(workload, cluster.nodes)
        title = workload_objects.workload
        if workload_objects.owner:
            creation.add(*workload_objects.owner)

        # The claims of its pods
        pods = [_ensure_uid(pod) for pod in workload_objects.pods]
        ephemeral_claims = chain.from_iterable(map(_iter_ephemeral_claims, pods))
        for claim in (*workload_objects.claims, *ephemeral_claims):
            if (claim.metadata.namespace, claim.metadata.name) not in existing_claims:
                _create_claim(claim, cluster, creation)
        pods = [_add_resource_claims(pod, cluster, creation) for pod in pods]

        # Its pods
        try:
            pods = defaults.fill_in_pods(title, pods)
            pods = [_apply_priority_and_runtime_class(pod, cluster) for pod in pods]
        except InputError as error:
            if not include_denied:
                raise InputError(error.what, where=title, hint=error.hint) from None
            # Denied pods are created without the values that admission would set.
        stored_pods = [view.merge_label_keys(view.build_stored_pod(pod)) for pod in pods]
        creation.pods.setdefault(title, []).extend(stored_pods)
    creation.notes += defaults.notes
    return creation


def _raise_if_too_many_pods(workloads: Sequence[Struct], nodes: int) -> None:
    """Raise an InputError that names the largest workload if the workloads create more than MAX_PODS pods.

    `nodes` is the number of nodes, on which the pods of DaemonSets depend.
    """
    counts = [count_pods(workload, nodes) for workload in workloads]
    if sum(counts) > MAX_PODS:
        largest_count = max(counts)
        largest = workloads[counts.index(largest_count)]
        message = f"{largest_count:,} pods, {sum(counts):,} with all manifests, are too many to simulate"
        hint = f"the limit is {MAX_PODS:,} pods, as many as a cluster supports"
        raise InputError(message, where=format_title(largest), hint=hint)


def _is_new_volume_object(volume_object: PersistentVolume | PersistentVolumeClaim) -> bool:
    """Return whether the volume or claim has neither UID nor phase, so that it is new to the API server."""
    return not (volume_object.metadata.uid or volume_object.status.phase)


def _ensure_uid(pod: Pod) -> Pod:
    """Return the pod with a UID, so that its objects can refer to it."""
    return pod if pod.metadata.uid else replace(pod, metadata=replace(pod.metadata, uid=build_made_up_uid(pod)))


# -- volumes ------------------------------------------------------------------------------------------------------


def _iter_ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims of the pod's generic ephemeral volumes."""
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is not None and template.spec is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            meta = ObjectMeta(name, pod.metadata.namespace, owner_references=(_build_owner_reference(pod),))
            yield PersistentVolumeClaim(meta, template.spec)


def _create_claim(claim: PersistentVolumeClaim, cluster: Cluster, creation: Creation) -> None:
    """Add a claim to the creation, and also its volume if its class provisions volumes immediately.

    A claim without a class gets the default class. The volume is assumed to be reachable wherever the class allows, and
    this assumption is recorded.
    """
    claim = _with_default_class(claim, cluster)
    class_name = get_claim_class(claim)
    storage_class = next(
        (candidate for candidate in cluster.storage_classes if candidate.metadata.name == class_name), None
    )
    if storage_class is not None and not claim.spec.volume_name and _provisions_immediately(storage_class):
        volume = _build_provisioned_volume(claim, storage_class)
        claim = _bind_claim(claim, volume)
        creation.add("PersistentVolume", volume)
        reachable_from = "in its topologies" if volume.spec.node_affinity else "from every node"
        creation.assumptions.append(
            f"the volume that class {class_name} makes for claim {format_claim_key(claim)} can be reached "
            f"{reachable_from}"
        )
    creation.add("PersistentVolumeClaim", claim)


def _with_default_class(claim: PersistentVolumeClaim, cluster: Cluster) -> PersistentVolumeClaim:
    """Return the claim as the admission plugin DefaultStorageClass stores it: with the default class if it has none."""
    if get_claim_class(claim) or claim.spec.storage_class_name is not None:
        return claim
    default = find_default_storage_class(cluster.storage_classes)
    return replace(claim, spec=replace(claim.spec, storage_class_name=default)) if default else claim


def _bind_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """Return the claim as it is once it is bound to the volume."""
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    return PersistentVolumeClaim(
        replace(claim.metadata, annotations=annotations),
        replace(claim.spec, volume_name=volume.metadata.name),
        PhaseStatus("Bound"),
    )


def find_default_storage_class(classes: Sequence[StorageClass]) -> str | None:
    """Return the name of the default StorageClass for claims, or None if no class is marked as default.

    If several classes are marked, the newest one is the default. Among equally new classes, the first by name is the
    default.
    """
    created_by_name = {
        storage_class.metadata.name: storage_class.metadata.creation_timestamp or ""
        for storage_class in classes
        if storage_class.metadata.annotations.get(DEFAULT_CLASS) == "true"
    }
    newest = max(created_by_name.values(), default="")
    return min((name for name, created in created_by_name.items() if created == newest), default=None)


def _provisions_immediately(storage_class: StorageClass) -> bool:
    """Return whether the class provisions a volume without waiting for a pod."""
    waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return not waits and storage_class.provisioner not in ("", NO_PROVISIONER)


def _build_provisioned_volume(claim: PersistentVolumeClaim, storage_class: StorageClass) -> PersistentVolume:
    """Build the volume that the storage class provisions for the claim."""
    meta = claim.metadata
    terms = tuple(
        NodeSelectorTerm(
            tuple(
                SelectorRequirement(expression.key, "In", expression.values)
                for expression in term.match_label_expressions
            )
        )
        for term in storage_class.allowed_topologies
    )
    spec = PersistentVolumeSpec(
        capacity=claim.spec.resources.requests,
        access_modes=claim.spec.access_modes,
        claim_ref=TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        storage_class_name=storage_class.metadata.name,
        volume_mode=claim.spec.volume_mode,
        node_affinity=VolumeNodeAffinity(NodeSelector(terms)) if terms else None,
    )
    return PersistentVolume(ObjectMeta(f"pvc-{meta.namespace}-{meta.name}"), spec, PhaseStatus("Bound"))


# -- devices ------------------------------------------------------------------------------------------------------


def _add_resource_claims(pod: Pod, cluster: Cluster, creation: Creation) -> Pod:
    """Add ResourceClaims from the pod's templates to the creation, and return the pod with them in its status."""
    created = tuple(_iter_resource_claims(pod, cluster))
    if not created:
        return pod
    for _, claim in created:
        creation.add("ResourceClaim", claim)
    statuses = (*pod.status.resource_claim_statuses, *(status for status, _ in created))
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))


def _iter_resource_claims(pod: Pod, cluster: Cluster) -> Iterator[tuple[PodResourceClaimStatus, ResourceClaim]]:
    """Yield the ResourceClaims that are created from templates for the pod, each with its entry in the pod's status.

    Claims that the status already names are left out, and so are claims whose template was not read.
    """
    existing_names = {status.name for status in pod.status.resource_claim_statuses}
    meta = pod.metadata
    templates_by_name = {
        template.metadata.name: template
        for template in cluster.resource_claim_templates
        if template.metadata.namespace == meta.namespace
    }
    for reference in pod.spec.resource_claims:
        template = templates_by_name.get(reference.resource_claim_template_name or "")
        if template is not None and reference.name not in existing_names:
            name = f"{meta.name}-{reference.name}"
            claim_meta = ObjectMeta(name, meta.namespace, owner_references=(_build_owner_reference(pod),))
            yield PodResourceClaimStatus(reference.name, name), ResourceClaim(claim_meta, template.spec.spec)


def _build_owner_reference(pod: Pod) -> OwnerReference:
    """Return a reference to the pod as owner and controller."""
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)
